/* SPDX-License-Identifier: BSD-2-Clause */
/* start.c -- a run begins: its method is chosen, it is planned, and its data are posted */
#include "commit/start.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/setting.h"
#include "commit/batch.h"
#include "commit/event.h"
#include "commit/flush_request.h"
#include "commit/group.h"
#include "commit/ordering.h"
#include "engine/length.h"

/* After a collision so many small commits are posted apart from their requests. */
#define STORE_PAUSE 64

/* The method, out of what the keys and the endpoint say */

struct chosen {
	struct pmv_choice choice;
	const struct fi_rma_iov *at; /* where a flush reads; of a message: nowhere */
	unsigned notes;              /* what has to be remembered: ordering.h */
	enum pmv_rma_event event;    /* what the target's application is told */
};

static ssize_t refuse(const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s\n", why);
	return -FI_EOPNOTSUPP;
}

/* refuse_agent -- only an agent could do it, and there is none */
static ssize_t refuse_agent(struct pmv_initiator *ini, const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s; and %s\n", why,
		 ini->mailbox->link.connected
			 ? "the target's agent is switched off (FI_PMEMVERBS_AGENT)"
			 : "the target has no agent: it does not use pmemverbs");
	return -FI_EOPNOTSUPP;
}

static ssize_t choose_message(struct pmv_initiator *ini, const struct pmv_past *past,
			      struct chosen *chosen)
{
	const struct pmv_handshake *peer = &ini->mailbox->link.peer;
	struct pmv_choice *choice = &chosen->choice;

	*choice = pmv_method_choose_message(peer->one_kind ? &peer->received : NULL,
					    ini->engine->engine->transport,
					    pmv_setting.relaxed || peer->relaxed, past);
	if (choice->method == PMV_METHOD_REFUSED)
		return refuse(choice->why);
	if (choice->method == PMV_METHOD_AGENT && !peer->agent)
		return refuse_agent(ini, choice->why);
	if (choice->method == PMV_METHOD_AGENT && !peer->messages)
		return refuse("the target can't commit messages: its domain was opened without "
			      "FI_RMA_PMEM, or it uses a shared receive context");
	return choice->after_agent && !peer->agent ? refuse_agent(ini, choice->why) : 0;
}

/* choose_place -- the method for one place */
static ssize_t choose_place(struct pmv_initiator *ini, const struct pmv_submission *submission,
			    const struct fi_rma_iov *to, const struct pmv_past *past,
			    struct pmv_choice *choice, unsigned *notes)
{
	struct pmv_attr attr;

	if (!pmv_ordering_attr(ini, to->key, &attr))
		return refuse("the key says nothing of the memory behind it; its owner has to "
			      "register it through pmemverbs, in a domain whose mr_mode has "
			      "FI_MR_PROV_KEY, and hand over all 64 bits of the key");
	if (!attr.writable) {
		PMV_WARN(EP_DATA, "the target's region lacks FI_REMOTE_WRITE\n");
		return -FI_EACCES;
	}
	*notes |= pmv_ordering_note(ini, &attr);
	/* What the target's processor has changed is in its caches. */
	attr.ddio |= submission->changed != 0;
	*choice = pmv_method_choose(&attr, ini->engine->engine->transport, past);
	if (choice->method == PMV_METHOD_REFUSED)
		return refuse(choice->why);
	if ((choice->method == PMV_METHOD_AGENT || choice->after_agent) &&
	    !ini->mailbox->link.peer.agent)
		return refuse_agent(ini, choice->why);
	if (past && attr.relaxed && atomic_load(&ini->ordering.wrote_unreadable))
		return refuse("an earlier write of this endpoint, which the fence covers, went "
			      "where peers can't read, over a path that may reorder writes "
			      "(FI_PMEMVERBS_ORDERING=relaxed)");
	if (!attr.events)
		return 0;
	choice->flush_agent |= attr.relaxed;
	return pmv_event_check(ini, &attr);
}

