/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_random_programs.c -- random programs, and what must hold in all of them
 *
 * A program posts operations of all kinds to two endpoints with one CQ, while
 * the core runs out of room, completes and fails as it pleases.  Seeds are
 * fixed; a failing program is found by its number.
 */
#include <stdlib.h>
#include <string.h>

#include "test/support/dice.h"
#include "test/support/rig.h"

#define PROGRAMS DICE_RUNS(20000)
#define STEPS 120
#define MAX_OPS (STEPS + 1)
#define NUM_EPS 2
#define NONE SIZE_MAX

struct op {
	int ep;
	uint64_t what; /* of its completion */
	uint64_t key;
	size_t len;
	bool commit;
	bool notice;
	bool fenced;
	bool quiet;    /* never completes */
	bool reported; /* completes also if it succeeds */
	bool accepted;
	bool post_failed; /* a part could not be posted, for another reason than room */
	int completions;
	/* Where its parts are among the core's operations. */
	size_t front; /* the flush in front of a fenced one */
	size_t main;
	size_t flush;
	size_t behind; /* the notice, if it is an operation of its own */
	bool flushes;  /* it needs the flush */
};

struct program {
	struct rig *rig;
	struct fid_ep *eps[NUM_EPS];
	uint64_t random;
	int number;
	struct op ops[MAX_OPS];
	int num_ops;
	int posting;      /* the operation whose call is running; -1: none */
	size_t looked_at; /* of the core's operations */
	bool fence_next[NUM_EPS];
	int last_seen[NUM_EPS][2]; /* the operations that succeeded and failed last */
	bool closed;
};

/* What commits have met with, in all programs: none of it may be missing. */
static int succeeded, failed, refused_once, waited;

/* Where an operation's data comes from says which one it is. */
static char area[MAX_OPS][16];

#define CHECK(prog, condition)                                                                     \
	cr_assert(condition, "program %d, step with %d operations", (prog)->number, (prog)->num_ops)

static int op_of_context(struct program *prog, const void *context)
{
	ptrdiff_t n = ((char *) context - (char *) CONTEXT(0)) / 16;

	CHECK(prog, n >= 0 && n < prog->num_ops && context == CONTEXT(n));
	return (int) n;
}

static int ep_of(struct program *prog, const struct fake_post *post)
{
	/* The core's endpoints are listed last first. */
	return post->ep == prog->rig->fake.eps ? 1 : 0;
}

/* Does a write with that key become durable only with a flush? */
static bool is_flushed(struct program *prog, uint64_t key)
{
	return key == KEY_MHP || key == KEY_DMP || key == KEY_NONE ||
	       (key == KEY_WSP && prog->rig->options.local);
}

static bool writes(const struct op *op)
{
	return (op->what & FI_WRITE) || (op->what & FI_ATOMIC);
}

/* Cores without a fence execute requests in order: only what is returned can be too late. */
static bool returns_data(const struct program *prog, const struct op *op)
{
	return (op->what & FI_READ) || (!prog->rig->options.no_fence && (op->what & FI_ATOMIC));
}

/* Fences, as they must be found in what the core was given */

static bool fence_between(struct program *prog, int ep, size_t after, size_t last)
{
	for (size_t i = after + 1; i <= last; i++) {
		const struct fake_post *post = rig_post(prog->rig, i);

		if (ep_of(prog, post) == ep && (post->op.flags & FI_FENCE))
			return true;
	}
	return false;
}

/* A READ behind the write, ours or the application's, for which the later one waits. */
static bool flushed_between(struct program *prog, int ep, size_t write, size_t last)
{
	for (size_t i = write + 1; i < last; i++) {
		const struct fake_post *post = rig_post(prog->rig, i);

		if (ep_of(prog, post) == ep && post->op.what == (FI_RMA | FI_READ) &&
		    (prog->rig->options.no_fence || fence_between(prog, ep, i, last)))
			return true;
	}
	return false;
}

