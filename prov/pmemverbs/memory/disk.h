/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk.h -- where pages are synced to
 *
 * A device has lanes.  Each file is in one of them, and syncs in different lanes are under way at
 * the same time: a drive and a journal take many flushes for little more than one, and who syncs
 * files one after the other pays for each.  Measured with 16 files on ext4 and a virtio disk:
 * msync of one page of each took 3.5 ms one after the other, 2.2 ms if all pages were written
 * before, 1.2 to 1.5 ms by threads or by io_uring.  Threads need nobody's permission.  syncfs takes
 * as long, but waits for everybody's pages.
 *
 * Four lanes give most of that.  On a drive that flushes at once, more lanes are slower: each costs
 * a thread that has to be woken, and what is in one lane is acknowledged together.
 */
#ifndef PMV_DISK_H
#define PMV_DISK_H

#include <stdint.h>
#include <sys/types.h>

#define PMV_DISK_NONE ((uint64_t) 0)
#define PMV_DISK_UNKNOWN UINT64_MAX /* several devices, perhaps */

#define PMV_LANES 4
#define PMV_LANE_BITS 3
#define PMV_LANE_SEVERAL ((UINT64_C(1) << PMV_LANE_BITS) - 1) /* files in several lanes */

static inline uint64_t pmv_disk_lane(dev_t dev, ino_t ino)
{
	return (uint64_t) dev << PMV_LANE_BITS | (1 + ino % PMV_LANES);
}

/* pmv_disk_device -- the same number for all lanes of a device */
static inline uint64_t pmv_disk_device(uint64_t disk)
{
	return disk >> PMV_LANE_BITS;
}

/* pmv_disk_both -- of what is on both */
static inline uint64_t pmv_disk_both(uint64_t one, uint64_t other)
{
	if (one == PMV_DISK_NONE || other == PMV_DISK_NONE || one == other)
		return one | other;
	if (pmv_disk_device(one) != pmv_disk_device(other))
		return PMV_DISK_UNKNOWN;
	return one | PMV_LANE_SEVERAL;
}

#endif /* PMV_DISK_H */
