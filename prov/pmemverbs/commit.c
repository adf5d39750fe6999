/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commit.c -- one durable write, from the call to its completion
 *
 * pmv_commit posts, without waiting for anything in between:
 *
 *   [READ]             fenced commit after writes that only a flush orders (DMP)
 *   write or atomic    fenced behind that READ and the application's own reads
 *   [READ]             of a byte that was just written: the flush
 *   [write of 0 bytes] with the immediate, fenced behind the flush
 *
 * Each part completes to one request, errors included; the last one completes
 * the commit.  Nothing may be taken back once the write is posted, so parts
 * for which the core has no room then wait on the endpoint (`stalled`) and are
 * posted when its CQ is read.  Until then the endpoint takes nothing new.
 *
 * What earlier operations mean for a later fence is kept in four flags of the
 * endpoint:
 *   wrote_agent    data that no flush from here makes durable (never taken)
 *   wrote_flush    data whose completion proves nothing (never taken)
 *   wrote_ordered  data that the next flush READ makes durable, and only that
 *   fence_due      a READ or atomic may be under way that a fence must wait for
 * A flag is set after the operation was posted that it speaks of.  One that is
 * taken is taken, and the operation posted that makes it moot, under
 * order_lock, which every fenced operation holds from looking at the flags
 * until it is posted: no thread sees a flag gone before what replaces it is in
 * the send queue.  A flag left standing needlessly costs a flush.
 *
 * The flush of a commit to MHP memory sets none of them: data there persists in
 * the order in which it arrives, and nothing has to wait for the READ.
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "commit.h"
#include "prov.h"

bool pmv_attr_of(const struct pmv_ep *ep, uint64_t key, struct pmv_attr *attr)
{
	if (!ep->domain->keyed || !pmv_key_unpack(key, attr))
		return false;
	attr->relaxed |= pmv_setting.relaxed;
	return true;
}

/* Data is durable in the order of arrival only where arrival makes it durable. */
static bool is_ordered_by_flush(const struct pmv_attr *attr)
{
	return attr->persist == PMV_DMP;
}

static void note_write(struct pmv_ep *ep, const struct pmv_attr *attr)
{
	switch (pmv_write_method(attr, ep->domain->transport)) {
	case PMV_METHOD_AGENT:
		atomic_store(&ep->wrote_agent, true);
		break;
	case PMV_METHOD_READ:
		if (!atomic_load_explicit(&ep->wrote_flush, memory_order_relaxed))
			atomic_store(&ep->wrote_flush, true);
		if (is_ordered_by_flush(attr))
			atomic_store(&ep->wrote_ordered, true);
		break;
	case PMV_METHOD_WRITE:
	case PMV_METHOD_REFUSED:
		break;
	}
}

/*
 * The mark: one address that lies inside the region of the key that was used
 * last.  A commit without data has none of its own that is sure to; the flush
 * may read anywhere.
 */
static void set_mark(struct pmv_ep *ep, uint64_t key, uint64_t addr)
{
	if (atomic_load_explicit(&ep->mark_key, memory_order_relaxed) == key)
		return;
	pthread_mutex_lock(&ep->mark_lock);
	atomic_store(&ep->mark_key, key);
	ep->mark_addr = addr;
	pthread_mutex_unlock(&ep->mark_lock);
}

static uint64_t mark_or(struct pmv_ep *ep, uint64_t key, uint64_t addr)
{
	pthread_mutex_lock(&ep->mark_lock);
	if (atomic_load(&ep->mark_key) == key)
		addr = ep->mark_addr;
	pthread_mutex_unlock(&ep->mark_lock);
	return addr;
}

void pmv_note_write(struct pmv_ep *ep, uint64_t key, uint64_t addr, size_t len)
{
	struct pmv_attr attr;

	if (!pmv_attr_of(ep, key, &attr))
		return;
	note_write(ep, &attr);
	if (len)
		set_mark(ep, key, addr);
}

void pmv_note_read(struct pmv_ep *ep)
{
	atomic_store(&ep->fence_due, true);
}

/* Requests */

bool pmv_req_part_done(struct pmv_req *req, int err, int prov_errno)
{
	int none = 0;

	if (err && atomic_compare_exchange_strong(&req->failed, &none, err))
		req->prov_errno = prov_errno;
	return atomic_fetch_sub(&req->refs, 1) == 1;
}

