/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmemrpc.h -- durable remote procedure calls
 *
 * A client writes its calls into a log in the server's persistent memory.  A call that is
 * durable there will be executed, once, whatever crashes: the server, the client, or both.
 * pmemrpc(7) tells how to use it; rpc/README.md has the log's format and why it is right.
 *
 * Functions return 0 or a negative fi_errno.  Lengths are in bytes, times in milliseconds.
 * Where a function takes error and size, it leaves a sentence there when it fails.  One
 * thread at a time uses a client, or a server; different ones are independent.
 */
#ifndef PMEMRPC_H
#define PMEMRPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PMEMRPC_ID_LEN 16

#define PMEMRPC_OFF (~0U)

/* Of servers.  An argument is shorter than a ring: pmemrpc_limits has the longest one. */
#define PMEMRPC_MAX_RING (8U << 20)
#define PMEMRPC_MAX_WINDOW 1024U
#define PMEMRPC_MAX_REPLY (1U << 20)

/* ---- clients ---- */

struct pmemrpc_client;

enum pmemrpc_state {
	PMEMRPC_IDLE,     /* not posted */
	PMEMRPC_POSTED,   /* on its way: a failure of the server may still lose it */
	PMEMRPC_DURABLE,  /* it will be executed */
	PMEMRPC_EXECUTED, /* it was, and its reply is here */
};

/*
 * One call.  The caller owns it, and keeps it and the reply buffer until the call is
 * executed or the client is closed; the argument is copied when the call is posted.
 */
struct pmemrpc_call {
	uint32_t op; /* whatever client and server agree on */
	const void *argument;
	size_t argument_len;
	void *reply;
	size_t reply_size; /* a longer reply is cut off */
	/*
	 * Called by pmemrpc_progress, pmemrpc_wait and pmemrpc_reconnect when the call has become
	 * DURABLE, and again when it is EXECUTED; may be NULL.  It may post calls, and do nothing
	 * else with the client.
	 */
	void (*notify)(struct pmemrpc_call *call);
	void *context; /* the caller's */

	/* Set by the library; all 0 at first, and again if its client was closed before its end. */
	enum pmemrpc_state state;
	uint64_t sequence; /* of an identity's calls; the first one has 1 */
	int status;        /* EXECUTED: what the handler has returned */
	size_t reply_len;  /* EXECUTED: of the whole reply */
};

/* How entries come into the log. */
enum pmemrpc_transport {
	PMEMRPC_WRITE, /* RDMA writes; of any length that the ring has room for */
	PMEMRPC_SEND,  /* messages, each into a cell of the ring: all cells have one size */
};

/*
 * Who makes entries durable.  The server's memory decides on it; to ask for one or the other is for
 * experiments: where it is not so, the client is not connected.
 */
enum pmemrpc_flush {
	PMEMRPC_FLUSH_ANY,      /* as the memory needs it; of limits: the provider does not tell */
	PMEMRPC_FLUSH_SENDER,   /* a flush from here, or none is needed */
	PMEMRPC_FLUSH_RECEIVER, /* the server's processor (the provider's agent) */
};

