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

static int machine_gone(struct fx *fx)
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

const struct test_case gone_cases[] = {
	{"machine_gone", machine_gone},
	{0},
};
