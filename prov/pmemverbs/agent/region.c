/* SPDX-License-Identifier: BSD-2-Clause */
/* region.c -- the memory that the agent makes durable; region.h has the rules */
#include "agent/region.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "memory/guard.h"

/* Pieces are sorted by start; those of several regions may overlap. */
struct pmv_piece {
	uintptr_t start;
	uintptr_t end;
	uintptr_t reach; /* the highest end of this piece and all before it */
	struct pmv_region *region;
	uint64_t offset;
	uint32_t id;
};

/*
 * How often a sync of the application's own mappings has failed in this process.  There the
 * kernel tells only whoever syncs first, whatever region the pages belong to.  So no region
 * that was registered before is trusted any more.
 */
static atomic_uint failures;
static pthread_mutex_t syncing = PTHREAD_MUTEX_INITIALIZER;

void pmv_regions_init(struct pmv_regions *regions)
{
	*regions = (struct pmv_regions){0};
	pthread_mutex_init(&regions->lock, NULL);
	pthread_cond_init(&regions->unused, NULL);
	pmv_chains_init(&regions->chains);
}

void pmv_regions_destroy(struct pmv_regions *regions)
{
	tdestroy(regions->tree, free);
	free(regions->pieces);
	pmv_chains_destroy(&regions->chains);
	pthread_cond_destroy(&regions->unused);
	pthread_mutex_destroy(&regions->lock);
}

/* first_behind -- index of the first piece that starts behind an address */
static size_t first_behind(const struct pmv_regions *regions, uintptr_t at)
{
	size_t low = 0, high = atomic_load(&regions->num_pieces);

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (regions->pieces[middle].start > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void update_reach(struct pmv_regions *regions, size_t from)
{
	uintptr_t reach = from ? regions->pieces[from - 1].reach : 0;

	for (size_t i = from; i < atomic_load(&regions->num_pieces); i++) {
		if (reach < regions->pieces[i].end)
			reach = regions->pieces[i].end;
		regions->pieces[i].reach = reach;
	}
}

static bool reserve_pieces(struct pmv_regions *regions, size_t more)
{
	size_t need = atomic_load(&regions->num_pieces) + more;
	struct pmv_piece *pieces = realloc(regions->pieces, (need + 1) * sizeof(*pieces));

	if (pieces)
		regions->pieces = pieces;
	return pieces;
}

static void insert_piece(struct pmv_regions *regions, struct pmv_region *region,
			 const struct iovec *iov, uint64_t offset)
{
	uintptr_t start = (uintptr_t) iov->iov_base;
	size_t at = first_behind(regions, start);
	size_t count = atomic_load(&regions->num_pieces);

	memmove(&regions->pieces[at + 1], &regions->pieces[at],
		(count - at) * sizeof(regions->pieces[0]));
	regions->pieces[at] = (struct pmv_piece){
		.start = start,
		.end = start + iov->iov_len,
		.region = region,
		.offset = offset,
		.id = ++regions->last_id,
	};
	atomic_store(&regions->num_pieces, count + 1);
	update_reach(regions, at);
}

/* add_pieces -- there is room for them; empty ones are left out */
static void add_pieces(struct pmv_regions *regions, struct pmv_region *region)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < region->attr.iov_count; offset += region->iov[i++].iov_len) {
		if (region->iov[i].iov_len)
			insert_piece(regions, region, &region->iov[i], offset);
	}
}

static void remove_pieces(struct pmv_regions *regions, const struct pmv_region *region)
{
	size_t left = 0;

	for (size_t i = 0; i < atomic_load(&regions->num_pieces); i++) {
		if (regions->pieces[i].region != region)
			regions->pieces[left++] = regions->pieces[i];
	}
	atomic_store(&regions->num_pieces, left);
	update_reach(regions, 0);
}

bool pmv_regions_find(struct pmv_regions *regions, struct iovec *rest, bool hold,
		      struct pmv_span *part)
{
	uintptr_t start = (uintptr_t) rest->iov_base;
	uintptr_t end = start + rest->iov_len < start ? UINTPTR_MAX : start + rest->iov_len;
	const struct pmv_piece *found = NULL;
	size_t behind;

