/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writeback.h -- writes back the ranges of requests, a slice at a time
 *
 * A batch has the requests of one round, or of a group (syncing.h).  Those of one connection are in
 * their order.  First the ranges of a request are joined, so that no byte is flushed twice for it.
 * Then every connection gets a slice of the round.  A request that needs more remembers how far it
 * has come.  A batch ends with one drain, and with one sync for pages of a region that are close
 * together: many small commits cost little more than one.
 *
 * Data of requests are stored when all ranges of the batch are flushed.  Before the agent stores
 * those of a fenced request, it drains what they must follow: once for the ranges of all requests,
 * and then for data that earlier requests of the connection have stored.  It need not drain for
 * data that they replace, so many appends of records and a tail take two drains, or syncs.
 *
 * Of a closed endpoint's requests nothing more is stored: its peer may write newer data, on another
 * connection, as soon as it is closed.  They are dropped under the lock of chains (free_list.h),
 * under which all data are stored.  So closing waits for one store, or one step, at most.
 *
 * No region is held from one round to the next, nor while others are synced.  So closing a region
 * waits for one slice at most; where data are to be stored, for the round's; while its disk is
 * synced, for what the other connections of this round sync there, too.  Its serial number tells it
 * from a later one that has got the same key.
 */
#ifndef PMV_WRITEBACK_H
#define PMV_WRITEBACK_H

#include "agent/work.h"

/* A connection's slice of a round: this many bytes of cache lines ... */
#define PMV_LINE_SLICE ((uint64_t) 256 << 10)
/* ... and of pages, with the gaps between pages that one sync writes. */
#define PMV_PAGE_SLICE ((uint64_t) 64 << 20)
/* A sync costs this many bytes of the slice, however little it writes. */
#define PMV_SYNC_COST ((uint64_t) 4 << 20)
/* The same in memory of a file, where gaps are written, too. */
#define PMV_DIRECT_COST PMV_BLOCK

/* A commit of a chain costs so much, as many small ranges do; large results cost their bytes. */
#define PMV_CHAIN_COST (PMV_LINE_SLICE / 16)

/* A batch has so many requests: as many as one mailbox has slots. */
#define PMV_WRITEBACK_WORKS PMV_SLOTS

/* What was done for peers.  Only the thread that carries the batch out changes it. */
struct pmv_writeback_counts {
	atomic_uint_fast64_t flushes; /* of ranges of cache lines */
	atomic_uint_fast64_t flushed_bytes;
	atomic_uint_fast64_t syncs; /* of contiguous pages */
	atomic_uint_fast64_t synced_bytes;
	atomic_uint_fast64_t stores; /* of data that came in requests */
	atomic_uint_fast64_t stored_bytes;
};

struct pmv_writeback_batch {
	struct pmv_work works[PMV_WRITEBACK_WORKS];
	unsigned int count;
	unsigned int num_syncs;
	bool undrained;
	bool flushed;                           /* ... among that are ranges of requests */
	bool scattered;                         /* ... and data of the connection besides: */
	bool touch;                             /* pages that a device wrote */
	struct pmv_extent stored;               /* last by the connection; len 0: nothing */
	struct pmv_extent syncs[PMV_MAX_SYNCS]; /* pages that one sync writes */
	struct pmv_writeback_counts counts;
};

#define PMV_WHOLE_SLICE ((struct pmv_slice){PMV_LINE_SLICE, PMV_PAGE_SLICE})

/* pmv_writeback_disk -- of all requests from the first one on; PMV_DISK_NONE: they have no pages */
uint64_t pmv_writeback_disk(const struct pmv_writeback_batch *batch, unsigned int first);

/* pmv_writeback_move -- those from the first one on to another batch, which has room for them */
void pmv_writeback_move(struct pmv_writeback_batch *batch, unsigned int first,
			struct pmv_writeback_batch *to, struct pmv_regions *regions);

/*
 * pmv_writeback_drop -- its endpoint is closed: nobody is told of its requests.  Under the lock of
 * chains they store nothing behind this.
 */
void pmv_writeback_drop(struct pmv_writeback_batch *batch, const struct pmv_receiver *receiver);

/* pmv_writeback_remove -- the same; they are not carried out either */
void pmv_writeback_remove(struct pmv_writeback_batch *batch, const struct pmv_receiver *receiver);

/* pmv_writeback_add_counts -- what was done for another batch */
void pmv_writeback_add_counts(struct pmv_writeback_counts *sum,
			      const struct pmv_writeback_counts *more);

/*
 * pmv_writeback_carry_out -- do a slice for each connection, of whose requests only the last may
 * need more.  Then the flushed ranges are durable, or their request has a fault.
 */
void pmv_writeback_carry_out(struct pmv_writeback_batch *batch, struct pmv_regions *regions,
			     struct pmv_slice whole);

#endif /* PMV_WRITEBACK_H */
