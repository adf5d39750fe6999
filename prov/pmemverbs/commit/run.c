/* SPDX-License-Identifier: BSD-2-Clause */
/* run.c -- how a run begins and ends */
#include "commit/run.h"

/* audience_of -- who is told of it */
static inline enum pmv_audience audience_of(const struct pmv_initiator *ini,
					    const struct pmv_submission *submission)
{
	bool receive = submission->what & FI_RECV;
	bool selective = receive ? ini->rx_selective : ini->tx_selective;

	if (submission->no_completion ||
	    (receive ? ini->owner.rx_queue : ini->owner.tx_queue) == ini->unread)
		return PMV_TELL_NOBODY;
	if ((submission->flags & FI_COMPLETION) || !selective)
		return PMV_TELL_ALL;
	/*
	 * Where immediate data may use it up, every receive is reported, as immediate data always
	 * are.
	 */
	if (receive && ini->engine->engine->core->imm_receives)
		return PMV_TELL_ALL;
	return PMV_TELL_ERROR;
}

/* get -- all but the completion; the caller sets the owner at last: others look for it */
static inline struct pmv_run *get(struct pmv_initiator *ini, enum pmv_op_most most)
{
	struct pmv_run *run = pmv_to_run(pmv_op_take(&ini->owner, most));

	if (!run)
		return NULL;
	run->at = 0;
	run->request = NULL;
	run->kept = NULL;
	run->under_way = NULL;
	run->num_regions = 0;
	run->counted = run->commits = run->bare = run->fetches = run->unacked = false;
	return run;
}

struct pmv_run *pmv_run_get(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_run *run = get(ini, PMV_OP_APPLICATION);

	if (!run)
		return NULL;
	run->op.context = submission->context;
	run->op.flags = submission->what;
	run->op.audience = audience_of(ini, submission);
	run->op.ordinary = !ini->counts[pmv_count_kind(submission->what)];
	run->submission = submission;
	run->immediate = submission->data;
	run->counted = true;
	pmv_op_set_owner(&run->op, &ini->owner);
	return run;
}

struct pmv_run *pmv_run_get_own(struct pmv_initiator *ini, atomic_bool *under_way)
{
	struct pmv_run *run = get(ini, PMV_OP_OWN);

	if (!run)
		return NULL;
	run->submission = NULL;
	run->plan.count = 0;
	run->op.context = NULL;
	run->op.flags = 0;
	run->op.audience = PMV_TELL_NOBODY;
	run->under_way = under_way;
	if (under_way)
		atomic_store(under_way, true);
	pmv_op_set_owner(&run->op, &ini->owner);
	return run;
}

void pmv_run_not_posting(struct pmv_run *run, size_t count)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);

	if (atomic_fetch_sub(&run->op.pending, (int) count) == (int) count &&
	    pmv_op_finish(ini->owner.pool, &run->op))
		pmv_queue_add(ini->owner.tx_queue, &run->op.comp);
}

void pmv_run_end(struct pmv_run *run, int err)
{
	if (err)
		pmv_op_fail(&run->op, err, 0);
	pmv_run_not_posting(run, 1);
}

void pmv_run_end_all(struct pmv_op_list *runs, int err, int prov_errno)
{
	struct pmv_op *op;

	while ((op = STAILQ_FIRST(runs))) {
		STAILQ_REMOVE_HEAD(runs, next);
		if (err)
			pmv_op_fail(op, err, prov_errno);
		pmv_run_end(pmv_to_run(op), 0);
	}
}

void pmv_run_refuse(struct pmv_run *run)
{
	run->counted = false;
	run->num_regions = 0;
	run->op.audience = PMV_TELL_NOBODY;
	pmv_run_end(run, 0);
}
