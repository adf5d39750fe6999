/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region.h -- the memory that an agent may be asked to make durable
 *
 * Regions that peers may write are found by the core's key; persistent ones also by address,
 * where messages are received.  Whoever uses a region holds a reference: until that is given
 * back the region is not removed, and its memory stays.
 */
#ifndef PMV_REGION_H
#define PMV_REGION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>

#include "agent/flush.h"
#include "agent/free_list.h"
#include "memory/direct.h"
#include "memory/disk.h"
#include "memory/file.h"
#include "memory/key.h"

/* What a region is for. */
enum pmv_region_use {
	PMV_REGION_REMOTE = 1 << 0, /* peers may write it */
	PMV_REGION_PMEM = 1 << 1,   /* registered with FI_PMEM */
	PMV_REGION_READ = 1 << 2,   /* peers may read it */
};

/* Why a region is lost.  Nobody can tell which of its bytes are. */
enum pmv_loss {
	PMV_NOT_LOST,
	PMV_LOST_UNLINKED = PMV_FILE_UNLINKED, /* its file has no name any more */
	PMV_LOST_SHORTER = PMV_FILE_SHORTER,   /* its file was truncated */
	PMV_LOST_UNKNOWN = PMV_FILE_UNKNOWN,   /* the state of its file is unknown */
	PMV_LOST_SYNC,                         /* the kernel could not write its pages back */
	PMV_LOST_FAULT,                        /* there was no memory behind one of its pages */
};

/* Peers can't reach it, and the core has no key for it: it gets one that no other region has. */
#define PMV_REGION_NO_KEY UINT32_MAX

struct pmv_count;
struct pmv_watch;

/* What a region consists of.  Peers may ask for it as soon as it is added. */
struct pmv_region_attr {
	uint32_t key;
	enum pmv_persist persist;
	unsigned use;   /* enum pmv_region_use */
	uint64_t start; /* the address that peers know the first byte by */
	const struct iovec *iov;
	size_t iov_count;
	const struct pmv_files *files; /* ours, or NULL: file.h; they outlive the region ... */
	const struct pmv_watch *watch; /* ... as does this, or NULL: guard.h */
	struct pmv_direct *direct;     /* it is memory of this file, or NULL; the same */
	bool needs_agent;              /* only the agent makes writes durable here */
};

struct pmv_region {
	struct pmv_region_attr attr; /* first its key: what the tree is searched for */
	uint64_t len;
	atomic_int users;
	uint64_t serial;                         /* unique among all regions that there ever were */
	uint64_t disk;                           /* to which its pages are synced: disk.h */
	pthread_mutex_t syncing;                 /* one at a time */
	atomic_int lost;                         /* enum pmv_loss */
	unsigned failures;                       /* the count in region.c when it was registered */
	struct pmv_count *_Atomic remote_writes; /* bound to it; or NULL */
	struct iovec iov[];
};

struct pmv_piece;

struct pmv_regions {
	pthread_mutex_t lock;
	pthread_cond_t unused; /* a region has lost its last user ... */
	atomic_uint removing;  /* ... for which so many wait */
	void *tree;
	struct pmv_region *last;  /* that was looked for; or NULL */
	struct pmv_piece *pieces; /* of persistent regions, by address */
	atomic_size_t num_pieces;
	uint32_t last_id;
	uint32_t last_own_key; /* that a region got for want of a core's */
	uint64_t last_serial;
	struct pmv_chains chains;  /* that use them ... */
	atomic_uint large_results; /* ... and memories for what these read: large_results.h */
};

/* Contiguous persistent memory in one region. */
struct pmv_span {
	uintptr_t start;
	uint64_t len;
	uint32_t id; /* of the piece, and never of another one */
	enum pmv_persist persist;
	struct pmv_region *region;
	uint64_t offset; /* in the region */
};

void pmv_regions_init(struct pmv_regions *regions);
void pmv_regions_destroy(struct pmv_regions *regions);

/* pmv_region_add -- NULL: without memory, or where the key is known already */
struct pmv_region *pmv_region_add(struct pmv_regions *regions, const struct pmv_region_attr *attr);

/* So long a sync is waited for before that is said. */
#define PMV_REGION_PATIENCE_S 5

