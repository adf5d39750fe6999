/* SPDX-License-Identifier: BSD-2-Clause */
/* model.c -- the model: one JSON object with all that is known */
#include <stdlib.h>

#include "base/setting.h"
#include "config.h"
#include "info.h"
#include "memory/platform.h"

void info_put(json_object *object, const char *key, const char *text)
{
	if (text && *text)
		json_object_object_add(object, key, json_object_new_string(text));
}

static void put_node(json_object *object, int node)
{
	if (node >= 0)
		json_object_object_add(object, "node", json_object_new_int(node));
}

const char *info_domain_text(enum pmv_persist persist)
{
	static const char *const texts[] = {
		[PMV_NONE] = "nothing survives",
		[PMV_PAGE] = "what was synced survives",
		[PMV_DMP] = "DIMMs and memory controller survive (ADR)",
		[PMV_MHP] = "the caches survive, too (eADR, CXL GPF)",
		[PMV_WSP] = "all survives, with the buffers of I/O and NIC",
	};

	return texts[persist];
}

static json_object *settings(void)
{
	static const char *const agents[] = {"thread", "busy", "progress", "off"};
	json_object *object = json_object_new_object();

	info_put(object, "core", pmv_setting.core);
	info_put(object, "domain",
		 pmv_setting.domain_declared ? pmv_setting_domain_name(pmv_setting.domain)
					     : "auto");
	info_put(object, "ddio",
		 !pmv_setting.ddio_declared ? "auto"
		 : pmv_setting.ddio         ? "on"
					    : "off");
	info_put(object, "ordering", pmv_setting.relaxed ? "relaxed" : "strict");
	info_put(object, "agent", agents[pmv_setting.agent]);
	info_put(object, "commit", pmv_setting.commit_all ? "all" : "explicit");
	info_put(object, "remote_read", pmv_setting.reads_explicit ? "explicit" : "allowed");
	info_put(object, "answer", pmv_setting.answers ? "on" : "off");
	info_put(object, "flush", pmv_setting.no_flush ? "off" : "auto");
	info_put(object, "sigbus", pmv_setting.leaves_sigbus ? "off" : "handle");
	info_put(object, "from", "FI_PMEMVERBS_* in this environment");
	return object;
}

static json_object *provider(const struct info *info)
{
	json_object *object = json_object_new_object();
	uint32_t version = fi_version();
	char text[32];

	json_object_object_add(object, "found", json_object_new_boolean(info->found));
	snprintf(text, sizeof(text), "%u.%u", FI_MAJOR(version), FI_MINOR(version));
	info_put(object, "libfabric", text);
	info_put(object, "path", getenv("FI_PROVIDER_PATH"));
	info_put(object, "from", "fi_getinfo");
	return object;
}

static json_object *machine(const struct info *info)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "nodes", json_object_new_int(info->nodes));
	json_object_object_add(object, "writes_back",
			       json_object_new_boolean(pmv_platform.writes_back()));
	info_put(object, "from", "devices/system/node in sysfs; the processor's architecture");
	return object;
}

static json_object *bit(const struct info_bit *bit)
{
	static const char *const states[] = {"unknown", "off", "on"};
	json_object *object = json_object_new_object();

	info_put(object, "state", states[bit->state]);
	info_put(object, "from", bit->from);
	return object;
}

static json_object *device_object(const struct info_device *device)
{
	json_object *object = json_object_new_object();

	info_put(object, "core", device->core->name);
	info_put(object, "device", device->name);
	info_put(object, "kind", device->kind);
	json_object_object_add(object, "software", json_object_new_boolean(device->soft));
	json_object_object_add(object, "offered", json_object_new_boolean(device->offered));
	put_node(object, device->node);
	info_put(object, "pci", device->pci);
	info_put(object, "root_port", device->root_port);
	/* Where software places data there is no such switch. */
	if (!device->soft) {
		json_object_object_add(object, "ddio", bit(&device->ddio));
		json_object_object_add(object, "relaxed_ordering", bit(&device->relaxed));
	}
	if (device->core->posts_lists)
		json_object_object_add(object, "rdma_flush", bit(&device->flush));
	info_put(object, "from", device->from);
	return object;
}

