/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.h -- what server.c (memory), execute.c (calls), serve.c (the loop), worker.c and pool.c
 * (threads), session.c and flow.c (one client) share
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "batch.h"
#include "cells.h"
#include "execute.h"
#include "link.h"
#include "pmem.h"
#include "pmemrpc.h"
#include "pool.h"
#include "spin.h"
#include "store.h"
#include "throttle.h"

enum rpc_session_state {
	RPC_CONNECTED, /* or about to be; it has said nothing yet */
	RPC_WELCOMED,  /* it has its ring */
	RPC_READY,     /* replies go to it, and its calls are executed */
	RPC_FORGOTTEN, /* its ring is not its any more */
	RPC_ENDED,     /* the connection is lost, or the client was wrong */
};

struct rpc_session {
	struct pmemrpc_server *server;
	struct rpc_worker *worker;    /* who serves it; the lobby, until it has a slot */
	struct rpc_session *next;     /* of its worker, or on its way to one */
	struct rpc_session *all_next; /* of all; needs the server's lock */
	enum rpc_session_state state;
	const struct fid *fid; /* of the endpoint: what events name */
	atomic_bool gone;      /* an event says so */
	struct fi_info *info;
	struct rpc_link link;
	bool sends; /* its entries: then there are cells, and no requests */
	int door;   /* its own, -1: none */
	struct rpc_cells cells;
	struct rpc_pool requests, replies;
	struct rpc_request_message hello;
	bool counted;    /* as a client that has a connection */
	bool arrives;    /* it has said that; its worker greets it */
	int claimed;     /* the slot that is to be its; -1: it is not known yet */
	atomic_int slot; /* the one that it has; -1: none.  The lobby looks at it, too */
	struct fid_mr *ring_mr;
	uint64_t notices; /* of calls that are durable, and not executed yet */
	uint64_t weight;  /* as many of them as count for the server's throttle */
	bool limited;     /* they have waited for its rate */
	int64_t token_ns; /* and do so until then; 0: they don't wait for it */
	bool empties;     /* it waits until its slot's ring is */
	bool forgets;     /* and then it is forgotten */
	uint64_t reply;   /* the call whose reply is sent next */
	int64_t deadline; /* until it has to be READY, or gone; then, until it has to say something
			   */
	struct rpc_error error;
};

/*
 * A thread that serves the clients of some slots, always the same: so an old connection of a client
 * and its new one have the same thread.  The lobby is the thread that listens; there
 * clients are until they have said who they are.
 */
struct rpc_worker {
	struct pmemrpc_server *server;
	pthread_t thread;
	int epoll_fd, wake_fd;
	struct rpc_session *sessions;
	struct rpc_session *inbox; /* needs the server's lock */
	struct rpc_seat *returned; /* from the pool; needs its lock */
	struct rpc_executor executor;
	struct rpc_spin spin;
};

struct rpc_counters {
	atomic_uint_fast64_t executed, recovered, connections, refused;
	atomic_uint_fast64_t notices, batches, bytes, reply_bytes, limited;
	atomic_uint_fast64_t clients, waiting; /* now */
};

struct pmemrpc_server {
	struct rpc_pmem pmem;
	struct rpc_store store;
	pmemrpc_handler handler;
	void *context;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;
	int stop_fd;
	struct rpc_worker lobby, *workers;
	unsigned int threads;
	struct rpc_seat *seats; /* of each slot */
	struct rpc_threads pool;
	struct rpc_throttle throttle;
	unsigned int rate; /* of each client, 0: none */
	unsigned int silence_ms, rings_per_peer;
	pthread_mutex_t lock;
	pthread_mutex_t exclusive; /* of calls that exclude others */
	struct rpc_session *all;
	bool *doors; /* which ones are taken; needs the lock */
	atomic_uint num_sessions;
	atomic_bool stopping;
	int failed; /* why a thread has ended the others */
	struct rpc_counters counters;
	struct rpc_error error; /* needs the lock while threads run */
};

