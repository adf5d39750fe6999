/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_inject.c -- whatever fails below the provider, once: every call, every error
 *
 * Each program commits in its own way.  It runs once while the calls below the provider are
 * counted, and then once for each of them and each error; memory is also short for a while.
 * Whatever happens,
 *   - what was accepted completes, once, and what was refused does not,
 *   - what is told to be durable is, and so is what was written before it to the same region,
 *   - a commit behind a fence is durable only if what is before the fence is,
 *   - the target's application is told of each commit that was to be told, if it succeeds,
 *   - all can be closed, and nothing is left (the address sanitizer finds what is lost).
 *
 * PMV_INJECT=pairs lets any two calls fail instead: that takes many minutes.
 */
#include <stdlib.h>
#include <string.h>

#include "test/support/inject.h"
#include "objects/cq.h"

#define MOST_OPS 64
#define QUIET 8 /* rounds in which nothing happens: there is nothing more to come */
#define TRIES 20
#define SHORTAGE 9 /* allocations that fail, behind the one that does */

struct op {
	enum pair_memory memory;
	uint64_t what; /* of its completion */
	size_t offset;
	size_t len;
	uint64_t flags;
	int behind; /* the operation before the fence; -1: none */
	bool accepted;
	bool quiet; /* never completes */
	int completions;
	int err;
};

struct run {
	const struct program *program;
	struct pair *pair;
	struct op ops[MOST_OPS];
	int num_ops;
	int notices;
};

struct program {
	const char *name;
	void (*body)(struct run *run);
	struct pair_options options;
	bool all;     /* FI_PMEMVERBS_COMMIT=all */
	bool relaxed; /* FI_PMEMVERBS_ORDERING=relaxed */
};

#define CHECK(run, condition)                                                                      \
	cr_assert(condition, "program '%s'%s", (run)->program->name, inject_text())

/* What has to be durable */

static bool asks(enum pair_memory memory)
{
	return memory == DMP || memory == PAGE || memory == PAGE_TOO;
}

/* is_pushed -- the core has ended a write to there, and a READ behind it */
static bool is_pushed(struct run *run, const struct op *op)
{
	const struct fake *fake = &run->pair->home->fake;
	bool written = false;

	for (size_t i = 0; i < fake->num_posts; i++) {
		const struct fake_post *post = &fake->posts[i];

		if (post->state != FAKE_ENDED || post->err)
			continue;
		written =
			written || (post->op.what & (FI_WRITE | FI_ATOMIC | FI_SEND) &&
				    post->op.addr == pair_addr(run->pair, op->memory, op->offset));
		if (written && post->op.what == (FI_RMA | FI_READ))
			return true;
	}
	return false;
}

static bool is_durable(struct run *run, const struct op *op)
{
	const char *memory = run->pair->memory[op->memory] + op->offset;
	const char *durable = run->pair->durable[op->memory] + op->offset;

	/* The agent may store small data anywhere. */
	if (!asks(op->memory) && is_pushed(run, op))
		return true;
	return op->what & FI_ATOMIC ? *durable && !memcmp(durable, memory, op->len)
				    : pair_survives(run->pair, op->memory, op->offset, op->len);
}

/* fails -- can it happen that one of these fails? */
static bool fails(enum inject_kind kind, enum inject_side side)
{
	for (size_t i = 0; i < INJECT_FAULTS; i++) {
		const struct inject_fault *fault = &inject.faults[i];

		if (fault->n && fault->kind == kind && fault->side == side &&
		    fault->err != FI_EAGAIN)
			return true;
	}
	return false;
}

static bool may_be_lost(const struct op *op)
{
	/* Its error may not have been read yet, and of a quiet one there is none. */
	return op->err || (!op->completions && (fails(INJECT_COMPLETION, INJECT_HOME) ||
						fails(INJECT_BREAK, INJECT_HOME)));
}

static bool commits(const struct run *run, const struct op *op)
{
	return (op->flags & FI_COMMIT) ||
	       (run->program->all && (op->what & (FI_RMA | FI_ATOMIC)) && !op->quiet);
}

