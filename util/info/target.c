/* SPDX-License-Identifier: BSD-2-Clause */
/* target.c -- the model of what a running target has answered */
#include <string.h>

#include "base/setting.h"
#include "commit/method.h"
#include "config.h"
#include "info.h"
#include "rdma/fi_ext_pmemverbs.h"

/* In the order of struct fi_pmemverbs_counters. */
static const char *const names[] = {
	"endpoints",        "commits_write",   "commits_read",
	"commits_agent",    "commits_refused", "commits_failed",
	"requests_sent",    "requests_served", "requests_refused",
	"flushes",          "flushed_bytes",   "syncs",
	"synced_bytes",     "stores",          "stored_bytes",
	"sleeps",           "wakes",           "chains",
	"chains_served",    "commits_flush",   "connections",
	"disconnections",   "peers_given_up",  "requests_awaited",
	"requests_pending",
};

#define NUM_NAMES (sizeof(names) / sizeof(names[0]))

_Static_assert(NUM_NAMES == sizeof(struct fi_pmemverbs_counters) / sizeof(uint64_t), "counters");
_Static_assert(offsetof(struct fi_pmemverbs_counters, requests_pending) ==
		       (NUM_NAMES - 1) * sizeof(uint64_t),
	       "counters");

/* value -- an older target tells less */
static uint64_t value(const struct info_answer *answer, size_t n)
{
	return n < answer->count ? answer->values[n] : 0;
}

static json_object *offer(const struct info_answer *answer)
{
	static const char *const agents[] = {"thread", "busy", "progress", "off"};
	uint64_t version = value(answer, PMV_STATUS_VERSION),
		 agent = value(answer, PMV_STATUS_AGENT);
	uint64_t declared = value(answer, PMV_STATUS_DECLARED);
	json_object *object = json_object_new_object();
	char text[32];

	snprintf(text, sizeof(text), "%u.%u", FI_MAJOR((uint32_t) version),
		 FI_MINOR((uint32_t) version));
	info_put(object, "provider", text);
	info_put(object, "core", answer->core);
	info_put(object, "agent", agent < 4 ? agents[agent] : "unknown");
	info_put(object, "ordering", value(answer, PMV_STATUS_RELAXED) ? "relaxed" : "strict");
	info_put(object, "ddio", value(answer, PMV_STATUS_DDIO) ? "on or unknown" : "declared off");
	info_put(object, "domain",
		 !declared ? "auto"
		 : declared - 1 <= PMV_WSP
			 ? pmv_setting_domain_name((enum pmv_persist)(declared - 1))
			 : "unknown");
	info_put(object, "commit", value(answer, PMV_STATUS_COMMIT_ALL) ? "all" : "explicit");
	json_object_object_add(object, "domains",
			       json_object_new_uint64(value(answer, PMV_STATUS_DOMAINS)));
	return object;
}

/* regions -- of each kind, and how peers commit to it from here */
static json_object *regions(const struct info_answer *answer)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i <= PMV_WSP; i++) {
		uint64_t count = value(answer, PMV_STATUS_REGIONS + i);
		const struct info_region region = {
			.attr = {.persist = (enum pmv_persist) i,
				 .pmem = true,
				 .ddio = value(answer, PMV_STATUS_DDIO),
				 .relaxed = value(answer, PMV_STATUS_RELAXED),
				 .readable = true,
				 .writable = true},
			.agent = value(answer, PMV_STATUS_AGENT) != PMV_AGENT_OFF,
		};
		json_object *object;

		if (!count)
			continue;
		object = json_object_new_object();
		info_put(object, "domain", pmv_setting_domain_name(region.attr.persist));
		info_put(object, "survives", info_domain_text(region.attr.persist));
		json_object_object_add(object, "regions", json_object_new_uint64(count));
		json_object_object_add(object, "answer", info_methods(&region, answer->transport));
		json_object_array_add(list, object);
	}
	return list;
}

static json_object *counters(const struct info_answer *answer)
{
	json_object *object = json_object_new_object();

	for (size_t i = 0; i < NUM_NAMES && PMV_STATUS_COUNTERS + i < answer->count; i++)
		json_object_object_add(
			object, names[i],
			json_object_new_uint64(answer->values[PMV_STATUS_COUNTERS + i]));
	return object;
}

json_object *info_target(const char *host, const char *port, const struct info_answer *answer)
{
	json_object *model = json_object_new_object(), *target = json_object_new_object();
	char address[INFO_TEXT];

	info_put(model, "program", "fi_pmem_info");
	info_put(model, "version", PACKAGE_VERSION);
	snprintf(address, sizeof(address), "%.200s:%.50s", host, port);
	info_put(target, "address", address);
	info_put(target, "from", "the target, which was asked by a connection request");
	if (!answer->refused) {
		json_object_object_add(target, "offers", offer(answer));
		json_object_object_add(target, "memory", regions(answer));
		json_object_object_add(target, "counters", counters(answer));
	} else {
		info_put(target, "refused",
			 "It uses pmemverbs, but does not answer: start it with "
			 "FI_PMEMVERBS_ANSWER=on and without FI_PMEMVERBS_KEYS, or it has another "
			 "version.");
	}
	json_object_object_add(model, "target", target);
	return model;
}
