/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * large_results.h -- results of a chain that the agent writes into other memory of the peer's
 *
 * A step copies what it reads, while it has the lock of all chains (chain.h).  From this copy the
 * core writes it to the peer, in front of the reply.  So it is what was there when the step was
 * executed, whatever is stored there while it is on its way.
 *
 * Each slot for replies has memory for such copies, from its first use on.  The peer names the slot
 * again when it has had the acknowledgement: then nothing is read there any more.  If it does so
 * before, it gets a mixture of two of its own results.
 *
 * A thread of a disk may still execute a chain whose endpoint is closed.  So the memory has users,
 * and the last one frees it.  The core's region is closed with the endpoint.
 *
 * Peers make the target register memory, as many as may connect.  So there is a limit for all
 * connections of a domain together.  The first of each connection is beside it: whoever has taken
 * all that others share takes none of these.
 */
#ifndef PMV_LARGE_RESULTS_H
#define PMV_LARGE_RESULTS_H

#include <stdatomic.h>

#include "agent/chain_message.h"

struct fid_mr;
struct pmv_engine;

/* Each connection may have one; beside these, all of a domain have so many together: 256 MiB. */
#define PMV_LARGE_RESULTS_MOST 4096

/* A part of the memory, and where the peer wants it. */
struct pmv_large_result {
	uint64_t addr;
	uint32_t key;
	uint32_t at;
	uint32_t len;
};

struct pmv_large_results {
	atomic_uint users;
	atomic_uint *all; /* so many there are in the domain, which outlives them; or NULL */
	uint8_t *memory;  /* PMV_CHAIN_LARGE_ROOM bytes */
	struct fid_mr *mr;
	/* Under the agent's lock: those that are to be posted. */
	unsigned int count, posted;
	struct pmv_large_result results[PMV_CHAIN_STEPS];
};

/*
 * pmv_large_results_open -- with one user; NULL: there are as many as may be, or no memory, or none
 * that the core could register; all: NULL for a connection's first
 */
struct pmv_large_results *pmv_large_results_open(const struct pmv_engine *engine, atomic_uint *all);

/* pmv_large_results_put -- one user less; or NULL */
void pmv_large_results_put(struct pmv_large_results *large);

/* pmv_large_results_close -- the endpoint uses it no more: 0, or a negative fi_errno: it does */
int pmv_large_results_close(struct pmv_large_results *large);

/* pmv_large_results_queue -- those that the chain has read are to be posted */
void pmv_large_results_queue(struct pmv_large_results *large, const struct pmv_chain *chain,
			     const struct pmv_reply *reply);

/* pmv_large_results_next -- the next one to be posted, or NULL */
const struct pmv_large_result *pmv_large_results_next(const struct pmv_large_results *large);

#endif /* PMV_LARGE_RESULTS_H */
