/* SPDX-License-Identifier: BSD-2-Clause */
/* test_machine.c -- what fi_pmem_info says of machines that are made up */
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "../../../../util/info/info.h"
#include "base/setting.h"
#include "engine/core.h"
#include "test/support/mem_system.h"

#define ROOT_PORT "devices/pci0000:3a/0000:3a:00.0"
#define RNIC ROOT_PORT "/0000:3b:00.0"
#define XEON_PORT 0x2030
#define MLX5 "mlx5_0"

/* What libfabric offers. */
static struct {
	const char *rnic; /* over verbs; NULL: none */
	bool iwarp;
} offers;

static struct info *info;
static json_object *model;

/* again -- forget what was found */
static void again(void)
{
	json_object_put(model);
	memset(info, 0, sizeof(*info));
	info->found = true;
	model = NULL;
}

static void begin(void)
{
	mem_system_begin();
	pmv_setting = (struct pmv_setting){.core = "verbs,tcp", .ddio = true};
	offers.rnic = MLX5;
	offers.iwarp = false;
	info = calloc(1, sizeof(*info));
	again();
}

static void end(void)
{
	json_object_put(model);
	free(info);
	pmv_setting = (struct pmv_setting){.core = "verbs,tcp"};
	mem_system_end();
}

TestSuite(machine, .init = begin, .fini = end);

static struct fi_info *offer(const char *name, uint32_t protocol)
{
	struct fi_info *one = fi_allocinfo();

	one->domain_attr->name = strdup(name);
	one->ep_attr->type = FI_EP_MSG;
	one->ep_attr->protocol = protocol;
	return one;
}

static struct fi_info *ask(const char *core)
{
	if (!strcmp(core, "tcp"))
		return offer("eth0", FI_PROTO_SOCK_TCP);
	return offers.rnic
		       ? offer(offers.rnic, offers.iwarp ? FI_PROTO_IWARP : FI_PROTO_RDMA_CM_IB_RC)
		       : NULL;
}

/* config -- PCI configuration space: so many bytes can be read */
static void config(const char *dir, unsigned int device, size_t len, bool allocating, bool relaxed)
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

static void rnic(bool ddio, bool relaxed, const char *node)
{
	config(ROOT_PORT, XEON_PORT, 4096, ddio, false);
	config(RNIC, 0x1017, 4096, false, relaxed);
	put(RNIC, "numa_node", node);
	put("class/infiniband/" MLX5, "node_type", "1: CA");
	put("class/infiniband/" MLX5 "/ports/1", "link_layer", "Ethernet");
	point("class/infiniband/" MLX5 "/device", RNIC);
}

static void soft_rnic(void)
{
	put("class/infiniband/rxe0", "node_type", "1: CA");
	offers.rnic = "rxe0";
}

static int detect_base(const char *path, struct pmv_mem *found)
{
	(void) path;
	return pmv_detect((void *) (uintptr_t) BASE, MIB, found);
}

static void look(const char *path)
{
	info->nodes = info_nodes();
	info_devices(info, ask);
	info_regions(info);
	if (path)
		info_path(info, path, detect_base);
	model = info_model(info);
}

/* get -- by a path like "memory/0/domain"; NULL: there is none */
static json_object *get(const char *path)
{
	json_object *at = model;
	char key[64];
	int len;

	for (; at && sscanf(path, "%63[^/]%n", key, &len) == 1; path += len, path += *path == '/')
		at = isdigit(*key) ? json_object_array_get_idx(at, strtoul(key, NULL, 10))
				   : json_object_object_get(at, key);
	return at;
}

static const char *text_at(const char *path)
{
	json_object *at = get(path);

	return at ? json_object_get_string(at) : "(none)";
}

#define expect_text(path, text) cr_expect_str_eq(text_at(path), text, "%s: %s", path, text_at(path))
#define expect_in(path, part) cr_expect(strstr(text_at(path), part), "%s: %s", path, text_at(path))

/* find -- an element of a list with that part somewhere in it; NULL: there is none */
static json_object *find(const char *list, const char *part)
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

#define VERBS "memory/0/ways/0/answer/"
#define TCP "memory/0/ways/1/answer/"

/* Memory and methods */

