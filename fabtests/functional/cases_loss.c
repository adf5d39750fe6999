/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_loss.c -- targets that stop, die or hang up, and endpoints and regions
 * that are closed with commits outstanding
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <sys/uio.h>

#include "functional.h"
#include "../common/stats.h"

#define STREAM 4096

/* commit_to_stopped -- a commit on its way to a target process that is stopped */
static int commit_to_stopped(struct target_proc *target, struct link *link, struct remote *remote,
			     bool *completed)
{
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct op *op;

	if (target_signal(target, SIGSTOP))
		return -1;
	if (write_at(link, &write, &op) || linger(link, 300))
		return -1;
	*completed = op_done(op);
	if (target_signal(target, SIGCONT))
		return -1;
	return await(link, op);
}

/*
 * Over tcp the target's process places the data, and an agent is a part of it:
 * nothing can be durable while it is stopped.  RDMA hardware does without it: a one-sided commit
 * completes.
 */
static int stopped_target(struct fx *fx)
{
	struct target_proc *target = fx_target(fx, NULL);
	struct link *link = target ? fx_link(fx, target, NULL) : NULL;
	struct remote *remote =
		link ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;
	bool completed;

	if (!remote)
		return -1;
	if (commit(link, remote, 0, 8, 0) || commit_to_stopped(target, link, remote, &completed))
		return -1;
	if (node_is_passive(&target->node) && !by_agent(link, remote))
		return expect(fx, completed, "a one-sided commit has waited for the target") ||
				       remote_same(fx, remote)
			       ? -1
			       : 0;
	return expect(fx, !completed, "a commit has completed though the target was stopped") ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* The same for a commit that is one by default */
static int stopped_target_op_flags(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA},
		.op_flags = FI_COMMIT_COMPLETE,
	};
	struct target_proc *target = fx_target(fx, NULL);
	struct link *link = target ? fx_link(fx, target, &attr) : NULL;
	struct remote *remote =
		link ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;
	bool early;
	struct op *op;

	if (!remote)
		return -1;
	if (node_is_passive(&target->node))
		return skipped(fx, "shows something over tcp only");
	if (target_signal(target, SIGSTOP))
		return -1;
	if (plain_at(link, PLAIN_WRITE, remote, 0, 64, &op) || linger(link, 300))
		return -1;
	early = op_done(op);
	if (target_signal(target, SIGCONT) || await(link, op))
		return -1;
	return expect(fx, !early, "fi_write has completed though the target was stopped") ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

struct stream {
	struct link *link;
	struct remote *remote;
	struct op *ops[STREAM];
	int n;
};

static int open_stream(struct fx *fx, struct stream *stream)
{
	struct target_proc *target = fx_target(fx, NULL);

	stream->n = 0;
	stream->link = target ? fx_link(fx, target, NULL) : NULL;
	stream->remote = stream->link
				 ? fx_remote(fx, target, STREAM * 64, FI_REMOTE_WRITE, FI_RMA_PMEM)
				 : NULL;
	return stream->remote ? 0 : -1;
}

/* push -- post what is accepted, up to a number; false when the connection refuses more */
static bool push(struct stream *stream, int upto)
{
	struct write write = {.remote = stream->remote, .len = 64, .flags = COMMIT};
	ssize_t ret;

	while (stream->n < upto && stream->n < STREAM) {
		write.offset = stream->n * 64;
		ret = post_write(stream->link, &write, &stream->ops[stream->n]);
		if (ret)
			return ret == -FI_EAGAIN;
		stream->n++;
	}
	return stream->n < STREAM;
}

static bool any_error(const struct stream *stream)
{
	int i;

	for (i = 0; i < stream->n; i++) {
		if (stream->ops[i]->errors)
			return true;
	}
	return false;
}

/* push_on -- keep some commits outstanding for a while, or until the first error */
static int push_on(struct stream *stream, unsigned int ms)
{
	uint64_t end = now_ns() + ms * 1000000ULL;
	int done = 0;

	while (now_ns() < end) {
		if (!push(stream, done + 64))
			return 0;
		if (reap(stream->link))
			return -1;
		while (done < stream->n && op_done(stream->ops[done]))
			done++;
		if (any_error(stream))
			return 0;
	}
	return 0;
}

