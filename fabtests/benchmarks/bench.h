/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.h -- what the benchmarks on libfabric share: the target, which serves
 * any of them, and the initiator's talk with it
 *
 * The initiator says by messages what it needs; the target needs no options
 * but where it listens and what memory it has.
 */
#ifndef PMEM_BENCH_H
#define PMEM_BENCH_H

#include <pthread.h>

#include "../common/common.h"
#include "../common/memory.h"

#define BENCH_RECEIVES 64

struct server;

struct bench_msg {
	uint32_t type;
	uint32_t ok;
	uint64_t addr;
	uint64_t key;
	uint64_t len;
	uint64_t offset;
	uint64_t seed;
	uint64_t count;
};

struct bench {
	const struct options *opts;
	enum wait_method wait;
	struct node own;   /* the first connection's */
	struct node *node; /* all share it */
	struct conn conn;
	struct bench_msg *messages; /* one to send, the others to receive into */
	struct region message_region;
	bool sent; /* the message that was sent has completed */
	bool answered;
	struct bench_msg answer;
	uint64_t next_alive;
	/* what to do with operations' completions that come while a message is on its way */
	void (*other)(struct bench *bench, void *context);
	void *user; /* for that function */
	/* the target's memory; at the initiator: what is written from */
	struct memory memory;
	struct region region;
	/* initiator: the peer's region */
	uint64_t addr;
	uint64_t key;
	/* target: immediate data that have arrived */
	uint64_t immediates;
	struct server *server; /* where there is more than one connection */
	pthread_t thread;
	int ret;
};

/* bench_serve -- be the target: until the initiator says goodbye */
int bench_serve(const struct options *opts);

/*
 * bench_start -- connect, and get len bytes of memory here and there; caps are
 * those that not every operation needs.  first: the bench whose domain it shall share, or NULL
 */
int bench_start(struct bench *bench, struct bench *first, const struct options *opts, uint64_t caps,
		size_t len);

/*
 * bench_end -- say goodbye on so many connections if all is well (ret is 0), and close everything;
 * returns ret
 */
int bench_end(struct bench *benches, size_t n, int ret);

/* bench_clear -- the target's first len bytes are zero, and no immediates counted, afterwards */
int bench_clear(struct bench *bench, size_t len);

/* bench_verify -- a part of the target's memory is the pattern of seed */
int bench_verify(struct bench *bench, size_t offset, size_t len, uint64_t seed);

/* bench_count -- the target has got so many immediates since bench_clear */
int bench_count(struct bench *bench, uint64_t count);

/*
 * bench_write -- fi_writemsg between the same offsets of both regions, once; immediate data are
 * there if the flags ask for them
 */
ssize_t bench_write(struct bench *bench, size_t offset, size_t size, uint64_t flags, void *context);

/* bench_read -- a byte of what was written, with a completion */
ssize_t bench_read(struct bench *bench, size_t offset, void *context);

/* bench_sleeps -- instead of polling (-c) */
bool bench_sleeps(const struct bench *bench);

/* bench_read_or_sleep -- fi_cq_read, or as -c says: then one entry */
ssize_t bench_read_or_sleep(struct bench *bench, struct fid_cq *cq, struct fi_cq_data_entry *entry);

/* bench_wait -- the completion of the one operation that is outstanding; its context is the bench
 */
int bench_wait(struct bench *bench);

/*
 * bench_alive -- tell the target now and then that a long measurement goes on;
 * completions of measured operations that come meanwhile are given to bench->other
 */
int bench_alive(struct bench *bench, uint64_t now);

#endif /* PMEM_BENCH_H */
