/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_plan.c -- the steps of an operation, for everything that they depend on
 *
 * The tables are written out; nothing in here computes an expected plan.  A plan is written
 * as its steps, in their order:
 *
 *   f   FLUSH_BEFORE   a READ in front of the data
 *   b   PERSIST_BEFORE an RDMA FLUSH in front of the data, which are an ATOMIC WRITE
 *   D   DATA           the write, atomic or message itself
 *   F   FLUSH          a READ behind the data
 *   p   PERSIST        an RDMA FLUSH behind the data
 *   R   READ_BACK      READs of everything that the request names
 *   A   ASK            the request to the agent
 *   w   AWAIT          its acknowledgement
 *   I   IMMEDIATE      a fenced write of 0 bytes with immediate data
 *   J   JOIN           the group's flush
 *   P   PLAN           the operation itself is planned
 *
 * and behind a step what it has: * a fence, ! immediate data, + the payload, ^ the core's word that
 * it is in place.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "commit/plan.h"
#include "engine/info.h"

/* A value of something that is true or false, or both. */
enum axis { NO, YES, ANY };

static bool fits(enum axis axis, bool value)
{
	return axis == ANY || (axis == YES) == value;
}

/* An operation whose data need not wait for the agent. */
struct row {
	enum pmv_method method;
	enum axis with_data; /* immediate data may go along with the data */
	enum axis flush_agent;
	enum axis unordered;
	enum axis atomic;
	enum axis injected;
	enum axis immediate;
	enum axis notifies;
	enum axis grouped;
	const char *not_fenced;
	const char *fenced;
	const char *flush_first; /* and fenced: no other operation is flushed first */
};

#define WRITE PMV_METHOD_WRITE
#define READ PMV_METHOD_READ
#define AGENT PMV_METHOD_AGENT

/* clang-format off */
static const struct row rows[] = {
	/*method with flush unord atom inj  imm  notif group  not fenced fenced      flush first */
	{WRITE, ANY, ANY,  ANY,  ANY, ANY, NO,  ANY,  NO,  "D",       "D*",       "f D*"},
	{WRITE, YES, ANY,  ANY,  NO,  ANY, YES, ANY,  NO,  "D!",      "D*!",      "f D*!"},
	{WRITE, YES, ANY,  ANY,  YES, ANY, YES, ANY,  NO,  "D I",     "D* I",     "f D* I"},
	{WRITE, NO,  ANY,  ANY,  ANY, ANY, YES, ANY,  NO,  "D I",     "D* I",     "f D* I"},

	{READ,  NO,  ANY,  ANY,  ANY, ANY, NO,  ANY,  NO,  "D F",     "D* F",     "f D* F"},
	{READ,  NO,  ANY,  ANY,  ANY, ANY, YES, ANY,  NO,  "D F I",   "D* F I",   "f D* F I"},

	{AGENT, NO,  NO,   NO,   ANY, ANY, NO,  ANY,  NO,  "D A w",   "D* A w",   "f D* A w"},
	{AGENT, NO,  NO,   NO,   ANY, ANY, YES, YES,  NO,  "D A! w",  "D* A! w",  "f D* A! w"},
	{AGENT, NO,  NO,   NO,   ANY, ANY, YES, NO,   NO,  "D A w I", "D* A w I", "f D* A w I"},
	/* Nothing keeps the order: what the agent is asked for is read back first. */
	{AGENT, NO,  YES,  ANY,  ANY, ANY, NO,  ANY,  NO,  "D R A* w",   "D* R A* w",   "f D* R A* w"},
	{AGENT, NO,  YES,  ANY,  ANY, ANY, YES, YES,  NO,  "D R A*! w",  "D* R A*! w",  "f D* R A*! w"},
	{AGENT, NO,  YES,  ANY,  ANY, ANY, YES, NO,   NO,  "D R A* w I", "D* R A* w I", "f D* R A* w I"},
	{AGENT, NO,  NO,   YES,  ANY, ANY, NO,  ANY,  NO,  "D R A* w",   "D* R A* w",   "f D* R A* w"},
	{AGENT, NO,  NO,   YES,  ANY, ANY, YES, YES,  NO,  "D R A*! w",  "D* R A*! w",  "f D* R A*! w"},
	{AGENT, NO,  NO,   YES,  ANY, ANY, YES, NO,   NO,  "D R A* w I", "D* R A* w I", "f D* R A* w I"},

	/* A group's flush is the proof, unless a write's own completion is. */
	{WRITE, ANY, ANY,  ANY,  ANY, NO,  ANY, ANY,  YES, "D",       "D*",       "f D*"},
	{WRITE, ANY, ANY,  ANY,  ANY, YES, ANY, ANY,  YES, "D J",     "D* J",     "f D* J"},
	{READ,  NO,  ANY,  ANY,  ANY, ANY, ANY, ANY,  YES, "D J",     "D* J",     "f D* J"},
	{AGENT, NO,  ANY,  ANY,  ANY, ANY, ANY, ANY,  YES, "D J",     "D* J",     "f D* J"},
};

