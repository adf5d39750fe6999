/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core.h -- the core providers below, and what is known of each
 *
 * A new core is a new row in core.c.  No other cores are used: nobody has checked in which
 * order they execute requests.
 */
#ifndef PMV_CORE_H
#define PMV_CORE_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/fabric.h>

enum pmv_transport {
	PMV_TRANSPORT_IB,    /* a write completes when the target's NIC has it */
	PMV_TRANSPORT_LOCAL, /* a write completes when it was handed over (iWARP, TCP) */
};

/* What an engine can do. */
enum pmv_engine_cap {
	/* FI_FENCE keeps a request from being executed before earlier reads and atomics return */
	PMV_ENGINE_FENCE = 1 << 0,
	/* a list of requests costs one doorbell */
	PMV_ENGINE_LIST = 1 << 1,
	/* RDMA FLUSH */
	PMV_ENGINE_FLUSH = 1 << 2,
	/* RDMA ATOMIC WRITE */
	PMV_ENGINE_ATOMIC_WRITE = 1 << 3,
};

struct pmv_engine_ops;

struct pmv_core {
	const char *name;
	const struct pmv_engine_ops *ops;
	unsigned caps; /* enum pmv_engine_cap */
	/* Software places inbound data: it is in the caches, like with DDIO. */
	bool cpu_placed;
	/* After FI_SHUTDOWN it still carries out what is posted, until fi_shutdown is called. */
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
