/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_sharing.c -- queues, contexts and regions that several endpoints or
 * threads use at a time
 */
#include <string.h>

#include "functional.h"

/* some_commits -- with plain writes between them */
static int some_commits(struct link *link, struct remote *remote, size_t base, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (plain_at(link, PLAIN_WRITE, remote, base + i * 64, 32, NULL) ||
		    commit(link, remote, base + i * 64 + 32, 32, 0))
			return -1;
	}
	return 0;
}

static int separate_queues(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true, .separate = true},
		.accept = ACCEPT_SEPARATE,
	};
	struct link *link = fx_link(fx, NULL, &attr);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct control_msg msg = {.command = CTL_SEND};
	unsigned char text[16];
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	op = op_new(fx);
	ret = fi_recv(link->conn.ep, source(link, 16, 0, 0), 16, link->local.desc, 0, op);
	if (ret)
		return failed_call(fx, "fi_recv", ret);
	msg.arg[0] = link->id;
	msg.len = sizeof(text);
	memset(text, 1, sizeof(text));
	return some_commits(link, remote, 0, 100) ||
			       target_call(link->target, &msg, text, sizeof(text)) ||
			       await(link, op) || remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* shared_cq -- a queue for several links, which the caller closes after them */
static struct fid_cq *shared_cq(struct fx *fx)
{
	struct conn_attr attr = {.format = FI_CQ_FORMAT_DATA};
	struct fid_cq *cq;
	int ret = cq_create(&fx->target->node, &attr, 4096, &cq);

	if (!ret)
		return cq;
	failed_call(fx, "fi_cq_open", ret);
	return NULL;
}

#define LINKS 4

struct crowd {
	struct fid_cq *cq;
	struct link *links[LINKS];
	struct remote *remotes[LINKS];
};

static int gather(struct fx *fx, struct crowd *crowd)
{
	struct link_attr attr = {.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true}};
	int i;

	crowd->cq = shared_cq(fx);
	if (!crowd->cq)
		return -1;
	attr.conn.cq = crowd->cq;
	for (i = 0; i < LINKS; i++) {
		crowd->links[i] = fx_link(fx, NULL, &attr);
		crowd->remotes[i] = crowd->links[i] ? pmem_region(fx, 65536) : NULL;
		if (!crowd->remotes[i])
			return -1;
	}
	return 0;
}

/* with_crowd -- run a case with links that share a queue, and close them */
static int with_crowd(struct fx *fx, int (*run)(struct fx *, struct crowd *))
{
	struct crowd crowd = {0};
	int ret = gather(fx, &crowd);
	unsigned int i;

	if (!ret)
		ret = run(fx, &crowd);
	for (i = 0; i < fx->nlinks; i++)
		link_close(&fx->links[i]);
	if (crowd.cq)
		close_fid(&crowd.cq->fid, "the shared completion queue");
	return ret;
}

/* as_written -- all memory has what was written, and nothing more completes */
static int as_written(struct fx *fx, struct crowd *crowd)
{
	unsigned int i;

	for (i = 0; i < LINKS; i++) {
		if (remote_same(fx, crowd->remotes[i]))
			return -1;
	}
	return linger(crowd->links[0], 20);
}

