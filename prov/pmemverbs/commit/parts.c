/* SPDX-License-Identifier: BSD-2-Clause */
/* parts.c -- requests, and the parts of commits: posted, waited for, completed */
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "commit/commit.h"
#include "commit/group.h"
#include "commit/flush_request.h"
#include "commit/lost_writes.h"
#include "base/log.h"

/* So long nothing has to be heard of a letter until it is asked whether anybody is there. */
#define PROBE_NS INT64_C(200000000)

/* Requests */

static void ended(struct pmv_op_owner *owner, struct pmv_op *op)
{
	struct pmv_ep *ep = pmv_container_of(owner, struct pmv_ep, owner);
	struct pmv_commit_op *req = pmv_commit_op(op);
	int err = atomic_load(&op->error);
	struct pmv_count *count = ep->counts[pmv_count_kind(op->flags)];

	if (req->covers)
		pmv_cover_done(ep, req);
	for (unsigned int i = 0; !err && i < req->num_regions; i++)
		pmv_lost_writes_committed(ep->peer, req->regions[i], req->writes);
	if (req->is_read)
		atomic_fetch_sub(&ep->reads, 1);
	if (req->is_probe)
		atomic_store(&ep->probing, false);
	if (req->is_repeat)
		atomic_store(&ep->repeating, false);
	if (count && req->counted)
		pmv_count_add(count, !err);
	pmv_flush_request_free(req->letter);
	pmv_postponed_free(req->deferred);
	req->letter = NULL;
	req->deferred = NULL;
}

static void lost(struct pmv_op_owner *owner)
{
	atomic_store(&pmv_container_of(owner, struct pmv_ep, owner)->broken, true);
}

static enum pmv_pending push_tx(struct pmv_waiter *waiter, bool looking)
{
	return pmv_ep_push(pmv_container_of(waiter, struct pmv_ep, on_tx), looking);
}

static enum pmv_pending push_rx(struct pmv_waiter *waiter, bool looking)
{
	return pmv_ep_push(pmv_container_of(waiter, struct pmv_ep, on_rx), looking);
}

static unsigned initial_slow(const struct pmv_ep *ep)
{
	return (pmv_engine_can(ep->engine.engine, PMV_ENGINE_FENCE) ? 0 : PMV_SLOW_READS) |
	       (ep->tx_op_flags & FI_COMMIT_COMPLETE ? PMV_SLOW_COMMIT : 0) |
	       (pmv_setting.commit_all ? PMV_SLOW_ALL : 0);
}

void pmv_commit_init(struct pmv_ep *ep)
{
	ep->owner.ended = ended;
	ep->owner.lost = lost;
	ep->on_tx.push = push_tx;
	ep->on_rx.push = push_rx;
	ep->stalled_tail = &ep->stalled;
	ep->awaiting_tail = &ep->awaiting;
	ep->covered_tail = &ep->covered;
	atomic_init(&ep->slow, initial_slow(ep));
	pthread_mutex_init(&ep->lock, NULL);
	pthread_mutex_init(&ep->order_lock, NULL);
	pthread_mutex_init(&ep->mark_lock, NULL);
	pthread_mutex_init(&ep->send_lock, NULL);
}

/* slow_for_messages -- what a commit has to know of those that were sent before it */
static unsigned slow_for_messages(const struct pmv_ep *ep)
{
	const struct pmv_handshake *peer = &ep->mailbox.peer;

	if (ep->message_method != PMV_METHOD_AGENT)
		return pmv_ordered_by_flush(&peer->received) ? PMV_SLOW_SENDS : 0;
	if (!peer->messages)
		return 0;
	return PMV_SLOW_SENDS | (ep->engine.engine->core->imm_receives ? PMV_SLOW_IMMEDIATES : 0);
}

void pmv_commit_connected(struct pmv_ep *ep)
{
	const struct pmv_handshake *peer = &ep->mailbox.peer;

	ep->message_method = pmv_message_method(peer->one_kind ? &peer->received : NULL,
						ep->engine.engine->transport);
	atomic_fetch_or(&ep->slow, slow_for_messages(ep));
	/* Any message may be one of those; more than a needless flush it can't cost. */
	if (ep->message_method == PMV_METHOD_READ)
		atomic_store(&ep->wrote_flush, true);
}

