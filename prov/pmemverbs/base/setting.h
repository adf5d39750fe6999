/* SPDX-License-Identifier: BSD-2-Clause */
/* setting.h -- the provider's settings */
#ifndef PMV_SETTING_H
#define PMV_SETTING_H

#include <stdbool.h>
#include <stddef.h>

/* Persistence domains: what survives a power failure.  Keys carry the values: never renumber. */
enum pmv_persist {
	PMV_NONE = 0, /* nothing: a commit means global visibility */
	PMV_PAGE = 1, /* what msync has written */
	PMV_DMP = 2,  /* DIMM and memory controller */
	PMV_MHP = 3,  /* the caches too */
	PMV_WSP = 4,  /* I/O controller and NIC buffers too */
};

enum pmv_agent_mode {
	PMV_AGENT_THREAD,   /* it has a thread of its own */
	PMV_AGENT_BUSY,     /* ... which never sleeps */
	PMV_AGENT_PROGRESS, /* it runs inside the application's calls */
	PMV_AGENT_OFF,
};

struct pmv_setting {
	const char *core;    /* FI_PMEMVERBS_CORE */
	bool native_flushes; /* it is not set: native is for devices with RDMA FLUSH only */
	bool domain_declared;
	enum pmv_persist domain; /* FI_PMEMVERBS_DOMAIN, if declared */
	bool ddio_declared;
	bool ddio;                 /* FI_PMEMVERBS_DDIO, if declared */
	bool relaxed;              /* FI_PMEMVERBS_ORDERING */
	enum pmv_agent_mode agent; /* FI_PMEMVERBS_AGENT */
	bool commit_all;           /* FI_PMEMVERBS_COMMIT */
	bool reads_explicit;       /* FI_PMEMVERBS_REMOTE_READ=explicit */
	bool answers;              /* FI_PMEMVERBS_ANSWER=on */
	bool nic_fences;           /* FI_PMEMVERBS_FENCE=nic */
	bool no_flush;             /* FI_PMEMVERBS_FLUSH=off */
	bool leaves_sigbus;        /* FI_PMEMVERBS_SIGBUS=off */
	int timeout;               /* FI_PMEMVERBS_TIMEOUT, in seconds; 0: never */
	const char *metrics;       /* FI_PMEMVERBS_METRICS: a directory, or NULL */
	const char *keys;          /* FI_PMEMVERBS_KEYS: a directory, or NULL */
	const char *bad;           /* a sentence about an unknown name or value, or NULL */
};

extern struct pmv_setting pmv_setting;

static inline bool pmv_setting_has_thread(void)
{
	return pmv_setting.agent == PMV_AGENT_THREAD || pmv_setting.agent == PMV_AGENT_BUSY;
}

/* pmv_setting_fills_caches -- do keys say that inbound data may be in this machine's caches? */
static inline bool pmv_setting_fills_caches(void)
{
	return !pmv_setting.ddio_declared || pmv_setting.ddio;
}

/* pmv_setting_read -- define the settings and read them; once, when libfabric loads us */
void pmv_setting_read(void);

/*
 * pmv_setting_other -- a setting of libfabric ("provider") or of another provider, as its owner
 * sees it: also from libfabric.conf, since 1.18.  NULL: it is not set.
 */
const char *pmv_setting_other(const char *name);

/* pmv_setting_refuse -- FI_PMEMVERBS_<name> has a value that is not known: fi_getinfo will fail */
void pmv_setting_refuse(const char *name, const char *value, size_t len, const char *known);

/* pmv_setting_domain_name -- as FI_PMEMVERBS_DOMAIN spells it */
const char *pmv_setting_domain_name(enum pmv_persist persist);

#endif /* PMV_SETTING_H */