/* Commits of all links are outstanding at a time, and their completions come in one queue */
static int interleaved(struct fx *fx, struct crowd *crowd)
{
	struct write write = {.len = 64, .flags = COMMIT};
	struct op *ops[50 * LINKS];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.remote = crowd->remotes[i % LINKS];
		write.offset = i * 64;
		if (write_at(crowd->links[i % LINKS], &write, &ops[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (await(crowd->links[0], ops[i]))
			return -1;
	}
	return as_written(fx, crowd);
}

static int shared_queue(struct fx *fx)
{
	return with_crowd(fx, interleaved);
}

/* The end of one endpoint takes nothing from the others' completions */
static int close_one_of_several(struct fx *fx, struct crowd *crowd)
{
	struct write write = {.len = 64, .flags = COMMIT};
	struct op *ops[100];
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.remote = crowd->remotes[i % 2];
		write.offset = i * 64;
		if (write_at(crowd->links[i % 2], &write, &ops[i]))
			return -1;
	}
	ret = fi_close(&crowd->links[0]->conn.ep->fid);
	crowd->links[0]->conn.ep = NULL;
	if (ret)
		return failed_call(fx, "fi_close of the endpoint", ret);
	for (i = 1; i < ARRAY_SIZE(ops); i += 2) {
		if (await(crowd->links[1], ops[i]))
			return -1;
	}
	return linger(crowd->links[1], 50) || remote_same(fx, crowd->remotes[1]) ||
			       commit(crowd->links[2], crowd->remotes[2], 0, 64, 0)
		       ? -1
		       : 0;
}

static int shared_queue_close_one(struct fx *fx)
{
	return with_crowd(fx, close_one_of_several);
}

struct worker {
	pthread_t thread;
	struct link *link;
	struct remote *remote;
	int ret;
};

/* work -- a window of commits on a link of the thread's own; reaps for all */
static void *work(void *arg)
{
	struct worker *worker = arg;
	struct write write = {.remote = worker->remote, .len = 64, .flags = COMMIT};
	struct op *ops[16] = {NULL};
	int i;

	for (i = 0; !worker->ret && i < 500; i++) {
		if (ops[i % 16])
			worker->ret = await(worker->link, ops[i % 16]);
		write.offset = i * 64;
		if (!worker->ret)
			worker->ret = write_at(worker->link, &write, &ops[i % 16]);
	}
	for (i = 0; !worker->ret && i < 16; i++)
		worker->ret = await(worker->link, ops[i]);
	return NULL;
}

static int threaded(struct fx *fx, struct crowd *crowd)
{
	struct worker workers[LINKS] = {0};
	int i, started, ret = 0;

	for (started = 0; started < LINKS; started++) {
		workers[started].link = crowd->links[started];
		workers[started].remote = crowd->remotes[started];
		if (pthread_create(&workers[started].thread, NULL, work, &workers[started]))
			break;
	}
	for (i = 0; i < started; i++) {
		pthread_join(workers[i].thread, NULL);
		ret |= workers[i].ret;
	}
	if (expect(fx, started == LINKS, "no thread") || ret)
		return -1;
	return as_written(fx, crowd);
}

static int threads(struct fx *fx)
{
	return with_crowd(fx, threaded);
}

/* Several threads on one endpoint, each with its part of one region */
struct part {
	pthread_t thread;
	struct link *link;
	struct remote *remote;
	size_t base;
	struct op *ops[300];
	int ret;
};

static void *work_on_part(void *arg)
{
	struct part *part = arg;
	/* memory of the thread's own: source() is for one thread at a time */
	unsigned char *buf = (unsigned char *) part->link->local.buf + part->base;
	unsigned int i;

	for (i = 0; !part->ret && i < ARRAY_SIZE(part->ops); i++) {
		part->ops[i] = op_new(part->link->fx);
		part->ret = write_from(part->link, part->remote, part->base + i * 32, buf + i * 32,
				       32, COMMIT, 0, part->ops[i]);
	}
	for (i = 0; !part->ret && i < ARRAY_SIZE(part->ops); i++)
		part->ret = await(part->link, part->ops[i]);
	return NULL;
}

static int threads_one_endpoint(struct fx *fx)
{
	static struct part parts[4];
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, ARRAY_SIZE(parts) * 300 * 32) : NULL;
	size_t i, started;
	int ret = 0;

	if (!remote)
		return -1;
	pattern_fill(link->local.buf, remote->len, 99, 0);
	remote_expect(remote, 0, remote->len, 99);
	for (started = 0; started < ARRAY_SIZE(parts); started++) {
		parts[started] = (struct part){
			.link = link,
			.remote = remote,
			.base = started * 300 * 32,
		};
		if (pthread_create(&parts[started].thread, NULL, work_on_part, &parts[started]))
			break;
	}
	for (i = 0; i < started; i++) {
		pthread_join(parts[i].thread, NULL);
		ret |= parts[i].ret;
	}
	if (expect(fx, started == ARRAY_SIZE(parts), "no thread") || ret)
		return -1;
	return linger(link, 20) || remote_same(fx, remote) ? -1 : 0;
}

