/* SPDX-License-Identifier: BSD-2-Clause */
/* net_events.c -- event queues and passive endpoints of that libfabric: how connections come and go
 */
#include "net_objects.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "testcore/fid.h"

struct net_event {
	struct net_event *next;
	uint32_t type; /* 0: an error */
	size_t len;
	struct fi_eq_cm_entry cm;
	char data[256];
};

/* Event queues */

static struct net_eq *to_eq(struct fid_eq *fid)
{
	return testcore_of(fid, struct net_eq, fid);
}

static void add_event(struct fid_eq *fid, uint32_t type, struct fid *about, struct fi_info *info,
		      const void *data, size_t len)
{
	struct net_event **at = &to_eq(fid)->events;
	struct net_event *event = testcore_need(calloc(1, sizeof(*event)));

	event->type = type;
	event->cm.fid = about;
	event->cm.info = info;
	event->len = len;
	if (len)
		memcpy(event->data, data, len);
	while (*at)
		at = &(*at)->next;
	*at = event;
}

void net_raise(struct fid_eq *eq, uint32_t type, struct fid *fid, struct fi_info *info,
	       const void *data, size_t len)
{
	add_event(eq, type, fid, info, data, len);
}

void net_fail(struct fid_eq *eq, struct fid *fid, const void *data, size_t len)
{
	add_event(eq, 0, fid, NULL, data, len);
}

static void drop_event(struct net_eq *eq)
{
	struct net_event *event = eq->events;

	eq->events = event->next;
	free(event);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *type, void *buf, size_t len, uint64_t flags)
{
	struct net_eq *eq = to_eq(fid);
	struct net_event *event = eq->events;
	ssize_t ret;

	(void) flags;
	if (!event)
		return -FI_EAGAIN;
	if (!event->type)
		return -FI_EAVAIL;
	ret = (ssize_t) (sizeof(event->cm) + event->len);
	if ((size_t) ret > len)
		return -FI_ETOOSMALL;
	*type = event->type;
	memcpy(buf, &event->cm, sizeof(event->cm));
	memcpy((char *) buf + sizeof(event->cm), event->data, event->len);
	drop_event(eq);
	return ret;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *type, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	if (net.on_idle)
		net.on_idle(to_eq(fid)->events ? 0 : timeout);
	return eq_read(fid, type, buf, len, flags);
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	/* It stays there until the next call, as a provider's does. */
	static char said[256];
	struct net_eq *eq = to_eq(fid);

	(void) flags;
	if (!eq->events || eq->events->type)
		return -FI_EAGAIN;
	memcpy(said, eq->events->data, sizeof(said));
	*entry = (struct fi_eq_err_entry){.fid = eq->events->cm.fid,
					  .err = FI_ECONNREFUSED,
					  .err_data = said,
					  .err_data_size = eq->events->len};
	drop_event(eq);
	return sizeof(*entry);
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.sread = eq_sread,
};

static int eq_close(struct fid *fid)
{
	struct net_eq *eq = testcore_of(fid, struct net_eq, fid.fid);

	while (eq->events) {
		fi_freeinfo(eq->events->cm.info);
		drop_event(eq);
	}
	close(eq->fd);
	free(eq);
	net.objects--;
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	return net_get_wait(testcore_of(fid, struct net_eq, fid.fid)->fd, command, arg);
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.control = eq_control,
};

int net_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		void *context)
{
	struct net_eq *eq = testcore_need(calloc(1, sizeof(*eq)));

	(void) fabric, (void) attr;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fi_ops;
	eq->fid.ops = &eq_ops;
	eq->fd = eventfd(0, EFD_CLOEXEC);
	net.eq = *fid = &eq->fid;
	net.objects++;
	return 0;
}

/* Passive endpoints */

static int pep_close(struct fid *fid)
{
	free(testcore_of(fid, struct fid_pep, fid));
	net.objects--;
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void) fid, (void) bfid, (void) flags;
	return 0;
}

static struct fi_ops pep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
};

static int pep_listen(struct fid_pep *fid)
{
	(void) fid;
	return 0;
}

static int pep_reject(struct fid_pep *fid, struct fid *handle, const void *param, size_t len)
{
	(void) fid, (void) handle, (void) param, (void) len;
	net.rejected++;
	return 0;
}

static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.listen = pep_listen,
	.reject = pep_reject,
};

int net_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **fid,
		   void *context)
{
	struct fid_pep *pep = testcore_need(calloc(1, sizeof(*pep)));

	(void) fabric, (void) info;
	pep->fid.fclass = FI_CLASS_PEP;
	pep->fid.context = context;
	pep->fid.ops = &pep_fi_ops;
	pep->cm = &pep_cm_ops;
	*fid = pep;
	net.objects++;
	return 0;
}
