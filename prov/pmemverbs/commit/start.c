/* SPDX-License-Identifier: BSD-2-Clause */
/* start.c -- a run begins: it is planned, and its data are posted */
#include "commit/start.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "commit/batch.h"
#include "commit/choose.h"
#include "commit/flush_request.h"
#include "commit/group.h"
#include "commit/ordering.h"
#include "engine/wr_copy.h"

/* Planning, and what comes before the data are accepted */

static void make_plan(struct pmv_run *run, const struct pmv_submission *submission,
		      const struct pmv_choice *choice, bool fenced, bool grouped, bool fits)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_plan_facts facts = {
		.fenced = fenced,
		.atomic = submission->what & FI_ATOMIC,
		.injected = submission->wr.inject,
		.immediate = pmv_submission_notifies(submission),
		.notifies = ini->mailbox->peer.notices,
		.unordered = atomic_load(&ini->ordering.wrote_unordered),
		.fits = fits,
		.grouped = grouped,
	};

	run->plan = pmv_plan_operation(choice, &facts);
	run->at = 0;
}

/* make_request -- if the plan asks the agent; what it names is taken later */
static ssize_t make_request(struct pmv_run *run, const struct pmv_submission *submission, bool all)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_step *step;

	if (run->plan.ask == PMV_MAX_STEPS)
		return 0;
	step = &run->plan.steps[run->plan.ask];
	run->request = pmv_flush_request_new(ini, submission, all, step->payload);
	if (!run->request)
		return -FI_ENOMEM;
	pmv_mailbox_flush_place(ini->mailbox, &run->place_addr, &run->place_key);
	if (step->immediate)
		pmv_flush_request_notify(run->request, submission->data);
	return 0;
}

/*
 * take_request -- what it is to name.  Until it is answered or given up it counts as not
 * acknowledged: from before what it takes is dirty no longer.  Holds the lock.
 */
static ssize_t take_request(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret;

	pmv_run_hold_unacked(run);
	if (ini->dirty.lost)
		ret = atomic_load(&ini->broken) ? -FI_ENOTCONN : -FI_ENOMEM;
	else
		ret = pmv_flush_request_take(ini, run->request);
	if (ret)
		pmv_run_release_unacked(run);
	return ret;
}

/* take_written -- with what was just posted; the commit fails without memory.  Holds the lock. */
static void take_written(struct pmv_run *run, const struct pmv_submission *submission)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	size_t changed = submission->changed;
	ssize_t ret;

	for (size_t i = 0; i < submission->num_to; i++) {
		const struct fi_rma_iov *to = &submission->to[i];
		struct pmv_attr attr;
		unsigned notes;

		if (!pmv_ordering_attr(ini, to->key, &attr))
			continue;
		notes = pmv_ordering_note(ini, &attr);
		if (changed || (notes & PMV_NOTE_AGENT))
			pmv_ordering_dirty(ini, notes, to->key, to->addr,
					   changed ? changed : to->len);
	}
	ret = take_request(run);
	if (!ret)
		return;
	pmv_op_fail(&run->op, (int) -ret, 0);
	run->at = run->plan.count;
}

/* place_in -- a place inside the range that is written; without one, of the region */
static uint64_t place_in(struct pmv_initiator *ini, const struct fi_rma_iov *at)
{
	return at->len ? at->addr : pmv_ordering_place(ini, at->key, at->addr);
}

static void set_place(struct pmv_run *run, const struct pmv_chosen *chosen)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);

	if (run->request)
		return;
	if (!chosen->at) {
		/* A message: what is behind it waits for a receive as it does. */
		pmv_mailbox_flush_place(ini->mailbox, &run->place_addr, &run->place_key);
		return;
	}
	run->place_addr = place_in(ini, chosen->at);
	run->place_key = chosen->at->key;
}

/*
 * start -- plan, and post everything up to the data.  fenced: the caller has the ordering
 * lock.  An error: nothing was posted but perhaps a flush in front.
 */
static ssize_t start(struct pmv_run *run, const struct pmv_submission *submission, bool fenced,
		     bool grouped)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_chosen chosen;
	ssize_t ret = pmv_choose(ini, submission, &chosen);

	/* Another thread has asked the agent for something meanwhile. */
	if (!ret && chosen.choice.after_agent && !run->kept)
		ret = -FI_EAGAIN;
	if (ret)
		return ret;
	chosen.choice.after_agent = false;
	make_plan(run, submission, &chosen.choice, fenced, grouped, false);
	ret = make_request(run, submission, false);
	if (ret)
		return ret;
	set_place(run, &chosen);
	ret = pmv_batch_post(run, submission, chosen.notes & ~PMV_NOTE_AGENT, fenced);
	if (run->at <= run->plan.data) {
		pmv_run_free_request(run);
		return ret;
	}
	/* Of what follows every failure is the completion's to tell. */
	if (ret && ret != -FI_EAGAIN) {
		pmv_op_fail(&run->op, (int) -ret, 0);
		run->at++;
	}
	/* The connection is lost if nothing can be read there. */
	if (chosen.at)
		pmv_ordering_set_place(ini, chosen.at->key, place_in(ini, chosen.at));
	return 0;
}

