/* SPDX-License-Identifier: BSD-2-Clause */
/* program.c -- the application of pmemverbs' own worlds: a list of operations, posted in order */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "world_impl.h"

static bool may_post(const struct world *world)
{
	return world->next_op < world->config.num_ops;
}

/* data_of -- an operation's buffer, which is the core's until it has completed */
static uint64_t *data_of(const struct world *world, unsigned int number)
{
	return world->data + number * (HW_PAGE / 8);
}

static void prepare(struct world *world)
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
			 (op->notice ? FI_IMMED : 0) | (op->deliver ? FI_DELIVERY_COMPLETE : 0);
	uint64_t *data = data_of(world, world->next_op);
	void *context = context_of(world->next_op);
	ssize_t ret;

	world->sim->note = (int) world->next_op + 1;
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
	world->sim->note = 0;
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
	state->failed_at = ok ? 0 : (uint16_t) world->next_op;
	if (++state->told > 1)
		snprintf(world->wrong, sizeof(world->wrong), "operation %u has completed twice",
			 (unsigned int) number + 1);
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

static void poll_away(struct world *world)
{
	struct fi_cq_tagged_entry entry = {0};
	struct fi_cq_err_entry error = {0};
	ssize_t ret;

	for (;;) {
		ret = world_read_away(world, &entry, 1);
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
}

static void describe_op(const struct world_op *op, unsigned int number, char *buf, size_t len)
{
	static const char *const kinds[] = {
		[WORLD_WRITE] = "write", [WORLD_ATOMIC] = "atomic write", [WORLD_SEND] = "send"};
	static const char *const regions[] = {"region 0", "region 1",
					      "region 2", [WORLD_DRAM] = "volatile memory"};

	snprintf(buf, len, "operation %u: %s of %zu bytes to offset %zu of %s%s%s%s%s", number + 1,
		 kinds[op->kind], op->len, op->offset, regions[op->region],
		 op->commit ? ", FI_COMMIT" : "", op->fence ? ", FI_FENCE" : "",
		 op->notice ? ", FI_IMMED" : "", op->deliver ? ", FI_DELIVERY_COMPLETE" : "");
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

static void describe_post(const struct world *world, char *buf, size_t len)
{
	char op[160];

	describe_op(&world->config.ops[world->next_op], world->next_op, op, sizeof(op));
	snprintf(buf, len, "the initiator posts %s", op);
}

/* post_receives -- of each endpoint's messages, in their order */
static void post_receives(struct world *world)
{
	const struct world_config *config = &world->config;

	for (unsigned int i = 0; i < config->num_ops; i++) {
		const struct world_op *op = &config->ops[i];

		if (op->kind == WORLD_SEND)
			world_sure((int) fi_recv(world->away.eps[op->ep],
						 world->memory[op->region] + op->offset, op->len,
						 NULL, 0, NULL));
	}
}

static void leave(struct world *world)
{
	free(world->data);
}

const struct world_app world_program = {
	.cq_format = FI_CQ_FORMAT_TAGGED,
	.transmit = FI_TRANSMIT,
	.open = post_receives,
	.prepare = prepare,
	.leave = leave,
	.may_post = may_post,
	.post = post_next,
	.poll_home = poll_home,
	.poll_away = poll_away,
	.check = world_check,
	.describe_post = describe_post,
};
