/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server_oracle.h -- what the server may do, for fuzz_rpc_server.c, which has the rules
 *
 * The fuzzer notes here what clients write and send.  The oracle is called when the server executes
 * a call and when it sends a message, and compares.
 */
#ifndef RPC_FUZZ_SERVER_ORACLE_H
#define RPC_FUZZ_SERVER_ORACLE_H

#include "criterion/criterion.h"
#include "input.h"
#include "net.h"
#include "server.h"

#define CLIENTS 2U
#define WINDOW 2U
#define RING 4096U
#define REPLY_MAX 24U
#define MAX_CONNS 6
#define MAX_ENTRIES 256

/* An entry that somebody has written. */
struct entry {
	uint64_t key;
	struct rpc_place place;
	uint32_t op;
	size_t len;
	uint64_t hash; /* of the argument */
};

struct owner {
	uint64_t life;     /* of the slot, as the oracle knows it */
	uint64_t executed; /* the last call */
	uint64_t kept;     /* the last one that was no reader: it is durable */
	uint64_t count;    /* of those that have changed the ledger */
	uint64_t right; /* up to this call the ring has entries that are right: they are durable */
	uint64_t end;   /* where the next one would be */
};

struct conn {
	struct net_ep *ep; /* NULL: there is none */
	int slot;          /* that it was welcomed to; -1: none */
	unsigned char *ring;
	size_t size, cell; /* of its ring: entries are sent, if it has cells */
	bool sends;
	unsigned int messages; /* so many were received of one that sends */
	bool odd;              /* one of them was no entry that is right: the next are elsewhere */
	uint64_t key;
	struct rpc_place next;
	uint64_t reply; /* the next one that it is to get */
	uint64_t has;   /* it comes back, and has the replies up to this call, it has said */
};

struct ledger {
	uint64_t count[CLIENTS];
};

struct scene {
	struct input input;
	struct rpc_memory memory;
	struct pmemrpc_server *server;
	struct conn conns[MAX_CONNS];
	struct owner owners[CLIENTS];
	struct entry entries[MAX_ENTRIES];
	size_t num_entries;
	uint64_t random;
};

extern struct scene scene;

/* scene_store -- of the server that runs */
struct rpc_store *scene_store(void);

/* oracle_owner -- of a slot; it may have gone to somebody else */
struct owner *oracle_owner(unsigned int slot);

/* oracle_is_lent -- can the client write to that ring? */
bool oracle_is_lent(const struct conn *conn, const unsigned char *ring);

/* Operations that only read; every other one tries to store. */
#define READS(op) ((op) % 8 == 5)

/* oracle_forget_reads -- the server ends: what has only read counts no more */
void oracle_forget_reads(void);

/* oracle_handle -- the server's handler.  The operation says what it does: a failure, a reply that
 * is too long, a store to nowhere */
int oracle_handle(struct pmemrpc_request *request, void *context);

/* oracle_see -- the server sends something */
void oracle_see(struct net_ep *ep, const struct testcore_request *request);

/* oracle_check_memory -- all: nobody has left an entry that is not executed */
void oracle_check_memory(bool all);

#endif /* RPC_FUZZ_SERVER_ORACLE_H */
