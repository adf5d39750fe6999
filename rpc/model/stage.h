/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stage.h -- a client and a server of libpmemrpc on the model of the hardware
 *
 * The client is client.c over pmemverbs over the model: its entries travel as the writes, flushes
 * and messages to the agent that pmemverbs has for that memory.  The server is session.c, server.c
 * and store.c; what it stores goes through the model's processor and caches.  Nothing moves
 * but by steps of prov/pmemsim, and the power may fail after each.  Only the connection's beginning
 * is left out: both sides are as they are after READY.
 *
 * After each step judge.c recovers from what a power failure would leave now, and comeback.c lets
 * the client come back to that.
 */
#ifndef RPC_MODEL_STAGE_H
#define RPC_MODEL_STAGE_H

#include "client.h"
#include "server.h"
#include "world_impl.h"

#define MAX_CALLS 16
#define STATUS 9
/* Keys of rings, for connections that come later. */
#define NEW_KEY 1000
#define MAX_CLIENTS 2
#define POOL 2

/* What is called, and in what ring. */
struct scene {
	const char *name;
	size_t ring;
	unsigned int window;
	unsigned int before;             /* so many calls were executed before */
	unsigned int calls;              /* so many follow */
	size_t cell;                     /* entries are sent, each into one; 0: they are written */
	size_t arguments[MAX_CALLS + 1]; /* how long they are, by the call's sequence; 0: 8 bytes */
	/*
	 * A pool executes, and another client comes back while it does: so many durable calls of
	 * its are left, from before; 0: no pool, and nobody else
	 */
	unsigned int left;
	/* Of so many calls, the first ones, nothing but the reply is waited for. */
	unsigned int plain;
	uint32_t reads; /* calls that only read, a bit for each sequence */
};

/* What is wrong on purpose, beside what the world's mutations are. */
enum mutant {
	NONE,
	WATERMARK_FIRST, /* the watermark is durable before the effect */
	EFFECT_FIRST,    /* the effect is durable before the watermark */
	WORD_FIRST,      /* an entry's word is written before its data, and committed */
	NO_SEQUENCE,     /* the check knows nothing of laps */
	NO_BODY,         /* the check does not cover the data */
	REPLY_EARLY,     /* the reply is sent, and then made durable */
	JOURNAL_LOST,    /* there is no journal */
	JOURNAL_LATE,    /* the journal is not durable before its contents are written */
	PLACES_LATE,     /* the journal begins anew before the places are durable */
	EPOCH_LATE,      /* and goes on before that is durable */
	JOURNAL_TORN,    /* a torn journal counts */
	NO_LOCK,         /* who commits does not wait for others */
	OTHER_WATERMARK, /* a client's watermark and reply are written over the other's */
	WORK_SHARED,     /* a next call does not wait until the work item is back */
	WELCOME_EARLY,   /* a client has its new key before that is durable */
	SENT_AGAIN,      /* who comes back sends again all that has had no reply */
	OLD_KEY,         /* what is sent again has the key of the old connection */
	OLD_REPLIES,     /* replies that have come on the old connection are read on the new one */
	FEW_REPLIES,     /* who comes back asks for no reply that it has missed */
	READER_WRITES,   /* a call that only reads changes something */
	HAS_ALL,         /* a client says that it has all replies */
	OVERWRITES,      /* it overwrites entries that the server needs after a crash */
	NO_WAIT,         /* who commits while another one flushes does not wait */
	NOT_RESUMED,     /* the server does not hear which replies a client has that comes back */
};

extern enum mutant mutant;

/* The application's memory, one for each client: what calls have done, and in which order. */
struct ledger {
	uint64_t count;
	uint64_t order;
};

struct answer {
	uint64_t count;
	uint64_t life; /* of the server */
};

/* Whose calls a handler executes. */
struct actor {
	const struct scene *scene;
	uint64_t life;
	const char *wrong; /* a call that nobody has made */
};

/* In the arena. */
struct stage {
	struct rpc_memory memory; /* first: its functions know the rest */
	const struct scene *scene;
	struct actor actor;
	struct pmemrpc_server server;
	uint32_t readers[MAX_CALLS];
	struct rpc_worker worker;
	struct rpc_session session;
	struct fid_cq away_cq; /* the session's: it does not do the agent's work */
	struct pmemrpc_client *client;
	struct fid_eq home_eq; /* nothing ever happens there */
	bool welcomed;         /* the other client */
	unsigned int posted;
	uint64_t heard; /* so many notices has the server got */
	struct pmemrpc_call calls[MAX_CALLS];
	struct answer answers[MAX_CALLS];
	struct {
		const void *place;
		size_t len;
	} owed[32]; /* what REPLY_EARLY has not made durable yet */
	unsigned int num_owed;
	struct judge *judge; /* not in the arena */
};

/* The parts of a store that anybody changes. */
#define PARTS 5

struct part {
	size_t offset;
	size_t len;
};

extern const struct world_app stage_app;

/* stage_len -- of a scene's store */
size_t stage_len(const struct scene *scene);

/* stage_parts -- of the memory that the model tracks; one may be empty */
void stage_parts(const struct stage *stage, struct part parts[PARTS]);

/* stage_fill -- what the argument of a call is; returns how long */
size_t stage_fill(const struct scene *scene, uint64_t sequence, unsigned char *argument);

/* stage_is_commit -- a lock that one has who commits */
bool stage_is_commit(const pthread_mutex_t *lock);

/* stage_handle -- a pmemrpc_handler; the context is a struct actor */
int stage_handle(struct pmemrpc_request *request, void *context);

struct ledger *stage_ledger(const struct rpc_store *store, unsigned int client);

/* stage_reads -- does this call only read? */
static inline bool stage_reads(const struct scene *scene, uint64_t sequence)
{
	return sequence < 32 && scene->reads >> sequence & 1;
}

/* stage_set_readers -- of a server: the operations are the sequences */
void stage_set_readers(struct pmemrpc_server *server, const struct scene *scene,
		       uint32_t readers[MAX_CALLS]);

/* stage_ledger_of -- what a ledger has after all calls up to this one */
struct ledger stage_ledger_of(const struct scene *scene, uint64_t sequence);

/* comeback.c: what is wrong when the client comes back to a store that has recovered, or NULL */
const char *comeback(const struct stage *stage, struct rpc_store *store,
		     struct rpc_executor *executor);

/* judge.c */
struct judge *judge_open(const struct world *world);
void judge_close(struct judge *judge);

/* judge_images -- how many different ones were recovered from */
uint64_t judge_images(const struct judge *judge);

/* judge_now -- NULL, or what is wrong if the power fails now */
const char *judge_now(struct world *world, bool final);

#endif /* RPC_MODEL_STAGE_H */
