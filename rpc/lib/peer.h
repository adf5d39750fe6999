/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h -- who has taken a ring: the key that a client has proved, or the address that it comes
 * from
 *
 * An identity costs nothing, so who means ill has any number of them.  An address is harder to
 * come by: the server can limit how many rings each may take.  All addresses of IPv6 with the same
 * first 64 bits are one, since whoever has one of them has the others, too.  With FI_PMEMVERBS_KEYS
 * it is the key's name in the file peers, wherever it is used.
 */
#ifndef RPC_PEER_H
#define RPC_PEER_H

#include <stddef.h>
#include <stdint.h>

struct rpc_peer {
	uint32_t who;       /* rpc_peer_name, rpc_peer_address */
	unsigned int rings; /* the most that it may take; 0: any number */
};

/* rpc_peer_address -- a hash of a sockaddr, which may be NULL; never 0 */
uint32_t rpc_peer_address(const void *address, size_t len, uint64_t secret);

/* rpc_peer_name -- a hash of a key's name; never 0 */
uint32_t rpc_peer_name(const char *name, uint64_t secret);

#endif /* RPC_PEER_H */