ssize_t pmv_start_kept(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_submission *submission = &run->kept->submission;
	struct pmv_plan plan = run->plan;
	unsigned int at = run->at;
	ssize_t ret;

	if (!pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE) &&
	    atomic_load(&ini->ordering.reads))
		return -FI_EAGAIN;
	pmv_run_free_request(run);
	pthread_mutex_lock(&ini->ordering.lock);
	ret = start(run, submission, true, false);
	pthread_mutex_unlock(&ini->ordering.lock);
	if (ret) {
		run->plan = plan;
		run->at = at;
		return ret;
	}
	if (run->request)
		take_written(run, submission);
	pmv_run_free_kept(run);
	return 0;
}

/* give_up -- nothing of it was posted that counts: the call tells the application */
static void give_up(struct pmv_run *run)
{
	run->counted = false;
	run->num_regions = 0;
	run->op.audience = PMV_TELL_NOBODY;
	pmv_run_end(run, 0);
}

/* Ways in */

/* keep -- a copy of the submission, until the agent has answered */
static ssize_t keep(struct pmv_run *run, const struct pmv_submission *submission)
{
	size_t size = submission->num_to * sizeof(*submission->to);
	struct pmv_kept *kept = calloc(1, sizeof(*kept) + size);

	run->kept = kept;
	if (!kept)
		return -FI_ENOMEM;
	kept->submission = *submission;
	if (size)
		memcpy(kept->to, submission->to, size);
	kept->submission.to = size ? kept->to : NULL;
	kept->wr = pmv_wr_copy(&submission->wr, submission->flags & FI_INJECT);
	if (!kept->wr)
		return -FI_ENOMEM;
	kept->submission.wr = *kept->wr;
	return 0;
}

/* may_store -- can the agent store the data, so that one round trip does it all? */
static bool may_store(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_attr attr;

	/* An agent knows the regions that were registered for commits. */
	return pmv_flush_request_fits(ini, submission) &&
	       pmv_ordering_attr(ini, submission->to->key, &attr) && attr.pmem;
}

/* begin_after_agent -- it is fenced, and the agent has to do something first */
static ssize_t begin_after_agent(struct pmv_run *run, const struct pmv_submission *submission)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_chosen chosen;
	bool stores;
	ssize_t ret;

	/* Whoever takes a flag has posted a READ then, which the request does not pass. */
	pthread_mutex_lock(&ini->ordering.lock);
	ret = pmv_choose(ini, submission, &chosen);
	pthread_mutex_unlock(&ini->ordering.lock);
	/* The agent has come to an end with it meanwhile, or another thread could not post. */
	if (!ret && !chosen.choice.after_agent)
		ret = -FI_EAGAIN;
	if (ret)
		return ret;
	pthread_mutex_lock(&ini->lock);
	stores = may_store(ini, submission);
	if (!stores)
		ret = keep(run, submission);
	make_plan(run, submission, &chosen.choice, true, false, stores);
	if (!ret)
		ret = make_request(run, submission, true);
	if (!ret)
		ret = take_request(run);
	if (!ret)
		pmv_run_carry_on_in_order(run);
	pthread_mutex_unlock(&ini->lock);
	if (!ret)
		pmv_initiator_wait(ini);
	return ret;
}

static void join_group(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	bool first;

	pthread_mutex_lock(&ini->lock);
	first = pmv_group_join(ini, run);
	pthread_mutex_unlock(&ini->lock);
	/* Else the queue has it in view already. */
	if (first)
		pmv_initiator_wait(ini);
}

static ssize_t begin_now(struct pmv_run *run, const struct pmv_submission *submission, bool fenced,
			 bool grouped)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret;

	if (fenced)
		pthread_mutex_lock(&ini->ordering.lock);
	ret = start(run, submission, fenced, grouped);
	if (fenced)
		pthread_mutex_unlock(&ini->ordering.lock);
	if (ret)
		return ret;

	/* Accepted: from here on every failure is the completion's to tell. */
	if (run->at < run->plan.count && pmv_run_is_grouped(run)) {
		run->place_addr = submission->to->addr;
		run->place_key = submission->to->key;
		join_group(run);
		return 0;
	}
	if (!run->request && !pmv_run_carry_on(run)) {
		pmv_run_end(run, 0);
		return 0;
	}
	pthread_mutex_lock(&ini->lock);
	if (run->request)
		take_written(run, submission);
	pmv_run_carry_on_in_order(run);
	pthread_mutex_unlock(&ini->lock);
	pmv_initiator_wait(ini);
	return 0;
}

ssize_t pmv_start(struct pmv_run *run, const struct pmv_submission *submission, bool fenced,
		  bool grouped)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret;

	if ((submission->flags & FI_FENCE) &&
	    pmv_ordering_past(ini, submission->what & FI_MSG).agent)
		ret = begin_after_agent(run, submission);
	else
		ret = begin_now(run, submission, fenced, grouped);
	if (ret)
		give_up(run);
	return ret;
}

void pmv_start_flush(struct pmv_run *run, const struct pmv_submission *regions, bool read)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	bool asks = regions->num_to > 0;
	ssize_t ret = 0;

	run->plan = pmv_plan_flush(asks, read, atomic_load(&ini->ordering.wrote_unordered));
	if (asks)
		ret = make_request(run, regions, false);
	if (asks && !ret)
		ret = take_request(run);
	if (ret)
		pmv_run_end(run, (int) -ret);
	else
		pmv_run_carry_on_in_order(run);
}