	if (start == end || !atomic_load_explicit(&regions->num_pieces, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&regions->lock);
	behind = first_behind(regions, start);
	for (size_t i = behind; i-- && !found && regions->pieces[i].reach > start;) {
		if (regions->pieces[i].end > start)
			found = &regions->pieces[i];
	}
	if (!found && behind < atomic_load(&regions->num_pieces) &&
	    regions->pieces[behind].start < end) {
		found = &regions->pieces[behind];
		start = found->start;
	}
	if (found) {
		uintptr_t found_end = end < found->end ? end : found->end;

		*part = (struct pmv_span){
			.start = start,
			.len = found_end - start,
			.id = found->id,
			.persist = found->region->attr.persist,
			.region = found->region,
			.offset = found->offset + (start - found->start),
		};
		*rest = (struct iovec){(void *) found_end, end - found_end};
		found->region->users += hold;
	}
	pthread_mutex_unlock(&regions->lock);
	return found;
}

static uint64_t disk_of(const struct pmv_region_attr *attr)
{
	if (attr->persist != PMV_PAGE)
		return PMV_DISK_NONE;
	return attr->direct ? pmv_direct_disk(attr->direct) : pmv_files_disk(attr->files);
}

/* insert -- false: without memory, or where the key is known already */
static bool insert(struct pmv_regions *regions, struct pmv_region *region)
{
	bool own = region->attr.key == PMV_REGION_NO_KEY &&
		   !(region->attr.use & (PMV_REGION_REMOTE | PMV_REGION_READ));
	struct pmv_region **node;

	do {
		if (own)
			region->attr.key = --regions->last_own_key;
		node = tsearch(region, &regions->tree, pmv_key_compare);
	} while (own && node && *node != region);
	return node && *node == region;
}

struct pmv_region *pmv_region_add(struct pmv_regions *regions, const struct pmv_region_attr *attr)
{
	size_t iov_len = attr->iov_count * sizeof(*attr->iov);
	struct pmv_region *region = calloc(1, sizeof(*region) + iov_len);
	bool added;

	if (!region)
		return NULL;
	memcpy(region->iov, attr->iov, iov_len);
	region->attr = *attr;
	region->attr.iov = region->iov;
	region->failures = atomic_load(&failures);
	region->disk = disk_of(attr);
	pthread_mutex_init(&region->syncing, NULL);
	for (size_t i = 0; i < attr->iov_count; i++)
		region->len += attr->iov[i].iov_len;

	pthread_mutex_lock(&regions->lock);
	added = (!(attr->use & PMV_REGION_PMEM) || reserve_pieces(regions, attr->iov_count)) &&
		insert(regions, region);
	region->serial = ++regions->last_serial;
	if (added && (attr->use & PMV_REGION_PMEM))
		add_pieces(regions, region);
	pthread_mutex_unlock(&regions->lock);
	if (!added) {
		pthread_mutex_destroy(&region->syncing);
		free(region);
	}
	return added ? region : NULL;
}

/* await_unused -- the memory may be unmapped behind this, however long a sync of it takes; holds
 * the lock */
static void await_unused(struct pmv_regions *regions, const struct pmv_region *region)
{
	int64_t end = pmv_clock_ns() + PMV_REGION_PATIENCE_S * INT64_C(1000000000);
	const struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};

	/* Before it looks at `users`: whoever gives the last one back looks in the other order. */
	atomic_fetch_add(&regions->removing, 1);
	while (region->users) {
		if (pthread_cond_clockwait(&regions->unused, &regions->lock, CLOCK_MONOTONIC,
					   &until) != ETIMEDOUT)
			continue;
		PMV_WARN(MR,
			 "memory at %p can't be closed yet: it has been synced for %d seconds, "
			 "which does not end; look at its disk, or at the server of its file "
			 "system\n",
			 region->iov[0].iov_base, PMV_REGION_PATIENCE_S);
		break;
	}
	while (region->users)
		pthread_cond_wait(&regions->unused, &regions->lock);
	atomic_fetch_sub(&regions->removing, 1);
}

