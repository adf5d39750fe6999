/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rights.h -- what a client may do: its line in the file peers says it (FI_PMEMVERBS_KEYS)
 *
 *    may=read    only calls of operations that the server has declared to be readers
 *
 * A client with another right than that is refused: whoever has written it meant a limit.
 */
#ifndef RPC_RIGHTS_H
#define RPC_RIGHTS_H

#include <stdbool.h>

#include <rdma/fi_ext_pmemverbs.h>

struct fid_ep;

struct rpc_rights {
	bool reads_only;
	char name[sizeof(((struct fi_pmemverbs_peer *) 0)->name)]; /* "": nobody has named it */
};

/*
 * rpc_rights_of -- of who has connected; without keys, and with other providers, all.  False: they
 * are not understood.
 */
bool rpc_rights_of(struct rpc_rights *rights, struct fid_ep *ep);

#endif /* RPC_RIGHTS_H */