/* One by READ, where what is in place is durable, and the core says when that is. */
static const struct delivered_row {
	enum axis atomic;
	enum axis injected;
	enum axis immediate;
	enum axis grouped;
	const char *not_fenced;
	const char *fenced;
	const char *flush_first;
} delivered_rows[] = {
	/*atom inj  imm  group  not fenced fenced  flush first */
	{NO,  NO,  NO,  NO,  "D^",    "D*^",    "f D* F"},
	{NO,  NO,  YES, NO,  "D!^",   "D*!^",   "f D* F I"},
	{NO,  YES, NO,  NO,  "D F",   "D* F",   "f D* F"},
	{NO,  YES, YES, NO,  "D F I", "D* F I", "f D* F I"},
	{YES, ANY, NO,  NO,  "D F",   "D* F",   "f D* F"},
	{YES, ANY, YES, NO,  "D F I", "D* F I", "f D* F I"},
	{ANY, ANY, ANY, YES, "D J",   "D* J",   "f D* J"},
};

/* An operation that the agent has to do something for before it is executed, or executes. */
static const struct after_row {
	enum axis stored;
	enum axis flush_agent;
	enum axis unordered;
	enum axis flush_first;
	enum axis immediate;
	enum axis notifies;
	const char *steps;
} after_rows[] = {
	/*stor flush unord first imm  notif */
	{NO,  NO,   NO,   ANY,  ANY, ANY,  "A w P"},
	{NO,  YES,  ANY,  ANY,  ANY, ANY,  "R A* w P"},
	{NO,  NO,   YES,  ANY,  ANY, ANY,  "R A* w P"},

	{YES, NO,   NO,   NO,   NO,  ANY,  "A+ w"},
	{YES, NO,   NO,   NO,   YES, YES,  "A!+ w"},
	{YES, NO,   NO,   NO,   YES, NO,   "A+ w I"},
	{YES, NO,   NO,   YES,  NO,  ANY,  "F A*+ w"},
	{YES, NO,   NO,   YES,  YES, YES,  "F A*!+ w"},
	{YES, NO,   NO,   YES,  YES, NO,   "F A*+ w I"},

	{YES, YES,  ANY,  ANY,  NO,  ANY,  "R A*+ w"},
	{YES, YES,  ANY,  ANY,  YES, YES,  "R A*!+ w"},
	{YES, YES,  ANY,  ANY,  YES, NO,   "R A*+ w I"},
	{YES, NO,   YES,  ANY,  NO,  ANY,  "R A*+ w"},
	{YES, NO,   YES,  ANY,  YES, YES,  "R A*!+ w"},
	{YES, NO,   YES,  ANY,  YES, NO,   "R A*+ w I"},
};

