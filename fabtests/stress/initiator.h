/* SPDX-License-Identifier: BSD-2-Clause */
/* initiator.h -- connections, and random operations on them: what the files of an initiator share
 */
#ifndef PMEM_STRESS_INITIATOR_H
#define PMEM_STRESS_INITIATOR_H

#include "stress.h"

#define NOTHING UINT64_MAX
#define LOOSE 60 /* writes of a lane behind its last commit */
#define LOOSE_MESSAGES 20

/* What an operation reads into, and what has to be there */
struct buffers {
	uint64_t operand, result;
	uint8_t data[MAX_READ];
	uint8_t header[BUFFER];
	/* not registered, but beside the others */
	uint8_t expected[MAX_READ], is_known[MAX_READ];
};

struct link {
	struct initiator *initiator;
	unsigned int slot;
	struct conn conn;
	fi_addr_t peer; /* of FI_EP_RDM */
	bool open;
	bool sums, fetches;         /* atomics that it can do */
	struct fid_cntr *cntr;      /* or NULL */
	bool sums_commit;           /* with FI_COMMIT_COMPLETE */
	bool counts;                /* it is to have one */
	bool counts_reads;          /* it counts them, too */
	bool silent;                /* writes have no completion: the counter is all there is */
	atomic_bool held;           /* nothing is posted until the counters have counted all */
	atomic_uint_fast64_t value; /* that the counter had */
	atomic_bool connected, broken, down;
	bool excused;    /* when it broke, there was a reason */
	const char *why; /* what told that it is broken, and with which error */
	int err;
	struct buffers *buffers; /* for each operation */
	struct region region;
	atomic_uint_fast64_t moved; /* when something last happened */
};

struct initiator {
	struct node node;
	struct options opts;
	struct fid_av *av;
	uint64_t op_flags;
	bool atomics;
	struct region pool;
	pthread_mutex_t lock; /* of the event queue */
	struct link links[CONNECTIONS];
};

struct worker {
	struct link *link;
	unsigned int thread;
	uint64_t dice;
	uint64_t operations, number;
	uint64_t death; /* operation with which somebody dies; NOTHING: none */
	bool suicide;
	unsigned int loose[REGIONS], loose_messages;
	pthread_t id;
};

/* An operation as it was drawn */
enum kind { WRITE, INJECT, ATOMIC, FETCH, READ, MESSAGE };

struct todo {
	enum kind kind;
	bool plain; /* a call without flags */
	bool data;  /* such a call with immediate data */
	unsigned int region, iovs;
	uint64_t flags;
	bool reports, commits;
	bool claims; /* its completion says that it is durable: it commits, or all writes do */
	struct entry entry;
	struct place read;
	uint32_t len; /* in all */
};

/* draw.c */

/* mix -- the state from which a thread of a connection draws in a round */
uint64_t mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

/* draw -- the next operation of a thread */
void draw(struct worker *worker, struct todo *todo);

/* completions.c */

extern char quiet; /* the context of operations that have no completion */

/* index_of -- an operation's place among those of its thread */
unsigned int index_of(const struct op *op);
struct buffers *buffers_of(const struct link *link, unsigned int thread, unsigned int index);

/* break_link -- the first who calls it says why */
void break_link(struct link *link, const char *why, int err);

/* hear -- one event of a connection, whosoever it is; the initiator's lock is held */
void hear(struct initiator *initiator);

/* read_counter -- true: it has counted all */
bool read_counter(struct link *link);

/* reap -- take what completions there are */
void reap(struct link *link);

/* post.c */

/* operate -- post one operation, as soon as there is room */
void operate(struct worker *worker, struct todo *todo);

/* connect.c */

/* run_link -- a connection's life, which is a thread's */
void *run_link(void *arg);

/* initiator.c */

/* run_round -- a program for each thread of a connection */
void run_round(struct link *link, uint64_t round, uint64_t *state);

#endif /* PMEM_STRESS_INITIATOR_H */
