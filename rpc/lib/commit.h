/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commit.h -- transactions of several threads share a flush
 *
 * Who commits appends its record to the journal, and waits until it is durable.  If nobody flushes,
 * it flushes itself, and at once: all that has been appended.  Meanwhile others append, and wait.
 * When the flush is over, one of them flushes what has gathered, for all.  So nobody waits for a
 * timer, and who is alone waits for nobody.
 *
 * While somebody flushes the store is not locked.  What it flushes is not written any more: others
 * append behind it.  The journal begins anew only when nobody flushes and all is durable.  Who has
 * flushed writes the contents to their places, in the order of the records, before the others go
 * on.
 *
 * Whoever calls holds the store's lock, which is given up while it waits or flushes.
 */
#ifndef RPC_COMMIT_H
#define RPC_COMMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "journal.h"

struct rpc_commits {
	struct rpc_journal journal;
	pthread_mutex_t *lock;
	pthread_cond_t flushed;
	bool flushing;
	uint64_t appended, durable; /* transactions */
	int failed;                 /* nobody knows any more what is durable */
};

void rpc_commits_init(struct rpc_commits *commits, pthread_mutex_t *lock);

/* rpc_commit_append -- the transaction, which begins anew; ticket tells what to wait for */
int rpc_commit_append(struct rpc_commits *commits, struct rpc_transaction *transaction,
		      uint64_t *ticket);

/* rpc_commit_wait -- until it counts, and its contents are at their places */
int rpc_commit_wait(struct rpc_commits *commits, uint64_t ticket);

/* rpc_commit_persist -- a range outside of the journal; others commit between its parts */
int rpc_commit_persist(struct rpc_commits *commits, struct rpc_memory *memory, const char *place,
		       size_t len);

/* rpc_commit_settle -- until no record would be carried out again */
int rpc_commit_settle(struct rpc_commits *commits);

/* rpc_commit_keep -- remember an error of the medium; returns it */
int rpc_commit_keep(struct rpc_commits *commits, int ret);

#endif /* RPC_COMMIT_H */
