/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_eq.c -- event queues and passive endpoints of the fake core */
#include "fake_core.h"

#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "fake_impl.h"
#include "testcore/fid.h"

struct fake_event {
	struct fake_event *next;
	bool is_error;
	uint32_t event;
	size_t len;
	union {
		struct fi_eq_err_entry err;
		char room[512];
	};
};

struct fake_eq {
	struct fid_eq fid;
	pthread_mutex_t lock; /* of the events: other threads may write some */
	struct fake *fake;
	enum fi_wait_obj wait_obj;
	struct fake_event *events;
};

static void add_event(struct fake_eq *eq, const struct fake_event *event)
{
	struct fake_event **at = &eq->events;
	struct fake_event *copy = testcore_need(malloc(sizeof(*copy)));

	*copy = *event;
	pthread_mutex_lock(&eq->lock);
	while (*at)
		at = &(*at)->next;
	*at = copy;
	pthread_mutex_unlock(&eq->lock);
}

void fake_raise(struct fid_eq *fid, uint32_t event, const void *entry, size_t len)
{
	struct fake_event add = {.event = event, .len = len};

	memcpy(add.room, entry, len);
	add_event(testcore_of(fid, struct fake_eq, fid), &add);
}

void fake_raise_error(struct fid_eq *fid, const struct fi_eq_err_entry *entry)
{
	add_event(testcore_of(fid, struct fake_eq, fid),
		  &(struct fake_event){.is_error = true, .err = *entry});
}

static void drop_event(struct fake_eq *eq)
{
	struct fake_event *event = eq->events;

	eq->events = event->next;
	free(event);
}

/* read_first -- with the lock */
static ssize_t read_first(struct fake_eq *eq, uint32_t *event, void *buf, size_t len,
			  uint64_t flags)
{
	ssize_t ret;

	if (!eq->events)
		return -FI_EAGAIN;
	if (eq->events->is_error)
		return -FI_EAVAIL;
	if (eq->events->len > len)
		return -FI_ETOOSMALL;
	*event = eq->events->event;
	ret = (ssize_t) eq->events->len;
	memcpy(buf, eq->events->room, eq->events->len);
	if (!(flags & FI_PEEK))
		drop_event(eq);
	return ret;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct fake_eq *eq = testcore_of(fid, struct fake_eq, fid);
	ssize_t ret;

	pthread_mutex_lock(&eq->lock);
	ret = read_first(eq, event, buf, len, flags);
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct fake_eq *eq = testcore_of(fid, struct fake_eq, fid);

	(void) flags;
	if (!eq->events || !eq->events->is_error)
		return -FI_EAGAIN;
	*buf = eq->events->err;
	drop_event(eq);
	return sizeof(*buf);
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	(void) flags;
	fake_raise(fid, event, buf, len);
	return (ssize_t) len;
}

/* Nothing arrives while somebody waits. */
static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	ssize_t ret = eq_read(fid, event, buf, len, flags);

	if (ret == -FI_EAGAIN && timeout > 0)
		usleep(timeout * 1000);
	return ret;
}

bool fake_eq_is_empty(struct fid *fid)
{
	struct fake_eq *eq = testcore_of(fid, struct fake_eq, fid.fid);
	bool is_empty;

	pthread_mutex_lock(&eq->lock);
	is_empty = !eq->events;
	pthread_mutex_unlock(&eq->lock);
	return is_empty;
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
	struct fake_eq *eq = testcore_of(fid, struct fake_eq, fid.fid);

	while (eq->events)
		drop_event(eq);
	eq->fake->open_objects--;
	pthread_mutex_destroy(&eq->lock);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	const struct fake_eq *eq = testcore_of(fid, struct fake_eq, fid.fid);

	if (command != FI_GETWAIT || !eq->fake->eq_fd)
		return -FI_ENOSYS;
	if (eq->wait_obj == FI_WAIT_POLLFD)
		((struct fi_wait_pollfd *) arg)->fd->fd = eq->fake->eq_fd;
	else
		*(int *) arg = eq->fake->eq_fd;
	return 0;
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.control = eq_control,
};

int fake_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		 void *context)
{
	struct fake *fake = testcore_of(fabric, struct fake, fabric);
	int ret = fake_may_open(fake);
	struct fake_eq *eq;

	if (ret)
		return ret;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	eq->fake = fake;
	eq->wait_obj = attr ? attr->wait_obj : FI_WAIT_NONE;
	eq->fake->open_objects++;
	pthread_mutex_init(&eq->lock, NULL);
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fi_ops;
	eq->fid.ops = &eq_ops;
	*fid = &eq->fid;
	return 0;
}

/* Passive endpoints */

struct fake_pep {
	struct fid_pep fid;
	struct fake *fake;
	struct sockaddr_in name;
};

static int pep_close(struct fid *fid)
{
	free(testcore_of(fid, struct fake_pep, fid.fid));
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void) fid, (void) flags;
	return bfid->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static struct fi_ops pep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
};

static int pep_reject(struct fid_pep *fid, struct fid *handle, const void *param, size_t len)
{
	struct fake *fake = testcore_of(fid, struct fake_pep, fid)->fake;

	/* The room that verbs has. */
	if (len > 55)
		return -FI_EINVAL;
	fake->rejections++;
	fake->rejected = handle;
	fake->rejected_len = len;
	if (len)
		memcpy(fake->rejected_with, param, len);
	return 0;
}

static int pep_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	const struct sockaddr_in *name = &testcore_of(fid, struct fake_pep, fid.fid)->name;

	memcpy(addr, name, *addrlen < sizeof(*name) ? *addrlen : sizeof(*name));
	*addrlen = sizeof(*name);
	return 0;
}

static int pep_listen(struct fid_pep *fid)
{
	(void) fid;
	return 0;
}

static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.getname = pep_getname,
	.listen = pep_listen,
	.reject = pep_reject,
};

int fake_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **fid,
		  void *context)
{
	struct fake *fake = testcore_of(fabric, struct fake, fabric);
	int ret = fake_may_open(fake);
	struct fake_pep *pep;

	if (ret)
		return ret;
	if (fake->ports_taken && info->src_addr) {
		fake->ports_taken--;
		return -FI_EADDRINUSE;
	}
	pep = calloc(1, sizeof(*pep));
	if (!pep)
		return -FI_ENOMEM;
	if (info->src_addr)
		memcpy(&pep->name, info->src_addr, sizeof(pep->name));
	else
		pep->name =
			(struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(FAKE_PORT)};
	pep->fake = fake;
	pep->fid.fid.fclass = FI_CLASS_PEP;
	pep->fid.fid.context = context;
	pep->fid.fid.ops = &pep_fi_ops;
	pep->fid.cm = &pep_cm_ops;
	*fid = &pep->fid;
	return 0;
}
