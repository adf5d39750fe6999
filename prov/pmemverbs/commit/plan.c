/* SPDX-License-Identifier: BSD-2-Clause */
/* plan.c -- the steps of one operation; plan.h has their meaning */
#include "commit/plan.h"

#include <assert.h>

static const struct pmv_plan empty = {.data = PMV_MAX_STEPS, .ask = PMV_MAX_STEPS};

static struct pmv_step *add(struct pmv_plan *plan, enum pmv_step_kind kind)
{
	assert(plan->count < PMV_MAX_STEPS);
	plan->steps[plan->count] = (struct pmv_step){.kind = kind};
	return &plan->steps[plan->count++];
}

/* add_request -- ask the agent, and wait for it */
static struct pmv_step *add_request(struct pmv_plan *plan, bool read_back)
{
	struct pmv_step *ask;

	if (read_back)
		add(plan, PMV_STEP_READ_BACK);
	else if (plan->count && plan->count == plan->data + 1U)
		plan->steps[plan->data].more = true;
	plan->ask = plan->count;
	ask = add(plan, PMV_STEP_ASK);
	/* The request must not pass those READs. */
	ask->fence = read_back;
	add(plan, PMV_STEP_AWAIT);
	return ask;
}

/* add_notice -- by the agent itself, if it can, else by a write behind its acknowledgement */
static void add_notice(struct pmv_plan *plan, struct pmv_step *ask,
		       const struct pmv_plan_facts *facts)
{
	if (!facts->immediate)
		return;
	if (facts->notifies)
		ask->immediate = true;
	else
		add(plan, PMV_STEP_IMMEDIATE);
}

/*
 * add_event -- the agent tells the application of an operation that is durable without it, or
 * does not commit.  The request must pass neither the data nor the flush.
 */
static void add_event(struct pmv_plan *plan, struct pmv_step *data, const struct pmv_choice *choice,
		      const struct pmv_plan_facts *facts)
{
	bool flush = choice->method == PMV_METHOD_READ;
	struct pmv_step *ask;

	if (flush)
		add(plan, PMV_STEP_FLUSH);
	ask = add_request(plan, choice->flush_agent);
	ask->fence |= flush;
	if (facts->event_only)
		data->immediate = facts->immediate && !facts->atomic;
	else
		add_notice(plan, ask, facts);
}

/*
 * plan_for_agent -- the agent stores the data, or has to make earlier data durable before this
 * operation is executed.  With a small payload it does both, all in one round trip.  Else the
 * operation waits here for the acknowledgement.
 */
static struct pmv_plan plan_for_agent(const struct pmv_choice *choice,
				      const struct pmv_plan_facts *facts)
{
	bool read_back = choice->flush_agent || facts->unordered;
	struct pmv_plan plan = empty;
	struct pmv_step *ask;

	if (!facts->stored) {
		add_request(&plan, read_back);
		add(&plan, PMV_STEP_PLAN);
		return plan;
	}
	/* READ_BACK flushes as well. */
	if (choice->flush_first && !read_back)
		add(&plan, PMV_STEP_FLUSH);
	ask = add_request(&plan, read_back);
	ask->fence = read_back || choice->flush_first;
	ask->payload = true;
	add_notice(&plan, ask, facts);
	return plan;
}

/*
 * is_delivered -- the core's word takes the READ's place.  It says nothing of what is injected.
 * Behind earlier data that only a READ makes durable, nothing changes.
 */
static bool is_delivered(const struct pmv_choice *choice, const struct pmv_plan_facts *facts)
{
	return choice->in_place && !choice->flush_first && facts->delivers && !facts->atomic &&
	       !facts->injected;
}

struct pmv_plan pmv_plan_operation(const struct pmv_choice *choice,
				   const struct pmv_plan_facts *facts)
{
	struct pmv_plan plan = empty;
	struct pmv_step *data;

	if (choice->after_agent || facts->stored)
		return plan_for_agent(choice, facts);
	if (choice->flush_first)
		add(&plan, PMV_STEP_FLUSH_BEFORE);
	if (choice->persist_first)
		add(&plan, PMV_STEP_PERSIST_BEFORE);
	plan.data = plan.count;
	data = add(&plan, PMV_STEP_DATA);
	data->fence = facts->fenced;
	if (facts->grouped) {
		if (choice->method != PMV_METHOD_WRITE || facts->injected)
			add(&plan, PMV_STEP_JOIN);
		return plan;
	}
	if (choice->method == PMV_METHOD_AGENT) {
		add_notice(&plan, add_request(&plan, choice->flush_agent || facts->unordered),
			   facts);
		return plan;
	}
	if (facts->event) {
		add_event(&plan, data, choice, facts);
		return plan;
	}
	/* All else than a write alone is the agent's (prepare.c). */
	if (choice->method == PMV_METHOD_FLUSH) {
		add(&plan, PMV_STEP_PERSIST);
		return plan;
	}
	data->delivered = is_delivered(choice, facts);
	if (choice->method == PMV_METHOD_READ && !data->delivered)
		add(&plan, PMV_STEP_FLUSH);
	if (!facts->immediate)
		return plan;
	/* The target hears of what the core delivers when it is in place, and that is durable. */
	if (data->delivered || (choice->immediate == PMV_IMMEDIATE_WITH_DATA && !facts->atomic))
		data->immediate = true;
	else
		add(&plan, PMV_STEP_IMMEDIATE);
	return plan;
}

struct pmv_plan pmv_plan_flush(bool agent, bool read, bool unordered)
{
	struct pmv_plan plan = empty;

	if (read)
		add(&plan, PMV_STEP_FLUSH);
	if (agent)
		add_request(&plan, unordered);
	return plan;
}
