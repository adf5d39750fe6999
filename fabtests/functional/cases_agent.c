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
	const struct pmv_attr attr = {
		.persist = persist,
		.pmem = true,
		.ddio = ddio,
		.readable = true,
		.writable = true,
	};

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

/* ---- targets that make no calls ---- */

static int write_and_commit(struct link *link, struct remote *remote, size_t offset, size_t len,
			    uint64_t flags)
{
	return plain_at(link, PLAIN_WRITE, remote, 32768 + offset, len, NULL) ||
			       commit(link, remote, offset, len, flags)
		       ? -1
		       : 0;
}

static int commits_to_idle(struct fx *fx, struct link *link, struct remote *remote)
{
	uint64_t fence = fx->caps & FI_FENCE;
	size_t i;

	for (i = 0; i < 30; i++) {
		if (write_and_commit(link, remote, i * 700, 1 + i * 20, i % 3 ? 0 : fence))
			return -1;
	}
	/* the agent has gone to sleep by then */
	pause_ms(2000);
	return write_and_commit(link, remote, 0, 100, 0) ||
			       write_and_commit(link, remote, 100, 100, fence)
		       ? -1
		       : 0;
}

int end_command(struct target_proc *target, struct control_msg *msg)
{
	struct control_msg on = {.command = CTL_ON};
	int ret = target_begin(target, &on, NULL);

	if (ret)
		return ret;
	ret = target_finish(target, msg, NULL, 0);
	return target_finish(target, &on, NULL, 0) ? -1 : ret;
}

/* The target's application sleeps: neither a stream of commits nor a late one needs it */
static int idle_target(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct control_msg msg = {.command = CTL_IDLE, .arg = {2000 * fx->opts->timeout}};
	int ret;

	if (!remote || target_begin(link->target, &msg, NULL))
		return -1;
	ret = commits_to_idle(fx, link, remote);
	if (end_command(link->target, &msg) || ret)
		return -1;
	return remote_same(fx, remote);
}

/* What an agent costs that has nothing to do */
static int idle_processor_time(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct control_msg msg = {.command = CTL_IDLE, .arg = {2000}};
	uint64_t most = 200000;

	if (!remote || commit(link, remote, 0, 100, 0))
		return -1;
	/* over verbs the agent has to look by itself, and the lab's processor is a slow one */
	if (node_is_passive(&link->target->node))
		most *= 5;
	if (target_call(link->target, &msg, NULL, 0))
		return failed(fx, "the target can't be idle");
	printf("# an idle target with a connection uses %.2f%% of a processor\n",
	       (double) msg.arg[0] / 20000);
	return expect(fx, msg.arg[0] < most, "an idle target has used %llu us in 2 seconds",
		      (unsigned long long) msg.arg[0]) ||
			       commit(link, remote, 200, 100, 0) || remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* An agent inside the application's calls: fi_cq_sread is one */
static int agent_in_sread(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=dmp", "FI_PMEMVERBS_DDIO=on",
						  "FI_PMEMVERBS_AGENT=progress", NULL};
	struct target_attr target_attr = {.environment = environment};
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.accept = ACCEPT_WAIT,
	};
	struct control_msg msg = {.command = CTL_SREAD}, on = {.command = CTL_ON};
	struct target_proc *target;
	struct remote *remote;
	struct link *link;
	int ret = 0, i;

	if (!is_pmemverbs(fx))
		return skipped(fx, "the agent is pmemverbs' own");
	target = fx_target(fx, &target_attr);
	link = target ? fx_link(fx, target, &attr) : NULL;
	remote = link ? served_region(link, 65536) : NULL;
	if (!remote)
		return -1;
	msg.arg[0] = link->id;
	if (target_begin(target, &msg, NULL))
		return -1;
	pause_ms(50);
	for (i = 0; i < 20 && !ret; i++)
		ret = write_and_commit(link, remote, i * 500, 200, 0);
	pause_ms(500);
	if (!ret)
		ret = write_and_commit(link, remote, 20000, 200, fx->caps & FI_FENCE);
	if (target_begin(target, &on, NULL))
		return -1;
	/* completions there, so that it looks for commands again */
	do {
		if (plain_at(link, PLAIN_WRITEDATA, remote, 40000, 8, NULL) || linger(link, 20))
			ret = -1;
	} while (!ret && !control_waits(target->control, 100) && !is_late(fx));
	if (target_finish(target, &msg, NULL, 0))
		return failed(fx, "fi_cq_sread at the target: %s", fi_strerror(-msg.status));
	if (target_finish(target, &on, NULL, 0))
		return -1;
	return ret || remote_same(fx, remote) ? -1 : 0;
}

/* ---- waiting for the acknowledgement ---- */

static struct link *waiting_link(struct fx *fx, enum fi_wait_obj wait)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true, .wait = wait},
	};

	return served_link(fx, &attr);
}

/* Ends a wait that would be one for ever, so that the other cases have their turn */
struct rescue {
	pthread_t thread;
	struct fid_cq *cq;
	atomic_bool over;
	atomic_bool needed;
};

