/* SPDX-License-Identifier: BSD-2-Clause */
/* prov.c -- what libfabric loads: the provider and its settings */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "prov.h"
#include "rdm.h"
#include "config.h"

struct pmv_setting pmv_setting;

/*
 * cleanup -- the process ends, perhaps out of a signal's handler that calls exit():
 * then any lock may be held further down on this very stack, malloc's too.  So nothing
 * here waits for a lock, or without a bound for a thread, and nothing is freed.
 */
static void cleanup(void)
{
	pmv_agent_stop_all();
}

struct fi_provider pmv_prov = {
	.name = PMV_NAME,
	.version = FI_VERSION(PMV_VERSION_MAJOR, PMV_VERSION_MINOR),
	.getinfo = pmv_getinfo,
	.fabric = pmv_fabric,
	.cleanup = cleanup,
};

static const char *const persist_names[] = {
	[PMV_NONE] = "none", [PMV_PAGE] = "page", [PMV_DMP] = "dmp",
	[PMV_MHP] = "mhp",   [PMV_WSP] = "wsp",
};

const char *pmv_persist_name(enum pmv_persist persist)
{
	return persist_names[persist];
}

/*
 * get_choice -- which of the names a setting has; 0 (the default) if it is not
 * set.  A value that is none of them is kept as an error for fi_getinfo: a
 * typing error must not become a weaker or a stronger promise than was meant.
 */
static int get_choice(const char *param, const char *const names[], int count)
{
	static char bad[128];
	char *value = NULL;

	fi_param_get_str(&pmv_prov, param, &value);
	if (!value)
		return 0;
	for (int i = 0; i < count; i++) {
		if (!strcasecmp(value, names[i]))
			return i;
	}
	snprintf(bad, sizeof(bad), "'%.60s' is not a value of FI_PMEMVERBS_%s", value, param);
	for (char *c = strrchr(bad, '_'); *c; c++) {
		if (*c >= 'a' && *c <= 'z')
			*c += 'A' - 'a';
	}
	pmv_setting.bad = bad;
	return 0;
}

static void read_settings(void)
{
	static const char *const domains[] = {"auto", "none", "page", "dmp", "mhp", "wsp"};
	static const char *const ddio[] = {"auto", "on", "off"};
	static const char *const ordering[] = {"strict", "relaxed"};
	static const char *const agent[] = {"thread", "progress", "off"};
	static const char *const commit[] = {"explicit", "all"};
	char *core = NULL;
	int choice;

	fi_param_define(&pmv_prov, "core", FI_PARAM_STRING,
			"core providers below, in order of preference, separated by commas "
			"(default: verbs,tcp)");
	fi_param_define(&pmv_prov, "domain", FI_PARAM_STRING,
			"what survives a power failure of FI_PMEM memory registered by this "
			"process: auto (find out), none (volatile), page (what msync has written), "
			"dmp (DIMMs and memory controller, ADR), mhp (CPU caches too, eADR), wsp "
			"(I/O controller and NIC buffers too); a declaration overrides what is "
			"detected (default: auto)");
	fi_param_define(&pmv_prov, "ddio", FI_PARAM_STRING,
			"whether inbound DMA lands in this machine's CPU caches: auto (what can be "
			"detected, else on), on, off (default: auto)");
	fi_param_define(&pmv_prov, "ordering", FI_PARAM_STRING,
			"strict, or relaxed where the path may place writes of one connection out "
			"of order: PCIe relaxed ordering, out-of-order data placement (default: "
			"strict)");
	fi_param_define(&pmv_prov, "agent", FI_PARAM_STRING,
			"what writes peers' data back to this process's memory where nobody can do "
			"that from afar: thread (a thread of its own), progress (the application's "
			"calls that read completion queues and counters), off (nothing: such "
			"commits are refused) (default: thread)");
	fi_param_define(&pmv_prov, "commit", FI_PARAM_STRING,
			"which writes and atomics to persistent memory complete when they are "
			"durable: explicit (those with FI_COMMIT_COMPLETE), all (of programs that "
			"know nothing of it, too; memory is found to be persistent by itself) "
			"(default: explicit)");

	fi_param_get_str(&pmv_prov, "core", &core);
	pmv_setting.core = core ? core : "verbs,tcp";
	choice = get_choice("domain", domains, 6);
	pmv_setting.domain_declared = choice > 0;
	pmv_setting.domain = choice ? (enum pmv_persist)(choice - 1) : PMV_NONE;
	choice = get_choice("ddio", ddio, 3);
	pmv_setting.ddio_declared = choice > 0;
	pmv_setting.ddio = choice != 2;
	pmv_setting.relaxed = get_choice("ordering", ordering, 2) == 1;
	pmv_setting.agent = (enum pmv_agent_mode) get_choice("agent", agent, 3);
	pmv_setting.commit_all = get_choice("commit", commit, 2) == 1;
}

/*
 * stand_alone -- FI_EP_RDM is offered here, so RxM is to stand on this provider
 * only for who names both of them.  That is what libfabric does with some core
 * providers of its own; it keeps the mark where fi_provider has room for it, which
 * is the same in all versions from 1.11 to 2.6.
 */
static void stand_alone(void)
{
	const struct {
		int type;
		bool disable_logging;
		bool disable_layering;
	} mark = {.disable_layering = true};
	const char *names = getenv("FI_PROVIDER");

	static_assert(sizeof(mark) <= sizeof(pmv_prov.context), "no room");
	if (FI_VERSION_GE(fi_version(), FI_VERSION(2, 7)) || (names && strstr(names, ";ofi_")))
		return;
	memcpy(&pmv_prov.context, &mark, sizeof(mark));
}

/* fi_prov_ini -- libfabric's entry; holds its lock, so nothing here may call fi_getinfo */
__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
	/* A provider that declares an older API is hidden from newer applications. */
	pmv_prov.fi_version = fi_version();
	read_settings();
	stand_alone();
	pmv_rdm_tune();
	return &pmv_prov;
}
