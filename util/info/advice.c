/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * advice.c -- what the provider would do, and what would be faster or is wrong
 *
 * The methods and their reasons are those of the provider's own functions.  H1 to H9 are the hints
 * of Wei and others, "Characterizing and Optimizing Remote Persistent Memory with RDMA and NVM"
 * (USENIX ATC 2021).
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting.h"
#include "commit/method.h"
#include "info.h"
#include "memory/platform.h"

static const char *const methods[] = {
	[PMV_METHOD_REFUSED] = "refused", [PMV_METHOD_WRITE] = "write", [PMV_METHOD_READ] = "read",
	[PMV_METHOD_FLUSH] = "flush",     [PMV_METHOD_AGENT] = "agent",
};

struct info_region info_region_of(const struct info_device *device,
				  const struct info_memory *memory)
{
	return (struct info_region){
		.attr =
			{
				.persist = pmv_setting.domain_declared
						   ? pmv_setting.domain
						   : pmv_core_persist(device->core,
								      memory->mem.persist),
				.pmem = true,
				.ddio = pmv_setting_fills_caches(),
				.relaxed = pmv_setting.relaxed,
				.readable = !pmv_setting.reads_explicit,
				.writable = true,
				.flushable =
					device->flush.state == INFO_ON && !pmv_setting.no_flush,
			},
		.agent = pmv_setting.agent != PMV_AGENT_OFF,
	};
}

/* Methods */

/* without_agent -- what only the agent can do is refused where there is none */
static struct pmv_choice without_agent(struct pmv_choice choice, bool agent)
{
	if (choice.method == PMV_METHOD_AGENT && !agent)
		choice.method = PMV_METHOD_REFUSED;
	return choice;
}

static const char *immediate_of(const struct pmv_choice *choice)
{
	switch (choice->method) {
	case PMV_METHOD_REFUSED:
		return "refused";
	case PMV_METHOD_FLUSH:
	case PMV_METHOD_AGENT:
		return "agent: it notifies when all is durable";
	default:
		return choice->immediate == PMV_IMMEDIATE_WITH_DATA
			       ? "write: it comes with the data"
			       : "read: an empty write behind the READ, which waits for it";
	}
}

/* chains_of -- chains from here to the region */
static const char *chains_of(const struct info_region *region)
{
	if (!region->agent)
		return "refused: the agent is switched off (FI_PMEMVERBS_AGENT)";
	if (region->attr.relaxed)
		return "refused: writes may be placed out of order (FI_PMEMVERBS_ORDERING)";
	if (pmv_setting.commit_all)
		return "refused: every call commits (FI_PMEMVERBS_COMMIT)";
	return "agent: it executes several steps in one round trip";
}

static void put_why(json_object *object, const char *key, const struct pmv_choice *choice,
		    const char *one_sided)
{
	char why[2 * INFO_TEXT];

	snprintf(why, sizeof(why), "%s%s", choice->why ? choice->why : one_sided,
		 choice->method == PMV_METHOD_REFUSED && choice->why
			 ? "; and the agent is switched off (FI_PMEMVERBS_AGENT)"
			 : "");
	info_put(object, key, why);
}

json_object *info_methods(const struct info_region *region, enum pmv_transport transport)
{
	const struct pmv_attr *attr = &region->attr;
	json_object *object = json_object_new_object();
	const char *one_sided = pmv_method_one_sided_why(attr, transport);
	struct pmv_attr received = *attr;
	struct pmv_choice choice;

	/* A FLUSH names a place, and nobody here knows where a message is received. */
	received.flushable = false;

	choice = without_agent(pmv_method_choose(attr, transport, NULL), region->agent);
	info_put(object, "commit", methods[choice.method]);
	put_why(object, "commit_why", &choice, one_sided);
	info_put(object, "immediate", immediate_of(&choice));
	info_put(object, "chains", chains_of(region));
	choice = pmv_method_choose_message(NULL, transport, attr->relaxed, NULL);
	if (attr->relaxed) {
		info_put(object, "send", methods[choice.method]);
		info_put(object, "send_why", choice.why);
		return object;
	}
	choice = without_agent(choice, region->agent);
	info_put(object, "send", methods[choice.method]);
	put_why(object, "send_why", &choice, pmv_method_one_sided_why(&received, transport));
	choice = without_agent(pmv_method_choose_message(&received, transport, false, NULL),
			       region->agent);
	info_put(object, "send_with_recv_mr", methods[choice.method]);
	return object;
}

