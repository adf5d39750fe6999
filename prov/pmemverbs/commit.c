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
 * endpoint, set after an operation was posted and taken before one is posted
 * that makes them moot.  In that order a flag can be left standing needlessly,
 * which costs a flush, but is never lost between two threads:
 *   wrote_agent    data that no flush from here makes durable (never taken)
 *   wrote_flush    data whose completion proves nothing (never taken)
 *   wrote_ordered  data that the next flush READ makes durable, and only that
 *   fence_due      a READ or atomic may be under way that a fence must wait for
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

void pmv_note_write(struct pmv_ep *ep, uint64_t key)
{
	struct pmv_attr attr;

	if (pmv_attr_of(ep, key, &attr))
		note_write(ep, &attr);
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

static struct pmv_cntr *cntr_of(struct pmv_ep *ep, uint64_t what)
{
	if (what & FI_RECV)
		return ep->cntr[PMV_CNTR_RECV];
	if (what & FI_SEND)
		return ep->cntr[PMV_CNTR_SEND];
	return ep->cntr[what & FI_READ ? PMV_CNTR_READ : PMV_CNTR_WRITE];
}

bool pmv_req_finish(struct pmv_req_pool *pool, struct pmv_req *req)
{
	int err = atomic_load(&req->failed);
	struct pmv_cntr *cntr;

	if (!req->ep) {
		pmv_req_put(pool, req);
		return false;
	}
	if (req->is_read)
		atomic_fetch_sub(&req->ep->reads, 1);
	cntr = cntr_of(req->ep, req->flags);
	if (cntr && req->counted)
		pmv_cntr_count(cntr, !err);
	if (err ? req->silent : !req->report) {
		pmv_req_put(pool, req);
		return false;
	}

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
 * post_flush_noting -- data written before the READ becomes durable with it;
 * from here on a fence waits for the READ instead of posting one
 */
static ssize_t post_flush_noting(struct pmv_ep *ep, struct pmv_req *req)
{
	bool ordered = atomic_exchange(&ep->wrote_ordered, false);
	ssize_t ret = post_flush(ep, req);

	if (ordered)
		atomic_store(ret ? &ep->wrote_ordered : &ep->fence_due, true);
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
		{PMV_PART_FLUSH, post_flush_noting},
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

static bool is_open(struct pmv_ep *ep)
{
	return pmv_ep_direct(ep, PMV_CARE_STALLED) || pmv_ep_push(ep);
}

/*
 * take_fence -- may a fenced request be posted now, and with which flag?  On a
 * core without a fence it may once no read is under way, which the reader of
 * its CQ finds out; the application retries, as after any -FI_EAGAIN.
 */
static ssize_t take_fence(struct pmv_ep *ep, uint64_t *flags)
{
	if (ep->domain->fabric->core->fence) {
		if (atomic_exchange(&ep->fence_due, false))
			*flags |= FI_FENCE;
		return 0;
	}
	if (atomic_load(&ep->reads))
		pmv_cq_progress(ep->tx_cq);
	return atomic_load(&ep->reads) ? -FI_EAGAIN : 0;
}

static void return_fence(struct pmv_ep *ep, uint64_t flags)
{
	if (flags & FI_FENCE)
		atomic_store(&ep->fence_due, true);
}

static bool is_reported(struct pmv_ep *ep, uint64_t what, uint64_t flags)
{
	return (flags & FI_COMPLETION) || !(what & FI_RECV ? ep->rx_selective : ep->tx_selective);
}

ssize_t pmv_post_begin(struct pmv_ep *ep, struct pmv_post *post, uint64_t what, void *context,
		       uint64_t flags, bool quiet)
{
	bool fenced = (flags & FI_FENCE) ||
		      (!(what & (FI_READ | FI_RECV)) && !pmv_ep_direct(ep, PMV_CARE_FENCE_NEXT));
	bool counted = cntr_of(ep, what) != NULL;
	bool is_read = (what & FI_READ) && !ep->domain->fabric->core->fence;
	struct pmv_req *req;
	ssize_t ret;

	*post = (struct pmv_post){.context = context, .flags = flags & ~FI_FENCE};
	if (what & FI_RECV)
		fenced = false;
	else if (!is_open(ep))
		return -FI_EAGAIN;
	if (fenced) {
		ret = take_fence(ep, &post->flags);
		if (ret)
			return ret;
	}
	if (!counted && !is_read && !quiet)
		return 0;

	req = pmv_req_get(&ep->domain->reqs, ep);
	if (!req) {
		return_fence(ep, post->flags);
		return -FI_EAGAIN;
	}
	req->context = context;
	req->flags = what;
	req->single = true;
	req->counted = counted;
	req->silent = quiet;
	req->report = !quiet && is_reported(ep, what, flags);
	req->is_read = is_read;
	if (is_read)
		atomic_fetch_add(&ep->reads, 1);
	post->req = req;
	post->context = req;
	/* The only reference becomes the core's when it takes the operation. */
	post->flags |= FI_COMPLETION;
	return 0;
}

ssize_t pmv_post_end(struct pmv_ep *ep, struct pmv_post *post, uint64_t what, ssize_t ret)
{
	struct pmv_req *req = post->req;

	if (ret) {
		return_fence(ep, post->flags);
		if (req && req->is_read)
			atomic_fetch_sub(&ep->reads, 1);
		if (req)
			pmv_req_put(&ep->domain->reqs, req);
		return ret;
	}
	if (what & FI_READ) {
		/* The core does not fence reads: the next request does it for this one. */
		if (post->flags & FI_FENCE)
			atomic_fetch_or(&ep->care, PMV_CARE_FENCE_NEXT);
		pmv_note_read(ep);
	} else if (!(what & FI_RECV)) {
		atomic_fetch_and(&ep->care, ~PMV_CARE_FENCE_NEXT);
	}
	return 0;
}

/* Commits */

static ssize_t refuse(const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s\n", why);
	return -FI_EOPNOTSUPP;
}

/* plan_commit -- one plan for all regions of the operation: the strongest that one needs */
static ssize_t plan_commit(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t count,
			   bool fenced, struct pmv_plan *plan)
{
	struct pmv_past past = {
		.agent = atomic_load(&ep->wrote_agent),
		.flush = atomic_load(&ep->wrote_flush),
		.ordered = atomic_load(&ep->wrote_ordered),
	};

	*plan = (struct pmv_plan){.method = PMV_METHOD_WRITE};
	if (!count) {
		PMV_WARN(EP_DATA, "a commit needs an address and a key, also without data\n");
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < count; i++) {
		struct pmv_attr attr;
		struct pmv_plan one;

		if (!pmv_attr_of(ep, rma_iov[i].key, &attr))
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
		if (!i || one.method == PMV_METHOD_READ)
			*plan = one;
	}
	return 0;
}

/* flush_first -- a READ of its own, in front of a fenced write */
static ssize_t flush_first(struct pmv_ep *ep, uint64_t addr, uint64_t key)
{
	struct pmv_req *req = pmv_req_get(&ep->domain->reqs, ep);
	ssize_t ret;

	if (!req)
		return -FI_EAGAIN;
	req->silent = true;
	req->flags = FI_RMA | FI_READ;
	req->addr = addr;
	req->key = key;
	atomic_fetch_add(&req->refs, 1);
	ret = post_flush_noting(ep, req);
	if (ret) {
		pmv_req_put(&ep->domain->reqs, req);
		return ret;
	}
	drop_ref(ep, req, 0);
	return 0;
}

ssize_t pmv_commit(struct pmv_ep *ep, const struct fi_rma_iov *rma_iov, size_t rma_iov_count,
		   uint64_t what, void *context, uint64_t data, uint64_t flags, pmv_post_fn post,
		   const void *op)
{
	bool fenced = (flags & FI_FENCE) || !pmv_ep_direct(ep, PMV_CARE_FENCE_NEXT);
	bool notice = flags & (FI_REMOTE_CQ_DATA | FI_IMMED);
	uint64_t core_flags = FI_COMPLETION | (flags & FI_INJECT);
	const struct fi_rma_iov *at = rma_iov;
	struct pmv_plan plan;
	struct pmv_req *req;
	ssize_t ret;

	ret = plan_commit(ep, rma_iov, rma_iov_count, fenced, &plan);
	if (ret)
		return ret;
	/* Inside the written range, if there is one. */
	for (size_t i = 0; i < rma_iov_count && !at->len; i++)
		at = &rma_iov[i];

	if (!is_open(ep))
		return -FI_EAGAIN;
	if (plan.flush_first) {
		ret = flush_first(ep, at->addr, pmv_key_core(at->key));
		if (ret)
			return ret;
	}
	if (fenced) {
		ret = take_fence(ep, &core_flags);
		if (ret)
			return ret;
	}

	req = pmv_req_get(&ep->domain->reqs, ep);
	if (!req) {
		return_fence(ep, core_flags);
		return -FI_EAGAIN;
	}
	req->context = context;
	req->flags = what;
	req->data = data;
	req->addr = at->addr;
	req->key = pmv_key_core(at->key);
	req->counted = true;
	req->report = is_reported(ep, what, flags);
	if (plan.method == PMV_METHOD_READ)
		req->unposted |= PMV_PART_FLUSH;
	/* An atomic carries no immediate. */
	if (notice && plan.notice == PMV_NOTICE_WITH_WRITE && !(what & FI_ATOMIC))
		core_flags |= FI_REMOTE_CQ_DATA;
	else if (notice)
		req->unposted |= PMV_PART_NOTICE;
	atomic_fetch_add(&req->refs, 1 + __builtin_popcount(req->unposted));

	ret = post(ep, op, req, core_flags);
	if (ret) {
		return_fence(ep, core_flags);
		pmv_req_put(&ep->domain->reqs, req);
		return ret;
	}

	/* Accepted: from here on every failure is the completion's to tell. */
	for (size_t i = 0; i < rma_iov_count; i++)
		pmv_note_write(ep, rma_iov[i].key);
	if (what & FI_ATOMIC)
		pmv_note_read(ep);
	if (core_flags & FI_FENCE)
		atomic_fetch_and(&ep->care, ~PMV_CARE_FENCE_NEXT);
	if (post_parts(ep, req) == -FI_EAGAIN)
		stall(ep, req);
	else
		drop_ref(ep, req, 0);
	return 0;
}
