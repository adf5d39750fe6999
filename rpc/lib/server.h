/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.h -- what server.c (memory), execute.c (calls), serve.c (the loop), worker.c and pool.c
 * (threads), session.c, handshake.c and flow.c (one client) share
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
#include "rights.h"
#include "spin.h"
#include "store.h"
#include "throttle.h"

/* In this time a client has to say what the handshake needs. */
#define RPC_HANDSHAKE_MS 30000

enum rpc_session_state {
	RPC_CONNECTED, /* or about to be; it has said nothing yet */
	RPC_WELCOMED,  /* it has its ring */
	RPC_READY,     /* replies go to it, and its calls are executed */
	RPC_FORGOTTEN, /* its ring is not its any more */
	RPC_ENDED,     /* the connection is lost, or the client was wrong */
};

struct rpc_session {
	struct pmemrpc_server *server;
	struct rpc_worker *worker;    /* serves it; the listener, until it has a slot */
	struct rpc_session *next;     /* of its worker, or on its way to one */
	struct rpc_session *all_next; /* of all; needs the server's lock */
	enum rpc_session_state state;
	const struct fid *fid; /* of the endpoint: what events name */
	atomic_bool gone;      /* an event says so */
	struct fi_info *info;
	struct rpc_link link;
	bool sends;    /* its entries: then there are cells, and no requests */
	int handshake; /* the memory for its handshake, if it sends; -1: none */
	struct rpc_cells cells;
	struct rpc_buffers requests, replies;
	struct rpc_request_message hello;
	struct rpc_rights rights;
	bool counted;    /* in the server's number of clients */
	bool arrives;    /* it has said who it is; the worker of its slot has to greet it */
	int claimed;     /* the slot that it will have; -1: that is not known yet */
	atomic_int slot; /* the slot that it has; -1: none.  The listener reads this, too */
	struct fid_mr *ring_mr;
	uint64_t notices; /* of calls that are there, and not executed yet */
	uint64_t weight;  /* how many of them the server's throttle counts */
	bool limited;     /* its calls have waited for its rate */
	bool begun;       /* a call of its waits for a flush, and nobody uses its slot */
	int64_t token_ns; /* they wait until then; 0: they don't wait for the rate */
	bool empties;     /* it waits until its slot's ring is empty */
	bool forgets;     /* then the client is to be forgotten */
	uint64_t reply;   /* the call whose reply is sent next */
	int64_t deadline; /* by then it has to be READY; later: it has to have said something */
	struct connection_error error;
};

/*
 * A thread that serves the clients of some slots.  A slot never changes its worker, so an old
 * connection of a client and its new one have the same thread.  The listener is the worker that
 * takes connections.  It has a client until the client has said who it is.
 */
struct rpc_worker {
	struct pmemrpc_server *server;
	pthread_t thread;
	int epoll_fd, wake_fd;
	atomic_bool woken; /* and wake_fd says so, or did */
	struct rpc_session *sessions;
	struct rpc_session *inbox; /* needs the server's lock */
	struct rpc_work *returned; /* from the pool; needs its lock */
	struct rpc_executor executor;
	struct rpc_spin spin;
};

struct rpc_counters {
	atomic_uint_fast64_t executed, recovered, connections, refused, denied;
	atomic_uint_fast64_t notices, batches, bytes, reply_bytes, limited;
	atomic_uint_fast64_t clients, waiting; /* now */
};

struct pmemrpc_server {
	struct rpc_pmem pmem;
	struct rpc_store store;
	pmemrpc_handler handler;
	void *context;
	uint32_t *readers; /* operations that change nothing */
	unsigned int num_readers;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;
	int stop_fd;
	struct rpc_worker listener, *workers;
	unsigned int threads;
	struct rpc_work *work; /* a work item for each slot */
	struct rpc_pool pool;
	struct rpc_throttle throttle;
	unsigned int rate; /* of each client, 0: none */
	unsigned int silence_ms, rings_per_peer;
	pthread_mutex_t lock;
	pthread_mutex_t exclusive; /* of calls that exclude others */
	struct rpc_session *all;
	bool *handshakes; /* which parts of that memory are taken; needs the lock */
	atomic_uint num_sessions;
	atomic_bool stopping;
	int failed; /* why a thread has ended the others */
	struct rpc_counters counters;
	struct connection_error error; /* needs the lock while threads run */
	void (*complain)(const char *sentence, void *context);
	int64_t complains_at; /* not before that; needs the lock */
};

