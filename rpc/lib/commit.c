/* SPDX-License-Identifier: BSD-2-Clause */
/* commit.c -- transactions of several threads share a flush; commit.h says how */
#include "commit.h"

/* While so much is persisted at once, others that commit wait. */
#define PERSIST_MOST ((size_t) 16 << 20)

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

/* begin, end -- one at a time waits for the medium: of an error it tells only once */
static void begin(struct rpc_commits *commits)
{
	commits->flushing = true;
	pthread_mutex_unlock(commits->lock);
}

static void end(struct rpc_commits *commits, int ret)
{
	pthread_mutex_lock(commits->lock);
	commits->flushing = false;
	rpc_commit_keep(commits, ret);
	pthread_cond_broadcast(&commits->flushed);
}

/* flush -- all that is appended; or wait until somebody else has flushed */
static void flush(struct rpc_commits *commits)
{
	struct rpc_journal *journal = &commits->journal;
	size_t used = journal->used;
	uint64_t ticket = commits->appended;

	if (commits->flushing) {
		pthread_cond_wait(&commits->flushed, commits->lock);
		return;
	}
	begin(commits);
	end(commits, rpc_journal_sync(journal, used));
	if (commits->failed)
		return;
	rpc_journal_synced(journal, used);
	commits->durable = ticket;
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

int rpc_commit_persist(struct rpc_commits *commits, struct rpc_memory *memory, const char *place,
		       size_t len)
{
	while (len && !commits->failed) {
		size_t part = len < PERSIST_MOST ? len : PERSIST_MOST;

		/* Between two parts, who has appended meanwhile. */
		if (commits->flushing || commits->durable < commits->appended) {
			flush(commits);
			continue;
		}
		begin(commits);
		end(commits, memory->persist(memory, place, part));
		place += part;
		len -= part;
	}
	return commits->failed;
}

int rpc_commit_settle(struct rpc_commits *commits)
{
	int ret = drain(commits);

	return ret ? ret : rpc_commit_keep(commits, rpc_journal_settle(&commits->journal));
}