static void *rescue_late(void *arg)
{
	struct rescue *rescue = arg;
	uint64_t start = now_ns();

	while (!rescue->over) {
		pause_ms(10);
		if (ms_since(start) < 15000)
			continue;
		rescue->needed = true;
		fi_cq_signal(rescue->cq);
	}
	return NULL;
}

static int wait_for_ever(struct fx *fx, struct link *link, struct remote *remote)
{
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct fi_cq_data_entry entry;
	struct op *op;
	ssize_t ret;
	int i;

	for (i = 0; i < 60; i++) {
		write.offset = i * 64;
		if (write_at(link, &write, &op))
			return -1;
		/* once in a while it is there before anybody waits */
		if (i % 10 == 9)
			pause_ms(20);
		do
			ret = fi_cq_sread(link->conn.txcq, &entry, 1, NULL, -1);
		while (ret == -FI_EINTR);
		if (ret != 1)
			return failed_call(fx, "fi_cq_sread", ret);
		if (expect(fx, entry.op_context == op, "a completion of another operation"))
			return -1;
	}
	return 0;
}

/* Nothing but the acknowledgement ends this wait */
static int agent_sread(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_UNSPEC);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct rescue rescue = {0};
	int ret;

	if (!remote)
		return -1;
	rescue.cq = link->conn.txcq;
	if (pthread_create(&rescue.thread, NULL, rescue_late, &rescue))
		return failed(fx, "no thread");
	ret = wait_for_ever(fx, link, remote);
	rescue.over = true;
	pthread_join(rescue.thread, NULL);
	if (expect(fx, !rescue.needed, "fi_cq_sread has waited on"))
		return -1;
	return ret || remote_same(fx, remote) ? -1 : 0;
}

static int agent_wait_fd(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_FD);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct op *ops[8];
	unsigned int i, k;
	int fd, ret;

	if (!remote)
		return -1;
	ret = fi_control(&link->conn.txcq->fid, FI_GETWAIT, &fd);
	if (ret)
		return failed_call(fx, "fi_control", ret);
	for (i = 0; i < 60; i++) {
		/* one alone, then some that one event may stand for */
		for (k = 0; k < 1 + i % ARRAY_SIZE(ops); k++) {
			write.offset = (i * ARRAY_SIZE(ops) + k) * 64;
			if (write_at(link, &write, &ops[k]))
				return -1;
		}
		while (k--) {
			if (wait_on_fd(fx, link, fd, ops[k]))
				return -1;
		}
	}
	return linger(link, 20) || remote_same(fx, remote) ? -1 : 0;
}

static int count_to(struct fx *fx, struct link *link, struct fid_cntr *cntr)
{
	struct remote *remote = served_region(link, 65536);
	struct write write = {.remote = remote, .len = 64, .flags = FI_COMMIT_COMPLETE};
	uint64_t start;
	int i, ret;

	if (!remote)
		return -1;
	for (i = 0; i < 60; i++) {
		write.offset = i * 64;
		if (write_at(link, &write, NULL))
			return -1;
		start = now_ns();
		ret = fi_cntr_wait(cntr, i + 1, 15000);
		if (ret)
			return failed_call(fx, "fi_cntr_wait", ret);
		if (expect(fx, ms_since(start) < 5000, "fi_cntr_wait has taken %lu ms",
			   ms_since(start)) ||
		    expect(fx, fi_cntr_read(cntr) == (uint64_t) i + 1, "the counter says %llu",
			   (unsigned long long) fi_cntr_read(cntr)))
			return -1;
	}
	return remote_same(fx, remote);
}

static int agent_cntr_wait(struct fx *fx)
{
	struct fi_cntr_attr cntr_attr = {
		.events = FI_CNTR_EVENTS_COMP,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct link_attr attr = {.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true}};
	struct link *link = served_link(fx, NULL);
	struct fid_cntr *cntr;
	int ret;

	if (!link)
		return -1;
	ret = fi_cntr_open(link->target->node.domain, &cntr_attr, &cntr, NULL);
	if (ret == -FI_ENOSYS)
		return skipped(fx, "no counters to wait for");
	if (ret)
		return failed_call(fx, "fi_cntr_open", ret);
	attr.conn.write_cntr = cntr;
	link = fx_link(fx, link->target, &attr);
	ret = link ? count_to(fx, link, cntr) : -1;
	if (link)
		link_close(link);
	close_fid(&cntr->fid, "the counter");
	return ret;
}

/* ---- losses ---- */

#define OUTSTANDING 40

/* post_some -- what is accepted of so many commits: every other one is fenced */
static unsigned int post_some(struct link *link, struct remote *remote, struct op **ops)
{
	struct write write = {.remote = remote, .len = 64};
	unsigned int n;

	for (n = 0; n < OUTSTANDING; n++) {
		write.offset = n * 100;
		write.flags = COMMIT | (n % 2 ? link->fx->caps & FI_FENCE : 0);
		if (post_write(link, &write, &ops[n]))
			break;
	}
	return n;
}

