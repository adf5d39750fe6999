/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_message.c -- messages that are committed, wherever the target receives them
 *
 * Most cases have the target receive in a region, so that what came can be read
 * as what was written can.
 */
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"

#define PLACES 64
#define STRIDE 512

static const struct link_attr bare = {
	.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
	.accept = ACCEPT_BARE,
};

/* receive_in -- the target's next receives are in the region */
static int receive_in(struct link *link, const struct remote *remote, size_t offset, size_t len,
		      size_t stride, unsigned int count)
{
	struct control_msg msg = {
		.command = CTL_RECV,
		.arg = {link->id, remote->id, offset, len, stride, count},
	};
	int ret = target_call(link->target, &msg, NULL, 0);

	return ret ? failed_call(link->fx, "fi_recv at the target", ret) : 0;
}

/* received_region -- persistent, for messages and for writes */
static struct remote *received_region(struct link *link, size_t len)
{
	return fx_remote(link->fx, link->target, len, FI_REMOTE_WRITE | FI_RECV, FI_RMA_PMEM);
}

/* try_send -- fi_sendmsg, waiting while the queue is full; what it returned */
static ssize_t try_send(struct link *link, void *buf, size_t len, uint64_t flags, struct op *op)
{
	struct iovec iov = {buf, len};
	struct fi_msg msg = {
		.msg_iov = &iov,
		.desc = &link->local.desc,
		.iov_count = 1,
		.context = op,
	};
	ssize_t ret;

	while ((ret = fi_sendmsg(link->conn.ep, &msg, flags)) == -FI_EAGAIN) {
		if (reap(link) || is_late(link->fx))
			break;
	}
	return ret;
}

/* send_to -- a new pattern, for that place of the region */
static int send_to(struct link *link, struct remote *remote, size_t offset, size_t len,
		   uint64_t flags, struct op **op)
{
	uint64_t seed = atomic_fetch_add(&link->fx->seed, 1);
	struct op *mine = op_new(link->fx);
	ssize_t ret = try_send(link, source(link, len, seed, offset), len, flags, mine);

	if (ret)
		return failed_call(link->fx, "fi_sendmsg", ret);
	remote_expect(remote, offset, len, seed);
	if (op)
		*op = mine;
	return 0;
}

static struct link *message_link(struct fx *fx, struct target_proc *target)
{
	if (!is_pmemverbs(fx)) {
		skipped(fx, "commits of messages are pmemverbs' own");
		return NULL;
	}
	return fx_link(fx, target, &bare);
}

/* Now and then one is committed, which makes those before it durable, too */
static int commit_some(struct link *link, struct remote *remote)
{
	struct fx *fx = link->fx;
	unsigned int i, round;
	struct op *op;

	for (round = 0; round < 6; round++) {
		if (receive_in(link, remote, 0, STRIDE, STRIDE, PLACES))
			return -1;
		for (i = 0; i < PLACES; i++) {
			bool commits = (i + round) % 5 == 0 || i == PLACES - 1;

			if (send_to(link, remote, i * STRIDE, 1 + i * 37 % STRIDE,
				    commits ? COMMIT : 0, &op))
				return -1;
			if (commits && (await(link, op) || remote_same(fx, remote) ||
					expect(fx, op->flags == (FI_MSG | FI_SEND), "flags %#llx",
					       (unsigned long long) op->flags)))
				return -1;
		}
	}
	return linger(link, 20);
}

/* says -- that is how the provider says that it commits messages */
static int says(struct link *link, enum fi_pmemverbs_method method, int pmem)
{
	struct fi_pmemverbs_region region;

	return query_messages(link->fx, link, &region) ||
			       expect(link->fx, region.method == method && region.pmem == pmem,
				      "query_messages tells of method %d, pmem %d", region.method,
				      region.pmem)
		       ? -1
		       : 0;
}

