/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain.h -- executes a chain (chain_message.h)
 *
 * Each step is executed under the lock of all chains of the domain (free_list.h).  So it is atomic
 * against the steps of all other chains and against data that the agent stores; and none is
 * executed when the endpoint that it came by is closed.  It is not atomic against writes and
 * atomics that the core executes, nor against the application's own stores.  The lock is not held
 * from one step to the next: a commit may wait for a disk.  Nor is it while a step's pages are read
 * from a file: they are faulted in before.
 *
 * Nothing that a chain says is believed.  A region is looked for by its key when a step needs it,
 * and is held until the step is done.  A pointer, with its bound, is copied once, and the copy is
 * checked.  A step is never repeated, so a chain ends after 16 steps at most.
 */
#ifndef PMV_CHAIN_H
#define PMV_CHAIN_H

#include "agent/chain_message.h"
#include "agent/large_results.h"
#include "agent/region.h"

/* Whoever executes it makes it durable. */
struct pmv_chain_carrier {
	struct pmv_regions *regions;
	bool pages;                            /* it may use regions of files */
	const struct pmv_large_results *large; /* NULL: no step has some */
	/* all before is to be durable: what went wrong, or PMV_FAULT_NONE */
	enum pmv_fault (*commit)(void *arg);
	/* this was stored; commits: a commit will come; the region is held */
	void (*stored)(void *arg, struct pmv_region *region, uint64_t offset, uint64_t len,
		       bool commits);
	const atomic_bool *dropped; /* it may store nothing any more */
	void *arg;
};

/*
 * pmv_chain_execute -- all steps, until one is refused or lost.  The reply gets what has become of
 * them, and their results.  Returns why it has ended early, or PMV_FAULT_NONE.
 */
enum pmv_fault pmv_chain_execute(const struct pmv_chain_carrier *carrier,
				 const struct pmv_chain *chain, struct pmv_reply *reply);

/* pmv_chain_reply_init -- nothing of the chain was executed */
void pmv_chain_reply_init(struct pmv_reply *reply, const struct pmv_chain *chain);

#endif /* PMV_CHAIN_H */
