/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * litmus.c -- litmus tests of the model; litmus.h says what they are
 *
 * Every state that a program can get into is looked at, twice: with all steps, and
 * with those of hw_free_step taken at once, which must come to the same outcomes.
 * What a power failure would leave is part of an outcome like what a load returns.
 */
#include "litmus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"
#include "litmus_tests.h"

/* The world: one program, somewhere */

enum {
	STEP_HOME = 64, /* the initiator posts its next operation */
	STEP_AWAY,      /* the target's processor goes on */
	STEP_COMPLETE,  /* the initiator sees a completion */
};

struct litmus {
	const struct test *test;
	bool reduced;
	struct hw *hw;
	struct hw_port *home[2];
	char *memory;
	unsigned int next_home;
	unsigned int next_away;
	bool failed[MAX_OPS];
	bool noticed[MAX_OPS];
	uint8_t done[MAX_OPS]; /* how often */
	uint64_t result[MAX_OPS];
};

/* What has been seen of the test, in any state. */
static uint64_t reached;

static bool is_away(const struct op *op)
{
	return op->kind >= LOAD;
}

/* find_next -- from there on, of the one or the other */
static unsigned int find_next(const struct test *test, unsigned int from, bool away)
{
	while (from < MAX_OPS && (!test->ops[from].kind || is_away(&test->ops[from]) != away))
		from++;
	return from;
}

static uint64_t exchange(uint64_t old, uint64_t operand, uint64_t compare)
{
	(void) old;
	(void) compare;
	return operand;
}

static uint64_t add(uint64_t old, uint64_t operand, uint64_t compare)
{
	(void) compare;
	return old + operand;
}

static size_t op_len(const struct op *op)
{
	if (op->how & NO_BYTES)
		return 0;
	if (op->how & TWO_UNITS)
		return 16;
	return op->how & TWO_LINES ? Y - X + 8 : 8;
}

static void post(struct litmus *litmus, unsigned int number)
{
	static const enum hw_kind kinds[] = {[WRITE] = HW_WRITE,
					     [READ] = HW_READ,
					     [SWAP] = HW_ATOMIC,
					     [ADD] = HW_ATOMIC,
					     [SEND] = HW_SEND,
					     [FLUSH] = HW_FLUSH,
					     [ATOMIC_WRITE] = HW_ATOMIC_WRITE};
	const struct op *op = &litmus->test->ops[number];
	bool fetches = op->kind == READ || op->kind == SWAP || op->kind == ADD;
	struct hw_request request = {
		.kind = kinds[op->kind],
		.fence = op->how & FENCED,
		.notifies = op->how & NOTIFIES,
		.persists = !(op->how & GLOBAL),
		.reported = true,
		.imm = number,
		.context = &litmus->done[number],
		.target = litmus->memory + op->at,
		.len = op_len(op),
		.result = fetches ? (char *) &litmus->result[number] : NULL,
		.update = op->kind == ADD ? add : exchange,
		.note = (int) number + 1,
	};
	uint64_t data[Y / 8 + 1];

	for (size_t i = 0; i < Y / 8 + 1; i++)
		data[i] = op->value;
	if (!hw_post(litmus->hw, litmus->home[op->how & SECOND ? 1 : 0], &request,
		     (const char *) data))
		abort();
}

/* receive -- the target is ready for a message at that place */
static void receive(struct litmus *litmus, unsigned int connection, const struct op *op)
{
	const struct hw_receive buf = {.buf = litmus->memory + op->at, .len = op_len(op)};

	if (!hw_receive(litmus->hw, litmus->home[connection]->peer, &buf))
		abort();
}

static void execute(struct litmus *litmus, unsigned int number)
{
	const struct op *op = &litmus->test->ops[number];
	char *at = litmus->memory + op->at;

	switch (op->kind) {
	case LOAD:
		memcpy(&litmus->result[number], at, sizeof(uint64_t));
		break;
	case STORE:
		memcpy(at, &op->value, sizeof(uint64_t));
		break;
	case CLWB:
		hw_flush(litmus->hw, at, 1);
		break;
	case SFENCE:
		hw_drain(litmus->hw);
		break;
	case MOVNT:
		hw_store(litmus->hw, at, &op->value, sizeof(uint64_t));
		break;
	case TOUCH:
		hw_touch(litmus->hw, at, 1);
		break;
	case MSYNC:
		hw_sync(litmus->hw, at, 1);
		break;
	case RECEIVE:
		receive(litmus, op->how & SECOND ? 1 : 0, op);
		break;
	case IMAGE:
		hw_image(litmus->hw, at, sizeof(uint64_t), (char *) &litmus->result[number]);
		break;
	default:
		abort();
	}
	litmus->done[number]++;
}

static void completed(struct hw_port *port, const struct hw_event *event)
{
	struct litmus *litmus = port->owner;
	ptrdiff_t number;

	if (event->receive) {
		litmus->noticed[event->imm] = true;
		return;
	}
	number = (uint8_t *) event->context - litmus->done;
	litmus->done[number]++;
	litmus->failed[number] = event->err;
}