/* Memory */

/* add_way -- how data gets there through a device; devices with the same answer share it */
static void add_way(json_object *ways, const char *name, json_object *way)
{
	json_object *names;

	for (size_t i = 0; i < json_object_array_length(ways); i++) {
		json_object *other = json_object_array_get_idx(ways, i);

		if (!json_object_equal(json_object_object_get(other, "answer"), way))
			continue;
		json_object_array_add(json_object_object_get(other, "devices"),
				      json_object_new_string(name));
		json_object_put(way);
		return;
	}
	names = json_object_new_array();
	json_object_array_add(names, json_object_new_string(name));
	json_object *object = json_object_new_object();

	json_object_object_add(object, "devices", names);
	json_object_object_add(object, "answer", way);
	json_object_array_add(ways, object);
}

static json_object *ways(const struct info *info, const struct info_memory *memory)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < info->num_devices; i++) {
		const struct info_device *device = &info->devices[i];
		struct info_region region = info_region_of(device, memory);
		json_object *way;
		char name[128];

		if (!device->offered)
			continue;
		way = info_methods(&region, device->transport);
		json_object_object_add(way, "faster", info_hints(info, memory, device));
		json_object_object_add(way, "notes", info_notes(memory, device));
		snprintf(name, sizeof(name), "%s %s", device->core->name, device->name);
		add_way(list, name, way);
	}
	return list;
}

static json_object *memory_object(const struct info *info, const struct info_memory *memory)
{
	bool declared = pmv_setting.domain_declared;
	enum pmv_persist persist = declared ? pmv_setting.domain : memory->mem.persist;
	bool refused = memory->err && !declared;
	json_object *object = json_object_new_object();

	info_put(object, "name", memory->name);
	info_put(object, "kind", memory->kind);
	json_object_object_add(object, "named", json_object_new_boolean(memory->named));
	info_put(object, "mode", memory->mode);
	if (memory->size)
		json_object_object_add(object, "bytes", json_object_new_uint64(memory->size));
	put_node(object, memory->mem.numa_node);
	info_put(object, "domain", refused ? "refused" : pmv_setting_domain_name(persist));
	info_put(object, "survives", refused ? "nothing is promised" : info_domain_text(persist));
	json_object_object_add(object, "declared", json_object_new_boolean(declared));
	info_put(object, "what", memory->mem.what);
	info_put(object, "from", memory->from);
	info_put(object, "cache_from", memory->cache.from);
	info_put(object, "direct", memory->direct);
	if (!refused)
		json_object_object_add(object, "ways", ways(info, memory));
	return object;
}

json_object *info_model(const struct info *info)
{
	json_object *model = json_object_new_object();
	json_object *devices = json_object_new_array(), *memories = json_object_new_array();

	info_put(model, "program", "fi_pmem_info");
	info_put(model, "version", PACKAGE_VERSION);
	json_object_object_add(model, "provider", provider(info));
	json_object_object_add(model, "settings", settings());
	json_object_object_add(model, "machine", machine(info));
	for (size_t i = 0; i < info->num_devices; i++)
		json_object_array_add(devices, device_object(&info->devices[i]));
	json_object_object_add(model, "devices", devices);
	for (size_t i = 0; i < info->num_memories; i++)
		json_object_array_add(memories, memory_object(info, &info->memories[i]));
	json_object_object_add(model, "memory", memories);
	json_object_object_add(model, "hints", info_general_hints());
	json_object_object_add(model, "warnings", info_warnings(info));
	return model;
}

bool info_loses_data(json_object *model)
{
	json_object *list = json_object_object_get(model, "warnings");

	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		json_object *warning = json_object_array_get_idx(list, i);

		if (json_object_get_boolean(json_object_object_get(warning, "loses_data")))
			return true;
	}
	return false;
}
