/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.h -- block devices that have no other device below them; device: a directory in sysfs */
#ifndef PMV_DRIVE_H
#define PMV_DRIVE_H

enum pmv_drive {
	PMV_DRIVE_DISK,    /* a driver's, or one that is known to do what flushes ask for */
	PMV_DRIVE_RAM,     /* its blocks are memory */
	PMV_DRIVE_UNKNOWN, /* software's: where the blocks are is not known */
};

enum pmv_drive pmv_drive_kind(const char *device);

#endif /* PMV_DRIVE_H */