void pmv_commit_abandoned(struct pmv_ep *ep, struct pmv_op *op)
{
	struct pmv_commit_op *req = pmv_commit_op(op);
	struct pmv_count *count = ep->counts[pmv_count_kind(op->flags)];

	if (count && req->counted)
		pmv_count_add(count, false);
	/* What waits for this flush waits no more. */
	while (req->covers) {
		struct pmv_commit_op *covered = req->covers;

		req->covers = covered->cover_next;
		covered->cover_next = ep->covered;
		ep->covered = covered;
	}
	pmv_flush_request_free(req->letter);
	pmv_postponed_free(req->deferred);
	req->letter = NULL;
	req->deferred = NULL;
}

/* part_done -- of a request that somebody else holds a reference to as well */
static void part_done(struct pmv_ep *ep, struct pmv_commit_op *req, int err)
{
	pmv_op_done(&ep->domain->ops, &req->op, err, 0);
}

void pmv_commit_release(struct pmv_ep *ep)
{
	while (ep->covered) {
		struct pmv_commit_op *req = ep->covered;

		ep->covered = req->cover_next;
		part_done(ep, req, 0);
	}
}

void pmv_op_drop(struct pmv_ep *ep, struct pmv_commit_op *req, int err)
{
	if (pmv_op_done(&ep->domain->ops, &req->op, err, 0))
		pmv_queue_add(ep->owner.tx_queue, &req->op.comp);
}

/* Parts */

static ssize_t post_read(struct pmv_ep *ep, struct pmv_commit_op *req, uint64_t addr, size_t len,
			 uint64_t key)
{
	struct pmv_domain *domain = ep->domain;
	struct iovec iov = {.iov_base = domain->engine.scratch, .iov_len = len};
	struct fi_rma_iov rma_iov = {.addr = addr, .len = len, .key = key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &domain->engine.scratch_desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = &req->op,
	};

	return fi_readmsg(ep->engine.fid, &msg, FI_COMPLETION);
}

static ssize_t post_flush(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	return post_read(ep, req, req->addr, 1, req->key);
}

void pmv_flush_at_page(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	pmv_mailbox_flush_place(&ep->mailbox, &req->addr, &req->key);
}

/*
 * read_back -- without an order among writes a READ pushes only what it reads: all
 * that the letter names, then.  Each READ has a reference of its own.
 */
static ssize_t read_back(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	struct pmv_range range;

	while (pmv_flush_request_unread(req->letter, PMV_SCRATCH_SIZE, &range)) {
		ssize_t ret;

		atomic_fetch_add(&req->op.pending, 1);
		ret = post_read(ep, req, range.addr, range.len, range.key);
		if (ret) {
			atomic_fetch_sub(&req->op.pending, 1);
			return ret;
		}
		pmv_flush_request_was_read(req->letter, range.len);
	}
	return 0;
}

static ssize_t post_notice(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	const uint64_t flags = FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_FENCE;
	struct pmv_domain *domain = ep->domain;
	struct iovec iov = {.iov_base = domain->engine.scratch, .iov_len = 0};
	/* The flush page of a letter's READ may not be written, not even without a byte. */
	struct fi_rma_iov rma_iov = {
		.addr = req->letter ? ep->mailbox.peer.addr : req->addr,
		.key = req->letter ? ep->mailbox.peer.key : req->key,
	};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = domain->engine.scratch_desc ? &domain->engine.scratch_desc : NULL,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = &req->op,
		.data = req->data,
	};
	bool counted = pmv_count_begin(ep, PMV_SLOW_IMMEDIATES);

	return pmv_count_end(ep, counted, fi_writemsg(ep->engine.fid, &msg, flags));
}

ssize_t pmv_flush_ordered(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	bool ordered = atomic_exchange(&ep->wrote_ordered, false);
	ssize_t ret = post_flush(ep, req);

	if (!ret)
		atomic_store(&ep->fence_due, true);
	else if (ordered)
		atomic_store(&ep->wrote_ordered, true);
	return ret;
}

