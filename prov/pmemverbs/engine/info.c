/* SPDX-License-Identifier: BSD-2-Clause */
/* info.c -- translation between the fi_info of an application and that of the core */
#include "engine/info.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "base/setting.h"
#include "engine/engine.h"

bool pmv_info_is_keyed(int mr_mode)
{
	return mr_mode == PMV_MR_BASIC || (mr_mode & FI_MR_PROV_KEY);
}

bool pmv_info_is_pmem(const struct fi_info *info)
{
	return (info->caps & FI_PMEM) ||
	       (info->tx_attr &&
		((info->tx_attr->caps & FI_PMEM) || (info->tx_attr->op_flags & FI_COMMIT))) ||
	       (info->rx_attr && (info->rx_attr->caps & FI_PMEM));
}

bool pmv_info_has_events(const struct fi_info *info)
{
	return (info->caps & FI_RMA_EVENT) ||
	       (info->rx_attr && (info->rx_attr->caps & FI_RMA_EVENT));
}

bool pmv_info_has_fence(const struct fi_info *info)
{
	return (info->caps & FI_FENCE) || (info->tx_attr && (info->tx_attr->caps & FI_FENCE));
}

/*
 * The thread that reads the CQ also posts parts of commits.  That is serialized only if one
 * thread makes all calls to a domain, or to all objects with the same CQ.
 */
static enum fi_threading core_threading(enum fi_threading threading)
{
	bool by_object = threading == FI_THREAD_FID || threading == FI_THREAD_ENDPOINT;

	return by_object ? FI_THREAD_SAFE : threading;
}

/* A flush is a READ of memory that is written, so whoever may write has to read. */
static uint64_t core_caps(uint64_t caps, bool pmem)
{
	caps &= ~PMV_INFO_OWN_CAPS;
	if (pmem && (caps & FI_WRITE))
		caps |= FI_READ;
	if (pmem && (caps & FI_REMOTE_WRITE))
		caps |= FI_REMOTE_READ;
	return caps;
}

void pmv_info_strip_own(struct fi_info *info)
{
	bool pmem = pmv_info_is_pmem(info);

	info->caps = core_caps(info->caps, pmem);
	info->tx_attr->caps = core_caps(info->tx_attr->caps, pmem);
	info->rx_attr->caps = core_caps(info->rx_attr->caps, pmem);
	info->domain_attr->caps &= ~PMV_INFO_OWN_CAPS;
	info->tx_attr->op_flags &= ~PMV_INFO_OWN_OP_FLAGS;
}

void pmv_info_strip(struct fi_info *info)
{
	bool pmem = pmv_info_is_pmem(info);

	pmv_info_strip_own(info);
	if (pmem)
		info->tx_attr->size *= PMV_INFO_MAX_REQUESTS;
	info->domain_attr->threading = core_threading(info->domain_attr->threading);
}

struct fi_info *pmv_info_complete(const struct fi_info *info)
{
	struct fi_info *copy = fi_dupinfo(info);
	struct fi_info *blank = fi_allocinfo();

	if (!copy || !blank) {
		fi_freeinfo(copy);
		fi_freeinfo(blank);
		return NULL;
	}
#define COMPLETE(attr)                                                                             \
	if (!copy->attr) {                                                                         \
		copy->attr = blank->attr;                                                          \
		blank->attr = NULL;                                                                \
	}
	COMPLETE(tx_attr);
	COMPLETE(rx_attr);
	COMPLETE(ep_attr);
	COMPLETE(domain_attr);
	COMPLETE(fabric_attr);
#undef COMPLETE
	fi_freeinfo(blank);
	copy->next = NULL;
	return copy;
}

struct fi_info *pmv_info_for(const char *prov_name, const struct fi_info *info)
{
	struct fi_info *copy = pmv_info_complete(info);
	struct fi_fabric_attr *fabric = copy ? copy->fabric_attr : NULL;

	if (!copy)
		return NULL;
	fabric->fabric = NULL;
	copy->domain_attr->domain = NULL;
	free(fabric->prov_name);
	fabric->prov_name = strdup(prov_name);
	fabric->prov_version = 0;
	fabric->api_version = pmv_info_api_version(fabric->api_version);
	if (fabric->prov_name)
		return copy;
	fi_freeinfo(copy);
	return NULL;
}

struct fi_info *pmv_info_to_core(const struct pmv_core *core, const struct fi_info *info)
{
	struct fi_info *copy = pmv_info_for(core->name, info);

	if (!copy)
		return NULL;
	pmv_info_strip(copy);
	copy->handle = NULL;
	/*
	 * The agent posts on all endpoints, from any thread.  And who waits for an event lets
	 * connections end that were given up (silence.h).
	 */
	if (pmv_setting.agent != PMV_AGENT_OFF || (pmv_setting.timeout && core->uses_sockets))
		copy->domain_attr->threading = FI_THREAD_SAFE;
	return copy;
}