static void expect_durable(struct run *run, const struct op *op)
{
	CHECK(run, is_durable(run, op));
	for (const struct op *before = run->ops; before < op && (op->flags & FI_COMMIT); before++) {
		if (before->accepted && before->memory == op->memory &&
		    (before->what & op->what & (FI_RMA | FI_MSG)) && !may_be_lost(before))
			CHECK(run, is_durable(run, before));
	}
}

/* expect_order -- at any time */
static void expect_order(struct run *run)
{
	for (int i = 0; i < run->num_ops; i++) {
		const struct op *op = &run->ops[i];

		if (op->behind >= 0 && op->accepted && asks(op->memory) && is_durable(run, op) &&
		    !may_be_lost(&run->ops[op->behind]))
			CHECK(run, is_durable(run, &run->ops[op->behind]));
	}
}

/* What the application does */

static void completed(struct run *run, const void *context, int err)
{
	ptrdiff_t id = ((const char *) context - (const char *) CONTEXT(0)) / 16;
	struct op *op = &run->ops[id];

	CHECK(run, id >= 0 && id < run->num_ops && context == CONTEXT(id));
	CHECK(run, op->accepted && !op->quiet);
	CHECK(run, ++op->completions == 1);
	CHECK(run, !err || inject.done || !run->pair->home->ep);
	op->err = err;
	if (!err && commits(run, op))
		expect_durable(run, op);
}

/* read_one -- true: there was something */
static bool read_one(struct run *run, struct rig *rig, bool home)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	ssize_t ret = fi_cq_read(rig->cq, &entry, 1);

	if (ret == -FI_EAVAIL) {
		ret = fi_cq_readerr(rig->cq, &error, 0);
		if (ret == 1 && home)
			completed(run, error.op_context, error.err);
	} else if (ret == 1 && home) {
		completed(run, entry.op_context, 0);
	} else if (ret == 1) {
		run->notices += (entry.flags & FI_REMOTE_CQ_DATA) != 0;
	}
	CHECK(run, ret == 1 || ret == -FI_EAGAIN || inject.done);
	return ret == 1;
}

static bool step(struct run *run)
{
	struct pair *pair = run->pair;
	bool any = inject_run_core(&pair->home->fake, INJECT_HOME);

	expect_order(run);
	pmv_agent_progress(pair_agent(pair));
	expect_order(run);
	any |= inject_run_core(&pair->away->fake, INJECT_AWAY) > 0;
	any |= read_one(run, pair->home, true);
	any |= read_one(run, pair->away, false);
	return any;
}

static void settle(struct run *run)
{
	for (int quiet = 0; quiet < QUIET; quiet++) {
		if (step(run))
			quiet = 0;
	}
}

static struct op *new_op(struct run *run, enum pair_memory memory, size_t offset, size_t len,
			 uint64_t flags)
{
	struct op *op = &run->ops[run->num_ops++];

	*op = (struct op){.memory = memory,
			  .what = RIG_WRITTEN,
			  .offset = offset,
			  .len = len,
			  .flags = flags,
			  .behind = -1};
	return op;
}

/* accept -- -FI_EAGAIN is an invitation to try again, and must be one that works */
#define ACCEPT(run, op, call)                                                                      \
	do {                                                                                       \
		ssize_t ret_ = -FI_EAGAIN;                                                         \
                                                                                                   \
		for (int try_ = 0; try_ < TRIES && ret_ == -FI_EAGAIN; try_++) {                   \
			ret_ = (call);                                                             \
			if (ret_ == -FI_EAGAIN)                                                    \
				step(run);                                                         \
		}                                                                                  \
		(op)->accepted = !ret_;                                                            \
		CHECK(run, !ret_ || inject.done);                                                  \
	} while (0)

static int put(struct run *run, enum pair_memory memory, size_t offset, size_t len, uint64_t flags)
{
	struct op *op = new_op(run, memory, offset, len, flags);

	ACCEPT(run, op, pair_put(run->pair, memory, offset, len, CONTEXT(op - run->ops), flags));
	return (int) (op - run->ops);
}

