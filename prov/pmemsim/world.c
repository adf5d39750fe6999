/* SPDX-License-Identifier: BSD-2-Clause */
/* world.c -- the steps of pmemverbs at both ends of the model, and what mutants do to them */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "agent/flush.h"
#include "commit/rdma_flush.h"
#include "world_impl.h"

/* Steps of software, beside those of hardware. */
enum {
	STEP_POST = 64, /* the initiator posts its next operation */
	STEP_POLL,      /* ... looks at its completions */
	STEP_AGENT,     /* the target's agent goes on */
	STEP_TARGET,    /* the target's application looks at its completions */
	STEP_OTHER,     /* one more thread of it goes on */
	STEP_LOSS,      /* the initiator hears that a connection is lost */
};

struct world *world_current;

/* Time stands still: nothing that is modelled depends on it. */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void) clock;
	*ts = (struct timespec){.tv_sec = 1000};
	return 0;
}

/* Mutations */

bool world_mutates(enum world_mutation mutation)
{
	return world_current->config.mutation == mutation;
}

/* drop_flush -- what is left completes as soon as the write did */
static void drop_flush(struct hw_request *request)
{
	request->kind = HW_WRITE;
	request->len = 0;
	request->result = NULL;
}

/* mutate_flush -- an RDMA FLUSH */
static void mutate_flush(const struct world *world, struct hw_request *request)
{
	size_t offset = (size_t) (request->target - world->memory[0]);

	bool front = !request->reported;

	if (world_mutates(MUTATION_PERSIST_DROPPED) ||
	    (front && world_mutates(MUTATION_TAIL_FIRST)))
		request->len = 0;
	if (!request->len || world_mutates(MUTATION_PERSIST_GLOBAL) ||
	    (front && world_mutates(MUTATION_TAIL_GLOBAL)))
		request->persists = false;
	if (world_mutates(MUTATION_PERSIST_OTHER)) {
		request->target += offset >= HW_LINE ? -HW_LINE : HW_LINE;
		request->len = 1;
	}
	if (world_mutates(MUTATION_PERSIST_OWN)) {
		request->target += request->len - 1;
		request->len = 1;
	}
}

static void filter(struct hw_request *request, void *arg)
{
	struct world *world = arg;
	bool first = !world->posted_in_step++;

	/* Nobody looks at the entries of a program's messages. */
	if (world->config.reduced && !world->app->threaded && request->kind == HW_SEND)
		request->notifies = false;
	if (world_mutates(MUTATION_FENCE_IGNORED))
		request->fence = false;
	if (world_mutates(MUTATION_NOTICE_TOO_SOON) && request->notifies && !request->len)
		request->fence = false;
	if (world_mutates(MUTATION_PLACED_TOO_SOON))
		request->delivered = false;
	if (request->kind == HW_FLUSH)
		mutate_flush(world, request);
	if (request->kind == HW_ATOMIC_WRITE && world_mutates(MUTATION_TAIL_WRITE))
		request->kind = HW_WRITE;
	if (request->kind != HW_READ)
		return;
	if (world_mutates(MUTATION_FLUSH_DROPPED) ||
	    (world_mutates(MUTATION_ORDER_DROPPED) && first))
		drop_flush(request);
	if (world_mutates(MUTATION_FLUSH_EMPTY)) {
		request->len = 0;
		request->result = NULL;
	}
}

/* swap_flush -- a READ that was just posted goes before the write in front of it */
static void swap_flush(struct hw_port *port)
{
	unsigned int first = port->count - world_current->posted_in_step;

	for (unsigned int i = first + 1; i < port->count; i++) {
		struct hw_request *before = port->queue[i - 1];

		if (port->queue[i]->kind != HW_READ || before->kind == HW_READ || before->notifies)
			continue;
		port->queue[i - 1] = port->queue[i];
		port->queue[i] = before;
		return;
	}
}

