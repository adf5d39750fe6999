/* SPDX-License-Identifier: BSD-2-Clause */
/* setting.h -- the provider, its settings and its log */
#ifndef PMV_PROV_H
#define PMV_PROV_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "memory/key.h"

#define PMV_NAME "pmemverbs"

/*
 * The newest API whose structures this build knows.  The core is never asked
 * for a newer one, so it neither reads nor writes fields that we don't have.
 */
#define PMV_API_VERSION FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)

enum pmv_agent_mode {
	PMV_AGENT_THREAD,   /* it has a thread of its own */
	PMV_AGENT_PROGRESS, /* it runs inside the application's calls */
	PMV_AGENT_OFF,
};

struct pmv_setting {
	const char *core; /* FI_PMEMVERBS_CORE */
	bool domain_declared;
	enum pmv_persist domain; /* FI_PMEMVERBS_DOMAIN, if declared */
	bool ddio_declared;
	bool ddio;                 /* FI_PMEMVERBS_DDIO, if declared */
	bool relaxed;              /* FI_PMEMVERBS_ORDERING */
	enum pmv_agent_mode agent; /* FI_PMEMVERBS_AGENT */
	bool commit_all;           /* FI_PMEMVERBS_COMMIT */
	const char *bad;           /* a sentence on a value that can't be used, or NULL */
};

extern struct fi_provider pmv_prov;
extern struct pmv_setting pmv_setting;

/*
 * pmv_other_setting -- of libfabric ("provider") or of RxM ("ofi_rxm_..."), as these
 * see it: from the environment or, since 1.18, from libfabric.conf, whichever the
 * latter prefers.  NULL: it is not set.
 */
const char *pmv_other_setting(const char *name);

const char *pmv_persist_name(enum pmv_persist persist);

#define PMV_WARN(subsys, ...) FI_WARN(&pmv_prov, FI_LOG_##subsys, __VA_ARGS__)
/*
 * PMV_ALERT -- a set-up that is less durable than it looks: also where FI_LOG_LEVEL is
 * not set, with which libfabric keeps quiet.  There the same words are said once, and of
 * each place in the code no more than a few.
 */
#define PMV_ALERT(subsys, ...)                                                                     \
	do {                                                                                       \
		static struct pmv_said said_;                                                      \
		pmv_alert(&said_, FI_LOG_##subsys, __func__, __LINE__, __VA_ARGS__);               \
	} while (0)

#define PMV_MOST_ALERTS 8

struct pmv_said {
	atomic_uint count;
	atomic_ullong last; /* a hash of the words */
};

void pmv_alert(struct pmv_said *said, enum fi_log_subsys subsys, const char *func, int line,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define PMV_INFO(subsys, ...) FI_INFO(&pmv_prov, FI_LOG_##subsys, __VA_ARGS__)

static inline uint32_t pmv_core_version(uint32_t api_version)
{
	return FI_VERSION_LT(api_version, PMV_API_VERSION) ? api_version : PMV_API_VERSION;
}

/* getinfo.c */
int pmv_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info);

/* fabric.c */
int pmv_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

#endif /* PMV_PROV_H */