struct pmv_cntr *pmv_cntr_of(struct pmv_ep *ep, uint64_t what)
{
	if (what & FI_RECV)
		return ep->cntr[PMV_CNTR_RECV];
	if (what & FI_SEND)
		return ep->cntr[PMV_CNTR_SEND];
	return ep->cntr[what & FI_READ ? PMV_CNTR_READ : PMV_CNTR_WRITE];
}

bool pmv_req_finish(struct pmv_req_pool *pool, struct pmv_req *req)
{
	struct pmv_ep *ep = req->ep;
	int err = atomic_load(&req->failed);
	struct pmv_cntr *cntr = ep ? pmv_cntr_of(ep, req->flags) : NULL;

	if (ep && req->is_read)
		atomic_fetch_sub(&ep->reads, 1);
	if (cntr && req->counted)
		pmv_cntr_count(cntr, !err);
	/* Of a closed endpoint the application has heard already. */
	if (!ep || (err ? req->silent : !req->report)) {
		pmv_req_put(pool, req);
		return false;
	}

	req->ep = NULL;
	req->comp.is_error = err != 0;
	if (err) {
		req->comp.err = (struct fi_cq_err_entry){
			.op_context = req->context,
			.flags = req->flags,
			.err = err,
			.prov_errno = req->prov_errno,
		};
	} else {
		req->comp.ok = (struct fi_cq_tagged_entry){
			.op_context = req->context,
			.flags = req->flags,
		};
	}
	return true;
}

/* drop_ref -- of a poster; the request may end here if the core was faster */
static void drop_ref(struct pmv_ep *ep, struct pmv_req *req, int err)
{
	if (pmv_req_part_done(req, err, 0) && pmv_req_finish(&ep->domain->reqs, req))
		pmv_cq_add(ep->tx_cq, &req->comp);
}

/* Parts */

static ssize_t post_flush(struct pmv_ep *ep, struct pmv_req *req)
{
	struct pmv_domain *domain = ep->domain;
	struct iovec iov = {.iov_base = domain->scratch, .iov_len = 1};
	struct fi_rma_iov rma_iov = {.addr = req->addr, .len = 1, .key = req->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &domain->scratch_desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = req,
	};

	return fi_readmsg(ep->core_fid, &msg, FI_COMPLETION);
}

static ssize_t post_notice(struct pmv_ep *ep, struct pmv_req *req)
{
	struct pmv_domain *domain = ep->domain;
	struct iovec iov = {.iov_base = domain->scratch, .iov_len = 0};
	struct fi_rma_iov rma_iov = {.addr = req->addr, .len = 0, .key = req->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = domain->scratch_desc ? &domain->scratch_desc : NULL,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = req,
		.data = req->data,
	};

	return fi_writemsg(ep->core_fid, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_FENCE);
}

/*
 * flush_ordered -- data written before the READ becomes durable with it; from
 * here on a fence waits for the READ instead of posting one.  Holds order_lock.
 */
static ssize_t flush_ordered(struct pmv_ep *ep, struct pmv_req *req)
{
	bool ordered = atomic_exchange(&ep->wrote_ordered, false);
	ssize_t ret = post_flush(ep, req);

	if (ordered)
		atomic_store(ret ? &ep->wrote_ordered : &ep->fence_due, true);
	return ret;
}

static ssize_t flush(struct pmv_ep *ep, struct pmv_req *req)
{
	ssize_t ret;

	if (!atomic_load(&ep->wrote_ordered))
		return post_flush(ep, req);
	pthread_mutex_lock(&ep->order_lock);
	ret = flush_ordered(ep, req);
	pthread_mutex_unlock(&ep->order_lock);
	return ret;
}

/*
 * post_parts -- post what a request still has to post, in order.  -FI_EAGAIN:
 * the core has no room.  0: nothing is left, posted or given up after an error.
 * The caller holds a reference, so the request does not end in here.
 */
static ssize_t post_parts(struct pmv_ep *ep, struct pmv_req *req)
{
	static const struct {
		enum pmv_part part;
		ssize_t (*post)(struct pmv_ep *ep, struct pmv_req *req);
	} parts[] = {
		{PMV_PART_FLUSH, flush},
		{PMV_PART_NOTICE, post_notice},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		ssize_t ret;

		if (!(req->unposted & parts[i].part))
			continue;
		/* After an error the target must not hear of success. */
		ret = atomic_load(&req->failed) ? -FI_ECANCELED : parts[i].post(ep, req);
		if (ret == -FI_EAGAIN)
			return ret;
		req->unposted &= ~parts[i].part;
		if (ret)
			pmv_req_part_done(req, (int) -ret, 0);
	}
	return 0;
}

