/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.c -- short entries that share a flush; batch.h says how */
#include "batch.h"

bool rpc_batch_join(struct rpc_batch *batch, unsigned int max_calls, size_t ring_size,
		    uint64_t position, size_t argument_len)
{
	size_t len = RPC_WORD + RPC_BODY_HEAD + argument_len;
	bool is_short = rpc_ring_is_short(ring_size, position, argument_len);

	if (!batch->calls) {
		if (!is_short)
			return false;
		*batch = (struct rpc_batch){.position = position};
	} else if (batch->closed || !is_short ||
		   /* It begins the ring's next lap: not behind the others. */
		   position / ring_size != batch->position / ring_size ||
		   position + len - batch->position > RPC_BATCH_BYTES) {
		batch->closed = true;
		return false;
	}
	batch->len = position + len - batch->position;
	batch->calls++;
	batch->closed = batch->calls >= max_calls;
	return true;
}

unsigned int rpc_batch_max(unsigned int asked, unsigned int window)
{
	if (!asked)
		asked = window / 4;
	if (asked > window)
		return window;
	return asked ? asked : 1;
}

unsigned int rpc_batch_notice(uint64_t data, uint64_t waiting, uint64_t window)
{
	return data && waiting <= window && data <= window - waiting ? (unsigned int) data : 0;
}