/* Hints and notes */

/* add -- an object of that list, with a text */
__attribute__((format(printf, 3, 4))) static void add(json_object *list, json_object *object,
						      const char *fmt, ...)
{
	char text[3 * INFO_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	info_put(object, "text", text);
	json_object_array_add(list, object);
}

/* hint -- NULL: a note */
static json_object *hint(const char *name)
{
	json_object *object = json_object_new_object();

	info_put(object, "hint", name);
	return object;
}

/* warning -- loses: data may be lost in a power failure, or with the next program that runs */
static json_object *warning(bool loses, const char *about)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "loses_data", json_object_new_boolean(loses));
	info_put(object, "about", about);
	return object;
}

static void add_ddio_hint(json_object *list, const struct info_device *device)
{
	if (device->soft)
		add(list, hint("H3"),
		    "Software places data here, through the caches: an RNIC on a root port with "
		    "DDIO "
		    "off needs no agent.");
	else if (device->ddio.state == INFO_OFF)
		add(list, hint("H3"),
		    "DDIO is off for %s: set FI_PMEMVERBS_DDIO=off at the target, and commits need "
		    "no "
		    "agent. Check that the device sends no TPH hints, which may still fill the "
		    "caches.",
		    device->root_port);
	else
		add(list, hint("H3"),
		    "For large one-sided writes switch DDIO off%s%s (BIOS) and set "
		    "FI_PMEMVERBS_DDIO=off at the target. With DDIO on, let the target write: the "
		    "agent does, and so do messages.",
		    *device->root_port ? " for root port " : "", device->root_port);
}

/* add_flush_hint -- what would let the NIC do what the agent does; the device's fact says the rest
 */
static void add_flush_hint(json_object *list, const struct info_device *device)
{
	if (device->core->cpu_placed)
		return;
	if (pmv_setting.native_flushes)
		return;
	if (!device->core->posts_lists)
		add(list, hint("FLUSH"),
		    "If the NICs of both ends have RDMA FLUSH, FI_PMEMVERBS_CORE=native at both "
		    "ends needs no agent.");
	else if (pmv_setting.no_flush)
		add(list, hint("FLUSH"),
		    "FI_PMEMVERBS_FLUSH=off: unset it, and commits need no agent if the NICs of "
		    "both ends have RDMA FLUSH.");
}

static void add_agent_hints(json_object *list, const struct info_memory *memory,
			    const struct info_device *device)
{
	enum pmv_persist persist = info_region_of(device, memory).attr.persist;

	if (persist == PMV_PAGE)
		add(list, hint("DAX"),
		    memory->mem.backing == PMV_FILE ? "Use device DAX, or a DAX file system and "
						      "MAP_SYNC: then nobody has to "
						      "sync pages."
						    : "Declare what really survives "
						      "(FI_PMEMVERBS_DOMAIN): pages are synced "
						      "because page was declared.");
	else if (memory->mem.persist > persist && !pmv_setting.domain_declared)
		add(list, hint("core"),
		    "The caches persist, but %s copies data in the target's process, where only "
		    "the "
		    "agent notices a lost page: use an RDMA device.",
		    device->core->name);
	else if (pmv_setting.relaxed)
		add(list, hint("order"),
		    "If the path keeps the order of writes, unset FI_PMEMVERBS_ORDERING: then the "
		    "agent is asked only where the memory needs it.");
	else if (persist == PMV_DMP) {
		add_ddio_hint(list, device);
		add_flush_hint(list, device);
	}
}

