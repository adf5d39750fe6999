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
#include "world_impl.h"

/* Steps of software, beside those of hardware. */
enum {
	STEP_POST = 64, /* the initiator posts its next operation */
	STEP_POLL,      /* ... looks at its completions */
	STEP_AGENT,     /* the target's agent goes on */
	STEP_TARGET,    /* the target's application looks at its completions */
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

static void filter(struct hw_request *request, void *arg)
{
	struct world *world = arg;
	bool first = !world->posted_in_step++;

	/* Nobody looks at the entries of messages. */
	if (world->config.reduced && request->kind == HW_SEND)
		request->notifies = false;
	if (world_mutates(MUTATION_FENCE_IGNORED))
		request->fence = false;
	if (world_mutates(MUTATION_NOTICE_TOO_SOON) && request->notifies && !request->len)
		request->fence = false;
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

/* The program */

struct hw_port *world_port(struct fid_ep *ep)
{
	return sim_port(pmv_to_ep(ep)->engine.fid);
}

/* data_of -- an operation's buffer, which is the core's until it has completed */
static uint64_t *data_of(const struct world *world, unsigned int number)
{
	return world->data + number * (HW_PAGE / 8);
}

static void fill_data(struct world *world)
{
	world->data = malloc(world->config.num_ops * (size_t) HW_PAGE);
	if (!world->data && world->config.num_ops)
		abort();
	for (unsigned int number = 0; number < world->config.num_ops; number++) {
		for (size_t i = 0; i < HW_PAGE / 8; i++)
			data_of(world, number)[i] = number + 1;
	}
}

static void *context_of(unsigned int number)
{
	return (void *) (uintptr_t) (8 * (uint64_t) (number + 1));
}

static ssize_t post_write(struct world *world, const struct world_op *op, void *data, void *context,
			  uint64_t flags)
{
	struct iovec iov = {data, op->len};
	struct fi_rma_iov rma_iov = {(uintptr_t) world->memory[op->region] + op->offset, op->len,
				     fi_mr_key(world->mr[op->region])};
	void *desc = NULL;
	struct fi_msg_rma msg = {&iov, &desc, 1, 0, &rma_iov, 1, context, world->next_op};

	return fi_writemsg(world->home.eps[op->ep], &msg, flags);
}

static ssize_t post_atomic(struct world *world, const struct world_op *op, void *data,
			   void *context, uint64_t flags)
{
	struct fi_ioc ioc = {data, 1};
	struct fi_rma_ioc rma_ioc = {(uintptr_t) world->memory[op->region] + op->offset, 1,
				     fi_mr_key(world->mr[op->region])};
	void *desc = NULL;
	struct fi_msg_atomic msg = {
		&ioc,    &desc,         1, 0, &rma_ioc, 1, FI_UINT64, FI_ATOMIC_WRITE,
		context, world->next_op};

	return fi_atomicmsg(world->home.eps[op->ep], &msg, flags);
}

static ssize_t post_send(struct world *world, const struct world_op *op, void *data, void *context,
			 uint64_t flags)
{
	struct iovec iov = {data, op->len};
	void *desc = NULL;
	struct fi_msg msg = {&iov, &desc, 1, 0, context, 0};

	return fi_sendmsg(world->home.eps[op->ep], &msg, flags);
}

static void post_next(struct world *world)
{
	const struct world_op *op = &world->config.ops[world->next_op];
	struct op_state *state = &world->ops[world->next_op];
	uint64_t flags = FI_COMPLETION | (op->commit ? FI_COMMIT : 0) |
			 (op->fence && !world_mutates(MUTATION_FENCE_IGNORED) ? FI_FENCE : 0) |
			 (op->notice ? FI_IMMED : 0);
	uint64_t *data = data_of(world, world->next_op);
	void *context = context_of(world->next_op);
	ssize_t ret;

	world->sim->note = (int) world->next_op + 1;
	world->posted_in_step = 0;
	switch (op->kind) {
	case WORLD_WRITE:
		ret = post_write(world, op, data, context, flags);
		break;
	case WORLD_ATOMIC:
		ret = post_atomic(world, op, data, context, flags);
		break;
	default:
		ret = post_send(world, op, data, context, flags);
		break;
	}
	if (world_mutates(MUTATION_FLUSH_TOO_SOON))
		swap_flush(world_port(world->home.eps[op->ep]));
	world->sim->note = 0;
	world->posted_in_step = 0;
	if (ret == -FI_EAGAIN)
		return;
	state->accepted = !ret;
	explore_changed(state, sizeof(*state));
	world->next_op++;
	world->sim->hw->may_die = world->next_op >= world->config.dies_from;
	explore_changed(&world->sim->hw->may_die, sizeof(world->sim->hw->may_die));
}

static void told(struct world *world, void *context, bool ok)
{
	uint64_t number = (uintptr_t) context / 8 - 1;
	struct op_state *state = &world->ops[number];

	if (number >= world->next_op || !state->accepted) {
		snprintf(world->wrong, sizeof(world->wrong),
			 "a completion names no operation that was posted");
		return;
	}
	explore_changed(state, sizeof(*state));
	state->succeeded = ok;
	state->failed = !ok;
	if (++state->told > 1)
		snprintf(world->wrong, sizeof(world->wrong), "operation %u has completed twice",
			 (unsigned int) number + 1);
}

/* have_completed -- the first so many requests of an endpoint */
static void have_completed(struct world *world, struct fid_ep *ep, unsigned int count)
{
	while (count--)
		hw_complete(world->sim->hw, world_port(ep));
}

static void poll_home(struct world *world)
{
	struct fi_cq_tagged_entry entry = {0};
	struct fi_cq_err_entry error = {0};
	ssize_t ret;

	for (;;) {
		ret = fi_cq_read(world->home.cq, &entry, 1);
		if (ret == 1)
			told(world, entry.op_context, true);
		else if (ret == -FI_EAVAIL && fi_cq_readerr(world->home.cq, &error, 0) == 1)
			told(world, error.op_context, false);
		else
			break;
	}
}

/* notice -- the target's application hears of an operation, as it has asked for: once */
static void notice(struct world *world, uint64_t number)
{
	struct op_state *state = &world->ops[number];

	if (number < world->next_op && state->accepted &&
	    (world->config.events || world->config.ops[number].notice)) {
		explore_changed(state, sizeof(*state));
		state->noticed = true;
		if (++state->notices == 1)
			return;
	}
	snprintf(world->wrong, sizeof(world->wrong),
		 "the target is told of what it was not to be told of");
}

/* The target's application does not do the agent's work, which has steps of its own. */
static void poll_away(struct world *world)
{
	pthread_mutex_t *lock = &pmv_to_domain(world->away.domain)->agent.serving;
	struct fi_cq_tagged_entry entry = {0};
	struct fi_cq_err_entry error = {0};
	bool locked = !pthread_mutex_trylock(lock);
	ssize_t ret;

	for (;;) {
		ret = fi_cq_read(world->away.cq, &entry, 1);
		if (ret == 1 && (entry.flags & FI_REMOTE_CQ_DATA)) {
			notice(world, entry.data);
		} else if (ret == 1 && (entry.flags & FI_REMOTE_WRITE)) {
			/* They name no operation, and come in the order of one connection. */
			notice(world, world->events++);
		} else if (ret == -FI_EAVAIL) {
			fi_cq_readerr(world->away.cq, &error, 0);
		} else if (ret != 1) {
			break;
		}
	}
	if (locked)
		pthread_mutex_unlock(lock);
}

/* Steps */

static unsigned int group(struct hw_step step)
{
	if (step.kind < STEP_POST)
		return 0;
	return step.kind == STEP_AGENT || step.kind == STEP_TARGET ? GROUP_AWAY : GROUP_HOME;
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
		*step = (struct hw_step){.kind = STEP_TARGET, .at = (uint8_t) i, .index = 1};
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
	if (world->next_op < world->config.num_ops)
		list[count++] = (struct hw_step){.kind = STEP_POST};
	list[count++] = (struct hw_step){.kind = STEP_AGENT};
	count += poll_steps(world, &world->home, STEP_POLL, list + count);
	count += poll_steps(world, &world->away, STEP_TARGET, list + count);
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
	if (!world->looking && group == GROUP_AWAY)
		world_reset_batch(world);
}

static void take(void *arg, struct hw_step step)
{
	struct world *world = arg;

	switch (step.kind) {
	case STEP_POST:
		post_next(world);
		break;
	case STEP_POLL:
		have_completed(world, world->home.eps[step.at], step.index);
		poll_home(world);
		break;
	case STEP_AGENT:
		world_run_agent(world);
		break;
	case STEP_TARGET:
		have_completed(world, world->away.eps[step.at], step.index);
		poll_away(world);
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

static void describe_op(const struct world_op *op, unsigned int number, char *buf, size_t len)
{
	static const char *const kinds[] = {
		[WORLD_WRITE] = "write", [WORLD_ATOMIC] = "atomic write", [WORLD_SEND] = "send"};
	static const char *const regions[] = {"region 0", "region 1",
					      "region 2", [WORLD_DRAM] = "volatile memory"};

	snprintf(buf, len, "operation %u: %s of %zu bytes to offset %zu of %s%s%s%s", number + 1,
		 kinds[op->kind], op->len, op->offset, regions[op->region],
		 op->commit ? ", FI_COMMIT" : "", op->fence ? ", FI_FENCE" : "",
		 op->notice ? ", FI_IMMED" : "");
}

static void describe(void *arg, struct hw_step step, char *buf, size_t len)
{
	struct world *world = arg;

	switch (step.kind) {
	case STEP_POST: {
		char op[160];

		describe_op(&world->config.ops[world->next_op], world->next_op, op, sizeof(op));
		snprintf(buf, len, "the initiator posts %s", op);
		break;
	}
	case STEP_POLL:
		snprintf(buf, len, "the initiator looks at its completions: %u of connection %u",
			 step.index, step.at);
		break;
	case STEP_AGENT:
		snprintf(buf, len, "the agent %s",
			 world->agent_does ? world->agent_does : "looks into the mailbox");
		break;
	case STEP_TARGET:
		snprintf(buf, len, "the target's application looks at its completions");
		break;
	case STEP_LOSS:
		snprintf(buf, len, "the initiator hears that connection %u is lost", step.at);
		break;
	default:
		hw_describe(world->sim->hw, step, buf, len);
		break;
	}
}

void world_print_program(const struct world_config *config)
{
	char op[160];

	for (unsigned int i = 0; i < config->num_ops; i++) {
		describe_op(&config->ops[i], i, op, sizeof(op));
		printf("  %s%s", op, config->num_eps > 1 ? "" : "\n");
		if (config->num_eps > 1)
			printf(", endpoint %u\n", config->ops[i].ep);
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
		.check = world_check,
		.describe = describe,
	};
	struct world *world;

	world_prepare_agent();
	arena_reset();
	arena_open();
	world = calloc(1, sizeof(*world));
	world_current = world;
	world->config = *config;
	pmv_flush = &world_cpu;
	world_set_up(world);
	world->sim->filter = filter;
	world->sim->filter_arg = world;
	arena_close();
	world->batch = keep_batch(world);
	fill_data(world);
	*explored = none;
	explored->world = world;
	world_add_spans(world, explored);
}

void world_close(struct explore_world *explored)
{
	struct world *world = explored->world;

	arena_open();
	/* The agent is in the middle of something, with locks that nobody else will let go. */
	while (world->looking)
		world_run_agent(world);
	world_tear_down(world);
	arena_close();
	free(world->batch);
	free(world->data);
}
