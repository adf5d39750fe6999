/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c -- whose a client is; peer.h says what for */
#include "peer.h"

#include <string.h>

#include <netinet/in.h>
#include <xxhash.h>

/* hash -- 0 would be a ring that nobody has */
static uint32_t hash(const void *part, size_t len, uint64_t secret)
{
	uint32_t value = (uint32_t) XXH3_64bits_withSeed(part, len, secret);

	return value ? value : 1;
}

uint32_t rpc_peer_address(const void *address, size_t len, uint64_t secret)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	sa_family_t family = AF_UNSPEC;

	if (address && len >= sizeof(family))
		memcpy(&family, address, sizeof(family));
	if (family == AF_INET && len >= sizeof(in)) {
		memcpy(&in, address, sizeof(in));
		return hash(&in.sin_addr, sizeof(in.sin_addr), secret);
	}
	if (family == AF_INET6 && len >= sizeof(in6)) {
		memcpy(&in6, address, sizeof(in6));
		return IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)
			       ? hash(&in6.sin6_addr.s6_addr[12], 4, secret)
			       : hash(&in6.sin6_addr, 8, secret);
	}
	return hash(address, address ? len : 0, secret);
}

uint32_t rpc_peer_name(const char *name, uint64_t secret)
{
	return hash(name, strlen(name), secret);
}
