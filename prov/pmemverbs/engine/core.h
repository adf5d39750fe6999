/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h -- the core providers below, and what is known of each
 *
 * A new core is a new row in core.c.  Cores that are not listed there are not
 * used: nobody has looked at what orders they keep.
 */
#ifndef PMV_CORE_H
#define PMV_CORE_H

#include <rdma/fabric.h>

#include "commit/plan.h"

struct pmv_core {
	const char *name;
	/*
	 * FI_FENCE on a request keeps it from being executed before earlier
	 * reads and atomics of the connection have returned.
	 */
	bool fence;
	/* Software places inbound data: it is in the caches, like with DDIO. */
	bool cpu_placed;
	/* After FI_SHUTDOWN it goes on with what is under way, until fi_shutdown. */
	bool lingers;
	/* It moves data only inside calls that read its queues. */
	bool driven;
	/* A write with immediate data uses up one of the target's receives, as a message does. */
	bool imm_receives;
	/* It can't work without a CQ in either direction. */
	bool needs_cqs;
	/* Up to this version of libfabric it takes operands by value: see below. */
	uint32_t values_until;
};

const struct pmv_core *pmv_core_find(const char *name);

/* pmv_core_next -- the n-th core of FI_PMEMVERBS_CORE, or NULL */
const struct pmv_core *pmv_core_next(size_t n);

enum pmv_transport pmv_core_transport(const struct pmv_core *core, const struct fi_info *info);

/*
 * pmv_core_takes_values -- does it take the operand of a fetching or comparing
 * atomic from fi_msg_atomic::addr, and the comparand from the pointer itself?
 */
bool pmv_core_takes_values(const struct pmv_core *core);

/* pmv_core_places_by_cpu -- does software at this domain place inbound data? */
bool pmv_core_places_by_cpu(const struct pmv_core *core, const char *domain_name);

/* pmv_core_may_be_rdma -- or can it only be one that needs no RDMA device? */
bool pmv_core_may_be_rdma(void);

#endif /* PMV_CORE_H */
