/* SPDX-License-Identifier: BSD-2-Clause */
/* ordering.c -- what is remembered of writes; note.h says for whom */
#include <rdma/fi_ext_pmemverbs.h>
#include "commit/ordering.h"
#include "commit/lost_writes.h"
#include "base/setting.h"

bool pmv_attr_of(const struct pmv_ep *ep, uint64_t key, struct pmv_attr *attr)
{
	if (!ep->domain->keyed || !pmv_key_unpack(key, attr))
		return false;
	attr->relaxed |= pmv_setting.relaxed;
	return true;
}

static bool is_for_agent(const struct pmv_ep *ep, const struct pmv_attr *attr)
{
	return pmv_write_method(attr, ep->domain->engine.transport) == PMV_METHOD_AGENT;
}

bool pmv_is_for_agent(const struct pmv_ep *ep, uint64_t key)
{
	struct pmv_attr attr;

	return pmv_attr_of(ep, key, &attr) && is_for_agent(ep, &attr);
}

/* note_dirty -- holds the endpoint's lock */
static void note_dirty(struct pmv_ep *ep, const struct pmv_attr *attr, uint64_t key, uint64_t addr,
		       size_t len)
{
	if (!len)
		return;
	if (attr->relaxed && !attr->readable) {
		/* Nothing ever proves anything of it. */
		atomic_store(&ep->wrote_unreadable, true);
		return;
	}
	atomic_store(&ep->wrote_agent, true);
	if (attr->relaxed)
		ep->wrote_relaxed = true;
	/* Without an agent no commit there succeeds anyway. */
	if (ep->mailbox.peer.agent)
		pmv_dirty_add(&ep->dirty, (uint32_t) pmv_key_core(key), addr, len);
}

/* What has to be remembered of a write. */
enum note {
	NOTE_NONE = 0,
	NOTE_AGENT = 1 << 0,
	NOTE_FLUSH = 1 << 1,
	NOTE_ORDERED = 1 << 2,
};

static unsigned note_of(struct pmv_ep *ep, const struct pmv_attr *attr)
{
	unsigned note = NOTE_NONE;

	switch (pmv_write_method(attr, ep->domain->engine.transport)) {
	case PMV_METHOD_AGENT:
		return NOTE_AGENT;
	case PMV_METHOD_READ:
		if (pmv_ordered_by_flush(attr))
			note |= NOTE_ORDERED;
		/* Once that flag is set it stays, and there is nothing to count for it. */
		if (!atomic_load_explicit(&ep->wrote_flush, memory_order_relaxed))
			note |= NOTE_FLUSH;
		return note;
	case PMV_METHOD_WRITE:
	case PMV_METHOD_REFUSED:
		break;
	}
	return NOTE_NONE;
}

static void count_posting(struct pmv_ep *ep, unsigned note, int change)
{
	if (note & NOTE_AGENT)
		atomic_fetch_add(&ep->posting_agent, change);
	if (note & NOTE_FLUSH)
		atomic_fetch_add(&ep->posting_flush, change);
	if (note & NOTE_ORDERED)
		atomic_fetch_add(&ep->posting_ordered, change);
}

static void note_flags(struct pmv_ep *ep, unsigned note)
{
	if (note & NOTE_FLUSH)
		atomic_store(&ep->wrote_flush, true);
	if (note & NOTE_ORDERED)
		atomic_store(&ep->wrote_ordered, true);
}

void pmv_mark_set(struct pmv_ep *ep, uint64_t key, uint64_t addr)
{
	if (atomic_load_explicit(&ep->mark_key, memory_order_relaxed) == key)
		return;
	pthread_mutex_lock(&ep->mark_lock);
	atomic_store(&ep->mark_key, key);
	ep->mark_addr = addr;
	pthread_mutex_unlock(&ep->mark_lock);
}

uint64_t pmv_mark_or(struct pmv_ep *ep, uint64_t key, uint64_t addr)
{
	pthread_mutex_lock(&ep->mark_lock);
	if (atomic_load(&ep->mark_key) == key)
		addr = ep->mark_addr;
	pthread_mutex_unlock(&ep->mark_lock);
	return addr;
}

void pmv_note_begin(struct pmv_ep *ep, uint64_t key, uint64_t addr, size_t len)
{
	struct pmv_attr attr;
	unsigned note;

	if (!pmv_attr_of(ep, key, &attr))
		return;
	note = note_of(ep, &attr);
	count_posting(ep, note, 1);
	if (!(note & NOTE_AGENT) || !ep->mailbox.peer.agent)
		return;
	pthread_mutex_lock(&ep->lock);
	note_dirty(ep, &attr, key, addr, len);
	pthread_mutex_unlock(&ep->lock);
}

void pmv_note_end(struct pmv_ep *ep, uint64_t key, uint64_t addr, size_t len, bool posted)
{
	struct pmv_attr attr;
	unsigned note;

	if (!pmv_attr_of(ep, key, &attr))
		return;
	note = note_of(ep, &attr);
	if (posted) {
		note_flags(ep, note);
		if (note & NOTE_AGENT) {
			pthread_mutex_lock(&ep->lock);
			note_dirty(ep, &attr, key, addr, len);
			pthread_mutex_unlock(&ep->lock);
		}
		if (len)
			pmv_mark_set(ep, key, addr);
	}
	count_posting(ep, note, -1);
}

void pmv_note_read(struct pmv_ep *ep)
{
	atomic_store(&ep->fence_due, true);
}

void pmv_note_commit(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t count, bool posted,
		     int change)
{
	struct pmv_attr attr;

	for (size_t i = 0; i < count; i++) {
		unsigned note;

		if (!pmv_attr_of(ep, rma_iov[i].key, &attr))
			continue;
		note = note_of(ep, &attr) & ~NOTE_AGENT;
		if (posted)
			note_flags(ep, note);
		count_posting(ep, note, change);
	}
}

void pmv_note_changed(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t changed)
{
	struct pmv_attr attr;

	if (pmv_attr_of(ep, rma_iov->key, &attr) && (changed || is_for_agent(ep, &attr)))
		note_dirty(ep, &attr, rma_iov->key, rma_iov->addr,
			   changed ? changed : rma_iov->len);
}

/* An endpoint belongs to the peer that it writes to first. */
struct pmv_lost_writes *pmv_note_peer(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov)
{
	const struct pmv_hooks *hooks = ep->domain->hooks;

	if (!hooks->is_applications(rma_iov))
		return NULL;
	if (!ep->peer)
		ep->peer = hooks->tracker();
	return ep->peer;
}

bool pmv_note_probe(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov)
{
	struct pmv_lost_writes *peer = pmv_note_peer(ep, rma_iov);

	return peer && ep->domain->hooks->probes(rma_iov, peer);
}

void pmv_note_lost_writes(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t count,
			  bool silent)
{
	struct pmv_lost_writes *peer = pmv_note_peer(ep, rma_iov);
	struct pmv_attr attr;

	for (size_t i = 0; peer && i < count; i++) {
		if (pmv_attr_of(ep, rma_iov[i].key, &attr) &&
		    (silent ||
		     pmv_write_method(&attr, ep->domain->engine.transport) != PMV_METHOD_WRITE))
			pmv_lost_writes_add(peer, (uint32_t) pmv_key_core(rma_iov[i].key));
	}
}