Test(machine, adr_needs_the_agent)
{
	region(REGION0, "memory_controller", "0");
	put(REGION0, "size", "17179869184");
	put(REGION0 "/namespace0.0", "mode", "dax");
	put(REGION0 "/namespace0.0", "size", "17179869184");
	put(REGION0 "/namespace0.1", "mode", "raw");
	put(REGION0 "/namespace0.1", "size", "0");
	rnic(true, false, "0");
	look(NULL);
	expect_text("memory/0/kind", "NVDIMM region");
	expect_text("memory/0/domain", "dmp");
	expect_text("memory/0/mode", "devdax");
	expect_text("memory/0/bytes", "17179869184");
	expect_text("memory/0/node", "0");
	expect_text("memory/0/from",
		    "bus/nd/devices/region0/persistence_domain: memory_controller");
	expect_text("memory/0/ways/0/devices/0", "verbs " MLX5);
	expect_text(VERBS "commit", "agent");
	expect_in(VERBS "commit_why", "FI_PMEMVERBS_DDIO=off");
	expect_text(VERBS "send", "agent");
	expect_text(VERBS "send_with_recv_mr", "agent");
	expect_text("devices/0/ddio/state", "on");
	expect_in("devices/0/ddio/from", "perfctrlsts_0 of root port 0000:3a:00.0");
	expect_text("devices/0/kind", "RNIC, RoCE");
	cr_expect(find(VERBS "faster", "0000:3a:00.0"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, adr_without_ddio_needs_it_declared)
{
	region(REGION0, "memory_controller", "0");
	rnic(false, false, "0");
	look(NULL);
	expect_text("devices/0/ddio/state", "off");
	expect_text(VERBS "commit", "agent");
	cr_expect(find(VERBS "faster", "set FI_PMEMVERBS_DDIO=off"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, adr_is_committed_by_reads_where_ddio_is_off)
{
	region(REGION0, "memory_controller", "0");
	rnic(false, false, "0");
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	/* Over tcp that would lose data. */
	pmv_setting.core = "verbs";
	look(NULL);
	expect_text(VERBS "commit", "read");
	expect_in(VERBS "commit_why", "bypasses the caches");
	expect_in(VERBS "immediate", "empty write behind the READ");
	expect_text(VERBS "send", "agent");
	expect_text(VERBS "send_with_recv_mr", "read");
	cr_expect_not(info_loses_data(model));
}

Test(machine, eadr_needs_no_agent_but_over_tcp)
{
	region(REGION0, "cpu_cache", "0");
	rnic(true, false, "0");
	look(NULL);
	expect_text("memory/0/domain", "mhp");
	expect_text(VERBS "commit", "read");
	expect_in(VERBS "commit_why", "caches persist");
	expect_text(TCP "commit", "agent");
	cr_expect(find(TCP "faster", "use an RDMA device"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, cxl_is_known_and_gpf_is_not)
{
	region(REGION0, "memory_controller", "1");
	put(NDBUS, "provider", "CXL");
	rnic(true, false, "1");
	look(NULL);
	expect_text("memory/0/kind", "CXL region");
	expect_text("memory/0/domain", "dmp");
	cr_expect(find(VERBS "faster", "FI_PMEMVERBS_DOMAIN=mhp"));
	cr_expect_not(info_loses_data(model));
}

/* Nobody but the administrator knows it. */
Test(machine, cxl_with_gpf_is_declared)
{
	region(REGION0, "memory_controller", "1");
	put(NDBUS, "provider", "CXL");
	rnic(true, false, "1");
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_MHP;
	look(NULL);
	expect_text(VERBS "commit", "read");
	cr_expect(find("warnings", "GPF"));
	cr_expect_not(find(VERBS "faster", "GPF"), "what was done is not advised");
	cr_expect_not(info_loses_data(model));
}

Test(machine, e820_memory_is_refused)
{
	region("devices/platform/e820_pmem/ndbus0/region0", "cpu_cache", "0");
	rnic(true, false, "0");
	look(NULL);
	expect_text("memory/0/domain", "refused");
	expect_in("memory/0/what", "e820");
	cr_expect_null(get("memory/0/ways"));
	/* Nobody has said that it is to be used. */
	cr_expect_not(info_loses_data(model));
}

Test(machine, device_dax_is_looked_at_without_opening_it)
{
	region(REGION0, "memory_controller", "0");
	dax(REGION0 "/dax0.0/dax0.0", DAX0);
	rnic(true, false, "0");
	look("/dev/dax0.0");
	expect_text("memory/1/kind", "device DAX");
	expect_text("memory/1/domain", "dmp");
	expect_in("memory/1/what", "region0 memory_controller");
}

Test(machine, iwarp_has_no_buffers_that_persist)
{
	region(REGION0, "cpu_cache", "0");
	rnic(true, false, "0");
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_WSP;
	look(NULL);
	expect_text(VERBS "commit", "write");
	expect_text(VERBS "immediate", "write: it comes with the data");
	again();
	offers.iwarp = true;
	look(NULL);
	expect_text(VERBS "commit", "read");
}

Test(machine, without_an_agent_commits_are_refused)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	pmv_setting.agent = PMV_AGENT_OFF;
	look(NULL);
	expect_text(VERBS "commit", "refused");
	expect_in(VERBS "commit_why", "the agent is switched off");
	cr_expect(find("warnings", "Commits are refused"));
	cr_expect_not(info_loses_data(model), "they fail, and say so");
}

Test(machine, a_path_without_order_needs_the_agent)
{
	region(REGION0, "cpu_cache", "0");
	rnic(true, true, "0");
	pmv_setting.relaxed = true;
	look(NULL);
	expect_text(VERBS "commit", "agent");
	expect_text(VERBS "send", "refused");
	expect_in(VERBS "send_why", "FI_PMEMVERBS_ORDERING");
	cr_expect(find(VERBS "faster", "unset FI_PMEMVERBS_ORDERING"));
	/* It has been declared. */
	cr_expect_null(find("warnings", "relax the order"));
}

/* Files */

static void sysfs_disk(const char *name, const char *dev, const char *cache)
{
	char dir[64], queue[80];

	snprintf(dir, sizeof(dir), "devices/pci0000:00/%s", name);
	device("block", dev, dir);
	snprintf(queue, sizeof(queue), "%s/queue", dir);
	put(queue, "write_cache", cache);
}

Test(machine, a_file_is_synced)
{
	sysfs_disk("sda", DISK, "write back");
	file(0, DISK, "/data/log");
	node("/data/log", DISK, 7, S_IFREG, "0:0");
	rnic(true, false, "0");
	look("/data/log");
	expect_text("memory/0/domain", "page");
	expect_in("memory/0/what", "ext4");
	expect_text(VERBS "commit", "agent");
	expect_text("memory/0/cache_from", "sda/queue/write_cache: write back");
	cr_expect(find(VERBS "faster", "DAX"));
	cr_expect(find(VERBS "notes", "pin"));
	cr_expect_null(find(TCP "notes", "pin"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, a_cache_that_is_not_flushed_is_warned_of)
{
	static const struct {
		const char *kernel, *drive;
		bool warned, loses;
	} cases[] = {
		{"write back", NULL, false, false},
		{"write through", NULL, true, false},
		{"write back", "write back", false, false},
		{"write through", "write through", true, false},
		{"write through", "write back", true, true},
		{"write through", "write back, no read (daft)", true, true},
	};

	sysfs_disk("sda", DISK, "write back");
	file(0, DISK, "/data/log");
	node("/data/log", DISK, 7, S_IFREG, "0:0");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put("devices/pci0000:00/sda/queue", "write_cache", cases[i].kernel);
		if (cases[i].drive)
			put("devices/pci0000:00/sda/device/scsi_disk/0:0:0:0", "cache_type",
			    cases[i].drive);
		again();
		look("/data/log");
		cr_expect_eq(find("warnings", "queue/write_cache") != NULL, cases[i].warned,
			     "case %zu", i);
		cr_expect_eq(info_loses_data(model), cases[i].loses, "case %zu", i);
	}
}

/* The disks below are what counts. */
Test(machine, a_cache_is_found_below_device_mapper)
{
	device("block", "fd:00", DM);
	put(DM "/queue", "write_cache", "write back");
	sysfs_disk("sda", "08:00", "write back");
	sysfs_disk("sdb", "08:10", "write through");
	put("devices/pci0000:00/sdb/device/scsi_disk/1:0:0:0", "cache_type", "write back");
	put("devices/pci0000:00/sdb/sdb1", "partition", "1");
	slave(DM, "sda", "devices/pci0000:00/sda");
	slave(DM, "sdb1", "devices/pci0000:00/sdb/sdb1");
	mount_fs(30, "fd:00", "/mnt/dm", "xfs /dev/mapper/dm rw");
	file(0, "fd:00", "/mnt/dm/log");
	node("/mnt/dm/log", "fd:00", 7, S_IFREG, "0:0");
	look("/mnt/dm/log");
	expect_in("memory/0/cache_from", "sdb/queue/write_cache: write through");
	cr_expect(info_loses_data(model));
}

Test(machine, a_file_that_is_not_durable_is_data_loss)
{
	static const struct {
		const char *dev, *path, *mount, *why;
		bool refused;
	} cases[] = {
		{TMPFS, "/dev/shm/log", NULL, "tmpfs", true},
		{"00:2a", "/over/log", "overlay overlay rw,lowerdir=/l,upperdir=/u", "overlayfs",
		 false},
		{"00:2b", "/lost/log", "overlay overlay rw,lowerdir=/l,volatile", "volatile", true},
		{"00:2c", "/sub/log", "btrfs /dev/sda1 rw", "btrfs", false},
		{"00:2d", "/nb/log", "xfs /dev/sda1 rw,nobarrier", "nobarrier", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unlink(smaps);
		append(smaps, "%s", "");
		if (cases[i].mount)
			mount_fs(40 + (unsigned int) i, cases[i].dev, "/x", cases[i].mount);
		file(0, cases[i].dev, cases[i].path);
		node(cases[i].path, cases[i].dev, 7, S_IFREG, "0:0");
		again();
		look(cases[i].path);
		expect_in("memory/0/what", cases[i].why);
		expect_text("memory/0/domain", cases[i].refused ? "refused" : "page");
		cr_expect_eq(info_loses_data(model), cases[i].refused, "%s", cases[i].path);
	}
}

Test(machine, what_is_not_there_is_said)
{
	node("/data", DISK, 7, S_IFDIR, "0:0");
	look("/nosuch");
	info_path(info, "/data", detect_base);
	json_object_put(model);
	model = info_model(info);
	expect_in("memory/0/what", "/nosuch");
	expect_in("memory/1/what", "name a file");
	cr_expect(info_loses_data(model));
}

/* Set-ups that lose data */

Test(machine, ddio_declared_off_but_on_is_data_loss)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	pmv_setting.core = "verbs";
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	look(NULL);
	cr_expect(find("warnings", "DDIO is on for mlx5_0"));
	cr_expect(info_loses_data(model));
	/* Where the caches persist it does not matter. */
	again();
	put(REGION0, "persistence_domain", "cpu_cache");
	look(NULL);
	expect_text("memory/0/domain", "mhp");
	cr_expect_not(info_loses_data(model));
}

/* A request that Soft-RoCE repeats waits for itself, if it is fenced. */
Test(machine, soft_roce_fences_nothing)
{
	const struct pmv_core *verbs = pmv_core_next(0);

	rnic(true, false, "0");
	soft_rnic();
	cr_assert_str_eq(verbs->name, "verbs");
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, MLX5), PMV_ENGINE_FENCE);
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, "gone"), PMV_ENGINE_FENCE);
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, "rxe0"), 0);
	/* Soft-iWARP does, and a target may answer a READ later than it executes what follows. */
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_LOCAL, "rxe0"), PMV_ENGINE_FENCE);
	pmv_setting.nic_fences = true;
	cr_expect_eq(pmv_core_caps(verbs, PMV_TRANSPORT_IB, "rxe0"), PMV_ENGINE_FENCE);
}

