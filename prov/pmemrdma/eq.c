/* SPDX-License-Identifier: BSD-2-Clause */
/* eq.c -- event queues */
#include "eq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "provider.h"

/* next_event -- the first one; NULL: there is none, and *ret says why.  Holds the lock. */
static struct pmr_event *next_event(struct pmr_eq *eq, ssize_t *ret)
{
	struct pmr_event *event;
	int got = 0;

	/* Events that concern nobody are skipped. */
	while (STAILQ_EMPTY(&eq->events) && got >= 0) {
		if (!eq->spare)
			eq->spare = malloc(sizeof(*eq->spare));
		event = eq->spare;
		if (!event) {
			got = -FI_ENOMEM;
			break;
		}
		memset(event, 0, sizeof(*event));
		got = pmr_event_take(eq->channel, event);
		if (got <= 0)
			continue;
		STAILQ_INSERT_TAIL(&eq->events, event, next);
		eq->spare = NULL;
	}
	*ret = got;
	return STAILQ_FIRST(&eq->events);
}

/* remove_first -- it was read.  Holds the lock. */
static void remove_first(struct pmr_eq *eq)
{
	struct pmr_event *event = STAILQ_FIRST(&eq->events);

	STAILQ_REMOVE_HEAD(&eq->events, next);
	free(event);
}

/* copy -- an event to where it is read; what does not fit is cut off, as verbs does it */
static ssize_t copy(const struct pmr_event *event, void *buf, size_t len)
{
	struct fi_eq_cm_entry entry = {.fid = event->fid, .info = event->info};
	size_t room = len;

	if (event->fid) {
		if (len < sizeof(entry))
			return -FI_ETOOSMALL;
		memcpy(buf, &entry, sizeof(entry));
		buf = (char *) buf + sizeof(entry);
		room -= sizeof(entry);
	}
	if (room > event->len)
		room = event->len;
	memcpy(buf, event->room, room);
	return (ssize_t) ((event->fid ? sizeof(entry) : 0) + room);
}

