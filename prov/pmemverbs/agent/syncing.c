/* SPDX-License-Identifier: BSD-2-Clause */
/* syncing.c -- groups of disks, and their threads; syncing.h has the rules */
#include "agent/syncing.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/writeback.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "base/spawn.h"
#include "memory/guard.h"

struct pmv_sync_group {
	TAILQ_ENTRY(pmv_sync_group) next;
	struct pmv_writeback_batch batch;
};

struct pmv_sync_disk {
	TAILQ_ENTRY(pmv_sync_disk) next;
	uint64_t number;
	struct pmv_agent *agent;
	struct pmv_sync_groups waiting; /* the last one may get more requests */
	struct pmv_sync_group *synced;  /* right now; or NULL */
	bool slow;
	bool beside; /* its thread is to carry out what waits, and what comes until nothing does */
	bool threaded;
	pthread_cond_t more;
	pthread_t thread;
};

/* take_group -- true: it is disk->synced now; holds the lock */
static bool take_group(struct pmv_sync_disk *disk)
{
	struct pmv_sync_group *group = TAILQ_FIRST(&disk->waiting);

	if (!group || disk->synced)
		return false;
	TAILQ_REMOVE(&disk->waiting, group, next);
	disk->synced = group;
	atomic_fetch_add(&disk->agent->syncing.under_way, 1);
	return true;
}

/* carry_out -- disk->synced; holds the lock, but not meanwhile */
static void carry_out(struct pmv_agent *agent, struct pmv_sync_disk *disk)
{
	struct pmv_sync_group *group = disk->synced;
	int64_t begin = pmv_clock_ns();

	pthread_mutex_unlock(&agent->lock);
	pmv_guard_enter_flushing();
	pmv_writeback_carry_out(&group->batch, &agent->regions, PMV_WHOLE_SLICE);
	pmv_guard_leave_flushing();
	pthread_mutex_lock(&agent->lock);
	disk->slow = pmv_clock_ns() - begin > PMV_SYNC_QUICK_NS;
	disk->synced = NULL;
	atomic_fetch_sub(&agent->syncing.under_way, 1);
	TAILQ_INSERT_TAIL(&agent->syncing.done, group, next);
}

/* A disk's thread */

static void *run(void *arg)
{
	struct pmv_sync_disk *disk = arg;
	struct pmv_agent *agent = disk->agent;

	pthread_mutex_lock(&agent->lock);
	while (!agent->syncing.stop) {
		if (disk->beside && !atomic_load(&agent->stop) && take_group(disk)) {
			carry_out(agent, disk);
			pmv_agent_kick(agent);
			continue;
		}
		disk->beside &= !TAILQ_EMPTY(&disk->waiting);
		pthread_cond_wait(&disk->more, &agent->lock);
	}
	pthread_mutex_unlock(&agent->lock);
	return NULL;
}

static bool start(struct pmv_sync_disk *disk)
{
	struct pmv_syncing *syncing = &disk->agent->syncing;
	int ret = pmv_spawn(&disk->thread, "pmv-sync", run, disk, SIGBUS);

	if (!ret)
		return true;
	if (!syncing->warned)
		PMV_WARN(DOMAIN,
			 "no thread can be started that syncs a disk (%s): commits to files on "
			 "other disks wait for it; see the limits on threads (ulimit -u, pids.max "
			 "of the cgroup)\n",
			 strerror(ret));
	syncing->warned = true;
	return false;
}

/* put_beside -- what waits is for the disk's thread, if there is one; holds the lock */
static void put_beside(struct pmv_sync_disk *disk)
{
	if (!disk->threaded)
		disk->threaded = start(disk);
	disk->beside = disk->threaded;
	pthread_cond_signal(&disk->more);
}

static bool others_ask(const struct pmv_syncing *syncing, int64_t now)
{
	return now - atomic_load(&syncing->others_ns) < PMV_SYNC_OTHERS_NS;
}

bool pmv_syncing_lets_sleep(const struct pmv_syncing *syncing, int64_t now)
{
	return atomic_load(&syncing->under_way) && !others_ask(syncing, now);
}

static bool has_work(const struct pmv_sync_disk *disk)
{
	return disk->synced || !TAILQ_EMPTY(&disk->waiting);
}