Test(machine, ddio_declared_off_where_software_places_data_is_data_loss)
{
	region(REGION0, "memory_controller", "0");
	soft_rnic();
	pmv_setting.core = "verbs";
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	look(NULL);
	expect_text("devices/0/kind", "software RDMA");
	cr_expect(find("warnings", "through rxe0 software places data"));
	cr_expect(info_loses_data(model));
}

/* A peer without RDMA may come over tcp. */
Test(machine, ddio_declared_off_does_not_hold_for_tcp)
{
	region(REGION0, "memory_controller", "0");
	rnic(false, false, "0");
	pmv_setting.ddio_declared = true;
	pmv_setting.ddio = false;
	look(NULL);
	cr_expect(find("warnings", "through tcp software places data"));
	cr_expect(info_loses_data(model));
}

Test(machine, a_declaration_beyond_what_is_found_is_data_loss)
{
	region(REGION0, "memory_controller", "0");
	rnic(true, false, "0");
	pmv_setting.domain_declared = true;
	pmv_setting.domain = PMV_MHP;
	look(NULL);
	expect_text("memory/0/domain", "mhp");
	expect_text("memory/0/declared", "true");
	expect_in("memory/0/what", "memory_controller");
	cr_expect(find("warnings", "FI_PMEMVERBS_DOMAIN=mhp"));
	cr_expect(info_loses_data(model));
	/* Less than was found is slower, and safe. */
	again();
	pmv_setting.domain = PMV_DMP;
	look(NULL);
	cr_expect_not(info_loses_data(model));
}

