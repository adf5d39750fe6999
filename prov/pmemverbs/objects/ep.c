/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.c -- endpoints: opening, binding, options */
#include "objects/ep.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "auth/admission.h"
#include "base/address.h"
#include "base/log.h"
#include "base/setting.h"
#include "commit/push.h"
#include "commit/run.h"
#include "engine/length.h"
#include "objects/admit.h"
#include "objects/cq.h"
#include "objects/handshake.h"
#include "engine/info.h"
#include "objects/unwrap.h"

static struct pmv_ep *to_ep(struct fid *fid)
{
	return pmv_container_of(fid, struct pmv_ep, ep_fid.fid);
}

/* Binding */

/* set_audience -- of operations whose entries go to a queue that was bound with these flags */
static void set_audience(struct pmv_told told[2], bool read, bool selective)
{
	told[true].audience = read ? PMV_TELL_ALL : PMV_TELL_NOBODY;
	told[false].audience = read && selective ? PMV_TELL_ERROR : told[true].audience;
}

/* bind_core -- messages to and from the agent go without an entry if the core lets us choose */
static int bind_core(struct pmv_ep *ep, struct fid *cq, uint64_t flags)
{
	int ret;

	if ((flags & (FI_TRANSMIT | FI_SELECTIVE_COMPLETION)) != FI_TRANSMIT ||
	    !pmv_engine_can(ep->engine.engine, PMV_ENGINE_QUIET))
		return fi_ep_bind(ep->engine.fid, cq, flags);
	/* The core is called twice: what it would refuse the second time is not begun. */
	if ((flags & FI_RECV) && ep->initiator.owner.rx_queue)
		return -FI_EINVAL;
	ret = fi_ep_bind(ep->engine.fid, cq, (flags & ~FI_RECV) | FI_SELECTIVE_COMPLETION);
	if (ret)
		return ret;
	ep->initiator.tx_always = FI_COMPLETION;
	return flags & FI_RECV ? fi_ep_bind(ep->engine.fid, cq, FI_RECV) : 0;
}

static int bind_cq(struct pmv_ep *ep, struct pmv_cq *cq, uint64_t flags)
{
	bool selective = flags & FI_SELECTIVE_COMPLETION, read = cq != ep->own_cq;
	int ret = bind_core(ep, &cq->queue.core_fid->fid, flags);

	if (ret)
		return ret;
	if (flags & FI_TRANSMIT) {
		ep->initiator.owner.tx_queue = &cq->queue;
		pmv_queue_join(&cq->queue, &ep->initiator.owner);
		set_audience(ep->initiator.tx_told, read, selective);
	}
	if (flags & FI_RECV) {
		ep->initiator.owner.rx_queue = &cq->queue;
		/*
		 * Where immediate data may use it up, every receive is reported, as immediate data
		 * always are.
		 */
		set_audience(ep->initiator.rx_told, read,
			     selective && !ep->domain->engine.core->imm_receives);
		ep->mailbox.receiver.notice_queue = read ? &cq->queue : NULL;
		ep->mailbox.receiver.events.queue = selective ? NULL : &cq->queue;
	}
	return 0;
}

