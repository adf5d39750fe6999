/* SPDX-License-Identifier: BSD-2-Clause */
/* setting.c -- what libfabric loads: the provider and its settings */
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/setting.h"
#include "rdm/rdm.h"
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

/* hash -- of a text, never 0 */
static unsigned long long hash(const char *text)
{
	unsigned long long value = 5381;

	for (; *text; text++)
		value = value * 33 + (unsigned char) *text;
	return value | 1;
}

void pmv_alert(struct pmv_said *said, enum fi_log_subsys subsys, const char *func, int line,
	       const char *fmt, ...)
{
	unsigned long long words;
	char text[768];
	va_list args;
	unsigned int n;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	words = hash(text);
	if (atomic_exchange(&said->last, words) == words)
		return;
	if (fi_log_enabled(&pmv_prov, FI_LOG_WARN, subsys)) {
		fi_log(&pmv_prov, FI_LOG_WARN, subsys, func, line, "%s", text);
		return;
	}
	n = atomic_fetch_add(&said->count, 1);
	if (n < PMV_MOST_ALERTS)
		fprintf(stderr, PMV_NAME ": %s", text);
	if (n == PMV_MOST_ALERTS)
		fprintf(stderr, PMV_NAME ": more of these are shown with FI_LOG_LEVEL=warn\n");
}

static const char *const persist_names[] = {
	[PMV_NONE] = "none", [PMV_PAGE] = "page", [PMV_DMP] = "dmp",
	[PMV_MHP] = "mhp",   [PMV_WSP] = "wsp",
};

const char *pmv_persist_name(enum pmv_persist persist)
{
	return persist_names[persist];
}

/*
 * set_bad -- a value that is none, or a name that is none, is kept as an error for
 * fi_getinfo: a typing error must not become a weaker or a stronger promise than was meant
 */
static void set_bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void set_bad(const char *fmt, ...)
{
	static char bad[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(bad, sizeof(bad), fmt, args);
	va_end(args);
	pmv_setting.bad = bad;
}

/* get_choice -- which of the names a setting has; 0 (the default) if it is not set, or bad */
static int get_choice(const char *param, const char *const names[], int count)
{
	char *value = NULL;
	char upper[16] = "", known[64] = "";

	fi_param_get_str(&pmv_prov, param, &value);
	if (!value)
		return 0;
	for (int i = 0; i < count; i++) {
		if (!strcasecmp(value, names[i]))
			return i;
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", names[i]);
	}
	for (size_t i = 0; param[i] && i < sizeof(upper) - 1; i++)
		upper[i] = (char) toupper(param[i]);
	set_bad("'%.60s' is not a value of FI_PMEMVERBS_%s: %s", value, upper, known);
	return 0;
}

const char *pmv_other_setting(const char *name)
{
	char *value = NULL;

	return fi_param_get_str(NULL, name, &value) ? NULL : value;
}

/* define_others -- RxM's own name for them is its alone; what is read is the same */
static void define_others(void)
{
	fi_param_define(NULL, "ofi_rxm_num_msg_eps", FI_PARAM_STRING,
			"of ofi_rxm; pmemverbs offers no FI_EP_RDM where it is above 1");
	fi_param_define(NULL, "ofi_rxm_sar_limit", FI_PARAM_STRING,
			"of ofi_rxm; pmemverbs leaves it as it is where it is set");
}

/* check_names -- of all that looks like a setting in the environment */
static void check_names(void)
{
	static const char *const names[] = {"CORE",     "DOMAIN", "DDIO",
					    "ORDERING", "AGENT",  "COMMIT"};
	static const char prefix[] = "FI_PMEMVERBS_";

	for (char **entry = environ; *entry; entry++) {
		const char *name;
		size_t len, i = 0;

		if (strncmp(*entry, prefix, strlen(prefix)))
			continue;
		name = *entry + strlen(prefix);
		len = strcspn(name, "=");
		while (i < sizeof(names) / sizeof(names[0]) &&
		       (strlen(names[i]) != len || strncmp(names[i], name, len)))
			i++;
		if (i == sizeof(names) / sizeof(names[0]))
			set_bad("FI_PMEMVERBS_%.*s is not a setting; fi_info -e lists them",
				len < 60 ? (int) len : 60, name);
	}
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
	check_names();
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
	const char *names = pmv_other_setting("provider");

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
	define_others();
	read_settings();
	stand_alone();
	pmv_rdm_tune();
	return &pmv_prov;
}