static bool others_work(const struct pmv_sync_disk *disk)
{
	const struct pmv_sync_disk *other;

	TAILQ_FOREACH(other, &disk->agent->syncing.disks, next)
	{
		if (other != disk && has_work(other))
			return true;
	}
	return false;
}

/* is_for_thread -- holds the lock */
static bool is_for_thread(const struct pmv_sync_disk *disk)
{
	const struct pmv_syncing *syncing = &disk->agent->syncing;

	return disk->beside || disk->slow || syncing->all_beside || others_work(disk) ||
	       others_ask(syncing, pmv_clock_ns());
}

/* The agent's side */

void pmv_syncing_init(struct pmv_syncing *syncing)
{
	TAILQ_INIT(&syncing->disks);
	TAILQ_INIT(&syncing->done);
}

void pmv_syncing_begin(struct pmv_agent *agent)
{
	pthread_mutex_lock(&agent->lock);
	agent->syncing.begun = true;
	pthread_mutex_unlock(&agent->lock);
}

static void free_all(struct pmv_sync_groups *groups)
{
	struct pmv_sync_group *group;

	while ((group = TAILQ_FIRST(groups))) {
		TAILQ_REMOVE(groups, group, next);
		for (unsigned int i = 0; i < group->batch.count; i++)
			pmv_work_free(&group->batch.works[i]);
		free(group);
	}
}

/* end_disk -- holds the lock, but not while it waits */
static void end_disk(struct pmv_agent *agent, struct pmv_sync_disk *disk)
{
	pthread_cond_signal(&disk->more);
	if (disk->threaded) {
		pthread_mutex_unlock(&agent->lock);
		pthread_join(disk->thread, NULL);
		pthread_mutex_lock(&agent->lock);
	}
	TAILQ_REMOVE(&agent->syncing.disks, disk, next);
	free_all(&disk->waiting);
	pthread_cond_destroy(&disk->more);
	free(disk);
}

void pmv_syncing_end(struct pmv_agent *agent)
{
	struct pmv_syncing *syncing = &agent->syncing;
	struct pmv_sync_disk *disk;

	pthread_mutex_lock(&agent->lock);
	syncing->begun = false;
	syncing->stop = true;
	while ((disk = TAILQ_FIRST(&syncing->disks)))
		end_disk(agent, disk);
	free_all(&syncing->done);
	syncing->stop = false;
	pthread_mutex_unlock(&agent->lock);
}

static struct pmv_sync_disk *find(struct pmv_agent *agent, uint64_t number)
{
	struct pmv_sync_disk *disk;

	TAILQ_FOREACH(disk, &agent->syncing.disks, next)
	{
		if (disk->number == number)
			return disk;
	}
	disk = calloc(1, sizeof(*disk));
	if (!disk)
		return NULL;
	disk->number = number;
	disk->agent = agent;
	TAILQ_INIT(&disk->waiting);
	pthread_cond_init(&disk->more, NULL);
	TAILQ_INSERT_TAIL(&agent->syncing.disks, disk, next);
	return disk;
}

/* find_group -- that waits, with room for so many requests; NULL: no memory */
static struct pmv_sync_group *find_group(struct pmv_sync_disk *disk, unsigned int count, bool touch)
{
	struct pmv_sync_group *group = TAILQ_LAST(&disk->waiting, pmv_sync_groups);

	if (group && group->batch.count + count <= PMV_WRITEBACK_WORKS)
		return group;
	group = malloc(sizeof(*group));
	if (!group)
		return NULL;
	/* Its requests are filled in as they come. */
	memset(&group->batch.count, 0,
	       sizeof(group->batch) - offsetof(struct pmv_writeback_batch, count));
	group->batch.touch = touch;
	TAILQ_INSERT_TAIL(&disk->waiting, group, next);
	return group;
}

bool pmv_syncing_take(struct pmv_agent *agent, unsigned int first)
{
	struct pmv_writeback_batch *batch = agent->batch;
	struct pmv_syncing *syncing = &agent->syncing;
	uint64_t number = pmv_writeback_disk(batch, first);
	struct pmv_sync_group *group;
	struct pmv_sync_disk *disk;

	if (number == PMV_DISK_NONE) {
		atomic_store(&syncing->others_ns, pmv_clock_ns());
		return false;
	}
	disk = find(agent, number);
	group = disk ? find_group(disk, batch->count - first, batch->touch) : NULL;
	if (!group)
		return false;
	pmv_writeback_move(batch, first, &group->batch, &agent->regions);
	if (is_for_thread(disk))
		put_beside(disk);
	/* A call of the application may serve, while the agent's thread sleeps. */
	if (!disk->beside)
		pmv_agent_kick(agent);
	return true;
}