static int message_commit(struct fx *fx)
{
	struct link *link = message_link(fx, NULL);
	struct remote *remote = link ? received_region(link, PLACES * STRIDE) : NULL;

	return remote && !says(link, FI_PMEMVERBS_AGENT, 0) ? commit_some(link, remote) : -1;
}

/* Many are under way at a time; each completes once */
static int commit_many(struct link *link, struct remote *remote)
{
	struct op *ops[PLACES];
	unsigned int i, round;

	for (round = 0; round < 10; round++) {
		if (receive_in(link, remote, 0, STRIDE, STRIDE, PLACES))
			return -1;
		for (i = 0; i < PLACES; i++) {
			if (send_to(link, remote, i * STRIDE, STRIDE, COMMIT, &ops[i]))
				return -1;
		}
		for (i = 0; i < PLACES; i++) {
			if (await(link, ops[i]))
				return -1;
		}
		if (remote_same(link->fx, remote))
			return -1;
	}
	return linger(link, 20);
}

static int message_stream(struct fx *fx)
{
	struct link *link = message_link(fx, NULL);
	struct remote *remote = link ? received_region(link, PLACES * STRIDE) : NULL;

	return remote ? commit_many(link, remote) : -1;
}

/* Received in memory of which nothing is promised: it is there */
static int message_volatile(struct fx *fx)
{
	struct link *link = is_pmemverbs(fx) ? fx_link(fx, NULL, NULL) : NULL;
	struct log_entry log[8];
	unsigned int i;
	struct op *op;

	if (!link)
		return is_pmemverbs(fx) ? -1 : skipped(fx, "pmemverbs' own");
	for (i = 0; i < 300; i++) {
		op = op_new(fx);
		if (try_send(link, source(link, 32, i, 0), 32, COMMIT, op) || await(link, op) ||
		    expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 5000) == 1, "no message") ||
		    expect(fx,
			   pattern_check(log[0].head, sizeof(log[0].head), i, 0) ==
				   sizeof(log[0].head),
			   "message %u is another one", i))
			return -1;
	}
	return linger(link, 20);
}

/* Immediate data uses up receives on some cores and not on others */
static int message_immediates(struct fx *fx)
{
	struct link *link = message_link(fx, NULL);
	struct remote *remote = link ? received_region(link, 65536) : NULL;
	struct log_entry log[PLACES * 2];
	unsigned int i, used = 0;
	size_t at = 32768;
	struct op *op;
	int n;

	if (!remote || receive_in(link, remote, at, 64, 64, 2 * PLACES))
		return -1;
	for (i = 0; i < PLACES / 2; i++) {
		if (plain_at(link, i % 2 ? PLAIN_WRITEDATA : PLAIN_INJECTDATA, remote, i * 64, 32,
			     NULL))
			return -1;
	}
	/* ask the target what became of them: with a receive's length, on verbs */
	n = get_log(link, log, ARRAY_SIZE(log), PLACES / 2, 5000);
	if (expect(fx, n == PLACES / 2, "%d of %d immediate data came", n, PLACES / 2))
		return -1;
	used = fx->target->node.protocol == FI_PROTO_RDMA_CM_IB_RC ||
			       fx->target->node.protocol == FI_PROTO_IWARP
		       ? PLACES / 2
		       : 0;
	for (i = 0; i < PLACES; i++) {
		if (send_to(link, remote, at + (used + i) * 64, 64, COMMIT, &op) ||
		    await(link, op) || remote_same(fx, remote))
			return -1;
	}
	return linger(link, 20);
}

#define PAIRS 48
#define FIRST 1500
#define SECOND 200

