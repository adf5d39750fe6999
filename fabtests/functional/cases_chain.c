/* SPDX-License-Identifier: BSD-2-Clause */
/* cases_chain.c -- chains: several dependent steps at the target in one round trip */
#include <signal.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "../common/steps.h"
#include "functional.h"

#define SIZE 65536
#define BUFFERS 8
#define BUFFER 512
#define BUFFERS_AT 4096
#define RACES 300

/* What a case works with. */
struct ground {
	struct fx *fx;
	struct link *link;
	struct remote *remote;
	struct fi_pmemverbs_chain_ops *ops;
	uint32_t list; /* of buffers, all of them free */
};

static int make_list(struct ground *ground)
{
	struct control_msg msg = {.command = CTL_LIST,
				  .arg = {ground->remote->id, BUFFERS_AT, BUFFER, BUFFERS}};
	int ret = target_call(ground->link->target, &msg, NULL, 0);

	if (ret)
		return failed_call(ground->fx, "list_open at the target", ret);
	ground->list = (uint32_t) msg.arg[0];
	return 0;
}

static int open_ops(struct fx *fx, struct link *link, struct fi_pmemverbs_chain_ops **ops)
{
	int ret = fi_open_ops(&link->conn.ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) ops, NULL);

	return ret ? failed_call(fx, "fi_open_ops", ret) : 0;
}

static int open_ground(struct fx *fx, struct target_proc *target, struct ground *ground)
{
	*ground = (struct ground){.fx = fx};
	if (!is_pmemverbs(fx))
		return skipped(fx, "chains are pmemverbs' own");
	ground->link = fx_link(fx, target, NULL);
	if (!ground->link)
		return -1;
	ground->remote = fx_remote(fx, ground->link->target, SIZE, FI_REMOTE_WRITE, FI_RMA_PMEM);
	return !ground->remote || open_ops(fx, ground->link, &ground->ops) ? -1 : make_list(ground);
}

/* at -- a step's place */
static struct fi_pmemverbs_step at(const struct ground *ground, struct fi_pmemverbs_step step,
				   size_t offset)
{
	step.addr = ground->remote->addr + offset;
	step.key = step.to_key = ground->remote->key;
	step.list = ground->list;
	return step;
}

/* of_list -- an allocation, or what gives a buffer back */
static struct fi_pmemverbs_step of_list(const struct ground *ground, struct fi_pmemverbs_step step)
{
	step.key = ground->remote->key;
	step.list = ground->list;
	return step;
}

