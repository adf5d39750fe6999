/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_mix.c -- everything at a time, in random order, reproducible by --seed
 *
 * The initiator keeps a shadow of what the region has to contain.  A read is
 * compared with the shadow as it was when the read was posted; a write that
 * falls on a read which is still outstanding therefore needs a fence.
 */
#include <stdlib.h>
#include <string.h>

#include "functional.h"

#define REGION (1 << 20)
#define LOCAL ((size_t) 32 << 20)
#define MAX_LEN 4096
#define WINDOW 400 /* operations outstanding */

struct read {
	struct op *op;
	unsigned char *buf;
	unsigned char *want;
	size_t offset;
	size_t len;
};

struct mix {
	struct fx *fx;
	struct link *link;
	struct remote *remote;
	uint64_t random;
	bool selective;
	bool empties; /* also writes of no bytes; a commit with a notice may end in one */
	bool fences;
	size_t inject_size;
	unsigned int iov_limit;
	struct op *ops[WINDOW]; /* that will complete */
	unsigned int nops;
	unsigned int nsilent; /* that won't */
	struct read reads[WINDOW];
	unsigned int nreads;
	size_t local_used;
	unsigned int messages; /* sent since the target was asked last */
	unsigned int notices;
};

/* next_random -- xorshift64* */
static uint64_t next_random(struct mix *mix, uint64_t below)
{
	mix->random ^= mix->random >> 12;
	mix->random ^= mix->random << 25;
	mix->random ^= mix->random >> 27;
	return (mix->random * 0x2545f4914f6cdd1dULL >> 16) % below;
}

static bool chance(struct mix *mix, unsigned int percent)
{
	return next_random(mix, 100) < percent;
}

static int check_read(struct mix *mix, struct read *read)
{
	int ret = await(mix->link, read->op);

	if (!ret)
		ret = expect(mix->fx, !memcmp(read->buf, read->want, read->len),
			     "a read of %zu bytes at %zu has got other data than were there",
			     read->len, read->offset);
	free(read->want);
	return ret;
}

static int drain_reads(struct mix *mix)
{
	int ret = 0;

	/* all of them, also after a failure: they hold memory */
	while (mix->nreads)
		ret |= check_read(mix, &mix->reads[--mix->nreads]);
	return ret;
}

/* What the target got must be what was sent since the last time: no more, no less */
static int check_log(struct mix *mix)
{
	static struct log_entry log[8192];
	unsigned int sent = mix->messages + mix->notices, notices = 0;
	int i, n = get_log(mix->link, log, ARRAY_SIZE(log), sent, 10000);

	if (n < 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (expect(mix->fx, !log[i].err, "the target has got an error: %d", log[i].err))
			return -1;
		notices += !!(log[i].flags & FI_REMOTE_CQ_DATA);
	}
	if (expect(mix->fx, notices == mix->notices, "%u notices of %u", notices, mix->notices) ||
	    expect(mix->fx, n - notices == mix->messages, "%u messages of %u", n - notices,
		   mix->messages))
		return -1;
	mix->messages = mix->notices = 0;
	return 0;
}

/*
 * drain -- wait for everything; then all local memory can be used anew.  The
 * commit behind the silent operations is what says that they are over.
 */
static int drain(struct mix *mix)
{
	unsigned int i;

	if (commit(mix->link, mix->remote, next_random(mix, REGION - 8), 8,
		   mix->fences ? FI_FENCE : 0) ||
	    drain_reads(mix))
		return -1;
	for (i = 0; i < mix->nops; i++) {
		if (await(mix->link, mix->ops[i]))
			return -1;
	}
	mix->nops = mix->nsilent = 0;
	mix->local_used = 0;
	return check_log(mix);
}

/* make_room -- for one more operation */
static int make_room(struct mix *mix, size_t len)
{
	mix->local_used += len;
	if (mix->nops + mix->nsilent >= WINDOW - 1 || mix->nreads >= WINDOW - 1 ||
	    mix->local_used > LOCAL - 2 * MAX_LEN)
		return drain(mix);
	return 0;
}

static void keep(struct mix *mix, struct op *op, bool completes)
{
	if (completes)
		mix->ops[mix->nops++] = op;
	else
		mix->nsilent++;
}

static bool falls_on_read(const struct mix *mix, size_t offset, size_t len)
{
	unsigned int i;

	for (i = 0; i < mix->nreads; i++) {
		if (offset < mix->reads[i].offset + mix->reads[i].len &&
		    mix->reads[i].offset < offset + len)
			return true;
	}
	return false;
}

static size_t random_len(struct mix *mix, size_t max)
{
	switch (next_random(mix, 4)) {
	case 0:
		return 1 + next_random(mix, max < 16 ? max : 16);
	case 1:
		return max < 64 ? max : 64;
	default:
		return 1 + next_random(mix, max);
	}
}

