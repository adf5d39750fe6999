/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.c -- the socket at which a core waits; listener.h says what is done to it */
#include "base/listener.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>

/* struct tcp_info; not the kernel's header of that name */
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/address.h"

/* is_bound_to -- and connected to nobody, as those are that were accepted there */
static bool is_bound_to(int fd, const struct sockaddr *own)
{
	struct sockaddr_storage name = {0}, peer;
	socklen_t len = sizeof(name), type_len = sizeof(int);
	int type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) && type == SOCK_STREAM &&
	       !getsockname(fd, (struct sockaddr *) &name, &len) && len == pmv_address_len(own) &&
	       !memcmp(&name, own, len) && getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &peer, &len);
}

/*
 * guard -- tcp waits for the end of a connection request whose beginning it has (1.17: rx_cm_data,
 * 2.1: xnet_handle_cm_msg), inside of the application's call: the sockets that it accepts block.
 * They have the time that a read may wait from the one that listens.  To Linux a negative one is
 * none at all; of 0 it would be for ever, and the shortest is a tick.  So the core gives up such
 * a request, or takes what comes later for another one.
 */
static int guard(int fd)
{
	const struct timeval none = {.tv_sec = -1};

	if (fcntl(fd, F_SETFD, FD_CLOEXEC) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)))
		return errno;
	return 0;
}

int pmv_listener_guard(const struct sockaddr *own)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int ret = ENOENT;

	if (!dir)
		return errno;
	while (ret == ENOENT && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && is_bound_to(fd, own))
			ret = guard(fd);
	}
	closedir(dir);
	return ret;
}

static bool is_any_host(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET
		       ? ((const struct sockaddr_in *) addr)->sin_addr.s_addr == INADDR_ANY
		       : IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *) addr)->sin6_addr);
}

/* is_of -- the name of a connection that was accepted there */
static bool is_of(const struct sockaddr *own, const struct sockaddr *name)
{
	return pmv_address_len(name) && name->sa_family == own->sa_family &&
	       pmv_address_port(name) == pmv_address_port(own) &&
	       (is_any_host(own) || pmv_address_is_same_host(name, own));
}

/* has_news -- nothing that has come may wait for its reader, who is slow then, and not the peer */
static bool has_news(int fd, unsigned int ms)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	int unread;

	return ioctl(fd, FIONREAD, &unread) || unread ||
	       getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || info.tcpi_last_data_recv < ms;
}

/* An endpoint's socket does not block, which all have that the core has only accepted. */
bool pmv_listener_is_silent(int fd, const struct sockaddr *own, unsigned int ms,
			    struct sockaddr_storage *peer)
{
	struct sockaddr_storage room = {0};
	struct sockaddr *name = (struct sockaddr *) &room;
	socklen_t len = sizeof(room), peer_len = sizeof(*peer);
	int flags;

	if (!pmv_address_len(own) || getsockname(fd, name, &len) || !is_of(own, name))
		return false;
	flags = fcntl(fd, F_GETFL);
	memset(peer, 0, sizeof(*peer));
	return flags >= 0 && !(flags & O_NONBLOCK) &&
	       !getpeername(fd, (struct sockaddr *) peer, &peer_len) && !has_news(fd, ms);
}
