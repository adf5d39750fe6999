/* SPDX-License-Identifier: BSD-2-Clause */
/* run.c -- how a run begins and ends */
#include "commit/run.h"

struct pmv_run *pmv_run_get_own(struct pmv_initiator *ini, atomic_bool *under_way)
{
	const struct pmv_told nobody = {.audience = PMV_TELL_NOBODY};
	struct pmv_run *run = pmv_run_take(ini, PMV_OP_OWN, &nobody, false, false);

	if (!run)
		return NULL;
	run->submission = NULL;
	run->plan.count = 0;
	run->op.context = NULL;
	run->op.flags = 0;
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
	/* Its READ was not posted, and what the WRITE's entry names is not used again before. */
	if (atomic_load(&run->op.quiet_write) && atomic_exchange(&run->op.quiet_write, false))
		return;
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
	run->op.told.audience = PMV_TELL_NOBODY;
	pmv_run_end(run, 0);
}