void pmv_region_remove(struct pmv_regions *regions, struct pmv_region *region)
{
	pthread_mutex_lock(&regions->lock);
	tdelete(region, &regions->tree, pmv_key_compare);
	if (regions->last == region)
		regions->last = NULL;
	if (region->attr.use & PMV_REGION_PMEM)
		remove_pieces(regions, region);
	await_unused(regions, region);
	pthread_mutex_unlock(&regions->lock);
	pthread_mutex_destroy(&region->syncing);
	free(region);
}

/* find -- by the core's key, or NULL; holds the lock */
static inline struct pmv_region *find(struct pmv_regions *regions, uint32_t key)
{
	struct pmv_region **node;

	if (!regions->last || regions->last->attr.key != key) {
		node = tfind(&key, &regions->tree, pmv_key_compare);
		regions->last = node ? *node : NULL;
	}
	return regions->last;
}

/* use -- with a reference; gives the lock back */
static inline struct pmv_region *use(struct pmv_regions *regions, struct pmv_region *region)
{
	if (region)
		region->users++;
	pthread_mutex_unlock(&regions->lock);
	return region;
}

struct pmv_region *pmv_region_get(struct pmv_regions *regions, uint32_t key, uint64_t addr,
				  uint64_t len, uint64_t *offset)
{
	struct pmv_region *region;

	pthread_mutex_lock(&regions->lock);
	region = find(regions, key);
	*offset = region ? addr - region->attr.start : 0;
	/* An address in front of the region gives an offset beyond its end. */
	if (region && (!(region->attr.use & PMV_REGION_REMOTE) || *offset > region->len ||
		       len > region->len - *offset))
		region = NULL;
	return use(regions, region);
}

struct pmv_region *pmv_region_find(struct pmv_regions *regions, uint32_t key)
{
	struct pmv_region *region;

	pthread_mutex_lock(&regions->lock);
	region = find(regions, key);
	if (region && !(region->attr.use & PMV_REGION_REMOTE))
		region = NULL;
	return use(regions, region);
}

struct pmv_region *pmv_region_hold(struct pmv_regions *regions, uint32_t key, uint64_t serial)
{
	struct pmv_region *region;

	pthread_mutex_lock(&regions->lock);
	region = find(regions, key);
	return use(regions, region && region->serial == serial ? region : NULL);
}

void pmv_region_tell_unused(struct pmv_regions *regions)
{
	pthread_mutex_lock(&regions->lock);
	pthread_cond_broadcast(&regions->unused);
	pthread_mutex_unlock(&regions->lock);
}

/* lose -- mark it as lost, and log that once; err: a negative errno, or 0 */
static void lose(struct pmv_region *region, enum pmv_loss loss, int err)
{
	static const char *const what[] = {
		[PMV_LOST_SYNC] = "pages could not be written back; check the medium, and register "
				  "it again",
		[PMV_LOST_UNLINKED] = "its file was unlinked, so nobody finds it after a power "
				      "failure; map one by a name that stays, and register that",
		[PMV_LOST_SHORTER] = "its file was truncated; extend it, and register it again",
		[PMV_LOST_FAULT] =
			"there was no memory behind a page of it (the file was truncated, its disk "
			"is full, or the medium is bad), and a page that is in no file is mapped "
			"there now; unmap it, see to the file, map it and register it again",
		[PMV_LOST_UNKNOWN] =
			"the kernel does not say whether its file still has a name and its length; "
			"see to the file system, or let seccomp allow statx, and register it again",
	};

	if (atomic_exchange(&region->lost, loss))
		return;
	PMV_WARN(MR,
		 "a region of %llu bytes at %p is lost, commits to it fail from here on: %s%s%s\n",
		 (unsigned long long) region->len, region->iov[0].iov_base,
		 err ? fi_strerror(-err) : "", err ? ": " : "", what[loss]);
}

