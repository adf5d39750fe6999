/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.c -- one flush for many writes; cover.h says when
 *
 * A covered request has one reference more than its parts: the one of the flush
 * that is to cover it.  It is put on the endpoint's list after it was posted, and
 * a flush takes the list as it is posted: so all that it takes was posted before.
 * A READ makes durable what came before on the connection, whatever region it
 * reads (method.h), and a letter names the regions that only an agent can flush.
 */
#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "commit/group.h"
#include "commit/flush_request.h"

bool pmv_covers(struct pmv_ep *ep, uint64_t key)
{
	struct pmv_attr attr;

	return pmv_attr_of(ep, key, &attr) && attr.pmem;
}

/*
 * is_simple -- the rest is committed one by one: what the target is told of, what
 * is fenced, what has no byte to flush or several regions
 */
static bool is_simple(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	return commit->unheard ||
	       (!(commit->flags & (FI_FENCE | FI_REMOTE_CQ_DATA)) && commit->rma_iov_count == 1 &&
		commit->rma_iov->len && pmv_ep_direct(ep, PMV_SLOW_FENCE_NEXT));
}

/* post -- the operation, with a reference for the core's completion if there will be one */
static ssize_t post(struct pmv_ep *ep, struct pmv_commit_op *req, const struct pmv_commit *commit)
{
	const struct fi_rma_iov *at = commit->rma_iov;
	bool is_read =
		(commit->what & FI_READ) && !(ep->domain->engine.core->caps & PMV_ENGINE_FENCE);
	int parts = commit->unheard ? 0 : 1;
	ssize_t ret;

	req->is_read = is_read;
	if (is_read)
		atomic_fetch_add(&ep->reads, 1);
	atomic_fetch_add(&req->op.pending, parts);
	pmv_note_begin(ep, at->key, at->addr, at->len);
	ret = commit->post(ep, commit->op, &req->op, FI_COMPLETION | (commit->flags & FI_INJECT));
	pmv_note_end(ep, at->key, at->addr, at->len, !ret);
	if (!ret) {
		if (commit->what & FI_ATOMIC)
			pmv_note_read(ep);
		return 0;
	}
	if (is_read)
		atomic_fetch_sub(&ep->reads, 1);
	req->is_read = false;
	atomic_fetch_sub(&req->op.pending, parts);
	return ret;
}

ssize_t pmv_cover(struct pmv_ep *ep, struct pmv_commit *commit)
{
	enum pmv_method method;
	struct pmv_commit_op *req;
	ssize_t ret;
	bool idle;

	if (!is_simple(ep, commit)) {
		commit->flags |= FI_COMMIT;
		return pmv_commit(ep, commit);
	}
	ret = pmv_commit_check(ep, commit);
	if (ret)
		return ret;
	if (!pmv_ep_is_open(ep))
		return -FI_EAGAIN;
	ret = pmv_commit_method(ep, commit, &method);
	if (ret)
		return ret;
	req = pmv_commit_request(ep, commit);
	if (!req)
		return -FI_EAGAIN;
	ret = post(ep, req, commit);
	if (ret) {
		pmv_commit_give_up(ep, req);
		return ret;
	}
	/* The poster's reference becomes the flush's. */
	if (method == PMV_METHOD_WRITE && !commit->unheard) {
		pmv_op_drop(ep, req, 0);
		return 0;
	}
	req->key = commit->rma_iov->key;
	req->addr = commit->rma_iov->addr;
	pthread_mutex_lock(&ep->lock);
	idle = !ep->covered && !atomic_load(&ep->covering);
	req->cover_next = NULL;
	*ep->covered_tail = req;
	ep->covered_tail = &req->cover_next;
	pthread_mutex_unlock(&ep->lock);
	/* Else the CQ has it in view already. */
	if (idle)
		pmv_ep_stall(ep);
	return 0;
}

/* The regions of one flush. */
struct keys {
	struct fi_rma_iov rma_iov[PMV_FLUSH_REQUEST_KEYS];
	size_t count;
	bool read; /* one of its operations needs no more than a READ */
	uint64_t addr;
	uint64_t key;
};

/* add_key -- false: there is no room for another one */
static bool add_key(struct pmv_ep *ep, struct keys *keys, const struct pmv_commit_op *req)
{
	if (!pmv_is_for_agent(ep, req->key)) {
		keys->read = true;
		keys->addr = req->addr;
		keys->key = pmv_key_core(req->key);
		return true;
	}
	for (size_t i = 0; i < keys->count; i++) {
		if (keys->rma_iov[i].key == req->key)
			return true;
	}
	if (keys->count == PMV_FLUSH_REQUEST_KEYS)
		return false;
	keys->rma_iov[keys->count++] = (struct fi_rma_iov){.addr = req->addr, .key = req->key};
	return true;
}

void pmv_cover_next(struct pmv_ep *ep, bool looking)
{
	struct pmv_commit_op *flush, **end = &ep->covered;
	struct keys keys = {.count = 0};
	struct pmv_commit commit = {.rma_iov = keys.rma_iov};

	if (!ep->covered)
		return;
	/* The agent's thread looks, too, and earlier: it waits for nothing here. */
	if (looking || pmv_queue_is_armed(ep->owner.tx_queue) ||
	    pmv_queue_is_armed(ep->owner.rx_queue))
		ep->looked = true;
	if (!ep->looked || atomic_load(&ep->covering))
		return;
	flush = pmv_commit_op(pmv_op_get_own(&ep->owner));
	if (!flush)
		return;
	while (*end && add_key(ep, &keys, *end))
		end = &(*end)->cover_next;
	flush->covers = ep->covered;
	ep->covered = *end;
	*end = NULL;
	ep->looked = ep->covered;
	if (!ep->covered)
		ep->covered_tail = &ep->covered;

	flush->op.audience = PMV_TELL_NOBODY;
	flush->op.flags = FI_RMA | FI_WRITE;
	flush->addr = keys.addr;
	flush->key = keys.key;
	commit.rma_iov_count = keys.count;
	atomic_store(&ep->covering, true);
	pmv_commit_flush(ep, flush, &commit, keys.read);
}

void pmv_cover_done(struct pmv_ep *ep, struct pmv_commit_op *flush)
{
	int err = atomic_load(&flush->op.error);
	struct pmv_commit_op *req = flush->covers;

	flush->covers = NULL;
	while (req) {
		struct pmv_commit_op *next = req->cover_next;

		if (pmv_op_done(&ep->domain->ops, &req->op, err, flush->op.prov_errno))
			pmv_queue_add(ep->owner.tx_queue, &req->op.comp);
		req = next;
	}
	atomic_store(&ep->covering, false);
}

enum pmv_pending pmv_cover_pending(struct pmv_ep *ep)
{
	if (atomic_load(&ep->covering))
		return PMV_PENDING_FLUSH;
	return ep->covered ? PMV_PENDING_POSTS : PMV_PENDING_NONE;
}

bool pmv_cover_is_idle(struct pmv_ep *ep)
{
	bool idle;

	if (pmv_ep_direct(ep, PMV_SLOW_ALL))
		return true;
	pthread_mutex_lock(&ep->lock);
	idle = pmv_cover_pending(ep) == PMV_PENDING_NONE;
	pthread_mutex_unlock(&ep->lock);
	return idle;
}

void pmv_cover_drop(struct pmv_ep *ep)
{
	while (ep->covered) {
		struct pmv_commit_op *req = ep->covered;

		ep->covered = req->cover_next;
		pmv_op_drop(ep, req, FI_ECANCELED);
	}
	ep->covered_tail = &ep->covered;
}