/* An operation of which the target's application is told, without need of the agent. */
static const struct event_row {
	enum pmv_method method;
	enum axis event_only; /* it does not commit */
	enum axis flush_agent;
	enum axis immediate;
	enum axis notifies;
	const char *not_fenced;
	const char *fenced;
	const char *flush_first;
} event_rows[] = {
	/*method only  flush imm  notif  not fenced    fenced         flush first */
	{WRITE, NO,  NO,   NO,  ANY, "D A w",       "D* A w",       "f D* A w"},
	{WRITE, NO,  NO,   YES, YES, "D A! w",      "D* A! w",      "f D* A! w"},
	{WRITE, NO,  NO,   YES, NO,  "D A w I",     "D* A w I",     "f D* A w I"},
	{WRITE, NO,  YES,  NO,  ANY, "D R A* w",    "D* R A* w",    "f D* R A* w"},
	{WRITE, NO,  YES,  YES, YES, "D R A*! w",   "D* R A*! w",   "f D* R A*! w"},
	{WRITE, NO,  YES,  YES, NO,  "D R A* w I",  "D* R A* w I",  "f D* R A* w I"},

	{WRITE, YES, NO,   NO,  ANY, "D A w",       "D* A w",       "f D* A w"},
	{WRITE, YES, NO,   YES, ANY, "D! A w",      "D*! A w",      "f D*! A w"},
	{WRITE, YES, YES,  NO,  ANY, "D R A* w",    "D* R A* w",    "f D* R A* w"},
	{WRITE, YES, YES,  YES, ANY, "D! R A* w",   "D*! R A* w",   "f D*! R A* w"},

	{READ,  NO,  NO,   NO,  ANY, "D F A* w",    "D* F A* w",    "f D* F A* w"},
	{READ,  NO,  NO,   YES, YES, "D F A*! w",   "D* F A*! w",   "f D* F A*! w"},
	{READ,  NO,  NO,   YES, NO,  "D F A* w I",  "D* F A* w I",  "f D* F A* w I"},
	{READ,  NO,  YES,  NO,  ANY, "D F R A* w",  "D* F R A* w",  "f D* F R A* w"},
	{READ,  NO,  YES,  YES, YES, "D F R A*! w", "D* F R A*! w", "f D* F R A*! w"},
	{READ,  NO,  YES,  YES, NO,  "D F R A* w I", "D* F R A* w I", "f D* F R A* w I"},
};

/* A flush alone. */
static const struct {
	bool agent;
	bool read;
	bool unordered;
	const char *steps;
} flushes[] = {
	{false, true,  false, "F"},
	{false, true,  true,  "F"},
	{true,  false, false, "A w"},
	{true,  false, true,  "R A* w"},
	{true,  true,  false, "F A w"},
	{true,  true,  true,  "F R A* w"},
};
/* clang-format on */

#define NUM(rows) (sizeof(rows) / sizeof((rows)[0]))

/* All there is, counted: three methods, and a bit for each of the rest. */
#define NUM_BITS 14
#define NUM_CASES (3u << NUM_BITS)

struct plan_case {
	struct pmv_choice choice;
	struct pmv_plan_facts facts;
};

static struct plan_case case_of(unsigned n)
{
	static const enum pmv_method methods[] = {WRITE, READ, AGENT};

	return (struct plan_case){
		.choice =
			{
				.method = methods[n >> NUM_BITS],
				.flush_first = n & 1 << 0,
				.after_agent = n & 1 << 1,
				.flush_agent = n & 1 << 2,
				.immediate = n & 1 << 3 ? PMV_IMMEDIATE_WITH_DATA
							: PMV_IMMEDIATE_BEHIND_FLUSH,
				.in_place = n & 1 << 12,
			},
		.facts =
			{
				.fenced = n & 1 << 4,
				.atomic = n & 1 << 5,
				.injected = n & 1 << 6,
				.immediate = n & 1 << 7,
				.notifies = n & 1 << 8,
				.unordered = n & 1 << 9,
				.stored = n & 1 << 10,
				.grouped = n & 1 << 11,
				.delivers = n & 1 << 13,
			},
	};
}

