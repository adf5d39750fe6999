/* SPDX-License-Identifier: BSD-2-Clause */
/* complaint.c -- messages about peers; complaint.h has the rules */
#include "agent/complaint.h"

#include <stdio.h>

#include <rdma/fi_cm.h>

#include "agent/link.h"
#include "engine/engine.h"

/* A person reads the log, and a peer can cause any number of complaints. */
#define BETWEEN_NS INT64_C(1000000000)

/* name_peer -- the core may not know it any more, if its connection has just ended */
static void name_peer(const struct pmv_link *link, char *name, size_t room)
{
	struct fid_ep *fid = link->engine->fid;
	union {
		struct sockaddr any;
		char room[128];
	} addr = {0};
	size_t len = sizeof(addr);
	char text[PMV_ADDRESS_TEXT];

	snprintf(name, room, "of unknown address");
	if (!fid->cm || !FI_CHECK_OP(fid->cm, struct fi_ops_cm, getpeer) ||
	    fi_getpeer(fid, &addr, &len))
		return;
	if (pmv_address_text(&addr.any, text))
		snprintf(name, room, "%s", text);
}

bool pmv_complaint_make(struct pmv_complaints *complaints, const struct pmv_link *link, int64_t now,
			struct pmv_complaint *complaint)
{
	if (now < complaints->next_ns) {
		complaints->left_out++;
		return false;
	}
	complaint->left_out[0] = '\0';
	if (complaints->left_out)
		snprintf(complaint->left_out, sizeof(complaint->left_out),
			 " (%lu messages about peers were left out before)", complaints->left_out);
	complaints->left_out = 0;
	complaints->next_ns = now + BETWEEN_NS;
	name_peer(link, complaint->peer, sizeof(complaint->peer));
	return true;
}
