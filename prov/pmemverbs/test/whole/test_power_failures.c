/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_power_failures.c -- commits by an agent, in random programs that may lose power
 * at any moment
 *
 * Every operation writes a place of its own.  Whatever the send queues have
 * room for, and in whatever order things are delivered, served and read:
 *
 * - what a commit that succeeds covers survives: itself and all that was written
 *   to its region before, if it is fenced to any region;
 * - as long as a part of that would be lost, nothing of a fenced commit is even
 *   written;
 * - every operation that was accepted completes once, commits in their order;
 * - the target hears once of a commit that notifies, and not before it is
 *   durable.
 */
#include <stdlib.h>
#include <string.h>

#include "commit/submit.h"
#include "objects/ep.h"
#include "test/support/dice.h"
#include "test/support/pair.h"

#define PROGRAMS DICE_RUNS(3000)
#define STEPS 500
#define MAX_OPS 90
#define PLACE 720 /* bytes from one operation's place to the next one's */

struct op {
	enum pair_memory memory;
	size_t len;
	bool commit;
	bool fenced;
	bool notice;
	bool quiet;
	bool accepted;
	int completions;
	bool failed;
	int notices;
};

struct program {
	uint64_t random;
	int number;
	struct pair *pair;
	struct op ops[MAX_OPS];
	int num_ops;
	int last_commit; /* that has completed */
	bool lost;       /* the connection */
	bool forgotten;  /* the core ends nothing that was under way when it was closed */
	bool no_notices; /* the agent gives none */
};

static int succeeded, fenced, failed, waited, noticed;

#define CHECK(prog, condition)                                                                     \
	cr_assert(condition, "program %d, %d operations", (prog)->number, (prog)->num_ops)

/* Of the others a commit is the core's affair, and what is there has survived. */
static bool is_agents(enum pair_memory memory)
{
	return memory == DMP || memory == PAGE || memory == PAGE_TOO;
}

static size_t place(int id)
{
	return (size_t) id * PLACE;
}

static bool survives(struct program *prog, int id)
{
	const struct op *op = &prog->ops[id];

	return pair_survives(prog->pair, op->memory, place(id), op->len);
}

/* Is any of it there already, in a cache or in memory? */
static bool is_written(struct program *prog, int id)
{
	const struct op *op = &prog->ops[id];
	const char *at = prog->pair->memory[op->memory] + place(id);

	for (size_t i = 0; i < op->len; i++) {
		if (at[i])
			return true;
	}
	return false;
}

/* Does all that a commit covers survive? */
static bool is_covered(struct program *prog, int id)
{
	const struct op *op = &prog->ops[id];

	for (int i = 0; i < id; i++) {
		const struct op *before = &prog->ops[i];

		if (!before->accepted || !is_agents(before->memory))
			continue;
		/* The application knows of what has failed, or is about to: an error is both
		 * files'. */
		if (prog->pair->sync_fails && (before->commit || before->memory != DMP))
			continue;
		if ((op->fenced || before->memory == op->memory) && !survives(prog, i))
			return false;
	}
	return true;
}

/* The power may fail now. */
static void check_fences(void *arg)
{
	struct program *prog = arg;

	/* What may follow a commit that has failed is for test_ordering_agent to say. */
	if (prog->pair->sync_fails)
		return;
	for (int i = 0; i < prog->num_ops; i++) {
		const struct op *op = &prog->ops[i];

		if (op->accepted && op->commit && op->fenced && is_written(prog, i))
			CHECK(prog, is_covered(prog, i));
	}
}

static void told(struct program *prog, const void *context, int err)
{
	ptrdiff_t id = ((char *) context - (char *) CONTEXT(0)) / 16;
	struct op *op = &prog->ops[id];

	CHECK(prog, id >= 0 && id < prog->num_ops);
	CHECK(prog, op->accepted && !op->quiet);
	CHECK(prog, ++op->completions == 1);
	op->failed = err != 0;
	if (!op->commit)
		return;
	if (err) {
		failed++;
		CHECK(prog, prog->lost || prog->pair->sync_fails);
		return;
	}
	succeeded++;
	fenced += op->fenced;
	/* A notice that the agent can't give takes one more operation. */
	if (!op->notice || !prog->no_notices)
		CHECK(prog, id > prog->last_commit);
	if (is_agents(op->memory)) {
		if (id > prog->last_commit)
			prog->last_commit = (int) id;
		CHECK(prog, survives(prog, (int) id));
		CHECK(prog, is_covered(prog, (int) id));
	} else if (op->fenced) {
		CHECK(prog, is_covered(prog, (int) id));
	}
}