/* The first part of each pair is a write, or a message; the second a fenced message */
static int post_pairs(struct link *link, struct remote *remote, bool message)
{
	uint64_t fence = link->fx->caps & FI_FENCE;
	struct op *ops[PAIRS], *op;
	unsigned int n;
	size_t at;

	for (n = 0; n < PAIRS; n++) {
		at = n * (FIRST + SECOND);
		op = op_new(link->fx);
		remote_expect(remote, at, FIRST, 7000 + n);
		if (message ? try_send(link, source(link, FIRST, 7000 + n, at), FIRST, 0, op) != 0
			    : write_from(link, remote, at, source(link, FIRST, 7000 + n, at), FIRST,
					 n % 2 ? FI_COMMIT_COMPLETE : 0, 0, NULL))
			return failed(link->fx, "the first part can't be posted");
		if (send_to(link, remote, at + FIRST, SECOND, COMMIT | fence, &ops[n]))
			return -1;
	}
	for (n = 0; n < PAIRS; n++) {
		if (await(link, ops[n]))
			return -1;
	}
	return 0;
}

static int pairs_in_order(struct link *link, struct remote *remote, bool message)
{
	struct fx *fx = link->fx;
	struct control_msg msg = {.command = CTL_PAIRS, .len = sizeof(struct pairs)};
	struct pairs pairs;
	unsigned int n;
	int ret;

	for (n = 0; n < PAIRS; n++) {
		size_t at = n * (FIRST + SECOND);

		if ((message && receive_in(link, remote, at, FIRST, 0, 1)) ||
		    receive_in(link, remote, at + FIRST, SECOND, 0, 1))
			return -1;
	}
	pairs = (struct pairs){
		.region = remote->id,
		.count = PAIRS,
		.stride = FIRST + SECOND,
		.first = FIRST,
		.second = SECOND,
		.seed = 7000,
		.old = remote->seed,
	};
	if (target_begin(link->target, &msg, &pairs) || post_pairs(link, remote, message))
		return -1;
	ret = target_finish(link->target, &msg, NULL, 0);
	return expect(fx, !ret && msg.arg[0] == PAIRS, "the target saw %llu pairs in order, %d",
		      (unsigned long long) msg.arg[0], ret) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int fence(struct fx *fx, bool message)
{
	struct link *link = message_link(fx, NULL);
	struct remote *remote = link ? received_region(link, PAIRS * (FIRST + SECOND)) : NULL;

	return remote ? pairs_in_order(link, remote, message) : -1;
}

static int message_fence_after_writes(struct fx *fx)
{
	return fence(fx, false);
}

static int message_fence_after_messages(struct fx *fx)
{
	return fence(fx, true);
}

/* A message whose buffer is not registered any more can't be made durable */
static int message_region_closed(struct fx *fx)
{
	struct link *link = message_link(fx, NULL);
	struct remote *closed = link ? received_region(link, 4096) : NULL;
	struct remote *remote = closed ? received_region(link, 4096) : NULL;
	struct control_msg msg = {.command = CTL_DEREG};
	struct log_entry log[4];
	struct op *op;

	if (!remote || receive_in(link, closed, 0, 64, 64, 1) ||
	    receive_in(link, remote, 0, 64, 64, 2) || send_to(link, closed, 0, 64, 0, NULL) ||
	    expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 5000) == 1, "no message"))
		return -1;
	msg.arg[0] = closed->id;
	if (target_call(link->target, &msg, NULL, 0))
		return failed(fx, "the region can't be closed");
	if (send_to(link, remote, 0, 64, COMMIT, &op) || await_error(link, op) ||
	    expect(fx, op->err == FI_EACCES, "error %s", fi_strerror(op->err)))
		return -1;
	/* it is told once */
	return send_to(link, remote, 64, 64, COMMIT, &op) || await(link, op) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int refused(struct link *link, uint64_t flags, int err)
{
	struct op *op = op_new(link->fx);
	ssize_t ret = try_send(link, source(link, 8, 1, 0), 8, flags, op);

	return expect(link->fx, ret == -err, "fi_sendmsg: %s instead of %s",
		      fi_strerror((int) -ret), fi_strerror(err));
}

