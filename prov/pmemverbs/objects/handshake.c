/* SPDX-License-Identifier: BSD-2-Clause */
/* handshake.c -- the handshake in CM data; handshake.h says where it goes */
#include "objects/handshake.h"

#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "objects/admit.h"
#include "objects/ep.h"

struct pmv_handshake_kept {
	LIST_ENTRY(pmv_handshake_kept) next;
	struct fid *handle;
	struct sockaddr_storage peer;
	struct pmv_handshake handshake;
	struct pmv_admission *admission;
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

void pmv_handshake_keep(struct pmv_fabric *fabric, const struct fi_info *request,
			const struct pmv_handshake *handshake, struct pmv_admission *admission)
{
	size_t len = request->dest_addr ? request->dest_addrlen : 0;
	struct pmv_handshake_kept *kept;

	pthread_mutex_lock(&fabric->handshakes_lock);
	kept = unlist(fabric, request->handle);
	if (!kept)
		kept = calloc(1, sizeof(*kept));
	/* Without memory it is as if the peer had sent none, and had proved nothing. */
	if (kept) {
		pmv_admission_free(kept->admission);
		kept->handle = request->handle;
		kept->peer = (struct sockaddr_storage){0};
		if (len && len <= sizeof(kept->peer))
			memcpy(&kept->peer, request->dest_addr, len);
		kept->handshake = *handshake;
		kept->admission = admission;
		LIST_INSERT_HEAD(&fabric->handshakes, kept, next);
	} else {
		pmv_admission_free(admission);
	}
	pthread_mutex_unlock(&fabric->handshakes_lock);
}

bool pmv_handshake_is_kept(struct pmv_fabric *fabric, const struct sockaddr *peer)
{
	size_t len = pmv_address_len(peer);
	struct pmv_handshake_kept *kept;

	pthread_mutex_lock(&fabric->handshakes_lock);
	LIST_FOREACH(kept, &fabric->handshakes, next)
	{
		if (len && !memcmp(&kept->peer, peer, len))
			break;
	}
	pthread_mutex_unlock(&fabric->handshakes_lock);
	return kept;
}

void pmv_handshake_take(struct pmv_fabric *fabric, struct fid *handle, struct pmv_ep *ep)
{
	struct pmv_handshake_kept *kept;

	pthread_mutex_lock(&fabric->handshakes_lock);
	kept = unlist(fabric, handle);
	pthread_mutex_unlock(&fabric->handshakes_lock);
	if (!kept)
		return;
	if (ep) {
		pmv_handshake_connect(ep, &kept->handshake);
		pmv_admit_take(ep, kept->admission);
	} else {
		pmv_admission_free(kept->admission);
	}
	free(kept);
}

void pmv_handshake_forget_all(struct pmv_fabric *fabric)
{
	struct pmv_handshake_kept *kept;

	while ((kept = LIST_FIRST(&fabric->handshakes))) {
		LIST_REMOVE(kept, next);
		pmv_admission_free(kept->admission);
		free(kept);
	}
}

void pmv_handshake_connect(struct pmv_ep *ep, const struct pmv_handshake *handshake)
{
	pmv_mailbox_connect(&ep->mailbox, handshake);
	pmv_initiator_connected(&ep->initiator);
}
