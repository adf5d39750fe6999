/* SPDX-License-Identifier: BSD-2-Clause */
/* invariants.c -- what must hold in every state of a world: world.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world_impl.h"

#define MAX_UNITS 64

/*
 * image_of -- what a power failure now would leave of an operation's place, in units of 8
 * bytes; returns how many.  In one go: every state of every world asks for it.
 */
static size_t image_of(struct world *world, const struct world_op *op, uint64_t units[MAX_UNITS])
{
	if (op->len > MAX_UNITS * sizeof(units[0]))
		abort();
	hw_image(world->sim->hw, world->memory[op->region] + op->offset, op->len, (char *) units);
	return op->len / sizeof(units[0]);
}

/* is_or_later -- does a unit hold what an operation wrote, or a later one? */
static bool is_or_later(uint64_t value, unsigned int number)
{
	return value > number;
}

/* survives -- is all of an operation in what a power failure would leave now? */
static bool survives(struct world *world, unsigned int number)
{
	uint64_t units[MAX_UNITS];
	size_t count = image_of(world, &world->config.ops[number], units);

	for (size_t i = 0; i < count; i++) {
		if (!is_or_later(units[i], number))
			return false;
	}
	return true;
}

/* is_visible -- does the target's processor see all of an operation? */
static bool is_visible(struct world *world, unsigned int number)
{
	const struct world_op *op = &world->config.ops[number];
	const char *at = world->memory[op->region] + op->offset;
	uint64_t unit;

	for (size_t i = 0; i < op->len; i += sizeof(unit)) {
		memcpy(&unit, at + i, sizeof(unit));
		if (!is_or_later(unit, number))
			return false;
	}
	return true;
}

/* is_begun -- is any of it? */
static bool is_begun(struct world *world, unsigned int number)
{
	uint64_t units[MAX_UNITS];
	size_t count = image_of(world, &world->config.ops[number], units);

	for (size_t i = 0; i < count; i++) {
		if (units[i] == number + 1)
			return true;
	}
	return false;
}

/* commits -- is its completion a promise? */
static bool commits(const struct world *world, const struct world_op *op)
{
	return op->commit || (world->config.commit_all && op->kind != WORLD_SEND);
}

/* What is promised of the operations of an endpoint, and by which one. */
struct promises {
	bool of_region[WORLD_MAX_REGIONS + 1]; /* what was written to it */
	bool of_messages;
	bool of_committed_messages;
	unsigned int by;
};

static void promise(struct promises *promises, const struct world_op *op, unsigned int number)
{
	promises->by = number;
	if (op->kind == WORLD_SEND)
		promises->of_messages = true;
	else
		promises->of_region[op->region] = true;
	if (!op->fence)
		return;
	memset(promises->of_region, true, sizeof(promises->of_region));
	promises->of_committed_messages = true;
}

static bool is_promised(const struct promises *promises, const struct world_op *op)
{
	if (op->kind == WORLD_SEND)
		return promises->of_messages || (promises->of_committed_messages && op->commit);
	return promises->of_region[op->region];
}

/*
 * check_promises -- whatever was said to be durable is.  From the last operation
 * to the first: by then it is known what covers it.
 */
static const char *check_promises(struct world *world)
{
	struct promises promises[WORLD_MAX_EPS] = {0};
	static char text[160];

	for (unsigned int i = world->next_op; i-- > 0;) {
		const struct world_op *op = &world->config.ops[i];
		const struct op_state *state = &world->ops[i];
		struct promises *of = &promises[op->ep];

		if (!state->accepted)
			continue;
		if (commits(world, op) && (state->succeeded || state->noticed))
			promise(of, op, i);
		if (state->failed || !is_promised(of, op) || survives(world, i))
			continue;
		snprintf(text, sizeof(text),
			 "the %s heard that operation %u is durable; a power failure now loses "
			 "operation %u",
			 world->ops[of->by].succeeded ? "initiator" : "target", of->by + 1, i + 1);
		return text;
	}
	return NULL;
}

