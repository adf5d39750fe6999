/* SPDX-License-Identifier: BSD-2-Clause */
/* quick.c -- the ordinary one-sided commit; quick.h says which */
#include "commit/quick.h"

#include <rdma/fi_errno.h>

#include "commit/start.h"

/* post -- both, if there is room; *posted: so many were.  It is counted before they can complete.
 */
static ssize_t post(struct pmv_run *run, const struct fi_msg_rma *msg, size_t *posted)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_engine_ep *ep = ini->engine;
	const struct fi_rma_iov *at = msg->rma_iov;
	const struct fi_rma_iov to = {at->addr, at->len, (uint32_t) at->key};
	const struct fi_rma_iov from = {at->addr, 1, (uint32_t) at->key};
	const struct iovec scratch = {ep->engine->scratch, 1};
	struct fi_msg_rma write = {msg->msg_iov, msg->desc, 1, msg->addr, &to, 1, run, 0};
	struct fi_msg_rma read = {&scratch, &ep->engine->scratch_desc, 1, 0, &from, 1, run, 0};
	const struct pmv_wr wrs[] = {
		{.kind = PMV_WR_WRITE, .context = run, .flags = FI_COMPLETION, .rma = &write},
		{.kind = PMV_WR_READ, .context = run, .flags = FI_COMPLETION, .rma = &read},
	};

	pmv_initiator_count(ini, PMV_METHOD_READ);
	return pmv_engine_post(ep, wrs, 2, posted);
}

ssize_t pmv_quick_commit(struct pmv_initiator *ini, const struct fi_msg_rma *msg, uint64_t flags)
{
	const struct pmv_submission submission = {
		.what = FI_RMA | FI_WRITE, .context = msg->context, .flags = flags};
	struct pmv_run *run = pmv_run_get(ini, &submission);
	size_t posted;
	ssize_t ret;

	if (!run)
		return -FI_EAGAIN;
	/* What it was made with stands for the READ. */
	pmv_run_posting(run, 1);
	ret = post(run, msg, &posted);
	if (posted == 2)
		return 0;
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
	pmv_run_posting(run, -1);
	pmv_start_refuse(run);
	return ret;
}