void __real_pmv_dirty_add(struct pmv_dirty *dirty, uint32_t key, uint64_t addr, uint64_t len);
void __wrap_pmv_dirty_add(struct pmv_dirty *dirty, uint32_t key, uint64_t addr, uint64_t len);

void __wrap_pmv_dirty_add(struct pmv_dirty *dirty, uint32_t key, uint64_t addr, uint64_t len)
{
	if (world_mutates(MUTATION_DIRTY_LOST) && pmv_dirty_count(dirty, key, false))
		return;
	__real_pmv_dirty_add(dirty, key, addr, len);
}

bool __real_pmv_rdma_flush_may_be_tail(struct pmv_initiator *ini,
				       const struct pmv_submission *submission);
bool __wrap_pmv_rdma_flush_may_be_tail(struct pmv_initiator *ini,
				       const struct pmv_submission *submission);

bool __wrap_pmv_rdma_flush_may_be_tail(struct pmv_initiator *ini,
				       const struct pmv_submission *submission)
{
	return __real_pmv_rdma_flush_may_be_tail(ini, submission) ||
	       (world_mutates(MUTATION_TAIL_ANY) && submission->what == (FI_RMA | FI_WRITE) &&
		(submission->flags & FI_FENCE));
}

/* Completions */

struct hw_port *world_port(struct fid_ep *ep)
{
	return sim_port(pmv_to_ep(ep)->engine.fid);
}

/* have_completed -- the first so many requests of an endpoint */
static void have_completed(struct world *world, struct fid_ep *ep, unsigned int count)
{
	while (count--)
		hw_complete(world->sim->hw, world_port(ep));
}

ssize_t world_read_away(struct world *world, void *entries, size_t count)
{
	pthread_mutex_t *lock = &pmv_to_domain(world->away.domain)->agent.serving;
	bool locked = !pthread_mutex_trylock(lock);
	ssize_t ret = fi_cq_read(world->away.cq, entries, count);

	if (locked)
		pthread_mutex_unlock(lock);
	return ret;
}

/* Steps */

static unsigned int group(struct hw_step step)
{
	if (step.kind < STEP_POST)
		return 0;
	return step.kind == STEP_AGENT || step.kind == STEP_TARGET || step.kind == STEP_OTHER
		       ? GROUP_AWAY
		       : GROUP_HOME;
}

/* poll_steps -- to look, also when one more request of an endpoint has completed */
static size_t poll_steps(struct world *world, struct end *end, uint8_t kind, struct hw_step *list)
{
	size_t count = 0;

	list[count++] = (struct hw_step){.kind = kind};
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		if (hw_completable(world->sim->hw, world_port(end->eps[i])))
			list[count++] =
				(struct hw_step){.kind = kind, .at = (uint8_t) i, .index = 1};
	}
	return count;
}

/*
 * free_step -- beside those of hardware: the target hears that an acknowledgement
 * is sent, which frees a request and nothing more
 */
static bool free_step(struct world *world, struct hw_step *step)
{
	if (hw_free_step(world->sim->hw, step))
		return true;
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		struct hw_port *port = world_port(world->away.eps[i]);

		if (!hw_completable(world->sim->hw, port))
			continue;
		/* What has a thread looks when it wants to. */
		*step = (struct hw_step){.kind = STEP_TARGET,
					 .at = (uint8_t) i,
					 .index = 1,
					 .piece = world->app->threaded};
		return true;
	}
	return false;
}

