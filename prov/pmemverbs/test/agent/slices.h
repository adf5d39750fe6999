/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slices.h -- a target with a region of many slices, of which a table counts what is written back,
 * and with a second connection
 */
#ifndef SLICES_H
#define SLICES_H

#include "agent/writeback.h"
#include "test/support/pair.h"

#define SLICES 8
#define BIG_LEN (SLICES * PMV_LINE_SLICE)
#define BIG_KEY 5

struct shared {
	struct pair *pair;
	struct pmv_domain *domain;
	struct pmv_region *region;
	struct pmv_ep *other;
	uint64_t told; /* over the second connection */
};

/* What was written back in all. */
struct written_back {
	uint64_t flushed;
	uint64_t most; /* in one call */
	unsigned int drains;
	unsigned int syncs;
	uint64_t synced;
	int (*on_sync)(void);
	void (*_Atomic on_flush)(void);
};

extern struct written_back done;

/* add_big -- a region of that length; nothing in here touches it */
struct pmv_region *add_big(struct shared *shared, enum pmv_persist persist, size_t len);
struct shared *share(enum pmv_persist persist, size_t len, const struct pair_options *options);
void end_sharing(struct shared *shared);

/* ask_at -- the request with that number of a connection */
void ask_at(struct pmv_mailbox *mailbox, struct pmv_flush_message *message, uint64_t number);
/* ask -- the next request of the second connection */
void ask(struct shared *shared, struct pmv_flush_message *message);
void ask_for(struct shared *shared, uint64_t offset, uint64_t len);
/* tell_of -- the next one of the first connection, twenty times the same range */
void tell_of(struct shared *shared, uint64_t offset, uint64_t len);

#endif
