/* SPDX-License-Identifier: BSD-2-Clause */
/* large_results.c -- memory for large results of chains; large_results.h has the rules */
#include "agent/large_results.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <rdma/fi_domain.h>

#include "engine/engine.h"

static int map(struct pmv_large_results *large, const struct pmv_engine *engine)
{
	void *memory = mmap(NULL, PMV_CHAIN_LARGE_ROOM, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct iovec iov = {memory, PMV_CHAIN_LARGE_ROOM};
	const struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_WRITE};
	int ret = 0;

	if (memory == MAP_FAILED)
		return -FI_ENOMEM;
	large->memory = memory;
	/* Without a warning: a peer may ask for it again and again (complaint.h). */
	if (engine->scratch_mr)
		ret = pmv_engine_region(engine, &attr, PMV_CORE_MR_NOCACHE, &large->mr);
	if (ret)
		munmap(memory, PMV_CHAIN_LARGE_ROOM);
	return ret;
}

struct pmv_large_results *pmv_large_results_open(const struct pmv_engine *engine, atomic_uint *all)
{
	bool may = !all || atomic_fetch_add(all, 1) < PMV_LARGE_RESULTS_MOST;
	struct pmv_large_results *large = may ? calloc(1, sizeof(*large)) : NULL;

	if (!large || map(large, engine)) {
		free(large);
		if (all)
			atomic_fetch_sub(all, 1);
		return NULL;
	}
	atomic_init(&large->users, 1);
	large->all = all;
	return large;
}

void pmv_large_results_put(struct pmv_large_results *large)
{
	if (!large || atomic_fetch_sub(&large->users, 1) > 1)
		return;
	munmap(large->memory, PMV_CHAIN_LARGE_ROOM);
	if (large->all)
		atomic_fetch_sub(large->all, 1);
	free(large);
}

int pmv_large_results_close(struct pmv_large_results *large)
{
	int ret = large->mr ? fi_close(&large->mr->fid) : 0;

	if (ret)
		return ret;
	large->mr = NULL;
	pmv_large_results_put(large);
	return 0;
}

void pmv_large_results_queue(struct pmv_large_results *large, const struct pmv_chain *chain,
			     const struct pmv_reply *reply)
{
	large->count = large->posted = 0;
	for (unsigned int i = 0; i < chain->count; i++) {
		const struct pmv_chain_step *step = &chain->steps[i];

		if ((step->head.flags & PMV_CHAIN_LARGE) && reply->steps[i].done)
			large->results[large->count++] = (struct pmv_large_result){
				.addr = step->result_addr,
				.key = step->result_key,
				.at = step->result_at,
				.len = reply->steps[i].done,
			};
	}
}

const struct pmv_large_result *pmv_large_results_next(const struct pmv_large_results *large)
{
	return large && large->posted < large->count ? &large->results[large->posted] : NULL;
}
