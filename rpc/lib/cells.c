/* SPDX-License-Identifier: BSD-2-Clause */
/* cells.c -- receives in a client's ring; cells.h has the rules */
#include "cells.h"

#include <endian.h>

#include <rdma/fi_ext_pmemverbs.h>

#define HANDSHAKE_MESSAGES 2U

_Static_assert(HANDSHAKE_MESSAGES *((sizeof(struct rpc_request_message) + 63) / 64 * 64) ==
		       RPC_HANDSHAKE,
	       "HELLO and READY");

size_t rpc_cells_size(const struct rpc_store *store, const struct rpc_request_message *hello)
{
	return rpc_cell_size(store->sizes.ring, store->sizes.window, le64toh(hello->argument_max));
}

/*
 * promise -- tell the provider that all receives are in memory like the handshake's; returns why
 * that is not possible, or NULL
 */
static const char *promise(struct rpc_cells *cells, struct rpc_link *link)
{
	struct fid_mr *mr = cells->handshake.mr;
	struct fi_pmemverbs_region region;
	struct fi_pmemverbs_ops *ops;

	if (fi_open_ops(&link->domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL) ||
	    fi_setopt(&link->ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR, &mr, sizeof(mr)))
		return "messages can't be committed: the server's provider is not pmemverbs";
	if (!ops->query_key(link->ep, fi_mr_key(mr), &region) && region.relaxed)
		return "messages can't be committed with FI_PMEMVERBS_ORDERING=relaxed";
	return NULL;
}

int rpc_cells_handshake(struct rpc_cells *cells, struct rpc_link *link, unsigned char *memory)
{
	int ret = rpc_buffers_lend(&cells->handshake, link, memory, HANDSHAKE_MESSAGES,
				   RPC_HANDSHAKE / HANDSHAKE_MESSAGES);

	if (!ret)
		cells->cannot = promise(cells, link);
	for (unsigned int i = 0; !ret && i < HANDSHAKE_MESSAGES; i++)
		ret = rpc_buffer_receive(&cells->handshake.buffers[i]);
	return ret;
}

int rpc_cells_open(struct rpc_cells *cells, struct rpc_link *link, const struct rpc_ring *ring,
		   uint64_t position)
{
	unsigned int count = (unsigned int) (ring->size / ring->cell);
	int ret = rpc_buffers_lend(&cells->ring, link, ring->base, count, ring->cell);

	cells->next = (unsigned int) (position / ring->cell % count);
	for (unsigned int i = 0; !ret && i < count; i++)
		ret = rpc_cells_again(cells);
	return ret;
}

int rpc_cells_again(struct rpc_cells *cells)
{
	struct rpc_buffer *cell = &cells->ring.buffers[cells->next];

	cells->next = (cells->next + 1) % cells->ring.receives;
	return rpc_buffer_receive(cell);
}

void rpc_cells_close(struct rpc_cells *cells)
{
	rpc_buffers_close(&cells->ring);
	rpc_buffers_close(&cells->handshake);
}
