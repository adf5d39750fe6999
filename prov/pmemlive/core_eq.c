/* SPDX-License-Identifier: BSD-2-Clause */
/* core_eq.c -- the simulated core's event queues */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "scheduler.h"
#include "testcore/fid.h"

static struct core_eq *to_eq(struct fid *fid)
{
	return testcore_of(fid, struct core_eq, fid.fid);
}

int core_eq_trywait(struct fid *fid)
{
	return STAILQ_EMPTY(&to_eq(fid)->events) ? 0 : -FI_EAGAIN;
}

static void drop(struct core_eq *eq)
{
	struct core_event *event = STAILQ_FIRST(&eq->events);

	STAILQ_REMOVE_HEAD(&eq->events, next);
	free(event);
}

/* read_error -- it stays the queue's until the next one is read */
static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct core_eq *eq = to_eq(&fid->fid);
	struct core_event *first = STAILQ_FIRST(&eq->events);

	(void) flags;
	sched_step();
	if (!first || !first->err)
		return -FI_EAGAIN;
	STAILQ_REMOVE_HEAD(&eq->events, next);
	free(eq->last);
	eq->last = first;
	*buf = (struct fi_eq_err_entry){
		.fid = first->entry.fid,
		.context = first->entry.fid->context,
		.err = first->err,
		.err_data = first->len ? first->data : NULL,
		.err_data_size = first->len,
	};
	return sizeof(*buf);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct core_eq *eq = to_eq(&fid->fid);
	const struct core_event *first;
	size_t size;

	sched_step();
	/* In tcp 2.1 this is a call as any other. */
	if (core_rules.moves_all)
		core_move(eq->domain, NULL);
	else
		core_cm_move(eq->domain, eq);
	first = STAILQ_FIRST(&eq->events);
	if (!first)
		return -FI_EAGAIN;
	if (first->err)
		return -FI_EAVAIL;
	if (len < sizeof(first->entry))
		return -FI_ETOOSMALL;
	*event = first->event;
	size = sizeof(first->entry) + first->len;
	memcpy(buf, &first->entry, sizeof(first->entry));
	memcpy((char *) buf + sizeof(first->entry), first->data,
	       len < size ? len - sizeof(first->entry) : first->len);
	if (!(flags & FI_PEEK))
		drop(eq);
	return (ssize_t) size;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	(void) buf, (void) flags;
	core_eq_add(to_eq(&fid->fid), event, NULL);
	sched_step();
	return (ssize_t) len;
}

/* has_news -- in tcp 2.1 it also wakes up for data, and moves them */
static bool has_news(void *arg)
{
	const struct core_eq *eq = arg;
	const struct core_ep *ep;

	if (!STAILQ_EMPTY(&eq->events))
		return true;
	TAILQ_FOREACH(ep, &eq->domain->eps, next)
	{
		if ((core_rules.moves_all && core_is_ready(ep)) ||
		    ((core_rules.moves_all || ep->eq == eq) && core_cm_is_ready(ep)))
			return true;
	}
	return false;
}

/* no_edges -- nobody asks for them */
static uint64_t no_edges(void *arg)
{
	(void) arg;
	return 0;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	int64_t until = timeout < 0 ? SCHED_NEVER : sched_now_ns + timeout * INT64_C(1000000);
	struct core_eq *eq = to_eq(&fid->fid);
	ssize_t ret;

	while ((ret = eq_read(fid, event, buf, len, flags)) == -FI_EAGAIN && sched_now_ns < until)
		sched_block("sleeps in the core's event queue", has_news, eq, until);
	return ret;
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
};

static int eq_close(struct fid *fid)
{
	struct core_eq *eq = to_eq(fid);

	close(eq->fd);
	free(eq->last);
	while (!STAILQ_EMPTY(&eq->events))
		drop(eq);
	eq->domain->open_objects--;
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *) arg = FI_WAIT_FD;
		return 0;
	}
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	*(int *) arg = to_eq(fid)->fd;
	return 0;
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.control = eq_control,
};

int core_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		 void *context)
{
	struct core_eq *eq = testcore_need(calloc(1, sizeof(*eq)));

	(void) attr;
	eq->domain = testcore_of(fabric, struct core_domain, fabric);
	eq->domain->open_objects++;
	eq->descriptor = (struct descriptor_core){has_news, no_edges, NULL, eq};
	eq->fd = descriptors_add(&eq->descriptor);
	STAILQ_INIT(&eq->events);
	eq->fid = (struct fid_eq){
		.fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_fi_ops},
		.ops = &eq_ops,
	};
	*fid = &eq->fid;
	return 0;
}