/* check_events -- the target's application finds what it was told of */
static const char *check_events(struct world *world)
{
	static char text[160];

	for (unsigned int i = 0; i < world->next_op && world->config.events; i++) {
		if (!world->ops[i].noticed || is_visible(world, i))
			continue;
		snprintf(text, sizeof(text), "the target heard of operation %u and can't see it",
			 i + 1);
		return text;
	}
	return NULL;
}

/* check_deliveries -- what was delivered is seen; with a fence, so is what came before it */
static const char *check_deliveries(struct world *world)
{
	bool all[WORLD_MAX_EPS] = {false};
	static char text[160];

	for (unsigned int i = world->next_op; i-- > 0;) {
		const struct world_op *op = &world->config.ops[i];
		const struct op_state *state = &world->ops[i];
		bool delivered = op->deliver && state->succeeded;

		all[op->ep] |= delivered && op->fence;
		if (!state->accepted || state->failed || !(delivered || all[op->ep]) ||
		    is_visible(world, i))
			continue;
		snprintf(text, sizeof(text),
			 "the initiator heard that operation %u is delivered, and the target "
			 "can't see it",
			 i + 1);
		return text;
	}
	return NULL;
}

/* The last operation of an endpoint that does not survive; 0: none, else 1 + its number. */
struct lost {
	unsigned int op;
	/* ... among those whose failure was told, which what is posted then does not follow */
	unsigned int failed, failed_at;
};

static void note_lost(struct lost *lost, const struct op_state *state, unsigned int number)
{
	if (!state->failed) {
		lost->op = number + 1;
	} else if (state->failed_at >= lost->failed_at) {
		lost->failed = number + 1;
		lost->failed_at = state->failed_at;
	}
}

/* lost_before -- one that an operation follows; 0: none */
static unsigned int lost_before(const struct lost *lost, unsigned int number)
{
	return lost->op ? lost->op : lost->failed_at > number ? lost->failed : 0;
}

/* A fenced message follows all that was sent before, a fenced write what was committed of it. */
static const char *check_fences(struct world *world)
{
	struct lost lost[WORLD_MAX_EPS] = {0}, lost_message[WORLD_MAX_EPS] = {0};
	static char text[160];

	for (unsigned int i = 0; i < world->next_op; i++) {
		const struct world_op *op = &world->config.ops[i];
		unsigned int before = lost_before(&lost[op->ep], i);

		if (!world->ops[i].accepted)
			continue;
		if (!before && op->kind == WORLD_SEND)
			before = lost_before(&lost_message[op->ep], i);
		if (op->commit && op->fence && before && is_begun(world, i)) {
			snprintf(text, sizeof(text),
				 "a power failure now leaves fenced operation %u without operation "
				 "%u",
				 i + 1, before);
			return text;
		}
		if (!survives(world, i))
			note_lost(op->kind == WORLD_SEND && !op->commit ? &lost_message[op->ep]
									: &lost[op->ep],
				  &world->ops[i], i);
	}
	return NULL;
}

static const char *check_end(struct world *world)
{
	static char text[160];

	if (world->next_op < world->config.num_ops)
		return "nothing happens any more, and not all is posted";
	for (unsigned int i = 0; i < world->next_op; i++) {
		const struct op_state *state = &world->ops[i];
		const struct world_op *op = &world->config.ops[i];
		bool notice = (op->notice || world->config.events) && state->succeeded;

		/* There a write has completed when it was handed over, also if it gets lost then.
		 */
		if (world->config.rules.local && world_port(world->home.eps[op->ep])->dead)
			notice = false;
		if (!state->accepted || (state->told && state->notices >= notice))
			continue;
		snprintf(text, sizeof(text), "operation %u %s", i + 1,
			 state->told ? "succeeds and its target is never told" : "never completes");
		return text;
	}
	return NULL;
}

const char *world_check(void *arg, bool final)
{
	struct world *world = arg;
	const char *wrong = world->wrong[0] ? world->wrong : NULL;

	if (!wrong)
		wrong = check_promises(world);
	if (!wrong)
		wrong = check_events(world);
	if (!wrong)
		wrong = check_deliveries(world);
	if (!wrong)
		wrong = check_fences(world);
	if (!wrong && final)
		wrong = check_end(world);
	return wrong;
}