/* with_pmem -- the caps of one direction: the core's, less those that only flushes need */
static uint64_t with_pmem(uint64_t caps, uint64_t asked, bool pmem)
{
	const uint64_t reads = FI_READ | FI_REMOTE_READ;
	const uint64_t directions = reads | FI_WRITE | FI_REMOTE_WRITE;

	/* The processor copies the data of small and of injected commits: no device memory. */
	caps &= ~(PMV_INFO_OWN_CAPS | FI_HMEM);
	if (asked & directions)
		caps &= ~(reads & ~asked);
	if (pmem && (caps & FI_RMA))
		caps |= FI_PMEM;
	return caps;
}

/* offer -- what both have in common; less, more: other caps than the layer's */
static void offer(struct fi_info *info, const struct fi_info *asked, bool pmem, uint64_t less,
		  uint64_t more)
{
	uint64_t asked_tx = asked->tx_attr ? asked->tx_attr->caps : 0;
	uint64_t asked_rx = asked->rx_attr ? asked->rx_attr->caps : 0;

	info->caps = with_pmem(info->caps & ~less, asked->caps, pmem) | more;
	info->tx_attr->caps = with_pmem(info->tx_attr->caps & ~less, asked_tx, pmem) | more;
	info->rx_attr->caps = with_pmem(info->rx_attr->caps & ~less, asked_rx, pmem);
	info->tx_attr->op_flags &= ~PMV_INFO_OWN_OP_FLAGS;
	if (asked->tx_attr)
		info->tx_attr->op_flags |= asked->tx_attr->op_flags & PMV_INFO_OWN_OP_FLAGS;
	info->fabric_attr->fabric = NULL;
	info->domain_attr->domain = NULL;
}

/* is_offered -- who asks for nothing gets FI_RMA_PMEM, too, where it works */
static bool is_offered(const struct fi_info *asked, int mr_mode)
{
	return pmv_info_is_pmem(asked) || (!asked->caps && pmv_info_is_keyed(mr_mode));
}

void pmv_info_from_layer(struct fi_info *info, const struct fi_info *asked)
{
	offer(info, asked, is_offered(asked, info->domain_attr->mr_mode), 0,
	      pmv_info_has_fence(asked) ? FI_FENCE : 0);
	info->domain_attr->mr_mode &= ~FI_MR_HMEM;
}

void pmv_info_from_core(struct fi_info *info, const struct fi_info *asked)
{
	int mr_mode = info->domain_attr->mr_mode & ~FI_MR_HMEM;
	int allowed = asked->domain_attr ? asked->domain_attr->mr_mode : 0;
	bool pmem;

	/* A key that the application chooses carries no attributes. */
	if (!pmv_info_is_keyed(mr_mode) && mr_mode != PMV_MR_SCALABLE && (allowed & FI_MR_PROV_KEY))
		mr_mode |= FI_MR_PROV_KEY;
	info->domain_attr->mr_mode = mr_mode;
	if (pmv_info_is_keyed(mr_mode))
		info->domain_attr->mr_key_size = sizeof(uint64_t);
	pmem = is_offered(asked, mr_mode);
	/* Tagged messages of an MSG core would need the core's own receive contexts. */
	offer(info, asked, pmem, FI_TAGGED, FI_FENCE);
	if (pmv_info_has_events(asked)) {
		info->caps |= FI_RMA_EVENT;
		info->rx_attr->caps |= FI_RMA_EVENT;
	}
	if (pmem && info->tx_attr->size >= PMV_INFO_MAX_REQUESTS)
		info->tx_attr->size /= PMV_INFO_MAX_REQUESTS;
	/* A commit completes when it is durable, and what was posted later may have completed. */
	if (pmem)
		info->tx_attr->comp_order = 0;
	if (asked->domain_attr && asked->domain_attr->threading)
		info->domain_attr->threading = asked->domain_attr->threading;
}

struct fi_info *pmv_info_filter(struct fi_info *list,
				bool (*keep)(const struct fi_info *info, const struct fi_info *kept,
					     const void *arg),
				const void *arg)
{
	struct fi_info **at = &list;

	while (*at) {
		struct fi_info *info = *at;

		if (keep(info, list, arg)) {
			at = &info->next;
			continue;
		}
		*at = info->next;
		info->next = NULL;
		fi_freeinfo(info);
	}
	return list;
}

bool pmv_info_is_named(const char *wanted, const char *name)
{
	return !wanted || (name && !strcmp(wanted, name));
}
