/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disks.h -- a target whose memory is on several disks, and its peers
 *
 * A sync waits until the test lets it go.  The linker replaces pthread_create, and pmv_files_cover:
 * as if each region had mappings of its own.
 */
#ifndef DISKS_H
#define DISKS_H

#include "test/support/pair.h"

#include <pthread.h>

#include "agent/agent.h"

extern bool only_main;  /* only this thread, the test's, can start others */
extern bool uncovered;  /* no region has mappings of its own */
extern bool one_device; /* the memories are files of one, in lanes of their own */

/* What is done to memory. */
extern struct disk {
	struct pair *pair;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool held[PAIR_MEMORIES];
	int begun[PAIR_MEMORIES], ended[PAIR_MEMORIES]; /* syncs */
	size_t len[PAIR_MEMORIES];                      /* of the last one */
	int errors[PAIR_MEMORIES];
	void (*on_sync)(enum pair_memory memory); /* with the lock, before it may wait */
	void (*on_store)(void);                   /* the same; not to pages */
} disk;

#define PEERS 3

extern struct pair *pair;
extern struct pmv_ep *peers[PEERS];
extern uint64_t asked[PEERS];

/* What is known of a peer's requests. */
struct seen {
	uint64_t served, acks, faulted;
	bool syncing;
};

/* open_target -- threads: agents have them */
void open_target_with(bool threads);
void open_target(void);
void close_target(void);

/* ask -- a peer writes its next request into its mailbox */
void ask(int peer, struct pmv_flush_message *message);
void ask_for(int peer, enum pair_memory memory, size_t offset);
/* ask_for_both -- what is on two disks */
void ask_for_both(int peer, size_t offset);

struct seen look_at(int peer);
/* await_end -- of all that the peer has asked for */
void await_end(int peer);
/* await_syncing -- until its request is in a group */
void await_syncing(int peer);

/* hold -- syncs of that memory do not end, or do again */
void hold(enum pair_memory memory, bool held);
void set_error(enum pair_memory memory, int error);
/* number_of -- of one of the counts above */
int number_of(const int *counts, enum pair_memory memory);
void await_begun(enum pair_memory memory, int count);

/* watch_syncs, watch_stores -- with this, from now on; or NULL */
void watch_syncs(void (*on_sync)(enum pair_memory memory));
void watch_stores(void (*on_store)(void));

/* begin_sync -- of the first peer's request; it does not end before end_sync */
void begin_sync(enum pair_memory memory);
void end_sync(void);

/* commit_for_a_while -- in which whatever does not wait for the disk happens */
void commit_for_a_while(int peer);

#endif /* DISKS_H */
