/* SPDX-License-Identifier: BSD-2-Clause */
/* operations.c -- what the cases of the functional program post, and await: see functional.h */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functional.h"
#include "../common/stats.h"

#define MAX_IOVS 8

struct op *op_new(struct fx *fx)
{
	unsigned int i = atomic_fetch_add(&fx->nops, 1);

	assert(i < MAX_POSTED);
	return &fx->ops[i];
}

/* cut -- one buffer as several pieces of about the same size */
static void cut(struct iovec *iov, unsigned int n, unsigned char *buf, size_t len)
{
	size_t piece;

	for (; n; n--, iov++, buf += piece, len -= piece) {
		piece = len / n;
		*iov = (struct iovec){buf, piece};
	}
}

/* Everything that one fi_writemsg needs, to be able to call it again. */
struct request {
	struct link *link;
	struct op *op;
	uint64_t flags;
	struct fi_rma_iov rma_iov;
	struct iovec iov[MAX_IOVS];
	void *desc[MAX_IOVS];
	unsigned char *buf;
	struct fi_msg_rma msg;
};

static void prepare(struct request *req, struct link *link, const struct write *write)
{
	const struct remote *remote = write->remote;
	unsigned int i, n = write->iovs ? write->iovs : 1;
	uint64_t seed = atomic_fetch_add(&link->fx->seed, 1);

	req->link = link;
	req->op = op_new(link->fx);
	req->op->offset = write->offset;
	req->op->len = write->len;
	req->op->seed = seed;
	req->flags = write->flags;
	req->buf = source(link, write->len, seed, write->offset);
	cut(req->iov, n, req->buf, write->len);
	for (i = 0; i < n; i++)
		req->desc[i] = link->local.desc;
	req->rma_iov = (struct fi_rma_iov){
		.addr = remote->addr + write->offset,
		.len = write->len,
		.key = write->key ? write->key : remote->key,
	};
	req->msg = (struct fi_msg_rma){
		.msg_iov = req->iov,
		.desc = req->desc,
		.iov_count = n,
		.rma_iov = &req->rma_iov,
		.rma_iov_count = 1,
		.context = req->op,
		.data = write->data,
	};
}

static ssize_t submit(struct request *req)
{
	ssize_t ret = fi_writemsg(req->link->conn.ep, &req->msg, req->flags);

	/* injected means that the buffer is ours again */
	if (!ret && req->flags & FI_INJECT)
		memset(req->buf, 0xee, req->op->len);
	return ret;
}

ssize_t post_write(struct link *link, const struct write *write, struct op **op)
{
	struct request req;
	ssize_t ret;

	prepare(&req, link, write);
	ret = submit(&req);
	*op = ret ? NULL : req.op;
	return ret;
}

