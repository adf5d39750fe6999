/* SPDX-License-Identifier: BSD-2-Clause */
/* event.c -- what the connection manager tells */
#include "event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/container.h"
#include "info.h"
#include "provider.h"

/* How long a target without a receive for a message is waited for: 0.64 ms, as verbs has it. */
#define MIN_RNR_TIMER 12

/* fail -- the event is an error of its endpoint */
static int fail(struct pmr_event *event, int err, int prov_errno)
{
	event->err = err;
	event->prov_errno = prov_errno;
	return 1;
}

/* make_info -- of whoever asks for a connection */
static struct fi_info *make_info(const struct pmr_cm_owner *owner, struct rdma_cm_id *id)
{
	const struct pmr_device *device = pmr_device_of(id->verbs);

	if (!device)
		return NULL;
	return pmr_info_of_request(owner->info, device, rdma_get_local_addr(id),
				   rdma_get_peer_addr(id));
}

static int take_request(struct pmr_event *event, const struct pmr_cm_owner *owner,
			struct rdma_cm_id *id)
{
	struct pmr_connreq *request = calloc(1, sizeof(*request));

	event->info = request ? make_info(owner, id) : NULL;
	if (!event->info) {
		free(request);
		rdma_reject(id, NULL, 0);
		return fail(event, FI_ENOMEM, 0);
	}
	request->handle.fclass = FI_CLASS_CONNREQ;
	request->id = id;
	/* Its passive endpoint may go before it: what becomes of it concerns nobody. */
	id->context = NULL;
	event->info->handle = &request->handle;
	event->event = FI_CONNREQ;
	return 1;
}

void pmr_event_set_rnr_timer(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = MIN_RNR_TIMER};

	if (id->qp && ibv_modify_qp(id->qp, &attr, IBV_QP_MIN_RNR_TIMER))
		PMR_WARN(EP_CTRL, "messages without a receive are repeated slowly (%s)\n",
			 strerror(errno));
}

/* call -- the peer */
static int call(struct pmr_cm_owner *owner, struct rdma_cm_id *id)
{
	if (owner->holds && id->qp) {
		owner->held = id->qp;
		owner->param.qp_num = id->qp->qp_num;
		id->qp = NULL;
	}
	return rdma_connect(id, &owner->param);
}

static int translate(struct pmr_event *event, const struct rdma_cm_event *cm)
{
	struct pmr_cm_owner *owner = cm->id->context;

	/* A passive endpoint listens on, whatever else is told of it. */
	if (owner->info && cm->event != RDMA_CM_EVENT_CONNECT_REQUEST &&
	    cm->event != RDMA_CM_EVENT_DEVICE_REMOVAL)
		return 0;
	switch (cm->event) {
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return call(owner, cm->id) ? fail(event, errno, -errno) : 0;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return take_request(event, owner, cm->id);
	case RDMA_CM_EVENT_ESTABLISHED:
		pmr_event_set_rnr_timer(cm->id);
		/* fall through */
	case RDMA_CM_EVENT_CONNECT_RESPONSE: /* of one that is held */
		event->event = FI_CONNECTED;
		return 1;
	case RDMA_CM_EVENT_DISCONNECTED:
		event->event = FI_SHUTDOWN;
		return 1;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		return fail(event, FI_ETIMEDOUT, -abs(cm->status));
	case RDMA_CM_EVENT_REJECTED:
		/* A reason of the protocol, and no errno. */
		return fail(event, FI_ECONNREFUSED, abs(cm->status));
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return fail(event, FI_ENODEV, 0);
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return fail(event, FI_EADDRNOTAVAIL, 0);
	default:
		return 0;
	}
}

/* drop_id -- of a request; if it can't go, its events concern nobody: 0 or a negative fi_errno */
static int drop_id(struct rdma_cm_id *id)
{
	id->context = NULL;
	return rdma_destroy_id(id) ? -errno : 0;
}

/* has_data -- does the connection manager pass what the peer's application has sent with it? */
static bool has_data(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED ||
	       type == RDMA_CM_EVENT_CONNECT_RESPONSE || type == RDMA_CM_EVENT_REJECTED;
}

int pmr_event_take(struct rdma_event_channel *channel, struct pmr_event *event)
{
	const struct pmr_cm_owner *owner;
	struct rdma_cm_id *refused = NULL;
	struct rdma_cm_event *cm;
	int ret;

	if (rdma_get_cm_event(channel, &cm))
		return -errno;
	owner = cm->id->context;
	if (!owner) {
		rdma_ack_cm_event(cm);
		return 0;
	}
	event->fid = owner->fid;
	ret = translate(event, cm);
	if (ret && has_data(cm->event))
		event->len = pmr_cm_data_unpack(cm->param.conn.private_data,
						cm->param.conn.private_data_len, event->room,
						sizeof(event->room));
	if (cm->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->err)
		refused = cm->id;
	rdma_ack_cm_event(cm);
	if (refused)
		drop_id(refused);
	return ret;
}

void pmr_event_drop(struct pmr_event *event)
{
	if (!event->info)
		return;
	pmr_connreq_reject(pmv_container_of(event->info->handle, struct pmr_connreq, handle), NULL,
			   0);
	event->info->handle = NULL;
	fi_freeinfo(event->info);
	event->info = NULL;
}

int pmr_connreq_reject(struct pmr_connreq *request, const struct pmr_cm_data *data, int len)
{
	int ret = rdma_reject(request->id, data, (uint8_t) len) ? -errno : 0;
	int gone = drop_id(request->id);

	free(request);
	return ret ? ret : gone;
}
