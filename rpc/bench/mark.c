/* SPDX-License-Identifier: BSD-2-Clause */
/* mark.c -- what is written, and whether it is there; load.h says what has to be true */
#include <string.h>

#include "load.h"

/* At the beginning of each value. */
struct mark {
	uint32_t client;
	uint32_t item;
	uint64_t sequence; /* of the client's writes, from 1 on */
};

/* word -- what follows the mark, 8 bytes at a time */
static uint64_t word(const struct mark *mark, size_t i)
{
	return mark->sequence * 0x9e3779b97f4a7c15 + ((uint64_t) mark->client << 32 | mark->item) +
	       i * 0xc2b2ae3d27d4eb4f;
}

void mark_fill(struct client *client, struct call *call, void *value, uint64_t item)
{
	const struct mark mark = {
		.client = client->id, .item = (uint32_t) item, .sequence = ++client->sequence};
	uint64_t *words = value;

	memcpy(value, &mark, sizeof(mark));
	for (size_t i = sizeof(mark) / 8; i < client->settings->size / 8; i++)
		words[i] = word(&mark, i);
	call->index = item;
	call->sequence = mark.sequence;
	call->kind = KIND_WRITE;
	client->last[item] = (struct last_write){.sequence = mark.sequence, .began = call->began};
}

/* is_whole -- a value that somebody has written to this item, or nobody to any */
static bool is_whole(const struct settings *settings, const void *value, size_t len, uint64_t item,
		     struct mark *mark)
{
	const uint64_t *words = value;
	bool written;

	if (len != settings->size)
		return false;
	memcpy(mark, value, sizeof(*mark));
	written = mark->sequence != 0;
	if (written ? mark->item != (uint32_t) item || mark->client >= settings->clients
		    : words[0] != 0)
		return false;
	for (size_t i = sizeof(*mark) / 8; i < len / 8; i++) {
		if (words[i] != (written ? word(mark, i) : 0))
			return false;
	}
	return true;
}

void mark_check(const struct settings *settings, const void *value, size_t len, uint64_t item)
{
	struct mark mark;

	if (is_whole(settings, value, len, item, &mark))
		return;
	bench_fail("item %llu: nobody has written what is there", (unsigned long long) item);
	bench_end();
}

bool was_written(const struct load *load, uint64_t item)
{
	for (unsigned int i = 0; i < load->settings->clients; i++) {
		if (load->clients[i].last[item].sequence)
			return true;
	}
	return false;
}

void mark_check_last(struct client *client, const void *value, size_t len, uint64_t item)
{
	const struct load *load = client->load;
	const struct last_write *last;
	struct mark mark;

	mark_check(client->settings, value, len, item);
	memcpy(&mark, value, sizeof(mark));
	last = &load->clients[mark.client].last[item];
	if (!mark.sequence || mark.sequence != last->sequence) {
		bench_fail("item %llu: the last write is not there", (unsigned long long) item);
		bench_end();
	}
	for (unsigned int i = 0; i < client->settings->clients; i++) {
		const struct last_write *other = &load->clients[i].last[item];

		if (other->sequence && last->executed && other->began > last->executed) {
			bench_fail("item %llu: client %u has written later",
				   (unsigned long long) item, i);
			bench_end();
		}
	}
}