/* put_behind -- and a fence in front */
static int put_behind(struct run *run, enum pair_memory memory, size_t offset, size_t len,
		      int behind)
{
	/* Its completion may be there before it is known what is behind it: there is none yet. */
	struct op *op = new_op(run, memory, offset, len, FI_COMMIT | FI_FENCE);

	op->behind = run->ops[behind].accepted ? behind : -1;
	ACCEPT(run, op,
	       pair_put(run->pair, memory, offset, len, CONTEXT(op - run->ops), op->flags));
	return (int) (op - run->ops);
}

static void inject_write(struct run *run, enum pair_memory memory, size_t offset)
{
	struct pair *pair = run->pair;
	struct op *op = new_op(run, memory, offset, 8, 0);

	op->quiet = true;
	ACCEPT(run, op,
	       fi_inject_write(pair->home->ep, pair->source + offset, 8, 0,
			       pair_addr(pair, memory, offset), pair_key(pair, memory)));
}

static void send_to(struct run *run, enum pair_memory memory, size_t offset, uint64_t flags)
{
	struct op *op = new_op(run, memory, offset, 64, flags);

	op->what = RIG_SENT;
	/* Each message has its receive. */
	for (int try = 0; try < TRIES && !op->accepted; try++)
		ACCEPT(run, op, pair_send(run->pair, offset, 64, CONTEXT(op - run->ops), flags));
}

static void fetch(struct run *run, enum pair_memory memory, size_t offset, uint64_t flags)
{
	struct op *op = new_op(run, memory, offset, 8, flags);

	op->what = FI_ATOMIC | FI_READ;
	ACCEPT(run, op, pair_fetch(run->pair, memory, offset, CONTEXT(op - run->ops), flags));
}

/* Programs */

static void one_sided(struct run *run)
{
	put(run, READ_DMP, 0, 64, 0);
	put(run, READ_DMP, 64, 64, FI_COMMIT);
	put(run, READ_DMP, 128, 64, FI_COMMIT);
	put(run, READ_DMP, 192, 64, FI_COMMIT | FI_IMMED);
	put(run, MHP, 0, 64, FI_COMMIT | FI_FENCE);
}

static void by_agent(struct run *run)
{
	inject_write(run, DMP, 0);
	put(run, DMP, 1024, 64, 0);
	put(run, DMP, 2048, PAIR_LARGE, FI_COMMIT);
	put(run, PAGE, 0, 64, FI_COMMIT);
	put(run, DMP, 4096, PAIR_LARGE, FI_COMMIT | FI_IMMED);
}

static void fenced(struct run *run)
{
	int first = put(run, DMP, 0, 64, 0);
	int second = put_behind(run, DMP, 1024, 8, first);
	int third = put_behind(run, DMP, 2048, PAIR_LARGE, second);

	settle(run);
	first = put(run, PAGE, 0, PAIR_LARGE, 0);
	put_behind(run, DMP, 4096, PAIR_LARGE, first);
	put_behind(run, PAGE, 4096, 8, third);
	put(run, READ_DMP, 0, 8, FI_COMMIT | FI_FENCE);
}

/* receive -- one that is refused is posted again: the core drops messages without a receive */
static void receive(struct run *run, enum pair_memory memory, size_t offset)
{
	struct rig *away = run->pair->away;
	ssize_t ret = -FI_EAGAIN;

	for (int try = 0; try < TRIES && ret; try++)
		ret = fi_recv(away->ep, run->pair->memory[memory] + offset, 64, NULL, 0, NULL);
	CHECK(run, !ret);
}

static void messages(struct run *run)
{
	for (size_t i = 0; i < 3; i++)
		receive(run, DMP, i * 1024);
	send_to(run, DMP, 0, 0);
	send_to(run, DMP, 1024, FI_COMMIT);
	send_to(run, DMP, 2048, FI_COMMIT | FI_FENCE);
}

/* More places than the agent has room for without an allocation. */
static void messages_and_writes(struct run *run)
{
	for (size_t i = 0; i < 26; i++)
		receive(run, DMP, i * 1024);
	for (size_t i = 0; i < 25; i++)
		send_to(run, DMP, i * 1024, 0);
	put(run, PAGE, 0, 64, 0);
	send_to(run, DMP, 25 * 1024, FI_COMMIT | FI_FENCE);
	settle(run);
	/* The shortage may not be over. */
	for (size_t i = 4; i < 14; i++)
		put(run, PAGE, i * 4096, 64, FI_COMMIT);
}

