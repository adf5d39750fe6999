/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * other_version.c -- preloaded into a server over tcp: its provider is one of another version
 *
 * All that its peers see of that are two numbers in the handshake, with which the answer to a
 * connection request ends (prov/pmemverbs/agent/wire.c).  Nothing else is changed.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* A handshake begins like this; lowest and highest version are halves of a byte. */
static const uint8_t magic[] = {0xe7, 0xf5};
#define HANDSHAKE 26
#define VERSIONS_AT 8

#define MOST 1024

typedef ssize_t (*send_fn)(int fd, const void *buf, size_t len, int flags);

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	send_fn real_send = (send_fn) dlsym(RTLD_NEXT, "send");
	uint8_t other[MOST], *handshake;

	if (len < HANDSHAKE || len > MOST)
		return real_send(fd, buf, len, flags);
	memcpy(other, buf, len);
	handshake = other + len - HANDSHAKE;
	if (!memcmp(handshake, magic, sizeof(magic)))
		handshake[VERSIONS_AT] = 0xff;
	return real_send(fd, other, len, flags);
}