/* read_cq -- true: there was something */
static bool read_cq(struct program *prog)
{
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error = {0};
	ssize_t ret = fi_cq_read(prog->pair->home->cq, entries, 1 + dice(&prog->random, 4));

	for (ssize_t i = 0; i < ret; i++)
		told(prog, entries[i].op_context, 0);
	CHECK(prog, ret > 0 || ret == -FI_EAGAIN || ret == -FI_EAVAIL);
	if (ret != -FI_EAVAIL)
		return ret > 0;
	CHECK(prog, fi_cq_readerr(prog->pair->home->cq, &error, 0) == 1);
	told(prog, error.op_context, error.err);
	return true;
}

static void read_notices(struct program *prog)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(prog->pair->away->rx_cq, &entry, 1)) == 1) {
		struct op *op = &prog->ops[entry.data];

		noticed++;
		CHECK(prog, entry.flags & FI_REMOTE_CQ_DATA);
		CHECK(prog, entry.data < (uint64_t) prog->num_ops && op->notice);
		CHECK(prog, ++op->notices == 1);
		if (is_agents(op->memory))
			CHECK(prog, survives(prog, (int) entry.data));
	}
	CHECK(prog, ret == -FI_EAGAIN);
}

static void post(struct program *prog)
{
	static const enum pair_memory memories[] = {DMP, DMP, DMP, PAGE, PAGE, PAGE_TOO, MHP};
	int id = prog->num_ops;
	struct op *op = &prog->ops[id];
	struct pair *pair = prog->pair;
	struct iovec iov = {pair->source + place(id), 0};
	struct fi_rma_iov rma_iov;
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, &rma_iov, 1, CONTEXT(id), (uint64_t) id};
	uint64_t flags;
	ssize_t ret;

	if (id == MAX_OPS)
		return;
	*op = (struct op){.memory = memories[dice(&prog->random, 7)]};
	op->len = one_in(&prog->random, 4) ? 500 + dice(&prog->random, 150)
					   : dice(&prog->random, 100);
	op->commit = !one_in(&prog->random, 3);
	op->fenced = one_in(&prog->random, 3);
	op->notice = op->commit && one_in(&prog->random, 4);
	op->quiet = !op->commit && !op->fenced && one_in(&prog->random, 2);
	flags = (op->commit ? FI_COMMIT : 0) | (op->fenced ? FI_FENCE : 0) |
		(op->notice ? FI_IMMED : 0) | (one_in(&prog->random, 5) ? FI_INJECT : 0);
	iov.iov_len = op->len;
	rma_iov = (struct fi_rma_iov){pair_addr(pair, op->memory, place(id)), op->len,
				      pair_key(pair, op->memory)};
	/* It is looked at while it is being posted. */
	prog->num_ops++;
	if (op->quiet)
		ret = fi_inject_write(pair->home->ep, iov.iov_base, op->len, 0, rma_iov.addr,
				      rma_iov.key);
	else
		ret = fi_writemsg(pair->home->ep, &msg, flags);
	CHECK(prog,
	      !ret || ret == -FI_EAGAIN ||
		      (ret == -FI_ECANCELED && op->fenced && (prog->lost || pair->sync_fails)));
	op->accepted = !ret;
	waited += !ret && op->commit && !pmv_submit_is_open(&pair->from->initiator);
}