Test(machine, a_provider_that_is_not_found_is_data_loss)
{
	look(NULL);
	cr_expect_not(info_loses_data(model));
	json_object_put(model);
	info->found = false;
	model = info_model(info);
	cr_expect(find("warnings", "FI_PROVIDER_PATH"));
	cr_expect(info_loses_data(model));
}

Test(machine, a_wrong_setting_is_data_loss)
{
	pmv_setting.bad = "FI_PMEMVERBS_COMIT is not a setting";
	look(NULL);
	cr_expect(find("warnings", "COMIT"));
	cr_expect(info_loses_data(model));
}

/* Devices */

Test(machine, who_is_not_root_sees_64_bytes)
{
	rnic(true, true, "0");
	config(ROOT_PORT, XEON_PORT, 64, true, false);
	config(RNIC, 0x1017, 64, false, true);
	look(NULL);
	expect_text("devices/0/ddio/state", "unknown");
	expect_in("devices/0/ddio/from", "setpci -s 0000:3a:00.0 180.b");
	expect_text("devices/0/relaxed_ordering/state", "unknown");
	expect_in("devices/0/relaxed_ordering/from", "lspci -vv -s 0000:3b:00.0");
}

Test(machine, another_root_port_has_another_switch)
{
	rnic(true, false, "0");
	config(ROOT_PORT, 0x347a, 4096, true, false);
	look(NULL);
	expect_text("devices/0/ddio/state", "unknown");
	expect_in("devices/0/ddio/from", "8086:347a");
	expect_in("devices/0/ddio/from", "BIOS");
}