json_object *info_hints(const struct info *info, const struct info_memory *memory,
			const struct info_device *device)
{
	json_object *list = json_object_new_array();
	struct info_region region = info_region_of(device, memory);

	if (pmv_method_choose(&region.attr, device->transport, NULL).method == PMV_METHOD_AGENT)
		add_agent_hints(list, memory, device);
	if (memory->cxl && memory->mem.persist == PMV_DMP && !pmv_setting.domain_declared)
		add(list, hint("CXL"),
		    "Linux calls all CXL regions memory_controller. If the machine saves its "
		    "caches "
		    "(GPF, see the BIOS), set FI_PMEMVERBS_DOMAIN=mhp at the target.");
	if (info->nodes > 1 && device->node >= 0 && memory->mem.numa_node >= 0 &&
	    device->node != memory->mem.numa_node)
		add(list, hint("H1"),
		    "The device is on node %d and the memory on node %d: use a device and memory "
		    "of "
		    "one node.",
		    device->node, memory->mem.numa_node);
	return list;
}

json_object *info_notes(const struct info_memory *memory, const struct info_device *device)
{
	json_object *list = json_object_new_array();

	if (device->core->cpu_placed || memory->err)
		return list;
	if (memory->mem.backing == PMV_FILE && memory->named)
		add(list, hint(NULL),
		    "Recent kernels refuse to pin a plain file for a NIC (EFAULT): then use the "
		    "tcp "
		    "core.");
	if (memory->mem.backing == PMV_FSDAX)
		add(list, hint(NULL),
		    "A file on DAX needs a NIC with on-demand paging and FI_VERBS_USE_ODP=1; else "
		    "use device DAX.");
	return list;
}

json_object *info_general_hints(void)
{
	json_object *list = json_object_new_array();

	add(list, hint("H2"),
	    "Open no more domains than you need: each has one agent, and few threads are "
	    "to write to one DIMM.");
	add(list, hint("H4"), "The provider does this: its agent copies by non-temporal stores.");
	add(list, hint("H5"), "On Optane memory align writes of 256 bytes and more to 256.");
	add(list, hint("H6"), "Pad small one-sided writes to 64 bytes, aligned.");
	add(list, hint("H7"),
	    "Pad small writes by the agent to 64 bytes: it writes back whole cache lines.");
	add(list, hint("H8"), "Keep locks and atomics in volatile memory.");
	add(list, hint("H9"),
	    "The provider does this: the flush is posted with the write. Commit once for "
	    "many writes.");
	return list;
}

/* Warnings */

static void warn_of_settings(json_object *list, const struct info *info)
{
	const char *path = getenv("FI_PROVIDER_PATH");

	if (!info->found)
		add(list, warning(true, "provider"),
		    "libfabric finds no pmemverbs: programs run with other providers, and nothing "
		    "is "
		    "durable. FI_PROVIDER_PATH has to name the directory of libpmemverbs-fi.so; "
		    "it "
		    "is %s.",
		    path ? path : "not set");
	if (pmv_setting.bad)
		add(list, warning(true, "settings"),
		    "%s. pmemverbs offers nothing then, and programs may run without it.",
		    pmv_setting.bad);
}

/* warn_of_ddio -- declared off, but what comes in through these devices is in the caches */
static void warn_of_ddio(json_object *list, const struct info *info,
			 const struct info_memory *memory)
{
	char soft[INFO_TEXT] = "";

	if (pmv_setting_fills_caches() || memory->mem.persist != PMV_DMP)
		return;
	for (size_t i = 0; i < info->num_devices; i++) {
		const struct info_device *device = &info->devices[i];

		if (info_region_of(device, memory).attr.persist != PMV_DMP)
			continue;
		if (device->soft && device->offered)
			snprintf(soft + strlen(soft), sizeof(soft) - strlen(soft), "%s%s",
				 *soft ? " and " : "",
				 device->core->cpu_placed ? device->core->name : device->name);
		else if (device->ddio.state == INFO_ON)
			add(list, warning(true, memory->name),
			    "FI_PMEMVERBS_DDIO=off is declared, but DDIO is on for %s (%s): unset "
			    "it, "
			    "or switch DDIO off.",
			    device->name, device->ddio.from);
	}
	if (*soft)
		add(list, warning(true, memory->name),
		    "FI_PMEMVERBS_DDIO=off is declared, but through %s software places data, in "
		    "the "
		    "caches, which a power failure clears: unset it, or allow RNICs only "
		    "(FI_PMEMVERBS_CORE=verbs).",
		    soft);
}

