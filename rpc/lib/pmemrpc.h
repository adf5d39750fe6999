/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmemrpc.h -- durable remote procedure calls
 *
 * A client writes its calls into a log in the server's persistent memory.  A call that is
 * durable there will be executed, once, whatever crashes: the server, the client, or both.
 * pmemrpc(7) tells how to use it; rpc/README.md has the log's format and why it is right.
 *
 * Functions return 0 or a negative fi_errno.  Lengths are in bytes, times in milliseconds.
 * A function that takes error and size writes a sentence there when it fails.  1024 bytes are
 * enough; a longer one is cut.  Only one thread at a time may use a client or a server.  Different
 * clients and servers are independent.
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
#define PMEMRPC_ALWAYS (~0U - 1)

/* Limits of servers.  The longest argument is shorter than a ring: see struct pmemrpc_limits. */
#define PMEMRPC_MAX_RING (8U << 20)
#define PMEMRPC_MAX_WINDOW 1024U
#define PMEMRPC_MAX_REPLY (1U << 20)

/* ---- clients ---- */

struct pmemrpc_client;

enum pmemrpc_state {
	PMEMRPC_IDLE,     /* not posted */
	PMEMRPC_POSTED,   /* on its way: a failure of the server may still lose it */
	PMEMRPC_DURABLE,  /* it will be executed */
	PMEMRPC_EXECUTED, /* it has been executed, and its reply is here */
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
	 * DURABLE, and again when it is EXECUTED; may be NULL.  The function may post calls.  It
	 * must do nothing else with the client.
	 */
	void (*notify)(struct pmemrpc_call *call);
	void *context; /* the caller's */
	/*
	 * Not 0: nobody waits until this call is durable, only for its reply.  Then nothing is
	 * flushed for it before it is executed.  Its reply says that it is durable and executed, as
	 * always.
	 */
	int reply_only;

	/*
	 * Set by the library.  The caller sets them to 0 before the call is posted for the first
	 * time, and also if the client was closed before the call was executed.
	 */
	enum pmemrpc_state state;
	uint64_t sequence; /* number of the call: the first one of an identity has 1 */
	int status; /* EXECUTED: what the handler returned; -FI_EACCES: it may not be called */
	size_t reply_len; /* EXECUTED: length of the whole reply, even if it was cut off */
};

/* How calls come into the log. */
enum pmemrpc_transport {
	PMEMRPC_WRITE, /* by RDMA writes; a call may be as long as the ring has room for */
	PMEMRPC_SEND,  /* by messages; each takes one cell of the ring, and cells have one size */
};

/*
 * Who makes calls durable.  That depends on the server's memory.  Ask for one of the two only for
 * experiments: if the memory needs the other one, pmemrpc_connect fails.
 */
enum pmemrpc_flush {
	PMEMRPC_FLUSH_ANY,      /* as the memory needs it; in pmemrpc_limits: it is not known */
	PMEMRPC_FLUSH_SENDER,   /* the client flushes, or nobody has to */
	PMEMRPC_FLUSH_RECEIVER, /* the server's processor (the provider's agent) */
};

struct pmemrpc_client_attr {
	const char *node;     /* the server's address ... */
	const char *service;  /* ... and port */
	const char *provider; /* NULL: pmemverbs */
	/*
	 * Who this client is.  A server keeps a ring for each identity.  Whoever knows an identity
	 * can use its ring, so take random bytes.  Keep them if the client is to come back after a
	 * crash.
	 */
	uint8_t id[PMEMRPC_ID_LEN];
	/*
	 * For a client that comes back: it asks for the replies to its last calls, from this
	 * sequence on; 0: for none.  missed is called for each reply, in order.  The server still
	 * has the replies to the last pmemrpc_limits.window calls.  Until all replies that were
	 * asked for have come, pmemrpc_post returns -FI_EAGAIN.
	 */
	uint64_t replies_from;
	void (*missed)(const struct pmemrpc_call *call, void *context);
	void *context;
	int timeout_ms; /* how long pmemrpc_connect tries */
	enum pmemrpc_transport transport;
	/*
	 * For PMEMRPC_SEND: the longest argument, which decides on the size of a cell.  The ring
	 * has as many cells as fit, and at most so many calls can wait for replies.  0: there is a
	 * cell for each call of the server's window.
	 */
	size_t argument_max;
	enum pmemrpc_flush flush;
	/*
	 * The most calls that share a flush.  0: the library chooses.  1: each call has its own.
	 * While a flush is under way, short calls (up to 368 bytes) are held back.  They share the
	 * next flush, which begins when that one is complete, or when so many are held back.
	 */
	unsigned int batch;
	/*
	 * Called when the server has too much to do: for now, this client may have only so many
	 * calls without replies.  Called with 0 when that is over.  pmemrpc_connect may call it,
	 * too.  May be NULL.
	 */
	void (*paced)(unsigned int calls, void *context);
	/*
	 * How many microseconds pmemrpc_wait and pmemrpc_rest poll before they sleep.  0: as long
	 * as it pays.  PMEMRPC_OFF: they sleep at once.  PMEMRPC_ALWAYS: they never sleep.
	 */
	unsigned int spin_us;
	/*
	 * The most memory that this client may take; 0: any.  It needs a copy of its ring, in twice
	 * the ring's size, and buffers for replies.  The server decides on these sizes.  If they
	 * need more memory, pmemrpc_connect returns -FI_E2BIG.
	 */
	size_t memory_max;
};