/* rpc_server_fail, rpc_server_say -- as rpc_fail and rpc_say: the last one stays */
int rpc_server_fail(struct pmemrpc_server *server, const char *what, ssize_t ret);
__attribute__((format(printf, 2, 3))) void rpc_server_say(struct pmemrpc_server *server,
							  const char *format, ...);

/* rpc_server_thread -- one that leaves signals to others, but for those that it causes itself */
int rpc_server_thread(struct pmemrpc_server *server, pthread_t *thread, void *(*run)(void *arg),
		      void *arg);

/* rpc_server_recover -- execute what is left in the rings of those who have no connection, unless
 * the server is to end */
int rpc_server_recover(struct pmemrpc_server *server);

/* rpc_server_random -- keys that nobody can guess; -FI_EIO */
int rpc_server_random(void *key, size_t len);

/* rpc_worker_of -- a slot: always the same */
static inline struct rpc_worker *rpc_worker_of(struct pmemrpc_server *server, unsigned int slot)
{
	return &server->workers[slot % server->threads];
}

/* rpc_worker_open -- what a thread needs; one that is all zeros but for its descriptors (-1) can
 * be closed */
int rpc_worker_open(struct rpc_worker *worker, struct pmemrpc_server *server);
void rpc_worker_close(struct rpc_worker *worker);

/* rpc_worker_watch -- this object's descriptor wakes it; unwatch before another one does */
int rpc_worker_watch(struct rpc_worker *worker, struct fid *fid);
int rpc_worker_unwatch(struct rpc_worker *worker, struct fid *fid);

void rpc_worker_wake(struct rpc_worker *worker);

/* rpc_worker_send -- it takes the session over; the caller has nothing to do with it any more */
void rpc_worker_send(struct rpc_worker *worker, struct rpc_session *session);

/* rpc_worker_receive -- those that were sent; they are linked, and not greeted yet */
void rpc_worker_receive(struct rpc_worker *worker);

/* rpc_server_hear -- in serve.c: an event of a connection; 1: there was one */
int rpc_server_hear(struct pmemrpc_server *server);

/* rpc_worker_serve -- in serve.c: all of its clients; 1: there was something to do */
int rpc_worker_serve(struct rpc_worker *worker);

/*
 * rpc_session_begin -- somebody wants to be connected, to write or to send entries; on errors info
 * is the caller's
 */
int rpc_session_begin(struct pmemrpc_server *server, struct fi_info *info, bool sends);

/*
 * rpc_session_serve -- what has arrived; 1: there was something.  What is wrong with the client
 * makes it RPC_ENDED; an error is the server's end.  If it arrives, and its worker is another one,
 * it is to be sent there.
 */
int rpc_session_serve(struct rpc_session *session);

/* rpc_session_executed -- by the pool: 1, or 0: there was no call */
int rpc_session_executed(struct rpc_session *session, int ret);

/*
 * What is in flow.c.
 *
 * rpc_session_notice -- calls that are durable; how many, or 0: the notice lies
 * rpc_session_done -- so many of them don't wait any more
 * rpc_session_weigh -- what is left is its part of what is too much, or not (throttle.h)
 * rpc_session_may_execute -- there is one, and nothing holds it up
 * rpc_session_is_silent -- nothing has come from it for too long
 * rpc_session_sleep_ms -- how long nothing will change by itself
 */
unsigned int rpc_session_notice(struct rpc_session *session, uint64_t data);
void rpc_session_done(struct rpc_session *session, uint64_t calls);
void rpc_session_weigh(struct rpc_session *session);
bool rpc_session_may_execute(struct rpc_session *session);
bool rpc_session_is_silent(struct rpc_session *session, bool heard);
int rpc_session_sleep_ms(const struct rpc_session *session, int timeout_ms);

/* rpc_session_end -- revoke its access, execute what it has left, and free it */
int rpc_session_end(struct rpc_session *session);

#endif /* RPC_SERVER_H */
