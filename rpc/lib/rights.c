/* SPDX-License-Identifier: BSD-2-Clause */
/* rights.c -- what a client may do; rights.h has the word */
#include "rights.h"

#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

bool rpc_rights_of(struct rpc_rights *rights, struct fid_ep *ep)
{
	struct fi_pmemverbs_peer peer = {0};
	size_t len = sizeof(peer);
	int ret = FI_CHECK_OP(ep->ops, struct fi_ops_ep, getopt)
			  ? fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_PEER, &peer, &len)
			  : -FI_ENOPROTOOPT;

	*rights = (struct rpc_rights){0};
	/* Without the setting; and not pmemverbs. */
	if (ret == -FI_ENODATA || ret == -FI_ENOPROTOOPT)
		return true;
	memcpy(rights->name, peer.name, sizeof(rights->name));
	rights->reads_only = !ret && !strcmp(peer.rights, "may=read");
	return rights->reads_only || (!ret && !*peer.rights);
}