/* happens -- method.c makes no other choices: without a fence nothing is flushed first */
static bool happens(const struct plan_case *one)
{
	if (one->choice.in_place && one->choice.method != READ)
		return false;
	if (one->choice.flush_first && !one->facts.fenced)
		return false;
	return one->choice.method == WRITE || one->choice.immediate == PMV_IMMEDIATE_BEHIND_FLUSH;
}

/* is_for_agent -- the rows of after_rows */
static bool is_for_agent(const struct plan_case *one)
{
	return one->choice.after_agent || one->facts.stored;
}

static const char *text_of(const struct pmv_plan *plan)
{
	static const char letters[] = {
		[PMV_STEP_FLUSH_BEFORE] = 'f',
		[PMV_STEP_DATA] = 'D',
		[PMV_STEP_FLUSH] = 'F',
		[PMV_STEP_READ_BACK] = 'R',
		[PMV_STEP_ASK] = 'A',
		[PMV_STEP_AWAIT] = 'w',
		[PMV_STEP_IMMEDIATE] = 'I',
		[PMV_STEP_JOIN] = 'J',
		[PMV_STEP_PLAN] = 'P',
		[PMV_STEP_PERSIST] = 'p',
		[PMV_STEP_PERSIST_BEFORE] = 'b',
	};
	static char text[PMV_MAX_STEPS * 6 + 1];
	char *at = text;

	*at = '\0';
	for (unsigned int i = 0; i < plan->count; i++) {
		const struct pmv_step *step = &plan->steps[i];

		at += sprintf(at, "%s%c%s%s%s%s", i ? " " : "", letters[step->kind],
			      step->fence ? "*" : "", step->immediate ? "!" : "",
			      step->payload ? "+" : "", step->delivered ? "^" : "");
	}
	return text;
}

static void expect_steps(const struct plan_case *one, const char *steps)
{
	struct pmv_plan plan = pmv_plan_operation(&one->choice, &one->facts);

	cr_expect_str_eq(
		text_of(&plan), steps,
		"method %d, first %d, after %d, flush_agent %d, with_data %d; fenced %d, atomic "
		"%d, injected %d, immediate %d, notifies %d, unordered %d, stored %d, grouped %d: "
		"%s instead of %s",
		one->choice.method, one->choice.flush_first, one->choice.after_agent,
		one->choice.flush_agent, one->choice.immediate == PMV_IMMEDIATE_WITH_DATA,
		one->facts.fenced, one->facts.atomic, one->facts.injected, one->facts.immediate,
		one->facts.notifies, one->facts.unordered, one->facts.stored, one->facts.grouped,
		text_of(&plan), steps);
}

static bool is_row_of(const struct row *row, const struct plan_case *one)
{
	return row->method == one->choice.method &&
	       fits(row->with_data, one->choice.immediate == PMV_IMMEDIATE_WITH_DATA) &&
	       fits(row->flush_agent, one->choice.flush_agent) &&
	       fits(row->unordered, one->facts.unordered) && fits(row->atomic, one->facts.atomic) &&
	       fits(row->injected, one->facts.injected) &&
	       fits(row->immediate, one->facts.immediate) &&
	       fits(row->notifies, one->facts.notifies) && fits(row->grouped, one->facts.grouped);
}

/* is_delivered -- the rows of delivered_rows */
static bool is_delivered(const struct plan_case *one)
{
	return one->choice.in_place && one->facts.delivers;
}

Test(plan, operations_follow_the_table)
{
	for (unsigned n = 0; n < NUM_CASES; n++) {
		struct plan_case one = case_of(n);
		const struct row *found = NULL;

		if (!happens(&one) || is_for_agent(&one) || is_delivered(&one))
			continue;
		for (size_t i = 0; i < NUM(rows); i++) {
			if (!is_row_of(&rows[i], &one))
				continue;
			cr_assert_null(found, "two rows for one case: %u", n);
			found = &rows[i];
		}
		cr_assert_not_null(found, "no row for a case: %u", n);
		expect_steps(&one, one.choice.flush_first ? found->flush_first
				   : one.facts.fenced     ? found->fenced
							  : found->not_fenced);
	}
}

