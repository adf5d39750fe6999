/* SPDX-License-Identifier: BSD-2-Clause */
/* ordering.c -- what is remembered of writes; initiator.h has the rules */
#include "commit/ordering.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/setting.h"

bool pmv_ordering_attr(const struct pmv_initiator *ini, uint64_t key, struct pmv_attr *attr)
{
	if (!ini->keyed || ini->plain_peer || !pmv_key_unpack(key, attr))
		return false;
	attr->relaxed |= pmv_setting.relaxed;
	attr->flushable &= ini->flushes;
	attr->atomic_write &= ini->atomic_writes;
	return true;
}

ssize_t pmv_ordering_check_keys(const struct pmv_initiator *ini, const struct fi_rma_iov *to,
				size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (pmv_initiator_fits(ini, to[i].key))
			continue;
		PMV_WARN(EP_DATA,
			 "refused: the key is of an earlier life of the target, or of another "
			 "domain than the connection's; exchange keys again\n");
		return -FI_EKEYREJECTED;
	}
	return 0;
}

/* note_unordered -- nothing ever proves anything of data that can't be read back */
static unsigned note_unordered(const struct pmv_attr *attr)
{
	return PMV_NOTE_AGENT | (attr->readable ? PMV_NOTE_UNORDERED : PMV_NOTE_UNREADABLE);
}

unsigned pmv_ordering_note(const struct pmv_initiator *ini, const struct pmv_attr *attr)
{
	unsigned notes = attr->events * PMV_NOTE_EVENT;

	switch (pmv_method_of_write(attr, ini->engine->engine->transport)) {
	case PMV_METHOD_AGENT:
		return notes | (attr->relaxed ? note_unordered(attr) : PMV_NOTE_AGENT);
	case PMV_METHOD_READ:
		if (pmv_method_orders_by_flush(attr))
			notes |= PMV_NOTE_ORDERED;
		/* Once that flag is set it stays, and there is nothing to count for it. */
		if (!atomic_load_explicit(&ini->ordering.wrote_flush, memory_order_relaxed))
			notes |= PMV_NOTE_FLUSH;
		return notes;
	case PMV_METHOD_WRITE:
		/* Durable, but a notice may pass the data: a fence has them read back first. */
		return attr->relaxed ? notes | note_unordered(attr) : notes;
	case PMV_METHOD_FLUSH:
	case PMV_METHOD_REFUSED:
		break;
	}
	return notes;
}

/* plain_method -- the method of a commit without a fence, if nothing else has to be asked */
static enum pmv_method plain_method(const struct pmv_initiator *ini, const struct pmv_attr *attr)
{
	enum pmv_method method = pmv_method_of_write(attr, ini->engine->engine->transport);

	if (method == PMV_METHOD_AGENT && pmv_method_may_flush(attr))
		method = PMV_METHOD_FLUSH;
	if (!attr->writable || attr->events || attr->relaxed ||
	    (method == PMV_METHOD_READ && !attr->readable) ||
	    (method == PMV_METHOD_AGENT && !ini->mailbox->link.peer.agent))
		return PMV_METHOD_REFUSED;
	return method;
}

unsigned pmv_ordering_learn_key(struct pmv_initiator *ini, uint64_t key)
{
	enum pmv_method method;
	struct pmv_attr attr;
	unsigned known;

	if (!pmv_initiator_fits(ini, key))
		return PMV_NOTE_MISFIT;
	if (!pmv_ordering_attr(ini, key, &attr))
		return 0;
	method = plain_method(ini, &attr);
	known = pmv_ordering_note(ini, &attr) | PMV_NOTE_METHOD * method |
		PMV_NOTE_PMEM * attr.pmem;
	if (pmv_method_in_place(method, &attr) &&
	    pmv_engine_can(ini->engine->engine, PMV_ENGINE_DELIVER))
		known |= PMV_NOTE_DELIVERED;
	/* After the first flush that is another answer. */
	if (!(known & PMV_NOTE_FLUSH))
		atomic_store_explicit(&ini->ordering.known, (key & ~(uint64_t) UINT32_MAX) | known,
				      memory_order_relaxed);
	return known;
}

