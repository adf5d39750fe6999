/* SPDX-License-Identifier: BSD-2-Clause */
/* chains.c -- chains (fi_pmemverbs_chain(7)): of some steps, which commit or do not */
#include "world.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

static void choose_step(struct fi_pmemverbs_step *step, uint64_t addr, uint64_t key)
{
	static const uint32_t kinds[] = {FI_PMEMVERBS_STEP_READ, FI_PMEMVERBS_STEP_WRITE,
					 FI_PMEMVERBS_STEP_WRITE, FI_PMEMVERBS_STEP_CAS,
					 FI_PMEMVERBS_STEP_FETCH_ADD};

	*step = (struct fi_pmemverbs_step){
		.kind = kinds[sched_dice(sizeof(kinds) / sizeof(kinds[0]))],
		.flags = sched_one_in(3) ? FI_PMEMVERBS_STEP_COMMIT : 0,
		.addr = addr,
		.key = key,
		.len = sizeof(uint64_t),
		.operand = world.source,
	};
	if (step->kind == FI_PMEMVERBS_STEP_CAS)
		step->expected = world.source;
	if (step->kind == FI_PMEMVERBS_STEP_WRITE && sched_one_in(2))
		step->len = 64;
}

ssize_t chains_post(enum memory memory, struct op *op)
{
	uint64_t addr = (uintptr_t) world.memory[memory], key = fi_mr_key(world.mr[memory]);
	unsigned int count = 1 + (unsigned int) sched_dice(WORLD_STEPS);
	struct fi_pmemverbs_chain_ops *ops;

	sure(fi_open_ops(&op->conn->ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) &ops, NULL),
	     "chains");
	for (unsigned int i = 0; i < count; i++)
		choose_step(&op->steps[i], addr + 64 * sched_dice(16), key);
	return ops->post(op->conn->ep, op->steps, count, op, 0);
}

void chains_check(const struct op *op)
{
	if (op->steps[0].status != FI_PMEMVERBS_STEP_OK &&
	    op->steps[0].status != FI_PMEMVERBS_STEP_FAILED)
		sched_fail("a step of a chain has ended as %u", op->steps[0].status);
}