static int bind_cntr(struct pmv_ep *ep, struct pmv_cntr *cntr, uint64_t flags)
{
	static const struct {
		uint64_t flag;
		enum pmv_count_kind kind;
		enum pmv_slow_path slow;
	} kinds[] = {
		{FI_SEND, PMV_COUNT_SEND, PMV_SLOW_COUNT_TX},
		{FI_RECV, PMV_COUNT_RECV, PMV_SLOW_COUNT_RX},
		{FI_READ, PMV_COUNT_READ, PMV_SLOW_COUNT_TX},
		{FI_WRITE, PMV_COUNT_WRITE, PMV_SLOW_COUNT_TX},
		{FI_REMOTE_WRITE, PMV_COUNT_REMOTE_WRITE, 0},
	};
	uint64_t possible = FI_SEND | FI_RECV | FI_READ | FI_WRITE |
			    (ep->mailbox.receiver.events.wanted ? FI_REMOTE_WRITE : 0);

	/* Only the core knows what peers read here. */
	if (flags & ~possible) {
		PMV_WARN(EP_CTRL, "a counter can't be bound: an endpoint counts only the writes of "
				  "its peer, and only if it was opened with FI_RMA_EVENT\n");
		return -FI_ENOSYS;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!(flags & kinds[i].flag))
			continue;
		if (ep->initiator.counts[kinds[i].kind])
			return -FI_EINVAL;
		ep->initiator.counts[kinds[i].kind] = &cntr->count;
		atomic_fetch_add(&cntr->users, 1);
		pmv_initiator_begin_count(&ep->initiator, kinds[i].slow);
	}
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmv_ep *ep = to_ep(fid);
	struct fid *core_fid = pmv_unwrap_fid(bfid);
	int ret;

	if (!core_fid && bfid->ops != &pmv_cntr_fi_ops) {
		PMV_WARN(EP_CTRL, "another provider's object, or one of FI_EP_RDM, can't be bound "
				  "to an endpoint of FI_EP_MSG\n");
		return -FI_EINVAL;
	}
	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		return bind_cq(ep, pmv_container_of(bfid, struct pmv_cq, cq_fid.fid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, pmv_container_of(bfid, struct pmv_cntr, cntr_fid.fid), flags);
	case FI_CLASS_SRX_CTX:
		/* Its receives are other peers', too, so that they can't be held: held.h. */
		if (!pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_UNKNOWN)) {
			PMV_WARN(EP_CTRL, "with FI_PMEMVERBS_KEYS an endpoint that connects can't "
					  "receive from a shared context\n");
			return -FI_EOPNOTSUPP;
		}
		if (ep->receives.one_kind) {
			PMV_WARN(EP_CTRL, "FI_OPT_PMEMVERBS_RECV_MR is not for endpoints that "
					  "receive from a shared context\n");
			return -FI_EINVAL;
		}
		/* fall through */
	default:
		ret = fi_ep_bind(ep->engine.fid, core_fid, flags);
		if (!ret && bfid->fclass == FI_CLASS_EQ && !ep->eq) {
			ep->eq = pmv_container_of(bfid, struct pmv_eq, eq_fid.fid);
			pmv_eq_join(ep->eq, ep);
		}
		if (!ret && bfid->fclass == FI_CLASS_SRX_CTX) {
			ep->srx = true;
			/* Other endpoints use up its receives, too. */
			atomic_store(&ep->receives.on, false);
		}
		return ret;
	}
}

/*
 * bind_own_cq -- where the application has bound no CQ: counters need completions, the
 * agent's acknowledgements need a transmit queue, and some cores need a CQ in each
 * direction
 */
static int bind_own_cq(struct pmv_ep *ep)
{
	uint64_t flags = (ep->initiator.owner.tx_queue ? 0 : FI_TRANSMIT) |
			 (ep->initiator.owner.rx_queue ? 0 : FI_RECV);
	bool counts =
		!pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_COUNT_TX | PMV_SLOW_COUNT_RX) ||
		ep->mailbox.receiver.events.wanted;
	bool acknowledges =
		ep->domain->keyed && !ep->initiator.owner.tx_queue && ep->initiator.owner.rx_queue;
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fid_cq *cq_fid;
	int ret;

	if (!flags || !(counts || acknowledges || ep->domain->engine.core->needs_cqs))
		return 0;
	if (!counts && flags == (FI_TRANSMIT | FI_RECV))
		return 0;
	if (!ep->own_cq) {
		ret = pmv_cq_open(&ep->domain->domain_fid, &attr, &cq_fid, NULL);
		if (ret)
			return ret;
		ep->own_cq = pmv_to_cq(cq_fid);
		ep->own_cq->queue.discards = true;
	}
	return bind_cq(ep, ep->own_cq, flags | FI_SELECTIVE_COMPLETION);
}

int pmv_ep_prepare(struct pmv_ep *ep)
{
	int ret;

	if (ep->prepared)
		return 0;
	/* The shared context has its receives, and they are not counted here. */
	if (ep->srx && ep->initiator.counts[PMV_COUNT_RECV]) {
		PMV_WARN(EP_CTRL, "receives of a shared context can't be counted\n");
		return -FI_ENOSYS;
	}
	ret = bind_own_cq(ep);
	if (ret)
		return ret;
	for (int i = 0; i < PMV_COUNT_KINDS; i++) {
		if (!ep->initiator.counts[i])
			continue;
		ep->sources[i].queue = pmv_ep_queue(ep, i);
		pmv_cntr_add(pmv_ep_cntr(ep, i), &ep->sources[i]);
	}
	ep->mailbox.receiver.events.count = ep->initiator.counts[PMV_COUNT_REMOTE_WRITE];
	ep->prepared = true;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	int ret = command == FI_ENABLE ? pmv_ep_prepare(to_ep(fid)) : 0;

	return ret ? ret : pmv_unwrap_control(fid, command, arg);
}

/* ep_ops_open -- a core's private ops take the core's fids, so they are not handed through */
static int ep_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void) context;
	return strcmp(name, FI_PMEMVERBS_CHAIN_OPS)
		       ? -FI_ENOSYS
		       : pmv_chain_ops_open(to_ep(fid)->domain, flags, ops);
}

struct fi_ops pmv_ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = pmv_ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = ep_ops_open,
};

/* Options and the rest */