static void check_fence(struct program *prog, const struct op *op)
{
	for (int i = 0; &prog->ops[i] != op; i++) {
		const struct op *before = &prog->ops[i];

		if (!before->accepted || before->ep != op->ep)
			continue;
		if (returns_data(prog, before) && !(op->what & FI_READ)) {
			if (prog->rig->options.no_fence)
				CHECK(prog, rig_post(prog->rig, before->main)->state == FAKE_ENDED);
			else
				CHECK(prog, fence_between(prog, op->ep, before->main, op->main));
		}
		if (op->commit && writes(before) && before->key == KEY_DMP)
			CHECK(prog, flushed_between(prog, op->ep, before->main, op->main));
	}
}

/* What the core was given */

static bool ended(struct program *prog, size_t n, int err)
{
	const struct fake_post *post;

	if (n == NONE)
		return false;
	post = rig_post(prog->rig, n);
	return post->state == FAKE_ENDED && (err ? post->err != 0 : !post->err);
}

/* Has one of its parts failed, by the core's account? */
static bool has_failed(struct program *prog, const struct op *op)
{
	return ended(prog, op->front, 1) || ended(prog, op->main, 1) || ended(prog, op->flush, 1) ||
	       ended(prog, op->behind, 1);
}

static void see_main(struct program *prog, size_t n, int id)
{
	const struct fake_post *post = rig_post(prog->rig, n);
	struct op *op = &prog->ops[id];
	bool past_flush = false;

	CHECK(prog, id == prog->posting);
	CHECK(prog, op->main == NONE);
	CHECK(prog, post->op.what == op->what && ep_of(prog, post) == op->ep);
	CHECK(prog, post->op.what & FI_MSG || post->op.key == pmv_key_core(op->key));
	op->main = n;
	for (int i = 0; i < id; i++)
		past_flush =
			past_flush || (prog->ops[i].accepted && prog->ops[i].ep == op->ep &&
				       writes(&prog->ops[i]) && is_flushed(prog, prog->ops[i].key));
	op->flushes = op->commit && (is_flushed(prog, op->key) || (op->fenced && past_flush));
	/* Nothing that was accepted before still waits. */
	for (int i = 0; i < id; i++) {
		const struct op *before = &prog->ops[i];

		if (before->accepted && before->ep == op->ep && before->commit &&
		    !before->post_failed && !has_failed(prog, before))
			CHECK(prog, before->flush != NONE || !before->flushes);
	}
	/* A fenced read hands its fence on to the next request; atomics the core fences itself. */
	if (op->commit || !(post->op.what & FI_READ))
		prog->fence_next[op->ep] = false;
	else if (!(post->op.what & FI_ATOMIC) && (post->op.flags & FI_FENCE))
		prog->fence_next[op->ep] = true;
}

static void see_part(struct program *prog, size_t n)
{
	const struct fake_post *post = rig_post(prog->rig, n);
	struct op *op = NULL;

	/* Parts of one commit have one context, which is used again only after it. */
	for (int i = prog->num_ops - 1; i >= 0 && !op; i--) {
		if (prog->ops[i].commit && !prog->ops[i].completions && prog->ops[i].main != NONE &&
		    rig_post(prog->rig, prog->ops[i].main)->op.context == post->op.context)
			op = &prog->ops[i];
	}
	if (op && post->op.what == (FI_RMA | FI_READ) && op->flushes && op->flush == NONE) {
		CHECK(prog, post->op.len == 1 && post->op.rma_len == 1);
		op->flush = n;
	} else if (op && (post->op.flags & FI_REMOTE_CQ_DATA)) {
		CHECK(prog, op->notice && op->behind == NONE);
		CHECK(prog, op->flush != NONE || !op->flushes);
		CHECK(prog, post->op.len == 0 && post->op.data == DATA);
		CHECK(prog, (post->op.flags & FI_FENCE) || prog->rig->options.no_fence);
		op->behind = n;
	} else {
		CHECK(prog, post->op.what == (FI_RMA | FI_READ) && post->op.len == 1);
		CHECK(prog, prog->posting >= 0);
		op = &prog->ops[prog->posting];
		CHECK(prog, op->commit && (op->fenced || prog->fence_next[op->ep]));
		CHECK(prog, op->front == NONE && op->main == NONE);
		op->front = n;
	}
}

