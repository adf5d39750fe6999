/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_gone.c -- the target's machine goes while operations are under way
 *
 * A command in the environment stands in for that.  It cuts off what the provider has connected;
 * the control connections stay.
 */
#include "functional.h"

/* await_event -- asleep, and nothing else is called meanwhile */
static int await_event(struct fx *fx, struct link *link, struct cm_event *event)
{
	int ret;

	do
		ret = node_event(link->conn.node, event, 1000);
	while (!ret && !is_late(fx));
	return expect(fx, ret == 1, "there is no event of the lost connection");
}

static int ended_as(struct link *link, struct op *op, int err, const char *what)
{
	return await_error(link, op) || expect(link->fx, op->err == err, "%s: %s instead of %s",
					       what, fi_strerror(op->err), fi_strerror(err));
}

static int gone_asleep(struct fx *fx)
{
	static const struct link_attr attr = {.conn = {.wait = FI_WAIT_UNSPEC}};
	struct target_proc *target = fx_target(fx, NULL);
	struct link *link = target ? fx_link(fx, target, &attr) : NULL;
	struct remote *remote =
		link ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE | FI_REMOTE_READ, FI_RMA_PMEM)
		     : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct op *committed, *read;
	struct cm_event event;
	ssize_t ret;

	if (!remote || commit(link, remote, 0, 64, 0))
		return -1;
	if (control_have("PMEM_GONE_CUT"))
		return failed(fx, "PMEM_GONE_CUT has failed");
	/* No call has to wait for room: the events of the connection would be dropped then. */
	if (read_at(link, remote, 0, 64, source(link, 64, 0, 0), &read))
		return -1;
	ret = post_write(link, &write, &committed);
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	return await_event(fx, link, &event) ||
			       expect(fx, !event.err && event.event == FI_SHUTDOWN,
				      "event %u, error %d, instead of FI_SHUTDOWN", event.event,
				      event.err) ||
			       ended_as(link, committed, FI_ETIMEDOUT, "a commit") ||
			       ended_as(link, read, FI_ETIMEDOUT, "a read")
		       ? -1
		       : 0;
}

/* mended -- what a case returns: the next one needs the machine again */
static int mended(struct fx *fx, int ret)
{
	return control_have("PMEM_GONE_MEND") ? failed(fx, "PMEM_GONE_MEND has failed") : ret;
}

static int machine_gone(struct fx *fx)
{
	return mended(fx, gone_asleep(fx));
}

/* Several links share a queue.  The first one, of which the queue could know more, is closed. */
#define SHARING 3

struct sharing {
	struct fid_cq *cq;
	struct link *links[SHARING];
	struct remote *remotes[SHARING];
	struct op *ops[SHARING][3];
};

static int share(struct fx *fx, struct sharing *sharing)
{
	static const struct conn_attr cq_attr = {.format = FI_CQ_FORMAT_DATA};
	struct link_attr attr = {.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true}};
	int ret = cq_create(&fx->target->node, &cq_attr, 4096, &sharing->cq);

	if (ret)
		return failed_call(fx, "fi_cq_open", ret);
	attr.conn.cq = sharing->cq;
	for (int i = 0; i < SHARING; i++) {
		sharing->links[i] = fx_link(fx, NULL, &attr);
		sharing->remotes[i] = sharing->links[i] ? pmem_region(fx, 4096) : NULL;
		if (!sharing->remotes[i] ||
		    commit(sharing->links[i], sharing->remotes[i], 0, 64, 0))
			return -1;
	}
	return 0;
}

/* post_all -- a write that the core alone carries out, a read, and a commit */
static int post_all(struct link *link, struct remote *remote, struct op **ops)
{
	struct write plain = {
		.remote = remote, .len = 64, .flags = FI_COMPLETION | FI_DELIVERY_COMPLETE};
	struct write committed = {.remote = remote, .len = 64, .flags = COMMIT};
	ssize_t ret = post_write(link, &plain, &ops[0]);

	if (!ret && read_at(link, remote, 64, 64, source(link, 64, 0, 0), &ops[1]))
		return -1;
	if (!ret)
		ret = post_write(link, &committed, &ops[2]);
	return ret ? failed_call(link->fx, "fi_writemsg", ret) : 0;
}

static int all_gone(struct fx *fx, struct sharing *sharing)
{
	static const char *const names[] = {"a write", "a read", "a commit"};

	link_close(sharing->links[0]);
	if (control_have("PMEM_GONE_CUT"))
		return failed(fx, "PMEM_GONE_CUT has failed");
	for (int i = 1; i < SHARING; i++) {
		if (post_all(sharing->links[i], sharing->remotes[i], sharing->ops[i]))
			return -1;
	}
	for (int i = 3; i < 3 * SHARING; i++) {
		if (ended_as(sharing->links[i / 3], sharing->ops[i / 3][i % 3], FI_ETIMEDOUT,
			     names[i % 3]))
			return -1;
	}
	return 0;
}

static int machine_gone_shared(struct fx *fx)
{
	struct sharing sharing = {0};
	int ret = mended(fx, share(fx, &sharing) || all_gone(fx, &sharing) ? -1 : 0);

	for (unsigned int i = 0; i < fx->nlinks; i++)
		link_close(&fx->links[i]);
	if (sharing.cq)
		close_fid(&sharing.cq->fid, "the shared completion queue");
	return ret;
}

const struct test_case gone_cases[] = {
	{"machine_gone", machine_gone},
	{"machine_gone_shared", machine_gone_shared},
	{0},
};
