/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * establish.c -- connections that begin only when the peer's answer was looked at
 *
 * librdmacm makes a queue pair ready to receive as soon as the answer is there, before anybody can
 * look at it: whoever has answered reaches the memory of the protection domain.  It does so only
 * with a queue pair that it knows.  So it does not know one that is held: that stays in the state
 * INIT, in which a device drops all that arrives, until its user has let it go.
 */
#include "ep.h"

#include <errno.h>

#include <rdma/fi_errno.h>

#include "provider.h"

/* move -- to one of the states between; 0 or a negative fi_errno */
static int move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask))
		return -errno;
	return -ibv_modify_qp(qp, &attr, mask);
}

/* agree -- on what both devices have beyond the standard, as librdmacm does */
static int agree(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_ece own, peer;
	int ret = ibv_query_ece(qp, &own);

	if (ret)
		return ret == EOPNOTSUPP ? 0 : -ret;
	if (rdma_get_remote_ece(id, &peer))
		return -errno;
	if (!peer.vendor_id)
		peer = (struct ibv_ece){.vendor_id = own.vendor_id};
	else if (peer.vendor_id != own.vendor_id)
		return -FI_EINVAL;
	ret = ibv_set_ece(qp, &peer);
	return ret == EOPNOTSUPP ? 0 : -ret;
}

int pmr_ep_establish(struct pmr_ep *ep)
{
	struct ibv_qp *qp = ep->owner.held;
	int ret;

	if (!qp)
		return 0;
	ret = agree(ep->id, qp);
	if (!ret)
		ret = move(ep->id, qp, IBV_QPS_INIT);
	if (!ret)
		ret = move(ep->id, qp, IBV_QPS_RTR);
	if (!ret)
		ret = move(ep->id, qp, IBV_QPS_RTS);
	if (!ret && rdma_establish(ep->id))
		ret = -errno;
	if (ret)
		return ret;
	ep->owner.held = NULL;
	ep->id->qp = qp;
	pmr_event_set_rnr_timer(ep->id);
	return 0;
}
