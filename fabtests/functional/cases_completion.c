/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_completion.c -- what completions a commit gives, here and at the target,
 * and none beside them
 */
#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"
#include "memory/key.h"

/* What a completion may say of a commit */
static int right_flags(struct fx *fx, const struct op *op, enum fi_cq_format format)
{
	uint64_t want = FI_RMA | FI_WRITE;

	if (format == FI_CQ_FORMAT_CONTEXT)
		return 0;
	return expect(fx, (op->flags & (want | FI_READ | FI_RECV)) == want,
		      "the completion's flags are %s",
		      fi_tostr(&op->flags, FI_TYPE_CQ_EVENT_FLAGS));
}

static int fields_in(struct fx *fx, enum fi_cq_format format)
{
	struct link_attr attr = {.conn = {.format = format, .selective = true}};
	struct link *link = fx_link(fx, NULL, &attr);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 100, .flags = COMMIT};
	struct op *ops[20];
	unsigned int i;

	if (!remote)
		return -1;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.offset = i * 200;
		if (write_at(link, &write, &ops[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (await(link, ops[i]) || right_flags(fx, ops[i], format))
			return -1;
	}
	return linger(link, 20) || remote_same(fx, remote) ? -1 : 0;
}

/* has_format -- some cores have no tagged format, having no tagged messages */
static bool has_format(struct fx *fx, enum fi_cq_format format)
{
	struct conn_attr attr = {.format = format};
	struct fid_cq *cq;

	if (cq_create(&fx->target->node, &attr, 16, &cq))
		return false;
	close_fid(&cq->fid, "a completion queue");
	return true;
}

static int format_context(struct fx *fx)
{
	return fields_in(fx, FI_CQ_FORMAT_CONTEXT);
}

static int format_msg(struct fx *fx)
{
	return fields_in(fx, FI_CQ_FORMAT_MSG);
}

static int format_data(struct fx *fx)
{
	return fields_in(fx, FI_CQ_FORMAT_DATA);
}

static int format_tagged(struct fx *fx)
{
	if (!has_format(fx, FI_CQ_FORMAT_TAGGED))
		return skipped(fx, "no tagged completion format");
	return fields_in(fx, FI_CQ_FORMAT_TAGGED);
}

/* What has completed with FI_DELIVERY_COMPLETE is there */
static int delivered(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 16384) : NULL;
	struct write write = {.remote = remote, .len = 700};
	unsigned int i;

	if (!remote)
		return -1;
	for (i = 0; i < 20; i++) {
		struct op *op;

		write.offset = i * 800;
		write.flags = FI_COMPLETION | FI_DELIVERY_COMPLETE | (i % 3 ? 0 : FI_FENCE);
		if (write_at(link, &write, &op) || await(link, op) || remote_same(fx, remote))
			return -1;
	}
	return linger(link, 20);
}

/* tick_off -- each context is of one of the operations, which has not come before */
static int tick_off(struct fx *fx, const struct fi_cq_data_entry *entries, ssize_t n,
		    struct op **ops, unsigned int nops)
{
	unsigned int i;
	ssize_t k;

	for (k = 0; k < n; k++) {
		for (i = 0; i < nops && entries[k].op_context != ops[i]; i++)
			;
		if (expect(fx, i < nops, "a completion of no operation, or a second one"))
			return -1;
		ops[i] = NULL;
	}
	return 0;
}

/* Several entries in one fi_cq_read, all of them the application's */
static int read_many(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct fi_cq_data_entry entries[64];
	struct op *ops[50];
	unsigned int n;
	ssize_t ret;

	if (!remote)
		return -1;
	for (n = 0; n < ARRAY_SIZE(ops); n++) {
		write.offset = n * 64;
		if (write_at(link, &write, &ops[n]))
			return -1;
	}
	while (n && !is_late(fx)) {
		ret = fi_cq_read(link->conn.txcq, entries, ARRAY_SIZE(entries));
		if (ret == -FI_EAGAIN)
			continue;
		if (ret < 0)
			return failed_call(fx, "fi_cq_read", ret);
		if (tick_off(fx, entries, ret, ops, ARRAY_SIZE(ops)))
			return -1;
		n -= ret;
	}
	return expect(fx, !n, "%u completions are missing", n) || remote_same(fx, remote) ? -1 : 0;
}

