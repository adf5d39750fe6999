/* SPDX-License-Identifier: BSD-2-Clause */
/* note.c -- what is remembered of writes; note.h says for whom */
#include <rdma/fi_ext_pmemverbs.h>
#include "note.h"
#include "peer.h"
#include "prov.h"
#include "rdm_ep.h"

bool pmv_attr_of(const struct pmv_ep *ep, uint64_t key, struct pmv_attr *attr)
{
	if (!ep->domain->keyed || !pmv_key_unpack(key, attr))
		return false;
	attr->relaxed |= pmv_setting.relaxed;
	return true;
}

static bool is_for_agent(const struct pmv_ep *ep, const struct pmv_attr *attr)
{
	return pmv_write_method(attr, ep->domain->transport) == PMV_METHOD_AGENT;
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
	if (ep->link.peer.agent)
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

	switch (pmv_write_method(attr, ep->domain->transport)) {
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
	if (!(note & NOTE_AGENT) || !ep->link.peer.agent)
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

/* RxM's endpoint belongs to whom it writes to first. */
struct pmv_peer *pmv_note_peer(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov)
{
	if (!pmv_rdm_posts(rma_iov))
		return NULL;
	if (!ep->peer)
		ep->peer = pmv_rdm_peer();
	return ep->peer;
}

bool pmv_show_rxm(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov)
{
	if (!pmv_rdm_looks(rma_iov))
		return false;
	pmv_rdm_found(pmv_note_peer(ep, rma_iov));
	return true;
}

void pmv_note_rxm(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t count, bool silent)
{
	struct pmv_peer *peer = pmv_note_peer(ep, rma_iov);
	struct pmv_attr attr;

	for (size_t i = 0; peer && i < count; i++) {
		if (pmv_attr_of(ep, rma_iov[i].key, &attr) &&
		    (silent || pmv_write_method(&attr, ep->domain->transport) != PMV_METHOD_WRITE))
			pmv_peer_wrote(peer, (uint32_t) pmv_key_core(rma_iov[i].key));
	}
}
