/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_rig.h -- a pair whose core has RDMA FLUSH: a FLUSH is a READ to it */
#ifndef FLUSH_RIG_H
#define FLUSH_RIG_H

#include "pair.h"
#include "pmemrdma/pmemrdma_post.h"

/* What was posted, and what the core does with it. */
struct flush_rig {
	int doorbells;
	size_t accepts; /* of a list; one of three, as a whole */
	int atomic_writes;
	struct pmemrdma_request flushed[64];
	size_t count, shown; /* of those */
	unsigned ways;       /* that it has: enum pmemrdma_flush */
};

extern struct flush_rig flush_rig;

/* flush_rig_open -- DMP can be flushed; _fenceless: over a core that holds no request back */
struct pair *flush_rig_open(void);
struct pair *flush_rig_open_fenceless(void);
struct pair *flush_rig_open_with(const struct pair_options *options);

/* flush_rig_commit -- a write to DMP */
ssize_t flush_rig_commit(struct pair *pair, size_t offset, size_t len, int context);

/* flush_rig_expect -- the next FLUSH is of exactly these bytes */
void flush_rig_expect(struct pair *pair, size_t offset, size_t len);

/* flush_rig_expect_done -- all ends, and this one is told alone */
void flush_rig_expect_done(struct pair *pair, int context);

/*
 * flush_rig_drop_request -- a commit by the agent that has taken an earlier write is told to have
 * failed, on a connection that lives: as behind a malformed acknowledgement
 */
void flush_rig_drop_request(struct pair *pair);

#endif /* FLUSH_RIG_H */