static void look(struct program *prog)
{
	for (; prog->looked_at < prog->rig->fake.num_posts; prog->looked_at++) {
		const struct fake_post *post = rig_post(prog->rig, prog->looked_at);
		const char *buf = post->op.buf;

		CHECK(prog, !(post->op.flags & FI_FENCE) || !prog->rig->options.no_fence);
		if (buf >= area[0] && buf < area[MAX_OPS])
			see_main(prog, prog->looked_at, (int) ((buf - area[0]) / 16));
		else
			see_part(prog, prog->looked_at);
	}
}

/* What the application is told */

static void told(struct program *prog, const void *context, uint64_t flags, int err)
{
	int id = op_of_context(prog, context);
	struct op *op = &prog->ops[id];

	look(prog);
	CHECK(prog, op->accepted && !op->quiet);
	CHECK(prog, ++op->completions == 1);
	CHECK(prog, flags == op->what);
	/* In order, but an error may be told behind successes that were read with it. */
	CHECK(prog, id > prog->last_seen[op->ep][err != 0]);
	prog->last_seen[op->ep][err != 0] = id;
	if (err) {
		CHECK(prog, prog->closed || op->post_failed || has_failed(prog, op));
		failed += op->commit;
		return;
	}
	CHECK(prog, op->reported);
	CHECK(prog, ended(prog, op->main, 0));
	if (!op->commit)
		return;
	succeeded++;
	if (op->front != NONE)
		CHECK(prog, ended(prog, op->front, 0));
	if (op->flushes)
		CHECK(prog, ended(prog, op->flush, 0) && op->flush > op->main);
	if (op->notice && (op->flushes || (op->what & FI_ATOMIC)))
		CHECK(prog, ended(prog, op->behind, 0) && op->behind > op->main &&
				    (!op->flushes || op->behind > op->flush));
	else if (op->notice)
		CHECK(prog, rig_post(prog->rig, op->main)->op.flags & FI_REMOTE_CQ_DATA);
}

/* Steps */

static const uint64_t *keys(void)
{
	static uint64_t all[5];

	all[0] = KEY_MHP;
	all[1] = KEY_DMP;
	all[2] = KEY_WSP;
	all[3] = KEY_NONE;
	all[4] = KEY_DMP;
	return all;
}

static ssize_t call(struct program *prog, struct op *op, uint64_t flags)
{
	int id = (int) (op - prog->ops);
	struct fid_ep *ep = prog->eps[op->ep];
	struct iovec iov = {area[id], op->len};
	struct fi_rma_iov rma_iov = {ADDR + (uint64_t) id * 64, op->len, op->key};
	struct fi_msg_rma rma = {&iov, NULL, 1, 0, &rma_iov, 1, CONTEXT(id), DATA};
	struct fi_msg msg = {&iov, NULL, 1, 0, CONTEXT(id), DATA};
	static uint64_t old;
	struct fi_ioc ioc = {area[id], 1}, result = {&old, 1};
	struct fi_rma_ioc rma_ioc = {ADDR + (uint64_t) id * 64, 1, op->key};
	struct fi_msg_atomic atomic = {&ioc, NULL,      1,      0,           &rma_ioc,
				       1,    FI_UINT64, FI_SUM, CONTEXT(id), DATA};

	if (op->quiet)
		return op->what & FI_MSG
			       ? fi_inject(ep, area[id], op->len, 0)
			       : fi_inject_write(ep, area[id], op->len, 0, rma_iov.addr, op->key);
	if (op->what & FI_ATOMIC)
		return op->what & FI_READ ? fi_fetch_atomicmsg(ep, &atomic, &result, NULL, 1, flags)
					  : fi_atomicmsg(ep, &atomic, flags);
	if (op->what & FI_MSG)
		return fi_sendmsg(ep, &msg, flags);
	return op->what & FI_READ ? fi_readmsg(ep, &rma, flags) : fi_writemsg(ep, &rma, flags);
}