struct pmemrpc_client_attr {
	const char *node; /* the server's */
	const char *service;
	const char *provider; /* NULL: pmemverbs */
	/*
	 * Who this client is.  A server keeps a ring for each identity; who knows the identity
	 * may use its ring, so take random bytes, and keep them to come back after a crash.
	 */
	uint8_t id[PMEMRPC_ID_LEN];
	/*
	 * A client that comes back asks for the replies of its last calls, from this sequence on;
	 * 0: none.  missed is called for each, in order.  The server still has those of the last
	 * pmemrpc_limits.window calls.  Until all have come, pmemrpc_post returns -FI_EAGAIN.
	 */
	uint64_t replies_from;
	void (*missed)(const struct pmemrpc_call *call, void *context);
	void *context;
	int timeout_ms; /* until the connection is there */
	enum pmemrpc_transport transport;
	/*
	 * PMEMRPC_SEND: the longest argument.  The ring has as many cells as fit, and no more calls
	 * than that wait for replies.  0: each call of the server's window has a cell.
	 */
	size_t argument_max;
	enum pmemrpc_flush flush;
	/*
	 * The most calls that share a flush; 0: the library's choice, 1: each has its own.  While a
	 * flush is under way, short calls (up to 368 bytes) wait for it and then share the next
	 * one, or go when there are so many.
	 */
	unsigned int batch;
	/*
	 * The server has too much to do, and takes so many calls without replies from this client;
	 * 0: it is over.  Called also by pmemrpc_connect; may be NULL.
	 */
	void (*paced)(unsigned int calls, void *context);
	/*
	 * Microseconds for which pmemrpc_wait looks before it sleeps; 0: the library's choice;
	 * PMEMRPC_OFF: it sleeps at once.
	 */
	unsigned int spin_us;
	/*
	 * The most memory that the server's sizes may cost here, for a copy of twice the ring and
	 * for replies; 0: any.  If they need more, the client is not connected: -FI_E2BIG.
	 */
	size_t memory_max;
};

/* pmemrpc_connect -- tries again until timeout_ms is over while nobody listens */
int pmemrpc_connect(const struct pmemrpc_client_attr *attr, struct pmemrpc_client **client,
		    char *error, size_t size);

struct pmemrpc_limits {
	size_t argument_max;
	size_t reply_max;
	unsigned int window; /* calls that wait for their replies */
	uint64_t executed;   /* the last call whose reply is known, or that an earlier life made */
	uint64_t durable;    /* all calls up to this one are durable */
	uint64_t posted;     /* the last call that was posted */
	uint64_t sent_again; /* calls that had to be: they were not durable */
	unsigned int reconnects;
	enum pmemrpc_flush flush;     /* how it is on this connection, as the provider says */
	uint64_t flushed_by_sender;   /* calls that were committed so ... */
	uint64_t flushed_by_receiver; /* ... or so; both 0 if the provider does not count */
	unsigned int batch;           /* the most calls that share a flush */
	uint64_t flushes;             /* that were posted */
	unsigned int pace; /* calls that the server takes without replies now; 0: the window */
	uint64_t paced;    /* how often it has asked for less than the window */
};

void pmemrpc_get_limits(const struct pmemrpc_client *client, struct pmemrpc_limits *limits);

/*
 * pmemrpc_post -- send a call, and don't wait for it
 *
 * Calls of one client are executed in the order in which they were posted.
 * A call that waits for a flush (pmemrpc_client_attr.batch) goes when pmemrpc_progress or
 * pmemrpc_wait learns of that flush.
 * -FI_EAGAIN: too many calls wait for replies, or the ring is full, or replies that were asked
 * for by replies_from have not come yet: call pmemrpc_progress.
 * -FI_EMSGSIZE: the argument does not fit into the ring, or its cell.  -FI_EBUSY: it is under way
 * already. -FI_ENOTCONN: the connection is lost: call pmemrpc_reconnect.
 */
int pmemrpc_post(struct pmemrpc_client *client, struct pmemrpc_call *call);

/* pmemrpc_progress -- what has arrived; does not wait.  -FI_ENOTCONN as above */
int pmemrpc_progress(struct pmemrpc_client *client);

/*
 * pmemrpc_wait -- until a call is in this state, or a later one; -FI_ETIMEDOUT; -FI_EINVAL: it was
 * not posted.  Also -FI_ENOTCONN: it is not lost if it was durable, and sent again if it was not,
 * by pmemrpc_reconnect.
 */
int pmemrpc_wait(struct pmemrpc_client *client, const struct pmemrpc_call *call,
		 enum pmemrpc_state state, int timeout_ms);

/*
 * pmemrpc_reconnect -- connect again, send again what was not durable, and nothing else
 *
 * Tries for timeout_ms.  -EUCLEAN: the server no longer has calls that it had made durable,
 * or another client has used this identity meanwhile: nothing is promised of calls that are not
 * durable, and the other client goes on.
 */
int pmemrpc_reconnect(struct pmemrpc_client *client, int timeout_ms);