/* all_ended -- each accepted commit has exactly one completion or error, in bounded time */
static int all_ended(struct stream *stream)
{
	return all_done(stream->link, stream->ops, stream->n) || linger(stream->link, 100) ? -1 : 0;
}

/*
 * The target stops amid a stream, for ten times as long as an endpoint waits before it asks
 * again, and goes on: nothing is lost, and nothing fails.
 */
static int stopped_in_stream(struct fx *fx)
{
	static struct stream stream;
	int i;

	if (open_stream(fx, &stream) || push_on(&stream, 20))
		return -1;
	push(&stream, stream.n + 32);
	if (target_signal(stream.link->target, SIGSTOP))
		return -1;
	push(&stream, stream.n + 32);
	for (i = 0; i < 20; i++) {
		pause_ms(100);
		if (reap(stream.link))
			return -1;
	}
	if (target_signal(stream.link->target, SIGCONT) || all_ended(&stream))
		return -1;
	for (i = 0; i < stream.n; i++) {
		if (expect(fx, !stream.ops[i]->errors,
			   "commit %d of %d has failed, but the target only stopped for a while", i,
			   stream.n))
			return -1;
	}
	return successes_landed(fx, stream.remote, stream.ops, stream.n) ||
			       commit(stream.link, stream.remote, 0, 64, 0)
		       ? -1
		       : 0;
}

/*
 * survivors -- a new target on the same file sees what the old one's memory was:
 * its first region lies in the same place
 */
static int survivors(struct fx *fx, struct stream *stream)
{
	struct target_proc *target;
	struct remote *remote;

	if (!stream->link->target->has_file)
		return 0;
	target = fx_target(fx, NULL);
	if (!target || !fx_link(fx, target, NULL))
		return -1;
	remote = &fx->remotes[fx->nremotes++];
	if (remote_try(target, remote, STREAM * 64, FI_REMOTE_WRITE, FI_RMA_PMEM, 0, 0))
		return failed(fx, "the memory can't be registered again");
	return successes_landed(fx, remote, stream->ops, stream->n);
}

static int killed_target(struct fx *fx)
{
	static struct stream stream;

	if (open_stream(fx, &stream) || push_on(&stream, 20))
		return -1;
	push(&stream, stream.n + 64);
	if (target_signal(stream.link->target, SIGKILL) || push_on(&stream, 100))
		return -1;
	if (all_ended(&stream))
		return -1;
	return survivors(fx, &stream);
}

/* Commits that are posted to a target known to be dead */
static int killed_target_idle(struct fx *fx)
{
	static struct stream stream;
	int i;

	if (open_stream(fx, &stream) || target_signal(stream.link->target, SIGKILL))
		return -1;
	pause_ms(200);
	push(&stream, 16);
	if (all_ended(&stream))
		return -1;
	for (i = 0; i < stream.n; i++) {
		if (expect(fx, stream.ops[i]->errors, "a commit to a dead target has succeeded"))
			return -1;
	}
	return 0;
}

/* close_endpoint -- what an application does that has read FI_SHUTDOWN */
static int close_endpoint(struct link *link)
{
	int ret = fi_close(&link->conn.ep->fid);

	link->conn.ep = NULL;
	return ret ? failed_call(link->fx, "fi_close of the endpoint", ret) : 0;
}

static int killed_target_then_close(struct fx *fx)
{
	static struct stream stream;

	if (open_stream(fx, &stream) || push_on(&stream, 20))
		return -1;
	push(&stream, stream.n + 64);
	if (target_signal(stream.link->target, SIGKILL))
		return -1;
	push(&stream, stream.n + 64);
	return linger(stream.link, 500) || close_endpoint(stream.link) || all_ended(&stream) ||
			       survivors(fx, &stream)
		       ? -1
		       : 0;
}