static int post_chain(struct ground *ground, struct link *link, struct fi_pmemverbs_step *steps,
		      size_t count, struct op **op)
{
	ssize_t ret;

	*op = op_new(ground->fx);
	while ((ret = ground->ops->post(link->conn.ep, steps, count, *op, FI_COMPLETION)) ==
	       -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	return ret ? failed_call(ground->fx, "a chain", ret) : 0;
}

static int run_chain(struct ground *ground, struct fi_pmemverbs_step *steps, size_t count)
{
	struct op *op;

	return post_chain(ground, ground->link, steps, count, &op) || await(ground->link, op) ? -1
											      : 0;
}

static int expect_status(struct ground *ground, const struct fi_pmemverbs_step *step,
			 uint32_t status)
{
	return expect(ground->fx, step->status == status, "a step of kind %u has status %u, not %u",
		      step->kind, step->status, status);
}

static void now_has(struct ground *ground, size_t offset, const void *bytes, size_t len)
{
	memcpy(ground->remote->shadow + offset, bytes, len);
}

static int same(struct ground *ground)
{
	return remote_same(ground->fx, ground->remote);
}

/* Steps */

static int reads_and_writes(struct fx *fx)
{
	static char result[900];
	struct ground ground;
	struct fi_pmemverbs_step steps[2];

	if (open_ground(fx, NULL, &ground))
		return -1;
	steps[0] = at(&ground, STEP(WRITE, .operand = "some bytes", .len = 10), 1001);
	steps[1] = at(&ground, STEP(READ, .result = result, .len = sizeof(result)), 900);
	now_has(&ground, 1001, "some bytes", 10);
	if (run_chain(&ground, steps, 2) || expect_status(&ground, &steps[1], 0) || same(&ground))
		return -1;
	return expect(fx, !memcmp(result, ground.remote->shadow + 900, sizeof(result)),
		      "a step reads what is not there");
}

static int swaps_and_adds(struct fx *fx)
{
	uint64_t old = 0, mask[4] = {0, UINT64_MAX, 0, 0}, fresh[4] = {1, 2, 3, 4}, more = 5, sum;
	struct ground ground;
	struct fi_pmemverbs_step steps[3];

	if (open_ground(fx, NULL, &ground))
		return -1;
	memcpy(&sum, ground.remote->shadow + 64, 8);
	steps[0] = at(&ground,
		      STEP(CAS, .operand = fresh, .expected = ground.remote->shadow + 128,
			   .swap_mask = mask, .len = 32),
		      128);
	steps[1] = at(&ground, STEP(FETCH_ADD, .operand = &more, .result = &old, .len = 8), 64);
	steps[2] = at(&ground,
		      STEP(CAS, .operand = fresh, .expected = fresh, .compare = FI_PMEMVERBS_EQ,
			   .len = 8),
		      256);
	if (run_chain(&ground, steps, 3) || expect_status(&ground, &steps[0], 0) ||
	    expect_status(&ground, &steps[2], FI_PMEMVERBS_STEP_FAILED) ||
	    expect(fx, old == sum, "a step adds to %llx, not to %llx", (unsigned long long) old,
		   (unsigned long long) sum))
		return -1;
	sum += more;
	now_has(&ground, 64, &sum, 8);
	now_has(&ground, 128 + 8, &fresh[1], 8);
	return same(&ground);
}

/* Allocate, write, swing the pointer, all of it durable in this order; and find it again. */
static int swings(struct fx *fx)
{
	static char value[200], result[400];
	uint64_t zeros[2] = {0}, pair[2] = {0, sizeof(value)}, buffer = 0;
	struct ground ground;
	struct fi_pmemverbs_step steps[4], find;

	if (open_ground(fx, NULL, &ground))
		return -1;
	pattern_fill(value, sizeof(value), 7, 0);
	steps[0] = at(&ground, STEP(WRITE, .operand = zeros, .len = 16), 0);
	steps[1] = of_list(&ground, STEP(ALLOCATE, .operand = value, .len = sizeof(value), .to = 0,
					 .result = &buffer, .flags = FI_PMEMVERBS_STEP_REDIRECT));
	/* The pointer is in word 0, and the bound comes behind it. */
	steps[2] = at(
		&ground,
		STEP(WRITE, .operand = &pair[1], .len = 8, .flags = FI_PMEMVERBS_STEP_CONDITIONAL),
		8);
	steps[3] = at(&ground,
		      STEP(CAS, .expected = zeros, .from = 0, .len = 8,
			   .flags = FI_PMEMVERBS_STEP_CONDITIONAL | FI_PMEMVERBS_STEP_COMMIT |
				    FI_PMEMVERBS_STEP_FROM_WORD),
		      0);
	if (run_chain(&ground, steps, 4) || expect_status(&ground, &steps[3], 0))
		return -1;
	pair[0] = buffer;
	now_has(&ground, 0, pair, 16);
	now_has(&ground, buffer - ground.remote->addr, value, sizeof(value));
	find = at(&ground,
		  STEP(READ, .result = result, .len = sizeof(result),
		       .flags = FI_PMEMVERBS_STEP_INDIRECT | FI_PMEMVERBS_STEP_BOUNDED),
		  0);
	if (run_chain(&ground, &find, 1) || same(&ground))
		return -1;
	return expect(fx, find.done == sizeof(value) && !memcmp(result, value, sizeof(value)),
		      "the value is not found through its pointer");
}

static int conditions(struct fx *fx)
{
	struct ground ground;
	struct fi_pmemverbs_step steps[3];
	unsigned char wrong[8];

	if (open_ground(fx, NULL, &ground))
		return -1;
	memset(wrong, ground.remote->shadow[0] + 1, 8);
	steps[0] = at(&ground, STEP(CAS, .operand = wrong, .expected = wrong, .len = 8), 0);
	steps[1] = at(&ground,
		      STEP(WRITE, .operand = "not this", .len = 8,
			   .flags = FI_PMEMVERBS_STEP_CONDITIONAL),
		      100);
	steps[2] =
		at(&ground,
		   STEP(WRITE, .operand = "but this", .len = 8, .flags = FI_PMEMVERBS_STEP_COMMIT),
		   200);
	now_has(&ground, 200, "but this", 8);
	return run_chain(&ground, steps, 3) ||
			       expect_status(&ground, &steps[0], FI_PMEMVERBS_STEP_FAILED) ||
			       expect_status(&ground, &steps[1], FI_PMEMVERBS_STEP_SKIPPED) ||
			       expect_status(&ground, &steps[2], 0)
		       ? -1
		       : same(&ground);
}

/* All buffers go out, and come back in the same order. */
static int buffers(struct fx *fx)
{
	uint64_t addr[BUFFERS + 1] = {0};
	struct fi_pmemverbs_step step;
	struct ground ground;
	int i, round;

	if (open_ground(fx, NULL, &ground))
		return -1;
	for (round = 0; round < 3; round++) {
		for (i = 0; i <= BUFFERS; i++) {
			step = of_list(&ground, STEP(ALLOCATE, .result = &addr[i]));
			if (run_chain(&ground, &step, 1) ||
			    expect_status(&ground, &step,
					  i < BUFFERS ? 0 : FI_PMEMVERBS_STEP_EMPTY))
				return -1;
		}
		for (i = 0; i < BUFFERS; i++) {
			step = of_list(&ground, STEP(FREE, .addr = addr[i]));
			if (expect(fx,
				   addr[i] ==
					   ground.remote->addr + BUFFERS_AT + (uint64_t) i * BUFFER,
				   "a buffer is where none is") ||
			    run_chain(&ground, &step, 1))
				return -1;
		}
	}
	return same(&ground);
}

/* What the endpoint has written before is there when the chain is executed. */
static int follows_writes(struct fx *fx)
{
	static unsigned char result[512];
	struct fi_pmemverbs_step step;
	struct ground ground;
	int i;

	if (open_ground(fx, NULL, &ground))
		return -1;
	for (i = 0; i < 60; i++) {
		if (plain_at(ground.link, PLAIN_WRITE, ground.remote, 1024 + i * 16, 512, NULL))
			return -1;
		step = at(&ground,
			  STEP(READ, .result = result, .len = 512,
			       .flags = i % 2 ? FI_PMEMVERBS_STEP_COMMIT : 0),
			  1024 + (size_t) i * 16);
		if (run_chain(&ground, &step, 1) ||
		    expect(fx, !memcmp(result, ground.remote->shadow + 1024 + i * 16, 512),
			   "a chain does not see what was written before it"))
			return -1;
	}
	return same(&ground);
}

/* Large results: in memory that the target may write, between bytes that it must not change */

#define MARGIN 64
#define MARK 0x5a

struct large {
	struct region region;
	unsigned char memory[MARGIN + SIZE + MARGIN];
};

static int open_large(struct ground *ground, struct large *large, uint64_t access)
{
	int ret = region_register(&ground->link->target->node, &large->region,
				  large->memory + MARGIN, SIZE, access, 0);

	return ret ? failed_call(ground->fx, "fi_mr_reg", ret) : 0;
}

static struct fi_pmemverbs_step into(const struct ground *ground, struct large *large,
				     struct fi_pmemverbs_step step, size_t offset)
{
	memset(large->memory, MARK, sizeof(large->memory));
	step.result = large->memory + MARGIN;
	step.result_mr = large->region.mr;
	return at(ground, step, offset);
}

/* expect_large -- so many bytes have arrived, all of them, and nothing else has changed */
static int expect_large(const struct ground *ground, const struct large *large, size_t offset,
			size_t len)
{
	size_t i;

	for (i = 0; i < sizeof(large->memory); i++) {
		bool inside = i >= MARGIN && i < MARGIN + len;
		unsigned char right = inside ? ground->remote->shadow[offset + i - MARGIN] : MARK;

		if (large->memory[i] != right)
			return failed(ground->fx, "byte %zu around a result of %zu is wrong", i,
				      len);
	}
	return 0;
}

static int read_large(struct ground *ground, struct large *large)
{
	static const size_t lens[] = {SIZE, 4096, SIZE - 1, 961, 1, 20000};
	struct fi_pmemverbs_step steps[2];
	uint64_t word = 0, pair[2] = {ground->remote->addr + 100, 5000};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		steps[0] = into(ground, large, STEP(READ, .len = lens[i]), SIZE - lens[i]);
		steps[1] = at(ground, STEP(READ, .result = &word, .len = 8), 8 * i);
		if (run_chain(ground, steps, 2) || expect_status(ground, &steps[0], 0) ||
		    expect(ground->fx, steps[0].done == lens[i], "%zu bytes, not %zu",
			   steps[0].done, lens[i]) ||
		    expect_large(ground, large, SIZE - lens[i], lens[i]) ||
		    expect(ground->fx, !memcmp(&word, ground->remote->shadow + 8 * i, 8),
			   "a small result beside a large one is wrong"))
			return -1;
	}
	/* Through a pointer, up to its bound. */
	steps[0] = at(ground, STEP(WRITE, .operand = pair, .len = 16), 0);
	now_has(ground, 0, pair, 16);
	steps[1] = into(ground, large,
			STEP(READ, .len = SIZE,
			     .flags = FI_PMEMVERBS_STEP_INDIRECT | FI_PMEMVERBS_STEP_BOUNDED |
				      FI_PMEMVERBS_STEP_CONDITIONAL),
			0);
	if (run_chain(ground, steps, 2) ||
	    expect(ground->fx, steps[1].done == pair[1], "%zu bytes, and the bound is %zu",
		   steps[1].done, (size_t) pair[1]))
		return -1;
	return expect_large(ground, large, 100, pair[1]);
}