/* A list of capabilities that is a circle, and one that leaves the space. */
Test(machine, broken_configuration_space_is_survived)
{
	char path[2 * PATH_MAX], space[256] = {[0x34] = 0x40, [0x41] = 0x40};

	rnic(true, false, "0");
	snprintf(path, sizeof(path), "%s/%s/config", sysfs, RNIC);
	store(path, space, sizeof(space));
	look(NULL);
	expect_text("devices/0/relaxed_ordering/state", "unknown");
	expect_in("devices/0/relaxed_ordering/from", "no PCI Express capability");
	again();
	space[0x34] = (char) 0xfc;
	space[0xfc] = 0x10;
	store(path, space, sizeof(space));
	look(NULL);
	expect_text("devices/0/relaxed_ordering/state", "unknown");
}

Test(machine, relaxed_ordering_is_warned_of)
{
	rnic(true, true, "0");
	look(NULL);
	expect_text("devices/0/relaxed_ordering/state", "on");
	cr_expect(find("warnings", "relax the order"));
	cr_expect_not(info_loses_data(model));
}

Test(machine, a_device_that_is_not_offered_is_shown)
{
	rnic(true, false, "0");
	offers.rnic = NULL;
	region(REGION0, "cpu_cache", "0");
	look(NULL);
	expect_text("devices/0/device", MLX5);
	expect_text("devices/0/offered", "false");
	cr_expect(find("warnings", "offers nothing on this device"));
	expect_text("memory/0/ways/0/devices/0", "tcp all interfaces");
}

