/* SPDX-License-Identifier: BSD-2-Clause */
/* prepare.c -- choice, plan and request of an operation; prepare.h says when */
#include "commit/prepare.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/setting.h"
#include "commit/flush_request.h"
#include "commit/target_event.h"

/* The method, out of what the keys and the endpoint say */

struct chosen {
	struct pmv_choice choice;
	const struct fi_rma_iov *at; /* where a flush reads; of a message: nowhere */
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
			    bool may_flush, struct pmv_choice *choice, bool *events)
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
	*events |= attr.events;
	attr.flushable &= may_flush && !attr.events;
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
	return pmv_target_event_check(ini, &attr);
}

/* choose_uncommitted -- it does not commit: the target's application is told of it, or nobody is */
static ssize_t choose_uncommitted(struct pmv_initiator *ini,
				  const struct pmv_submission *submission, struct chosen *chosen)
{
	struct pmv_attr attr;
	ssize_t ret = 0;

	*chosen = (struct chosen){
		.choice = {.method = PMV_METHOD_WRITE},
		.at = submission->to,
		.event = submission->event_only ? pmv_target_event_of(submission) : PMV_EVENT_NONE,
	};
	for (size_t i = 0; submission->event_only && i < submission->num_to && !ret; i++) {
		if (!pmv_ordering_attr(ini, submission->to[i].key, &attr))
			continue;
		chosen->choice.flush_agent |= attr.relaxed;
		ret = pmv_target_event_check(ini, &attr);
	}
	return ret;
}

/* is_relaxed -- may the path place its data behind what is posted later? */
static bool is_relaxed(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	bool relaxed = pmv_setting.relaxed || ini->mailbox->link.peer.relaxed;
	struct pmv_attr attr;

	for (size_t i = 0; i < submission->num_to; i++)
		relaxed |= pmv_ordering_attr(ini, submission->to[i].key, &attr) && attr.relaxed;
	return relaxed;
}

/*
 * choose_delivered -- it is to complete when its data are in place.  A READ behind them pushes
 * them there, as it pushes a commit.  The peer's flush page may be read, wherever they go.
 */
static ssize_t choose_delivered(const struct pmv_initiator *ini,
				const struct pmv_submission *submission, struct chosen *chosen)
{
	bool relaxed = is_relaxed(ini, submission);

	chosen->choice.method = PMV_METHOD_READ;
	chosen->at = NULL;
	if (ini->mailbox->link.connected && !relaxed)
		return 0;
	PMV_WARN(EP_DATA, "an operation with FI_DELIVERY_COMPLETE is refused: %s\n",
		 relaxed ? "the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed), so only "
			   "FI_COMMIT_COMPLETE tells when the data are in place"
			 : "the peer does not use pmemverbs, so nothing is known there that a "
			   "flush could read");
	return -FI_EOPNOTSUPP;
}

/* strength -- the agent's word covers all methods, a READ those below it */
static int strength(const struct pmv_choice *choice)
{
	return choice->method == PMV_METHOD_AGENT ? 2 : choice->method == PMV_METHOD_READ;
}

/*
 * choose_commit -- one method for all places of the submission: the strongest that one of them
 * needs.  An error, after a warning: it can't be committed.
 */
