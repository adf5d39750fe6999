/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lost_writes.h -- a tracker of writes that may be lost with a connection
 *
 * A commit covers what was written before it on its connection.  FI_EP_RDM replaces a lost
 * connection without telling anybody.  What was written to a region on the lost one, and not
 * committed, may never have arrived, or may still be in the target's caches, even if it had
 * completed.  So the next commit to that region has to fail once, on whatever connection.
 *
 * Each write gets a number when it is added, after it was posted.  A commit takes the
 * current number just before it is posted, and covers the writes up to that number.
 *
 * Now and then regions whose writes are all committed are forgotten.  If too many are left
 * writes to further regions are not tracked, and after a loss no commit can be proven.
 *
 * All functions do their own locking.
 */
#ifndef PMV_LOST_WRITES_H
#define PMV_LOST_WRITES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define PMV_LOST_WRITES_ADDR_SIZE 128

struct pmv_lost_writes_region;

/* Calls that found no connection: rdm/rdm_reach.h, which locks it. */
struct pmv_lost_writes_wait {
	int64_t since_ms; /* 0: none has */
	int64_t asked_ms; /* the last call */
	bool resumed;     /* after a pause that was too long */
};

/* The writes to one peer. */
struct pmv_lost_writes {
	SLIST_ENTRY(pmv_lost_writes) next;
	pthread_mutex_t lock;
	void *tree; /* of regions, by key */
	struct pmv_lost_writes_region *last;
	LIST_HEAD(, pmv_lost_writes_region) regions; /* all of them */
	size_t num_regions;
	size_t sweep_at; /* at this number of regions, the committed ones are forgotten */
	atomic_uint_fast64_t number; /* of the last write */
	atomic_uint_fast64_t losses; /* how many connections were lost */
	atomic_uint_fast64_t silent; /* the last one whose peer was given up, counted so */
	bool overflown;              /* not all writes are tracked */
	bool forgetful;              /* nor are all lost ones: no commit can be proven any more */
	struct pmv_lost_writes_wait wait;
	size_t addrlen;
	unsigned char addr[PMV_LOST_WRITES_ADDR_SIZE];
};

/* The trackers of one endpoint, one for each peer. */
struct pmv_lost_writes_list {
	pthread_mutex_t lock;
	SLIST_HEAD(, pmv_lost_writes) trackers;
	struct pmv_lost_writes nobody; /* for all peers that there was no memory for */
};

void pmv_lost_writes_list_init(struct pmv_lost_writes_list *list);
void pmv_lost_writes_list_destroy(struct pmv_lost_writes_list *list);

/* pmv_lost_writes_list_get -- the tracker for the peer with this address; it lives as the list */
struct pmv_lost_writes *pmv_lost_writes_list_get(struct pmv_lost_writes_list *list,
						 const void *addr, size_t addrlen);

/* At most this many regions with uncommitted writes are tracked for a peer. */
#define PMV_LOST_WRITES_REGIONS 65536

/* pmv_lost_writes_add -- a write that does not commit by itself was posted */
void pmv_lost_writes_add(struct pmv_lost_writes *tracker, uint32_t key);

/* pmv_lost_writes_number -- the number of the last write, for a commit to take */
static inline uint64_t pmv_lost_writes_number(struct pmv_lost_writes *tracker)
{
	return atomic_load(&tracker->number);
}

/* pmv_lost_writes_committed -- a commit that took this number has completed */
void pmv_lost_writes_committed(struct pmv_lost_writes *tracker, uint32_t key, uint64_t number);

/*
 * pmv_lost_writes_disconnected -- the connection is lost
 * pmv_lost_writes_losses -- how many were lost; the same number: the same connection
 */
void pmv_lost_writes_disconnected(struct pmv_lost_writes *tracker);
static inline uint64_t pmv_lost_writes_losses(const struct pmv_lost_writes *tracker)
{
	return atomic_load(&tracker->losses);
}

/* All losses of the process. */
extern atomic_uint_fast64_t pmv_lost_writes_all_losses;

/*
 * pmv_lost_writes_given_up -- the connection is about to be lost, since the peer is silent
 * pmv_lost_writes_was_given_up -- was that the end of the one that was there after so many losses?
 */
void pmv_lost_writes_given_up(struct pmv_lost_writes *tracker);
static inline bool pmv_lost_writes_was_given_up(const struct pmv_lost_writes *tracker,
						uint64_t losses)
{
	return atomic_load(&tracker->silent) == losses + 1;
}

/*
 * pmv_lost_writes_may_commit -- may these regions, or with `all` all regions, be committed?
 * False: writes that the commit would cover were lost with an earlier connection, which is
 * said once; or it is no longer known which were lost, which is said every time.
 * pmv_lost_writes_has_lost -- would it say no?  It still will.
 */
bool pmv_lost_writes_has_lost(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count);
bool pmv_lost_writes_may_commit(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count,
				bool all);

#endif /* PMV_LOST_WRITES_H */