static bool is_delivered_row_of(const struct delivered_row *row, const struct plan_case *one)
{
	return fits(row->atomic, one->facts.atomic) && fits(row->injected, one->facts.injected) &&
	       fits(row->immediate, one->facts.immediate) && fits(row->grouped, one->facts.grouped);
}

Test(plan, operations_that_the_core_delivers_follow_the_table)
{
	for (unsigned n = 0; n < NUM_CASES; n++) {
		struct plan_case one = case_of(n);
		const struct delivered_row *found = NULL;

		if (!happens(&one) || is_for_agent(&one) || !is_delivered(&one))
			continue;
		for (size_t i = 0; i < NUM(delivered_rows); i++) {
			if (!is_delivered_row_of(&delivered_rows[i], &one))
				continue;
			cr_assert_null(found, "two rows for one case: %u", n);
			found = &delivered_rows[i];
		}
		cr_assert_not_null(found, "no row for a case: %u", n);
		expect_steps(&one, one.choice.flush_first ? found->flush_first
				   : one.facts.fenced     ? found->fenced
							  : found->not_fenced);
	}
}

static bool is_after_row_of(const struct after_row *row, const struct plan_case *one)
{
	return fits(row->stored, one->facts.stored) &&
	       fits(row->flush_agent, one->choice.flush_agent) &&
	       fits(row->unordered, one->facts.unordered) &&
	       fits(row->flush_first, one->choice.flush_first) &&
	       fits(row->immediate, one->facts.immediate) &&
	       fits(row->notifies, one->facts.notifies);
}

Test(plan, operations_after_or_by_the_agent_follow_the_table)
{
	for (unsigned n = 0; n < NUM_CASES; n++) {
		struct plan_case one = case_of(n);
		const struct after_row *found = NULL;

		if (!happens(&one) || !is_for_agent(&one))
			continue;
		for (size_t i = 0; i < NUM(after_rows); i++) {
			if (!is_after_row_of(&after_rows[i], &one))
				continue;
			cr_assert_null(found, "two rows for one case: %u", n);
			found = &after_rows[i];
		}
		cr_assert_not_null(found, "no row for a case: %u", n);
		expect_steps(&one, found->steps);
	}
}

static bool is_event_row_of(const struct event_row *row, const struct plan_case *one)
{
	return row->method == one->choice.method && fits(row->event_only, one->facts.event_only) &&
	       fits(row->flush_agent, one->choice.flush_agent) &&
	       fits(row->immediate, one->facts.immediate) &&
	       fits(row->notifies, one->facts.notifies);
}

static void expect_event(const struct plan_case *one)
{
	const struct event_row *found = NULL;

	for (size_t i = 0; i < NUM(event_rows); i++) {
		if (!is_event_row_of(&event_rows[i], one))
			continue;
		cr_assert_null(found, "two rows for one case");
		found = &event_rows[i];
	}
	cr_assert_not_null(found, "no row for a case");
	expect_steps(one, one->choice.flush_first ? found->flush_first
			  : one->facts.fenced     ? found->fenced
						  : found->not_fenced);
}

Test(plan, operations_of_which_the_application_is_told_follow_the_table)
{
	for (unsigned n = 0; n < NUM_CASES; n++) {
		struct plan_case one = case_of(n), untold = one;

		one.facts.event = true;
		if (!happens(&one) || one.facts.grouped)
			continue;
		/* The agent that is asked anyway is asked for that, too. */
		if (one.choice.method == AGENT || is_for_agent(&one)) {
			struct pmv_plan plan = pmv_plan_operation(&untold.choice, &untold.facts);
			char steps[PMV_MAX_STEPS * 6 + 1];

			expect_steps(&one, strcpy(steps, text_of(&plan)));
			continue;
		}
		expect_event(&one);
		one.facts.event_only = true;
		/* What does not commit needs no flush, and atomics carry no data. */
		if (one.choice.method == WRITE && !(one.facts.atomic && one.facts.immediate))
			expect_event(&one);
	}
}

