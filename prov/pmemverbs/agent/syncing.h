/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syncing.h -- requests whose pages are to be synced wait for a disk in groups
 *
 * A sync waits for a disk, and requests that need none are not to wait for it.  So requests with
 * pages are moved from the agent's batch to a group of their disk: those of one round, and all that
 * come while the disk is busy.  Groups of a disk are carried out one after the other, and then
 * concluded by whoever serves, as the agent's own batch is.  A disk is a lane of a device here
 * (disk.h): files of different lanes are synced at the same time.  Requests with pages on several
 * disks have groups of their own, as if they had a disk of their own: so no disk holds up another.
 *
 * A connection whose requests are in a group is not served until that is concluded: so its requests
 * are still done, and acknowledged, in order.
 *
 * Who carries out a group: the agent's thread, if the disk is quick, no other disk has anything to
 * do, and nobody has asked for other memory lately; stand_in.h says what happens if it takes long
 * after all.  Else a thread of the disk.  Where there is no second thread nobody makes groups, and
 * the agent syncs in its rounds.
 *
 * Two groups never sync one region at the same time (region.c): the kernel tells only one of them
 * of an error.  Some regions have mappings that are not known to be of files that this process can
 * open.  Of all these, also in other domains and on other disks, only one is synced at a time.
 */
#ifndef PMV_SYNCING_H
#define PMV_SYNCING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct pmv_agent;
struct pmv_receiver;
struct pmv_sync_disk;
struct pmv_sync_group;

enum {
	/*
	 * A disk is quick if a group takes no longer.  Others wait so long for it, once.  Measured:
	 * with 1 ms, 4 connections on 2 busy processors made a third less commits to a file.
	 */
	PMV_SYNC_QUICK_NS = 4000000,
	/* So long after a request without pages the agent's thread syncs nothing. */
	PMV_SYNC_OTHERS_NS = 10000000,
};

TAILQ_HEAD(pmv_sync_groups, pmv_sync_group);

/* Of an agent; its lock protects it. */
struct pmv_syncing {
	bool begun;      /* groups are made */
	bool all_beside; /* the agent's thread is away, and the stand-in acts */
	bool stop;
	bool warned;
	atomic_int_fast64_t others_ns;     /* when a request without pages was last taken */
	atomic_int under_way;              /* groups that are carried out */
	TAILQ_HEAD(, pmv_sync_disk) disks; /* the one that was taken last is the last */
	struct pmv_sync_groups done;
};

void pmv_syncing_init(struct pmv_syncing *syncing);

/*
 * pmv_syncing_begin -- groups are made from now on: there is a stand-in
 * pmv_syncing_end -- wait for all disks' threads, and drop their groups
 */
void pmv_syncing_begin(struct pmv_agent *agent);
void pmv_syncing_end(struct pmv_agent *agent);

/*
 * pmv_syncing_take -- move a connection's requests, which are the batch's from the first one on, to
 * a group, if they have pages; only where this has begun.  False: they stay in the batch.  Holds
 * the lock.
 */
bool pmv_syncing_take(struct pmv_agent *agent, unsigned int first);

/*
 * pmv_syncing_take_group -- for the agent's thread: the disk whose next group it is to carry out;
 * or NULL
 * pmv_syncing_carry_out -- do it
 */
struct pmv_sync_disk *pmv_syncing_take_group(struct pmv_agent *agent);
void pmv_syncing_carry_out(struct pmv_agent *agent, struct pmv_sync_disk *disk);

/* pmv_syncing_all_beside -- the stand-in acts from now on, or does so no more */
void pmv_syncing_all_beside(struct pmv_agent *agent, bool beside);

/* pmv_syncing_waits -- has whoever serves, or the agent's thread, to see to a group? */
bool pmv_syncing_waits(const struct pmv_syncing *syncing);

/* pmv_syncing_next -- the batch of a group that is done, or NULL; holds the lock */
struct pmv_writeback_batch *pmv_syncing_next(struct pmv_agent *agent);

/* pmv_syncing_count -- of requests that wait, are carried out, or are done; holds the lock */
unsigned int pmv_syncing_count(const struct pmv_syncing *syncing);

/* pmv_syncing_free -- a batch of pmv_syncing_next */
void pmv_syncing_free(struct pmv_writeback_batch *batch);

/* pmv_syncing_lets_sleep -- whoever asked lately waits for a disk: requests are not likely now */
bool pmv_syncing_lets_sleep(const struct pmv_syncing *syncing, int64_t now);

/* pmv_syncing_forget -- its endpoint is closed: nobody is told of its requests; holds the lock */
void pmv_syncing_forget(struct pmv_agent *agent, const struct pmv_receiver *receiver);

#endif /* PMV_SYNCING_H */
