/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c -- connecting endpoints: the core's calls */
#include "objects/ep.h"

#include <rdma/fi_errno.h>

#include "objects/handshake.h"
#include "objects/unwrap.h"

static int cm_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	return fi_getpeer(pmv_to_ep(fid)->engine.fid, addr, addrlen);
}

/* promise -- an agent, in a handshake; where keys say nothing, nobody commits */
static int promise(struct pmv_ep *ep, const void *param, size_t paramlen, struct pmv_cm_data *data)
{
	int ret = ep->domain->keyed ? pmv_agent_promise(&ep->domain->agent, &ep->mailbox.receiver)
				    : 0;

	return ret ? ret : pmv_handshake_append(ep, param, paramlen, data);
}

static int cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct pmv_cm_data data;
	int ret = pmv_ep_prepare(ep);

	if (!ret)
		ret = promise(ep, param, paramlen, &data);
	return ret ? ret : fi_connect(ep->engine.fid, addr, data.data, data.len);
}

static int cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct pmv_cm_data data;
	int ret = pmv_ep_prepare(ep);

	if (ret)
		return ret;
	if (!ep->mailbox.link.connected)
		return fi_accept(ep->engine.fid, param, paramlen);
	ret = promise(ep, param, paramlen, &data);
	if (ret)
		return ret;
	/* The peer may commit as soon as it has the handshake. */
	ret = pmv_agent_attach(&ep->domain->agent, &ep->mailbox.receiver);
	if (!ret)
		ret = fi_accept(ep->engine.fid, data.data, data.len);
	if (ret)
		pmv_agent_detach(&ep->domain->agent, &ep->mailbox.receiver, false);
	return ret;
}

static int cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	int ret = fi_shutdown(ep->engine.fid, flags);

	if (!ret)
		pmv_initiator_break(&ep->initiator);
	return ret;
}

static int cm_listen(struct fid_pep *fid)
{
	(void) fid;
	return -FI_ENOSYS;
}

static int cm_reject(struct fid_pep *fid, struct fid *handle, const void *param, size_t paramlen)
{
	(void) fid, (void) handle, (void) param, (void) paramlen;
	return -FI_ENOSYS;
}

struct fi_ops_cm pmv_ep_cm_ops = {
	.size = offsetof(struct fi_ops_cm, join),
	.setname = pmv_unwrap_setname,
	.getname = pmv_unwrap_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = cm_listen,
	.accept = cm_accept,
	.reject = cm_reject,
	.shutdown = cm_shutdown,
};
