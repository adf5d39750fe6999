/* SPDX-License-Identifier: BSD-2-Clause */
/* info.h -- translation between the fi_info of an application and that of the core */
#ifndef PMV_INFO_H
#define PMV_INFO_H

#include <stdbool.h>

#include <rdma/fabric.h>

struct pmv_core;

/* At most the API that this build knows: the core uses no fields that are not there. */
static inline uint32_t pmv_info_api_version(uint32_t api_version)
{
	const uint32_t newest = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);

	return FI_VERSION_LT(api_version, newest) ? api_version : newest;
}

/* Flags of fi_getinfo that libfabric does not publish; the same bits since 1.10. */
#define PMV_INFO_HIDDEN (1ULL << 60) /* OFI_GETINFO_HIDDEN: ask hidden providers, too */
/* OFI_CORE_PROV_ONLY: another provider looks for one that it can stand on. */
#define PMV_INFO_CORE_ONLY (1ULL << 59)

/* Capabilities that this provider adds to the core's. */
#define PMV_INFO_OWN_CAPS (FI_RMA_PMEM | FI_FENCE | FI_RMA_EVENT)

/* Default flags of operations that it carries out itself. */
#define PMV_INFO_OWN_OP_FLAGS (FI_COMMIT_COMPLETE | FI_DELIVERY_COMPLETE)

/*
 * The core's queues are opened with room for so many requests per operation.
 *
 * A commit that READs make durable needs at most this: a flush in front, the write, the
 * flush behind it and the notice.  A commit by the agent may need more, and waits for room.
 * So a CQ never overruns if it is as long as the queues of all its endpoints together.
 */
#define PMV_INFO_MAX_REQUESTS 4

/* FI_ORDER_STRICT of comp_order, a name that 2.x calls deprecated */
#define PMV_INFO_STRICT_ORDER 0x1FFULL

/* pmv_info_complete -- a copy that has all attributes; of NULL, an empty one */
struct fi_info *pmv_info_complete(const struct fi_info *info);

/*
 * pmv_info_strip -- leave what the core knows, and ask it for what commits need
 * pmv_info_strip_own -- the same for a layer between the application and this provider
 */
void pmv_info_strip(struct fi_info *info);
void pmv_info_strip_own(struct fi_info *info);

/*
 * pmv_info_for -- a complete copy, of another provider; it names no open objects.  NULL: no memory
 * pmv_info_to_core -- the same, as the core accepts it
 */
struct fi_info *pmv_info_for(const char *prov_name, const struct fi_info *info);
struct fi_info *pmv_info_to_core(const struct pmv_core *core, const struct fi_info *info);

/*
 * pmv_info_from_core -- turn the core's info into ours, for what was asked for
 * pmv_info_from_layer -- the same with a layer's; there FI_FENCE costs something, and is for those
 * who ask for it
 */
void pmv_info_from_core(struct fi_info *info, const struct fi_info *asked);
void pmv_info_from_layer(struct fi_info *info, const struct fi_info *asked);

/*
 * pmv_info_filter -- free the infos that `keep` does not want; returns the list.  `kept`
 * is the list with those wanted so far, followed by `info`.
 */
struct fi_info *pmv_info_filter(struct fi_info *list,
				bool (*keep)(const struct fi_info *info, const struct fi_info *kept,
					     const void *arg),
				const void *arg);

/*
 * pmv_info_is_keyed -- does the provider choose the keys, so that they carry attributes?
 * pmv_info_is_pmem -- does the application want FI_RMA_PMEM?
 * pmv_info_has_events -- does it want FI_RMA_EVENT?
 * pmv_info_has_fence -- does it want FI_FENCE?
 * pmv_info_is_named -- does the fabric or domain have the wanted name, if one is wanted?
 */
bool pmv_info_is_keyed(int mr_mode);
bool pmv_info_is_pmem(const struct fi_info *info);
bool pmv_info_has_events(const struct fi_info *info);
bool pmv_info_has_fence(const struct fi_info *info);
bool pmv_info_is_named(const char *wanted, const char *name);

#endif /* PMV_INFO_H */
