/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c -- connecting */
#include "ep.h"

#include <errno.h>

#include <rdma/fi_errno.h>

#include "address.h"
#include "post.h"
#include "provider.h"

/* How long the way to a peer is looked for. */
#define ROUTE_MS 2000

/* How often a request is repeated that nobody acknowledges; 7: for ever, where no receive is. */
#define RETRIES 15
#define RNR_RETRIES 7

/* set_param -- as many READs and atomics at a time as the devices can have under way */
static int set_param(struct pmr_ep *ep, const void *param, size_t paramlen)
{
	int len = pmr_cm_data_pack(&ep->owner.data, param, paramlen);

	if (len < 0)
		return len;
	ep->owner.param = (struct rdma_conn_param){
		.private_data = &ep->owner.data,
		.private_data_len = (uint8_t) len,
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RNR_RETRIES,
		.srq = ep->srx != NULL,
	};
	return 0;
}

static int enable(struct pmr_ep *ep)
{
	int ret = pmr_ep_enable(ep);

	return ret || ep->qp ? ret : -FI_EOPBADSTATE;
}

static int cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	const struct sockaddr *to = addr;
	int ret = set_param(ep, param, paramlen);

	if (!ret && !ep->id)
		ret = to ? pmr_ep_resolve(ep, to, pmr_address_len(to)) : -FI_EINVAL;
	if (!ret)
		ret = enable(ep);
	if (ret)
		return ret;
	/* The event queue goes on when the way is known. */
	return rdma_resolve_route(ep->id, ROUTE_MS) ? -errno : 0;
}

static int cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	int ret = set_param(ep, param, paramlen);

	if (!ret)
		ret = enable(ep);
	if (ret)
		return ret;
	return rdma_accept(ep->id, &ep->owner.param) ? -errno : 0;
}

static int cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);

	(void) flags;
	if (!ep->id)
		return 0;
	if (ep->sends)
		pmr_post_batch(ep);
	/* There is no connection yet: the answer is refused. */
	if (ep->owner.held)
		return rdma_reject(ep->id, NULL, 0) ? -errno : 0;
	return rdma_disconnect(ep->id) ? -errno : 0;
}

static int cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct pmr_ep *ep = pmr_to_ep(fid);

	if (!ep->id)
		return -FI_EOPBADSTATE;
	return pmr_address_copy_out(rdma_get_local_addr(ep->id), addr, addrlen);
}

static int cm_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);

	if (!ep->id)
		return -FI_ENOTCONN;
	return pmr_address_copy_out(rdma_get_peer_addr(ep->id), addr, addrlen);
}

struct fi_ops_cm pmr_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = pmr_no_setname,
	.getname = cm_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = pmr_no_listen,
	.accept = cm_accept,
	.reject = pmr_no_reject,
	.shutdown = cm_shutdown,
	.join = pmr_no_join,
};