static void step(struct program *prog)
{
	struct pair *pair = prog->pair;

	switch (dice(&prog->random, 14)) {
	case 0:
	case 1:
	case 2:
	case 3:
		post(prog);
		break;
	case 4:
		pair->home->fake.room = (int) (dice(&prog->random, 5)) - 1;
		break;
	case 5:
		pair->home->fake.room = pair->away->fake.room = -1;
		break;
	case 6:
		pair->away->fake.room = (int) (dice(&prog->random, 3));
		break;
	case 7:
		fake_deliver(&pair->home->fake, dice(&prog->random, 6));
		break;
	case 8:
		fake_complete(&pair->home->fake, dice(&prog->random, 6));
		break;
	case 9:
		fake_complete(&pair->away->fake, dice(&prog->random, 4));
		break;
	case 10:
		pmv_agent_progress(pair_agent(pair));
		break;
	case 11:
		read_notices(prog);
		break;
	default:
		read_cq(prog);
	}
	check_fences(prog);
}

/* One operation arrives at a time. */
static void drain(struct program *prog)
{
	struct pair *pair = prog->pair;

	pair->home->fake.room = pair->away->fake.room = -1;
	for (int quiet = 0; quiet < 20; quiet++) {
		if (fake_complete(&pair->home->fake, 1) || fake_complete(&pair->away->fake, 1))
			quiet = 0;
		check_fences(prog);
		pmv_agent_progress(pair_agent(pair));
		if (read_cq(prog))
			quiet = 0;
		read_notices(prog);
	}
}

static void check_all(struct program *prog)
{
	for (int i = 0; i < prog->num_ops; i++) {
		const struct op *op = &prog->ops[i];

		/* What goes straight to the core is the core's to end. */
		CHECK(prog, op->completions == (op->accepted && !op->quiet) ||
				    (prog->forgotten && !op->commit && !op->completions));
		if (op->accepted && op->notice && !op->failed)
			CHECK(prog, op->notices == 1);
		if (op->failed && op->notice && !prog->lost)
			CHECK(prog, op->notices == 0);
	}
}

static void lose_connection(struct program *prog)
{
	struct pair *pair = prog->pair;

	prog->lost = true;
	if (one_in(&prog->random, 2))
		pmv_initiator_break(&pair->from->initiator);
	else
		fake_fail_all(&pair->home->fake, FI_EIO, 5);
	if (one_in(&prog->random, 2)) {
		pair->home->fake.on_close =
			one_in(&prog->random, 2) ? FAKE_CLOSE_CANCELS : FAKE_CLOSE_FORGETS;
		prog->forgotten = pair->home->fake.on_close == FAKE_CLOSE_FORGETS;
		rig_close_ep(pair->home);
	} else {
		pmv_initiator_break(&pair->from->initiator);
	}
}

static void run(int number)
{
	struct program *prog = calloc(1, sizeof(*prog));
	struct pair_options options = {0};

	cr_assert_not_null(prog);
	prog->number = number;
	prog->random = (uint64_t) number * UINT64_C(0x9e3779b97f4a7c15) + 1;
	prog->last_commit = -1;
	options.offsets = one_in(&prog->random, 3);
	options.stores = one_in(&prog->random, 2);
	options.no_notices = one_in(&prog->random, 3);
	options.home.no_fence = one_in(&prog->random, 4);
	options.home.local = options.home.no_fence;
	options.home.cq_size = one_in(&prog->random, 3) ? 4 : 0;
	options.away.cq_size = one_in(&prog->random, 3) ? 2 : 0;
	prog->no_notices = options.no_notices;
	prog->pair = pair_open(&options);
	prog->pair->forgets_events = true;
	prog->pair->on_event = check_fences;
	prog->pair->on_event_arg = prog;
	for (int i = 0; i < STEPS; i++) {
		step(prog);
		if (i == STEPS / 2 && one_in(&prog->random, 6))
			prog->pair->sync_fails = true;
	}
	if (one_in(&prog->random, 4))
		lose_connection(prog);
	drain(prog);
	check_all(prog);
	pair_close(prog->pair);
	free(prog);
}

Test(outage, loses_nothing_that_was_promised_to_be_there, .timeout = 3600)
{
	for (int number = 1; number <= PROGRAMS; number++)
		run(number);
	cr_expect_gt(succeeded, 5 * PROGRAMS, "%d", succeeded);
	cr_expect_gt(fenced, PROGRAMS, "%d", fenced);
	cr_expect_gt(failed, PROGRAMS / 4, "%d", failed);
	cr_expect_gt(waited, PROGRAMS, "%d", waited);
	cr_expect_gt(noticed, PROGRAMS, "%d", noticed);
}