bool pmv_ep_push(struct pmv_ep *ep)
{
	struct pmv_req *req;
	bool empty;

	pthread_mutex_lock(&ep->lock);
	while ((req = ep->stalled) && post_parts(ep, req) != -FI_EAGAIN) {
		ep->stalled = req->next;
		if (!ep->stalled) {
			ep->stalled_tail = &ep->stalled;
			atomic_fetch_and(&ep->care, ~PMV_CARE_STALLED);
		}
		drop_ref(ep, req, 0);
	}
	empty = !ep->stalled;
	pthread_mutex_unlock(&ep->lock);
	return empty;
}

void pmv_ep_drop_stalled(struct pmv_ep *ep)
{
	struct pmv_req *req;

	pthread_mutex_lock(&ep->lock);
	while ((req = ep->stalled)) {
		ep->stalled = req->next;
		for (unsigned left = req->unposted; left; left &= left - 1)
			pmv_req_part_done(req, FI_ECANCELED, 0);
		req->unposted = 0;
		drop_ref(ep, req, 0);
	}
	ep->stalled_tail = &ep->stalled;
	atomic_fetch_and(&ep->care, ~PMV_CARE_STALLED);
	pthread_mutex_unlock(&ep->lock);
}

/* stall -- keep a request whose parts the core does not take now; its reference goes along */
static void stall(struct pmv_ep *ep, struct pmv_req *req)
{
	pthread_mutex_lock(&ep->lock);
	req->next = NULL;
	*ep->stalled_tail = req;
	ep->stalled_tail = &req->next;
	atomic_fetch_or(&ep->care, PMV_CARE_STALLED);
	pthread_mutex_unlock(&ep->lock);
	pmv_cq_stall(ep->tx_cq, ep);
}

/* Before anything is posted */

bool pmv_ep_is_open(struct pmv_ep *ep)
{
	return pmv_ep_direct(ep, PMV_CARE_STALLED) || pmv_ep_push(ep);
}

/*
 * await_reads -- on a core without a fence a fenced request is posted once no
 * read is under way, which the reader of its CQ finds out; the application
 * retries, as after any -FI_EAGAIN
 */
static ssize_t await_reads(struct pmv_ep *ep)
{
	if (ep->domain->fabric->core->fence)
		return 0;
	if (atomic_load(&ep->reads))
		pmv_cq_progress(ep->tx_cq);
	return atomic_load(&ep->reads) ? -FI_EAGAIN : 0;
}

/* take_fence -- the flag that a fenced request is posted with; holds order_lock */
static uint64_t take_fence(struct pmv_ep *ep)
{
	if (!ep->domain->fabric->core->fence)
		return 0;
	return atomic_exchange(&ep->fence_due, false) ? FI_FENCE : 0;
}

static void return_fence(struct pmv_ep *ep, uint64_t flags)
{
	if (flags & FI_FENCE)
		atomic_store(&ep->fence_due, true);
}

/* is_unheard -- nobody reads a CQ that is ours alone */
static bool is_unheard(const struct pmv_ep *ep, uint64_t what)
{
	return (what & FI_RECV ? ep->rx_cq : ep->tx_cq) == ep->own_cq;
}

static bool is_reported(const struct pmv_ep *ep, uint64_t what, uint64_t flags)
{
	bool selective = what & FI_RECV ? ep->rx_selective : ep->tx_selective;

	return !is_unheard(ep, what) && ((flags & FI_COMPLETION) || !selective);
}