/* note_failure -- a post failed while something was called: was it of a commit under way? */
static void note_failure(struct program *prog, int fail_in)
{
	if (!fail_in || prog->rig->fake.fail_in)
		return;
	for (int i = prog->num_ops - 1; i >= 0; i--) {
		struct op *op = &prog->ops[i];

		if (op->commit && op->main != NONE &&
		    rig_post(prog->rig, op->main)->op.context == prog->rig->fake.fail_context) {
			op->post_failed = true;
			return;
		}
	}
}

static void post(struct program *prog)
{
	static const uint64_t whats[] = {
		FI_RMA | FI_WRITE, FI_RMA | FI_WRITE, FI_RMA | FI_WRITE,   FI_RMA | FI_WRITE,
		FI_RMA | FI_READ,  RIG_SENT,          FI_ATOMIC | FI_READ, FI_ATOMIC | FI_WRITE,
	};
	int id = prog->num_ops++;
	struct op *op = &prog->ops[id];
	uint64_t flags;
	int fail_in = prog->rig->fake.fail_in;
	ssize_t ret;

	*op = (struct op){.front = NONE, .main = NONE, .flush = NONE, .behind = NONE};
	op->ep = (int) (dice(&prog->random, NUM_EPS));
	op->what = whats[dice(&prog->random, 8)];
	op->key = keys()[dice(&prog->random, 5)];
	op->len = one_in(&prog->random, 8) && op->what == RIG_WRITTEN ? 0 : 8;
	op->commit = writes(op) && !one_in(&prog->random, 3);
	op->notice = op->commit && one_in(&prog->random, 3);
	op->quiet = !op->commit && one_in(&prog->random, 5) &&
		    (op->what == RIG_WRITTEN || op->what == RIG_SENT);
	op->fenced = !op->quiet && one_in(&prog->random, 3);
	op->reported = !op->quiet && (!prog->rig->options.selective || one_in(&prog->random, 2));
	flags = (op->commit ? FI_COMMIT : 0) | (op->notice ? FI_IMMED : 0) |
		(op->fenced ? FI_FENCE : 0) |
		(op->reported && prog->rig->options.selective ? FI_COMPLETION : 0);

	prog->posting = id;
	ret = call(prog, op, flags);
	/* Of what waited, or of this one. */
	note_failure(prog, fail_in);
	look(prog);
	note_failure(prog, fail_in);
	prog->posting = -1;
	/* What it follows may have failed, and wait to be read. */
	CHECK(prog, !ret || ret == -FI_EAGAIN || ret == -FI_EOPBADSTATE ||
			    (op->fenced && ret == -FI_ECANCELED));
	op->accepted = !ret;
	/* Accepted if, and only if, the operation itself was posted. */
	CHECK(prog, op->accepted == (op->main != NONE));
	refused_once += op->commit && !op->accepted;
	waited += op->commit && op->accepted && op->flushes && op->flush == NONE;
	if (op->accepted && op->fenced)
		check_fence(prog, op);
}

static void read_cq(struct program *prog)
{
	struct fi_cq_tagged_entry entries[5];
	struct fi_cq_err_entry error = {0};
	size_t count = 1 + dice(&prog->random, 5);
	int fail_in = prog->rig->fake.fail_in;
	ssize_t ret = fi_cq_read(prog->rig->cq, entries, count);

	note_failure(prog, fail_in);
	look(prog);
	for (ssize_t i = 0; i < ret; i++)
		told(prog, entries[i].op_context, entries[i].flags, 0);
	CHECK(prog, ret > 0 || ret == -FI_EAGAIN || ret == -FI_EAVAIL);
	if (ret != -FI_EAVAIL)
		return;
	CHECK(prog, fi_cq_readerr(prog->rig->cq, &error, 0) == 1);
	told(prog, error.op_context, error.flags, error.err);
}