/* all_failed -- each has one error, and nothing more comes */
static int all_failed(struct fx *fx, struct link *link, struct op *const *ops, unsigned int n)
{
	unsigned int i;

	if (expect(fx, n, "no commit was accepted") || all_done(link, ops, n) || linger(link, 100))
		return -1;
	for (i = 0; i < n; i++) {
		if (expect(fx, ops[i]->errors, "commit %u of %u has succeeded without an agent", i,
			   n))
			return -1;
	}
	return 0;
}

/* post_to_stopped -- commits that no agent can have acknowledged */
static unsigned int post_to_stopped(struct link *link, struct remote *remote, struct op **ops)
{
	if (target_signal(link->target, SIGSTOP))
		return 0;
	return post_some(link, remote, ops);
}

static int agent_killed(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct op *ops[OUTSTANDING];
	unsigned int n;

	if (!remote || commit(link, remote, 60000, 100, 0))
		return -1;
	n = post_to_stopped(link, remote, ops);
	return target_signal(link->target, SIGKILL) || all_failed(fx, link, ops, n) ? -1 : 0;
}

/* The endpoint goes while the commits are with an agent that does not answer */
static int agent_closed_under(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct op *ops[OUTSTANDING];
	unsigned int n;
	int ret;

	if (!remote)
		return -1;
	n = post_to_stopped(link, remote, ops);
	ret = fi_close(&link->conn.ep->fid);
	link->conn.ep = NULL;
	if (ret)
		return failed_call(fx, "fi_close of the endpoint", ret);
	if (all_failed(fx, link, ops, n) || target_signal(link->target, SIGCONT))
		return -1;
	link = fx_link(fx, link->target, NULL);
	remote = link ? served_region(link, 4096) : NULL;
	return !remote || commit(link, remote, 8, 100, 0) || remote_same(fx, remote) ? -1 : 0;
}

static int shut_down_there(struct link *link)
{
	struct control_msg msg = {.command = CTL_CLOSE, .arg = {link->id, 1}};
	int ret = target_call(link->target, &msg, NULL, 0);

	return ret ? failed_call(link->fx, "fi_shutdown at the target", ret) : 0;
}

/* Each commit before and after the end of the connection has ended once */
static int agent_shut_down(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct op *before[OUTSTANDING], *after[OUTSTANDING];
	unsigned int n, m;

	if (!remote)
		return -1;
	n = post_some(link, remote, before);
	if (shut_down_there(link))
		return -1;
	m = post_some(link, remote, after);
	return all_done(link, before, n) || all_done(link, after, m) || linger(link, 100) ? -1 : 0;
}

static int deregister(struct fx *fx, struct remote *remote)
{
	struct control_msg msg = {.command = CTL_DEREG, .arg = {remote->id}};
	int ret = target_call(remote->target, &msg, NULL, 0);

	return ret ? failed_call(fx, "fi_close of the region", ret) : 0;
}

/*
 * The region is closed after the data has come and before the commit: the agent
 * finds no such memory.  The fence makes the commit speak of it; its own data is
 * not stored, and the connection is as good as before.
 */
static int agent_region_closed(struct fx *fx)
{
	struct link *link = served_link(fx, NULL);
	struct remote *gone = link ? served_region(link, 4096) : NULL;
	struct remote *good = gone ? served_region(link, 65536) : NULL;
	struct write write = {.remote = good, .flags = COMMIT | FI_FENCE};
	static const size_t sizes[] = {100, 5000};
	struct op *op;
	ssize_t ret;
	size_t i;

	if (!good)
		return -1;
	if (!(fx->caps & FI_FENCE))
		return skipped(fx, "no FI_FENCE");
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		gone = served_region(link, 4096);
		if (!gone || plain_at(link, PLAIN_WRITE, gone, 0, 500, NULL) ||
		    /* another commit: when it is done, the plain write is there */
		    commit(link, good, 0, 8, 0) || deregister(fx, gone))
			return -1;
		write.len = sizes[i];
		write.offset = 1000;
		ret = post_write(link, &write, &op);
		if (ret)
			return failed_call(fx, "fi_writemsg", ret);
		if (await_error(link, op) ||
		    expect(fx, op->err == FI_EACCES, "the error is %s", fi_strerror(op->err)) ||
		    linger(link, 50) || remote_same(fx, good) ||
		    commit(link, good, 20000, 100, 0) || commit(link, good, 21000, 100, FI_FENCE) ||
		    remote_same(fx, good))
			return -1;
	}
	return 0;
}

const struct test_case agent_cases[] = {
	{"many_scattered", many_scattered},
	{"many_overlapping", many_overlapping},
	{"fenced_pairs", fenced_pairs},
	{"mixed_methods", mixed_methods},
	{"agent_notices", agent_notices},
	{"agent_window", agent_window},
	{"agent_inject", agent_inject},
	{"idle_target", idle_target},
	{"idle_processor_time", idle_processor_time},
	{"agent_in_sread", agent_in_sread},
	{"agent_sread", agent_sread},
	{"agent_wait_fd", agent_wait_fd},
	{"agent_cntr_wait", agent_cntr_wait},
	{"agent_killed", agent_killed},
	{"agent_closed_under", agent_closed_under},
	{"agent_shut_down", agent_shut_down},
	{"agent_region_closed", agent_region_closed},
	{NULL, NULL},
};