/* choose_plain -- it does not commit: the target's application is told of it, and no more */
static ssize_t choose_plain(struct pmv_initiator *ini, const struct pmv_submission *submission,
			    struct chosen *chosen)
{
	struct pmv_attr attr;
	ssize_t ret = 0;

	*chosen = (struct chosen){
		.choice = {.method = PMV_METHOD_WRITE},
		.at = submission->to,
		.notes = PMV_NOTE_EVENT,
		.event = pmv_event_of(submission),
	};
	for (size_t i = 0; i < submission->num_to && !ret; i++) {
		if (!pmv_ordering_attr(ini, submission->to[i].key, &attr))
			continue;
		chosen->choice.flush_agent |= attr.relaxed;
		ret = pmv_event_check(ini, &attr);
	}
	return ret;
}

/* strength -- the agent's word covers all methods, a READ those below it */
static int strength(const struct pmv_choice *choice)
{
	return choice->method == PMV_METHOD_AGENT ? 2 : choice->method == PMV_METHOD_READ;
}

/*
 * choose -- one method for all places of the submission: the strongest that one of them
 * needs.  An error, after a warning: it can't be committed.
 */
static ssize_t choose(struct pmv_initiator *ini, const struct pmv_submission *submission,
		      struct chosen *chosen)
{
	bool message = submission->what & FI_MSG;
	struct pmv_past before, *past = NULL;

	if (submission->event_only)
		return choose_plain(ini, submission, chosen);
	if (submission->flags & FI_FENCE) {
		before = pmv_ordering_past(ini, message);
		past = &before;
	}
	*chosen = (struct chosen){.at = message ? NULL : submission->to};
	if (message)
		return choose_message(ini, past, chosen);
	if (!submission->num_to) {
		PMV_WARN(EP_DATA, "a commit needs an address and a key, also without data\n");
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < submission->num_to; i++) {
		const struct fi_rma_iov *to = &submission->to[i];
		struct pmv_choice one, *choice = &chosen->choice;
		ssize_t ret = choose_place(ini, submission, to, past, &one, &chosen->notes);

		if (ret)
			return ret;
		one.flush_agent |= choice->flush_agent;
		if (!i || strength(&one) > strength(choice) ||
		    (strength(&one) == strength(choice) && !chosen->at->len)) {
			*choice = one;
			chosen->at = to;
		}
		choice->flush_agent |= one.flush_agent;
	}
	if (chosen->notes & PMV_NOTE_EVENT)
		chosen->event = pmv_event_of(submission);
	return 0;
}

/* Planning, and what comes before the data are accepted */

static void make_plan(struct pmv_run *run, const struct pmv_submission *submission,
		      const struct chosen *chosen, bool fenced, bool grouped, bool stored)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_plan_facts facts = {
		.fenced = fenced,
		.atomic = submission->what & FI_ATOMIC,
		.injected = submission->wr.inject,
		.immediate = pmv_submission_notifies(submission),
		.notifies = ini->mailbox->link.peer.notices,
		.unordered = atomic_load(&ini->ordering.wrote_unordered),
		.stored = stored,
		.grouped = grouped,
		.event = chosen->event,
		.event_only = submission->event_only,
	};

	run->plan = pmv_plan_operation(&chosen->choice, &facts);
	run->at = 0;
}

/* make_request -- if the plan asks the agent; what it names is taken later */
static ssize_t make_request(struct pmv_run *run, const struct pmv_submission *submission, bool all,
			    enum pmv_rma_event event)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_step *step;

	if (run->plan.ask == PMV_MAX_STEPS)
		return 0;
	step = &run->plan.steps[run->plan.ask];
	run->request = pmv_flush_request_new(ini, submission, all, step->payload, event);
	if (!run->request)
		return -FI_ENOMEM;
	pmv_link_flush_place(&ini->mailbox->link, &run->place_addr, &run->place_key);
	if (step->immediate) {
		run->request->notify = true;
		run->request->data = submission->data;
	}
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

	pmv_run_set_unacked(run, true);
	if (ini->dirty.lost)
		ret = atomic_load(&ini->broken) ? -FI_ENOTCONN : ini->dirty.lost;
	else
		ret = pmv_flush_request_take(ini, run->request);
	if (ret)
		pmv_run_set_unacked(run, false);
	return ret;
}