static ssize_t flush(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	bool reads = req->letter && pmv_flush_request_reads_back(req->letter);
	ssize_t ret = reads ? read_back(ep, req) : 0;

	if (ret)
		return ret;
	if (!atomic_load(&ep->wrote_ordered)) {
		if (!reads)
			return post_flush(ep, req);
		/* The part itself has nothing to wait for. */
		part_done(ep, req, 0);
		return 0;
	}
	pthread_mutex_lock(&ep->order_lock);
	ret = pmv_flush_ordered(ep, req);
	pthread_mutex_unlock(&ep->order_lock);
	return ret;
}

/* Letters to the agent, and what comes of them.  All hold the endpoint's lock. */

static void update_slow(struct pmv_ep *ep)
{
	if (ep->stalled || ep->deferred || ep->mailbox.acked < ep->riding)
		atomic_fetch_or(&ep->slow, PMV_SLOW_CLOSED);
	else
		atomic_fetch_and(&ep->slow, ~PMV_SLOW_CLOSED);
}

static void enqueue(struct pmv_commit_op *req, struct pmv_commit_op ***tail)
{
	req->next = NULL;
	**tail = req;
	*tail = &req->next;
}

static struct pmv_commit_op *dequeue(struct pmv_commit_op **head, struct pmv_commit_op ***tail)
{
	struct pmv_commit_op *req = *head;

	*head = req->next;
	if (!*head)
		*tail = head;
	return req;
}

/* requeue -- in front of the others that are stalled, where it was */
static void requeue(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	req->next = ep->stalled;
	if (!req->next)
		ep->stalled_tail = &req->next;
	ep->stalled = req;
}

/*
 * post_letter -- also after an error: later letters rely on that this one was
 * sent.  But then the agent is not to store, nor to notify.
 */
static ssize_t post_letter(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	ssize_t ret = -FI_ECANCELED;

	if (atomic_load(&req->op.error))
		pmv_flush_request_mute(req->letter);
	if (!atomic_load(&ep->broken))
		ret = pmv_flush_request_post(ep, req, atomic_load(&ep->fence_due));
	if (ret == -FI_EAGAIN)
		return ret;
	if (ret) {
		/* What it took will not be made durable. */
		ep->dirty.lost = true;
		atomic_fetch_sub(&ep->mailbox.unacked, 1);
		return ret;
	}
	if (pmv_flush_request_carries(req->letter))
		ep->riding = pmv_flush_request_last(req->letter);
	if (req->deferred)
		ep->deferred++;
	if (!ep->awaiting)
		ep->heard_ns = pmv_now_ns();
	enqueue(req, &ep->awaiting_tail);
	return 0;
}

/*
 * answered -- the agent has done what the letter said, or err; the letter's
 * reference goes.  What had to wait for that is posted next.
 */
static void answered(struct pmv_ep *ep, struct pmv_commit_op *req, int err)
{
	atomic_fetch_sub(&ep->mailbox.unacked, 1);
	if (req->deferred)
		ep->deferred--;
	if (!err && !atomic_load(&req->op.error) && (req->deferred || req->notice_later)) {
		req->unposted |= req->deferred ? PMV_PART_OPERATION : PMV_PART_NOTICE;
		req->notice_later = false;
		/* The part's, and that of its place in the queue. */
		atomic_fetch_add(&req->op.pending, 2);
		enqueue(req, &ep->stalled_tail);
	}
	pmv_op_drop(ep, req, err);
}

static void mark_failed(struct pmv_commit_op *req, int err)
{
	int none = 0;

	atomic_compare_exchange_strong(&req->op.error, &none, err);
}

static int fault_errno(enum pmv_fault fault)
{
	switch (fault) {
	case PMV_FAULT_NONE:
		return 0;
	case PMV_FAULT_ACCESS:
		return FI_EACCES;
	case PMV_FAULT_IO:
		return FI_EIO;
	case PMV_FAULT_MEMORY:
		return FI_ENOMEM;
	case PMV_FAULT_MESSAGE:
		break;
	}
	return FI_EINVAL;
}