int write_at(struct link *link, const struct write *write, struct op **op)
{
	struct fx *fx = link->fx;
	struct request req;
	ssize_t ret;

	prepare(&req, link, write);
	while ((ret = submit(&req)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	remote_expect(write->remote, write->offset, write->len, req.op->seed);
	if (op)
		*op = req.op;
	return 0;
}

int write_from(struct link *link, const struct remote *remote, size_t offset, void *buf, size_t len,
	       uint64_t flags, uint64_t data, struct op *op)
{
	struct iovec iov = {buf, len};
	struct fi_rma_iov rma_iov = {remote->addr + offset, len, remote->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &link->local.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = op,
		.data = data,
	};
	ssize_t ret;

	while ((ret = fi_writemsg(link->conn.ep, &msg, flags)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	return ret ? failed_call(link->fx, "fi_writemsg", ret) : 0;
}

bool plain_has_context(enum plain kind)
{
	return kind != PLAIN_INJECT && kind != PLAIN_INJECTDATA;
}

static ssize_t call_plain(struct request *req, enum plain kind)
{
	struct fid_ep *ep = req->link->conn.ep;
	uint64_t addr = req->rma_iov.addr, key = req->rma_iov.key;
	void *buf = req->buf, *desc = req->desc[0];
	size_t len = req->op->len;

	switch (kind) {
	case PLAIN_WRITE:
		return fi_write(ep, buf, len, desc, 0, addr, key, req->op);
	case PLAIN_WRITEV:
		return fi_writev(ep, req->iov, req->desc, req->msg.iov_count, 0, addr, key,
				 req->op);
	case PLAIN_WRITEDATA:
		return fi_writedata(ep, buf, len, desc, req->msg.data, 0, addr, key, req->op);
	case PLAIN_INJECT:
		return fi_inject_write(ep, buf, len, 0, addr, key);
	case PLAIN_INJECTDATA:
		return fi_inject_writedata(ep, buf, len, req->msg.data, 0, addr, key);
	default:
		return fi_writemsg(ep, &req->msg, 0);
	}
}

static ssize_t submit_plain(struct request *req, enum plain kind)
{
	ssize_t ret = call_plain(req, kind);

	if (!ret && !plain_has_context(kind))
		memset(req->buf, 0xee, req->op->len);
	return ret;
}

ssize_t plain_post(struct link *link, enum plain kind, const struct write *write, struct op **op)
{
	struct request req;
	ssize_t ret;

	prepare(&req, link, write);
	ret = submit_plain(&req, kind);
	*op = ret ? NULL : req.op;
	return ret;
}

int plain_at(struct link *link, enum plain kind, struct remote *remote, size_t offset, size_t len,
	     struct op **op)
{
	struct write write = {.remote = remote, .offset = offset, .len = len};
	struct fx *fx = link->fx;
	struct request req;
	ssize_t ret;

	if (kind == PLAIN_WRITEV)
		write.iovs = 2;
	prepare(&req, link, &write);
	while ((ret = submit_plain(&req, kind)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	if (ret)
		return failed_call(fx, "a plain write", ret);
	remote_expect(remote, offset, len, req.op->seed);
	if (op)
		*op = req.op;
	return 0;
}

int read_at(struct link *link, const struct remote *remote, size_t offset, size_t len, void *buf,
	    struct op **op)
{
	struct fi_rma_iov rma_iov = {remote->addr + offset, len, remote->key};
	struct iovec iov = {buf, len};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &link->local.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = *op = op_new(link->fx),
	};
	ssize_t ret;

	while ((ret = fi_readmsg(link->conn.ep, &msg, FI_COMPLETION)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	return ret ? failed_call(link->fx, "fi_readmsg", ret) : 0;
}

int commit(struct link *link, struct remote *remote, size_t offset, size_t len, uint64_t flags)
{
	struct write write = {
		.remote = remote,
		.offset = offset,
		.len = len,
		.flags = COMMIT | flags,
	};
	struct op *op;

	return write_at(link, &write, &op) || await(link, op) ? -1 : 0;
}

bool op_done(const struct op *op)
{
	return op->completions + op->errors;
}

/* find_op -- the operation that a context belongs to; NULL: none */
static struct op *find_op(struct fx *fx, void *context)
{
	size_t distance = (char *) context - (char *) fx->ops;

	if ((char *) context < (char *) fx->ops || distance % sizeof(struct op) ||
	    distance / sizeof(struct op) >= fx->nops)
		return NULL;
	return context;
}

/* count -- one more completion or error of an operation: has to be the only one */
static int count(struct fx *fx, struct op *op, atomic_uint *counter)
{
	atomic_fetch_add(counter, 1);
	if (op->completions + op->errors == 1)
		return 0;
	return failed(fx, "an operation has completed twice: %u completions, %u errors",
		      op->completions, op->errors);
}

static int take_error(struct fx *fx, struct fid_cq *cq)
{
	struct fi_cq_err_entry entry;
	struct op *op;

	/* another thread may have taken it */
	if (!cq_error(cq, &entry))
		return 0;
	op = find_op(fx, entry.op_context);
	if (!op)
		return failed(fx, "an error (%s) with a context that is of no operation",
			      fi_strerror(entry.err));
	op->err = entry.err;
	op->flags = entry.flags;
	return count(fx, op, &op->errors);
}

/* take_entry -- formats are prefixes of each other; fields that one lacks are zero */
static int take_entry(struct fx *fx, struct fid_cq *cq, bool *taken)
{
	struct fi_cq_tagged_entry entry = {0};
	ssize_t ret = fi_cq_read(cq, &entry, 1);
	struct op *op;

	*taken = ret == 1 || ret == -FI_EAVAIL;
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		return take_error(fx, cq);
	if (ret != 1)
		return failed_call(fx, "fi_cq_read", ret);
	op = find_op(fx, entry.op_context);
	if (!op)
		return failed(fx, "a completion with a context that is of no operation");
	op->flags = entry.flags;
	op->data = entry.data;
	return count(fx, op, &op->completions);
}

static int reap_cq(struct fx *fx, struct fid_cq *cq, bool *found)
{
	bool taken;

	do {
		if (take_entry(fx, cq, &taken))
			return -1;
		*found |= taken;
	} while (taken);
	return 0;
}

/* drop_events -- the ends of connections are seen from the operations' errors */
static void drop_events(struct link *link)
{
	struct cm_event event;

	node_event(&link->target->node, &event, 0);
}

int reap(struct link *link)
{
	bool found = false;

	if (reap_cq(link->fx, link->conn.txcq, &found))
		return -1;
	if (link->conn.rxcq != link->conn.txcq && reap_cq(link->fx, link->conn.rxcq, &found))
		return -1;
	drop_events(link);
	rest(found);
	return 0;
}

int await_room(struct link *link)
{
	if (reap(link))
		return -1;
	return is_late(link->fx) ? failed(link->fx, "the queue stays full") : 0;
}

int await_any(struct link *link, struct op *op)
{
	while (!op_done(op)) {
		if (reap(link))
			return -1;
		if (is_late(link->fx))
			return failed(link->fx, "an operation does not complete");
	}
	return 0;
}

int await(struct link *link, struct op *op)
{
	if (await_any(link, op))
		return -1;
	return expect(link->fx, op->completions, "an operation has failed: %s (%d)",
		      fi_strerror(op->err), op->err);
}

int await_error(struct link *link, struct op *op)
{
	if (await_any(link, op))
		return -1;
	return expect(link->fx, op->errors, "an operation that must fail has succeeded");
}

int all_done(struct link *link, struct op *const *ops, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (await_any(link, ops[i]))
			return -1;
	}
	return 0;
}

int successes_landed(struct fx *fx, struct remote *remote, struct op *const *ops, unsigned int n)
{
	const struct op *op;
	unsigned int i;

	if (remote_fetch(fx, remote))
		return -1;
	for (i = 0; i < n; i++) {
		op = ops[i];
		if (op->completions && pattern_check(remote->image + op->offset, op->len, op->seed,
						     op->offset) != op->len)
			return failed(fx, "a commit has succeeded whose data are not there");
	}
	return 0;
}

int linger(struct link *link, unsigned int ms)
{
	uint64_t end = now_ns() + ms * 1000000ULL;

	do {
		if (reap(link))
			return -1;
	} while (now_ns() < end);
	return 0;
}

int get_log(struct link *link, struct log_entry *log, size_t room, size_t wait_for, unsigned int ms)
{
	struct control_msg msg = {.command = CTL_LOG, .arg = {link->id, wait_for, ms}};

	if (target_must_call(link->target, &msg, log, room * sizeof(*log), "tell what it got"))
		return -1;
	return (int) msg.arg[0];
}
