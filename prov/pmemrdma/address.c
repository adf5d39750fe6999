/* SPDX-License-Identifier: BSD-2-Clause */
/* address.c -- addresses of IPv4 and IPv6 */
#include "address.h"

#include <string.h>

#include <arpa/inet.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

size_t pmr_address_len(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return sizeof(struct sockaddr_in);
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

uint32_t pmr_address_format(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
}

int pmr_address_family(uint32_t format)
{
	switch (format) {
	case FI_FORMAT_UNSPEC:
	case FI_SOCKADDR:
		return AF_UNSPEC;
	case FI_SOCKADDR_IN:
		return AF_INET;
	case FI_SOCKADDR_IN6:
		return AF_INET6;
	default:
		return -1;
	}
}

bool pmr_address_take(union pmr_address *to, const void *addr, size_t len)
{
	struct sockaddr family;
	size_t needed;

	memset(to, 0, sizeof(*to));
	if (!addr || len < sizeof(family))
		return false;
	memcpy(&family, addr, sizeof(family));
	needed = pmr_address_len(&family);
	if (!needed || len < needed)
		return false;
	memcpy(to, addr, needed);
	return true;
}

bool pmr_address_is_wildcard(const union pmr_address *addr)
{
	if (addr->any.sa_family == AF_INET)
		return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

void pmr_address_set_port(union pmr_address *addr, uint16_t port)
{
	if (addr->any.sa_family == AF_INET)
		addr->in.sin_port = port;
	else
		addr->in6.sin6_port = port;
}

uint16_t pmr_address_port(const union pmr_address *addr)
{
	return addr->any.sa_family == AF_INET ? addr->in.sin_port : addr->in6.sin6_port;
}

int pmr_address_copy_out(const struct sockaddr *addr, void *to, size_t *len)
{
	size_t needed = pmr_address_len(addr), room = *len;

	*len = needed;
	if (needed)
		memcpy(to, addr, room < needed ? room : needed);
	return room < needed ? -FI_ETOOSMALL : 0;
}
