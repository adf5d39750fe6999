/* SPDX-License-Identifier: BSD-2-Clause */
/* core.c -- the core providers below, and what is known of each */
#include "engine/core.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_prov.h>

#include "engine/engine.h"
#include "pmemrdma/pmemrdma_post.h"
#include "base/setting.h"
#include "memory/platform.h"

/*
 * verbs: FI_FENCE is IBV_SEND_FENCE.  FI_DELIVERY_COMPLETE changes nothing: the target's NIC
 * acknowledges what it may not have placed yet.
 * Both: an endpoint's n-th message takes the n-th receive.
 * tcp: ignores FI_FENCE, and its read responses are sent from the memory as it is later; so a
 * fence waits here until earlier reads have completed.  A flush needs no such wait: the target
 * executes one connection's requests in order.  FI_DELIVERY_COMPLETE has the target's processor
 * acknowledge what it has placed: it takes one request from the stream at a time, and queues the
 * acknowledgement when the last byte is copied (1.17: tcpx_process_remote_write, 2.1:
 * xnet_complete_rx).  So an acknowledgement says that all earlier writes are placed, too.
 * An entry that nobody needs wakes whoever sleeps on tcp's queue, and may cost two system calls
 * (signal.h).  verbs has none for a request without FI_COMPLETION that fails.
 * verbs has room for 55 bytes of CM data, and native for as many; tcp has 256.  Both of them have
 * keys of regions that the NIC chooses; tcp takes those that it is given.
 * native: pmemrdma (prov/pmemrdma), on the devices that verbs uses.
 */
static const struct pmv_core cores[] = {
	{.name = "verbs",
	 .ops = &pmv_engine_libfabric,
	 .caps = PMV_ENGINE_FENCE,
	 .lingers = true,
	 .imm_receives = true,
	 .caches_regions = true,
	 .means_ipv4 = true,
	 .values_until = FI_VERSION(2, 2),
	 .forgets_since = FI_VERSION(1, 21)},
	{.name = "tcp",
	 .ops = &pmv_engine_libfabric,
	 .caps = PMV_ENGINE_DELIVER | PMV_ENGINE_QUIET,
	 .cpu_placed = true,
	 .manual_progress = true,
	 .needs_cqs = true,
	 .uses_sockets = true,
	 .proves = true,
	 .takes_keys = true,
	 .signals_until = FI_VERSION(1, 18)},
	{.name = "pmemrdma",
	 .setting = "native",
	 .ops = &pmv_engine_libfabric,
	 .caps = PMV_ENGINE_FENCE | PMV_ENGINE_QUIET,
	 .lingers = true,
	 .imm_receives = true,
	 .posts_lists = true},
};

#define NUM_CORES (sizeof(cores) / sizeof(cores[0]))

static const char *setting_of(const struct pmv_core *core)
{
	return core->setting ? core->setting : core->name;
}

static const struct pmv_core *find(const char *name, size_t len)
{
	for (size_t i = 0; i < NUM_CORES; i++) {
		const char *setting = setting_of(&cores[i]);

		if (strlen(setting) == len && !strncmp(setting, name, len))
			return &cores[i];
	}
	return NULL;
}

void pmv_core_check(void)
{
	const char *name = pmv_setting.core;
	char known[64] = "";

	for (size_t i = 0; i < NUM_CORES; i++)
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", setting_of(&cores[i]));
	for (;; name++) {
		size_t len = strcspn(name, ",");

		if (!find(name, len))
			pmv_setting_refuse("CORE", name, len, known);
		name += len;
		if (!*name)
			return;
	}
}

const struct pmv_core *pmv_core_next(size_t n)
{
	const char *name = pmv_setting.core;

	for (;; name++) {
		size_t len = strcspn(name, ",");
		const struct pmv_core *core = find(name, len);

		if (core && !n--)
			return core;
		name += len;
		if (!*name)
			return NULL;
	}
}

uint64_t pmv_core_wants(const struct pmv_core *core)
{
	return core->posts_lists && pmv_setting.native_flushes ? PMEMRDMA_FLUSHES : 0;
}

enum pmv_transport pmv_core_transport(const struct pmv_core *core, const struct fi_info *info)
{
	if (info->ep_attr->protocol == FI_PROTO_RDMA_CM_IB_RC && !core->cpu_placed)
		return PMV_TRANSPORT_IB;
	return PMV_TRANSPORT_LOCAL;
}

/* A software RNIC (rxe, siw) has no bus device behind it. */
static bool is_soft_rnic(const char *rnic)
{
	char path[256];
	int len = snprintf(path, sizeof(path), "%s/class/infiniband/%s", pmv_platform.sysfs, rnic);

	if (len >= (int) (sizeof(path) - sizeof("/device")) || access(path, F_OK))
		return false;
	strcpy(path + len, "/device");
	return access(path, F_OK) != 0;
}

bool pmv_core_places_by_cpu(const struct pmv_core *core, const char *domain_name)
{
	return core->cpu_placed || (domain_name && is_soft_rnic(domain_name));
}

/*
 * Soft-RoCE (Linux 6.12: rxe_wqe_is_fenced, req_retry) loses fenced requests.  When it repeats its
 * requests, a fenced one waits for READs and atomics that were posted with it or behind it, also
 * for itself, and those wait for it.  It repeats them when the target has no receive for a
 * message, or is slow to answer.  But it executes one connection's requests in order, READs and
 * atomics too; so a fence may wait here, as over tcp.  (For atomics nothing can be done here:
 * libfabric's verbs provider fences each one.)
 */
unsigned pmv_core_caps(const struct pmv_core *core, enum pmv_transport transport,
		       const char *domain_name)
{
	bool soft_roce = transport == PMV_TRANSPORT_IB && domain_name && is_soft_rnic(domain_name);

	return soft_roce && !pmv_setting.nic_fences ? core->caps & ~PMV_ENGINE_FENCE : core->caps;
}

bool pmv_core_keeps_rejected(const struct pmv_core *core)
{
	return FI_VERSION_LT(fi_version(), core->forgets_since);
}

bool pmv_core_grants_all(const struct pmv_core *core)
{
	size_t count;

	return core->caches_regions &&
	       (fi_param_get_size_t(NULL, "mr_cache_max_count", &count) || count);
}

enum pmv_persist pmv_core_persist(const struct pmv_core *core, enum pmv_persist detected)
{
	bool may_fault = core->manual_progress && pmv_setting.agent != PMV_AGENT_OFF;

	return may_fault && detected > PMV_DMP ? PMV_DMP : detected;
}
