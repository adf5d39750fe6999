/* SPDX-License-Identifier: BSD-2-Clause */
/* dimm.c -- the flags of NVDIMMs, as the drivers of NFIT (ACPI) and of POWER show them */
#include "memory/dimm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/sysfs.h"

static const char *const flags_of[] = {"nfit/flags", "papr/flags"};

/*
 * A DIMM that is not armed saves nothing.  One that failed to save, flush or restore the last time
 * has lost data, and nobody knows that it would do better now.  What could not be mapped is not
 * persistent memory.  Others (smart_event, smart_notify, encrypted) are no loss.
 */
static bool is_loss(const char *word)
{
	static const char *const words[] = {"not_armed", "save_fail", "flush_fail", "restore_fail",
					    "map_fail"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(word, words[i]))
			return true;
	}
	return false;
}

/* check_flags -- add those of the flags that mean a loss */
static bool check_flags(char *flags, const char *dimm, char *what, size_t size)
{
	bool loss = false;
	char *rest;

	for (char *word = strtok_r(flags, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (!is_loss(word))
			continue;
		if (!loss)
			snprintf(what, size, "%s says", dimm);
		loss = true;
		snprintf(what + strlen(what), size - strlen(what), " %s", word);
	}
	return loss;
}

/* check_dimm -- dir: its directory, which exists */
static enum pmv_dimm check_dimm(const char *dir, char *what, size_t size)
{
	char flags[128];

	for (size_t i = 0; i < sizeof(flags_of) / sizeof(flags_of[0]); i++) {
		if (!pmv_sysfs_read(dir, flags_of[i], flags, sizeof(flags))) {
			if (!pmv_sysfs_absent())
				return PMV_DIMM_UNKNOWN;
		} else if (check_flags(flags, basename(dir), what, size)) {
			return PMV_DIMM_LOSES;
		}
	}
	return PMV_DIMM_SOUND;
}

/* A region has mapping0 ("nmem0,0,size,position") and so on; e820 and virtio have no DIMMs. */
enum pmv_dimm pmv_dimm_check(const char *region, char *what, size_t size)
{
	char value[96] = "../", name[32];
	const size_t up = strlen(value);
	unsigned long count;

	if (!pmv_sysfs_read(region, "mappings", name, sizeof(name)))
		return pmv_sysfs_absent() ? PMV_DIMM_SOUND : PMV_DIMM_UNKNOWN;
	count = strtoul(name, NULL, 10);
	for (unsigned long i = 0; i < count; i++) {
		enum pmv_dimm dimm;
		char *dir;

		snprintf(name, sizeof(name), "mapping%lu", i);
		if (!pmv_sysfs_read(region, name, value + up, (int) (sizeof(value) - up)))
			return PMV_DIMM_UNKNOWN;
		value[strcspn(value, ",")] = '\0';
		/* Both are children of the bus. */
		dir = pmv_sysfs_resolve(region, value);
		if (!dir)
			return PMV_DIMM_UNKNOWN;
		dimm = check_dimm(dir, what, size);
		free(dir);
		if (dimm != PMV_DIMM_SOUND)
			return dimm;
	}
	return PMV_DIMM_SOUND;
}
