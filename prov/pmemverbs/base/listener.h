/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener.h -- the socket at which a core waits for connections
 *
 * For cores whose connections are TCP sockets of this process, which keep it to themselves.
 */
#ifndef PMV_LISTENER_H
#define PMV_LISTENER_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * pmv_listener_guard -- find the socket that is bound to this address, before it listens: nobody
 * who connects to it can block the process, and no program that this one starts keeps the port.
 * 0 or an errno.
 */
int pmv_listener_guard(const struct sockaddr *own);

/*
 * pmv_listener_is_silent -- was this descriptor's connection accepted there, and has nothing come
 * on it for so many ms?  False if it has an endpoint.  *peer: the address of its other end.
 */
bool pmv_listener_is_silent(int fd, const struct sockaddr *own, unsigned int ms,
			    struct sockaddr_storage *peer);

#endif /* PMV_LISTENER_H */