Test(plan, flushes_follow_the_table)
{
	for (size_t i = 0; i < NUM(flushes); i++) {
		struct pmv_plan plan =
			pmv_plan_flush(flushes[i].agent, flushes[i].read, flushes[i].unordered);

		cr_expect_str_eq(text_of(&plan), flushes[i].steps);
	}
}

/* What holds for every plan, also for choices that method.c does not make. */

static unsigned count(const struct pmv_plan *plan, enum pmv_step_kind kind)
{
	unsigned found = 0;

	for (unsigned int i = 0; i < plan->count; i++)
		found += plan->steps[i].kind == kind;
	return found;
}

/* expect_order -- what may stand in front of a step and behind it; NULL: there is none */
static void expect_order(const struct pmv_plan *plan, const struct pmv_step *before,
			 const struct pmv_step *step, const struct pmv_step *after,
			 enum pmv_method method)
{
	const char *text = text_of(plan);
	bool flushed = before && before->kind == PMV_STEP_FLUSH;

	switch ((enum pmv_step_kind) step->kind) {
	case PMV_STEP_FLUSH_BEFORE:
		cr_expect(!before && after && after->kind == PMV_STEP_DATA, "%s", text);
		break;
	case PMV_STEP_PERSIST_BEFORE:
		cr_expect(!before && after && after->kind == PMV_STEP_DATA &&
				  method == PMV_METHOD_FLUSH,
			  "%s", text);
		break;
	case PMV_STEP_READ_BACK:
		cr_expect(after && after->kind == PMV_STEP_ASK && after->fence, "%s", text);
		break;
	case PMV_STEP_ASK:
		cr_expect(after && after->kind == PMV_STEP_AWAIT, "%s", text);
		break;
	case PMV_STEP_AWAIT:
		cr_expect(before && before->kind == PMV_STEP_ASK, "%s", text);
		break;
	case PMV_STEP_IMMEDIATE:
		cr_expect(before && !after &&
				  (flushed || before->kind == PMV_STEP_AWAIT ||
				   (before->kind == PMV_STEP_DATA && method == WRITE)),
			  "%s", text);
		break;
	case PMV_STEP_PLAN:
		cr_expect(before && before->kind == PMV_STEP_AWAIT && !after, "%s", text);
		break;
	case PMV_STEP_DATA:
		/* What proves that they are durable. */
		cr_expect(method == WRITE || (step->delivered && !after) ||
				  (after && after->kind != PMV_STEP_IMMEDIATE),
			  "%s", text);
		break;
	case PMV_STEP_JOIN:
	case PMV_STEP_PERSIST:
		cr_expect(before && before->kind == PMV_STEP_DATA && !after, "%s", text);
		break;
	case PMV_STEP_FLUSH:
		break;
	}
}

/* index_of -- of the first such step; PMV_MAX_STEPS: there is none */
static unsigned index_of(const struct pmv_plan *plan, enum pmv_step_kind kind)
{
	for (unsigned int i = 0; i < plan->count; i++) {
		if (plan->steps[i].kind == kind)
			return i;
	}
	return PMV_MAX_STEPS;
}

static void expect_all_in_order(const struct pmv_plan *plan, enum pmv_method method)
{
	cr_assert(plan->count > 0 && plan->count <= PMV_MAX_STEPS);
	/* The queues are opened for so many. */
	cr_expect(plan->ask != PMV_MAX_STEPS || plan->count <= PMV_INFO_MAX_REQUESTS, "%s",
		  text_of(plan));
	cr_expect_eq(plan->data, index_of(plan, PMV_STEP_DATA), "%s", text_of(plan));
	cr_expect_eq(plan->ask, index_of(plan, PMV_STEP_ASK), "%s", text_of(plan));
	for (unsigned int i = 0; i < plan->count; i++)
		expect_order(plan, i ? &plan->steps[i - 1] : NULL, &plan->steps[i],
			     i + 1 < plan->count ? &plan->steps[i + 1] : NULL, method);
}