static ssize_t ep_cancel(struct fid *fid, void *context)
{
	struct pmv_ep *ep = to_ep(fid);
	struct pmv_op *op = NULL;
	ssize_t ret;

	/* The core knows a counted receive by its operation. */
	if (!pmv_initiator_is_fast(&ep->initiator, PMV_SLOW_COUNT_RX))
		op = pmv_op_find(&ep->initiator.owner, context);
	if (pmv_held_cancel(ep, context, false))
		return 0;
	if (!atomic_load(&ep->receives.on))
		return fi_cancel(&ep->engine.fid->fid, op ? op : context);
	pthread_mutex_lock(&ep->receives.lock);
	ret = fi_cancel(&ep->engine.fid->fid, op ? op : context);
	/* tcp says so whether or not it was in time. */
	if (!ret)
		ep->receives.cancelled++;
	pthread_mutex_unlock(&ep->receives.lock);
	return ret;
}

/* set_recv_mr -- before the peer is told, and before any receive in other memory */
static int set_recv_mr(struct pmv_ep *ep, const void *optval, size_t optlen)
{
	struct fid_mr *mr_fid;
	struct pmv_attr kind;
	int ret = 0;

	if (optlen != sizeof(mr_fid))
		return -FI_EINVAL;
	memcpy(&mr_fid, optval, sizeof(mr_fid));
	if (ep->srx || !mr_fid || !pmv_mr_kind(ep->domain, mr_fid, &kind)) {
		PMV_WARN(EP_CTRL,
			 "FI_OPT_PMEMVERBS_RECV_MR needs a region of the endpoint's domain, opened "
			 "with FI_RMA_PMEM, that was registered with FI_RMA_PMEM and FI_RECV or "
			 "FI_REMOTE_WRITE; and an endpoint without a shared receive context\n");
		return -FI_EINVAL;
	}
	pthread_mutex_lock(&ep->receives.lock);
	if (ep->receives.posted || ep->mailbox.link.opened) {
		ret = -FI_EBUSY;
	} else {
		ep->receives.kind = kind;
		ep->receives.one_kind = true;
	}
	pthread_mutex_unlock(&ep->receives.lock);
	if (ret)
		PMV_WARN(EP_CTRL, "FI_OPT_PMEMVERBS_RECV_MR has to be set before the endpoint is "
				  "connected or accepted, and before its first receive\n");
	return ret;
}

static int set_writes_pass(struct pmv_ep *ep, const void *optval, size_t optlen)
{
	int passes;

	if (optlen != sizeof(passes))
		return -FI_EINVAL;
	memcpy(&passes, optval, sizeof(passes));
	atomic_store(&ep->initiator.passes, passes);
	return 0;
}

static int ep_setopt(struct fid *fid, int level, int optname, const void *optval, size_t optlen)
{
	if (level == FI_OPT_ENDPOINT && optname == FI_OPT_PMEMVERBS_WRITES_PASS)
		return set_writes_pass(to_ep(fid), optval, optlen);
	if (level == FI_OPT_ENDPOINT && optname == FI_OPT_PMEMVERBS_RECV_MR)
		return set_recv_mr(to_ep(fid), optval, optlen);
	return pmv_unwrap_setopt(fid, level, optname, optval, optlen);
}

static int ep_no_tx_ctx(struct fid_ep *fid, int index, struct fi_tx_attr *attr,
			struct fid_ep **tx_ep, void *context)
{
	(void) fid, (void) index, (void) attr, (void) tx_ep, (void) context;
	return -FI_ENOSYS;
}

static int ep_no_rx_ctx(struct fid_ep *fid, int index, struct fi_rx_attr *attr,
			struct fid_ep **rx_ep, void *context)
{
	(void) fid, (void) index, (void) attr, (void) rx_ep, (void) context;
	return -FI_ENOSYS;
}

static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
	struct fid_ep *core_fid = pmv_to_ep(fid)->engine.fid;

	return core_fid->ops->rx_size_left(core_fid);
}

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
	struct fid_ep *core_fid = pmv_to_ep(fid)->engine.fid;

	return core_fid->ops->tx_size_left(core_fid);
}

struct fi_ops_ep pmv_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = pmv_admit_getopt,
	.setopt = ep_setopt,
	.tx_ctx = ep_no_tx_ctx,
	.rx_ctx = ep_no_rx_ctx,
	.rx_size_left = ep_rx_size_left,
	.tx_size_left = ep_tx_size_left,
};