static size_t steps(void *arg, struct hw_step *list)
{
	struct world *world = arg;
	size_t count = 0;

	if (world->config.reduced && free_step(world, list))
		return 1;
	if (world->app->may_post(world))
		list[count++] = (struct hw_step){.kind = STEP_POST};
	list[count++] = (struct hw_step){.kind = STEP_AGENT};
	count += poll_steps(world, &world->home, STEP_POLL, list + count);
	count += poll_steps(world, &world->away, STEP_TARGET, list + count);
	for (unsigned int i = 0; i < world->app->others; i++) {
		if (world->others[i].runs || world->app->other_may_run(world, i))
			list[count++] = (struct hw_step){.kind = STEP_OTHER, .at = (uint8_t) i};
	}
	for (unsigned int i = 0; i < world->config.num_eps; i++) {
		if (world_port(world->home.eps[i])->dead && !world->heard_of_loss[i])
			list[count++] = (struct hw_step){.kind = STEP_LOSS, .at = (uint8_t) i};
	}
	return count + hw_steps(world->sim->hw, list + count);
}

static int compare_requests(const void *a, const void *b)
{
	const struct pmv_op *const *one = a, *const *other = b;

	return (*one > *other) - (*one < *other);
}

/*
 * scrub_stack -- free requests hold nothing, and are taken in the order of their addresses; how
 * often one was taken makes no difference.  A world has too few for any that are not on a stack.
 */
static void scrub_stack(struct pmv_op_pool *pool, struct pmv_op_stack *stack)
{
	struct pmv_op *list[LARGE_REQUESTS], *op;
	uint32_t number = (uint32_t) (atomic_load(&stack->head) & PMV_OP_NUMBERS);
	size_t count = 0;

	for (; number; number = (uint32_t) atomic_load(&op->behind)) {
		op = (struct pmv_op *) (pool->base + (number - 1) * pool->size);
		list[count++] = op;
	}
	qsort(list, count, sizeof(list[0]), compare_requests);
	while (count--) {
		op = list[count];
		memset((void *) op, 0, offsetof(struct pmv_op, home));
		op->comp.embedded = true;
		memset((char *) op + offsetof(struct pmv_op, next), 0,
		       pool->size - offsetof(struct pmv_op, next));
		atomic_store(&op->behind, number);
		number = op->number;
	}
	atomic_store(&stack->head, number);
}

static void scrub_pool(struct pmv_op_pool *pool)
{
	struct pmv_op_stack *stack;

	SLIST_FOREACH(stack, &pool->stacks, next_of_all)
		scrub_stack(pool, stack);
}

/*
 * scrub -- wipe what the provider has left behind and never looks at: states that
 * differ in nothing else are the same
 */
static void scrub(struct world *world, unsigned int group)
{
	scrub_pool(&pmv_to_domain(world->home.domain)->ops);
	scrub_pool(&pmv_to_domain(world->away.domain)->ops);
	if (!world->agent.runs && group == GROUP_AWAY)
		world_reset_batch(world);
}

/* post -- the flush that is too soon is the last operation's */
static void post(struct world *world)
{
	unsigned int ep = world->app == &world_program ? world->config.ops[world->next_op].ep : 0;

	struct pmv_ordering *ordering = &pmv_to_ep(world->home.eps[ep])->initiator.ordering;
	int flushes =
		world_mutates(MUTATION_PERSIST_FENCED) ? atomic_exchange(&ordering->flushes, 0) : 0;

	world->posted_in_step = 0;
	world->app->post(world);
	atomic_fetch_add(&ordering->flushes, flushes);
	if (world_mutates(MUTATION_FLUSH_TOO_SOON))
		swap_flush(world_port(world->home.eps[ep]));
	world->posted_in_step = 0;
}

static void run_away(struct world *world)
{
	if (world->app->threaded)
		world_run_target(world);
	else
		world->app->poll_away(world);
}

static void take(void *arg, struct hw_step step)
{
	struct world *world = arg;

	switch (step.kind) {
	case STEP_POST:
		post(world);
		break;
	case STEP_POLL:
		have_completed(world, world->home.eps[step.at], step.index);
		world->app->poll_home(world);
		break;
	case STEP_AGENT:
		world_run_agent(world);
		break;
	case STEP_TARGET:
		have_completed(world, world->away.eps[step.at], step.index);
		if (!step.piece)
			run_away(world);
		break;
	case STEP_OTHER:
		world_run_other(world, step.at);
		break;
	case STEP_LOSS:
		world->heard_of_loss[step.at] = true;
		pmv_initiator_break(&pmv_to_ep(world->home.eps[step.at])->initiator);
		break;
	default:
		hw_take(world->sim->hw, step);
		return;
	}
	scrub(world, group(step));
	world_check_room(world);
	world_tell_used(world, group(step) == GROUP_AWAY ? &world->away : &world->home);
}

