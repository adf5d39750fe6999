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
 * No region is held from one slice to the next, so closing a region waits for one slice at
 * most; while its disk is synced, for what the other connections of this round sync there, too. Its
 * serial number tells it from a later one that has got the same key.
 */
#ifndef PMV_WRITEBACK_H
#define PMV_WRITEBACK_H

#include "agent/flush_message.h"
#include "agent/region.h"

struct pmv_large_results;
struct pmv_receiver;

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

#define PMV_WRITEBACK_WORKS 64

/* A part of a region that is to become durable. */
struct pmv_extent {
	uint32_t key;
	enum pmv_persist persist;
	bool direct; /* memory of a file: direct.h */
	uint64_t serial;
	uint64_t disk; /* disk.h */
	uint64_t offset;
	uint64_t len;
};

/* A request on its way from the mailbox to its acknowledgement. */
struct pmv_work {
	struct pmv_receiver *receiver; /* under the agent's lock; NULL: its endpoint is closed */
	uint64_t source;               /* the mailbox's number, also when that is closed */
	uint64_t faulted; /* the last message with a fault that was concluded before this round */
	size_t room;      /* of more */
	/* 0 when it begins: */
	bool malformed;
	bool ended;          /* all its ranges are flushed, or noted for a sync */
	atomic_bool dropped; /* its endpoint was closed meanwhile: it stores nothing any more */
	enum pmv_fault fault;
	uint64_t syncs; /* bit for each sync of the batch with pages of this request */
	uint64_t disk;  /* of all its pages: disk.h */
	/* The ranges to make durable, and how far that has come. */
	size_t count;
	size_t num_left; /* the last ones are not: a chain has stored them and commits them not */
	size_t at;
	uint64_t done;           /* bytes of that one */
	struct pmv_extent *more; /* malloc'ed, where there are too many for ... */
	struct pmv_extent named[PMV_MAX_RANGES];
	/* The range to store data in, after all that. */
	struct pmv_extent target;
	/* Of a chain: it has them instead. */
	struct pmv_reply *reply;         /* malloc'ed */
	struct pmv_large_results *large; /* or NULL */
	bool chain_commits;
	uint64_t chain_cost; /* of a slice */
	bool chain_leaves;   /* it may store what it does not commit */
	union {
		struct pmv_message message;
		struct pmv_flush_message request;
	};
};

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

/* What is left of a connection's slice of a round. */
struct pmv_slice {
	uint64_t lines;
	uint64_t pages;
};

#define PMV_WHOLE_SLICE ((struct pmv_slice){PMV_LINE_SLICE, PMV_PAGE_SLICE})

/* pmv_writeback_begin -- the request is there; it names nothing yet */
void pmv_writeback_begin(struct pmv_work *work, struct pmv_receiver *receiver);
void pmv_writeback_free(struct pmv_work *work);

/* pmv_writeback_name -- add a part of a region, which the caller holds; false: no memory */
bool pmv_writeback_name(struct pmv_work *work, struct pmv_region *region, uint64_t offset,
			uint64_t len);

/* pmv_writeback_aim -- at the range to store data in; the caller holds the region */
void pmv_writeback_aim(struct pmv_work *work, struct pmv_region *region, uint64_t offset,
		       uint64_t len);

/* pmv_writeback_left -- the first one of those that a chain has stored and not committed */
const struct pmv_extent *pmv_writeback_left(const struct pmv_work *work);

/* pmv_writeback_join -- after all were added: join ranges that overlap or touch */
void pmv_writeback_join_several(struct pmv_work *work);

static inline void pmv_writeback_join(struct pmv_work *work)
{
	if (work->count > 1)
		pmv_writeback_join_several(work);
}

/* pmv_writeback_charge -- take from a slice what the request will take, at most */
void pmv_writeback_charge(const struct pmv_work *work, struct pmv_slice *slice);

/* pmv_writeback_disk -- of all requests from the first one on; PMV_DISK_NONE: they have no pages */
uint64_t pmv_writeback_disk(const struct pmv_writeback_batch *batch, unsigned int first);

/* pmv_writeback_move -- those from the first one on to another batch, which has room for them */
void pmv_writeback_move(struct pmv_writeback_batch *batch, unsigned int first,
			struct pmv_writeback_batch *to);

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