static void atomics(struct run *run)
{
	fetch(run, DMP, 0, FI_COMMIT);
	fetch(run, READ_DMP, 0, FI_COMMIT);
	fetch(run, PAGE, 1024, FI_COMMIT | FI_FENCE);
}

static void all_writes(struct run *run)
{
	put(run, DMP, 0, 64, 0);
	put(run, READ_DMP, 0, 64, 0);
	put(run, MHP, 0, 64, 0);
	inject_write(run, DMP, 1024);
	step(run);
	put(run, DMP, 2048, 64, 0);
	put(run, PAGE, 0, 64, 0);
	fetch(run, DMP, 4096, 0);
}

static void stored(struct run *run)
{
	put(run, DMP, 0, 8, FI_COMMIT);
	put(run, DMP, 64, 8, FI_COMMIT | FI_IMMED);
	put(run, PAGE, 0, 64, FI_COMMIT | FI_FENCE);
	settle(run);
	put(run, DMP, 128, PAIR_LARGE, FI_COMMIT);
}

static void many_ranges(struct run *run)
{
	for (size_t i = 0; i < 30; i++)
		inject_write(run, DMP, i * 1000);
	put(run, DMP, 40000, PAIR_LARGE, FI_COMMIT);
	put(run, DMP, 50000, 8, FI_COMMIT);
}

/* Those under way end with the endpoint, all with an error or as they are. */
static void closed(struct run *run)
{
	put(run, DMP, 0, PAIR_LARGE, FI_COMMIT);
	put(run, READ_DMP, 0, 64, FI_COMMIT);
	put(run, DMP, 2048, 64, 0);
	put(run, PAGE, 0, 64, FI_COMMIT);
	rig_close_ep(run->pair->home);
}

static const struct program programs[] = {
	{.name = "one-sided", .body = one_sided},
	{.name = "one-sided, a core without a fence",
	 .body = one_sided,
	 .options = {.home = {.no_fence = true, .local = true}}},
	{.name = "by the agent", .body = by_agent},
	{.name = "by the agent, with events",
	 .body = by_agent,
	 .options = {.away = {.events = true}}},
	{.name = "fenced", .body = fenced},
	{.name = "fenced, a core without a fence",
	 .body = fenced,
	 .options = {.home = {.no_fence = true, .local = true}}},
	{.name = "messages", .body = messages},
	{.name = "messages to memory of one kind",
	 .body = messages,
	 .options = {.one_kind = true, .received = DMP}},
	{.name = "messages and writes", .body = messages_and_writes},
	{.name = "atomics", .body = atomics},
	{.name = "all writes", .body = all_writes, .all = true},
	{.name = "one-sided, without order", .body = one_sided, .relaxed = true},
	{.name = "by the agent, without order", .body = by_agent, .relaxed = true},
	{.name = "fenced, without order", .body = fenced, .relaxed = true},
	{.name = "all writes, without order", .body = all_writes, .all = true, .relaxed = true},
	{.name = "stored", .body = stored, .options = {.stores = true}},
	{.name = "many ranges", .body = many_ranges},
	{.name = "closed", .body = closed},
	{.name = "closed, stored", .body = closed, .options = {.stores = true}},
};

/* Running them */

/* is_forgotten -- when an endpoint is closed, its last entries may find no memory */
static bool is_forgotten(const struct run *run, const struct op *op)
{
	return !op->completions && !run->pair->home->ep && fails(INJECT_MEMORY, INJECT_HOME);
}

static void expect_ends(struct run *run)
{
	int wanted = 0;

	for (int i = 0; i < run->num_ops; i++) {
		const struct op *op = &run->ops[i];

		CHECK(run,
		      op->completions == (op->accepted && !op->quiet) || is_forgotten(run, op));
		wanted += (op->flags & FI_IMMED) == FI_IMMED && op->completions && !op->err &&
			  run->pair->home->ep;
	}
	CHECK(run, run->notices >= wanted);
}

static bool all_ended(const struct run *run)
{
	for (int i = 0; i < run->num_ops; i++) {
		const struct op *op = &run->ops[i];

		if (op->accepted && !op->quiet && !op->completions)
			return false;
	}
	return true;
}