/* refuse_large -- what can't be written there, or is too long */
static int refuse_large(struct ground *ground, struct large *large)
{
	struct fi_pmemverbs_step good = into(ground, large, STEP(READ, .len = 4096), 0), bad[4];
	static const ssize_t right[] = {-FI_EINVAL, -FI_EINVAL, -FI_EMSGSIZE, -FI_EMSGSIZE};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].result_mr = ground->link->local.mr;
	bad[1].result = large->memory + MARGIN + SIZE - 4095;
	bad[2].len = SIZE + 1;
	bad[3].result_mr = NULL;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		ssize_t ret =
			ground->ops->post(ground->link->conn.ep, &bad[i], 1, NULL, FI_COMPLETION);

		if (expect(ground->fx, ret == right[i], "chain %zu: %zd, not %zd", i, ret,
			   right[i]))
			return -1;
	}
	return run_chain(ground, &good, 1) || expect_large(ground, large, 0, 4096);
}

static int large_results(struct fx *fx)
{
	static struct large large;
	struct ground ground;
	int ret;

	if (open_ground(fx, NULL, &ground) || open_large(&ground, &large, FI_REMOTE_WRITE))
		return -1;
	ret = read_large(&ground, &large) || refuse_large(&ground, &large) || same(&ground);
	region_close(&large.region);
	return ret ? -1 : 0;
}

