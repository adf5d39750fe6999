/* SPDX-License-Identifier: BSD-2-Clause */
/* provider.c -- what libfabric loads */
#include "provider.h"

#include "config.h"

#include "fabric.h"
#include "getinfo.h"

/* The devices stay open, and what an exit has interrupted may hold any lock. */
static void cleanup(void)
{
}

struct fi_provider pmr_prov = {
	.name = PMR_NAME,
	.version = FI_VERSION(PMV_VERSION_MAJOR, PMV_VERSION_MINOR),
	.getinfo = pmr_getinfo,
	.fabric = pmr_fabric_open,
	.cleanup = cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
	/* libfabric hides a provider that declares an older API from newer applications. */
	pmr_prov.fi_version = fi_version();
	fi_param_define(&pmr_prov, "use_odp", FI_PARAM_BOOL,
			"Register memory without pinning it, where the device can (default: no)");
	return &pmr_prov;
}
