/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.h -- block devices: what they are, and their caches; device: a directory in sysfs */
#ifndef PMV_DRIVE_H
#define PMV_DRIVE_H

#include <stdbool.h>

enum pmv_drive {
	PMV_DRIVE_DISK,    /* a driver's, or one that is known to do what flushes ask for */
	PMV_DRIVE_RAM,     /* its blocks are memory */
	PMV_DRIVE_UNKNOWN, /* software's: where the blocks are is not known */
};

enum pmv_drive pmv_drive_kind(const char *device);

/* pmv_drive_caches -- does the kernel flush a cache of the device?  Also of one with others below
 */
bool pmv_drive_caches(const char *device);

enum pmv_flush {
	PMV_FLUSH_SENT,    /* or there is no volatile cache */
	PMV_FLUSH_DROPPED, /* though there is one: somebody has told the kernel that there is none
			    */
	PMV_FLUSH_UNKNOWN, /* sysfs failed to say (errno) */
};

/* pmv_drive_flush -- cached_below: flushes have to reach a device below this one */
enum pmv_flush pmv_drive_flush(const char *device, bool cached_below);

#endif /* PMV_DRIVE_H */