/* Its key is withdrawn before the target writes: that connection ends, and no other one. */
static int large_result_withdrawn(struct fx *fx)
{
	static struct large large;
	struct target_proc *target;
	struct fi_pmemverbs_step step;
	struct ground ground;
	struct link *other;
	struct op *op;

	if (!is_pmemverbs(fx))
		return skipped(fx, "chains are pmemverbs' own");
	target = fx_target(fx, NULL);
	if (!target || open_ground(fx, target, &ground) ||
	    open_large(&ground, &large, FI_REMOTE_WRITE) || !(other = fx_link(fx, target, NULL)))
		return -1;
	step = into(&ground, &large, STEP(READ, .len = SIZE), 0);
	if (target_signal(target, SIGSTOP) || post_chain(&ground, ground.link, &step, 1, &op))
		return -1;
	region_close(&large.region);
	if (target_signal(target, SIGCONT) || await_error(ground.link, op) ||
	    expect_status(&ground, &step, FI_PMEMVERBS_STEP_UNKNOWN) ||
	    expect_large(&ground, &large, 0, 0))
		return -1;
	step = at(&ground, STEP(READ, .len = 8), 0);
	return post_chain(&ground, other, &step, 1, &op) || await(other, op) ? -1 : 0;
}

/* Nothing that a peer asks for reaches beyond a region; and the connection goes on. */
static int hostile(struct fx *fx)
{
	static char result[64];
	struct ground ground;
	struct fi_pmemverbs_step steps[8], first;
	struct op *op;
	uint64_t beyond, value = 0;
	size_t i;

	if (open_ground(fx, NULL, &ground))
		return -1;
	beyond = ground.remote->addr + SIZE - 4;
	first = at(&ground, STEP(WRITE, .operand = &beyond, .len = 8), 0);
	now_has(&ground, 0, &beyond, 8);
	steps[0] = at(&ground, STEP(READ, .result = result, .len = 64), SIZE - 63);
	steps[1] = at(&ground, STEP(WRITE, .operand = result, .len = 64), SIZE - 63);
	steps[2] = at(&ground, STEP(CAS, .operand = &value, .expected = &value, .len = 8), SIZE);
	steps[3] = at(&ground, STEP(FETCH_ADD, .operand = &value, .len = 8), (size_t) -8);
	steps[4] = at(&ground,
		      STEP(WRITE, .operand = result, .len = 8, .flags = FI_PMEMVERBS_STEP_INDIRECT),
		      0);
	steps[5] = of_list(&ground, STEP(FREE, .addr = ground.remote->addr + BUFFERS_AT + 8));
	steps[6] = of_list(&ground, STEP(ALLOCATE, .operand = result, .len = BUFFER + 1));
	steps[6].len = 64;
	steps[6].list += 1000;
	steps[7] = at(&ground,
		      STEP(WRITE, .len = 8, .from_addr = beyond, .from_key = ground.remote->key,
			   .flags = FI_PMEMVERBS_STEP_FROM_MEMORY),
		      8);
	if (run_chain(&ground, &first, 1))
		return -1;
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		if (post_chain(&ground, ground.link, &steps[i], 1, &op) ||
		    await_error(ground.link, op) ||
		    expect(fx, op->err == FI_EACCES, "chain %zu failed with %d", i, op->err) ||
		    expect_status(&ground, &steps[i], FI_PMEMVERBS_STEP_REFUSED))
			return -1;
	}
	return run_chain(&ground, &first, 1) ? -1 : same(&ground);
}