/*
 * pmemrpc_fd -- becomes readable when there may be something for pmemrpc_progress.  Before
 * waiting for it call pmemrpc_trywait: 0, or -FI_EAGAIN: there is something already.  The
 * descriptor belongs to the client and stays the same when it reconnects.
 */
int pmemrpc_fd(const struct pmemrpc_client *client);
int pmemrpc_trywait(struct pmemrpc_client *client);

/* pmemrpc_variant -- how entries come to the server and become durable, as a sentence */
const char *pmemrpc_variant(const struct pmemrpc_client *client);

/* pmemrpc_client_error -- what has failed last, as a sentence */
const char *pmemrpc_client_error(const struct pmemrpc_client *client);

/*
 * pmemrpc_close -- durable calls will be executed, also without their client.  The server
 * keeps the identity's ring and replies.
 */
void pmemrpc_close(struct pmemrpc_client *client);

/*
 * pmemrpc_forget -- as pmemrpc_close, and the server gives the ring to somebody else.  Only when
 * all replies are here, also those of replies_from: else -FI_EBUSY, and nothing was done.  After
 * another error the client is closed, and the server may or may not have forgotten it.
 */
int pmemrpc_forget(struct pmemrpc_client *client, int timeout_ms);

/* ---- servers ---- */

struct pmemrpc_server;

/* A call that is executed. */
struct pmemrpc_request {
	uint64_t sequence;
	unsigned int client; /* which ring, from 0 on; of somebody else when it was forgotten */
	uint32_t op;
	const void *argument; /* a copy: the client can't change it any more */
	size_t argument_len;
	void *reply; /* to be written by the handler ... */
	size_t reply_max;
	size_t reply_len; /* ... so many bytes; 0 when it is called.  If more than reply_max: as if
			   * it had returned -FI_EMSGSIZE */
	struct pmemrpc_server *server;
};

/*
 * A handler executes a call and returns its status.  What it has given to pmemrpc_store, the
 * reply, and the fact that the call is executed become durable together, after it has
 * returned and before anybody is told; after a crash before that it is called again.  If
 * it returns a negative status, what it has given to pmemrpc_store is dropped.
 *
 * Handlers for different clients run at the same time, in different threads: see
 * pmemrpc_exclude.
 *
 * The argument comes from the client, and was not checked by anybody.
 */
typedef int (*pmemrpc_handler)(struct pmemrpc_request *request, void *context);

struct pmemrpc_server_attr {
	const char *path;     /* device DAX or a file; a file that is not there is made */
	const char *node;     /* the address to listen at; NULL: all */
	const char *service;  /* the port */
	const char *provider; /* NULL: pmemverbs */
	/* These are kept in the file; later they have to be the same, or 0. */
	unsigned int clients; /* identities, 1 to 4096 */
	size_t ring;          /* of each client, a multiple of 4096 up to PMEMRPC_MAX_RING */
	unsigned int window;  /* calls of a client that wait for replies */
	size_t reply_max;     /* the longest reply */
	size_t effects_max;   /* what one call may give to pmemrpc_store, with 16 bytes for each */
	size_t memory;        /* the application's, zero at first */
	/* Threads that execute calls; 0: one for each processor.  A client's are executed by one.
	 */
	unsigned int threads;
	pmemrpc_handler handler;
	void *context;
	/*
	 * Threads that execute calls instead of these, so that a long one holds up no other client;
	 * 0: none.  At most one call of a client runs at a time.
	 */
	unsigned int pool;
	/*
	 * Calls that wait, of all clients, above which these are told to slow down, until there are
	 * half as many; 0: 256 for each thread that executes; PMEMRPC_OFF: never.
	 */
	unsigned int throttle;
	/*
	 * Calls of one client that are executed in a second, 0: any number.  What a tenth of a
	 * second allows may come at once.  Others wait in its log, and hold up nobody else.
	 */
	unsigned int rate;
	/*
	 * Microseconds for which a thread that has nothing to do looks for more before it sleeps;
	 * 0: the library's choice; PMEMRPC_OFF: it sleeps at once.
	 */
	unsigned int spin_us;
	/*
	 * A client from which nothing has come for so many milliseconds, and that has no call here,
	 * loses its connection and nothing else: what is durable in its log is executed, and
	 * pmemrpc_reconnect brings it back.  0: never
	 */
	unsigned int silence_ms;
	/* Logs that clients of one address can have; 0: any number */
	unsigned int rings_per_peer;
};