/* take_written -- with what was just posted; the commit fails without memory.  Holds the lock. */
static void take_written(struct pmv_run *run, const struct pmv_submission *submission)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	size_t changed = submission->changed;
	ssize_t ret;

	for (size_t i = 0; i < submission->num_to && !submission->event_only; i++) {
		struct fi_rma_iov to = submission->to[i];
		unsigned notes = pmv_ordering_note_key(ini, to.key);

		if (changed)
			to.len = changed;
		if (changed || (notes & PMV_NOTE_AGENT))
			pmv_ordering_dirty(ini, notes, &to);
	}
	ret = take_request(run);
	if (!ret)
		return;
	pmv_op_fail(&run->op, (int) -ret, 0);
	run->at = run->plan.count;
}

/* skip_failed -- of what follows the data every failure is the completion's to tell */
static void skip_failed(struct pmv_run *run, ssize_t ret)
{
	if (!ret || ret == -FI_EAGAIN)
		return;
	pmv_op_fail(&run->op, (int) -ret, 0);
	run->at++;
}

/* remember -- the place, and whether the next commit there may take the quick way */
static void remember(struct pmv_run *run, const struct pmv_submission *submission,
		     const struct chosen *chosen, uint64_t addr)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_plan *plan = &run->plan;
	bool quiet = !chosen->notes && submission->num_to == 1 && !ini->hooks;

	pmv_ordering_set_place(ini, chosen->at->key, addr, quiet);
	if (quiet && submission->wr.kind == PMV_WR_WRITE && plan->count == 2 &&
	    !plan->steps[0].fence && plan->steps[1].kind == PMV_STEP_FLUSH)
		atomic_store(&ini->ordering.flush_key, chosen->at->key);
}

/* post -- up to the data, or the flush behind them */
static ssize_t post(struct pmv_run *run, const struct pmv_submission *submission, unsigned notes,
		    bool fenced, bool grouped)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_noted noted[PMV_MAX_RMA];
	ssize_t ret;

	/* The group's flush tells the agent, or its own request. */
	if (grouped || !(notes & PMV_NOTE_AGENT))
		return pmv_batch_post(run, submission, notes, fenced);
	notes &= ~PMV_NOTE_AGENT;
	if (run->request)
		return pmv_batch_post(run, submission, notes, fenced);
	/* Durable without the agent: a later request tells it where this has written. */
	pmv_ordering_begin_writes(ini, submission->to, submission->num_to, noted);
	ret = pmv_batch_post(run, submission, notes, fenced);
	pmv_ordering_end_writes(ini, submission->to, submission->num_to, noted,
				run->at > run->plan.data);
	return ret;
}

/*
 * start -- plan, and post everything up to the data.  fenced: the caller has the ordering
 * lock.  An error: nothing was posted but perhaps a flush in front.
 */
static ssize_t start(struct pmv_run *run, const struct pmv_submission *submission,
		     struct chosen *chosen, bool fenced, bool grouped)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct fi_rma_iov *at = chosen->at;
	uint64_t addr = 0;
	ssize_t ret;

	chosen->choice.after_agent = false;
	make_plan(run, submission, chosen, fenced, grouped, false);
	ret = make_request(run, submission, false, chosen->event);
	if (ret)
		return ret;
	/* Inside the range that is written; without one, of the region. */
	if (at)
		addr = at->len ? at->addr : pmv_ordering_place(ini, at->key, at->addr);
	if (at && (!run->request || chosen->choice.method == PMV_METHOD_READ)) {
		run->place_addr = addr;
		run->place_key = at->key;
	} else if (!at) {
		/* A message: what is behind it waits for a receive as it does. */
		pmv_link_flush_place(&ini->mailbox->link, &run->place_addr, &run->place_key);
	}
	ret = post(run, submission, chosen->notes, fenced, grouped);
	if (run->at <= run->plan.data) {
		pmv_run_free_request(run);
		return ret;
	}
	skip_failed(run, ret);
	/* The connection is lost if nothing can be read there. */
	if (at)
		remember(run, submission, chosen, addr);
	return 0;
}