/* pmv_region_remove -- waits until nobody uses it, and frees it */
void pmv_region_remove(struct pmv_regions *regions, struct pmv_region *region);

/* pmv_region_get -- that contains all of a range and that peers may write, with a reference */
struct pmv_region *pmv_region_get(struct pmv_regions *regions, uint32_t key, uint64_t addr,
				  uint64_t len, uint64_t *offset);

/* pmv_region_find -- the same of a key alone; or NULL */
struct pmv_region *pmv_region_find(struct pmv_regions *regions, uint32_t key);

/* pmv_region_hold -- the same, if a region that was found before still exists */
struct pmv_region *pmv_region_hold(struct pmv_regions *regions, uint32_t key, uint64_t serial);

/* pmv_region_tell_unused -- pmv_region_put: to those who wait until they can remove a region */
void pmv_region_tell_unused(struct pmv_regions *regions);

/* pmv_region_put -- give a reference back */
static inline void pmv_region_put(struct pmv_regions *regions, struct pmv_region *region)
{
	/* Behind this the region may be gone. */
	if (atomic_fetch_sub(&region->users, 1) == 1 && atomic_load(&regions->removing))
		pmv_region_tell_unused(regions);
}

/*
 * pmv_regions_find -- the first persistent part of `rest`, which becomes what is behind it;
 * false: there is none.  hold: take a reference to its region.
 */
bool pmv_regions_find(struct pmv_regions *regions, struct iovec *rest, bool hold,
		      struct pmv_span *part);

/* pmv_region_piece -- at an offset.  *len: at most this much; then how much is contiguous. */
static inline void *pmv_region_piece(const struct pmv_region *region, uint64_t offset,
				     uint64_t *len)
{
	size_t i = 0;

	while (i + 1 < region->attr.iov_count && offset >= region->iov[i].iov_len)
		offset -= region->iov[i++].iov_len;
	if (*len > region->iov[i].iov_len - offset)
		*len = region->iov[i].iov_len - offset;
	return (char *) region->iov[i].iov_base + offset;
}

/* pmv_region_store -- whatever memory it is; the caller holds the region, and makes it durable */
static inline void pmv_region_store(struct pmv_region *region, uint64_t offset, uint64_t len,
				    const uint8_t *data)
{
	for (uint64_t piece = len; len; offset += piece, len -= piece, piece = len) {
		void *at = pmv_region_piece(region, offset, &piece);

		if (region->attr.persist == PMV_PAGE)
			memcpy(at, data, piece);
		else
			pmv_flush->store(at, data, piece);
		data += piece;
	}
}

/*
 * pmv_region_fault_in -- whoever uses a range of pages soon waits for no disk then, unless they are
 * evicted in between.  writes: it will store there.
 */
void pmv_region_fault_in(const struct pmv_region *region, uint64_t offset, uint64_t len,
			 bool writes);

/* pmv_region_touch -- flush.h; if it fails the region is lost */
int pmv_region_touch(struct pmv_region *region, uint64_t offset, uint64_t len);

/* The most ranges that are synced together. */
#define PMV_MAX_SYNCS 64

/* A range to sync, of a region that the caller holds. */
struct pmv_sync_range {
	struct pmv_region *region;
	uint64_t offset;
	uint64_t len;
};

/*
 * pmv_regions_sync -- all ranges, of regions of one disk, together: they are written side by side,
 * and a file is flushed once, if one flush does for all of it.  Regions for which that fails are
 * lost.
 */
void pmv_regions_sync(struct pmv_sync_range *ranges, size_t count);

/*
 * pmv_region_is_bad -- its file has blocks that were to be written and are not.  No commit to it
 * may succeed before they are: each tries.
 */
static inline bool pmv_region_is_bad(const struct pmv_region *region)
{
	return region->attr.direct && pmv_direct_is_bad(region->attr.direct);
}

/* pmv_region_is_lost -- writes to it may not be durable, so no commit to it may succeed any more */
bool pmv_region_was_lost(struct pmv_region *region);

static inline bool pmv_region_is_lost(struct pmv_region *region)
{
	/* Only where a page may be missing, or is synced, can it have happened since. */
	return region->attr.watch || region->attr.persist == PMV_PAGE ? pmv_region_was_lost(region)
								      : atomic_load(&region->lost);
}

#endif /* PMV_REGION_H */