/* Words */

static void describe(void *arg, struct hw_step step, char *buf, size_t len)
{
	struct world *world = arg;

	switch (step.kind) {
	case STEP_POST:
		world->app->describe_post(world, buf, len);
		break;
	case STEP_POLL:
		snprintf(buf, len, "the initiator looks at its completions: %u of connection %u",
			 step.index, step.at);
		break;
	case STEP_AGENT:
		snprintf(buf, len, "the agent %s",
			 world->agent.does ? world->agent.does : "looks into the mailbox");
		break;
	case STEP_TARGET:
		snprintf(buf, len, "the target's application %s",
			 step.piece           ? "has no part in what completes"
			 : world->target.does ? world->target.does
					      : "looks at its completions");
		break;
	case STEP_OTHER:
		snprintf(buf, len, "the target's thread %u %s", step.at + 1,
			 world->others[step.at].does ? world->others[step.at].does
						     : "looks for something to do");
		break;
	case STEP_LOSS:
		snprintf(buf, len, "the initiator hears that connection %u is lost", step.at);
		break;
	default:
		hw_describe(world->sim->hw, step, buf, len);
		break;
	}
}

/* Opening and closing */

void world_believe(struct world_config *config)
{
	config->believed.domain = config->domain;
	config->believed.ddio = config->rules.ddio;
	config->believed.relaxed = config->rules.relaxed;
	config->believed.local = config->rules.local;
}

/* keep_batch -- what the agent's batch is like when it has nothing to do */
static void *keep_batch(struct world *world)
{
	const void *batch = pmv_to_domain(world->away.domain)->agent.batch;
	void *copy = malloc(arena_len(batch));

	return copy ? memcpy(copy, batch, arena_len(batch)) : NULL;
}

void world_open(struct explore_world *explored, const struct world_config *config)
{
	static const struct explore_world none = {
		.steps = steps,
		.take = take,
		.group = group,
		.describe = describe,
	};
	struct world *world;

	world_prepare_threads();
	/* What libpmem2 allocates it keeps to the end of the process: it is not to be put back. */
	pmv_flush_init();
	arena_reset();
	arena_open();
	world = calloc(1, sizeof(*world));
	world_current = world;
	world->config = *config;
	world->app = config->app ? config->app : &world_program;
	pmv_flush = &world_cpu;
	world_set_up(world);
	world->sim->filter = filter;
	world->sim->filter_arg = world;
	arena_close();
	world->batch = keep_batch(world);
	if (world->app->prepare)
		world->app->prepare(world);
	*explored = none;
	explored->world = world;
	explored->check = world->app->check;
	explored->is_over = world->app->is_over;
	world_add_spans(world, explored);
}

/* run_threads -- a step of each that is in the middle of something; false: none is */
static bool run_threads(struct world *world)
{
	bool runs = world->agent.runs || world->target.runs;

	if (world->agent.runs)
		world_run_agent(world);
	if (world->target.runs)
		world_run_target(world);
	for (unsigned int i = 0; i < world->app->others; i++) {
		if (!world->others[i].runs)
			continue;
		world_run_other(world, i);
		runs = true;
	}
	return runs;
}

void world_close(struct explore_world *explored)
{
	struct world *world = explored->world;

	arena_open();
	/* They have locks that nobody else will let go, and may wait for each other's. */
	while (run_threads(world))
		;
	world_tear_down(world);
	arena_close();
	free(world->batch);
	world->app->leave(world);
}
