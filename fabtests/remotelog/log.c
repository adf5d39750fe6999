/* SPDX-License-Identifier: BSD-2-Clause */
/* log.c -- the log: where its records are, and which of them are whole */
#include <string.h>

#include <sodium.h>

#include "../common/memory.h"
#include "remotelog.h"

#define LINE 64
#define RECORDS_AT 256

bool remotelog_is_sane(const struct remotelog_layout *layout)
{
	return layout->size >= REMOTELOG_MIN_SIZE && layout->size <= REMOTELOG_MAX_SIZE &&
	       layout->size % 8 == 0 && layout->records >= 1 &&
	       layout->records <= REMOTELOG_MAX_RECORDS;
}

size_t remotelog_stride(const struct remotelog_layout *layout)
{
	return (layout->size + REMOTELOG_TAIL_SIZE + LINE - 1) / LINE * LINE;
}

size_t remotelog_offset(const struct remotelog_layout *layout, uint64_t number)
{
	return RECORDS_AT + (number - 1) * remotelog_stride(layout);
}

size_t remotelog_len(const struct remotelog_layout *layout)
{
	return remotelog_offset(layout, layout->records + 2);
}

static uint64_t checksum(const void *record, size_t size)
{
	/* Against accidents, not against enemies: so the key is no secret. */
	static const unsigned char key[crypto_shorthash_KEYBYTES] = "RemoteLog";
	unsigned char hash[crypto_shorthash_BYTES];
	uint64_t sum;

	crypto_shorthash(hash, record, size - sizeof(sum), key);
	memcpy(&sum, hash, sizeof(sum));
	return sum;
}

static uint64_t load(const void *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

void remotelog_make(void *to, const struct remotelog_layout *layout, uint64_t number)
{
	char *record = to;
	uint64_t sum;

	memcpy(record, &number, sizeof(number));
	pattern_fill(record + 8, layout->size - REMOTELOG_MIN_SIZE, number, 0);
	sum = checksum(record, layout->size);
	memcpy(record + layout->size - sizeof(sum), &sum, sizeof(sum));
	memcpy(record + layout->size, &number, sizeof(number));
}

static bool is_whole(const char *record, const struct remotelog_layout *layout, uint64_t number)
{
	size_t inner = layout->size - REMOTELOG_MIN_SIZE;

	return load(record + layout->size - sizeof(uint64_t)) == checksum(record, layout->size) &&
	       load(record) == number && pattern_check(record + 8, inner, number, 0) == inner;
}

uint64_t remotelog_scan(const void *log, const struct remotelog_layout *layout, bool tails,
			uint64_t *tail)
{
	const char *record = (const char *) log + remotelog_offset(layout, 1);
	size_t stride = remotelog_stride(layout);
	uint64_t count = 0;

	*tail = tails ? 0 : load(log);
	while (count <= layout->records && is_whole(record, layout, count + 1)) {
		if (tails)
			*tail = load(record + layout->size);
		record += stride;
		count++;
	}
	return count;
}