/*
 * take_fault -- one message of a letter went wrong, and so the letter; and with
 * it those fenced ones that stand behind it, as it is not done before them
 */
static void take_fault(struct pmv_ep *ep, const struct pmv_ack *ack)
{
	struct pmv_commit_op *const heads[] = {ep->awaiting, ep->stalled};

	if (!ack->fault)
		return;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		for (struct pmv_commit_op *req = heads[i]; req; req = req->next) {
			if (req->letter && (pmv_flush_request_has(req->letter, ack->done) ||
					    pmv_flush_request_is_for_all(req->letter)))
				mark_failed(req, fault_errno(ack->fault));
		}
	}
}

static void fail_all(struct pmv_ep *ep)
{
	for (struct pmv_commit_op *req = ep->stalled; req; req = req->next) {
		if (req->letter)
			mark_failed(req, FI_ECANCELED);
	}
	while (ep->awaiting)
		answered(ep, dequeue(&ep->awaiting, &ep->awaiting_tail), FI_ECANCELED);
	ep->riding = 0;
}

static void take_acks(struct pmv_ep *ep)
{
	enum pmv_arrival arrival = PMV_NOT_YET;
	struct pmv_ack ack;

	while (ep->mailbox.acked < ep->mailbox.sent &&
	       (arrival = pmv_mailbox_take_ack(&ep->mailbox, &ack)) == PMV_ARRIVED) {
		ep->heard_ns = pmv_now_ns();
		take_fault(ep, &ack);
		while (ep->awaiting && pmv_flush_request_last(ep->awaiting->letter) <= ack.done)
			answered(ep, dequeue(&ep->awaiting, &ep->awaiting_tail), 0);
	}
	if (arrival == PMV_MALFORMED && !atomic_exchange(&ep->broken, true))
		PMV_WARN(EP_DATA, "the target's agent acknowledges what it was not told of: it is "
				  "not believed any more on this connection\n");
	if (atomic_load(&ep->broken))
		fail_all(ep);
}

/* post_own -- something that no request of the application's needs; -FI_EAGAIN: not now */
static ssize_t post_own(struct pmv_ep *ep,
			ssize_t (*post)(struct pmv_ep *ep, struct pmv_commit_op *req))
{
	struct pmv_commit_op *req = pmv_commit_op(pmv_op_get_own(&ep->owner));
	ssize_t ret;

	if (!req)
		return -FI_EAGAIN;
	req->op.audience = PMV_TELL_NOBODY;
	ret = post(ep, req);
	if (ret)
		pmv_op_put(&ep->domain->ops, &req->op);
	return ret;
}

static ssize_t post_probe(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	ssize_t ret;

	req->is_probe = true;
	pmv_flush_at_page(ep, req);
	atomic_store(&ep->probing, true);
	ret = post_flush(ep, req);
	if (ret)
		atomic_store(&ep->probing, false);
	return ret;
}

/* post_repeat -- one at a time: what it sends stays until it has been sent */
static ssize_t post_repeat(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	ssize_t ret;

	req->is_repeat = true;
	atomic_store(&ep->repeating, true);
	ret = pmv_mailbox_repeat(&ep->mailbox, &req->op);
	if (ret)
		atomic_store(&ep->repeating, false);
	return ret;
}

static ssize_t post_ask(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	return pmv_mailbox_ask(&ep->mailbox, &req->op);
}

/*
 * probe -- a target that dies after its NIC has taken the letter leaves nothing
 * behind that could fail: so have something fail.  And others may have overwritten
 * what was sent, or its acknowledgement: wire.h, Repair.
 */
static void probe(struct pmv_ep *ep)
{
	ssize_t ret;

	if (!ep->awaiting || atomic_load(&ep->probing) || pmv_now_ns() - ep->heard_ns < PROBE_NS)
		return;
	ret = post_own(ep, post_probe);
	if (ret == -FI_EAGAIN)
		return;
	ep->heard_ns = pmv_now_ns();
	if (!ret && pmv_mailbox_misses_ack(&ep->mailbox)) {
		PMV_WARN(EP_DATA, "somebody has overwritten an acknowledgement of the target's "
				  "agent: commits on this connection fail from here on\n");
		ret = -FI_ECANCELED;
	}
	if (!ret && !atomic_load(&ep->repeating))
		ret = post_own(ep, post_repeat);
	if (!ret && pmv_mailbox_may_ask(&ep->mailbox))
		ret = post_own(ep, post_ask);
	if (ret && ret != -FI_EAGAIN)
		atomic_store(&ep->broken, true);
}