/* Where nobody can commit messages, all else goes on */
static int refused_but_works(struct fx *fx, struct target_proc *target, enum accept_flags accept)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.accept = accept,
	};
	struct link *link = fx_link(fx, target, &attr);
	struct log_entry log[4];
	struct op *op;

	if (!link || says(link, FI_PMEMVERBS_REFUSED, 0) || refused(link, COMMIT, FI_EOPNOTSUPP) ||
	    refused(link, COMMIT | FI_FENCE, FI_EOPNOTSUPP))
		return -1;
	op = op_new(fx);
	if (try_send(link, source(link, 32, 9, 0), 32, FI_COMPLETION, op) || await(link, op))
		return failed(fx, "a message without a commit");
	return expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 5000) == 1, "no message");
}

static int message_refused_shared(struct fx *fx)
{
	return is_pmemverbs(fx) ? refused_but_works(fx, NULL, ACCEPT_SRX)
				: skipped(fx, "pmemverbs' own");
}

static int message_refused_without_agent(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_AGENT=off", NULL};
	struct target_attr attr = {.environment = environment};
	struct target_proc *target;

	if (!is_pmemverbs(fx))
		return skipped(fx, "pmemverbs' own");
	target = fx_target(fx, &attr);
	return target ? refused_but_works(fx, target, 0) : -1;
}

static int message_immed(struct fx *fx)
{
	struct link *link = message_link(fx, NULL);

	return !link || refused(link, COMMIT | FI_IMMED, FI_EINVAL) ||
			       refused(link, FI_COMPLETION | FI_IMMED, FI_EINVAL)
		       ? -1
		       : 0;
}

/* By default: the calls without flags */
static int message_op_flags(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA},
		.op_flags = FI_COMMIT_COMPLETE,
		.accept = ACCEPT_BARE,
	};
	struct link *link = is_pmemverbs(fx) ? fx_link(fx, NULL, &attr) : NULL;
	struct remote *remote = link ? received_region(link, 8192) : NULL;
	struct iovec iov;
	unsigned int i;
	struct op *op;
	ssize_t ret;
	size_t at;

	if (!remote)
		return is_pmemverbs(fx) ? -1 : skipped(fx, "pmemverbs' own");
	if (receive_in(link, remote, 0, 100, 128, 48))
		return -1;
	for (i = 0; i < 48; i++) {
		at = i * 128;
		op = op_new(fx);
		iov = (struct iovec){source(link, 100, 300 + i, at), 100};
		if (i % 4 == 0)
			ret = fi_send(link->conn.ep, iov.iov_base, 100, link->local.desc, 0, op);
		else if (i % 4 == 1)
			ret = fi_sendv(link->conn.ep, &iov, &link->local.desc, 1, 0, op);
		else if (i % 4 == 2)
			ret = fi_senddata(link->conn.ep, iov.iov_base, 100, link->local.desc, i, 0,
					  op);
		else
			ret = fi_inject(link->conn.ep, iov.iov_base, 32, 0);
		remote_expect(remote, at, i % 4 == 3 ? 32 : 100, 300 + i);
		if (ret)
			return failed_call(fx, "fi_send or its kin", ret);
		if (i % 4 != 3 && (await(link, op) || remote_same(fx, remote)))
			return -1;
	}
	return linger(link, 20);
}

/* Where the target receives in one kind of memory only, and has said so */

static struct link *kind_link(struct fx *fx, struct target_proc *target, size_t len,
			      struct remote **remote)
{
	struct link_attr attr = bare;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "commits of messages are pmemverbs' own");
		return NULL;
	}
	*remote = fx_remote(fx, target, len, FI_REMOTE_WRITE | FI_RECV, FI_RMA_PMEM);
	attr.accept |= ACCEPT_KIND;
	attr.kind = *remote;
	return *remote ? fx_link(fx, target, &attr) : NULL;
}

static int message_kind_commit(struct fx *fx)
{
	struct remote *remote;
	struct link *link = kind_link(fx, fx->target, PLACES * STRIDE, &remote);
	struct fi_pmemverbs_region region;

	/* As it would commit writes to the same memory. */
	if (!link || query_key(fx, link, remote->key, &region) || says(link, region.method, 1))
		return -1;
	return commit_some(link, remote) ? -1 : commit_many(link, remote);
}

