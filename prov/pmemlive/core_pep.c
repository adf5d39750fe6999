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
	LIST_ENTRY(core_pep) next;
	bool listens;
	struct core_domain *domain;
	struct core_eq *eq;
	struct fi_info *info;
};

/* Until it is accepted or rejected. */
struct core_request {
	struct fid fid;
	LIST_ENTRY(core_request) next;
	struct core_domain *domain;
	struct core_ep *caller;   /* NULL: it has gone */
	struct core_ep *acceptor; /* is to accept it, if any */
};

static LIST_HEAD(, core_pep) peps = LIST_HEAD_INITIALIZER(peps);
static LIST_HEAD(, core_request) requests = LIST_HEAD_INITIALIZER(requests);

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

/* name_caller -- as its socket's other end sees it */
static void name_caller(const struct core_pep *pep, struct fi_info *info, struct core_ep *caller)
{
	size_t len = sizeof(struct sockaddr_in);
	struct sockaddr_in *addr = testcore_need(malloc(len));

	fi_getname(&caller->core.fid.fid, addr, &len);
	addr->sin_addr.s_addr = htonl(ntohl(addr->sin_addr.s_addr) + pep->domain->alias);
	free(info->dest_addr);
	info->dest_addr = addr;
	info->dest_addrlen = len;
}

void core_pep_call(struct core_pep *pep, struct core_ep *caller, const void *data, size_t len)
{
	struct core_request *request = testcore_need(calloc(1, sizeof(*request)));
	struct fi_info *info = testcore_need(fi_dupinfo(pep->info));
	struct core_event *event;

	request->fid.fclass = FI_CLASS_CONNREQ;
	request->domain = pep->domain;
	request->domain->open_objects++;
	request->caller = caller;
	request->caller->request = request;
	LIST_INSERT_HEAD(&requests, request, next);
	info->handle = &request->fid;
	if (caller->connecting)
		name_caller(pep, info, caller);
	event = core_eq_add(pep->eq, FI_CONNREQ, &pep->fid.fid);
	event->entry.info = info;
	event->len = len;
	memcpy(event->data, data, len);
}

int core_call(struct fid_ep *caller, struct fid_pep *pep, const void *data, size_t len)
{
	core_pep_call(to_pep(&pep->fid), core_to_ep(&caller->fid), data, len);
	return 0;
}

struct core_pep *core_pep_at(const struct core_domain *domain)
{
	struct core_pep *pep;

	LIST_FOREACH(pep, &peps, next)
	{
		if (pep->domain == domain && pep->listens)
			return pep;
	}
	return NULL;
}

void core_hang_up_call(struct core_ep *caller)
{
	struct core_request *request = caller->request;

	if (request && request->acceptor == caller)
		request->acceptor = NULL;
	else if (request)
		request->caller = NULL;
	caller->request = NULL;
}

static void end_request(struct core_request *request)
{
	if (request->caller)
		request->caller->request = NULL;
	if (request->acceptor)
		request->acceptor->request = NULL;
	request->domain->open_objects--;
	LIST_REMOVE(request, next);
	free(request);
}

bool core_pep_is_asked(const struct fid_pep *pep)
{
	const struct core_domain *domain = testcore_of(pep, const struct core_pep, fid)->domain;
	const struct core_request *request;

	LIST_FOREACH(request, &requests, next)
	{
		if (request->domain == domain)
			return true;
	}
	return false;
}

/* end_requests -- nobody answers them any more */
static void end_requests(struct core_domain *domain)
{
	struct core_request *request, *next;

	for (request = LIST_FIRST(&requests); request; request = next) {
		next = LIST_NEXT(request, next);
		if (request->domain != domain)
			continue;
		core_hang_up(request->caller, false);
		end_request(request);
	}
}

void core_take_request(struct core_ep *ep, const struct fi_info *info)
{
	if (!info->handle)
		return;
	ep->request = to_request(info->handle);
	ep->request->acceptor = ep;
}

/* say -- to somebody who has called */
static void say(struct core_ep *caller, int kind, const void *param, size_t len)
{
	struct core_message message = {.kind = kind, .op.len = len};

	if (len) {
		message.payload = testcore_need(malloc(len));
		memcpy(message.payload, param, len);
	}
	core_tell(caller, &message);
}

int core_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct core_ep *ep = core_to_ep(&fid->fid);
	struct core_ep *caller;

	sched_step();
	/* It may have gone just now. */
	caller = ep->request->caller;
	end_request(ep->request);
	if (caller)
		core_connect(fid, &caller->core.fid);
	else
		core_hang_up(ep, false);
	if (caller && caller->connecting)
		say(caller, CORE_ACCEPTED, param, paramlen);
	core_eq_add(ep->eq, FI_CONNECTED, &fid->fid);
	sched_step();
	return 0;
}

static int pep_reject(struct fid_pep *pep, struct fid *handle, const void *param, size_t paramlen)
{
	struct core_request *request = to_request(handle);

	(void) pep;
	sched_step();
	if (request->caller && request->caller->connecting)
		say(request->caller, CORE_REFUSED, param, paramlen);
	end_request(request);
	return 0;
}

/* Passive endpoints */

static int pep_listen(struct fid_pep *pep)
{
	to_pep(&pep->fid)->listens = true;
	return 0;
}

static int pep_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	const struct core_domain *domain = to_pep(fid)->domain;
	const struct sockaddr_in here = {.sin_family = AF_INET,
					 .sin_port = htons(domain->port),
					 .sin_addr.s_addr = htonl(domain->ip)};

	memcpy(addr, &here, *addrlen < sizeof(here) ? *addrlen : sizeof(here));
	*addrlen = sizeof(here);
	return 0;
}

static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.listen = pep_listen,
	.getname = pep_getname,
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

	LIST_REMOVE(pep, next);
	if (pep->listens)
		end_requests(pep->domain);
	core_eq_forget(pep->eq, fid);
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
	LIST_INSERT_HEAD(&peps, pep, next);
	pep->fid = (struct fid_pep){
		.fid = {.fclass = FI_CLASS_PEP, .context = context, .ops = &pep_fi_ops},
		.ops = &core_ep_ops,
		.cm = &pep_cm_ops,
	};
	*fid = &pep->fid;
	return 0;
}

void core_pep_kill(struct core_domain *domain)
{
	struct core_pep *pep, *next;

	end_requests(domain);
	for (pep = LIST_FIRST(&peps); pep; pep = next) {
		next = LIST_NEXT(pep, next);
		if (pep->domain == domain)
			LIST_REMOVE(pep, next);
	}
}
