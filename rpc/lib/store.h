/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h -- a server's persistent memory: rings, what is executed, replies, effects
 *
 * From the start, each part at a multiple of 4096:
 *
 *   head        sizes, secret; written once
 *   journal     transactions on their way (journal.h)
 *   slots       of each client: its state, its replies
 *   rings       of each client; the only part that a client can write
 *   handshakes  receives of clients that send, for what they say before they have a ring
 *   memory      of the application
 *
 * All changes of slots and memory go through the journal: effects, reply and watermark of a call
 * are one transaction.  When that is durable in the journal, it counts, and the call may be replied
 * to.  The states of slots are read from a copy that is not persistent; their places are written
 * when the journal is settled.  A call that only reads moves the watermark in that copy alone
 * (unkept.h).
 *
 * Several threads may execute calls.  There is one journal, and they share its flushes (commit.h).
 *
 * The memory is changed by two functions only, which a test replaces.  No network here.
 */
#ifndef RPC_STORE_H
#define RPC_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commit.h"
#include "layout.h"
#include "peer.h"
#include "ring.h"
#include "unkept.h"

#define RPC_HANDSHAKE 256U
/* More than there are rings, so that a client can come back before its end was noticed. */
#define RPC_MORE_SESSIONS 16U

struct rpc_store {
	struct rpc_memory *memory;
	struct rpc_sizes sizes;
	uint64_t secret;
	struct rpc_slot *states;   /* of all slots, as the last calls have left them */
	struct rpc_unkept *unkept; /* of all slots; who executes the calls of a slot uses it */
	struct rpc_commits commits;
	size_t journal, slots, slot_len, rings, handshakes, app;
	pthread_mutex_t lock;       /* who commits, or looks at slots that are not its own */
	pthread_mutex_t greeting;   /* of what follows; before the other lock */
	struct rpc_transaction own; /* of whoever comes or goes */
};

/* rpc_store_len -- how long the memory has to be; 0: the sizes are out of range */
uint64_t rpc_store_len(const struct rpc_sizes *sizes);

/* rpc_store_is_new -- its first page is zeros, or what making a store had left when it was
 * interrupted */
bool rpc_store_is_new(const struct rpc_memory *memory);

/* rpc_store_format -- make it; secret is random.  Only the last word that is written makes it
 * valid. */
int rpc_store_format(struct rpc_memory *memory, const struct rpc_sizes *sizes, uint64_t secret);

/*
 * rpc_store_open -- carry out what is in the journal; -EUCLEAN: not a store; -EINVAL: a size in
 * `wanted` differs from what it was made for
 */
int rpc_store_open(struct rpc_store *store, struct rpc_memory *memory,
		   const struct rpc_sizes *wanted);

void rpc_store_close(struct rpc_store *store);

/* rpc_store_slot -- the state of a slot */
static inline struct rpc_slot *rpc_store_slot(const struct rpc_store *store, unsigned int slot)
{
	return &store->states[slot];
}

struct rpc_ring rpc_store_ring(const struct rpc_store *store, unsigned int slot);

/*
 * rpc_store_handshake -- memory of RPC_HANDSHAKE bytes for a connection's handshake.  There are
 * rpc_store_connections of them.  What is in them means nothing after a restart.
 */
unsigned char *rpc_store_handshake(const struct rpc_store *store, unsigned int handshake);
unsigned int rpc_store_connections(const struct rpc_sizes *sizes);

/* rpc_store_reply -- of a call, NULL: not there any more, or not yet, or it was never kept */
const struct rpc_reply *rpc_store_reply(const struct rpc_store *store, unsigned int slot,
					uint64_t sequence);

/*
 * rpc_store_claim -- the slot of an identity; a free one is made its, with an empty ring, if
 * `may_be_new`, or else -ENOENT.  -ENOSPC: there is none; -EDQUOT: the peer has taken all that it
 * may (NULL: no peer, and no limit); another error: it could not be made durable
 */
int rpc_store_claim(struct rpc_store *store, const uint8_t id[RPC_ID], bool may_be_new,
		    const struct rpc_peer *peer);

/* rpc_store_is_of -- does the slot belong to that identity? */
bool rpc_store_is_of(struct rpc_store *store, unsigned int slot, const uint8_t id[RPC_ID]);

