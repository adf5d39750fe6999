/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.c -- the socket at which a core waits; listener.h says what is done to it */
#include "base/listener.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/address.h"

/* is_bound_to -- and connected to nobody, as those are that were accepted there */
static bool is_bound_to(int fd, const struct sockaddr *own)
{
	struct sockaddr_storage name = {0}, peer;
	socklen_t len = sizeof(name), peer_len = sizeof(peer), type_len = sizeof(int);
	int type;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) && type == SOCK_STREAM &&
	       !getsockname(fd, (struct sockaddr *) &name, &len) && len == pmv_address_len(own) &&
	       !memcmp(&name, own, len) && getpeername(fd, (struct sockaddr *) &peer, &peer_len);
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