/* Two connections count in one word, one of them by comparing and swapping. */
static int races(struct fx *fx)
{
	struct fi_pmemverbs_step add, swap;
	uint64_t one = 1, old = 0, fresh, sum;
	struct op *adding, *swapping;
	int added = 0, swapped = 0;
	struct ground ground;
	struct link *other;

	if (open_ground(fx, NULL, &ground))
		return -1;
	other = fx_link(fx, NULL, NULL);
	if (!other)
		return -1;
	memcpy(&sum, ground.remote->shadow, 8);
	while (added < RACES) {
		fresh = old + 1;
		add = at(&ground, STEP(FETCH_ADD, .operand = &one, .len = 8), 0);
		swap = at(&ground,
			  STEP(CAS, .operand = &fresh, .expected = &old, .result = &old, .len = 8),
			  0);
		if (post_chain(&ground, ground.link, &add, 1, &adding) ||
		    post_chain(&ground, other, &swap, 1, &swapping) || await(ground.link, adding) ||
		    await(other, swapping))
			return -1;
		added++;
		swapped += swap.status == FI_PMEMVERBS_STEP_OK;
		old += swap.status == FI_PMEMVERBS_STEP_OK;
	}
	sum += (uint64_t) added + (uint64_t) swapped;
	now_has(&ground, 0, &sum, 8);
	return same(&ground);
}

/* A target that is stopped goes on; one that is killed ends all chains, whatever step it is at. */
static int stopped_target(struct fx *fx, int signo)
{
	struct target_proc *target;
	struct fi_pmemverbs_step steps[8];
	struct ground ground;
	struct op *ops[8];
	uint64_t one = 1;
	int i, n;

	if (!is_pmemverbs(fx))
		return skipped(fx, "chains are pmemverbs' own");
	target = fx_target(fx, NULL);
	if (!target || open_ground(fx, target, &ground))
		return -1;
	for (i = 0; i < 8; i++)
		steps[i] = at(&ground,
			      STEP(FETCH_ADD, .operand = &one, .len = 8,
				   .flags = FI_PMEMVERBS_STEP_COMMIT),
			      0);
	if (run_chain(&ground, steps, 8) || target_signal(target, signo))
		return -1;
	/* Who knows that the target is dead accepts none. */
	for (n = 0; n < 8; n++) {
		ops[n] = op_new(fx);
		if (ground.ops->post(ground.link->conn.ep, &steps[n], 1, ops[n], FI_COMPLETION))
			break;
	}
	if (signo == SIGSTOP && target_signal(target, SIGCONT))
		return -1;
	if (expect(fx, signo == SIGKILL || n == 8, "only %d chains are accepted", n) ||
	    all_done(ground.link, ops, (unsigned int) n))
		return -1;
	for (i = 0; i < n; i++) {
		if (expect(fx, signo == SIGKILL ? ops[i]->errors : ops[i]->completions,
			   "chain %d ended otherwise than its target", i) ||
		    expect_status(&ground, &steps[i],
				  signo == SIGKILL ? FI_PMEMVERBS_STEP_UNKNOWN : 0))
			return -1;
	}
	return 0;
}

static int killed(struct fx *fx)
{
	return stopped_target(fx, SIGKILL);
}

static int paused(struct fx *fx)
{
	return stopped_target(fx, SIGSTOP);
}

const struct test_case chain_cases[] = {
	{"chain_reads_writes", reads_and_writes},
	{"chain_swaps_adds", swaps_and_adds},
	{"chain_swings_pointer", swings},
	{"chain_conditions", conditions},
	{"chain_buffers", buffers},
	{"chain_follows_writes", follows_writes},
	{"chain_large_results", large_results},
	{"chain_large_withdrawn", large_result_withdrawn},
	{"chain_hostile", hostile},
	{"chain_races", races},
	{"chain_target_killed", killed},
	{"chain_target_paused", paused},
	{NULL, NULL},
};