static bool may_go_on(const struct litmus *litmus)
{
	const struct op *op = &litmus->test->ops[litmus->next_home];

	if (litmus->next_home == MAX_OPS)
		return false;
	if (op->kind == AWAIT)
		return litmus->done[op->at];
	return !litmus->home[op->how & SECOND ? 1 : 0]->dead;
}

static size_t steps(void *world, struct hw_step *list)
{
	struct litmus *litmus = world;
	size_t count = 0;

	if (litmus->reduced && hw_free_step(litmus->hw, list))
		return 1;
	if (may_go_on(litmus))
		list[count++] = (struct hw_step){.kind = STEP_HOME};
	if (litmus->next_away < MAX_OPS)
		list[count++] = (struct hw_step){.kind = STEP_AWAY};
	for (uint8_t i = 0; i < 2; i++) {
		if (litmus->home[i] && hw_completable(litmus->hw, litmus->home[i]))
			list[count++] = (struct hw_step){.kind = STEP_COMPLETE, .at = i};
	}
	return count + hw_steps(litmus->hw, list + count);
}

static void take(void *world, struct hw_step step)
{
	struct litmus *litmus = world;
	unsigned int number;

	switch (step.kind) {
	case STEP_HOME:
		number = litmus->next_home;
		litmus->next_home = find_next(litmus->test, number + 1, false);
		if (litmus->test->ops[number].kind == AWAIT)
			litmus->done[number]++;
		else
			post(litmus, number);
		break;
	case STEP_AWAY:
		number = litmus->next_away;
		litmus->next_away = find_next(litmus->test, number + 1, true);
		execute(litmus, number);
		break;
	case STEP_COMPLETE:
		hw_complete(litmus->hw, litmus->home[step.at]);
		break;
	default:
		hw_take(litmus->hw, step);
		break;
	}
}

/* All of it is in the arena's small objects, and is looked at after each step. */
static unsigned int group(struct hw_step step)
{
	(void) step;
	return 1;
}

static bool is_over(const struct litmus *litmus)
{
	bool dead = false;

	for (unsigned int i = 0; i < 2 && litmus->home[i]; i++) {
		dead |= litmus->home[i]->dead;
		if (litmus->home[i]->count)
			return false;
	}
	return litmus->next_away == MAX_OPS && (dead || litmus->next_home == MAX_OPS);
}

static uint64_t value_at(const struct litmus *litmus, unsigned int at)
{
	uint64_t value;

	memcpy(&value, litmus->memory + at, sizeof(value));
	return value;
}

static uint64_t image_at(const struct litmus *litmus, unsigned int at)
{
	uint64_t value;

	hw_image(litmus->hw, litmus->memory + at, sizeof(value), (char *) &value);
	return value;
}

/* Nothing can happen any more where the search is. */
static bool is_final;

static bool holds(const struct litmus *litmus, const struct term *term)
{
	switch (term->kind) {
	case HAS_DONE:
		return litmus->done[term->at] && !litmus->failed[term->at];
	case HAS_FAILED:
		return litmus->failed[term->at];
	case NOT_DONE:
		return !litmus->done[term->at];
	case GOT:
		return litmus->done[term->at] && !litmus->failed[term->at] &&
		       litmus->result[term->at] == term->value;
	case NOTICED:
		return litmus->noticed[term->at];
	case NOT_NOTICED:
		return !litmus->noticed[term->at];
	case SEEN:
		return value_at(litmus, term->at) == term->value;
	case TORN:
		return value_at(litmus, term->at) && value_at(litmus, term->at) != term->value;
	case LEAVES:
		return image_at(litmus, term->at) == term->value;
	case OVER:
		return is_over(litmus);
	case STUCK:
		return is_final && !is_over(litmus);
	}
	return true;
}

static bool all_hold(const struct litmus *litmus, const struct outcome *outcome)
{
	for (unsigned int i = 0; i < MAX_TERMS && outcome->terms[i].kind; i++) {
		if (!holds(litmus, &outcome->terms[i]))
			return false;
	}
	return true;
}

static const char *check(void *world, bool final)
{
	static char text[64];
	struct litmus *litmus = world;
	bool stuck = final && !is_over(litmus);

	is_final = final;
	for (unsigned int i = 0; i < MAX_OUTCOMES; i++) {
		const struct outcome *outcome = &litmus->test->outcomes[i];

		if (!outcome->verdict || !all_hold(litmus, outcome))
			continue;
		reached |= UINT64_C(1) << i;
		if (outcome->terms[0].kind == STUCK)
			stuck = false;
		if (outcome->verdict == ALLOWED)
			continue;
		snprintf(text, sizeof(text), "outcome %u is forbidden", i + 1);
		return text;
	}
	for (unsigned int i = 0; i < MAX_OPS; i++) {
		if (litmus->done[i] > 1)
			return "something has completed twice";
	}
	return stuck ? "it never ends" : NULL;
}

