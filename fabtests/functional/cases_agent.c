/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_agent.c -- commits that the target's agent makes durable
 *
 * The cases have targets of their own, where that is the only way, so they show
 * the same whatever the run declares.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"
#include "memory/key.h"
#include "../common/stats.h"

/* random_below -- the same numbers in every run with the same seed */
static size_t random_below(uint64_t *state, size_t limit)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*state >> 33) % limit;
}

/* ---- one commit for many writes ---- */

/* plain_kind -- another call each time, of those that take the data */
static enum plain plain_kind(struct link *link, unsigned int i, size_t len)
{
	static const enum plain kinds[] = {PLAIN_WRITE, PLAIN_WRITEMSG, PLAIN_WRITEV, PLAIN_INJECT};
	enum plain kind = kinds[i % ARRAY_SIZE(kinds)];

	if (kind == PLAIN_INJECT && len > link->target->node.info->tx_attr->inject_size)
		return PLAIN_WRITE;
	return kind;
}

/* commit_all -- with data or, now and then, none of its own */
static int commit_all(struct link *link, struct remote *remote, unsigned int round)
{
	return commit(link, remote, round * 8, round % 3 == 1 ? 0 : 8,
		      round % 3 == 2 && link->fx->caps & FI_FENCE ? FI_FENCE : 0);
}

/* Ranges that can't be joined: fewer and more than an agent is told of in one message */
static int many_scattered(struct fx *fx)
{
	static const unsigned int counts[] = {10, 20, 21, 65, 300, 1500, 3000};
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 4 << 20) : NULL;
	unsigned int i, round;
	size_t len;

	if (!remote)
		return -1;
	for (round = 0; round < ARRAY_SIZE(counts); round++) {
		for (i = 0; i < counts[round]; i++) {
			len = 1 + (i * 7 + round) % 200;
			if (plain_at(link, plain_kind(link, i, len), remote, 4096 + i * 1024 + i,
				     len, NULL))
				return -1;
		}
		if (commit_all(link, remote, round) || remote_same(fx, remote))
			return -1;
	}
	return linger(link, 20);
}

/* Ranges that touch, overlap and contain each other */
static int many_overlapping(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	uint64_t state = fx->opts->seed;
	unsigned int i, round;
	size_t len;

	if (!remote)
		return -1;
	for (round = 0; round < 6; round++) {
		for (i = 0; i < 400; i++) {
			len = 1 + random_below(&state, i % 10 ? 300 : 8000);
			if (plain_at(link, plain_kind(link, i, len), remote,
				     random_below(&state, 65536 - len), len, NULL))
				return -1;
		}
		if (commit_all(link, remote, round) || remote_same(fx, remote))
			return -1;
	}
	return linger(link, 20);
}

/* ---- order ---- */

#define PAIRS 48

static int post_pair(struct link *link, struct remote *remote, const struct pairs *pairs,
		     uint64_t n, struct op **op)
{
	size_t at = n * pairs->stride;
	struct write second = {
		.remote = remote,
		.offset = at + pairs->first,
		.len = pairs->second,
		.flags = COMMIT | FI_FENCE,
	};

	/* the first one is now a plain write and now a commit that nobody awaits */
	remote_expect(remote, at, pairs->first, pairs->seed + n);
	return write_from(link, remote, at, source(link, pairs->first, pairs->seed + n, at),
			  pairs->first, n % 2 ? FI_COMMIT_COMPLETE : 0, 0, NULL) ||
			       write_at(link, &second, op)
		       ? -1
		       : 0;
}

static int post_all_pairs(struct link *link, struct remote *remote, const struct pairs *pairs)
{
	struct op *ops[PAIRS];
	unsigned int n;

	for (n = 0; n < PAIRS; n++) {
		if (post_pair(link, remote, pairs, n, &ops[n]))
			return -1;
	}
	for (n = 0; n < PAIRS; n++) {
		if (await(link, ops[n]))
			return -1;
	}
	return 0;
}