struct pmv_sync_disk *pmv_syncing_take_group(struct pmv_agent *agent)
{
	struct pmv_sync_disk *disk;

	pthread_mutex_lock(&agent->lock);
	TAILQ_FOREACH(disk, &agent->syncing.disks, next)
	{
		if (!disk->beside && take_group(disk))
			break;
	}
	if (disk) {
		TAILQ_REMOVE(&agent->syncing.disks, disk, next);
		TAILQ_INSERT_TAIL(&agent->syncing.disks, disk, next);
	}
	pthread_mutex_unlock(&agent->lock);
	return disk;
}

void pmv_syncing_carry_out(struct pmv_agent *agent, struct pmv_sync_disk *disk)
{
	pthread_mutex_lock(&agent->lock);
	carry_out(agent, disk);
	if (disk->beside)
		pthread_cond_signal(&disk->more);
	pthread_mutex_unlock(&agent->lock);
}

void pmv_syncing_all_beside(struct pmv_agent *agent, bool beside)
{
	struct pmv_sync_disk *disk;

	pthread_mutex_lock(&agent->lock);
	agent->syncing.all_beside = beside;
	TAILQ_FOREACH(disk, &agent->syncing.disks, next)
	{
		if (beside && !TAILQ_EMPTY(&disk->waiting))
			put_beside(disk);
	}
	pthread_mutex_unlock(&agent->lock);
}

bool pmv_syncing_waits(const struct pmv_syncing *syncing)
{
	const struct pmv_sync_disk *disk;

	if (!TAILQ_EMPTY(&syncing->done))
		return true;
	/* The stand-in leaves them to the agent's thread if no disk's thread can be started. */
	if (syncing->all_beside)
		return false;
	TAILQ_FOREACH(disk, &syncing->disks, next)
	{
		if (!disk->beside && !disk->synced && !TAILQ_EMPTY(&disk->waiting))
			return true;
	}
	return false;
}

static unsigned int count_all(const struct pmv_sync_groups *groups)
{
	const struct pmv_sync_group *group;
	unsigned int count = 0;

	TAILQ_FOREACH(group, groups, next)
	{
		count += group->batch.count;
	}
	return count;
}

unsigned int pmv_syncing_count(const struct pmv_syncing *syncing)
{
	unsigned int count = count_all(&syncing->done);
	const struct pmv_sync_disk *disk;

	TAILQ_FOREACH(disk, &syncing->disks, next)
	{
		count += count_all(&disk->waiting);
		if (disk->synced)
			count += disk->synced->batch.count;
	}
	return count;
}

struct pmv_writeback_batch *pmv_syncing_next(struct pmv_agent *agent)
{
	struct pmv_sync_group *group = TAILQ_FIRST(&agent->syncing.done);

	if (!group)
		return NULL;
	TAILQ_REMOVE(&agent->syncing.done, group, next);
	return &group->batch;
}

void pmv_syncing_free(struct pmv_writeback_batch *batch)
{
	free(pmv_container_of(batch, struct pmv_sync_group, batch));
}

/* remove_requests -- its data are not to come when its peer may have written others */
static void remove_requests(struct pmv_sync_disk *disk, const struct pmv_receiver *receiver)
{
	struct pmv_sync_group *group, *next;

	for (group = TAILQ_FIRST(&disk->waiting); group; group = next) {
		next = TAILQ_NEXT(group, next);
		pmv_writeback_remove(&group->batch, receiver);
		if (group->batch.count)
			continue;
		TAILQ_REMOVE(&disk->waiting, group, next);
		free(group);
	}
}

void pmv_syncing_forget(struct pmv_agent *agent, const struct pmv_receiver *receiver)
{
	struct pmv_sync_group *group;
	struct pmv_sync_disk *disk;

	TAILQ_FOREACH(group, &agent->syncing.done, next)
	pmv_writeback_drop(&group->batch, receiver);
	TAILQ_FOREACH(disk, &agent->syncing.disks, next)
	{
		if (disk->synced)
			pmv_writeback_drop(&disk->synced->batch, receiver);
		remove_requests(disk, receiver);
	}
}