/* A request that can't be posted away, or fails there, is one of a connection that is lost. */
static void lose_connection(struct run *run)
{
	if (all_ended(run) || !run->pair->home->ep)
		return;
	CHECK(run, fails(INJECT_POST, INJECT_AWAY) || fails(INJECT_COMPLETION, INJECT_AWAY) ||
			   fails(INJECT_BREAK, INJECT_AWAY));
	pmv_initiator_break(&run->pair->from->initiator);
	settle(run);
}

static void run_program(struct run *run, const struct inject_fault *faults)
{
	struct pair_options options = run->program->options;

	run->num_ops = run->notices = 0;
	options.home.engine = options.away.engine = &inject_engine;
	pmv_setting.commit_all = run->program->all;
	pmv_setting.relaxed = run->program->relaxed;
	run->pair = pair_open(&options);
	run->pair->forgets_events = true;
	inject_start(faults, &run->pair->away->fake);
	run->program->body(run);
	settle(run);
	lose_connection(run);
	inject_stop();
	expect_ends(run);
	/* The first fault changes what is called then. */
	CHECK(run, !faults[0].n || inject.done);
	pair_close(run->pair);
}

static const int errors_of[INJECT_KINDS][5] = {
	[INJECT_POST] = {FI_EAGAIN, FI_ENOMEM, FI_EIO, FI_ENOTCONN},
	[INJECT_POLL] = {FI_EAGAIN, FI_EIO},
	[INJECT_POLL_ERROR] = {FI_EAGAIN, FI_EIO},
	[INJECT_COMPLETION] = {FI_EIO, FI_ECANCELED},
	[INJECT_BREAK] = {FI_EIO, FI_ENOTCONN},
	[INJECT_MEMORY] = {FI_ENOMEM},
};

struct calls {
	unsigned int of[INJECT_KINDS][INJECT_SIDES];
};

/* next_fault -- the one behind it; false: there are no more */
static bool next_fault(const struct calls *calls, struct inject_fault *fault, size_t *which)
{
	for (;;) {
		const int *errors = errors_of[fault->kind];

		if (errors[*which] && fault->n < calls->of[fault->kind][fault->side]) {
			fault->n++;
			fault->err = errors[*which];
			return true;
		}
		fault->n = 0;
		if (errors[*which] && errors[++*which])
			continue;
		*which = 0;
		if (++fault->side < INJECT_SIDES)
			continue;
		fault->side = INJECT_HOME;
		if (++fault->kind == INJECT_KINDS)
			return false;
	}
}

static unsigned int fail_second(struct run *run, const struct inject_fault *first)
{
	struct inject_fault faults[INJECT_FAULTS] = {*first, {0}};
	unsigned int runs = 0;
	struct calls calls;
	size_t which = 0;

	memcpy(&calls, inject.calls, sizeof(calls));
	for (; next_fault(&calls, &faults[1], &which); runs++)
		run_program(run, faults);
	return runs;
}

/* fail_each -- returns how often the program has run */
static unsigned int fail_each(struct run *run, bool pairs)
{
	struct inject_fault faults[INJECT_FAULTS] = {{0}};
	unsigned int runs = 0;
	struct calls calls;
	size_t which = 0;

	run_program(run, faults);
	memcpy(&calls, inject.calls, sizeof(calls));
	while (next_fault(&calls, &faults[0], &which)) {
		run_program(run, faults);
		runs += 1 + (pairs ? fail_second(run, &faults[0]) : 0);
		if (faults[0].kind == INJECT_MEMORY) {
			/* Whoever has none may ask again at once. */
			faults[0].more = SHORTAGE;
			run_program(run, faults);
			faults[0].more = 0;
		}
	}
	return runs;
}

Test(inject, every_call_fails_once, .timeout = 86400)
{
	const char *wanted = getenv("PMV_INJECT");
	bool pairs = wanted && !strcmp(wanted, "pairs");
	static struct run run;

	pair_describe_memory();
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		run.program = &programs[i];
		cr_expect_gt(fail_each(&run, pairs), 50, "program '%s'", programs[i].name);
	}
}
