/* SPDX-License-Identifier: BSD-2-Clause */
/* machine.c -- machines that are made up; machine.h says how they are used */
#include "machine.h"

#include <ctype.h>
#include <stdlib.h>

#include <rdma/fi_endpoint.h>

#include "engine/core.h"

struct offers offers;

struct info *info;
json_object *model;

void again(void)
{
	json_object_put(model);
	memset(info, 0, sizeof(*info));
	info->found = true;
	model = NULL;
}

static void begin_machine(void)
{
	mem_system_begin();
	pmv_setting = (struct pmv_setting){.core = "verbs,tcp", .ddio = true};
	offers.rnic = MLX5;
	offers.iwarp = offers.flushes = false;
	info = calloc(1, sizeof(*info));
	again();
}

static void end_machine(void)
{
	json_object_put(model);
	free(info);
	pmv_setting = (struct pmv_setting){.core = "verbs,tcp"};
	mem_system_end();
}

TestSuite(machine, .init = begin_machine, .fini = end_machine);

static struct fi_info *offer(const char *name, uint32_t protocol)
{
	struct fi_info *one = fi_allocinfo();

	one->domain_attr->name = strdup(name);
	one->ep_attr->type = FI_EP_MSG;
	one->ep_attr->protocol = protocol;
	return one;
}

static struct fi_info *ask(const struct pmv_core *core)
{
	if (core->cpu_placed)
		return offer("eth0", FI_PROTO_SOCK_TCP);
	return offers.rnic && (offers.flushes || !pmv_core_wants(core))
		       ? offer(offers.rnic, offers.iwarp ? FI_PROTO_IWARP : FI_PROTO_RDMA_CM_IB_RC)
		       : NULL;
}

void config(const char *dir, unsigned int device, size_t len, bool allocating, bool relaxed)
{
	uint8_t space[4096] = {0x86, 0x80, (uint8_t) device, (uint8_t) (device >> 8)};
	char path[2 * PATH_MAX];

	space[0x34] = 0x40;
	/* Power management, then PCI Express. */
	space[0x40] = 0x01;
	space[0x41] = 0x60;
	space[0x60] = 0x10;
	space[0x68] = relaxed ? 0x10 : 0;
	space[0x180] = allocating ? 0x80 : 0x08;
	snprintf(path, sizeof(path), "%s/%s/config", sysfs, dir);
	make_parents(path);
	store(path, (char *) space, len);
}

void rnic(bool ddio, bool relaxed, const char *node)
{
	config(ROOT_PORT, XEON_PORT, 4096, ddio, false);
	config(RNIC, 0x1017, 4096, false, relaxed);
	put(RNIC, "numa_node", node);
	put("class/infiniband/" MLX5, "node_type", "1: CA");
	put("class/infiniband/" MLX5 "/ports/1", "link_layer", "Ethernet");
	point("class/infiniband/" MLX5 "/device", RNIC);
}

void soft_rnic(void)
{
	put("class/infiniband/rxe0", "node_type", "1: CA");
	offers.rnic = "rxe0";
}

int detect_base(const char *path, struct pmv_mem *found)
{
	(void) path;
	return pmv_detect((void *) (uintptr_t) BASE, MIB, found);
}

void look(const char *path)
{
	info->nodes = info_nodes();
	info_devices(info, ask);
	info_regions(info);
	if (path)
		info_path(info, path, detect_base);
	model = info_model(info);
}

json_object *get(const char *path)
{
	json_object *at = model;
	char key[64];
	int len;

	for (; at && sscanf(path, "%63[^/]%n", key, &len) == 1; path += len, path += *path == '/')
		at = isdigit(*key) ? json_object_array_get_idx(at, strtoul(key, NULL, 10))
				   : json_object_object_get(at, key);
	return at;
}

const char *text_at(const char *path)
{
	json_object *at = get(path);

	return at ? json_object_get_string(at) : "(none)";
}

json_object *find(const char *list, const char *part)
{
	json_object *at = get(list);

	for (size_t i = 0; at && i < json_object_array_length(at); i++) {
		json_object *one = json_object_array_get_idx(at, i);

		if (strstr(json_object_to_json_string_ext(one, JSON_C_TO_STRING_NOSLASHESCAPE),
			   part))
			return one;
	}
	return NULL;
}

void sysfs_disk(const char *name, const char *dev, const char *cache)
{
	char dir[64], queue[80];

	snprintf(dir, sizeof(dir), "devices/pci0000:00/%s", name);
	device("block", dev, dir);
	snprintf(queue, sizeof(queue), "%s/queue", dir);
	put(queue, "write_cache", cache);
}

void squeeze(char *words)
{
	char *to = words;

	for (const char *at = words; *at; at++) {
		if (!isspace((unsigned char) *at))
			*to++ = *at;
	}
	*to = '\0';
}

static void expect_shown(const char *screen, const char *text)
{
	char words[2048];

	snprintf(words, sizeof(words), "%s", text);
	squeeze(words);
	cr_expect(strstr(screen, words), "the screen lacks: %s", text);
}

void expect_all_shown(const char *screen, json_object *at)
{
	if (json_object_is_type(at, json_type_object)) {
		json_object_object_foreach(at, key, value)
		{
			if (strcmp(key, "program") && strcmp(key, "version") &&
			    strcmp(key, "hints"))
				expect_all_shown(screen, value);
		}
	} else if (json_object_is_type(at, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(at); i++)
			expect_all_shown(screen, json_object_array_get_idx(at, i));
	} else if (json_object_is_type(at, json_type_string)) {
		expect_shown(screen, json_object_get_string(at));
	}
}

char *screen_of(json_object *shown)
{
	char *screen = NULL;
	size_t size;
	FILE *out = open_memstream(&screen, &size);

	info_screen(shown, out);
	fclose(out);
	return screen;
}
