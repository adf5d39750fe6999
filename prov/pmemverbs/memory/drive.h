/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.h -- block devices: what they are, and their caches; device: a directory in sysfs */
#ifndef PMV_DRIVE_H
#define PMV_DRIVE_H

#include <stdbool.h>

enum pmv_drive {
	PMV_DRIVE_DISK,    /* a driver's, or one that is known to do what flushes ask for */
	PMV_DRIVE_RAM,     /* its blocks are memory */
	PMV_DRIVE_UNKNOWN, /* software's: where the blocks are is not known */
	PMV_DRIVE_FAILED,  /* sysfs failed to say (errno) */
};

enum pmv_drive pmv_drive_kind(const char *device);

enum pmv_flush {
	PMV_FLUSH_SENT,    /* or there is no volatile cache */
	PMV_FLUSH_DROPPED, /* there is one, but the kernel was told that there is none */
	PMV_FLUSH_UNKNOWN, /* sysfs failed to say (errno) */
};

/*
 * pmv_drive_flush -- also of a device with others below it.  *cached: flushes have to reach a
 * device below this one; then, whether they have to reach this one.
 */
enum pmv_flush pmv_drive_flush(const char *device, bool *cached);

#endif /* PMV_DRIVE_H */