static inline void count_posting(struct pmv_ordering *ordering, unsigned notes, int change)
{
	if (notes & PMV_NOTE_AGENT)
		atomic_fetch_add(&ordering->posting_agent, change);
	if (notes & PMV_NOTE_FLUSH)
		atomic_fetch_add(&ordering->posting_flush, change);
	if (notes & PMV_NOTE_ORDERED)
		atomic_fetch_add(&ordering->posting_ordered, change);
}

/* is_recorded -- without an agent, and without RDMA FLUSH, no commit there succeeds anyway */
static bool is_recorded(const struct pmv_initiator *ini)
{
	return ini->mailbox->link.peer.agent || ini->flushes;
}

void pmv_ordering_dirty(struct pmv_initiator *ini, unsigned notes, const struct fi_rma_iov *at)
{
	struct pmv_ordering *ordering = &ini->ordering;

	if (!at->len)
		return;
	if (notes & PMV_NOTE_UNREADABLE) {
		atomic_store(&ordering->wrote_unreadable, true);
		return;
	}
	atomic_store(&ordering->wrote_agent, true);
	if (notes & PMV_NOTE_UNORDERED)
		atomic_store(&ordering->wrote_unordered, true);
	if (is_recorded(ini))
		pmv_dirty_add(&ini->dirty, (uint32_t) pmv_key_core(at->key), at->addr, at->len);
}

/*
 * record -- a range is recorded before the operation is posted, and once more after that if a
 * request took ranges while it was being posted: that request may have told the agent of it too
 * early.  Both post under the core's lock.  So who is told of the range before the operation is
 * posted has begun a new epoch where that is seen here.
 */
static unsigned record(struct pmv_initiator *ini, unsigned notes, const struct fi_rma_iov *at,
		       bool locked)
{
	unsigned epoch;

	if (!locked)
		pthread_mutex_lock(&ini->lock);
	pmv_ordering_dirty(ini, notes, at);
	epoch = atomic_load(&ini->ordering.dirty_epoch);
	if (!locked)
		pthread_mutex_unlock(&ini->lock);
	return epoch;
}

unsigned int pmv_ordering_take_dirty(struct pmv_initiator *ini, uint32_t key, bool all,
				     struct pmv_range *ranges)
{
	unsigned int count = pmv_dirty_take(&ini->dirty, key, all, ranges);

	if (!atomic_load(&ini->ordering.posting_agent))
		return count;
	for (unsigned int i = 0; i < count; i++)
		pmv_dirty_add(&ini->dirty, (uint32_t) ranges[i].key, ranges[i].addr, ranges[i].len);
	return count;
}

/* to_record -- of these notes, what is to be remembered of the operation being posted */
static inline unsigned to_record(const struct pmv_recorded *recorded)
{
	return recorded->own_request ? recorded->notes & ~PMV_NOTE_AGENT : recorded->notes;
}

void pmv_ordering_begin_recording(struct pmv_initiator *ini, struct pmv_recorded *recorded,
				  const struct fi_rma_iov *at, bool locked)
{
	unsigned notes = to_record(recorded);

	recorded->dirty = false;
	if (!notes)
		return;
	count_posting(&ini->ordering, notes, 1);
	if (!(notes & PMV_NOTE_AGENT) || !is_recorded(ini))
		return;
	recorded->dirty = true;
	recorded->dirty_epoch = record(ini, notes, at, locked);
}