static void step(struct program *prog)
{
	struct fake *fake = &prog->rig->fake;

	switch (dice(&prog->random, 12)) {
	case 0:
	case 1:
	case 2:
	case 3:
		post(prog);
		break;
	case 4:
		fake->room = (int) (dice(&prog->random, 5)) - 1;
		break;
	case 5:
		fake->room = -1;
		break;
	case 6:
	case 7:
		fake_complete(fake, dice(&prog->random, 6));
		break;
	case 8:
		if (one_in(&prog->random, 6))
			fake_fail(fake, FI_EIO, 5);
		break;
	case 9:
		if (one_in(&prog->random, 8)) {
			fake->fail_in = (int) (1 + dice(&prog->random, 3));
			fake->fail_err = FI_EOPBADSTATE;
		}
		break;
	default:
		read_cq(prog);
	}
}

/* Nothing fails any more: all that was accepted has to end well or has failed before. */
static void drain(struct program *prog)
{
	struct fake *fake = &prog->rig->fake;

	fake->room = -1;
	fake->fail_in = 0;
	for (int quiet = 0; quiet < 8; quiet++) {
		size_t posts = fake->num_posts;

		if (fake_complete(fake, SIZE_MAX) || posts != fake->num_posts)
			quiet = 0;
		for (int i = 0; i < MAX_OPS; i++)
			read_cq(prog);
	}
}

static void check_all(struct program *prog)
{
	for (int i = 0; i < prog->num_ops; i++) {
		const struct op *op = &prog->ops[i];

		if (!op->accepted || op->quiet)
			CHECK(prog, !op->completions);
		else if (op->reported || (op->commit && has_failed(prog, op)))
			CHECK(prog, op->completions == 1 || (prog->closed && !op->commit));
	}
}

static void run(int number)
{
	struct program *prog = calloc(1, sizeof(*prog));
	struct rig_options options = {0};

	cr_assert_not_null(prog);
	prog->number = number;
	prog->random = (uint64_t) number * UINT64_C(0x9e3779b97f4a7c15) + 1;
	prog->posting = -1;
	options.no_fence = one_in(&prog->random, 3);
	/* tcp, iWARP; Soft-RoCE, InfiniBand */
	options.local = one_in(&prog->random, options.no_fence ? 2 : 3);
	options.selective = one_in(&prog->random, 3);
	options.cq_size = one_in(&prog->random, 3) ? 4 : 0;
	prog->rig = rig_open(&options);
	prog->eps[0] = prog->rig->ep;
	prog->eps[1] = rig_ep(prog->rig, prog->rig->cq);
	memset(prog->last_seen, -1, sizeof(prog->last_seen));
	for (int i = 0; i < STEPS; i++)
		step(prog);
	/* Some end with a connection that is closed, the others with all done. */
	if (one_in(&prog->random, 3)) {
		prog->rig->fake.on_close =
			one_in(&prog->random, 2) ? FAKE_CLOSE_CANCELS : FAKE_CLOSE_FORGETS;
		prog->closed = true;
		accepted(fi_close(&prog->eps[0]->fid));
		accepted(fi_close(&prog->eps[1]->fid));
		prog->rig->ep = NULL;
		/* Requests that nobody reports are told of in no order. */
		for (int i = 0; i < 2 * MAX_OPS; i++) {
			memset(prog->last_seen, -1, sizeof(prog->last_seen));
			read_cq(prog);
		}
	} else {
		drain(prog);
	}
	check_all(prog);
	if (!prog->closed)
		accepted(fi_close(&prog->eps[1]->fid));
	if (!prog->closed)
		prog->rig->ep = prog->eps[0];
	rig_close(prog->rig);
	free(prog);
}

Test(random, programs_keep_all_promises, .timeout = 3600)
{
	for (int number = 1; number <= PROGRAMS; number++)
		run(number);
	cr_expect_gt(succeeded, 5 * PROGRAMS);
	cr_expect_gt(failed, PROGRAMS);
	cr_expect_gt(refused_once, PROGRAMS);
	cr_expect_gt(waited, PROGRAMS / 10, "%d", waited);
}