static int pairs_in_order(struct fx *fx, struct link *link, size_t first, size_t second)
{
	struct remote *remote = served_region(link, PAIRS * (first + second));
	struct control_msg msg = {.command = CTL_PAIRS, .len = sizeof(struct pairs)};
	struct pairs pairs;
	int ret;

	if (!remote)
		return -1;
	pairs = (struct pairs){
		.region = remote->id,
		.count = PAIRS,
		.stride = first + second,
		.first = first,
		.second = second,
		.seed = atomic_fetch_add(&fx->seed, PAIRS),
		.old = remote->seed,
	};
	if (target_begin(link->target, &msg, &pairs))
		return -1;
	ret = post_all_pairs(link, remote, &pairs);
	if (target_finish(link->target, &msg, NULL, 0))
		return failed(fx,
			      "the target has seen a fenced write of %zu bytes before all of the "
			      "%zu in front of it",
			      second, first);
	if (ret)
		return -1;
	return expect(fx, msg.arg[0] == PAIRS, "the target has seen %llu pairs of %d",
		      (unsigned long long) msg.arg[0], PAIRS) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* A fenced write is never seen before what it is fenced behind, stored by whom it may be */
static int fenced_pairs(struct fx *fx)
{
	static const size_t sizes[] = {8, 300, 5000, 40000};
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.local_size = 16 << 20,
	};
	struct link *link;
	size_t i, k;

	if (!(fx->caps & FI_FENCE))
		return skipped(fx, "no FI_FENCE");
	link = served_link(fx, &attr);
	if (!link)
		return -1;
	for (i = 0; i < 3; i++) {
		for (k = 0; k < 3; k++) {
			if (pairs_in_order(fx, link, sizes[i], sizes[k]))
				return -1;
		}
	}
	return pairs_in_order(fx, link, sizes[3], sizes[0]) || linger(link, 20) ? -1 : 0;
}

/* pretend -- the key of a region as if it were of other memory */
static uint64_t pretend(uint64_t key, enum pmv_persist persist, bool ddio)
{
	struct pmv_attr attr = {0};

	pmv_key_unpack(key, &attr);
	attr.persist = persist;
	attr.pmem = attr.readable = attr.writable = true;
	attr.ddio = ddio;
	return pmv_key_pack((uint32_t) pmv_key_core(key), &attr);
}

#define KINDS 5

struct mixture {
	struct link *link;
	struct remote *remotes[KINDS];
	struct op *last;
	unsigned int notices;
	uint64_t state;
};

/*
 * open_mixture -- a target declares the same of all its memory; it is keys that
 * decide how commits are made, so regions get different ones here
 */
static int open_mixture(struct fx *fx, struct mixture *mixture)
{
	static const struct {
		enum pmv_persist persist;
		bool ddio;
	} kinds[KINDS] = {
		{PMV_DMP, true}, {PMV_MHP, true}, {PMV_PAGE, true}, {PMV_DMP, false}, {PMV_NONE, 0},
	};
	int i;

	*mixture = (struct mixture){.state = fx->opts->seed, .link = served_link(fx, NULL)};
	for (i = 0; i < KINDS; i++) {
		mixture->remotes[i] = mixture->link ? served_region(mixture->link, 65536) : NULL;
		if (!mixture->remotes[i])
			return -1;
		mixture->remotes[i]->key =
			pretend(mixture->remotes[i]->key, kinds[i].persist, kinds[i].ddio);
	}
	return 0;
}

/* mix_step -- one write of any kind to any region */
static int mix_step(struct fx *fx, struct mixture *mixture)
{
	uint64_t *state = &mixture->state;
	struct write write = {.remote = mixture->remotes[random_below(state, KINDS)]};

	write.len = 1 + random_below(state, random_below(state, 3) ? 300 : 6000);
	write.offset = random_below(state, 65536 - write.len);
	if (!random_below(state, 3))
		return plain_at(mixture->link, PLAIN_WRITE, write.remote, write.offset, write.len,
				NULL);
	write.flags = COMMIT;
	if (fx->caps & FI_FENCE && !random_below(state, 3))
		write.flags |= FI_FENCE;
	/* fewer notices than the target has receives */
	if (mixture->notices < 100 && !random_below(state, 8)) {
		write.flags |= FI_REMOTE_CQ_DATA;
		write.data = mixture->notices++;
	}
	return write_at(mixture->link, &write, &mixture->last);
}

static int all_same(struct fx *fx, struct mixture *mixture)
{
	int i;

	for (i = 0; i < KINDS; i++) {
		if (commit(mixture->link, mixture->remotes[i], 0, 16, 0) ||
		    remote_same(fx, mixture->remotes[i]))
			return -1;
	}
	return 0;
}

/* Commits by the agent, by READs and by both on one connection, fenced and not */
static int mixed_methods(struct fx *fx)
{
	static struct log_entry log[8192];
	struct mixture mixture;
	int round, i, n;

	if (open_mixture(fx, &mixture))
		return -1;
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 40; i++) {
			if (mix_step(fx, &mixture))
				return -1;
		}
		if (all_same(fx, &mixture))
			return -1;
	}
	if (linger(mixture.link, 50))
		return -1;
	n = get_log(mixture.link, log, ARRAY_SIZE(log), mixture.notices, 5000);
	return n < 0 || expect(fx, (unsigned int) n == mixture.notices,
			       "the target got %d notices of %u", n, mixture.notices)
		       ? -1
		       : 0;
}

/* ---- notices ---- */

#define NOTICES 100

