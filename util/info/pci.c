/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pci.c -- DDIO and relaxed ordering, from PCI configuration space
 *
 * Only root reads more than the first 64 bytes of it.
 */
#include <libgen.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"
#include "memory/platform.h"

/* PCI Local Bus Specification 3.0, 6.1 and 6.7; PCI Express Base Specification, 7.5.3.4 */
#define VENDOR_AT 0x00
#define DEVICE_AT 0x02
#define FIRST_CAPABILITY_AT 0x34
#define CAPABILITY_EXPRESS 0x10
#define DEVICE_CONTROL_AT 0x08
#define RELAXED_ORDERING (1 << 4)
#define OPEN_SIZE 64
#define CLASSIC_SIZE 256
/*
 * Intel Xeon Processor Scalable Family, Datasheet Volume Two, perfctrlsts_0 of the root ports:
 * bit 7, Use_Allocating_Flow_Wr, is 1 where inbound writes are put into the cache.
 */
#define PERFCTRLSTS_0 0x180
#define ALLOCATING_FLOW (1 << 7)
#define INTEL 0x8086
#define FIRST_XEON_PORT 0x2030
#define LAST_XEON_PORT 0x2033

/* Configuration space, as far as it can be read. */
struct space {
	uint8_t bytes[4096];
	size_t len;
};

bool info_attribute(char *value, size_t size, const char *fmt, ...)
{
	char name[PATH_MAX], path[PATH_MAX];
	va_list args;
	FILE *file;
	bool read;

	*value = '\0';
	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	if (snprintf(path, sizeof(path), "%s/%s", pmv_platform.sysfs, name) >= (int) sizeof(path))
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	read = fgets(value, (int) size, file);
	fclose(file);
	value[strcspn(value, "\n")] = '\0';
	return read;
}

static void read_space(const char *device, struct space *space)
{
	char path[PATH_MAX];
	FILE *file;

	space->len = 0;
	if (snprintf(path, sizeof(path), "%s/config", device) >= (int) sizeof(path))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	space->len = fread(space->bytes, 1, sizeof(space->bytes), file);
	fclose(file);
}

static unsigned int word(const struct space *space, size_t at)
{
	return at + 1 < space->len ? space->bytes[at] | space->bytes[at + 1] << 8 : 0;
}

/* find_express -- where the PCI Express capability is; 0: not found */
static size_t find_express(const struct space *space)
{
	size_t at = word(space, FIRST_CAPABILITY_AT) & 0xfc;

	/* A broken list may be a circle. */
	for (int i = 0; i < CLASSIC_SIZE / 4 && at >= OPEN_SIZE && at + 1 < space->len; i++) {
		if (space->bytes[at] == CAPABILITY_EXPRESS)
			return at;
		at = space->bytes[at + 1] & 0xfc;
	}
	return 0;
}

static void read_relaxed(const char *pci, const struct space *space, struct info_bit *relaxed)
{
	size_t express = find_express(space);
	unsigned int control = word(space, express + DEVICE_CONTROL_AT);

	if (!express || express + DEVICE_CONTROL_AT + 1 >= space->len) {
		snprintf(relaxed->from, sizeof(relaxed->from),
			 space->len > OPEN_SIZE
				 ? "%s has no PCI Express capability"
				 : "only root can read it: run this as root, or lspci -vv -s %s",
			 pci);
		return;
	}
	relaxed->state = control & RELAXED_ORDERING ? INFO_ON : INFO_OFF;
	snprintf(relaxed->from, sizeof(relaxed->from), "Device Control of %s", pci);
}

static void read_ddio(const char *port, const struct space *space, struct info_bit *ddio)
{
	unsigned int device = word(space, DEVICE_AT);

	if (word(space, VENDOR_AT) != INTEL || device < FIRST_XEON_PORT ||
	    device > LAST_XEON_PORT) {
		snprintf(ddio->from, sizeof(ddio->from),
			 "root port %s (%04x:%04x) is of no kind whose switch is known here: see "
			 "the "
			 "BIOS",
			 port, word(space, VENDOR_AT), device);
		return;
	}
	if (space->len <= PERFCTRLSTS_0) {
		snprintf(
			ddio->from, sizeof(ddio->from),
			"only root can read it: run this as root, or setpci -s %s 180.b, where bit "
			"7 means on",
			port);
		return;
	}
	ddio->state = space->bytes[PERFCTRLSTS_0] & ALLOCATING_FLOW ? INFO_ON : INFO_OFF;
	snprintf(ddio->from, sizeof(ddio->from), "bit 7 of perfctrlsts_0 of root port %s", port);
}

/* root_of -- the part of a path in sysfs that ends with the root port; false: there is none */
static bool root_of(const char *path, char port[PATH_MAX])
{
	const char *bus = strstr(path, "/pci"), *slash, *end;

	slash = bus ? strchr(bus + 1, '/') : NULL;
	end = slash ? strchrnul(slash + 1, '/') : NULL;
	if (!end)
		return false;
	snprintf(port, PATH_MAX, "%.*s", (int) (end - path), path);
	return true;
}

void info_pci(struct info_device *device, const char *sysfs_device)
{
	char port[PATH_MAX];
	struct space space;

	if (!root_of(sysfs_device, port)) {
		snprintf(device->ddio.from, sizeof(device->ddio.from), "it is no PCI device");
		snprintf(device->relaxed.from, sizeof(device->relaxed.from), "it is no PCI device");
		return;
	}
	snprintf(device->pci, sizeof(device->pci), "%.31s", strrchr(sysfs_device, '/') + 1);
	snprintf(device->root_port, sizeof(device->root_port), "%.31s", strrchr(port, '/') + 1);
	read_space(sysfs_device, &space);
	read_relaxed(device->pci, &space, &device->relaxed);
	read_space(port, &space);
	read_ddio(device->root_port, &space, &device->ddio);
}
