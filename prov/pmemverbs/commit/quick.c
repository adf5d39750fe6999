/* SPDX-License-Identifier: BSD-2-Clause */
/* quick.c -- the ordinary one-sided commit; quick.h says which */
#include "commit/quick.h"

#include <stddef.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "commit/start.h"

/* get_run -- as pmv_run_get, but only what an ordinary commit uses is set */
static inline struct pmv_run *get_run(struct pmv_initiator *ini, void *context, uint64_t flags)
{
	struct pmv_run *run = pmv_to_run(pmv_op_take(&ini->owner, PMV_OP_APPLICATION));

	if (!run)
		return NULL;
	run->op.context = context;
	run->op.flags = FI_RMA | FI_WRITE;
	run->op.audience = ini->owner.tx_queue == ini->unread              ? PMV_TELL_NOBODY
			   : (flags & FI_COMPLETION) || !ini->tx_selective ? PMV_TELL_ALL
									   : PMV_TELL_ERROR;
	run->op.ordinary = !ini->counts[PMV_COUNT_WRITE];
	run->request = NULL;
	run->kept = NULL;
	run->under_way = NULL;
	run->num_regions = 0;
	run->counted = true;
	run->event_only = run->fetches = run->unacked = false;
	pmv_op_set_owner(&run->op, &ini->owner);
	return run;
}

/* go_on -- as after pmv_start: `posted` steps are done */
static ssize_t go_on(struct pmv_run *run, const struct fi_msg_rma *msg, size_t posted, ssize_t ret)
{
	memset(&run->plan, 0, sizeof(*run) - offsetof(struct pmv_run, plan));
	run->plan = pmv_plan_operation(&(struct pmv_choice){.method = PMV_METHOD_READ},
				       &(struct pmv_plan_facts){0});
	run->at = (unsigned int) posted;
	run->place_addr = msg->rma_iov->addr;
	run->place_key = msg->rma_iov->key;
	if (posted) {
		pmv_start_go_on(run, ret);
		return 0;
	}
	pmv_initiator_uncount(pmv_run_initiator(run), PMV_METHOD_READ);
	if (ret != -FI_EAGAIN)
		pmv_initiator_count(pmv_run_initiator(run), PMV_METHOD_REFUSED);
	pmv_run_posting(run, -1);
	pmv_start_refuse(run);
	return ret;
}

/* post -- both, if there is room; *posted: so many were */
static inline ssize_t post(struct pmv_run *run, const struct pmv_engine_ep *ep,
			   const struct fi_msg_rma *msg, size_t *posted)
{
	const struct fi_rma_iov *at = msg->rma_iov;
	const struct fi_rma_iov to = {at->addr, at->len, (uint32_t) at->key};
	const struct fi_rma_iov from = {at->addr, 1, (uint32_t) at->key};
	const struct iovec scratch = {ep->engine->scratch, 1};
	const struct fi_msg_rma write = {msg->msg_iov, msg->desc, 1, msg->addr, &to, 1, run, 0};
	const struct fi_msg_rma read = {&scratch, &ep->engine->scratch_desc, 1, 0, &from, 1, run,
					0};

	return ep->ops->write_read(ep, &write, &read, FI_COMPLETION, posted);
}

ssize_t pmv_quick_commit(struct pmv_initiator *ini, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_run *run = get_run(ini, msg->context, flags);
	size_t posted;
	ssize_t ret;

	if (!run)
		return -FI_EAGAIN;
	/* What it was made with stands for the READ; nobody else knows of it yet. */
	atomic_store_explicit(&run->op.pending, 2, memory_order_relaxed);
	/* Before it can complete. */
	pmv_initiator_count(ini, PMV_METHOD_READ);
	ret = post(run, ini->engine, msg, &posted);
	return posted == 2 ? 0 : go_on(run, msg, posted, ret);
}