/* fill -- a receive for whoever has sent first */
static int fill(struct link *link, const struct remote *messages)
{
	struct control_msg msg = {
		.command = CTL_RECV,
		.arg = {link->id, messages->id, 0, 64, 64, 1},
	};
	int ret = target_call(link->target, &msg, NULL, 0);

	return ret ? failed_call(link->fx, "fi_recv at the target", ret) : 0;
}

/*
 * A message waits for a receive of the context, and what was sent behind it waits, too.  That is no
 * matter of another connection that has the same context, as long as it sends no message.
 */
static int shared_context_empty(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.accept = ACCEPT_SRX | ACCEPT_ONE_SRX | ACCEPT_BARE,
	};
	struct link *sender = fx_link(fx, NULL, &attr);
	struct link *other = sender ? fx_link(fx, NULL, &attr) : NULL;
	struct remote *remote = other ? pmem_region(fx, 65536) : NULL;
	struct remote *messages = remote ? fx_remote(fx, sender->target, 4096, FI_RECV, 0) : NULL;
	struct write write = {.remote = remote, .offset = 32768, .len = 64, .flags = COMMIT};
	struct op *message = op_new(fx), *behind;
	ssize_t ret;

	if (!messages)
		return -1;
	ret = fi_send(sender->conn.ep, source(sender, 32, 0, 0), 32, sender->local.desc, 0,
		      message);
	if (ret)
		return failed_call(fx, "fi_send", ret);
	if (write_at(sender, &write, &behind) || some_commits(other, remote, 0, 100) ||
	    fill(other, messages) || await(sender, behind))
		return -1;
	return remote_same(fx, remote);
}

/* The target receives messages and notices through a context that it shares */
static int shared_receive_context(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.accept = ACCEPT_SRX,
	};
	struct link *link = fx_link(fx, NULL, &attr);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT | FI_REMOTE_CQ_DATA};
	struct log_entry log[200];
	struct op *op;
	int i, n;

	if (!remote)
		return -1;
	for (i = 0; i < 100; i++) {
		write.offset = i * 64;
		write.data = i;
		if (write_at(link, &write, &op) || await(link, op))
			return -1;
	}
	n = get_log(link, log, ARRAY_SIZE(log), 100, 5000);
	if (n < 0 || expect(fx, n == 100, "the target got %d notices of 100", n))
		return -1;
	for (i = 0; i < n; i++) {
		if (expect(fx, log[i].data == (uint64_t) i, "notice %d has a wrong value", i))
			return -1;
	}
	return remote_same(fx, remote);
}

