/* SPDX-License-Identifier: BSD-2-Clause */
/* setting.c -- the provider's settings, read once */
#include "base/setting.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

struct pmv_setting pmv_setting;

static const char *const domains[] = {"auto", "none", "page", "dmp", "mhp", "wsp"};

/*
 * set_bad -- keep an unknown name or value as an error for fi_getinfo: a typing error
 * must not make a weaker or a stronger promise than was meant
 */
__attribute__((format(printf, 1, 2))) static void set_bad(const char *fmt, ...)
{
	static char bad[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(bad, sizeof(bad), fmt, args);
	va_end(args);
	pmv_setting.bad = bad;
}

void pmv_setting_refuse(const char *param, const char *value, size_t len, const char *known)
{
	char upper[16] = "";

	for (size_t i = 0; i < sizeof(upper) - 1 && param[i]; i++)
		upper[i] = (char) toupper(param[i]);
	set_bad("'%.*s' is not a value of FI_PMEMVERBS_%s: %s", len < 60 ? (int) len : 60, value,
		upper, known);
}

/* get_choice -- the index of a setting's value; 0 (the default) if it is not set or unknown */
static int get_choice(const char *param, const char *const names[], int count)
{
	char *value = NULL;
	char known[64] = "";

	fi_param_get_str(&pmv_prov, param, &value);
	if (!value)
		return 0;
	for (int i = 0; i < count; i++) {
		if (!strcasecmp(value, names[i]))
			return i;
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", names[i]);
	}
	pmv_setting_refuse(param, value, strlen(value), known);
	return 0;
}

const char *pmv_setting_other(const char *name)
{
	char *value = NULL;

	return fi_param_get_str(NULL, name, &value) ? NULL : value;
}

const char *pmv_setting_domain_name(enum pmv_persist persist)
{
	return domains[persist + 1];
}

/* check_names -- find misspelt settings in the environment */
static void check_names(void)
{
	static const char *const names[] = {"CORE",   "DOMAIN", "DDIO",  "ORDERING", "AGENT",
					    "COMMIT", "ANSWER", "FENCE", NULL};
	static const char prefix[] = "FI_PMEMVERBS_";

	for (char **entry = environ; *entry; entry++) {
		const char *name = *entry + strlen(prefix);
		size_t len, i = 0;

		if (strncmp(*entry, prefix, strlen(prefix)))
			continue;
		len = strcspn(name, "=");
		while (names[i] && (strncmp(names[i], name, len) || names[i][len]))
			i++;
		if (!names[i])
			set_bad("FI_PMEMVERBS_%.*s is not a setting; fi_info -e lists them",
				len < 60 ? (int) len : 60, name);
	}
}

static void define(void)
{
	fi_param_define(
		&pmv_prov, "core", FI_PARAM_STRING,
		"core providers to use, in order of preference, separated by commas: verbs, "
		"tcp (default: verbs,tcp)");
	fi_param_define(&pmv_prov, "domain", FI_PARAM_STRING,
			"what survives a power failure, for FI_RMA_PMEM memory that this process "
			"registers: auto (detect it), none (volatile), page (what msync has "
			"written), dmp (DIMMs and memory controller, ADR), mhp (CPU caches too, "
			"eADR), wsp (I/O controller and NIC buffers too); a declaration overrides "
			"what is detected (default: auto)");
	fi_param_define(
		&pmv_prov, "ddio", FI_PARAM_STRING,
		"whether inbound DMA lands in this machine's CPU caches: auto (the same as "
		"on, since nothing tells it everywhere), on, off (set this at the target if "
		"the NIC's root port has DDIO disabled) (default: auto)");
	fi_param_define(&pmv_prov, "ordering", FI_PARAM_STRING,
			"strict, or relaxed if the path may place the writes of one connection out "
			"of order: PCIe relaxed ordering, out-of-order data placement (default: "
			"strict)");
	fi_param_define(&pmv_prov, "agent", FI_PARAM_STRING,
			"who writes the peers' data back to this process's memory where the peers "
			"can't do it remotely: thread (a thread of the provider), busy (the "
			"same, but it never sleeps and takes a processor), progress (the "
			"application's calls that read completion queues and counters), off "
			"(nobody: such commits are refused) (default: thread)");
	fi_param_define(&pmv_prov, "commit", FI_PARAM_STRING,
			"which writes and atomics to persistent memory complete only when they are "
			"durable: explicit (those with FI_COMMIT_COMPLETE), all (every one, for "
			"programs without support for persistent memory; the provider detects "
			"which memory is persistent) (default: explicit)");
	fi_param_define(&pmv_prov, "answer", FI_PARAM_STRING,
			"whether a process that listens tells whoever can connect to it "
			"(fi_pmem_info --connect) its settings and counters, and never an address, "
			"a key or a name: on, off (default: on)");
	fi_param_define(&pmv_prov, "fence", FI_PARAM_STRING,
			"who holds a fenced request back until earlier reads and atomics have "
			"returned: auto (the NIC; over Soft-RoCE, which can lose fenced requests, "
			"this process), nic (the NIC, Soft-RoCE too) (default: auto)");
}

void pmv_setting_read(void)
{
	static const char *const ddio[] = {"auto", "on", "off"};
	static const char *const ordering[] = {"strict", "relaxed"};
	static const char *const agent[] = {"thread", "busy", "progress", "off"};
	static const char *const commit[] = {"explicit", "all"};
	static const char *const answer[] = {"on", "off"};
	static const char *const fence[] = {"auto", "nic"};
	char *core = NULL;
	int choice;

	define();
	fi_param_get_str(&pmv_prov, "core", &core);
	pmv_setting.core = core ? core : "verbs,tcp";
	choice = get_choice("domain", domains, 6);
	pmv_setting.domain_declared = choice > 0;
	pmv_setting.domain = choice ? (enum pmv_persist)(choice - 1) : PMV_NONE;
	choice = get_choice("ddio", ddio, 3);
	pmv_setting.ddio_declared = choice > 0;
	pmv_setting.ddio = choice != 2;
	pmv_setting.relaxed = get_choice("ordering", ordering, 2);
	pmv_setting.agent = (enum pmv_agent_mode) get_choice("agent", agent, 4);
	pmv_setting.commit_all = get_choice("commit", commit, 2);
	pmv_setting.silent = get_choice("answer", answer, 2);
	pmv_setting.nic_fences = get_choice("fence", fence, 2);
	check_names();
}