ssize_t pmv_post_begin(struct pmv_ep *ep, struct pmv_post *post, uint64_t what, void *context,
		       uint64_t flags, bool quiet)
{
	bool fenced = !(what & FI_RECV) &&
		      ((flags & FI_FENCE) ||
		       (!(what & FI_READ) && !pmv_ep_direct(ep, PMV_CARE_FENCE_NEXT)));
	bool counted = pmv_cntr_of(ep, what) != NULL;
	bool is_read = (what & FI_READ) && !ep->domain->fabric->core->fence;
	struct pmv_req *req = NULL;

	*post = (struct pmv_post){.what = what, .context = context, .flags = flags & ~FI_FENCE};
	if (!(what & FI_RECV) && !pmv_ep_is_open(ep))
		return -FI_EAGAIN;
	if (fenced && await_reads(ep))
		return -FI_EAGAIN;
	if (counted || is_read || quiet) {
		req = pmv_req_get(&ep->domain->reqs, ep);
		if (!req)
			return -FI_EAGAIN;
		req->context = context;
		req->flags = what;
		req->single = true;
		req->counted = counted;
		req->report = !quiet && is_reported(ep, what, flags);
		req->silent = quiet || is_unheard(ep, what);
		req->is_read = is_read;
		if (is_read)
			atomic_fetch_add(&ep->reads, 1);
		/* The only reference becomes the core's when it takes the operation. */
		post->req = req;
		post->context = req;
		post->flags |= FI_COMPLETION;
	}
	if (fenced) {
		pthread_mutex_lock(&ep->order_lock);
		post->flags |= take_fence(ep);
		post->fenced = true;
	}
	return 0;
}

ssize_t pmv_post_end(struct pmv_ep *ep, struct pmv_post *post, ssize_t ret)
{
	struct pmv_req *req = post->req;

	if (ret)
		return_fence(ep, post->flags);
	else if ((post->what & FI_READ) && !(post->what & FI_ATOMIC) && (post->flags & FI_FENCE))
		/* The core does not fence reads: the next request does it for this one. */
		atomic_fetch_or(&ep->care, PMV_CARE_FENCE_NEXT);
	else if (post->fenced && !(post->what & FI_READ))
		atomic_fetch_and(&ep->care, ~PMV_CARE_FENCE_NEXT);
	if (!ret && (post->what & (FI_READ | FI_ATOMIC)))
		pmv_note_read(ep);
	if (post->fenced)
		pthread_mutex_unlock(&ep->order_lock);
	if (ret && req) {
		if (req->is_read)
			atomic_fetch_sub(&ep->reads, 1);
		pmv_req_put(&ep->domain->reqs, req);
	}
	return ret;
}

/* Commits */

static ssize_t refuse(const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s\n", why);
	return -FI_EOPNOTSUPP;
}

/*
 * plan_commit -- one plan for all regions of the operation: the strongest that
 * one of them needs; at is where a flush reads
 */
static ssize_t plan_commit(struct pmv_ep *ep, const struct pmv_commit *commit, bool fenced,
			   struct pmv_plan *plan, const struct fi_rma_iov **at)
{
	struct pmv_past past = {
		.agent = atomic_load(&ep->wrote_agent),
		.flush = atomic_load(&ep->wrote_flush),
		.ordered = atomic_load(&ep->wrote_ordered),
	};

	*plan = (struct pmv_plan){.method = PMV_METHOD_WRITE};
	*at = commit->rma_iov;
	if (!commit->rma_iov_count) {
		PMV_WARN(EP_DATA, "a commit needs an address and a key, also without data\n");
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < commit->rma_iov_count; i++) {
		const struct fi_rma_iov *rma_iov = &commit->rma_iov[i];
		struct pmv_attr attr;
		struct pmv_plan one;

		if (!pmv_attr_of(ep, rma_iov->key, &attr))
			return refuse("the key says nothing of the memory behind it; its owner has "
				      "to register it through pmemverbs, in a domain whose mr_mode "
				      "has FI_MR_PROV_KEY, and hand over all 64 bits of the key");
		if (!attr.writable) {
			PMV_WARN(EP_DATA, "the target's region lacks FI_REMOTE_WRITE\n");
			return -FI_EACCES;
		}
		one = pmv_plan_commit(&attr, ep->domain->transport, fenced ? &past : NULL);
		if (one.method == PMV_METHOD_REFUSED || one.method == PMV_METHOD_AGENT)
			return refuse(one.why);
		if (!i || (one.method == PMV_METHOD_READ &&
			   (plan->method != PMV_METHOD_READ || !(*at)->len))) {
			*plan = one;
			*at = rma_iov;
		}
	}
	return 0;
}

