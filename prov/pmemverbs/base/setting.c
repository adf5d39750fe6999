/* SPDX-License-Identifier: BSD-2-Clause */
/* setting.c -- the provider's settings, read once */
#include "base/setting.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

struct pmv_setting pmv_setting;

#define DEFAULT_SECONDS 10
#define MOST_SECONDS 32767

/* The settings: FI_PMEMVERBS_ and one of these names. */
enum {
	CORE,
	DOMAIN,
	DDIO,
	ORDERING,
	AGENT,
	COMMIT,
	REMOTE_READ,
	ANSWER,
	FENCE,
	FLUSH,
	SIGBUS_HANDLER,
	TIMEOUT,
	METRICS,
	KEYS,
	SETTINGS
};

static const struct {
	const char *name;
	const char *values[7]; /* the first one is the default; none: any text */
	const char *text;      /* for fi_info -e */
} settings[SETTINGS] = {
	[CORE] = {"CORE",
		  {NULL},
		  "core providers to use, in order of preference, separated by commas: verbs, tcp, "
		  "native (default: verbs,tcp, and before them native at devices with RDMA FLUSH)"},
	[DOMAIN] = {"DOMAIN",
		    {"auto", "none", "page", "dmp", "mhp", "wsp"},
		    "what survives a power failure, for FI_RMA_PMEM memory that this process "
		    "registers: auto (detect it), none (volatile), page (what msync has written), "
		    "dmp (DIMMs and memory controller, ADR), mhp (CPU caches too, eADR), wsp (I/O "
		    "controller and NIC buffers too); a declaration overrides what is detected "
		    "(default: auto)"},
	[DDIO] = {"DDIO",
		  {"auto", "on", "off"},
		  "whether inbound DMA lands in this machine's CPU caches: auto (the same as on, "
		  "since nothing tells it everywhere), on, off (set this at the target if the "
		  "NIC's root port has DDIO disabled) (default: auto)"},
	[ORDERING] = {"ORDERING",
		      {"strict", "relaxed"},
		      "strict, or relaxed if the path may place the writes of one connection out "
		      "of order: PCIe relaxed ordering, out-of-order data placement (default: "
		      "strict)"},
	[AGENT] = {"AGENT",
		   {"thread", "busy", "progress", "off"},
		   "who writes the peers' data back to this process's memory where the peers can't "
		   "do it remotely: thread (a thread of the provider), busy (the same, but it "
		   "never sleeps and takes a processor), progress (the application's calls that "
		   "read completion queues and counters), off (nobody: such commits are refused) "
		   "(default: thread)"},
	[COMMIT] = {"COMMIT",
		    {"explicit", "all"},
		    "which writes and atomics to persistent memory complete only when they are "
		    "durable: explicit (those with FI_COMMIT_COMPLETE), all (every one, for "
		    "programs without support for persistent memory; the provider detects which "
		    "memory is persistent) (default: explicit)"},
	[REMOTE_READ] =
		{"REMOTE_READ",
		 {"allowed", "explicit"},
		 "whether peers that may write FI_RMA_PMEM memory of this process may read "
		 "it, too: allowed (so that they can flush it by reading), explicit (only if "
		 "it was registered with FI_REMOTE_READ; else the agent makes it durable) "
		 "(default: allowed)"},
	[ANSWER] = {"ANSWER",
		    {"off", "on"},
		    "whether a process that listens tells whoever can connect to it (fi_pmem_info "
		    "--connect) its settings and counters, and never an address, a key or a name: "
		    "off, on (default: off)"},
	[FENCE] = {"FENCE",
		   {"auto", "nic"},
		   "who holds a fenced request back until earlier reads and atomics have returned: "
		   "auto (the NIC; over Soft-RoCE, which can lose fenced requests, this process), "
		   "nic (the NIC, Soft-RoCE too) (default: auto)"},
	[FLUSH] = {"FLUSH",
		   {"auto", "off"},
		   "whether commits are made by RDMA FLUSH, and regions registered for that: auto "
		   "(over the core native, where devices, libraries and memory allow it), off "
		   "(default: auto)"},
	[SIGBUS_HANDLER] =
		{"SIGBUS",
		 {"handle", "off"},
		 "what happens if a page of registered memory is lost: handle (a handler "
		 "of the provider lets commits to that memory fail), off (no handler: the "
		 "process's own is called, or SIGBUS ends the process) (default: handle)"},
	[TIMEOUT] = {"TIMEOUT",
		     {NULL},
		     "over tcp, a peer is given up if its machine has answered nothing for so many "
		     "seconds; 0: never (default: 10)"},
	[METRICS] =
		{"METRICS",
		 {NULL},
		 "a directory in which this process makes a socket: whoever connects to it reads "
		 "counters and histograms in the text format of Prometheus (default: none)"},
	[KEYS] = {"KEYS",
		  {NULL},
		  "a directory with this process's key and those of the peers that it knows: it "
		  "connects to nobody else, and nobody else connects to it "
		  "(default: anybody may connect)"},
};

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

void pmv_setting_refuse(const char *name, const char *value, size_t len, const char *known)
{
	set_bad("'%.*s' is not a value of FI_PMEMVERBS_%s: %s", len < 60 ? (int) len : 60, value,
		name, known);
}

