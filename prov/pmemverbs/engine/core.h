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

#include "base/setting.h"

enum pmv_transport {
	PMV_TRANSPORT_IB,    /* a write completes when the target's NIC has it */
	PMV_TRANSPORT_LOCAL, /* a write completes when it was handed over (iWARP, TCP) */
};

/* What an engine can do. */
enum pmv_engine_cap {
	PMV_ENGINE_FENCE = 1 << 0, /* FI_FENCE: executed after earlier reads and atomics return */
	/* FI_DELIVERY_COMPLETE: the data are in the target's memory, and all before them */
	PMV_ENGINE_DELIVER = 1 << 1,
	/* A request without FI_COMPLETION has an entry if it fails, with its context, and only then
	 */
	PMV_ENGINE_QUIET = 1 << 2,
};

struct pmv_engine_ops;

struct pmv_core {
	const char *name;
	const char *setting; /* what FI_PMEMVERBS_CORE calls it, if not so */
	const struct pmv_engine_ops *ops;
	unsigned caps;        /* enum pmv_engine_cap: see pmv_core_caps */
	bool cpu_placed;      /* software places inbound data: in the caches, as with DDIO */
	bool lingers;         /* after FI_SHUTDOWN it carries on, until fi_shutdown is called */
	bool manual_progress; /* it moves data only inside calls that read its queues */
	bool imm_receives;    /* a write with immediate data uses up a receive, as a message does */
	bool needs_cqs;       /* it can't work without a CQ in either direction */
	bool caches_regions;  /* with rights for everybody, unless libfabric's cache is off */
	bool uses_sockets;    /* a connection is a TCP socket of this process (silence.h) */
	bool posts_lists;     /* pmemrdma_post.h: several requests with one doorbell */
	bool proves;          /* CM data have room for FI_PMEMVERBS_KEYS; else there are tickets */
	bool takes_keys;      /* of regions, if it is not asked to choose them */
	bool means_ipv4;      /* it takes an address of no format for one of IPv4 */
	/*
	 * Up to this version of libfabric it takes the operand of a fetching or comparing
	 * atomic from fi_msg_atomic::addr, and the comparand from the pointer itself.
	 */
	uint32_t values_until;
	/* Before this one, each read of a queue takes out the byte that wakes sleepers (signal.h).
	 */
	uint32_t signals_until;
	/* Before this one it keeps the id of a connection request that it rejects; 0: never. */
	uint32_t forgets_since;
};

/* pmv_core_check -- refuse FI_PMEMVERBS_CORE if it names a core that is not known, or can't be used
 */
void pmv_core_check(void);

/* pmv_core_next -- the n-th core of FI_PMEMVERBS_CORE, or NULL */
const struct pmv_core *pmv_core_next(size_t n);

/*
 * pmv_core_wants -- for hints: a capability of this core's own, without which its devices are not
 * offered.  If nobody has chosen a core, native is offered only where it can FLUSH: without that,
 * verbs is better, which others have tried for years.  The peer may use either.
 */
uint64_t pmv_core_wants(const struct pmv_core *core);

enum pmv_transport pmv_core_transport(const struct pmv_core *core, const struct fi_info *info);

/* pmv_core_places_by_cpu -- does software at this domain place inbound data? */
bool pmv_core_places_by_cpu(const struct pmv_core *core, const char *domain_name);

/* pmv_core_caps -- what the core can do at this domain: enum pmv_engine_cap */
unsigned pmv_core_caps(const struct pmv_core *core, enum pmv_transport transport,
		       const char *domain_name);

/* pmv_core_keeps_rejected -- what strangers ask for would take more and more memory */
bool pmv_core_keeps_rejected(const struct pmv_core *core);

/* pmv_core_grants_all -- may peers do everything with a region, whatever it was registered for? */
bool pmv_core_grants_all(const struct pmv_core *core);

/*
 * pmv_core_persist -- what a region that was detected as this is treated as.  Where the core
 * copies inbound data in this process, a page may have no memory behind it (guard.h), and only the
 * agent knows: a peer's flush would read back data that are lost.
 */
enum pmv_persist pmv_core_persist(const struct pmv_core *core, enum pmv_persist detected);

#endif /* PMV_CORE_H */