static ssize_t choose_commit(struct pmv_initiator *ini, const struct pmv_submission *submission,
			     bool may_flush, bool tail, struct chosen *chosen)
{
	bool message = submission->what & FI_MSG;
	struct pmv_past before, *past = NULL;
	bool events = false;

	if (submission->flags & FI_FENCE) {
		before = pmv_ordering_past(ini, message);
		before.flushable = tail && pmv_rdma_flush_covers_all(ini, submission);
		may_flush |= before.flushable;
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
		ssize_t ret = choose_place(ini, submission, to, past, may_flush, &one, &events);

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
	if (events)
		chosen->event = pmv_target_event_of(submission);
	return 0;
}

/* choose -- durable is not in place yet where the NIC's buffers persist */
static ssize_t choose(struct pmv_initiator *ini, const struct pmv_submission *submission,
		      struct pmv_terms terms, struct chosen *chosen)
{
	bool may_flush = terms.flushes && pmv_rdma_flush_may_be(ini, submission);
	ssize_t ret = choose_commit(ini, submission, may_flush, terms.tail, chosen);

	if (ret || chosen->choice.method != PMV_METHOD_WRITE ||
	    !(submission->flags & FI_DELIVERY_COMPLETE) ||
	    pmv_engine_can(ini->engine->engine, PMV_ENGINE_DELIVER))
		return ret;
	return choose_delivered(ini, submission, chosen);
}

/* The plan, and the request to the agent, if it has one: what that names is taken later */

static bool writes_to_one(const struct pmv_submission *submission)
{
	return submission->what == (FI_RMA | FI_WRITE) && submission->num_to == 1;
}

/* may_store -- can the agent store the data? */
static bool may_store(struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	return writes_to_one(submission) && pmv_flush_request_fits(ini, submission->to->len) &&
	       (pmv_ordering_known(ini, submission->to->key) & PMV_NOTE_PMEM);
}

/* is_delivered -- does the core say when its data are in place?  Without data, nothing is placed.
 */
static bool is_delivered(const struct pmv_initiator *ini, const struct pmv_submission *submission)
{
	return writes_to_one(submission) && submission->to->len &&
	       pmv_engine_can(ini->engine->engine, PMV_ENGINE_DELIVER);
}

static ssize_t make_request(struct pmv_run *run, const struct pmv_submission *submission, bool all,
			    enum pmv_rma_event event)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_flush_request *request;
	const struct pmv_step *step;

	if (run->plan.ask == PMV_MAX_STEPS)
		return 0;
	step = &run->plan.steps[run->plan.ask];
	request = pmv_flush_request_new(ini, submission, all, step->payload, event);
	if (!request)
		return -FI_ENOMEM;
	run->request = request;
	run->asked = (struct pmv_request){0};
	run->op.told.ordinary = false;
	pmv_link_flush_place(&ini->mailbox->link, &run->place_addr, &run->place_key);
	if (step->immediate) {
		request->notify = true;
		request->data = submission->data;
	}
	return 0;
}

/* find_place -- what a flush of it reads: inside the range that is written, or of the region */
static void find_place(struct pmv_run *run, const struct chosen *chosen)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	const struct fi_rma_iov *at = chosen->at;

	if (!at) {
		/* Of a message, what is behind it waits for a receive as it does. */
		pmv_link_flush_place(&ini->mailbox->link, &run->place_addr, &run->place_key);
	} else if (!run->request || chosen->choice.method == PMV_METHOD_READ) {
		run->place_addr = at->len ? at->addr : pmv_ordering_place(ini, at->key, at->addr);
		run->place_key = at->key;
		/* The connection is lost if nothing can be read there. */
		if (!at->len)
			pmv_ordering_set_place(ini, at->key, run->place_addr, false);
	}
}

/* keep -- the operation is executed after an acknowledgement, when the call has returned */
static ssize_t keep(struct pmv_run *run)
{
	run->kept = pmv_submission_copy(run->submission);
	if (!run->kept)
		return -FI_ENOMEM;
	run->submission = run->kept;
	run->op.told.ordinary = false;
	return 0;
}

/*
 * is_behind_flushes -- does what may not pass them have to wait?  Under the lock: since it was
 * looked at without, another thread's may have taken what this one relies on.
 */
static bool is_behind_flushes(struct pmv_initiator *ini)
{
	if (!atomic_load(&ini->ordering.flushes))
		return false;
	atomic_store(&ini->awaits_flushes, true);
	return true;
}

