/* SPDX-License-Identifier: BSD-2-Clause */
/* hint.c -- the sockets that hints travel between; hint.h says what they are for */
#include "agent/hint.h"

#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>

/* open_family -- a socket for all addresses of the machine; it is closed again if that fails */
static int open_family(struct pmv_hint_socket *hints, int family)
{
	struct pmv_hint_peer any = {.addr.any.sa_family = (sa_family_t) family};
	const int both = 0;
	int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	any.len = family == AF_INET6 ? sizeof(any.addr.in6) : sizeof(any.addr.in);
	if ((family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both))) ||
	    bind(fd, &any.addr.any, any.len) || getsockname(fd, &any.addr.any, &any.len)) {
		close(fd);
		return -1;
	}
	hints->family = family;
	/* Both families have it at one place. */
	hints->port = ntohs(any.addr.in.sin_port);
	return fd;
}

void pmv_hint_open(struct pmv_hint_socket *hints)
{
	int fd;

	/* Others use it without a lock from now on. */
	if (hints->tried)
		return;
	hints->tried = true;
	fd = open_family(hints, AF_INET6);
	if (fd < 0)
		fd = open_family(hints, AF_INET);
	/* Last: who sees it may use the others. */
	atomic_store(&hints->fd, fd);
}

void pmv_hint_close(struct pmv_hint_socket *hints)
{
	if (hints->fd >= 0)
		close(hints->fd);
	hints->fd = -1;
}

/* map -- an IPv4 address for a socket of IPv6 */
static void map(struct pmv_hint_peer *peer)
{
	const struct in_addr addr = peer->addr.in.sin_addr;

	peer->addr.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
					       .sin6_addr.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&peer->addr.in6.sin6_addr.s6_addr[12], &addr, sizeof(addr));
}

void pmv_hint_find_peer(const struct pmv_hint_socket *hints, struct fid_ep *core_ep, uint16_t port,
			struct pmv_hint_peer *peer)
{
	size_t len = sizeof(peer->addr);

	peer->len = 0;
	if (hints->fd < 0 || !port || !core_ep->cm ||
	    !FI_CHECK_OP(core_ep->cm, struct fi_ops_cm, getpeer) ||
	    fi_getpeer(core_ep, &peer->addr, &len))
		return;
	if (peer->addr.any.sa_family == AF_INET && hints->family == AF_INET6)
		map(peer);
	if (peer->addr.any.sa_family != hints->family)
		return;
	peer->len = hints->family == AF_INET6 ? sizeof(peer->addr.in6) : sizeof(peer->addr.in);
	peer->addr.in.sin_port = htons(port);
}

void pmv_hint_send(const struct pmv_hint_socket *hints, const struct pmv_hint_peer *peer,
		   const void *buf, size_t len)
{
	/* If it is lost, the peer looks into the mailbox later. */
	if (peer->len && sendto(hints->fd, buf, len, 0, &peer->addr.any, peer->len) < 0)
		return;
}

ssize_t pmv_hint_receive(const struct pmv_hint_socket *hints, void *buf, size_t len)
{
	return hints->fd < 0 ? -1 : recv(hints->fd, buf, len, 0);
}
