/* SPDX-License-Identifier: BSD-2-Clause */
/* address.c -- addresses of IPv4 and IPv6 */
#include "base/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

size_t pmv_address_len(const struct sockaddr *addr)
{
	switch (addr ? addr->sa_family : AF_UNSPEC) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

uint16_t pmv_address_port(const struct sockaddr *addr)
{
	return ntohs(addr->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *) addr)->sin6_port
						 : ((const struct sockaddr_in *) addr)->sin_port);
}

void pmv_address_set_port(struct sockaddr *addr, uint16_t port)
{
	if (addr->sa_family == AF_INET6)
		((struct sockaddr_in6 *) addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *) addr)->sin_port = htons(port);
}

/* to_ipv6 -- without the port; false: it is no address */
static bool to_ipv6(const struct sockaddr *addr, struct in6_addr *host)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (!pmv_address_len(addr))
		return false;
	if (addr->sa_family == AF_INET6) {
		*host = ((const struct sockaddr_in6 *) addr)->sin6_addr;
	} else {
		memcpy(host->s6_addr, mapped, sizeof(mapped));
		memcpy(host->s6_addr + sizeof(mapped),
		       &((const struct sockaddr_in *) addr)->sin_addr, 4);
	}
	return true;
}

bool pmv_address_is_link_local(const struct sockaddr *addr)
{
	return addr && addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *) addr)->sin6_addr);
}

uint32_t pmv_address_scope(const struct sockaddr *addr)
{
	return pmv_address_is_link_local(addr) ? ((const struct sockaddr_in6 *) addr)->sin6_scope_id
					       : 0;
}

bool pmv_address_is_same_host(const struct sockaddr *one, const struct sockaddr *other)
{
	uint32_t scope = pmv_address_scope(one), other_scope = pmv_address_scope(other);
	struct in6_addr a, b;

	return to_ipv6(one, &a) && to_ipv6(other, &b) && IN6_ARE_ADDR_EQUAL(&a, &b) &&
	       (!scope || !other_scope || scope == other_scope);
}

bool pmv_address_host(const struct sockaddr *addr, char text[INET6_ADDRSTRLEN])
{
	const void *bytes;

	if (!pmv_address_len(addr))
		return false;
	bytes = addr->sa_family == AF_INET6
			? (const void *) &((const struct sockaddr_in6 *) addr)->sin6_addr
			: (const void *) &((const struct sockaddr_in *) addr)->sin_addr;
	return inet_ntop(addr->sa_family, bytes, text, INET6_ADDRSTRLEN);
}

bool pmv_address_text(const struct sockaddr *addr, char text[PMV_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN], name[IF_NAMESIZE];
	uint32_t scope = pmv_address_scope(addr);
	bool named = scope && if_indextoname(scope, name);

	if (!pmv_address_host(addr, host))
		return false;
	if (addr->sa_family == AF_INET6)
		snprintf(text, PMV_ADDRESS_TEXT, "[%s%s%s]:%u", host, named ? "%" : "",
			 named ? name : "", pmv_address_port(addr));
	else
		snprintf(text, PMV_ADDRESS_TEXT, "%s:%u", host, pmv_address_port(addr));
	return true;
}