ssize_t pmv_post_parts(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	static const struct {
		enum pmv_part part;
		ssize_t (*post)(struct pmv_ep *ep, struct pmv_commit_op *req);
	} parts[] = {
		{PMV_PART_OPERATION, pmv_commit_deferred},
		{PMV_PART_FLUSH, flush},
		{PMV_PART_LETTER, post_letter},
		{PMV_PART_NOTICE, post_notice},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		ssize_t ret;

		if (!(req->unposted & parts[i].part))
			continue;
		/*
		 * After an error the target must not hear of success; but later letters
		 * rely on this one, and on what it reads back.
		 */
		ret = -FI_ECANCELED;
		if (!atomic_load(&req->op.error) || parts[i].part == PMV_PART_LETTER ||
		    (parts[i].part == PMV_PART_FLUSH && req->letter))
			ret = parts[i].post(ep, req);
		if (ret == -FI_EAGAIN)
			return ret;
		req->unposted &= ~parts[i].part;
		if (ret)
			part_done(ep, req, (int) -ret);
	}
	return 0;
}

enum pmv_pending pmv_ep_push(struct pmv_ep *ep, bool looking)
{
	enum pmv_pending pending;

	pthread_mutex_lock(&ep->lock);
	take_acks(ep);
	while (ep->stalled) {
		struct pmv_commit_op *req = dequeue(&ep->stalled, &ep->stalled_tail);

		if (pmv_post_parts(ep, req) == -FI_EAGAIN) {
			requeue(ep, req);
			break;
		}
		pmv_op_drop(ep, req, 0);
	}
	pmv_cover_next(ep, looking);
	probe(ep);
	update_slow(ep);
	pending = ep->stalled    ? PMV_PENDING_POSTS
		  : ep->awaiting ? PMV_PENDING_ACKS
				 : pmv_cover_pending(ep);
	pthread_mutex_unlock(&ep->lock);
	return pending;
}

void pmv_ep_stall(struct pmv_ep *ep)
{
	pmv_queue_wait(ep->owner.tx_queue, &ep->on_tx);
	/* Who waits for what the target does in return may read the other one only. */
	if (ep->owner.rx_queue && ep->owner.rx_queue != ep->owner.tx_queue)
		pmv_queue_wait(ep->owner.rx_queue, &ep->on_rx);
}

void pmv_ep_break(struct pmv_ep *ep)
{
	atomic_store(&ep->broken, true);
	if (ep->owner.tx_queue && atomic_load(&ep->mailbox.unacked))
		pmv_queue_wake(ep->owner.tx_queue);
}

void pmv_ep_drop_pending(struct pmv_ep *ep)
{
	pthread_mutex_lock(&ep->lock);
	while (ep->stalled) {
		struct pmv_commit_op *req = dequeue(&ep->stalled, &ep->stalled_tail);

		if (req->unposted & PMV_PART_LETTER)
			atomic_fetch_sub(&ep->mailbox.unacked, 1);
		for (unsigned left = req->unposted; left; left &= left - 1)
			part_done(ep, req, FI_ECANCELED);
		req->unposted = 0;
		pmv_op_drop(ep, req, 0);
	}
	while (ep->awaiting)
		answered(ep, dequeue(&ep->awaiting, &ep->awaiting_tail), FI_ECANCELED);
	pmv_cover_drop(ep);
	update_slow(ep);
	pthread_mutex_unlock(&ep->lock);
}

void pmv_post_or_queue(struct pmv_ep *ep, struct pmv_commit_op *req)
{
	if (ep->stalled || pmv_post_parts(ep, req) == -FI_EAGAIN)
		enqueue(req, &ep->stalled_tail);
	else
		pmv_op_drop(ep, req, 0);
	update_slow(ep);
}