void pmv_ordering_end_recording(struct pmv_initiator *ini, const struct pmv_recorded *recorded,
				const struct fi_rma_iov *at, bool locked, bool posted, bool flushed)
{
	struct pmv_ordering *ordering = &ini->ordering;
	unsigned notes = to_record(recorded);

	if (posted && at->len && ini->keyed && pmv_key_is_ours(at->key))
		pmv_ordering_set_place(ini, at->key, at->addr, !recorded->notes && !ini->hooks);
	if (!notes)
		return;
	/* Without an agent this is the first time. */
	if (posted && (notes & PMV_NOTE_AGENT) &&
	    (!recorded->dirty || recorded->dirty_epoch != atomic_load(&ordering->dirty_epoch)))
		record(ini, notes, at, locked);
	if (posted && (notes & PMV_NOTE_FLUSH))
		atomic_store(&ordering->wrote_flush, true);
	if (posted && (notes & PMV_NOTE_ORDERED))
		pmv_ordering_set_ordered(ordering, flushed);
	count_posting(ordering, notes, -1);
}

uint64_t pmv_ordering_take_fence(struct pmv_initiator *ini)
{
	uint64_t fence = pmv_engine_fence(ini->engine->engine);

	return fence && atomic_exchange(&ini->ordering.fence_due, false) ? fence : 0;
}

void pmv_ordering_return_fence(struct pmv_initiator *ini, uint64_t flags)
{
	if (flags & FI_FENCE)
		atomic_store(&ini->ordering.fence_due, true);
}

/*
 * For the agent, in this order: what leaves the first is in the second by then, and so on.
 * Messages that are the agent's to see to are made durable for messages only.
 */
struct pmv_past pmv_ordering_past(struct pmv_initiator *ini, bool message)
{
	struct pmv_ordering *ordering = &ini->ordering;

	return (struct pmv_past){
		.agent = (message && atomic_load(&ini->sends) != atomic_load(&ini->told_sends)) ||
			 atomic_load(&ordering->posting_agent) ||
			 atomic_load(&ordering->wrote_agent) ||
			 atomic_load(&ini->mailbox->sender.unacked),
		.flush = atomic_load(&ordering->posting_flush) ||
			 atomic_load(&ordering->wrote_flush),
		.ordered = atomic_load(&ordering->posting_ordered) ||
			   atomic_load(&ordering->wrote_ordered),
	};
}

void pmv_ordering_change_place(struct pmv_initiator *ini, uint64_t key, uint64_t addr, bool quiet)
{
	struct pmv_ordering *ordering = &ini->ordering;

	pthread_mutex_lock(&ordering->place_lock);
	atomic_store(&ordering->place_key, key);
	atomic_store(&ordering->quiet_key, quiet ? key : 0);
	ordering->place_addr = addr;
	pthread_mutex_unlock(&ordering->place_lock);
}

uint64_t pmv_ordering_place(struct pmv_initiator *ini, uint64_t key, uint64_t addr)
{
	struct pmv_ordering *ordering = &ini->ordering;

	pthread_mutex_lock(&ordering->place_lock);
	if (atomic_load(&ordering->place_key) == key)
		addr = ordering->place_addr;
	pthread_mutex_unlock(&ordering->place_lock);
	return addr;
}

/* An endpoint belongs to the peer that it writes to first. */
struct pmv_lost_writes *pmv_ordering_tracker(struct pmv_initiator *ini, const struct fi_rma_iov *to)
{
	if (!ini->hooks->is_applications(to))
		return NULL;
	if (!ini->tracker)
		ini->tracker = ini->hooks->tracker();
	return ini->tracker;
}

void pmv_ordering_lost_write(struct pmv_initiator *ini, const struct fi_rma_iov *to, size_t count,
			     bool no_completion)
{
	struct pmv_lost_writes *peer = pmv_ordering_tracker(ini, to);
	struct pmv_attr attr;

	for (size_t i = 0; peer && i < count; i++) {
		if (!pmv_ordering_attr(ini, to[i].key, &attr))
			continue;
		if (no_completion ||
		    pmv_method_of_write(&attr, ini->engine->engine->transport) != PMV_METHOD_WRITE)
			pmv_lost_writes_add(peer, (uint32_t) pmv_key_core(to[i].key));
	}
}