/* prepare -- the request of a commit, with the parts that follow the operation */
static struct pmv_req *prepare(struct pmv_ep *ep, const struct pmv_commit *commit,
			       const struct pmv_plan *plan, const struct fi_rma_iov *at,
			       uint64_t *core_flags)
{
	struct pmv_req *req = pmv_req_get(&ep->domain->reqs, ep);

	if (!req)
		return NULL;
	req->context = commit->context;
	req->flags = commit->what;
	req->data = commit->data;
	/* Inside the written range, if there is one. */
	req->addr = at->len ? at->addr : mark_or(ep, at->key, at->addr);
	req->key = pmv_key_core(at->key);
	req->counted = true;
	req->report = is_reported(ep, commit->what, commit->flags);
	req->silent = is_unheard(ep, commit->what);
	req->is_read = (commit->what & FI_READ) && !ep->domain->fabric->core->fence;
	if (plan->method == PMV_METHOD_READ)
		req->unposted |= PMV_PART_FLUSH;
	if (!(commit->flags & (FI_REMOTE_CQ_DATA | FI_IMMED)))
		return req;
	/* An atomic carries no immediate. */
	if (plan->notice == PMV_NOTICE_WITH_WRITE && !(commit->what & FI_ATOMIC))
		*core_flags |= FI_REMOTE_CQ_DATA;
	else
		req->unposted |= PMV_PART_NOTICE;
	return req;
}

/* give_up -- the operation was not posted; a flush in front of it may have been */
static void give_up(struct pmv_ep *ep, struct pmv_req *req, uint64_t core_flags, int unused)
{
	return_fence(ep, core_flags);
	if (req->is_read)
		atomic_fetch_sub(&ep->reads, 1);
	req->is_read = false;
	req->counted = false;
	req->report = false;
	req->silent = true;
	atomic_fetch_sub(&req->refs, unused);
	drop_ref(ep, req, 0);
}

/*
 * post_operation -- everything up to the write or atomic itself.  A fenced one
 * is called with order_lock.
 */
static ssize_t post_operation(struct pmv_ep *ep, const struct pmv_commit *commit, bool fenced,
			      struct pmv_req **request)
{
	uint64_t core_flags = FI_COMPLETION | (commit->flags & FI_INJECT);
	const struct fi_rma_iov *at;
	struct pmv_plan plan;
	struct pmv_req *req;
	ssize_t ret;
	int parts;

	ret = plan_commit(ep, commit, fenced, &plan, &at);
	if (ret)
		return ret;
	req = prepare(ep, commit, &plan, at, &core_flags);
	if (!req)
		return -FI_EAGAIN;
	parts = 1 + __builtin_popcount(req->unposted);
	atomic_fetch_add(&req->refs, parts);
	if (req->is_read)
		atomic_fetch_add(&ep->reads, 1);

	if (plan.flush_first) {
		atomic_fetch_add(&req->refs, 1);
		ret = flush_ordered(ep, req);
		if (ret) {
			give_up(ep, req, core_flags, parts + 1);
			return ret;
		}
	}
	if (fenced)
		core_flags |= take_fence(ep);
	ret = commit->post(ep, commit->op, req, core_flags);
	if (ret) {
		give_up(ep, req, core_flags, parts);
		return ret;
	}

	for (size_t i = 0; i < commit->rma_iov_count; i++)
		pmv_note_write(ep, commit->rma_iov[i].key, commit->rma_iov[i].addr,
			       commit->rma_iov[i].len);
	/* The connection is lost if nothing can be read there. */
	set_mark(ep, at->key, req->addr);
	if (commit->what & FI_ATOMIC)
		pmv_note_read(ep);
	if (fenced)
		atomic_fetch_and(&ep->care, ~PMV_CARE_FENCE_NEXT);
	*request = req;
	return 0;
}

ssize_t pmv_commit(struct pmv_ep *ep, const struct pmv_commit *commit)
{
	bool fenced = (commit->flags & FI_FENCE) || !pmv_ep_direct(ep, PMV_CARE_FENCE_NEXT);
	struct pmv_req *req = NULL;
	ssize_t ret;

	if (!pmv_ep_is_open(ep))
		return -FI_EAGAIN;
	if (fenced) {
		if (await_reads(ep))
			return -FI_EAGAIN;
		pthread_mutex_lock(&ep->order_lock);
	}
	ret = post_operation(ep, commit, fenced, &req);
	if (fenced)
		pthread_mutex_unlock(&ep->order_lock);
	if (ret)
		return ret;

	/* Accepted: from here on every failure is the completion's to tell. */
	if (post_parts(ep, req) == -FI_EAGAIN)
		stall(ep, req);
	else
		drop_ref(ep, req, 0);
	return 0;
}