bool pmv_region_was_lost(struct pmv_region *region)
{
	if (atomic_load(&region->lost))
		return true;
	if (pmv_guard_was_hit(region->attr.watch)) {
		lose(region, PMV_LOST_FAULT, 0);
		return true;
	}
	/* Memory of a file has no mapping whose errors others could take. */
	return region->attr.persist == PMV_PAGE && !region->attr.direct &&
	       !pmv_files_cover(region->attr.files) && region->failures != atomic_load(&failures);
}

/* apply -- call a function of flush.h for a range, in our own mappings where there are any */
static int apply(struct pmv_region *region, uint64_t offset, uint64_t len,
		 int (*call)(void *addr, size_t len))
{
	for (size_t part = 0; len; offset += part, len -= part) {
		uint64_t piece = len;
		void *at = pmv_region_piece(region, offset, &piece);
		void *own;
		int ret;

		part = piece;
		own = pmv_files_map(region->attr.files, at, &part);
		ret = call(own ? own : at, part);
		if (!ret)
			continue;
		if (!own)
			atomic_fetch_add(&failures, 1);
		lose(region, PMV_LOST_SYNC, ret);
		return ret;
	}
	return 0;
}

/* fault_in -- one byte of each page; others may write there meanwhile */
__attribute__((noinline, no_sanitize("thread"))) static void fault_in(uint8_t *at, uint64_t len,
								      bool writes)
{
	uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE), step;

	for (; len; at += step, len -= step) {
		if (writes)
			atomic_fetch_or((_Atomic uint8_t *) at, 0);
		else
			(void) *(volatile uint8_t *) at;
		step = page - ((uintptr_t) at & (page - 1));
		if (step > len)
			step = len;
	}
}

void pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
			 bool writes)
{
	/* Memory of a file is anonymous. */
	if (region->attr.persist != PMV_PAGE || region->attr.direct)
		return;
	for (uint64_t piece = len; len; offset += piece, len -= piece, piece = len) {
		uint8_t *at = pmv_region_piece(region, offset, &piece);

		fault_in(at, piece, writes);
	}
}

int pmv_region_touch(struct pmv_region *region, uint64_t offset, uint64_t len)
{
	/* What a device wrote to anonymous memory is there. */
	return region->attr.direct ? 0 : apply(region, offset, len, pmv_flush->touch);
}

/* Syncs */

/* What is known of all of a file: it was synced, or part of it can't be written. */
struct synced_file {
	struct pmv_file_part part; /* any part of it */
	int ret;
};

struct syncs {
	bool apart; /* each piece gets its own sync */
	size_t count;
	struct synced_file files[PMV_MAX_SYNCS];
};

/* A piece is contiguous in memory and in its file.  part: NULL where it needs its own sync. */
typedef void (*piece_fn)(struct syncs *syncs, struct pmv_region *region, uint64_t offset,
			 uint64_t len, const struct pmv_file_part *part);

/* each_piece -- of the ranges whose regions are not lost */
static void each_piece(struct syncs *syncs, const struct pmv_sync_range *ranges, size_t count,
		       piece_fn call)
{
	for (size_t i = 0; i < count; i++) {
		struct pmv_region *region = ranges[i].region;
		uint64_t offset = ranges[i].offset, len = ranges[i].len;

		for (size_t step = 0; len && !pmv_region_is_lost(region);
		     offset += step, len -= step) {
			uint64_t piece = len;
			void *at = pmv_region_piece(region, offset, &piece);
			struct pmv_file_part part;
			bool whole;

			step = piece;
			whole = pmv_files_find(region->attr.files, at, &step, &part);
			call(syncs, region, offset, step, whole ? &part : NULL);
		}
	}
}

static struct synced_file *find_synced(struct syncs *syncs, const struct pmv_file_part *part)
{
	for (size_t i = 0; i < syncs->count; i++) {
		if (syncs->files[i].part.dev == part->dev && syncs->files[i].part.ino == part->ino)
			return &syncs->files[i];
	}
	return NULL;
}