/* expect_flags -- only those that the step can have; returns how many of each kind there are */
static void expect_flags(const struct pmv_plan *plan, const struct plan_case *one,
			 unsigned *immediates, unsigned *payloads)
{
	*immediates = count(plan, PMV_STEP_IMMEDIATE);
	*payloads = 0;
	for (unsigned int i = 0; i < plan->count; i++) {
		const struct pmv_step *step = &plan->steps[i];
		bool ask = step->kind == PMV_STEP_ASK, data = step->kind == PMV_STEP_DATA;

		cr_expect(!step->fence || ask || data);
		cr_expect(!step->immediate || (ask && one->facts.notifies) ||
			  (data && !one->facts.atomic));
		cr_expect(!step->payload || (ask && one->facts.stored));
		cr_expect(!data || step->fence == one->facts.fenced);
		cr_expect(!step->delivered || (data && is_delivered(one)));
		cr_expect_eq(step->more, data && plan->ask == i + 1);
		*immediates += step->immediate;
		*payloads += step->payload;
	}
}

Test(plan, every_operation_keeps_the_rules)
{
	for (unsigned n = 0; n < NUM_CASES; n++) {
		struct plan_case one = case_of(n);
		struct pmv_plan plan = pmv_plan_operation(&one.choice, &one.facts);
		unsigned immediates, payloads;
		bool later = count(&plan, PMV_STEP_PLAN);
		bool told =
			one.facts.immediate && !later && (!one.facts.grouped || is_for_agent(&one));

		expect_all_in_order(&plan, one.choice.method);
		expect_flags(&plan, &one, &immediates, &payloads);
		/* The data go one way, and the target's application is told once. */
		cr_expect_eq(count(&plan, PMV_STEP_DATA) + later + payloads, 1, "%s",
			     text_of(&plan));
		cr_expect_eq(immediates, told, "%s", text_of(&plan));
		cr_expect_leq(count(&plan, PMV_STEP_ASK), 1);
	}
}

Test(plan, every_flush_keeps_the_rules)
{
	for (size_t i = 0; i < NUM(flushes); i++) {
		struct pmv_plan plan =
			pmv_plan_flush(flushes[i].agent, flushes[i].read, flushes[i].unordered);

		expect_all_in_order(&plan, READ);
		cr_expect_eq(count(&plan, PMV_STEP_ASK), flushes[i].agent);
		cr_expect_eq(count(&plan, PMV_STEP_FLUSH), flushes[i].read);
	}
}

/* method.c chooses it for nothing that has more to it. */
Test(plan, of_a_commit_by_rdma_flush_is_a_write_and_the_flush)
{
	for (int n = 0; n < 4; n++) {
		const struct pmv_choice choice = {.method = PMV_METHOD_FLUSH};
		const struct pmv_plan_facts facts = {
			.fenced = n & 1, .notifies = n & 2, .unordered = false};
		struct pmv_plan plan = pmv_plan_operation(&choice, &facts);

		cr_expect_str_eq(text_of(&plan), n & 1 ? "D* p" : "D p");
		expect_all_in_order(&plan, PMV_METHOD_FLUSH);
	}
}

Test(plan, of_an_atomic_write_has_a_flush_in_front_too)
{
	const struct pmv_choice choice = {.method = PMV_METHOD_FLUSH, .persist_first = true};
	const struct pmv_plan_facts facts = {.fenced = true};
	struct pmv_plan plan = pmv_plan_operation(&choice, &facts);

	cr_expect_str_eq(text_of(&plan), "b D* p");
	expect_all_in_order(&plan, PMV_METHOD_FLUSH);
}