/* Without FI_COMPLETION a commit that succeeds is silent, and yet a commit */
static int selective(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64};
	struct op *silent[30], *loud[30];
	unsigned int i;

	if (!remote)
		return -1;
	for (i = 0; i < ARRAY_SIZE(silent); i++) {
		write.flags = FI_COMMIT_COMPLETE;
		write.offset = i * 128;
		if (write_at(link, &write, &silent[i]))
			return -1;
		write.flags = COMMIT;
		write.offset += 64;
		if (write_at(link, &write, &loud[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(loud); i++) {
		if (await(link, loud[i]))
			return -1;
	}
	if (linger(link, 50))
		return -1;
	for (i = 0; i < ARRAY_SIZE(silent); i++) {
		if (expect(fx, !op_done(silent[i]), "a completion that nobody asked for"))
			return -1;
	}
	return remote_same(fx, remote);
}

/* Where completions are not selective, every commit has one, FI_COMPLETION or not */
static int unselective(struct fx *fx)
{
	struct link_attr attr = {.conn = {.format = FI_CQ_FORMAT_DATA}};
	struct link *link = fx_link(fx, NULL, &attr);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = FI_COMMIT_COMPLETE};
	struct op *ops[60];
	unsigned int i;

	if (!remote)
		return -1;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.offset = i * 64;
		write.flags ^= FI_COMPLETION;
		if (i % 3 ? write_at(link, &write, &ops[i])
			  : plain_at(link, PLAIN_WRITE, remote, write.offset, 64, &ops[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return commit(link, remote, 60000, 8, 0) || linger(link, 20) || remote_same(fx, remote) ? -1
												: 0;
}

static int arm(struct remote *remote, uint64_t stride, size_t len, uint64_t seed)
{
	struct expectation expectation = {remote->id, stride, len, seed};
	struct control_msg msg = {.command = CTL_ARM, .len = sizeof(expectation)};
	int ret = target_call(remote->target, &msg, &expectation, sizeof(expectation));

	return ret ? failed_call(remote->target->fx, "arming the target", ret) : 0;
}

/* post_pattern -- a write of the pattern of a given seed, not the next one */
static int post_pattern(struct link *link, struct remote *remote, size_t offset, size_t len,
			uint64_t seed, uint64_t flags, uint64_t data, struct op *op)
{
	remote_expect(remote, offset, len, seed);
	return write_from(link, remote, offset, source(link, len, seed, offset), len, flags, data,
			  op);
}

#define NOTICES 40
#define NOTICE_STRIDE 8192

/* post_notices -- each is a plain write, and behind it a commit whose notice covers both */
static int post_notices(struct link *link, struct remote *remote, uint64_t flags, uint64_t seed,
			struct op **ops)
{
	size_t half = NOTICE_STRIDE / 2, offset;
	unsigned int i;

	for (i = 0; i < NOTICES; i++) {
		offset = i * NOTICE_STRIDE;
		ops[i] = op_new(link->fx);
		if (post_pattern(link, remote, offset, half, seed + i, 0, 0, NULL) ||
		    post_pattern(link, remote, offset + half, half, seed + i, COMMIT | flags, i,
				 ops[i]))
			return -1;
	}
	for (i = 0; i < NOTICES; i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return 0;
}

/* right_notices -- one for each commit, in order, each with its value, after its data */
static int right_notices(struct fx *fx, const struct log_entry *log, int n)
{
	int i;

	if (n < 0 || expect(fx, n == NOTICES, "the target got %d notices of %d", n, NOTICES))
		return -1;
	for (i = 0; i < n; i++) {
		if (expect(fx, !log[i].err && log[i].flags & FI_REMOTE_CQ_DATA,
			   "notice %d at the target: error %d, flags %s", i, log[i].err,
			   fi_tostr(&log[i].flags, FI_TYPE_CQ_EVENT_FLAGS)) ||
		    expect(fx, log[i].data == (uint64_t) i, "notice %d has the value %llu", i,
			   (unsigned long long) log[i].data) ||
		    expect(fx, log[i].visible, "notice %d came before its data", i))
			return -1;
	}
	return 0;
}

static int notices(struct fx *fx, uint64_t flags)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, NOTICES * NOTICE_STRIDE) : NULL;
	uint64_t seed = atomic_fetch_add(&fx->seed, NOTICES);
	struct log_entry log[2 * NOTICES];
	struct op *ops[NOTICES];

	if (!remote)
		return -1;
	if (arm(remote, NOTICE_STRIDE, NOTICE_STRIDE, seed) ||
	    post_notices(link, remote, flags, seed, ops) ||
	    right_notices(fx, log, get_log(link, log, ARRAY_SIZE(log), NOTICES, 5000)) ||
	    linger(link, 20))
		return -1;
	/* none comes late */
	return expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 100) == 0,
		      "the target got a notice too many") ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int notice_upstream_spelling(struct fx *fx)
{
	return notices(fx, FI_REMOTE_CQ_DATA);
}

static int notice_immed(struct fx *fx)
{
	if (!is_pmemverbs(fx))
		return skipped(fx, "FI_IMMED is pmemverbs' own");
	return notices(fx, FI_IMMED);
}

static int notice_both_spellings(struct fx *fx)
{
	if (!is_pmemverbs(fx))
		return skipped(fx, "FI_IMMED is pmemverbs' own");
	return notices(fx, FI_IMMED | FI_REMOTE_CQ_DATA);
}

static int notice_fenced(struct fx *fx)
{
	if (!(fx->caps & FI_FENCE))
		return skipped(fx, "no FI_FENCE");
	return notices(fx, FI_FENCE | FI_REMOTE_CQ_DATA);
}

static int notice_values(struct fx *fx)
{
	static const uint64_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct log_entry log[8];
	unsigned int i;
	struct op *op;

	if (!remote)
		return -1;
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		struct write write = {
			.remote = remote,
			.len = i % 2 ? 0 : 8, /* without data, too */
			.flags = COMMIT | FI_REMOTE_CQ_DATA,
			.data = values[i],
		};

		if (write_at(link, &write, &op) || await(link, op) ||
		    expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 5000) == 1,
			   "the target got no notice, or several") ||
		    expect(fx, log[0].data == values[i], "the target got %llx instead of %llx",
			   (unsigned long long) log[0].data, (unsigned long long) values[i]))
			return -1;
	}
	return 0;
}