static int do_commit(struct mix *mix)
{
	struct write write = {.remote = mix->remote, .flags = FI_COMMIT_COMPLETE};
	struct op *op;

	if (chance(mix, 25) && mix->inject_size)
		write.flags |= FI_INJECT;
	write.len = random_len(mix, write.flags & FI_INJECT ? mix->inject_size : MAX_LEN);
	if (mix->empties && chance(mix, 5))
		write.len = 0;
	write.offset = next_random(mix, REGION - write.len + 1);
	if (chance(mix, 70))
		write.flags |= FI_COMPLETION;
	if (mix->empties && chance(mix, 10)) {
		write.flags |= FI_REMOTE_CQ_DATA;
		mix->notices++;
	}
	if (!(write.flags & FI_INJECT) && write.len > 16)
		write.iovs = 1 + next_random(mix, mix->iov_limit);
	if (mix->fences && (chance(mix, 20) || falls_on_read(mix, write.offset, write.len)))
		write.flags |= FI_FENCE;
	else if (falls_on_read(mix, write.offset, write.len) && drain_reads(mix))
		return -1;
	if (write_at(mix->link, &write, &op))
		return -1;
	keep(mix, op, !mix->selective || write.flags & FI_COMPLETION);
	return 0;
}

static int do_plain(struct mix *mix)
{
	enum plain kind = next_random(mix, PLAIN_KINDS);
	size_t max = plain_has_context(kind) ? MAX_LEN : mix->inject_size;
	size_t len, offset;
	struct op *op;

	if (!max)
		return 0;
	len = random_len(mix, max);
	offset = next_random(mix, REGION - len + 1);
	if (falls_on_read(mix, offset, len) && drain_reads(mix))
		return -1;
	if (plain_at(mix->link, kind, mix->remote, offset, len, &op))
		return -1;
	mix->notices += kind == PLAIN_WRITEDATA || kind == PLAIN_INJECTDATA;
	keep(mix, op, plain_has_context(kind) && !mix->selective);
	return 0;
}

static int do_read(struct mix *mix)
{
	struct read *read = &mix->reads[mix->nreads];
	size_t len = random_len(mix, MAX_LEN);
	size_t offset = next_random(mix, REGION - len + 1);

	read->len = len;
	read->offset = offset;
	read->buf = source(mix->link, len, 0, 0);
	read->want = malloc(len);
	if (!read->want)
		return failed(mix->fx, "no memory");
	memcpy(read->want, mix->remote->shadow + offset, len);
	mix->nreads++;
	return read_at(mix->link, mix->remote, offset, len, read->buf, &read->op);
}

static int do_send(struct mix *mix)
{
	struct op *op = op_new(mix->fx);
	void *buf = source(mix->link, 64, 0, 0);
	ssize_t ret;

	while ((ret = fi_send(mix->link->conn.ep, buf, 64, mix->link->local.desc, 0, op)) ==
	       -FI_EAGAIN) {
		if (await_room(mix->link))
			return -1;
	}
	if (ret)
		return failed_call(mix->fx, "fi_send", ret);
	mix->messages++;
	keep(mix, op, !mix->selective);
	return 0;
}

static int do_one(struct mix *mix)
{
	unsigned int kind = next_random(mix, 100);

	if (make_room(mix, MAX_LEN))
		return -1;
	if (kind < 40)
		return do_commit(mix);
	if (kind < 75)
		return do_plain(mix);
	if (kind < 92)
		return do_read(mix);
	return do_send(mix);
}

static int run_mix(struct mix *mix)
{
	unsigned long i;

	for (i = 0; i < mix->fx->opts->iterations; i++) {
		if (do_one(mix))
			return -1;
		if (chance(mix, 5) && reap(mix->link))
			return -1;
	}
	return drain(mix) || linger(mix->link, 50) || remote_same(mix->fx, mix->remote) ? -1 : 0;
}

static int mix(struct fx *fx, bool selective, bool empties)
{
	const struct fi_tx_attr *tx = fx->target->node.info->tx_attr;
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = selective, .cq_size = 4096},
		.local_size = LOCAL,
	};
	static struct mix state;
	int ret;

	state = (struct mix){
		.fx = fx,
		.random = fx->opts->seed * 2 + selective + 1,
		.selective = selective,
		.empties = empties,
		.fences = fx->caps & FI_FENCE,
		.inject_size = tx->inject_size < MAX_LEN ? tx->inject_size : MAX_LEN,
		.iov_limit = tx->iov_limit < 8 ? tx->iov_limit : 8,
	};
	state.link = fx_link(fx, NULL, &attr);
	state.remote = state.link ? fx_remote(fx, fx->target, REGION,
					      FI_REMOTE_READ | FI_REMOTE_WRITE, FI_RMA_PMEM)
				  : NULL;
	if (!state.remote)
		return -1;
	ret = run_mix(&state);
	while (state.nreads)
		free(state.reads[--state.nreads].want);
	return ret;
}

static int mix_all_complete(struct fx *fx)
{
	return mix(fx, false, true);
}

static int mix_selective(struct fx *fx)
{
	return mix(fx, true, true);
}

/* What Soft-RoCE survives when it sends requests again: fabtests/lab/README.md */
static int mix_no_empties(struct fx *fx)
{
	return mix(fx, true, false);
}

const struct test_case mix_cases[] = {
	{"mix", mix_all_complete},
	{"mix_selective", mix_selective},
	{"mix_no_empties", mix_no_empties},
	{NULL, NULL},
};