/*
 * rpc_server_fail, rpc_server_say -- as explain_call and explain; the last sentence stays, and the
 * application is told what rpc_server_say has said, once a second
 */
int rpc_server_fail(struct pmemrpc_server *server, const char *what, ssize_t ret);
__attribute__((format(printf, 2, 3))) void rpc_server_say(struct pmemrpc_server *server,
							  const char *format, ...);

/* rpc_server_thread -- start a thread; it takes no signals but those that it causes itself */
int rpc_server_thread(struct pmemrpc_server *server, pthread_t *thread, void *(*run)(void *arg),
		      void *arg);

/*
 * rpc_server_recover -- execute what clients without a connection have left in their rings, unless
 * the server is to end
 */
int rpc_server_recover(struct pmemrpc_server *server);

/* rpc_server_random -- make a key that nobody can guess; -FI_EIO: there are no random numbers */
int rpc_server_random(void *key, size_t len);

/* rpc_worker_of -- the worker of a slot, which is always the same */
static inline struct rpc_worker *rpc_worker_of(struct pmemrpc_server *server, unsigned int slot)
{
	return &server->workers[slot % server->threads];
}

/*
 * rpc_worker_open -- make what the thread needs.  A worker that is all zeros but for its
 * descriptors, which are -1, can be closed.
 */
int rpc_worker_open(struct rpc_worker *worker, struct pmemrpc_server *server);
void rpc_worker_close(struct rpc_worker *worker);

/* rpc_worker_watch -- this object's descriptor wakes it; unwatch it before another worker does */
int rpc_worker_watch(struct rpc_worker *worker, struct fid *fid);
int rpc_worker_unwatch(struct rpc_worker *worker, struct fid *fid);

void rpc_worker_wake(struct rpc_worker *worker);

/* rpc_worker_send -- hand the session over to it; the caller must not use it any more */
void rpc_worker_send(struct rpc_worker *worker, struct rpc_session *session);

/* rpc_worker_receive -- take the sessions that were handed over; they are not greeted yet */
void rpc_worker_receive(struct rpc_worker *worker);

/* rpc_server_hear -- take an event of a connection; 1: there was one.  In serve.c */
int rpc_server_hear(struct pmemrpc_server *server);

/* rpc_worker_serve -- serve all of its clients; 1: there was something to do.  In serve.c */
int rpc_worker_serve(struct rpc_worker *worker);

/*
 * rpc_session_begin -- accept a connection request of a client that writes or sends its entries.
 * After an error info is the caller's still.
 */
int rpc_session_begin(struct pmemrpc_server *server, struct fi_info *info, bool sends);

/*
 * rpc_session_serve -- take what has arrived; 1: there was something.  A client that breaks the
 * protocol becomes RPC_ENDED; an error ends the server.  If the session `arrives`, and another
 * worker has its slot, the caller has to hand it over.
 */
int rpc_session_serve(struct rpc_session *session);

/* rpc_session_flushed -- a call that was begun is durable: reply */
int rpc_session_flushed(struct rpc_session *session);

/* rpc_session_executed -- the pool has executed a call; ret 0: there was none; or an error */
int rpc_session_executed(struct rpc_session *session, int ret);

/*
 * What is in handshake.c.
 *
 * rpc_session_wrong -- the client has broken the protocol: it is RPC_ENDED; returns 0
 * rpc_session_lost -- the connection is lost, or the server could not go on with it; the same
 * rpc_session_arrive -- it has said who it is: find its slot, or greet it
 * rpc_session_take_request -- a message: HELLO, READY or FORGET
 * rpc_session_finish_forget -- forget it when its ring is empty
 */
int rpc_session_wrong(struct rpc_session *session, const char *what);
int rpc_session_lost(struct rpc_session *session);
int rpc_session_arrive(struct rpc_session *session);
int rpc_session_take_request(struct rpc_session *session, struct rpc_buffer *buffer, size_t len);
int rpc_session_finish_forget(struct rpc_session *session);

/*
 * What is in flow.c.
 *
 * rpc_session_notice -- calls are there; returns how many, or 0: the notice is false
 * rpc_session_done -- so many of these calls don't wait any more
 * rpc_session_weigh -- tell the throttle how many calls of this client wait now (throttle.h)
 * rpc_session_may_execute -- a call waits, and nothing holds it up
 * rpc_session_is_silent -- nothing has come from the client for too long
 * rpc_session_sleep_ms -- how long its worker may sleep if nothing arrives, at most timeout_ms
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