/*
 * rpc_store_greet -- a client is connected, and what is in the ring is not valid any more.  All
 * that was valid has to be executed before.  It will send entries into such cells, or write them
 * (0).  What it may call is remembered, for calls that are executed without it.
 */
int rpc_store_greet(struct rpc_store *store, unsigned int slot, uint64_t process, uint64_t key,
		    size_t cell, bool reads_only);

/*
 * rpc_store_resume -- before that, for a client that was connected before.  It has the replies up
 * to the call `executed`, behind which the next one is at `position`; and it knows that the calls
 * up to `durable` were durable.  Those that it has the replies of, and that have left nothing here,
 * are not executed again.  -ENOENT: durable ones are lost; -EINVAL: that can't be
 */
int rpc_store_resume(struct rpc_store *store, unsigned int slot, uint64_t executed,
		     uint64_t position, uint64_t durable);

/* rpc_store_process -- who was there last, also while a call of the slot is executed; 0: nobody */
uint64_t rpc_store_process(struct rpc_store *store, unsigned int slot);

/* rpc_store_forget -- the slot is free */
int rpc_store_forget(struct rpc_store *store, unsigned int slot);

/* rpc_store_is_app -- is all of this in the application's memory? */
bool rpc_store_is_app(const struct rpc_store *store, const void *place, size_t len);

int rpc_transaction_open(struct rpc_transaction *transaction, const struct rpc_store *store);
void rpc_transaction_close(struct rpc_transaction *transaction);

/* rpc_store_change -- part of a transaction; -EINVAL: outside of the application's memory */
int rpc_store_change(const struct rpc_store *store, struct rpc_transaction *transaction,
		     const void *place, const void *data, size_t len);

/*
 * rpc_store_persist -- make durable what is in the application's memory, and let no transaction
 * that has already been committed write there again; -EINVAL: it is not there
 */
int rpc_store_persist(struct rpc_store *store, const void *place, size_t len);

/*
 * rpc_store_executed -- the next call of the slot has been executed: its changes, its reply and
 * the watermark, in one transaction, which begins anew.  `len` is that of the entry's body.
 * Durable when it returns 0.  One thread at a time executes the calls of a slot.
 */
int rpc_store_executed(struct rpc_store *store, struct rpc_transaction *transaction,
		       unsigned int slot, size_t len, int status, const void *reply,
		       size_t reply_len);

/* A call that is executed, and waits for its flush. */
struct rpc_pending {
	unsigned int slot;
	struct rpc_slot state;
	uint64_t ticket;
};

/*
 * rpc_store_append -- the first half of rpc_store_executed: nothing is durable, and nothing has
 * come to its place.  Until rpc_store_wait has returned 0, nobody may use the slot.
 */
int rpc_store_append(struct rpc_store *store, struct rpc_transaction *transaction,
		     unsigned int slot, size_t len, int status, const void *reply, size_t reply_len,
		     struct rpc_pending *pending);
int rpc_store_wait(struct rpc_store *store, const struct rpc_pending *pending);

/*
 * rpc_store_read -- the next call of the slot has only read: nothing is made durable.  false: there
 * is no room for that, or its client needs it durable: rpc_store_executed
 */
bool rpc_store_read(struct rpc_store *store, unsigned int slot, size_t len, int status,
		    const void *reply, size_t reply_len);

/*
 * rpc_store_place -- where the reply to the next call of the slot may be made if it only reads:
 * rpc_store_read copies it from anywhere else.  NULL: there is no such place
 */
static inline unsigned char *rpc_store_place(struct rpc_store *store, unsigned int slot)
{
	return rpc_unkept_place(&store->unkept[slot], store->sizes.reply_max);
}

/* rpc_store_has -- the client has the replies up to this one, and won't ask for them again */
static inline void rpc_store_has(struct rpc_store *store, unsigned int slot, uint64_t sequence)
{
	rpc_unkept_drop(&store->unkept[slot], sequence);
}

/* rpc_store_kept -- the call up to which the watermark is durable */
static inline uint64_t rpc_store_kept(const struct rpc_store *store, unsigned int slot)
{
	return store->unkept[slot].executed;
}

#endif /* RPC_STORE_H */