/* A receive is cancelled; commits go on as if nothing had been */
static int cancel(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	op = op_new(fx);
	ret = fi_recv(link->conn.ep, source(link, 64, 0, 0), 64, link->local.desc, 0, op);
	if (ret)
		return failed_call(fx, "fi_recv", ret);
	ret = fi_cancel(&link->conn.ep->fid, op);
	if (ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP)
		return skipped(fx, "the core provider does not cancel");
	if (ret)
		return failed_call(fx, "fi_cancel", ret);
	return await_error(link, op) ||
			       expect(fx, op->err == FI_ECANCELED,
				      "a cancelled receive ends with %s", fi_strerror(op->err)) ||
			       some_commits(link, remote, 0, 20) || remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* ---- private data of connections ---- */

static int connect_with(struct fx *fx, struct link *link, size_t len)
{
	struct control_msg msg = {.command = CTL_ACCEPT, .len = len};
	unsigned char ours[CM_DATA_MAX], theirs[CM_DATA_MAX];
	struct cm_event event;
	int here, there;

	pattern_fill(ours, len, 1, 0);
	pattern_fill(theirs, len, 2, 0);
	if (target_begin(link->target, &msg, theirs))
		return -1;
	here = conn_connect(&link->conn, ours, len, &event);
	there = target_finish(link->target, &msg, theirs, sizeof(theirs));
	if (here || there)
		return failed_call(fx, "connecting", here ? here : there);
	link->id = msg.arg[0];
	link->target->has_domain = true;
	/* RDMA may deliver more bytes than were sent, but none fewer or other */
	return expect(fx, msg.len >= len && pattern_check(theirs, len, 1, 0) == len,
		      "the target got %zu bytes of private data, wrong ones or too few of %zu",
		      (size_t) msg.len, len) ||
			       expect(fx, pattern_check(event.entry.data, len, 2, 0) == len,
				      "the private data of the answer are wrong")
		       ? -1
		       : 0;
}

static int private_data(struct fx *fx)
{
	struct link *link = fx_unconnected(fx, NULL, NULL);
	size_t max = 0, size = sizeof(max);
	struct remote *remote;
	int ret;

	if (!link)
		return -1;
	ret = fi_getopt(&link->conn.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &max, &size);
	if (ret)
		return failed_call(fx, "fi_getopt of FI_OPT_CM_DATA_SIZE", ret);
	if (expect(fx, max >= 24 && max <= CM_DATA_MAX, "FI_OPT_CM_DATA_SIZE is %zu", max) ||
	    connect_with(fx, link, max))
		return -1;
	remote = pmem_region(fx, 65536);
	return !remote || some_commits(link, remote, 0, 5) || remote_same(fx, remote) ? -1 : 0;
}

/* reject -- an attempt to connect; its data come with the error, behind it may be more */
static int reject(struct fx *fx, struct link *link, unsigned int seed)
{
	struct control_msg msg = {.command = CTL_REJECT, .len = 40};
	unsigned char data[40];
	struct cm_event event = {0};
	int here, there;

	pattern_fill(data, sizeof(data), seed, 0);
	if (target_begin(link->target, &msg, data))
		return -1;
	here = conn_connect(&link->conn, NULL, 0, &event);
	there = target_finish(link->target, &msg, NULL, 0);
	if (there)
		return failed_call(fx, "fi_reject at the target", there);
	return expect(fx, here == -FI_ECONNREFUSED && event.entry.fid == &link->conn.ep->fid,
		      "a rejected fi_connect ends with %s", fi_strerror(-here)) ||
			       expect(fx,
				      event.len >= sizeof(data) &&
					      pattern_check(event.entry.data, sizeof(data), seed,
							    0) == sizeof(data),
				      "the target's reason does not come")
		       ? -1
		       : 0;
}

/* The listener takes the next one after that. */
static int rejected(struct fx *fx)
{
	struct remote *remote;
	struct link *link;

	for (unsigned int i = 0; i < 3; i++) {
		link = fx_unconnected(fx, NULL, NULL);
		if (!link || reject(fx, link, i))
			return -1;
	}
	link = fx_link(fx, NULL, NULL);
	remote = link ? pmem_region(fx, 65536) : NULL;
	return !remote || some_commits(link, remote, 0, 5) || remote_same(fx, remote) ? -1 : 0;
}

const struct test_case sharing_cases[] = {
	{"separate_queues", separate_queues},
	{"shared_queue", shared_queue},
	{"shared_queue_close_one", shared_queue_close_one},
	{"threads", threads},
	{"threads_one_endpoint", threads_one_endpoint},
	{"shared_receive_context", shared_receive_context},
	{"shared_context_empty", shared_context_empty},
	{"cancel", cancel},
	{"private_data", private_data},
	{"rejected", rejected},
	{NULL, NULL},
};
