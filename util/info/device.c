/* SPDX-License-Identifier: BSD-2-Clause */
/* device.c -- core providers, and the devices that they can use */
#include <glob.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "engine/info.h"
#include "info.h"
#include "memory/platform.h"

struct fi_info *info_ask_core(const struct pmv_core *core)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_RMA | pmv_core_wants(core);
	hints->mode = FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(core->name);
	/* FI_PROVIDER may hide the cores from programs, and not from the provider. */
	if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, PMV_INFO_HIDDEN, hints, &list))
		list = NULL;
	fi_freeinfo(hints);
	return list;
}

/* find -- the device in the list, or a new one; NULL: there are too many */
static struct info_device *find(struct info *info, const struct pmv_core *core, const char *name)
{
	struct info_device *device;

	for (size_t i = 0; i < info->num_devices; i++) {
		device = &info->devices[i];
		if (device->core == core && !strcmp(device->name, name))
			return device;
	}
	if (info->num_devices == INFO_MOST)
		return NULL;
	device = &info->devices[info->num_devices++];
	*device = (struct info_device){.core = core, .node = -1};
	snprintf(device->name, sizeof(device->name), "%.63s", name);
	return device;
}

static void set_sockets(struct info_device *device)
{
	device->soft = true;
	device->kind = "the kernel's sockets";
	snprintf(device->from, sizeof(device->from), "the core provider %s", device->core->name);
}

static const char *kind_of(const struct info_device *device)
{
	char type[32], layer[32];

	if (device->soft)
		return "software RDMA";
	info_attribute(type, sizeof(type), "class/infiniband/%s/node_type", device->name);
	if (!strncmp(type, "4:", 2))
		return "RNIC, iWARP";
	info_attribute(layer, sizeof(layer), "class/infiniband/%s/ports/1/link_layer",
		       device->name);
	return !strcmp(layer, "Ethernet") ? "RNIC, RoCE" : "RNIC, InfiniBand";
}

static void set_rdma(struct info_device *device)
{
	char path[PATH_MAX], real[PATH_MAX], node[16];

	device->soft = pmv_core_places_by_cpu(device->core, device->name);
	device->kind = kind_of(device);
	snprintf(device->from, sizeof(device->from), "class/infiniband/%s: %s", device->name,
		 device->soft ? "no bus device is behind it" : "a bus device is behind it");
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device", pmv_platform.sysfs,
		 device->name);
	if (device->soft || !realpath(path, real))
		return;
	if (info_attribute(node, sizeof(node), "class/infiniband/%s/device/numa_node",
			   device->name))
		device->node = atoi(node);
	info_pci(device, real);
}

/* add_unoffered -- RDMA devices that the core can't use now */
static void add_unoffered(struct info *info, const struct pmv_core *core)
{
	char pattern[PATH_MAX];
	glob_t paths = {0};

	snprintf(pattern, sizeof(pattern), "%s/class/infiniband/*", pmv_platform.sysfs);
	if (glob(pattern, 0, NULL, &paths))
		paths.gl_pathc = 0;
	for (size_t i = 0; i < paths.gl_pathc; i++) {
		struct info_device *device = find(info, core, basename(paths.gl_pathv[i]));

		if (device && !device->offered)
			set_rdma(device);
	}
	globfree(&paths);
}

static void add_offered(struct info *info, const struct pmv_core *core, const struct fi_info *list)
{
	for (; list; list = list->next) {
		const char *name = list->domain_attr->name;
		struct info_device *device;

		/* Shared connections (XRC) are another offer of the same device. */
		if (!name || list->ep_attr->type != FI_EP_MSG ||
		    list->ep_attr->protocol == FI_PROTO_RDMA_CM_IB_XRC)
			continue;
		device = find(info, core, core->cpu_placed ? "all interfaces" : name);
		if (!device || device->offered)
			continue;
		device->offered = true;
		device->transport = pmv_core_transport(core, list);
		if (core->cpu_placed)
			set_sockets(device);
		else
			set_rdma(device);
	}
}

void info_devices(struct info *info, struct fi_info *(*ask)(const struct pmv_core *core))
{
	const struct pmv_core *core;

	for (size_t n = 0; (core = pmv_core_next(n)); n++) {
		struct fi_info *list = ask(core);

		add_offered(info, core, list);
		if (!core->cpu_placed && !pmv_core_wants(core))
			add_unoffered(info, core);
		if (list)
			fi_freeinfo(list);
	}
}

int info_nodes(void)
{
	char pattern[PATH_MAX];
	glob_t nodes = {0};
	int count;

	snprintf(pattern, sizeof(pattern), "%s/devices/system/node/node[0-9]*", pmv_platform.sysfs);
	count = glob(pattern, GLOB_NOSORT, NULL, &nodes) ? 1 : (int) nodes.gl_pathc;
	globfree(&nodes);
	return count;
}