/* An injected commit may carry a notice, too */
static int notice_injected(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct write write = {
		.remote = remote,
		.len = 32,
		.flags = COMMIT | FI_REMOTE_CQ_DATA | FI_INJECT,
	};
	struct log_entry log[8];
	struct op *op;

	if (!remote)
		return -1;
	if (fx->target->node.info->tx_attr->inject_size < write.len)
		return skipped(fx, "inject_size is below %zu", write.len);
	for (write.data = 1; write.data < 20; write.data++) {
		write.offset = write.data * 64;
		if (write_at(link, &write, &op) || await(link, op) ||
		    expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 5000) == 1,
			   "the target got no notice, or several") ||
		    expect(fx, log[0].data == write.data, "the target got a wrong value"))
			return -1;
	}
	return remote_same(fx, remote);
}

static int immed_needs_commit(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct write write = {.remote = remote, .len = 8, .flags = FI_COMPLETION | FI_IMMED};
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	if (!is_pmemverbs(fx))
		return skipped(fx, "FI_IMMED is pmemverbs' own");
	ret = post_write(link, &write, &op);
	return expect(fx, ret == -FI_EINVAL, "FI_IMMED without FI_COMMIT: %s",
		      fi_strerror((int) -ret)) ||
			       commit(link, remote, 100, 8, 0) || remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* FI_COMMIT_COMPLETE as a default: what the calls without flags then do */
static int op_flags_commit(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA},
		.op_flags = FI_COMMIT_COMPLETE,
	};
	struct link *link = fx_link(fx, NULL, &attr);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	static const enum plain kinds[] = {PLAIN_WRITE, PLAIN_WRITEV, PLAIN_WRITEDATA};
	struct op *op;
	unsigned int i;

	if (!remote)
		return -1;
	for (i = 0; i < 30; i++) {
		if (plain_at(link, kinds[i % 3], remote, i * 2000, 1500 + i, &op) ||
		    await(link, op) || right_flags(fx, op, link->format) || remote_same(fx, remote))
			return -1;
	}
	return linger(link, 20);
}