static int hang_up(struct link *link)
{
	struct control_msg msg = {.command = CTL_CLOSE, .arg = {link->id}};
	int ret = target_call(link->target, &msg, NULL, 0);

	return ret ? failed_call(link->fx, "closing at the target", ret) : 0;
}

/* The target closes the connection amid a stream */
static int target_hangs_up(struct fx *fx)
{
	static struct stream stream;

	if (open_stream(fx, &stream) || push_on(&stream, 20))
		return -1;
	push(&stream, stream.n + 64);
	return hang_up(stream.link) || push_on(&stream, 100) || all_ended(&stream) ||
			       successes_landed(fx, stream.remote, stream.ops, stream.n)
		       ? -1
		       : 0;
}

/* We shut the connection down amid a stream */
static int own_shutdown(struct fx *fx)
{
	static struct stream stream;
	ssize_t ret;

	if (open_stream(fx, &stream) || push_on(&stream, 20))
		return -1;
	push(&stream, stream.n + 64);
	ret = fi_shutdown(stream.link->conn.ep, 0);
	if (ret)
		return failed_call(fx, "fi_shutdown", ret);
	return all_ended(&stream) || successes_landed(fx, stream.remote, stream.ops, stream.n) ? -1
											       : 0;
}

/* reconnect -- after an end, a new endpoint in the same domain works */
static int reconnect(struct fx *fx, struct target_proc *target)
{
	struct link *link = fx_link(fx, target, NULL);
	struct remote *remote =
		link ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;

	if (!remote)
		return -1;
	return commit(link, remote, 8, 100, 0) || remote_same(fx, remote) ? -1 : 0;
}

/* The endpoint is closed under its commits, the queue read afterwards: each has ended once */
static int close_then_read(struct fx *fx)
{
	static struct stream stream;
	int i, round;

	for (round = 0; round < 3; round++) {
		if (open_stream(fx, &stream))
			return -1;
		push(&stream, 100);
		if (close_endpoint(stream.link) || linger(stream.link, 50))
			return -1;
		for (i = 0; i < stream.n; i++) {
			if (expect(fx, op_done(stream.ops[i]), "commit %d of %d has not ended", i,
				   stream.n))
				return -1;
		}
		if (successes_landed(fx, stream.remote, stream.ops, stream.n) ||
		    reconnect(fx, stream.link->target))
			return -1;
	}
	return 0;
}

/* Endpoint and queue are closed under the commits: nothing breaks */
static int close_unread(struct fx *fx)
{
	static struct stream stream;
	struct target_proc *target;

	if (open_stream(fx, &stream))
		return -1;
	target = stream.link->target;
	push(&stream, 100);
	link_close(stream.link);
	return reconnect(fx, target);
}

#define AMID 24
#define LARGE 65536

/* A region that is closed in a stream of commits to it */
struct withdrawal {
	struct link *link;
	struct remote *remote;
	struct op *ops[AMID];
	unsigned int n;
	unsigned char *seen; /* when fi_close had returned */
};

/* may_peek -- what is at a region's place, whether it is there or not; if that can be read */
static bool may_peek(const struct remote *remote, unsigned char *bytes)
{
	struct iovec here = {bytes, remote->len};
	struct iovec there = {(void *) (uintptr_t) remote->addr, remote->len};

	return process_vm_readv(remote->target->pid, &here, 1, &there, 1, 0) ==
	       (ssize_t) remote->len;
}

static int peek(struct fx *fx, const struct remote *remote, unsigned char *bytes)
{
	return may_peek(remote, bytes) ? 0 : failed(fx, "the target's memory can't be read");
}

/* withdraw -- after some of the commits, while the others go on until they are refused */
static int withdraw(struct fx *fx, struct withdrawal *w, unsigned int some)
{
	struct write write = {.remote = w->remote, .len = LARGE, .flags = COMMIT};
	struct control_msg msg = {.command = CTL_DEREG, .arg = {w->remote->id}};
	ssize_t ret = 0;

	for (w->n = 0; w->n < AMID && !ret; w->n += !ret) {
		if (w->n == some && target_begin(w->remote->target, &msg, NULL))
			return -1;
		write.offset = (size_t) w->n * LARGE;
		while ((ret = post_write(w->link, &write, &w->ops[w->n])) == -FI_EAGAIN) {
			if (await_room(w->link))
				return -1;
		}
	}
	if (w->n < some)
		return failed_call(fx, "fi_writemsg", ret);
	return target_finish(w->remote->target, &msg, NULL, 0) ? failed(fx, "fi_close fails") : 0;
}