ssize_t pmv_start_kept(struct pmv_run *run)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_submission *submission = run->kept;
	struct pmv_plan plan = run->plan;
	unsigned int at = run->at;
	struct chosen chosen;
	ssize_t ret;

	if (!pmv_engine_can(ini->engine->engine, PMV_ENGINE_FENCE) &&
	    atomic_load(&ini->ordering.reads))
		return -FI_EAGAIN;
	pmv_run_free_request(run);
	pthread_mutex_lock(&ini->ordering.lock);
	ret = choose(ini, submission, &chosen);
	if (!ret)
		ret = start(run, submission, &chosen, true, false);
	pthread_mutex_unlock(&ini->ordering.lock);
	if (ret) {
		run->plan = plan;
		run->at = at;
		return ret;
	}
	if (run->request)
		take_written(run, submission);
	free(run->kept);
	run->kept = NULL;
	return 0;
}

/* Ways in */

/* may_store -- can the agent store the data?  It knows the regions that are for commits. */
static bool may_store(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	struct pmv_attr attr;

	return pmv_flush_request_fits(ini, submission) &&
	       pmv_ordering_attr(ini, submission->to->key, &attr) && attr.pmem;
}

/* ask -- the agent comes first; it stores the data, or they are posted later.  Holds the lock. */
static ssize_t ask(struct pmv_run *run, const struct pmv_submission *submission,
		   const struct chosen *chosen, bool fenced, bool stores)
{
	ssize_t ret = 0;

	if (!stores) {
		run->kept = pmv_submission_copy(submission);
		ret = run->kept ? 0 : -FI_ENOMEM;
	}
	make_plan(run, submission, chosen, fenced, false, stores);
	if (!ret)
		ret = make_request(run, submission, fenced,
				   stores ? chosen->event : PMV_EVENT_NONE);
	if (!ret)
		ret = take_request(run);
	if (!ret)
		pmv_run_carry_on_in_order(run);
	return ret;
}

static void accepted_by_agent(struct pmv_initiator *ini)
{
	pmv_initiator_count(ini, PMV_METHOD_AGENT);
	pmv_initiator_wait(ini);
}

/* begin_after_agent -- it is fenced, and the agent has to do something first */
static ssize_t begin_after_agent(struct pmv_run *run, const struct pmv_submission *submission)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct chosen chosen;
	ssize_t ret;

	/* Whoever takes a flag has posted a READ then, which the request does not pass. */
	pthread_mutex_lock(&ini->ordering.lock);
	ret = choose(ini, submission, &chosen);
	pthread_mutex_unlock(&ini->ordering.lock);
	/* The agent has come to an end with it meanwhile, or another thread could not post. */
	if (!ret && !chosen.choice.after_agent)
		ret = -FI_EAGAIN;
	if (ret)
		return ret;
	pthread_mutex_lock(&ini->lock);
	ret = ask(run, submission, &chosen, true, may_store(ini, submission));
	pthread_mutex_unlock(&ini->lock);
	if (!ret)
		accepted_by_agent(ini);
	return ret;
}

void pmv_start_pause_stores(struct pmv_initiator *ini)
{
	pthread_mutex_lock(&ini->lock);
	if (ini->mailbox->sender.acked < ini->payload_message) {
		ini->others_wait = true;
		if (ini->store_pause < STORE_PAUSE)
			ini->store_pause = STORE_PAUSE;
	}
	pthread_mutex_unlock(&ini->lock);
}

/*
 * begin_stored -- small data that need the agent anyway travel in the request: one work
 * request instead of two.  1: they do not.
 */