static int refused(struct fx *fx, struct link *link, enum plain kind, struct write *write)
{
	struct op *op;
	ssize_t ret = plain_post(link, kind, write, &op);

	return expect(fx, ret == -FI_EOPNOTSUPP,
		      "call %d with a key that can't be committed to: %s", kind,
		      fi_strerror((int) -ret));
}

/*
 * A key without attributes tells a commit, which it refuses, from a plain write:
 * so it is seen which calls take the default and which don't
 */
static int op_flags_which_calls(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA},
		.op_flags = FI_COMMIT_COMPLETE,
	};
	struct link *link = fx_link(fx, NULL, &attr);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct write write = {.remote = remote, .len = 8};
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	if (!is_pmemverbs(fx))
		return skipped(fx, "needs pmemverbs' keys");
	write.key = pmv_key_core(remote->key);
	if (refused(fx, link, PLAIN_WRITE, &write) || refused(fx, link, PLAIN_WRITEV, &write) ||
	    refused(fx, link, PLAIN_WRITEDATA, &write))
		return -1;
	/* flags given to a call replace the default */
	ret = plain_post(link, PLAIN_WRITEMSG, &write, &op);
	if (ret)
		return failed_call(fx, "fi_writemsg without the flag", ret);
	return await(link, op);
}

/* Messages commit, too */
static int op_flags_send(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA},
		.op_flags = FI_COMMIT_COMPLETE,
	};
	struct link *link = fx_link(fx, NULL, &attr);
	struct log_entry log[8];
	struct op *op;
	ssize_t ret;

	if (!link)
		return -1;
	op = op_new(fx);
	ret = fi_send(link->conn.ep, source(link, 32, 7, 0), 32, link->local.desc, 0, op);
	if (ret)
		return failed_call(fx, "fi_send", ret);
	return await(link, op) ||
			       expect(fx, op->flags & FI_SEND,
				      "fi_send's completion has no FI_SEND") ||
			       expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 5000) == 1,
				      "no message came") ||
			       expect(fx,
				      pattern_check(log[0].head, sizeof(log[0].head), 7, 0) ==
					      sizeof(log[0].head),
				      "another message came")
		       ? -1
		       : 0;
}

/* Commits, and messages in both directions, on one connection */
static int messages_beside(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct control_msg msg = {.command = CTL_SEND};
	unsigned char text[32];
	struct op *op;
	ssize_t ret;
	void *buf;
	int i;

	if (!remote)
		return -1;
	for (i = 0; i < 20; i++) {
		op = op_new(fx);
		buf = source(link, sizeof(text), 0, 0);
		ret = fi_recv(link->conn.ep, buf, sizeof(text), link->local.desc, 0, op);
		if (ret)
			return failed_call(fx, "fi_recv", ret);
		pattern_fill(text, sizeof(text), i, 0);
		msg.arg[0] = link->id;
		msg.len = sizeof(text);
		if (commit(link, remote, i * 100, 100, 0) ||
		    target_call(remote->target, &msg, text, sizeof(text)) || await(link, op) ||
		    expect(fx, pattern_check(buf, sizeof(text), i, 0) == sizeof(text),
			   "wrong message"))
			return -1;
	}
	return remote_same(fx, remote);
}

const struct test_case completion_cases[] = {
	{"format_context", format_context},
	{"format_msg", format_msg},
	{"format_data", format_data},
	{"format_tagged", format_tagged},
	{"delivered", delivered},
	{"read_many", read_many},
	{"selective", selective},
	{"unselective", unselective},
	{"notice_upstream_spelling", notice_upstream_spelling},
	{"notice_immed", notice_immed},
	{"notice_both_spellings", notice_both_spellings},
	{"notice_fenced", notice_fenced},
	{"notice_values", notice_values},
	{"notice_injected", notice_injected},
	{"immed_needs_commit", immed_needs_commit},
	{"op_flags_commit", op_flags_commit},
	{"op_flags_which_calls", op_flags_which_calls},
	{"op_flags_send", op_flags_send},
	{"messages_beside", messages_beside},
	{NULL, NULL},
};
