/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lost_writes.h -- what an endpoint of FI_EP_RDM has written to a peer and nothing has
 * committed
 *
 * A commit covers what was written before it on its connection.  RxM replaces a
 * connection that was lost, and tells nobody.  What was written to a region then,
 * and is not covered by a commit that has completed, may never have arrived, or
 * may still be in the caches there: so the next commit to that region, on whatever
 * connection, has to fail, once.  It does not matter whether a write completed: a
 * completion proves nothing, or it would not be noted here.
 *
 * Writes are numbered as they are noted, after they were posted.  A commit takes
 * down the number when it is about to be posted, and covers those up to it.
 *
 * Regions with nothing to tell of are forgotten now and then.  If that leaves too
 * many, because nobody ever commits, new ones are not noted; after a loss no commit
 * can be proven then any more.
 *
 * All calls lock for themselves.
 */
#ifndef PMV_LOST_WRITES_H
#define PMV_LOST_WRITES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMV_LOST_WRITES_ADDR_SIZE 128

struct pmv_lost_writes_region;

struct pmv_lost_writes {
	struct pmv_lost_writes *next;
	pthread_mutex_t lock;
	void *tree; /* of regions, by key */
	struct pmv_lost_writes_region *last;
	struct pmv_lost_writes_region *regions; /* all of them */
	size_t num_regions;
	size_t sweep_at; /* with so many it is time to forget some */
	uint64_t writes; /* so many were noted */
	uint64_t losses; /* of connections */
	bool overflown;  /* not all writes are noted */
	bool forgetful;  /* nor were those that went down: no commit can be proven any more */
	size_t addrlen;
	unsigned char addr[PMV_LOST_WRITES_ADDR_SIZE];
};

/* Those of one endpoint. */
struct pmv_lost_writes_list {
	pthread_mutex_t lock;
	struct pmv_lost_writes *list;
	struct pmv_lost_writes nobody; /* stands for those that there was no memory for */
};

void pmv_lost_writes_list_init(struct pmv_lost_writes_list *peers);
void pmv_lost_writes_list_destroy(struct pmv_lost_writes_list *peers);

/* pmv_lost_writes_list_get -- the peer with this address, for as long as there are peers */
struct pmv_lost_writes *pmv_lost_writes_list_get(struct pmv_lost_writes_list *peers,
						 const void *addr, size_t addrlen);

/* So many regions with writes that nothing has committed are remembered. */
#define PMV_LOST_WRITES_REGIONS 65536

/* pmv_lost_writes_wrote -- a write was posted that does not commit by itself */
void pmv_lost_writes_wrote(struct pmv_lost_writes *peer, uint32_t key);

/* pmv_lost_writes_writes -- the number that a commit takes down */
uint64_t pmv_lost_writes_writes(struct pmv_lost_writes *peer);

/* pmv_lost_writes_committed -- a commit to the region has completed, on the connection of now */
void pmv_lost_writes_committed(struct pmv_lost_writes *peer, uint32_t key, uint64_t writes);

/* pmv_lost_writes_lost -- so was the connection */
void pmv_lost_writes_lost(struct pmv_lost_writes *peer);

/* pmv_lost_writes_losses -- so many were; the same number: the same connection */
uint64_t pmv_lost_writes_losses(struct pmv_lost_writes *peer);

/* pmv_lost_writes_has_lost -- would pmv_lost_writes_may_commit say no?  It still will. */
bool pmv_lost_writes_has_lost(struct pmv_lost_writes *peer, const uint32_t *keys, size_t count);

/*
 * pmv_lost_writes_may_commit -- to these regions, and with all set to all of them.  False:
 * writes that the commit would cover went down with an earlier connection, which
 * is told once; or it was forgotten which, which is told always.
 */
bool pmv_lost_writes_may_commit(struct pmv_lost_writes *peer, const uint32_t *keys, size_t count,
				bool all);

#endif /* PMV_LOST_WRITES_H */
