/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rma_event.h -- the application is told of what peers write here (FI_RMA_EVENT)
 *
 * Requests say of what (flush_message.h).  Counters count at once: the endpoint's, and
 * those of the regions.  Entries of the completion queue are all alike, so those for which
 * it has no room are only counted, and follow when the application has read some: none is
 * lost, no memory is needed, and nobody waits.
 *
 * The agent's lock protects all of it.
 */
#ifndef PMV_RMA_EVENT_H
#define PMV_RMA_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/flush_message.h"

struct pmv_count;
struct pmv_queue;
struct pmv_regions;
struct pmv_unread;

/* The kinds of entries. */
enum pmv_rma_event_entry {
	PMV_RMA_EVENT_WRITE,
	PMV_RMA_EVENT_ATOMIC,
	PMV_RMA_EVENT_FAILED, /* added to one of these: it is an error */
	PMV_RMA_EVENT_ENTRIES = 2 * PMV_RMA_EVENT_FAILED,
};

/* Of an endpoint. */
struct pmv_rma_events {
	bool wanted;               /* it was opened with FI_RMA_EVENT */
	bool has_pending;          /* some of `pending` is not 0 */
	struct pmv_count *count;   /* bound with FI_REMOTE_WRITE; or NULL */
	struct pmv_queue *queue;   /* NULL: it gets no entries */
	struct pmv_unread *unread; /* of the connection: notices count, too */
	uint64_t pending[PMV_RMA_EVENT_ENTRIES];
};

/* pmv_rma_event_tell -- a request was served; all of it is durable, unless there is a fault */
void pmv_rma_event_tell(struct pmv_rma_events *events, struct pmv_regions *regions,
			const struct pmv_flush_message *request, enum pmv_fault fault);

/*
 * pmv_rma_event_post -- put the entries that wait into the queue, as far as it has room.
 * True: there was room for some.
 */
bool pmv_rma_event_post(struct pmv_rma_events *events);

/* pmv_rma_event_may_post -- is there room for an entry that waits? */
bool pmv_rma_event_may_post(const struct pmv_rma_events *events);

#endif /* PMV_RMA_EVENT_H */
