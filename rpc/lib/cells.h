/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cells.h -- a server's receives for a client that sends its entries
 *
 * A connection's receives are used up in the order in which they were posted.  The first two are
 * the door: HELLO and READY come there, before and after the client has its ring.  All others are
 * cells of its ring, from the one of the next call on.  A cell is posted again when its call is
 * executed, and that is durable: until then nothing can overwrite the entry.
 *
 * All of this is persistent memory of one kind, which the provider is promised: so a client's
 * provider knows how a message becomes durable there, and does not need the agent where writes
 * don't.
 *
 * A message is here before it is durable.  Nobody has to wait for that: see README.md.
 */
#ifndef RPC_CELLS_H
#define RPC_CELLS_H

#include "link.h"
#include "store.h"

struct rpc_cells {
	struct rpc_pool door, ring;
	unsigned int next;  /* the cell of the next call */
	const char *cannot; /* why entries can't be sent here; NULL: they can */
};

/* rpc_cells_size -- of each, for the arguments that a client will have; 0: there is no room for one
 */
size_t rpc_cells_size(const struct rpc_store *store, const struct rpc_request_message *hello);

/* rpc_cells_door -- before the connection is accepted: its first two receives, there */
int rpc_cells_door(struct rpc_cells *cells, struct rpc_link *link, unsigned char *door);

/* rpc_cells_open -- a receive in each cell, the first one where the next call comes */
int rpc_cells_open(struct rpc_cells *cells, struct rpc_link *link, const struct rpc_ring *ring,
		   uint64_t position);

/* rpc_cells_again -- the next call is executed, durably */
int rpc_cells_again(struct rpc_cells *cells);

/* rpc_cells_close -- the connection has ended; all zeros can be closed, too */
void rpc_cells_close(struct rpc_cells *cells);

#endif /* RPC_CELLS_H */