static ssize_t read_locked(struct pmr_eq *eq, uint32_t *event, void *buf, size_t len,
			   uint64_t flags)
{
	struct pmr_event *first;
	ssize_t ret;

	first = next_event(eq, &ret);
	if (!first)
		return ret;
	if (first->err)
		return -FI_EAVAIL;
	ret = copy(first, buf, len);
	if (ret < 0)
		return ret;
	*event = first->event;
	if (!(flags & FI_PEEK))
		remove_first(eq);
	return ret;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct pmr_eq *eq = pmr_to_eq(&fid->fid);
	ssize_t ret;

	pthread_mutex_lock(&eq->lock);
	ret = read_locked(eq, event, buf, len, flags);
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

/* copy_err_data -- into the reader's buffer, if it has one, else it gets ours until the next read
 */
static void copy_err_data(struct pmr_eq *eq, const struct pmr_event *event,
			  struct fi_eq_err_entry *entry)
{
	size_t len = event->len;

	if (entry->err_data && entry->err_data_size) {
		if (len > entry->err_data_size)
			len = entry->err_data_size;
		memcpy(entry->err_data, event->room, len);
		entry->err_data_size = len;
		return;
	}
	memcpy(eq->err_data, event->room, len);
	entry->err_data = len ? eq->err_data : NULL;
	entry->err_data_size = len;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	struct pmr_eq *eq = pmr_to_eq(&fid->fid);
	struct pmr_event *event;
	ssize_t ret = -FI_EAGAIN;

	(void) flags;
	pthread_mutex_lock(&eq->lock);
	event = STAILQ_FIRST(&eq->events);
	if (event && event->err) {
		entry->fid = event->fid;
		entry->context = event->fid->context;
		entry->data = 0;
		entry->err = event->err;
		entry->prov_errno = event->prov_errno;
		copy_err_data(eq, event, entry);
		remove_first(eq);
		ret = sizeof(*entry);
	}
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t type, const void *buf, size_t len,
			uint64_t flags)
{
	struct pmr_eq *eq = pmr_to_eq(&fid->fid);
	struct pmr_event *event;

	(void) flags;
	if (len > sizeof(event->room))
		return -FI_EINVAL;
	event = calloc(1, sizeof(*event));
	if (!event)
		return -FI_ENOMEM;
	event->event = type;
	event->len = len;
	if (len)
		memcpy(event->room, buf, len);
	pthread_mutex_lock(&eq->lock);
	STAILQ_INSERT_TAIL(&eq->events, event, next);
	pthread_mutex_unlock(&eq->lock);
	pmr_wait_wake(&eq->wait);
	return (ssize_t) len;
}

int pmr_eq_trywait(struct pmr_eq *eq)
{
	struct pmr_event *event;
	ssize_t ret = 0;

	pthread_mutex_lock(&eq->lock);
	pmr_wait_reset(&eq->wait);
	event = next_event(eq, &ret);
	pthread_mutex_unlock(&eq->lock);
	if (event)
		return -FI_EAGAIN;
	return ret == -FI_EAGAIN ? 0 : (int) ret;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	struct pmr_eq *eq = pmr_to_eq(&fid->fid);
	int64_t deadline = pmr_wait_deadline(timeout);
	ssize_t ret;

	for (;;) {
		ret = eq_read(fid, event, buf, len, flags);
		if (ret != -FI_EAGAIN)
			return ret;
		ret = pmr_eq_trywait(eq);
		if (!ret)
			ret = pmr_wait_sleep(&eq->wait, deadline);
		else if (ret == -FI_EAGAIN)
			continue;
		if (ret)
			return ret;
	}
}

/* The reasons of InfiniBand's connection manager that are ordinary. */
enum {
	NOBODY_LISTENS = 8,
	STALE_CONNECTION = 10,
	APPLICATION_REJECTS = 28,
};

static const char *rejection(int reason)
{
	switch (reason) {
	case NOBODY_LISTENS:
		return "Rejected: nobody listens there";
	case STALE_CONNECTION:
		return "Rejected: the peer still has an old connection of this queue pair";
	case APPLICATION_REJECTS:
		return "Rejected by the peer's application";
	default:
		return "Rejected by the peer's connection manager";
	}
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *data, char *buf,
			       size_t len)
{
	const char *text = prov_errno > 0 ? rejection(prov_errno) : strerror(-prov_errno);

	(void) fid;
	(void) data;
	if (buf && len) {
		strncpy(buf, text, len - 1);
		buf[len - 1] = '\0';
	}
	return text;
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int pmr_eq_adopt(struct pmr_eq *eq, struct rdma_cm_id *id)
{
	if (id->channel == eq->channel)
		return 0;
	return rdma_migrate_id(id, eq->channel) ? -errno : 0;
}

void pmr_eq_forget(struct pmr_eq *eq, const struct fid *fid)
{
	struct pmr_event *event = STAILQ_FIRST(&eq->events), *next;

	for (; event; event = next) {
		next = STAILQ_NEXT(event, next);
		if (event->fid != fid)
			continue;
		STAILQ_REMOVE(&eq->events, event, pmr_event, next);
		pmr_event_drop(event);
		free(event);
	}
}

static int eq_close(struct fid *fid)
{
	struct pmr_eq *eq = pmr_to_eq(fid);

	if (atomic_load(&eq->users))
		return -FI_EBUSY;
	while (!STAILQ_EMPTY(&eq->events)) {
		pmr_event_drop(STAILQ_FIRST(&eq->events));
		remove_first(eq);
	}
	free(eq->spare);
	pmr_wait_close(&eq->wait);
	if (eq->channel)
		rdma_destroy_event_channel(eq->channel);
	pthread_mutex_destroy(&eq->lock);
	atomic_fetch_sub(&eq->fabric->users, 1);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct pmr_eq *eq = pmr_to_eq(fid);

	return pmr_wait_control(&eq->wait, eq->wait_obj, command, arg);
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = pmr_no_bind,
	.control = eq_control,
	.ops_open = pmr_no_ops_open,
};

int pmr_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq_fid,
		void *context)
{
	enum fi_wait_obj wait_obj = attr ? attr->wait_obj : FI_WAIT_UNSPEC;
	struct pmr_eq *eq;
	int ret;

	/* As with verbs, the default of an attribute that is zeroed can be slept on. */
	if (wait_obj == FI_WAIT_NONE || wait_obj == FI_WAIT_UNSPEC)
		wait_obj = FI_WAIT_FD;
	if (wait_obj != FI_WAIT_FD && wait_obj != FI_WAIT_POLLFD)
		return -FI_ENOSYS;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	eq->fabric = pmr_to_fabric(fabric);
	eq->wait_obj = wait_obj;
	eq->wait.fd = eq->wait.event_fd = -1;
	eq->eq_fid.fid = (struct fid){FI_CLASS_EQ, context, &eq_fi_ops};
	eq->eq_fid.ops = &eq_ops;
	pthread_mutex_init(&eq->lock, NULL);
	STAILQ_INIT(&eq->events);
	atomic_fetch_add(&eq->fabric->users, 1);
	eq->channel = rdma_create_event_channel();
	ret = eq->channel ? pmr_wait_open(&eq->wait, eq->channel->fd) : -errno;
	if (ret) {
		eq_close(&eq->eq_fid.fid);
		return ret;
	}
	*eq_fid = &eq->eq_fid;
	return 0;
}