/* get_choice -- the index of a setting's value; 0 (the default) if it is not set or unknown */
static int get_choice(int setting)
{
	const char *name = settings[setting].name, *const *values = settings[setting].values;
	char *value = NULL;
	char known[64] = "";

	fi_param_get_str(&pmv_prov, name, &value);
	if (!value)
		return 0;
	for (int i = 0; values[i]; i++) {
		if (!strcasecmp(value, values[i]))
			return i;
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", values[i]);
	}
	pmv_setting_refuse(name, value, strlen(value), known);
	return 0;
}

/* get_seconds -- the kernel takes no more between two probes of a connection (silence.h) */
static int get_seconds(int setting)
{
	char *value = NULL, *end;
	long seconds;

	fi_param_get_str(&pmv_prov, settings[setting].name, &value);
	if (!value)
		return DEFAULT_SECONDS;
	seconds = strtol(value, &end, 10);
	if (value[0] >= '0' && value[0] <= '9' && !*end && seconds <= MOST_SECONDS)
		return (int) seconds;
	pmv_setting_refuse(settings[setting].name, value, strlen(value), "seconds, 0 to 32767");
	return DEFAULT_SECONDS;
}

/* check_combinations -- who knows his peers tells strangers nothing */
static void check_combinations(void)
{
	if (pmv_setting.keys && pmv_setting.answers)
		set_bad("FI_PMEMVERBS_ANSWER=on tells strangers what FI_PMEMVERBS_KEYS keeps from "
			"them: set only one of them");
}

const char *pmv_setting_other(const char *name)
{
	char *value = NULL;

	return fi_param_get_str(NULL, name, &value) ? NULL : value;
}

const char *pmv_setting_domain_name(enum pmv_persist persist)
{
	return settings[DOMAIN].values[persist + 1];
}

/* check_names -- find misspelt settings in the environment */
static void check_names(void)
{
	static const char prefix[] = "FI_PMEMVERBS_";

	for (char **entry = environ; *entry; entry++) {
		const char *name = *entry + strlen(prefix);
		size_t len, i = 0;

		if (strncmp(*entry, prefix, strlen(prefix)))
			continue;
		len = strcspn(name, "=");
		while (i < SETTINGS &&
		       (strncmp(settings[i].name, name, len) || settings[i].name[len]))
			i++;
		if (i == SETTINGS)
			set_bad("FI_PMEMVERBS_%.*s is not a setting; fi_info -e lists them",
				len < 60 ? (int) len : 60, name);
	}
}

/* may_flush -- can there be commits by RDMA FLUSH?  Who has set up verbs (FI_VERBS_) wants that. */
static bool may_flush(void)
{
	static const char verbs[] = "FI_VERBS_";
	char **entry = environ;

	while (*entry && strncmp(*entry, verbs, strlen(verbs)))
		entry++;
	return !*entry && !pmv_setting.no_flush && !pmv_setting.commit_all && !pmv_setting.relaxed;
}

/* choose_core -- the user's, or the default */
static void choose_core(const char *core)
{
	pmv_setting.native_flushes = !core && !pmv_setting.keys && may_flush();
	if (core)
		pmv_setting.core = core;
	else
		pmv_setting.core = pmv_setting.native_flushes ? "native,verbs,tcp" : "verbs,tcp";
}

void pmv_setting_read(void)
{
	char *core = NULL, *metrics = NULL, *keys = NULL;
	int choice;

	for (size_t i = 0; i < SETTINGS; i++)
		fi_param_define(&pmv_prov, settings[i].name, FI_PARAM_STRING, "%s",
				settings[i].text);
	fi_param_get_str(&pmv_prov, settings[CORE].name, &core);
	fi_param_get_str(&pmv_prov, settings[KEYS].name, &keys);
	pmv_setting.keys = keys ? strdup(keys) : NULL;
	/* There is no such directory, and then nothing is offered. */
	if (keys && !pmv_setting.keys)
		pmv_setting.keys = "";
	choice = get_choice(DOMAIN);
	pmv_setting.domain_declared = choice > 0;
	pmv_setting.domain = choice ? (enum pmv_persist)(choice - 1) : PMV_NONE;
	choice = get_choice(DDIO);
	pmv_setting.ddio_declared = choice > 0;
	pmv_setting.ddio = choice != 2;
	pmv_setting.relaxed = get_choice(ORDERING);
	pmv_setting.agent = (enum pmv_agent_mode) get_choice(AGENT);
	pmv_setting.commit_all = get_choice(COMMIT);
	pmv_setting.reads_explicit = get_choice(REMOTE_READ);
	pmv_setting.answers = get_choice(ANSWER);
	pmv_setting.nic_fences = get_choice(FENCE);
	pmv_setting.no_flush = get_choice(FLUSH);
	pmv_setting.leaves_sigbus = get_choice(SIGBUS_HANDLER);
	pmv_setting.timeout = get_seconds(TIMEOUT);
	choose_core(core);
	fi_param_get_str(&pmv_prov, settings[METRICS].name, &metrics);
	/* Copies: the application may write to its environment. */
	pmv_setting.metrics = metrics && *metrics ? strdup(metrics) : NULL;
	check_combinations();
	check_names();
}
