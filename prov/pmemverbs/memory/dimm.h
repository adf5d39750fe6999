/* SPDX-License-Identifier: BSD-2-Clause */
/* dimm.h -- what the NVDIMMs of a region say about themselves */
#ifndef PMV_DIMM_H
#define PMV_DIMM_H

#include <stddef.h>

enum pmv_dimm {
	PMV_DIMM_SOUND,   /* nobody says otherwise */
	PMV_DIMM_LOSES,   /* one of them loses data in a power failure, or has lost some */
	PMV_DIMM_UNKNOWN, /* sysfs failed to say (errno) */
};

/*
 * pmv_dimm_check -- region: its directory in sysfs.  If one of its DIMMs loses data, what is its
 * name and its words for that: "nmem1 says not_armed".
 */
enum pmv_dimm pmv_dimm_check(const char *region, char *what, size_t size);

#endif /* PMV_DIMM_H */