/* pmemrpc_connect -- connect; while nobody listens, try again until timeout_ms is over */
int pmemrpc_connect(const struct pmemrpc_client_attr *attr, struct pmemrpc_client **client,
		    char *error, size_t size);

struct pmemrpc_limits {
	size_t argument_max;
	size_t reply_max;
	unsigned int window; /* the most calls that can wait for their replies */
	uint64_t executed;   /* the last call with a reply, or the last of an earlier process */
	uint64_t durable;    /* all calls up to this one are durable */
	uint64_t posted;     /* the last call that was posted */
	uint64_t sent_again; /* calls that were sent again, since they were not durable */
	unsigned int reconnects;
	enum pmemrpc_flush flush;     /* who flushes on this connection, as the provider says */
	uint64_t flushed_by_sender;   /* commits by a flush of the client ... */
	uint64_t flushed_by_receiver; /* ... by the server's processor; 0: nobody counts */
	unsigned int batch;           /* the most calls that share a flush */
	uint64_t flushes;             /* flushes that were posted */
	unsigned int pace; /* the most calls without replies that are allowed now; 0: the window */
	uint64_t paced;    /* how often the server has told it to slow down */
};

void pmemrpc_get_limits(const struct pmemrpc_client *client, struct pmemrpc_limits *limits);

/*
 * pmemrpc_post -- send a call, and don't wait for it
 *
 * Calls of one client are executed in the order in which they were posted.
 * A call that is held back (batch in struct pmemrpc_client_attr) is sent by pmemrpc_progress or
 * pmemrpc_wait, when they see that the flush before it is complete.
 * -FI_EAGAIN: too many calls wait for replies, or the ring is full, or replies that were asked
 * for by replies_from have not come yet.  Call pmemrpc_progress.
 * -FI_EMSGSIZE: the argument does not fit into the ring, or into a cell.
 * -FI_EBUSY: the call is under way already.
 * -FI_ENOTCONN: the connection is lost.  Call pmemrpc_reconnect.
 */
int pmemrpc_post(struct pmemrpc_client *client, struct pmemrpc_call *call);

/* pmemrpc_progress -- take what has arrived; does not wait.  -FI_ENOTCONN: see pmemrpc_post */
int pmemrpc_progress(struct pmemrpc_client *client);

/*
 * pmemrpc_wait -- wait until a call is in this state, or in a later one
 *
 * -FI_ETIMEDOUT: it was not within timeout_ms.  -FI_EINVAL: the call was not posted.
 * -FI_ENOTCONN: the connection is lost.  A call that was durable is not lost.  pmemrpc_reconnect
 * sends a call again that was not.
 */
int pmemrpc_wait(struct pmemrpc_client *client, const struct pmemrpc_call *call,
		 enum pmemrpc_state state, int timeout_ms);

/*
 * pmemrpc_rest -- pmemrpc_progress, and if there is nothing, wait until there may be something, at
 * most timeout_ms: look as long as that pays, or as spin_us says, and then sleep
 */
int pmemrpc_rest(struct pmemrpc_client *client, int timeout_ms);

/*
 * pmemrpc_reconnect -- connect again, send again what was not durable, and nothing else
 *
 * It tries for timeout_ms.  If nothing came of any call on the connections before, it waits first:
 * longer each time, up to 320 ms, but no longer than half of that time.
 * -FI_EOPNOTSUPP: nothing can be made durable at this server, as its provider is another one, or
 * another version.  -EUCLEAN: the server no longer has calls that were durable, or another
 * client has used this identity meanwhile.  Then nothing is promised about calls that are not
 * durable.  The other client goes on.
 */
int pmemrpc_reconnect(struct pmemrpc_client *client, int timeout_ms);

