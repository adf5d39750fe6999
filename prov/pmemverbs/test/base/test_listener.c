/* SPDX-License-Identifier: BSD-2-Clause */
/* test_listener.c -- what becomes of the socket at which a core waits, and of those that it accepts
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/listener.h"

/* bound -- a socket, as a core makes it, and its address */
static int bound(struct sockaddr_in *own)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*own);

	*own = (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	cr_assert_eq(bind(fd, (struct sockaddr *) own, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *) own, &len), 0);
	return fd;
}

/* accepted -- there, and *peer is the other end */
static int accepted(int listener, const struct sockaddr_in *own, int *peer)
{
	int fd;

	*peer = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(connect(*peer, (const struct sockaddr *) own, sizeof(*own)), 0);
	fd = accept(listener, NULL, NULL);
	cr_assert_geq(fd, 0);
	return fd;
}

static bool ends_at_exec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

/* The test itself would hang. */
Test(listener, has_connections_that_block_nobody, .timeout = 60)
{
	struct sockaddr_in own;
	int listener = bound(&own), peer, fd;
	char bytes[8];

	cr_assert_eq(pmv_listener_guard((struct sockaddr *) &own), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_expect(ends_at_exec(listener));
	fd = accepted(listener, &own, &peer);
	cr_expect_eq(recv(fd, bytes, sizeof(bytes), 0), -1);
	cr_expect_eq(errno, EAGAIN);
	cr_assert_eq(send(peer, "ab", 2, 0), 2);
	while (recv(fd, bytes, sizeof(bytes), MSG_PEEK) < 0)
		cr_assert_eq(errno, EAGAIN);
	cr_expect_eq(recv(fd, bytes, sizeof(bytes), 0), 2);
}

/* What was accepted there has its address, too. */
Test(listener, is_told_from_connections_and_others)
{
	struct sockaddr_in own, other;
	int listener = bound(&own), beside = bound(&other), peer, fd;

	cr_assert_eq(listen(listener, 1), 0);
	fd = accepted(listener, &own, &peer);
	close(listener);
	cr_expect_eq(pmv_listener_guard((struct sockaddr *) &own), ENOENT);
	cr_expect_not(ends_at_exec(fd));
	cr_expect_not(ends_at_exec(beside));
	cr_expect_eq(pmv_listener_guard((struct sockaddr *) &other), 0);
	cr_expect(ends_at_exec(beside));
}
