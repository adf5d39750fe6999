/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_agent_waits.c -- the target's agent while its application waits, and when something it
 * needs goes away: its process, its connection, its memory
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

	if (!remote)
		return -1;
	for (i = 0; i < 60; i++) {
		/* one alone, then some that one event may stand for */
		for (k = 0; k < 1 + i % ARRAY_SIZE(ops); k++) {
			write.offset = (i * ARRAY_SIZE(ops) + k) * 64;
			if (write_at(link, &write, &ops[k]))
				return -1;
		}
		while (k--) {
			if (wait_on_fd(fx, link, ops[k]))
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

/* may_wait -- until fi_trywait says so */
static int may_wait(struct fx *fx, struct link *link)
{
	struct fid *fids[] = {&link->conn.txcq->fid};
	int ret;

	while ((ret = fi_trywait(link->target->node.fabric, fids, 1)) == -FI_EAGAIN) {
		if (reap(link))
			return -1;
		if (is_late(fx))
			return failed(fx, "fi_trywait finds something all the time");
	}
	return ret ? failed_call(fx, "fi_trywait", ret) : 0;
}

/* arrives -- the whole of it, without a call of this end's */
static int arrives(struct fx *fx, struct remote *remote)
{
	do {
		if (remote_fetch(fx, remote))
			return -1;
		if (is_late(fx))
			return failed(fx, "a write does not go on while its application waits");
	} while (memcmp(remote->shadow, remote->image, remote->len));
	return 0;
}

/*
 * Who was let wait for the descriptor, as many times before, need not do so: what it posts then,
 * and what does not fit between the processes at once, goes on.  The agent's thread sees to it.
 */
static int agent_wait_fd_elsewhere(struct fx *fx)
{
	static const size_t len = 16 << 20;
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true, .wait = FI_WAIT_FD},
		.local_size = 2 * len,
	};
	struct link *link = served_link(fx, &attr);
	struct remote *remote = link ? served_region(link, len) : NULL;
	struct write small = {.remote = remote, .len = 64, .flags = COMMIT};
	struct write large = {.remote = remote, .len = len, .flags = COMMIT};
	struct op *op;
	int i;

	if (!remote)
		return -1;
	for (i = 0; i < 100; i++) {
		if (write_at(link, &small, &op) || wait_on_fd(fx, link, op))
			return -1;
	}
	if (may_wait(fx, link) || write_at(link, &large, &op) || arrives(fx, remote))
		return -1;
	return await(link, op) || linger(link, 20) ? -1 : 0;
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

const struct test_case agent_waits_cases[] = {
	{"idle_target", idle_target},
	{"idle_processor_time", idle_processor_time},
	{"agent_in_sread", agent_in_sread},
	{"agent_sread", agent_sread},
	{"agent_wait_fd", agent_wait_fd},
	{"agent_wait_fd_elsewhere", agent_wait_fd_elsewhere},
	{"agent_cntr_wait", agent_cntr_wait},
	{"agent_killed", agent_killed},
	{"agent_closed_under", agent_closed_under},
	{"agent_shut_down", agent_shut_down},
	{"agent_region_closed", agent_region_closed},
	{NULL, NULL},
};
