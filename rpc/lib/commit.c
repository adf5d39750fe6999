/* SPDX-License-Identifier: BSD-2-Clause */
/* commit.c -- transactions of several threads share a flush; commit.h says how */
#include "commit.h"

void rpc_commits_init(struct rpc_commits *commits, pthread_mutex_t *lock)
{
	*commits = (struct rpc_commits){.lock = lock, .flushed = PTHREAD_COND_INITIALIZER};
}

int rpc_commit_keep(struct rpc_commits *commits, int ret)
{
	if (ret)
		commits->failed = ret;
	return ret;
}

/* flush -- all that is appended; or wait until somebody else has flushed */
static void flush(struct rpc_commits *commits)
{
	struct rpc_journal *journal = &commits->journal;
	size_t end = journal->used;
	uint64_t ticket = commits->appended;
	int ret;

	if (commits->flushing) {
		pthread_cond_wait(&commits->flushed, commits->lock);
		return;
	}
	commits->flushing = true;
	pthread_mutex_unlock(commits->lock);
	ret = rpc_journal_sync(journal, end);
	pthread_mutex_lock(commits->lock);
	commits->flushing = false;
	rpc_commit_keep(commits, ret);
	/* The medium may have told somebody else of an error, who persisted at the same time. */
	if (!commits->failed) {
		rpc_journal_synced(journal, end);
		commits->durable = ticket;
	}
	pthread_cond_broadcast(&commits->flushed);
}

/* drain -- nobody flushes, and all is durable */
static int drain(struct rpc_commits *commits)
{
	while (!commits->failed && (commits->flushing || commits->durable < commits->appended))
		flush(commits);
	return commits->failed;
}

int rpc_commit_append(struct rpc_commits *commits, struct rpc_transaction *transaction,
		      uint64_t *ticket)
{
	struct rpc_journal *journal = &commits->journal;
	int ret = commits->failed;

	/* While it waits others may append, too. */
	while (!ret && !rpc_journal_has_room(journal, transaction))
		ret = rpc_commit_settle(commits);
	if (!ret) {
		rpc_journal_append(journal, transaction);
		*ticket = ++commits->appended;
	}
	rpc_transaction_drop(transaction);
	return ret;
}

int rpc_commit_wait(struct rpc_commits *commits, uint64_t ticket)
{
	while (commits->durable < ticket && !commits->failed)
		flush(commits);
	return commits->durable < ticket ? commits->failed : 0;
}

int rpc_commit_settle(struct rpc_commits *commits)
{
	int ret = drain(commits);

	return ret ? ret : rpc_commit_keep(commits, rpc_journal_settle(&commits->journal));
}
