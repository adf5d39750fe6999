/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool.h -- threads that execute calls, so that a long one holds up no other client
 *
 * A slot's seat is what the server keeps of it while it runs.  It belongs to the slot's worker,
 * which gives it to the pool for one call at a time, and gets it back with the result.
 * Meanwhile nobody else reads or changes the slot's state, its ring or its replies: a client that
 * comes, or is to be forgotten, has to wait until its seat is free.  Its connection can end at any
 * time; what it has left is executed behind the call that runs.
 *
 * Without a pool the worker executes, and seats are always free.
 */
#ifndef RPC_POOL_H
#define RPC_POOL_H

#include <pthread.h>
#include <stdbool.h>

#include "execute.h"
#include "rate.h"

struct rpc_session;
struct rpc_worker;

struct rpc_seat {
	struct pmemrpc_server *server;
	unsigned int slot;
	struct rpc_session *session; /* who has the slot */
	struct rpc_bucket bucket;
	bool busy;             /* the pool has it */
	bool drains;           /* all that is left is executed, without the client */
	struct rpc_seat *next; /* of the pool's queue, or of those that come back to a worker */
	int result;            /* as rpc_server_execute returns it */
};

/* A pool without threads is all zeros. */
struct rpc_threads {
	struct pmemrpc_server *server;
	unsigned int count;
	pthread_t *threads;
	struct rpc_executor *executors;
	pthread_mutex_t lock; /* of what follows, and of the workers' lists */
	pthread_cond_t more;
	struct rpc_seat *first, **last; /* the queue */
	unsigned int started;
	bool stopping;
};

int rpc_threads_open(struct rpc_threads *pool, struct pmemrpc_server *server, unsigned int count);
void rpc_threads_close(struct rpc_threads *pool);

/* rpc_threads_start -- and stop: calls that run are executed to their end, others stay queued */
int rpc_threads_start(struct rpc_threads *pool);
void rpc_threads_stop(struct rpc_threads *pool);

/* rpc_seat_execute -- its next call, by the pool; the worker is woken when it comes back */
void rpc_seat_execute(struct rpc_seat *seat);

/*
 * rpc_seat_drain -- execute all that is valid: 0: it is; -FI_EAGAIN: the pool does it, and
 * rpc_seat_is_free tells when it has; without a pool: the server ends, and something may be left
 */
int rpc_seat_drain(struct rpc_seat *seat);

static inline bool rpc_seat_is_free(const struct rpc_seat *seat)
{
	return !seat->busy && !seat->drains;
}

/* rpc_worker_collect -- what comes back from the pool; 1: there was something */
int rpc_worker_collect(struct rpc_worker *worker);

#endif /* RPC_POOL_H */