/* judge -- all have ended, and since the region was closed nothing has been written there */
static int judge(struct fx *fx, const struct withdrawal *w)
{
	struct remote *remote = w->remote;

	if (peek(fx, remote, w->seen) || all_done(w->link, w->ops, w->n) || linger(w->link, 20) ||
	    peek(fx, remote, remote->image))
		return -1;
	for (unsigned int i = 0; i < w->n; i++) {
		const struct op *op = w->ops[i];

		if (op->completions && pattern_check(remote->image + op->offset, op->len, op->seed,
						     op->offset) != op->len)
			return failed(fx, "a commit has succeeded whose data are not there");
		if (expect(fx,
			   !op->errors || op->err == FI_EIO || op->err == FI_EACCES ||
				   op->err == FI_ECANCELED,
			   "the error is %s", fi_strerror(op->err)))
			return -1;
	}
	return expect(fx, !memcmp(w->seen, remote->image, remote->len),
		      "the memory of a closed region has changed");
}

/* Also where libfabric's cache keeps regions; another connection to another region goes on */
static int region_closed_amid(struct fx *fx)
{
	static const char *const cache[] = {"FI_MR_CACHE_MAX_COUNT=1024", NULL};
	struct target_proc *target = fx_target(fx, &(struct target_attr){.environment = cache});
	struct link *other = target ? fx_link(fx, target, NULL) : NULL;
	unsigned char bytes[4096];
	struct remote *good =
		other ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;
	int ret = good ? 0 : -1;

	if (!ret && !node_is_passive(&target->node))
		return skipped(fx, "tcp moves the data of what has begun when they come");
	if (!ret && !may_peek(good, bytes))
		return skipped(fx, "the target's memory can't be looked at from here");
	for (unsigned int some = 1; some < AMID / 2 && !ret; some += 3) {
		struct withdrawal w = {.link = fx_link(fx, target, NULL)};

		w.remote = w.link ? fx_remote(fx, target, (size_t) AMID * LARGE, FI_REMOTE_WRITE,
					      FI_RMA_PMEM)
				  : NULL;
		w.seen = w.remote ? malloc(w.remote->len) : NULL;
		ret = !w.seen || withdraw(fx, &w, some) || judge(fx, &w) ||
				      commit(other, good, (size_t) some * 64, 64, 0)
			      ? -1
			      : 0;
		free(w.seen);
	}
	return ret || remote_same(fx, good) ? -1 : 0;
}

/* Open, use, close, again and again */
static int many_connections(struct fx *fx)
{
	struct remote *remote;
	struct link *link;
	int i;

	for (i = 0; i < 20; i++) {
		link = fx_link(fx, NULL, NULL);
		if (!link)
			return -1;
		remote = i ? &fx->remotes[0] : pmem_region(fx, 4096);
		if (!remote || commit(link, remote, i * 100, 100, 0) || remote_same(fx, remote) ||
		    hang_up(link))
			return -1;
		link_close(link);
		fx->nlinks--;
	}
	return 0;
}

const struct test_case loss_cases[] = {
	{"stopped_target", stopped_target},
	{"stopped_target_op_flags", stopped_target_op_flags},
	{"stopped_in_stream", stopped_in_stream},
	{"killed_target", killed_target},
	{"killed_target_idle", killed_target_idle},
	{"killed_target_then_close", killed_target_then_close},
	{"target_hangs_up", target_hangs_up},
	{"own_shutdown", own_shutdown},
	{"close_then_read", close_then_read},
	{"close_unread", close_unread},
	{"region_closed_amid", region_closed_amid},
	{"many_connections", many_connections},
	{NULL, NULL},
};