/*
 * pmemrpc_server_open -- map the memory, execute what is durable and not executed, and listen
 *
 * -FI_EBUSY: another server has the file.  -EUCLEAN: the file is something else, or damaged.
 */
int pmemrpc_server_open(const struct pmemrpc_server_attr *attr, struct pmemrpc_server **server,
			char *error, size_t size);

/* pmemrpc_server_run -- serve until pmemrpc_server_stop; an error is final */
int pmemrpc_server_run(struct pmemrpc_server *server);

/*
 * pmemrpc_server_stop -- may be called from another thread, and from a signal handler.  Calls that
 * are being executed are executed to their end; all others stay in the log.  If the server does not
 * run, its next run ends at once
 */
void pmemrpc_server_stop(struct pmemrpc_server *server);

/*
 * pmemrpc_server_error -- why pmemrpc_server_run has failed, or what was wrong with a client last.
 * When it does not run: else it may change meanwhile
 */
const char *pmemrpc_server_error(const struct pmemrpc_server *server);

struct pmemrpc_counters {
	uint64_t executed;    /* calls, since the server was opened */
	uint64_t recovered;   /* those of them that were executed without their client */
	uint64_t connections; /* clients that were let in */
	uint64_t refused;     /* clients that were not, or that broke the protocol */
	uint64_t clients;     /* that have a connection now */
	uint64_t waiting;     /* their calls that are durable, and not executed yet */
	unsigned int threads; /* that serve clients */
	unsigned int pool;    /* those that execute calls instead of them */
	uint64_t notices;     /* flushes with which calls became durable */
	uint64_t batches;     /* those of them with several calls */
	uint64_t bytes;       /* of arguments, and of replies, of executed calls */
	uint64_t reply_bytes;
	uint64_t throttled; /* how often clients were told to slow down */
	unsigned int slow;  /* 1: they are told so now */
	uint64_t limited;   /* how often a client's calls had to wait for its rate */
};

/* pmemrpc_server_counters -- may be called from any thread, also while the server runs */
void pmemrpc_server_counters(const struct pmemrpc_server *server,
			     struct pmemrpc_counters *counters);

/*
 * pmemrpc_memory -- the application's part of the persistent memory.  It is at another address
 * after a restart: keep offsets there, no pointers.
 */
void *pmemrpc_memory(struct pmemrpc_server *server, size_t *len);

/*
 * pmemrpc_store -- in a handler: change the application's memory if and when this call is executed
 *
 * The data are copied now, and are at their place when the handler has returned.
 * -FI_EINVAL: not in that memory.  -FI_ENOSPC: more than effects_max; then the call's status is
 * that, whatever the handler returns, and nothing is changed.
 */
int pmemrpc_store(struct pmemrpc_request *request, void *place, const void *data, size_t len);

/*
 * pmemrpc_exclude -- in a handler: from now on, until this call is executed, no other handler
 * goes beyond its pmemrpc_exclude.  For memory that calls of different clients change: look at it
 * after this, since what a call has changed is at its place when it is executed.
 */
void pmemrpc_exclude(struct pmemrpc_request *request);

/*
 * pmemrpc_persist -- make durable what was written directly.  For data to which nothing refers
 * before a pmemrpc_store does: a handler may be called again after it has written.
 */
int pmemrpc_persist(struct pmemrpc_server *server, const void *place, size_t len);

/*
 * pmemrpc_server_close -- not while it runs.  What clients have left is executed when the server is
 * opened again
 */
void pmemrpc_server_close(struct pmemrpc_server *server);

#ifdef __cplusplus
}
#endif

#endif /* PMEMRPC_H */
