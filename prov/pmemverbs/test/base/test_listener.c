/* SPDX-License-Identifier: BSD-2-Clause */
/* test_listener.c -- what becomes of the socket at which a core waits, and of those that it accepts
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/listener.h"
#include "test/support/tcp_silence.h"

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
	int listener = bound(&own), datagrams = socket(AF_INET, SOCK_DGRAM, 0);
	int beside = bound(&other), peer, fd;

	cr_assert_eq(bind(datagrams, (struct sockaddr *) &other, sizeof(other)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	fd = accepted(listener, &own, &peer);
	close(listener);
	cr_expect_eq(pmv_listener_guard((struct sockaddr *) &own), ENOENT);
	cr_expect_not(ends_at_exec(fd));
	cr_expect_not(ends_at_exec(beside));
	cr_expect_eq(pmv_listener_guard((struct sockaddr *) &other), 0);
	cr_expect(ends_at_exec(beside));
	cr_expect_not(ends_at_exec(datagrams));
}

static bool is_silent(int fd, const struct sockaddr_in *own)
{
	struct sockaddr_storage peer;

	return pmv_listener_is_silent(fd, (const struct sockaddr *) own, 1000, &peer);
}

Test(listener, knows_who_says_nothing)
{
	struct sockaddr_in own, any, name;
	struct sockaddr_storage at;
	int listener = bound(&own), peer, fd;
	socklen_t len = sizeof(name);

	cr_assert_eq(listen(listener, 1), 0);
	fd = accepted(listener, &own, &peer);
	cr_expect_not(is_silent(fd, &own), "it has come only now");
	silent_ms = 1000;
	cr_expect(is_silent(fd, &own));
	any = own;
	any.sin_addr.s_addr = htonl(INADDR_ANY);
	cr_expect(is_silent(fd, &any));
	cr_assert_eq(getsockname(peer, (struct sockaddr *) &name, &len), 0);
	cr_expect_not(pmv_listener_is_silent(fd, (struct sockaddr *) &own, 1001, &at));
	cr_expect(pmv_listener_is_silent(fd, (struct sockaddr *) &own, 1000, &at));
	cr_expect_arr_eq(&at, &name, sizeof(name));
	cr_expect_not(is_silent(listener, &own), "nobody is there");
	cr_expect_not(is_silent(peer, &own), "it is the other end");
	cr_expect_not(is_silent(-1, &own));
	any.sin_port ^= htons(1);
	cr_expect_not(is_silent(fd, &any), "it was accepted at another port");
	own.sin_addr.s_addr ^= htonl(2);
	cr_expect_not(is_silent(fd, &own), "it was accepted at another address");
}

Test(listener, leaves_alone_who_waits_for_a_reader_or_has_an_endpoint)
{
	struct sockaddr_in own;
	int listener = bound(&own), peer, fd;
	struct pollfd pfd;
	char byte = 1;

	silent_ms = 1000;
	cr_assert_eq(listen(listener, 1), 0);
	fd = accepted(listener, &own, &peer);
	cr_assert_eq(send(peer, &byte, 1, 0), 1);
	pfd = (struct pollfd){.fd = fd, .events = POLLIN};
	cr_assert_eq(poll(&pfd, 1, -1), 1);
	cr_expect_not(is_silent(fd, &own), "a byte is there");
	cr_assert_eq(recv(fd, &byte, 1, 0), 1);
	cr_expect(is_silent(fd, &own));
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	cr_expect_not(is_silent(fd, &own), "it has an endpoint");
}