static ssize_t begin_stored(struct pmv_run *run, const struct pmv_submission *submission,
			    const struct chosen *chosen)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct pmv_choice *choice = &chosen->choice;
	ssize_t ret = 1;

	if (choice->method != PMV_METHOD_AGENT || choice->flush_agent ||
	    submission->wr.kind != PMV_WR_WRITE || submission->num_to != 1 ||
	    !submission->to->len || submission->changed ||
	    atomic_load(&ini->ordering.wrote_unordered))
		return 1;
	pthread_mutex_lock(&ini->lock);
	if (ini->store_pause) {
		/* It may be tried again. */
		ini->store_pause -= pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED);
	} else if (!ini->dirty.lost && may_store(ini, submission)) {
		ret = ask(run, submission, chosen, false, true);
	}
	pthread_mutex_unlock(&ini->lock);
	if (!ret)
		accepted_by_agent(ini);
	return ret;
}

/* carry_on -- it is accepted: from here on every failure is the completion's to tell */
static void carry_on(struct pmv_run *run, const struct pmv_submission *submission)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);

	if (!run->request && !pmv_run_carry_on(run)) {
		pmv_run_end(run, 0);
		return;
	}
	pthread_mutex_lock(&ini->lock);
	if (run->request)
		take_written(run, submission);
	pmv_run_carry_on_in_order(run);
	pthread_mutex_unlock(&ini->lock);
	pmv_initiator_wait(ini);
}

/* may_follow_stores -- only requests may follow data that the agent has not stored yet */
static bool may_follow_stores(struct pmv_initiator *ini)
{
	if (pmv_initiator_is_fast(ini, PMV_SLOW_CLOSED))
		return true;
	pmv_start_pause_stores(ini);
	return false;
}

static ssize_t begin_now(struct pmv_run *run, const struct pmv_submission *submission, bool fenced,
			 bool grouped)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct chosen chosen;
	ssize_t ret;

	if (fenced)
		pthread_mutex_lock(&ini->ordering.lock);
	ret = choose(ini, submission, &chosen);
	/* Another thread has asked the agent for something meanwhile. */
	if (!ret && chosen.choice.after_agent)
		ret = -FI_EAGAIN;
	if (!ret && !fenced && !grouped) {
		ret = begin_stored(run, submission, &chosen);
		if (ret <= 0)
			return ret;
		ret = may_follow_stores(ini) ? 0 : -FI_EAGAIN;
	}
	if (!ret)
		ret = start(run, submission, &chosen, fenced, grouped);
	if (fenced)
		pthread_mutex_unlock(&ini->ordering.lock);
	if (ret)
		return ret;

	if (!submission->event_only)
		pmv_initiator_count(ini, chosen.choice.method);
	if (run->at < run->plan.count && pmv_run_is_grouped(run)) {
		pmv_group_join(run);
		return 0;
	}
	carry_on(run, submission);
	return 0;
}

void pmv_start_go_on(struct pmv_run *run, ssize_t ret)
{
	skip_failed(run, ret);
	carry_on(run, NULL);
}

void pmv_start_refuse(struct pmv_run *run)
{
	run->counted = false;
	run->num_regions = 0;
	run->op.audience = PMV_TELL_NOBODY;
	pmv_run_end(run, 0);
}

ssize_t pmv_start(struct pmv_run *run, const struct pmv_submission *submission, bool fenced,
		  bool grouped)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	ssize_t ret;

	run->event_only = submission->event_only;
	if ((submission->flags & FI_FENCE) && !submission->event_only &&
	    pmv_ordering_past(ini, submission->what & FI_MSG).agent)
		ret = begin_after_agent(run, submission);
	else
		ret = begin_now(run, submission, fenced, grouped);
	if (ret)
		pmv_start_refuse(run);
	return ret;
}

void pmv_start_flush(struct pmv_run *run, const struct pmv_submission *regions, bool read)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	bool asks = regions->num_to > 0;
	ssize_t ret = 0;

	run->plan = pmv_plan_flush(asks, read, atomic_load(&ini->ordering.wrote_unordered));
	if (asks)
		ret = make_request(run, regions, false, PMV_EVENT_NONE);
	if (asks && !ret)
		ret = take_request(run);
	if (ret)
		pmv_run_end(run, (int) -ret);
	else
		pmv_run_carry_on_in_order(run);
}
