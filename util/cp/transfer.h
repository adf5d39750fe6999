/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transfer.h -- a client's connection, and what all copies do with it
 *
 * Functions return 0 or -1, and then have said why on standard error.
 */
#ifndef CP_TRANSFER_H
#define CP_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "kept.h"
#include "link.h"

/* Data are moved in pieces of this size, and put durably in batches of so many. */
#define CP_CHUNK ((size_t) 1 << 20)
#define CP_BATCH 8
#define CP_LEAST_CHUNK ((size_t) 16 << 10)

/* What cp_link_open is asked for: the data of all batches, and their states. */
#define CP_DATA_ROOM (CP_BATCHES * (CP_BATCH * CP_CHUNK) + CP_STATE_PAGE)

struct cp_copy {
	const struct node *node; /* whom to connect to */
	struct cp_link link;
	bool lost;          /* the connection is of no use any more */
	bool moving;        /* a copy has failed whose operations may be under way still */
	unsigned int opens; /* of CP_MAX_OPENS */
	const char *name;   /* at the target */
	const char *path;   /* here */
	uint64_t keep;      /* CP_TIMES, CP_MODES */
	bool many;          /* it is one of several, which all go on */
	bool several;       /* sources */
	uint64_t files, bytes, same, failed; /* of many */
	struct cp_kept kept;                 /* of what was got */
	bool restart;
	bool verify; /* nothing is copied */
	bool quiet;
	bool verbose;
	int timeout_ms;
	uint64_t rate; /* the most bytes of data a second; 0: any */
	int64_t due;   /* when data may be moved next, in microseconds (connection_now_ms) */
	size_t chunk;
	uint64_t size;
	uint64_t done; /* bytes, for who watches */
	uint64_t resumed;
	int64_t moved; /* when all data had been moved, by connection_now_ms */
	uint8_t digest[CP_DIGEST];
	struct cp_message lease; /* what the target has answered */
	int64_t said;            /* when the target has last been told that this side is there */
	int64_t heard;           /* when something has last come to an end */
	void (*progress)(struct cp_copy *copy, bool now);
};

/* cp_connect -- to copy->node */
int cp_connect(struct cp_copy *copy);

/* cp_connect_again -- nothing of the old connection is under way any more */
int cp_connect_again(struct cp_copy *copy);

/* What they print may be the target's words: control characters are not. */
int cp_fail(const char *what, const char *why);
int cp_fail_there(const char *what, const char *why);
void cp_note(const struct cp_copy *copy, const char *text);

/* cp_goes_on -- what becomes of an interrupted copy; a signal's handler may ask */
static inline const char *cp_goes_on(const struct cp_copy *copy)
{
	if (copy->lease.flags & CP_IN_PLACE)
		return "fi_pmem_cp: the device may have part of the new data, and part of the "
		       "old: the same command starts over\n";
	/* Without their times nobody knows that they are the same. */
	if (copy->several && !(copy->keep & CP_TIMES))
		return copy->restart ? "fi_pmem_cp: what is durable stays: the same command "
				       "without --restart copies complete files again, and goes "
				       "on behind them\n"
				     : "fi_pmem_cp: what is durable stays: the same command "
				       "copies complete files again, and goes on behind them\n";
	if (copy->restart)
		return "fi_pmem_cp: what is durable stays: the same command without --restart "
		       "goes on from there\n";
	return "fi_pmem_cp: what is durable stays: the same command goes on from there\n";
}

/* cp_interrupted -- the target is not to be reached any more */
int cp_interrupted(struct cp_copy *copy, const char *why);
int cp_fail_link(struct cp_copy *copy);

/* cp_breathe -- wait so long for a completion; now and then tell the target that this side is there
 */
int cp_breathe(struct cp_copy *copy, int timeout_ms);

/* cp_wait -- until an operation is done */
int cp_wait(struct cp_copy *copy, const struct cp_op *op);

/* cp_request -- without waiting for the answer */
int cp_request(struct cp_copy *copy, const struct cp_message *request);

/*
 * cp_await_answer -- the next CP_ANSWER or CP_FAILED, for as long as the target gets on: that it is
 * alive is no progress
 */
int cp_await_answer(struct cp_copy *copy, struct cp_message *answer);

/* cp_ask -- a request and its answer; what the target refuses, it gives a reason for */
int cp_ask(struct cp_copy *copy, const struct cp_message *request, struct cp_message *answer);

/* cp_post -- a write to, or read from, so far behind the start of the target's memory; not before
 * the copy's rate allows it */
int cp_post(struct cp_copy *copy, bool writing, void *buf, size_t len, uint64_t offset,
	    uint64_t flags, struct cp_op *op);

#endif /* CP_TRANSFER_H */