static int post_notice(struct link *link, struct remote *remote, size_t stride, uint64_t seed,
		       unsigned int i, struct op *op)
{
	uint64_t flags = COMMIT | FI_REMOTE_CQ_DATA;
	size_t half = stride / 2, at = i * stride;

	if (link->fx->caps & FI_FENCE && i % 3 == 0)
		flags |= FI_FENCE;
	remote_expect(remote, at, stride, seed + i);
	return write_from(link, remote, at, source(link, half, seed + i, at), half, 0, 0, NULL) ||
			       write_from(link, remote, at + half,
					  source(link, half, seed + i, at + half), half, flags, i,
					  op)
		       ? -1
		       : 0;
}

static int right_notices(struct fx *fx, struct link *link)
{
	static struct log_entry log[8192];
	int i, n = get_log(link, log, ARRAY_SIZE(log), NOTICES, 5000);

	if (n < 0 || expect(fx, n == NOTICES, "the target got %d notices of %d", n, NOTICES))
		return -1;
	for (i = 0; i < n; i++) {
		if (expect(fx, !log[i].err && log[i].flags & FI_REMOTE_CQ_DATA,
			   "notice %d at the target: error %d", i, log[i].err) ||
		    expect(fx, log[i].data == (uint64_t) i, "notice %d has the value %llu", i,
			   (unsigned long long) log[i].data) ||
		    expect(fx, log[i].visible, "notice %d came before its data", i))
			return -1;
	}
	n = get_log(link, log, ARRAY_SIZE(log), 1, 100);
	return expect(fx, n == 0, "the target got a notice too many");
}

static int notices_of(struct fx *fx, struct link *link, size_t stride)
{
	struct remote *remote = served_region(link, NOTICES * stride);
	uint64_t seed = atomic_fetch_add(&fx->seed, NOTICES);
	struct control_msg msg = {.command = CTL_ARM, .len = sizeof(struct expectation)};
	struct expectation expectation;
	struct op *ops[NOTICES];
	unsigned int i;

	if (!remote)
		return -1;
	expectation = (struct expectation){remote->id, stride, stride, seed};
	if (target_call(link->target, &msg, &expectation, sizeof(expectation)))
		return failed(fx, "the target can't be armed");
	for (i = 0; i < NOTICES; i++) {
		ops[i] = op_new(fx);
		if (post_notice(link, remote, stride, seed, i, ops[i]))
			return -1;
	}
	for (i = 0; i < NOTICES; i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return right_notices(fx, link) || remote_same(fx, remote) ? -1 : 0;
}

/* The target hears of each commit after its data, in order, once */
static int agent_notices(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);

	if (!link)
		return -1;
	return notices_of(fx, link, 256) || notices_of(fx, link, 600) ||
			       notices_of(fx, link, 8192) || linger(link, 20)
		       ? -1
		       : 0;
}

/* ---- many, and injected ones ---- */

/* Never more outstanding than the endpoint's queue is said to hold */
static int agent_window(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 1 << 20) : NULL;
	struct write write = {.remote = remote, .flags = COMMIT};
	struct op *ops[1000] = {NULL};
	unsigned int i, window;

	if (!remote)
		return -1;
	window = (unsigned int) link->target->node.info->tx_attr->size;
	if (expect(fx, window, "a transmit queue without room"))
		return -1;
	if (window > 200)
		window = 200;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.offset = i * 1024;
		write.len = i % 50 ? 100 : 1000;
		if ((i >= window && await(link, ops[i - window])) ||
		    write_at(link, &write, &ops[i]))
			return -1;
	}
	for (i = ARRAY_SIZE(ops) - window; i < ARRAY_SIZE(ops); i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return linger(link, 50) || remote_same(fx, remote) ? -1 : 0;
}

/* The buffer is the application's again, even if the data has to wait for the agent */
static int agent_inject(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 1 << 20) : NULL;
	struct write write = {.remote = remote};
	struct op *ops[300];
	unsigned int i;
	size_t most;

	if (!remote)
		return -1;
	most = link->target->node.info->tx_attr->inject_size;
	if (!most)
		return skipped(fx, "inject_size is 0");
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.offset = i * 3000;
		write.len = i % 2 && most < 2000 ? most : 1 + i % (most < 400 ? most : 400);
		write.flags = COMMIT | FI_INJECT;
		if (fx->caps & FI_FENCE && i % 3 == 0)
			write.flags |= FI_FENCE;
		if (plain_at(link, PLAIN_WRITE, remote, 900000 + i * 100, 90, NULL) ||
		    write_at(link, &write, &ops[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return linger(link, 20) || remote_same(fx, remote) ? -1 : 0;
}

const struct test_case agent_cases[] = {
	{"many_scattered", many_scattered}, {"many_overlapping", many_overlapping},
	{"fenced_pairs", fenced_pairs},     {"mixed_methods", mixed_methods},
	{"agent_notices", agent_notices},   {"agent_window", agent_window},
	{"agent_inject", agent_inject},     {NULL, NULL},
};
