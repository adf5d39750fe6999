/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remotelog.h -- the log of fi_pmem_remotelog, and what its two sides say to each other
 *
 * The log is a tail pointer, which some strategies keep, and places for records behind
 * it.  A record is its number (the first is 1), a pattern, and a checksum of both.  So
 * a log without a tail pointer ends where a checksum is wrong.
 */
#ifndef PMEM_REMOTELOG_H
#define PMEM_REMOTELOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REMOTELOG_TAIL_SIZE sizeof(uint64_t)
#define REMOTELOG_MIN_SIZE 16
#define REMOTELOG_MAX_SIZE 65536
#define REMOTELOG_MAX_RECORDS (UINT64_C(1) << 32)

/* What an append consists of. */
enum remotelog_update {
	REMOTELOG_SINGLE, /* a record */
	REMOTELOG_PAIR,   /* a record, and the tail pointer fenced behind it */
	REMOTELOG_WAITS,  /* a record; when it is durable, the tail pointer */
	REMOTELOG_UPDATES,
};

/* How it gets to the target. */
enum remotelog_operation {
	REMOTELOG_WRITE,
	REMOTELOG_WRITE_IMM, /* the target is told, once for an append */
	REMOTELOG_SEND,      /* received where the log is */
	REMOTELOG_COPY,      /* received elsewhere; the target's program does the rest */
	REMOTELOG_OPERATIONS,
};

struct remotelog_layout {
	uint64_t size;    /* of a record */
	uint64_t records; /* that are going to be appended */
};

bool remotelog_is_sane(const struct remotelog_layout *layout);

/* remotelog_stride -- from a record to the next one; a tail has room behind each */
size_t remotelog_stride(const struct remotelog_layout *layout);

/* remotelog_offset -- of a record in the log; the tail pointer is at its beginning */
size_t remotelog_offset(const struct remotelog_layout *layout, uint64_t number);

/* remotelog_len -- of the log, which has one more place, so that it has an end */
size_t remotelog_len(const struct remotelog_layout *layout);

/* remotelog_make -- the record, and behind it the tail that belongs to it */
void remotelog_make(void *to, const struct remotelog_layout *layout, uint64_t number);

/*
 * remotelog_scan -- how many records there are until the first that is not whole; *tail: the
 * tail pointer, or, if a tail is behind each record, the one behind the last of these
 */
uint64_t remotelog_scan(const void *log, const struct remotelog_layout *layout, bool tails,
			uint64_t *tail);

enum {
	/*
	 * records, size, update, operation, notices that are going to come.  The initiator
	 * connects, then the answer has the log's address and key.
	 */
	REMOTELOG_BEGIN,
	REMOTELOG_END, /* -> records, tail, notices that have come; the connection is closed */
	REMOTELOG_BYE,
};

/* remotelog_serve -- be the target of one initiator; 0 or a negative fi_errno */
struct options;
int remotelog_serve(const struct options *opts);

#endif /* PMEM_REMOTELOG_H */
