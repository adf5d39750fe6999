/* SPDX-License-Identifier: BSD-2-Clause */
/* core_pep.c -- passive endpoints of the simulated core, and requests to connect */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "scheduler.h"
#include "testcore/fid.h"

struct core_pep {
	struct fid_pep fid;
	struct core_domain *domain;
	struct core_eq *eq;
	struct fi_info *info;
};

/* Until it is accepted or rejected. */
struct core_request {
	struct fid fid;
	struct core_domain *domain;
	struct core_ep *caller; /* NULL: it has gone */
};

static struct core_pep *to_pep(struct fid *fid)
{
	return testcore_of(fid, struct core_pep, fid.fid);
}

static struct core_request *to_request(struct fid *handle)
{
	return testcore_of(handle, struct core_request, fid);
}

/* Options: only how much data a request has room for */

static int ep_getopt(struct fid *fid, int level, int name, void *value, size_t *len)
{
	size_t room = CORE_CM_DATA;

	(void) fid;
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE || *len < sizeof(room))
		return -FI_ENOPROTOOPT;
	memcpy(value, &room, sizeof(room));
	return 0;
}

struct fi_ops_ep core_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.getopt = ep_getopt,
};

/* Requests */

int core_call(struct fid_ep *caller, struct fid_pep *pep_fid, const void *data, size_t len)
{
	struct core_pep *pep = to_pep(&pep_fid->fid);
	struct core_request *request = testcore_need(calloc(1, sizeof(*request)));
	struct fi_info *info = testcore_need(fi_dupinfo(pep->info));
	struct core_event *event;

	request->fid.fclass = FI_CLASS_CONNREQ;
	request->domain = pep->domain;
	request->domain->open_objects++;
	request->caller = core_to_ep(&caller->fid);
	request->caller->request = request;
	info->handle = &request->fid;
	event = core_eq_add(pep->eq, FI_CONNREQ, &pep->fid.fid);
	event->entry.info = info;
	event->len = len;
	memcpy(event->data, data, len);
	return 0;
}

void core_hang_up_call(struct core_ep *caller)
{
	if (caller->request)
		caller->request->caller = NULL;
	caller->request = NULL;
}

static void end_request(struct core_request *request)
{
	if (request->caller)
		request->caller->request = NULL;
	request->domain->open_objects--;
	free(request);
}

struct core_request *core_request_of(const struct fi_info *info)
{
	return info->handle ? to_request(info->handle) : NULL;
}

int core_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct core_ep *ep = core_to_ep(&fid->fid);
	struct core_ep *caller;

	(void) param, (void) paramlen;
	sched_step();
	/* It may have gone just now. */
	caller = ep->request->caller;
	end_request(ep->request);
	ep->request = NULL;
	if (caller)
		core_connect(fid, &caller->core.fid);
	else
		core_hang_up(ep, false);
	core_eq_add(ep->eq, FI_CONNECTED, &fid->fid);
	sched_step();
	return 0;
}

static int pep_reject(struct fid_pep *pep, struct fid *handle, const void *param, size_t paramlen)
{
	(void) pep, (void) param, (void) paramlen;
	sched_step();
	end_request(to_request(handle));
	return 0;
}

/* Passive endpoints */

static int pep_listen(struct fid_pep *pep)
{
	(void) pep;
	return 0;
}

static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.listen = pep_listen,
	.reject = pep_reject,
};

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void) flags;
	to_pep(fid)->eq = testcore_of(bfid, struct core_eq, fid.fid);
	return 0;
}

static int pep_close(struct fid *fid)
{
	struct core_pep *pep = to_pep(fid);

	pep->domain->open_objects--;
	fi_freeinfo(pep->info);
	free(pep);
	return 0;
}

static struct fi_ops pep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
};

int core_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **fid,
		  void *context)
{
	struct core_pep *pep = testcore_need(calloc(1, sizeof(*pep)));

	pep->info = testcore_need(fi_dupinfo(info));
	pep->domain = testcore_of(fabric, struct core_domain, fabric);
	pep->domain->open_objects++;
	pep->fid = (struct fid_pep){
		.fid = {.fclass = FI_CLASS_PEP, .context = context, .ops = &pep_fi_ops},
		.cm = &pep_cm_ops,
	};
	*fid = &pep->fid;
	return 0;
}
