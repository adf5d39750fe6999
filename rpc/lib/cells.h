/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cells.h -- a server's receives for a client that sends its entries
 *
 * A connection's receives are used up in the order in which they were posted.  The first two are
 * for the handshake: HELLO comes before the client has its ring, and READY after that.  All other
 * receives are the cells of its ring, beginning with the cell of the next call.  A cell is posted
 * again when its call is executed, and that is durable.  Until then nothing can overwrite the
 * entry.
 *
 * All of these receives are in persistent memory of one kind, and the server promises that to the
 * provider.  So a client's provider knows how a message becomes durable there, and uses the agent
 * only where it would use it for a write, too.
 *
 * A message arrives before it is durable.  Nobody has to wait for that; README.md says why.
 */
#ifndef RPC_CELLS_H
#define RPC_CELLS_H

#include "link.h"
#include "store.h"

struct rpc_cells {
	struct rpc_buffers handshake, ring;
	unsigned int next;  /* the cell of the next call */
	const char *cannot; /* why entries can't be sent here; NULL: they can */
};

/* rpc_cells_size -- of each, for the arguments that a client will have; 0: there is no room for one
 */
size_t rpc_cells_size(const struct rpc_store *store, const struct rpc_request_message *hello);

/* rpc_cells_handshake -- post the first two receives, before the connection is accepted */
int rpc_cells_handshake(struct rpc_cells *cells, struct rpc_link *link, unsigned char *memory);

/* rpc_cells_open -- a receive in each cell, the first one where the next call comes */
int rpc_cells_open(struct rpc_cells *cells, struct rpc_link *link, const struct rpc_ring *ring,
		   uint64_t position);

/* rpc_cells_again -- the next call is executed, durably */
int rpc_cells_again(struct rpc_cells *cells);

/* rpc_cells_close -- the connection has ended; all zeros can be closed, too */
void rpc_cells_close(struct rpc_cells *cells);

#endif /* RPC_CELLS_H */
