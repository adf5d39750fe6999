/* SPDX-License-Identifier: BSD-2-Clause */
/* handshake.c -- the handshake in CM data; handshake.h says where it goes */
#include "objects/handshake.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "objects/ep.h"
#include "objects/unwrap.h"

struct pmv_handshake_kept {
	LIST_ENTRY(pmv_handshake_kept) next;
	struct fid *handle;
	struct pmv_handshake handshake;
};

/* unlist -- what is kept by a handle, or NULL; holds the lock */
static struct pmv_handshake_kept *unlist(struct pmv_fabric *fabric, struct fid *handle)
{
	struct pmv_handshake_kept *kept;

	LIST_FOREACH(kept, &fabric->handshakes, next)
	{
		if (kept->handle == handle) {
			LIST_REMOVE(kept, next);
			break;
		}
	}
	return kept;
}

void pmv_handshake_keep(struct pmv_fabric *fabric, struct fid *handle,
			const struct pmv_handshake *handshake)
{
	struct pmv_handshake_kept *kept;

	pthread_mutex_lock(&fabric->handshakes_lock);
	kept = unlist(fabric, handle);
	if (!kept)
		kept = malloc(sizeof(*kept));
	/* Without memory it is as if the peer had sent none. */
	if (kept) {
		kept->handle = handle;
		kept->handshake = *handshake;
		LIST_INSERT_HEAD(&fabric->handshakes, kept, next);
	}
	pthread_mutex_unlock(&fabric->handshakes_lock);
}

void pmv_handshake_take(struct pmv_fabric *fabric, struct fid *handle, struct pmv_ep *ep)
{
	struct pmv_handshake_kept *kept;

	pthread_mutex_lock(&fabric->handshakes_lock);
	kept = unlist(fabric, handle);
	pthread_mutex_unlock(&fabric->handshakes_lock);
	if (kept && ep)
		pmv_handshake_connect(ep, &kept->handshake);
	free(kept);
}

void pmv_handshake_forget_all(struct pmv_fabric *fabric)
{
	struct pmv_handshake_kept *kept;

	while ((kept = LIST_FIRST(&fabric->handshakes))) {
		LIST_REMOVE(kept, next);
		free(kept);
	}
}

void pmv_handshake_connect(struct pmv_ep *ep, const struct pmv_handshake *handshake)
{
	pmv_mailbox_connect(&ep->mailbox, handshake);
	pmv_initiator_connected(&ep->initiator);
}

int pmv_handshake_append(struct pmv_ep *ep, const void *param, size_t len, struct pmv_cm_data *out)
{
	size_t room = sizeof(out->data);
	size_t optlen = sizeof(room);
	int ret;

	if (pmv_unwrap_getopt(&ep->ep_fid.fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &room,
			      &optlen) ||
	    room > sizeof(out->data) - PMV_HANDSHAKE_SIZE)
		room = sizeof(out->data) - PMV_HANDSHAKE_SIZE;
	if (len > room) {
		PMV_WARN(EP_CTRL, "%zu bytes of CM data are more than FI_OPT_CM_DATA_SIZE, %zu\n",
			 len, room);
		return -FI_EINVAL;
	}
	out->len = len;
	if (len)
		memcpy(out->data, param, len);
	/* Without attributes in the keys there are no commits. */
	if (!ep->domain->keyed)
		return 0;
	ret = pmv_mailbox_open(&ep->mailbox);
	if (ret) {
		PMV_WARN(EP_CTRL,
			 "no memory could be registered for commits by an agent (%s): they "
			 "will be refused on this connection\n",
			 fi_strerror(-ret));
		/* It is as if the peer had sent no handshake, either. */
		pmv_handshake_connect(ep, &(struct pmv_handshake){0});
		return 0;
	}
	pmv_mailbox_handshake(&ep->mailbox, out->data + len);
	out->len += PMV_HANDSHAKE_SIZE;
	return 0;
}