static void describe(void *world, struct hw_step step, char *buf, size_t len)
{
	struct litmus *litmus = world;

	switch (step.kind) {
	case STEP_HOME:
		snprintf(buf, len, "the initiator goes on with operation %u",
			 litmus->next_home + 1);
		break;
	case STEP_AWAY:
		snprintf(buf, len, "the target's processor goes on with operation %u",
			 litmus->next_away + 1);
		break;
	case STEP_COMPLETE:
		snprintf(buf, len, "the initiator sees a completion of connection %u", step.at);
		break;
	default:
		hw_describe(litmus->hw, step, buf, len);
		break;
	}
}

/* Opening and running */

static void connect_home(struct litmus *litmus, unsigned int number)
{
	const struct test *test = litmus->test;
	struct hw_port *home = hw_port(litmus->hw, 0, MAX_OPS);
	struct hw_port *away = hw_port(litmus->hw, test->two_nics ? 1 + number : 1, MAX_OPS);

	home->owner = away->owner = litmus;
	hw_connect(home, away);
	litmus->home[number] = home;
	for (unsigned int i = 0; i < MAX_OPS; i++) {
		const struct op *op = &test->ops[i];

		if (op->kind == SEND && !(op->how & LATE) &&
		    (op->how & SECOND ? 1 : 0) == (int) number)
			receive(litmus, number, op);
	}
}

/* A connection that nobody uses would keep hw_free_step from what it may do. */
static bool uses_second(const struct test *test)
{
	for (unsigned int i = 0; i < MAX_OPS; i++) {
		if (test->ops[i].how & SECOND)
			return true;
	}
	return false;
}

static struct litmus *open_litmus(const struct test *test, bool reduced)
{
	struct litmus *litmus;
	char *room;

	arena_reset();
	arena_open();
	litmus = calloc(1, sizeof(*litmus));
	room = calloc(1, MEMORY_LEN + HW_LINE);
	if (!litmus || !room)
		abort();
	litmus->test = test;
	litmus->reduced = reduced;
	litmus->memory = (char *) (((uintptr_t) room + HW_LINE - 1) / HW_LINE * HW_LINE);
	litmus->hw = hw_new(&test->rules);
	litmus->hw->complete = completed;
	litmus->hw->may_die = test->may_die;
	hw_memory(litmus->hw, litmus->memory, MEMORY_LEN, test->domain);
	connect_home(litmus, 0);
	if (uses_second(test))
		connect_home(litmus, 1);
	litmus->next_home = find_next(test, 0, false);
	litmus->next_away = find_next(test, 0, true);
	arena_close();
	return litmus;
}

/* More than any test has. */
#define MAX_STATES 10000000

/* run -- what is reached is in `reached` then */
static uint64_t run(const struct test *test, bool reduced, bool tell, char *wrong, size_t len)
{
	struct explore_world world = {
		.world = open_litmus(test, reduced),
		.steps = steps,
		.take = take,
		.group = group,
		.check = check,
		.describe = describe,
	};
	struct explore_result result;

	reached = 0;
	result = explore(&world, MAX_STATES);
	if (result.stopped)
		snprintf(result.wrong, sizeof(result.wrong), "too many states");
	if (result.wrong[0]) {
		snprintf(wrong, len, "%s", result.wrong);
		if (tell) {
			explore_shorten(&world, &result);
			explore_tell(&world, result.path, result.path_len);
		}
	}
	free(result.path);
	/* All that it has allocated goes with the arena. */
	return result.states;
}

static unsigned int count(const struct test *test, int verdict, uint64_t mask)
{
	unsigned int number = 0;

	for (unsigned int i = 0; i < MAX_OUTCOMES; i++)
		number += (int) test->outcomes[i].verdict == verdict && (mask >> i & 1);
	return number;
}

static bool run_test(const struct test *test, bool tell)
{
	char wrong[256] = "";
	uint64_t all = run(test, false, tell, wrong, sizeof(wrong));
	uint64_t outcomes = reached;
	uint64_t some = run(test, true, tell && !wrong[0], wrong, sizeof(wrong));
	unsigned int allowed = count(test, ALLOWED, UINT64_MAX);

	if (!wrong[0] && count(test, ALLOWED, outcomes) < allowed)
		snprintf(wrong, sizeof(wrong), "an allowed outcome is never reached");
	if (!wrong[0] && reached != outcomes)
		snprintf(wrong, sizeof(wrong), "the reduction loses an outcome");
	if (tell || wrong[0])
		printf("%-60s allowed %u/%u, forbidden %u/%u, states %ju (%ju)%s%s\n", test->name,
		       count(test, ALLOWED, outcomes), allowed, count(test, FORBIDDEN, outcomes),
		       count(test, FORBIDDEN, UINT64_MAX), (uintmax_t) all, (uintmax_t) some,
		       wrong[0] ? ": " : "", wrong);
	return !wrong[0];
}

int litmus_run(bool tell)
{
	const struct test *const tables[] = {litmus_network, litmus_memory};
	int failed = 0;

	for (size_t i = 0; i < 2; i++) {
		for (const struct test *test = tables[i]; test->name; test++)
			failed += !run_test(test, tell);
	}
	return failed;
}