static void warn_of_domain(json_object *list, const struct info_memory *memory)
{
	bool declared = pmv_setting.domain_declared && pmv_setting.domain > PMV_NONE;

	if (declared && memory->cxl && memory->mem.persist == PMV_DMP &&
	    pmv_setting.domain == PMV_MHP)
		add(list, warning(false, memory->name),
		    "FI_PMEMVERBS_DOMAIN=mhp is declared for a CXL region, of which Linux does "
		    "not "
		    "know better. It is right if the machine saves its caches (GPF).");
	else if (declared && memory->mem.persist < pmv_setting.domain)
		add(list, warning(true, memory->name),
		    "FI_PMEMVERBS_DOMAIN=%s is declared, but %s%s was found (%s). If the "
		    "declaration "
		    "is wrong, committed data are lost in a power failure.",
		    pmv_setting_domain_name(pmv_setting.domain),
		    memory->err ? "nothing persistent" : "",
		    memory->err ? "" : pmv_setting_domain_name(memory->mem.persist),
		    memory->mem.what);
	else if (memory->err && memory->named)
		add(list, warning(true, memory->name), "Nothing %s here: %s.",
		    memory->mem.backing == PMV_VOLATILE_FS ? "survives" : "is known to survive",
		    memory->mem.what);
	else if (memory->err)
		add(list, warning(false, memory->name), "The provider refuses it: %s.",
		    memory->mem.what);
}

static void warn_of_cache(json_object *list, const struct info_memory *memory)
{
	const struct info_cache *cache = &memory->cache;

	if (cache->unflushed)
		add(list, warning(false, memory->name),
		    "The kernel sends no flushes to %s (%s). That is right if the drive has no "
		    "volatile cache: check it.",
		    cache->disk, cache->from);
}

static void warn_of_agent(json_object *list, const struct info *info,
			  const struct info_memory *memory)
{
	if (pmv_setting.agent != PMV_AGENT_OFF || memory->err)
		return;
	for (size_t i = 0; i < info->num_devices; i++) {
		const struct info_device *device = &info->devices[i];
		struct info_region region = info_region_of(device, memory);

		if (pmv_method_of_write(&region.attr, device->transport) != PMV_METHOD_AGENT)
			continue;
		add(list, warning(false, memory->name),
		    "Commits are refused: they need the agent, and FI_PMEMVERBS_AGENT=off.");
		return;
	}
}

/* warn_of_order -- a device that may relax the order does so only if somebody asks for it */
static void warn_of_order(json_object *list, const struct info *info)
{
	for (size_t i = 0; i < info->num_devices && !pmv_setting.relaxed; i++) {
		const struct info_device *device = &info->devices[i];

		if (device->offered && device->relaxed.state == INFO_ON)
			add(list, warning(false, device->name),
			    "PCI Express lets %s relax the order of writes (%s). It does so only "
			    "if it "
			    "is told to: if its firmware forces that, set "
			    "FI_PMEMVERBS_ORDERING=relaxed.",
			    device->name, device->relaxed.from);
	}
}

json_object *info_warnings(const struct info *info)
{
	json_object *list = json_object_new_array();

	warn_of_settings(list, info);
	for (size_t i = 0; i < info->num_memories; i++) {
		warn_of_domain(list, &info->memories[i]);
		warn_of_ddio(list, info, &info->memories[i]);
		warn_of_cache(list, &info->memories[i]);
		warn_of_agent(list, info, &info->memories[i]);
	}
	for (size_t i = 0; i < info->num_devices; i++) {
		if (!info->devices[i].offered)
			add(list, warning(false, info->devices[i].name),
			    "The %s provider of libfabric offers nothing on this device: has its "
			    "port a link, and its interface an address?",
			    info->devices[i].core->name);
	}
	warn_of_order(list, info);
	return list;
}