static void note_file(struct syncs *syncs, const struct pmv_file_part *part, int ret)
{
	if (syncs->count < PMV_MAX_SYNCS)
		syncs->files[syncs->count++] = (struct synced_file){*part, ret};
}

/*
 * fail -- pages can't be written.  The kernel may have dropped them, and nobody would hear of that
 * any more: ext4 tells of blocks that it can't map only whoever has begun to write.
 */
static void fail(struct syncs *syncs, struct pmv_region *region, const struct pmv_file_part *part,
		 int ret)
{
	lose(region, PMV_LOST_SYNC, ret);
	if (!find_synced(syncs, part))
		note_file(syncs, part, ret);
}

static void start(struct syncs *syncs, struct pmv_region *region, uint64_t offset, uint64_t len,
		  const struct pmv_file_part *part)
{
	int ret = part ? pmv_flush->start(part->fd, part->offset, len) : 0;

	(void) offset;
	/* Then the pages are still to be written. */
	if (ret == -ENOMEM)
		syncs->apart = true;
	else if (ret)
		fail(syncs, region, part, ret);
}

static void await(struct syncs *syncs, struct pmv_region *region, uint64_t offset, uint64_t len,
		  const struct pmv_file_part *part)
{
	int ret = part ? pmv_flush->await(part->fd, part->offset, len) : 0;

	(void) offset;
	if (ret)
		fail(syncs, region, part, ret);
}

/* sync_piece -- unless its file was synced after it was written */
static void sync_piece(struct syncs *syncs, struct pmv_region *region, uint64_t offset,
		       uint64_t len, const struct pmv_file_part *part)
{
	struct synced_file *known = part ? find_synced(syncs, part) : NULL;
	int ret;

	if (known && known->ret)
		lose(region, PMV_LOST_SYNC, known->ret);
	if (known && (known->ret || !syncs->apart))
		return;
	ret = apply(region, offset, len, pmv_flush->sync);
	if (part && !known)
		note_file(syncs, part, ret);
}

/* check_files -- do the files still exist to which the pages were synced? */
static void check_files(const struct pmv_sync_range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct pmv_region *region = ranges[i].region;
		enum pmv_file_state state;

		if (atomic_load(&region->lost))
			continue;
		state = pmv_files_state(region->attr.files);
		if (state != PMV_FILE_HERE)
			lose(region, (enum pmv_loss) state, state == PMV_FILE_UNKNOWN ? -errno : 0);
	}
}

static int by_serial(const void *one, const void *other)
{
	const struct pmv_sync_range *a = one, *b = other;

	return a->region->serial < b->region->serial ? -1 : a->region->serial > b->region->serial;
}

/*
 * lock -- The kernel tells of an error once.  Whoever syncs the same region next finds no error, so
 * it must not begin before this one has marked the region as lost.  Always in the same order.
 */
static void lock(const struct pmv_sync_range *ranges, size_t count, bool locked)
{
	int (*call)(pthread_mutex_t *) = locked ? pthread_mutex_lock : pthread_mutex_unlock;
	bool covered = true;

	for (size_t i = 0; i < count; i++)
		covered &= pmv_files_cover(ranges[i].region->attr.files);
	if (!covered)
		call(&syncing);
	for (size_t i = 0; i < count; i++) {
		if (!i || ranges[i].region != ranges[i - 1].region)
			call(&ranges[i].region->syncing);
	}
}

void pmv_regions_sync(struct pmv_sync_range *ranges, size_t count)
{
	struct syncs syncs = {.apart = count == 1};

	qsort(ranges, count, sizeof(*ranges), by_serial);
	lock(ranges, count, true);
	if (!syncs.apart)
		each_piece(&syncs, ranges, count, start);
	if (!syncs.apart)
		each_piece(&syncs, ranges, count, await);
	each_piece(&syncs, ranges, count, sync_piece);
	check_files(ranges, count);
	lock(ranges, count, false);
}