Test(machine, two_nodes_are_compared)
{
	put("devices/system/node/node0", "cpulist", "0-15");
	put("devices/system/node/node1", "cpulist", "16-31");
	region(REGION0, "cpu_cache", "1");
	rnic(true, false, "0");
	look(NULL);
	expect_text("machine/nodes", "2");
	cr_expect(find(VERBS "faster", "H1"));
	again();
	put(RNIC, "numa_node", "1");
	look(NULL);
	cr_expect_null(find(VERBS "faster", "H1"));
}

/* The screen */

/* squeeze -- without the breaks of lines */
static void squeeze(char *words)
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

/* Each text of the model, but for the names of the program and of hints that always hold. */
static void expect_all_shown(const char *screen, json_object *at)
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

static char *screen_of(json_object *shown)
{
	char *screen = NULL;
	size_t size;
	FILE *out = open_memstream(&screen, &size);

	info_screen(shown, out);
	fclose(out);
	return screen;
}

Test(machine, the_screen_shows_the_model)
{
	char *screen;

	region(REGION0, "memory_controller", "1");
	put(NDBUS, "provider", "CXL");
	sysfs_disk("sda", DISK, "write through");
	file(0, DISK, "/data/log");
	node("/data/log", DISK, 7, S_IFREG, "0:0");
	rnic(true, true, "0");
	put("devices/system/node/node0", "cpulist", "0-15");
	put("devices/system/node/node1", "cpulist", "16-31");
	look("/data/log");
	screen = screen_of(model);
	for (char *line = screen; *line; line = strchrnul(line, '\n'), line += *line == '\n')
		cr_expect_leq(strcspn(line, "\n"), 100, "%.120s", line);
	squeeze(screen);
	expect_all_shown(screen, model);
	free(screen);
}

/* Targets */

static struct info_answer answer;

static void set_answer(void)
{
	answer = (struct info_answer){
		.core = "verbs",
		.transport = PMV_TRANSPORT_IB,
		.count = PMV_STATUS_COUNTERS + sizeof(struct fi_pmemverbs_counters) / 8,
	};
	for (size_t i = PMV_STATUS_COUNTERS; i < answer.count; i++)
		answer.values[i] = 1000 + i - PMV_STATUS_COUNTERS;
}

Test(machine, a_target_has_regions_and_counters)
{
	char *screen;

	set_answer();
	answer.values[PMV_STATUS_REGIONS + PMV_DMP] = 3;
	answer.values[PMV_STATUS_REGIONS + PMV_MHP] = 1;
	answer.values[PMV_STATUS_DDIO] = 1;
	model = info_target("target.example", "7471", &answer);
	expect_text("target/address", "target.example:7471");
	expect_text("target/memory/0/domain", "dmp");
	expect_text("target/memory/0/regions", "3");
	expect_text("target/memory/0/answer/commit", "agent");
	expect_text("target/memory/1/answer/commit", "read");
	expect_text("target/counters/endpoints", "1000");
	expect_text("target/counters/wakes", "1016");
	screen = screen_of(model);
	squeeze(screen);
	expect_all_shown(screen, model);
	cr_expect(strstr(screen, "wakes1016"));
	free(screen);
}

/* One that knows fewer counters, and one that lies. */
Test(machine, a_target_is_not_trusted)
{
	set_answer();
	answer.count = PMV_STATUS_COUNTERS + 2;
	answer.values[PMV_STATUS_AGENT] = UINT64_MAX;
	answer.values[PMV_STATUS_DECLARED] = UINT64_MAX;
	model = info_target("target.example", "7471", &answer);
	expect_text("target/offers/agent", "unknown");
	expect_text("target/offers/domain", "unknown");
	cr_expect_eq(json_object_object_length(get("target/counters")), 2);
	json_object_put(model);
	answer.count = 0;
	model = info_target("target.example", "7471", &answer);
	cr_expect_eq(json_object_array_length(get("target/memory")), 0);
	json_object_put(model);
	answer.refused = true;
	model = info_target("target.example", "7471", &answer);
	expect_in("target/refused", "FI_PMEMVERBS_ANSWER=on");
	cr_expect_null(get("target/counters"));
}