/*
 * pmemrpc_fd -- a descriptor that becomes readable when there may be something for
 * pmemrpc_progress.  Call pmemrpc_trywait before you wait for it: 0: you may wait; -FI_EAGAIN:
 * something is there already.  The descriptor belongs to the client, and stays the same when the
 * client reconnects.
 */
int pmemrpc_fd(const struct pmemrpc_client *client);
int pmemrpc_trywait(struct pmemrpc_client *client);

/* pmemrpc_variant -- how calls come to the server and become durable, as a sentence */
const char *pmemrpc_variant(const struct pmemrpc_client *client);

/* pmemrpc_client_error -- the last failure, as a sentence */
const char *pmemrpc_client_error(const struct pmemrpc_client *client);

/*
 * pmemrpc_close -- close a client.  The server executes its durable calls all the same, and keeps
 * the identity's ring and replies.
 */
void pmemrpc_close(struct pmemrpc_client *client);

/*
 * pmemrpc_forget -- close a client, and let the server give its ring to another identity
 *
 * -FI_EBUSY: not all replies are here, those of replies_from included.  Nothing was done.  After
 * any other error the client is closed, and the server may or may not have forgotten it.
 */
int pmemrpc_forget(struct pmemrpc_client *client, int timeout_ms);

/* ---- servers ---- */

struct pmemrpc_server;

/* A call that is executed. */
struct pmemrpc_request {
	uint64_t sequence;
	unsigned int client; /* number of its ring, from 0 on; a forgotten client's is used again */
	uint32_t op;
	const void *argument; /* a copy: the client can't change it any more */
	size_t argument_len;
	void *reply; /* written by the handler; begins at a multiple of 8, as the argument does */
	size_t reply_max;
	/*
	 * Set by the handler; 0 when it is called.  More than reply_max is the same as a returned
	 * -FI_EMSGSIZE.
	 */
	size_t reply_len;
	struct pmemrpc_server *server;
};

/*
 * A handler executes a call and returns its status.  Three things become durable together, after
 * it has returned and before the client is told: what it has given to pmemrpc_store, the reply, and
 * the fact that the call is executed.  If the server crashes before that, the handler is called
 * again.  If it returns a negative status, what it has given to pmemrpc_store is dropped.
 *
 * Handlers for different clients run at the same time, in different threads: see
 * pmemrpc_exclude.
 *
 * Nobody has checked the argument, which comes from the client.
 */
typedef int (*pmemrpc_handler)(struct pmemrpc_request *request, void *context);

struct pmemrpc_server_attr {
	const char *path;     /* device DAX or a file; a file that is not there is made */
	const char *node;     /* the address to listen at; NULL: all */
	const char *service;  /* the port */
	const char *provider; /* NULL: pmemverbs */
	/* The file keeps these.  When it is opened again, they have to be the same, or 0. */
	unsigned int clients; /* identities, 1 to 4096 */
	size_t ring;          /* for each client, a multiple of 4096 up to PMEMRPC_MAX_RING */
	unsigned int window;  /* the most calls of a client that can wait for replies */
	size_t reply_max;     /* the longest reply */
	/*
	 * For pmemrpc_store in one call; each use takes 16 bytes more.  The store has room for
	 * eight times as much, and so has the process.
	 */
	size_t effects_max;
	size_t memory; /* for the application; zero at first */
	/*
	 * Threads that execute calls; 0: one for each processor.  One thread executes all calls of
	 * a client.
	 */
	unsigned int threads;
	pmemrpc_handler handler;
	void *context;
	/*
	 * Operations that change nothing, whatever the memory has.  Nothing is made durable for a
	 * call of such a reader: after a crash it is executed again.  pmemrpc_store returns
	 * -FI_EACCES to it, and then that is the status of the call.  The numbers are copied.
	 */
	const uint32_t *readers;
	unsigned int num_readers;
	/*
	 * More threads, which then execute the calls instead of those, so that a long call does not
	 * hold up other clients; 0: none.  At most one call of a client runs at a time.
	 */
	unsigned int pool;
	/*
	 * If more calls than this wait, of all clients together, the clients are told to slow down,
	 * until less than half as many wait.  0: 256 for each thread that executes calls.
	 * PMEMRPC_OFF: never.
	 */
	unsigned int throttle;
	/*
	 * The most calls of one client that are executed in a second; 0: any number.  A tenth of
	 * them may come at once.  The others wait in the client's log, and hold up nobody else.
	 */
	unsigned int rate;
	/*
	 * How many microseconds a thread that has nothing to do polls before it sleeps.  0: as long
	 * as it pays.  PMEMRPC_OFF: it sleeps at once.  PMEMRPC_ALWAYS: it never sleeps while it
	 * has clients.
	 */
	unsigned int spin_us;
	/*
	 * A client loses its connection if it has no call waiting, and nothing has come from it for
	 * so many milliseconds; 0: never.  It loses nothing else: what is durable in its log is
	 * executed, and pmemrpc_reconnect brings it back.
	 */
	unsigned int silence_ms;
	/* The most logs that the clients of one address, or of one key, can have; 0: any number */
	unsigned int rings_per_peer;
	/*
	 * Called, at most once a second, with what was wrong with a client: it was refused, or its
	 * call was denied, or it broke the protocol.  Any of the server's threads may call it, with
	 * the context above, and others wait meanwhile.  It must not use the server.  May be NULL.
	 */
	void (*complain)(const char *sentence, void *context);
};

