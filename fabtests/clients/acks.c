/* SPDX-License-Identifier: BSD-2-Clause */
/* acks.c -- a log of numbered records, and what is left of it; acks.h says for whom */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "acks.h"
#include "../common/memory.h"

#define LOG_SEED 4711

uint64_t acks_offset(uint64_t number)
{
	return (number - 1) * ACKS_RECORD_SIZE;
}

void acks_record(char record[ACKS_RECORD_SIZE], uint64_t number)
{
	pattern_fill(record, ACKS_RECORD_SIZE, LOG_SEED, acks_offset(number));
}

void acks_say(uint64_t number)
{
	printf("ack %" PRIu64 "\n", number);
	fflush(stdout);
}

int acks_check(const char *log, const char *output)
{
	uint64_t number, acknowledged = 0, lost = 0;
	struct memory memory;
	char line[128];
	FILE *file = fopen(output, "r");

	if (!file) {
		perror(output);
		return 1;
	}
	/* Where the file is too short this extends it, and zeros are no record. */
	if (memory_map(&memory, log, ACKS_LOG_SIZE)) {
		fclose(file);
		return 1;
	}
	while (fgets(line, sizeof(line), file)) {
		/* The last line may be torn. */
		if (!strchr(line, '\n') || sscanf(line, "ack %" SCNu64, &number) != 1 ||
		    number < 1 || number > ACKS_RECORDS)
			continue;
		acknowledged++;
		if (pattern_check((char *) memory.base + acks_offset(number), ACKS_RECORD_SIZE,
				  LOG_SEED, acks_offset(number)) != ACKS_RECORD_SIZE)
			lost++;
	}
	printf("%" PRIu64 " acknowledged, %" PRIu64 " found, %" PRIu64 " lost, tail ok\n",
	       acknowledged, acknowledged - lost, lost);
	memory_unmap(&memory);
	fclose(file);
	return 0;
}