ssize_t pmv_prepare(struct pmv_run *run, struct pmv_terms terms, enum pmv_method *method)
{
	const struct pmv_submission *submission = run->submission;
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_plan_facts facts = {
		.fenced = terms.fenced,
		.atomic = submission->what & FI_ATOMIC,
		.injected = submission->inject,
		/* What is only posted takes its immediate data along by itself. */
		.immediate = pmv_submission_notifies(submission) && !run->op.told.single,
		.notifies = ini->mailbox->link.peer.notices,
		.unordered = atomic_load(&ini->ordering.wrote_unordered),
		.grouped = terms.grouped,
		.event_only = submission->event_only,
		.delivers = is_delivered(ini, submission),
	};
	struct chosen chosen = {0};
	ssize_t ret = run->commits           ? choose(ini, submission, terms, &chosen)
		      : submission->delivers ? choose_delivered(ini, submission, &chosen)
					     : choose_uncommitted(ini, submission, &chosen);
	bool waits;

	if (ret)
		return ret;
	if (terms.again)
		chosen.choice.after_agent = false;
	waits = chosen.choice.after_agent;
	facts.stored = (waits || (terms.stored && pmv_prepare_may_start_to_store(ini) &&
				  chosen.choice.method == PMV_METHOD_AGENT)) &&
		       may_store(ini, submission);
	/* What waits, and is not stored by the agent, is told of when it is planned again. */
	facts.event = chosen.event && (!waits || facts.stored);
	run->plan = pmv_plan_operation(&chosen.choice, &facts);
	run->at = 0;
	run->immediate = submission->data;
	*method = waits ? PMV_METHOD_AGENT : chosen.choice.method;
	if ((run->plan.ask != PMV_MAX_STEPS ||
	     ((submission->flags & FI_FENCE) && !chosen.choice.persist_first)) &&
	    is_behind_flushes(ini))
		return -FI_EAGAIN;
	if (*method == PMV_METHOD_FLUSH)
		return pmv_rdma_flush_begin(run);
	ret = waits && !facts.stored ? keep(run) : 0;
	if (!ret)
		ret = make_request(run, submission, waits,
				   facts.event ? chosen.event : PMV_EVENT_NONE);
	if (!ret && !waits && (run->commits || submission->delivers))
		find_place(run, &chosen);
	return ret;
}

/* refuse_chain -- is there anybody who could execute it, after all that was written before? */
static ssize_t refuse_chain(struct pmv_initiator *ini)
{
	const struct pmv_handshake *peer = &ini->mailbox->link.peer;
	const char *why = NULL;

	if (!peer->agent)
		return refuse_agent(ini, "the target's agent executes chains");
	if (ini->hooks || !pmv_initiator_is_fast(ini, PMV_SLOW_ALL))
		why = "not with FI_EP_RDM, nor with FI_PMEMVERBS_COMMIT=all";
	else if (pmv_setting.relaxed || peer->relaxed)
		why = "the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed)";
	if (!why)
		return 0;
	PMV_WARN(EP_DATA, "chain refused: %s\n", why);
	return -FI_EOPNOTSUPP;
}

/* make_chain_request -- with a slot for the reply */
static ssize_t make_chain_request(struct pmv_run *run, struct pmv_chain_request *chain)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_flush_request *request;

	if (!pmv_chain_request_get_slot(chain, ini))
		return -FI_EAGAIN;
	request = pmv_flush_request_new_chain(chain);
	if (!request)
		return -FI_ENOMEM;
	run->request = request;
	run->asked = (struct pmv_request){0};
	run->op.told.ordinary = false;
	return 0;
}

ssize_t pmv_prepare_chain(struct pmv_run *run, struct pmv_chain_request *chain)
{
	struct pmv_initiator *ini = pmv_run_initiator(run);
	struct pmv_past past = pmv_ordering_past(ini, false);
	const struct pmv_choice choice = {
		.method = PMV_METHOD_AGENT,
		.after_agent = true,
		.flush_first = chain->commits && past.ordered,
	};
	const struct pmv_plan_facts facts = {.stored = true};
	ssize_t ret = refuse_chain(ini);

	if (!ret && is_behind_flushes(ini))
		ret = -FI_EAGAIN;
	if (!ret)
		ret = make_chain_request(run, chain);
	if (ret) {
		pmv_chain_request_free(chain);
		return ret;
	}
	run->plan = pmv_plan_operation(&choice, &facts);
	run->at = 0;
	pmv_link_flush_place(&ini->mailbox->link, &run->place_addr, &run->place_key);
	return 0;
}

ssize_t pmv_prepare_request(struct pmv_run *run)
{
	return make_request(run, run->submission, false, PMV_EVENT_NONE);
}

ssize_t pmv_prepare_flush(struct pmv_run *run, const struct pmv_submission *regions, bool read)
{
	bool unordered = atomic_load(&pmv_run_initiator(run)->ordering.wrote_unordered);

	run->plan = pmv_plan_flush(regions->num_to, read, unordered);
	return make_request(run, regions, false, PMV_EVENT_NONE);
}