/*
 * pmemrpc_server_open -- map the memory, execute what is durable and not executed, and listen
 *
 * -FI_EBUSY: another server has the file.  -EUCLEAN: the file is not a store, or it is damaged.
 */
int pmemrpc_server_open(const struct pmemrpc_server_attr *attr, struct pmemrpc_server **server,
			char *error, size_t size);

/* pmemrpc_server_run -- serve until pmemrpc_server_stop; an error is final */
int pmemrpc_server_run(struct pmemrpc_server *server);

/*
 * pmemrpc_server_stop -- may be called from another thread, and from a signal handler.  Calls that
 * run are executed to their end.  All others stay in the log.  If the server does not run, its next
 * run ends at once.
 */
void pmemrpc_server_stop(struct pmemrpc_server *server);

/*
 * pmemrpc_server_error -- why pmemrpc_server_run has failed, or what was wrong with a client last.
 * Call it when the server does not run: while it runs, the text may change.
 */
const char *pmemrpc_server_error(const struct pmemrpc_server *server);

struct pmemrpc_counters {
	uint64_t executed;    /* calls, since the server was opened */
	uint64_t recovered;   /* those of them that were executed without their client */
	uint64_t connections; /* clients that were let in */
	uint64_t refused;     /* clients that were refused, or that broke the protocol */
	uint64_t denied;      /* calls that their clients may not make: FI_PMEMVERBS_KEYS */
	uint64_t clients;     /* clients that have a connection now */
	uint64_t waiting;     /* their calls that are durable, and not executed yet */
	unsigned int threads; /* threads that serve clients */
	unsigned int pool;    /* threads that execute calls instead of those */
	uint64_t notices;     /* writes or messages that brought calls */
	uint64_t batches;     /* writes that brought several calls */
	uint64_t bytes;       /* length of the arguments of executed calls */
	uint64_t reply_bytes; /* length of their replies */
	uint64_t throttled;   /* how often clients were told to slow down */
	unsigned int slow;    /* 1: they are told to slow down now */
	uint64_t limited;     /* how often a client's calls had to wait for its rate */
};

/* pmemrpc_server_counters -- may be called from any thread, also while the server runs */
void pmemrpc_server_counters(const struct pmemrpc_server *server,
			     struct pmemrpc_counters *counters);

/*
 * pmemrpc_memory -- the application's part of the persistent memory.  After a restart it is at
 * another address: keep offsets in it, not pointers.
 */
void *pmemrpc_memory(struct pmemrpc_server *server, size_t *len);

/*
 * pmemrpc_store -- in a handler: change the application's memory if and when this call is executed
 *
 * The data are copied at once.  They come to their place after the handler has returned.
 * -FI_EINVAL: the place is not in that memory.  -FI_ENOSPC: this is more than effects_max.  Then
 * the call changes nothing, and its status is -FI_ENOSPC, whatever the handler returns. -FI_EACCES:
 * the same, of an operation that was declared a reader.
 */
int pmemrpc_store(struct pmemrpc_request *request, void *place, const void *data, size_t len);

/*
 * pmemrpc_exclude -- in a handler: until this call is executed, no other handler returns from
 * pmemrpc_exclude.  Call it before you look at memory that calls of different clients change: all
 * changes of the calls before are at their places then.
 */
void pmemrpc_exclude(struct pmemrpc_request *request);

/*
 * pmemrpc_persist -- make durable what was written without pmemrpc_store.  Write only data to which
 * nothing refers until a pmemrpc_store does: the handler may be called again after it has written.
 */
int pmemrpc_persist(struct pmemrpc_server *server, const void *place, size_t len);

/*
 * pmemrpc_server_close -- close a server that does not run.  Calls that are left in the logs are
 * executed when it is opened again.
 */
void pmemrpc_server_close(struct pmemrpc_server *server);

#ifdef __cplusplus
}
#endif

#endif /* PMEMRPC_H */
