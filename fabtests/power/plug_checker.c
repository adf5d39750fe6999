/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plug_checker.c -- the checker of fi_pmem_plug: it compares a log with what its initiator has
 * printed
 *
 * The checker knows the bytes of every record, so that it needs no checksum to
 * tell a torn one.  It can't know all that happened: the last lines may not have
 * left the machine.  What it may demand follows from this:
 *
 * - Records are posted in the order of their numbers, and a commit covers all
 *   earlier writes.  If n was acknowledged, all up to n are durable.
 * - Record n is posted when n - window has been acknowledged.  So the newest
 *   record found tells by itself that what is older by a window was acknowledged,
 *   and that nothing newer by more than a window was under way.
 * - The tail is fenced: whether or not it was acknowledged, all records up to
 *   it are durable.
 * - A slot may hold the record of a later round instead.  If the next round's may
 *   have been under way, the slot may hold anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "plug.h"
#include "../common/memory.h"

struct check {
	struct layout layout;
	uint64_t number;  /* of the log */
	uint64_t printed; /* the newest acknowledged record ... */
	uint64_t printed_tail;
	const char *log;
	uint64_t newest; /* record that is known of */
};

/* read_line -- of what the initiator has printed; anything else may stand between */
static void read_line(struct check *check, const char *line)
{
	struct layout *layout = &check->layout;
	uint64_t number;
	char end;

	/* Without its newline the last line may have lost digits, too. */
	if (!strchr(line, '\n'))
		return;
	sscanf(line, "log %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &layout->slots,
	       &layout->size, &layout->window, &layout->seed, &check->number);
	if (sscanf(line, "tail %" SCNu64 "%c", &number, &end) == 2 && end == '\n' &&
	    number > check->printed_tail)
		check->printed_tail = number;
	else if (sscanf(line, "ack %" SCNu64 "%c", &number, &end) != 2 || end != '\n')
		return;
	if (number > check->printed)
		check->printed = number;
}

static int read_lines(struct check *check, const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;

	if (!file) {
		perror(path);
		return -FI_EIO;
	}
	while (getline(&line, &room, file) >= 0)
		read_line(check, line);
	free(line);
	fclose(file);
	if (!check->layout.slots) {
		fprintf(stderr, "%s: no client has begun to write a log\n", path);
		return -FI_EINVAL;
	}
	return layout_is_sane(&check->layout) ? 0 : -FI_EINVAL;
}

/* record_in -- the number of the whole record in a slot, 0 if there is none */
static uint64_t record_in(const struct check *check, uint64_t slot)
{
	const struct layout *layout = &check->layout;
	const char *record = check->log + TAIL_ROOM + slot * layout->size;
	size_t len = layout->size - sizeof(uint64_t);
	uint64_t number;

	memcpy(&number, record, sizeof(number));
	if (!number || (number - 1) % layout->slots != slot)
		return 0;
	return pattern_check(record + sizeof(number), len, layout->seed + number, 0) == len ? number
											    : 0;
}

/* missing_until -- of the records up to number, how many are not there, nor newer ones instead */
static uint64_t missing_until(const struct check *check, uint64_t number)
{
	const struct layout *layout = &check->layout;
	uint64_t last = number > layout->slots ? number - layout->slots : 0;
	uint64_t missing = 0, found;

	for (; number > last; number--) {
		if (number + layout->slots <= check->newest + layout->window)
			continue;
		found = record_in(check, (number - 1) % layout->slots);
		if (found >= number)
			continue;
		if (!missing)
			fprintf(stderr, "record %" PRIu64 " is not there\n", number);
		missing +=
			found ? (number - found) / layout->slots : (number - 1) / layout->slots + 1;
	}
	return missing;
}

static bool tail_is_right(const struct check *check)
{
	uint64_t tail;

	memcpy(&tail, check->log, sizeof(tail));
	if (tail < check->printed_tail) {
		fprintf(stderr, "the tail is %" PRIu64 ", %" PRIu64 " was acknowledged\n", tail,
			check->printed_tail);
		return false;
	}
	if (!tail)
		return true;
	if (is_fenced(tail) && tail <= check->newest && !missing_until(check, tail))
		return true;
	fprintf(stderr, "the tail is %" PRIu64 ", ahead of what is there\n", tail);
	return false;
}

static int compare(struct check *check)
{
	uint64_t acknowledged, lost, found, slot;
	bool tail_ok;

	check->newest = check->printed;
	for (slot = 0; slot < check->layout.slots; slot++) {
		found = record_in(check, slot);
		if (found > check->newest)
			check->newest = found;
	}
	acknowledged = check->printed;
	if (check->newest > acknowledged + check->layout.window)
		acknowledged = check->newest - check->layout.window;
	lost = missing_until(check, acknowledged);
	tail_ok = tail_is_right(check);
	printf("%" PRIu64 " acknowledged, %" PRIu64 " found, %" PRIu64 " lost, tail %s\n",
	       acknowledged, acknowledged - lost, lost, tail_ok ? "ok" : "BAD");
	return lost || !tail_ok ? -FI_EIO : 0;
}

/* check_log -- the one whose initiator has printed these lines */
static int check_log(struct check *check, const struct options *opts)
{
	struct memory memory = {0};
	char room[PATH_MAX];
	const char *path = log_file(opts, check->number, room);
	int ret;

	if (access(path, R_OK)) {
		perror(path);
		return -FI_EINVAL;
	}
	/* Where a file is too short this extends it, and zeros are no record. */
	if (memory_map(&memory, path, log_file_size(&check->layout, opts, check->number)))
		return -FI_EIO;
	check->log = (const char *) memory.base + log_offset(&check->layout, check->number);
	ret = compare(check);
	memory_unmap(&memory);
	return ret;
}

int be_checker(const struct options *opts)
{
	struct check check = {0};
	int ret;

	if (!opts->memory) {
		fprintf(stderr, "-A needs -M, the memory to check\n");
		return -FI_EINVAL;
	}
	ret = read_lines(&check, opts->acks);
	if (ret)
		return ret;
	if (check.number < opts->connections)
		return check_log(&check, opts);
	fprintf(stderr, "%s: of log %" PRIu64 ", -n says there are fewer\n", opts->acks,
		check.number);
	return -FI_EINVAL;
}