/* join -- hand each layer what it needs of the others */
static void join(struct pmv_ep *ep, const struct fi_info *info, const struct fi_info *core_info)
{
	size_t max_places = core_info->tx_attr ? core_info->tx_attr->rma_iov_limit : 0;
	size_t rx_size = core_info->rx_attr ? core_info->rx_attr->size : 0;
	struct pmv_domain *domain = ep->domain;
	struct pmv_initiator *ini = &ep->initiator;

	ep->initiator.owner.given_up = pmv_ep_may_watch(ep) ? &ep->silence.given_up : NULL;
	pmv_engine_join(&ep->engine, &domain->engine);
	pmv_mailbox_init(&ep->mailbox);
	ep->mailbox.link.engine = &ep->engine;
	ep->mailbox.link.agent = &domain->agent;
	ep->mailbox.link.hints = &domain->agent.hints;
	ep->mailbox.link.owner = &ep->initiator.owner;
	ep->mailbox.link.life = domain->life;
	ep->mailbox.receiver.receives = &ep->receives;
	ep->mailbox.receiver.takes_notices = !(info->mode & FI_RX_CQ_DATA);
	ep->mailbox.receiver.events.wanted = pmv_info_has_events(info);
	ep->tx_op_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_op_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	pmv_receive_tracker_init(&ep->receives, rx_size, domain->pmem && domain->keyed);
	ini->engine = &ep->engine;
	ini->mailbox = &ep->mailbox;
	ini->hooks = domain->hooks;
	ini->keyed = domain->keyed;
	ini->max_places = max_places && max_places < PMV_MAX_RMA ? max_places : PMV_MAX_RMA;
	atomic_init(&ini->slow,
		    (pmv_engine_can(&domain->engine, PMV_ENGINE_FENCE) ? 0 : PMV_SLOW_READS) |
			    (pmv_setting.commit_all ? PMV_SLOW_ALL : 0) |
			    (domain->hooks ? PMV_SLOW_HOOKS : 0));
	pmv_held_init(&ep->held, rx_size ? rx_size : SIZE_MAX);
	pmv_initiator_init(ini);
	pmv_push_init(ini);
}

static int check_info(const struct pmv_domain *domain, const struct fi_info *info)
{
	if (info->ep_attr && info->ep_attr->type == FI_EP_RDM) {
		PMV_WARN(EP_CTRL, "an endpoint of FI_EP_RDM needs a domain of FI_EP_RDM\n");
		return -FI_EINVAL;
	}
	if (pmv_info_has_events(info) && !domain->events) {
		PMV_WARN(EP_CTRL, "an endpoint with FI_RMA_EVENT needs a domain that was opened "
				  "with it\n");
		return -FI_EINVAL;
	}
	return 0;
}

int pmv_ep_open(struct fid_domain *domain_fid, struct fi_info *info, struct fid_ep **ep_fid,
		void *context)
{
	struct pmv_domain *domain = pmv_to_domain(domain_fid);
	struct fi_info *core_info = pmv_unwrap_info(domain->engine.core, info);
	struct pmv_ep *ep = calloc(1, sizeof(*ep));
	int ret = -FI_ENOMEM;

	if (!core_info || !ep)
		goto free;
	ret = check_info(domain, info);
	if (ret)
		goto free;
	ret = pmv_op_owner_open(&ep->initiator.owner, &domain->ops);
	if (ret)
		goto free;
	/* tcp of 1.17 would add it to all that is posted. */
	if (pmv_engine_can(&domain->engine, PMV_ENGINE_QUIET))
		core_info->tx_attr->op_flags &= ~FI_COMPLETION;
	ret = fi_endpoint(domain->engine.domain_fid, core_info, &ep->engine.fid, ep);
	if (ret) {
		pmv_op_owner_close(&ep->initiator.owner);
		goto free;
	}
	ep->domain = domain;
	if (pmv_address_len(core_info->src_addr))
		memcpy(&ep->source, core_info->src_addr, pmv_address_len(core_info->src_addr));
	join(ep, info, core_info);
	ep->ep_fid = (struct fid_ep){
		.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &pmv_ep_fi_ops},
		.ops = &pmv_ep_ops,
		.cm = &pmv_ep_cm_ops,
		.msg = &pmv_msg_ops,
		.rma = &pmv_rma_ops,
		.atomic = pmv_ep_atomic(ep),
	};
	atomic_fetch_add(&domain->users, 1);
	pthread_mutex_lock(&domain->tally.lock);
	LIST_INSERT_HEAD(&domain->tally.eps, ep, next);
	pthread_mutex_unlock(&domain->tally.lock);
	if (info->handle)
		pmv_handshake_take(domain->fabric, core_info->handle, ep);
	if (pmv_admission_is_on() && !ep->admission)
		atomic_fetch_or(&ep->initiator.slow, PMV_SLOW_UNKNOWN);
	*ep_fid = &ep->ep_fid;
	fi_freeinfo(core_info);
	return 0;

free:
	free(ep);
	if (core_info)
		fi_freeinfo(core_info);
	return ret;
}
