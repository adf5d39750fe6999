/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool.h -- threads that execute calls, so that a long one holds up no other client
 *
 * The pool is given work items.  Each slot has one, which belongs to the slot's worker.  The worker
 * hands it to the pool for one call, and gets it back with the result.  In between nobody else
 * reads or changes the slot's state, its ring or its replies.  So a client that connects, or is to
 * be forgotten, has to wait until the work item of its slot is idle.  Its connection can end at
 * any time; then the pool executes what is left in the ring, after the call that runs.
 *
 * Without a pool the worker executes the calls, and work items are always idle.
 */
#ifndef RPC_POOL_H
#define RPC_POOL_H

#include <pthread.h>
#include <stdbool.h>

#include "execute.h"
#include "rate.h"
#include "rights.h"

struct rpc_session;
struct rpc_worker;

/* The work item of a slot, and what else the server knows of the slot until it ends. */
struct rpc_work {
	struct pmemrpc_server *server;
	unsigned int slot;
	struct rpc_session *session; /* who has the slot */
	struct rpc_rights rights;    /* of who had it last, since the server was opened */
	struct rpc_bucket bucket;
	bool busy;             /* the pool has it */
	bool drains;           /* all that is left is executed, without the client */
	struct rpc_work *next; /* of the pool's queue, or of those that come back to a worker */
	int result;            /* as rpc_server_execute returns it */
};

/* A pool without threads is all zeros. */
struct rpc_pool {
	struct pmemrpc_server *server;
	unsigned int count;
	pthread_t *threads;
	struct rpc_executor *executors;
	pthread_mutex_t lock; /* of what follows, and of the workers' lists */
	pthread_cond_t more;
	struct rpc_work *first, **last; /* the queue */
	unsigned int started;
	bool stopping;
};

int rpc_pool_open(struct rpc_pool *pool, struct pmemrpc_server *server, unsigned int count);
void rpc_pool_close(struct rpc_pool *pool);

/* rpc_pool_start -- and stop: calls that run are executed to their end, others stay queued */
int rpc_pool_start(struct rpc_pool *pool);
void rpc_pool_stop(struct rpc_pool *pool);

/* rpc_work_execute -- its next call, by the pool; the worker is woken when it comes back */
void rpc_work_execute(struct rpc_work *work);

/*
 * rpc_work_drain -- execute all that is valid: 0: it is; -FI_EAGAIN: the pool does it, and
 * rpc_work_is_idle tells when it has; without a pool: the server ends, and something may be left
 */
int rpc_work_drain(struct rpc_work *work);

static inline bool rpc_work_is_idle(const struct rpc_work *work)
{
	return !work->busy && !work->drains;
}

/* rpc_worker_collect -- what comes back from the pool; 1: there was something */
int rpc_worker_collect(struct rpc_worker *worker);

#endif /* RPC_POOL_H */
