/* SPDX-License-Identifier: BSD-2-Clause */
/* introduce.h -- what an endpoint says of itself when it connects reaches another one */
#ifndef INTRODUCE_H
#define INTRODUCE_H

#include "objects/ep.h"
#include "objects/handshake.h"

static inline void introduce(struct fid_ep *ep, struct fid_ep *to)
{
	uint8_t buf[PMV_HANDSHAKE_SIZE];
	struct pmv_handshake handshake;

	pmv_mailbox_handshake(&pmv_to_ep(ep)->mailbox, buf);
	pmv_handshake_decode(buf, sizeof(buf), &handshake);
	pmv_handshake_connect(pmv_to_ep(to), &handshake);
}

#endif /* INTRODUCE_H */
