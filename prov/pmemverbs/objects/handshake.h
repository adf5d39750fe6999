/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handshake.h -- the handshake in CM data: who sends one, and where it is kept
 *
 * A connection request has one behind the application's data.  It is removed there, and
 * kept under the request's handle until an endpoint is opened for the request or the
 * request is rejected.  The acceptance has one only if the request had one: so a peer
 * without pmemverbs sees only the application's data.  With FI_PMEMVERBS_KEYS, what the peer has
 * proved is kept beside it (admit.h).
 */
#ifndef PMV_HANDSHAKE_H
#define PMV_HANDSHAKE_H

#include <stdbool.h>
#include <sys/socket.h>

#include <rdma/fabric.h>

#include "agent/wire.h"

struct pmv_admission;
struct pmv_ep;
struct pmv_fabric;

/*
 * pmv_handshake_keep -- of a connection request; a later one with its handle replaces it.  It has
 * the admission (or NULL) from now on.
 */
void pmv_handshake_keep(struct pmv_fabric *fabric, const struct fi_info *request,
			const struct pmv_handshake *handshake, struct pmv_admission *admission);

/* pmv_handshake_is_kept -- of a request that comes from there */
bool pmv_handshake_is_kept(struct pmv_fabric *fabric, const struct sockaddr *peer);

/* pmv_handshake_take -- hand it to the endpoint; NULL: forget it */
void pmv_handshake_take(struct pmv_fabric *fabric, struct fid *handle, struct pmv_ep *ep);

void pmv_handshake_forget_all(struct pmv_fabric *fabric);

/* pmv_handshake_connect -- the endpoint's peer has sent this */
void pmv_handshake_connect(struct pmv_ep *ep, const struct pmv_handshake *handshake);

#endif /* PMV_HANDSHAKE_H */
