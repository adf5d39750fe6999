/* SPDX-License-Identifier: BSD-2-Clause */
/* complaint.c -- messages about peers; complaint.h has the rules */
#include "agent/complaint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include <rdma/fi_cm.h>

#include "agent/link.h"
#include "engine/engine.h"

#define BETWEEN_NS INT64_C(1000000000)

/* name_peer -- the core may not know it any more, if its connection has just ended */
static void name_peer(const struct pmv_link *link, char *name, size_t room)
{
	struct fid_ep *fid = link->engine->fid;
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		char room[128];
	} addr = {0};
	size_t len = sizeof(addr);
	char text[INET6_ADDRSTRLEN];

	snprintf(name, room, "of unknown address");
	if (!fid->cm || !FI_CHECK_OP(fid->cm, struct fi_ops_cm, getpeer) ||
	    fi_getpeer(fid, &addr, &len))
		return;
	if (addr.any.sa_family == AF_INET &&
	    inet_ntop(AF_INET, &addr.in.sin_addr, text, sizeof(text)))
		snprintf(name, room, "%s:%u", text, ntohs(addr.in.sin_port));
	else if (addr.any.sa_family == AF_INET6 &&
		 inet_ntop(AF_INET6, &addr.in6.sin6_addr, text, sizeof(text)))
		snprintf(name, room, "[%s]:%u", text, ntohs(addr.in6.sin6_port));
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