static int message_kind_fence(struct fx *fx)
{
	struct remote *remote, *other;
	struct link *link = kind_link(fx, fx->target, PAIRS * (FIRST + SECOND), &remote);

	if (!link || pairs_in_order(link, remote, false))
		return -1;
	link = kind_link(fx, fx->target, PAIRS * (FIRST + SECOND), &other);
	return link ? pairs_in_order(link, other, true) : -1;
}

/* No processor there has a part in it */
static int message_kind_without_agent(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_AGENT=off",
						  "FI_PMEMVERBS_DOMAIN=mhp", NULL};
	struct target_attr attr = {.environment = environment};
	struct target_proc *target;
	struct remote *remote;
	struct link *link;

	if (!is_pmemverbs(fx))
		return skipped(fx, "pmemverbs' own");
	target = fx_target(fx, &attr);
	link = target ? kind_link(fx, target, PLACES * STRIDE, &remote) : NULL;
	return link && !says(link, FI_PMEMVERBS_READ, 1) ? commit_some(link, remote) : -1;
}

static int message_kind_elsewhere(struct fx *fx)
{
	struct control_msg msg = {.command = CTL_RECV};
	struct remote *remote, *elsewhere;
	struct link *link = kind_link(fx, fx->target, 4096, &remote);
	struct op *op;
	int ret;

	elsewhere = link ? fx_remote(fx, link->target, 4096, FI_RECV, 0) : NULL;
	if (!elsewhere)
		return -1;
	memcpy(msg.arg, (uint64_t[]){link->id, elsewhere->id, 0, 64, 64, 1}, 6 * sizeof(uint64_t));
	ret = target_call(link->target, &msg, NULL, 0);
	return expect(fx, ret == -FI_EINVAL, "a receive elsewhere: %s", fi_strerror(-ret)) ||
			       receive_in(link, remote, 0, 64, 64, 1) ||
			       send_to(link, remote, 0, 64, COMMIT, &op) || await(link, op) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

/*
 * What comes behind a message for which there is no receive yet is repeated with it.  There a
 * fenced request must not wait for the flush behind it.
 */
static int message_late_receive(struct fx *fx)
{
	struct link *link = message_link(fx, NULL);
	struct remote *received = link ? received_region(link, STRIDE) : NULL;
	struct remote *remote =
		received ? fx_remote(fx, link->target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT | FI_FENCE};
	struct op *ops[2];

	/* The commit before leaves a fence due. */
	if (!remote || commit(link, remote, 0, 64, 0) ||
	    send_to(link, received, 0, 64, FI_COMPLETION, &ops[0]) ||
	    write_at(link, &write, &ops[1]))
		return -1;
	/* The device finds out that there is no receive. */
	if (linger(link, 50) || receive_in(link, received, 0, STRIDE, STRIDE, 1) ||
	    all_done(link, ops, ARRAY_SIZE(ops)))
		return -1;
	return remote_same(fx, received) || remote_same(fx, remote) ? -1 : 0;
}

const struct test_case message_cases[] = {
	{"message_commit", message_commit},
	{"message_stream", message_stream},
	{"message_late_receive", message_late_receive},
	{"message_volatile", message_volatile},
	{"message_immediates", message_immediates},
	{"message_fence_after_writes", message_fence_after_writes},
	{"message_fence_after_messages", message_fence_after_messages},
	{"message_region_closed", message_region_closed},
	{"message_refused_shared", message_refused_shared},
	{"message_refused_without_agent", message_refused_without_agent},
	{"message_immed", message_immed},
	{"message_op_flags", message_op_flags},
	{"message_kind_commit", message_kind_commit},
	{"message_kind_fence", message_kind_fence},
	{"message_kind_without_agent", message_kind_without_agent},
	{"message_kind_elsewhere", message_kind_elsewhere},
	{NULL, NULL},
};
