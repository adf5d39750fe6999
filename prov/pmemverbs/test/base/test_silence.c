/* SPDX-License-Identifier: BSD-2-Clause */
/* test_silence.c -- whose machine is silent, and whose only has nothing to say or no room */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/setting.h"
#include "base/silence.h"

#define NOW INT64_C(1000000)
#define NONE PMV_SILENCE_NONE

/* Data are on their way; they were sent, and something was heard, so long ago. */
static struct tcp_info under_way(uint32_t sent_ms, uint32_t heard_ms)
{
	return (struct tcp_info){
		.tcpi_unacked = 1, .tcpi_last_data_sent = sent_ms, .tcpi_last_ack_recv = heard_ms};
}

Test(silence, of_an_idle_connection_is_none)
{
	struct tcp_info info = {.tcpi_last_data_sent = 1, .tcpi_last_ack_recv = 3600000};

	cr_expect_eq(pmv_silence_since(NONE, NOW, &info), NONE);
	cr_expect_eq(pmv_silence_since(NOW - 5000, NOW, &info), NONE);
}

Test(silence, begins_when_it_is_seen_however_long_the_connection_was_idle)
{
	struct tcp_info info = under_way(1, 3600000);

	cr_expect_eq(pmv_silence_since(NONE, NOW, &info), NOW);
	cr_expect_eq(pmv_silence_since(NOW - 5000, NOW, &info), NOW - 5000);
}

Test(silence, begins_again_with_each_answer)
{
	struct tcp_info info = under_way(1, 40);

	cr_expect_eq(pmv_silence_since(NOW - 5000, NOW, &info), NOW - 40);
}

/* Each of its retransmissions is answered; the next one may take two minutes. */
Test(silence, of_a_peer_without_room_is_none)
{
	struct tcp_info info = under_way(60001, 60000);

	info.tcpi_backoff = 9;
	cr_expect_eq(pmv_silence_since(NOW - 5000, NOW, &info), NONE);
	info = under_way(60000, 60000);
	cr_expect_eq(pmv_silence_since(NOW - 5000, NOW, &info), NONE);
}

Test(silence, is_seen_by_a_probe_without_an_answer)
{
	struct tcp_info info = {
		.tcpi_probes = 1, .tcpi_last_data_sent = 60000, .tcpi_last_ack_recv = 30000};

	cr_expect_eq(pmv_silence_since(NONE, NOW, &info), NOW);
	cr_expect_eq(pmv_silence_since(NOW - 5000, NOW, &info), NOW - 5000);
}

/* Nothing is sent again, so the last that was sent may be older than the last answer. */
Test(silence, is_seen_if_the_own_link_is_down)
{
	struct tcp_info info = under_way(5000, 4999);

	info.tcpi_retransmits = 4;
	cr_expect_eq(pmv_silence_since(NONE, NOW, &info), NOW);
	cr_expect_eq(pmv_silence_since(NOW - 3000, NOW, &info), NOW - 3000);
	info.tcpi_retrans = 1;
	cr_expect_eq(pmv_silence_since(NOW - 3000, NOW, &info), NONE);
}

/* The kernel has no time of an answer then, and says any. */
Test(silence, of_a_peer_that_has_never_answered_begins_when_it_is_seen)
{
	struct tcp_info info = under_way(3600000, 3600000);

	info.tcpi_state = TCP_SYN_SENT;
	cr_expect_eq(pmv_silence_since(NONE, NOW, &info), NOW);
	info = under_way(40, 40);
	info.tcpi_state = TCP_SYN_SENT;
	cr_expect_eq(pmv_silence_since(NOW - 5000, NOW, &info), NOW - 5000);
}

/* Sockets */

static atomic_bool mute; /* peers do not answer */

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	int ret = (int) syscall(SYS_getsockopt, fd, level, name, value, len);

	if (atomic_load(&mute) && level == IPPROTO_TCP && name == TCP_INFO)
		*(struct tcp_info *) value = under_way(1, 3600000);
	return ret;
}

struct pair {
	int ends[2];
	union pmv_silence_addr own;
	union pmv_silence_addr peer;
};

static void connect_pair(struct pair *pair)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in), own_len = sizeof(pair->own), peer_len = sizeof(pair->peer);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(listener, (struct sockaddr *) &in, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *) &in, &len), 0);
	pair->ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(connect(pair->ends[0], (struct sockaddr *) &in, len), 0);
	pair->ends[1] = accept(listener, NULL, NULL);
	cr_assert_geq(pair->ends[1], 0);
	cr_assert_eq(getsockname(pair->ends[0], &pair->own.any, &own_len), 0);
	cr_assert_eq(getpeername(pair->ends[0], &pair->peer.any, &peer_len), 0);
	close(listener);
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	cr_assert_eq(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

Test(silence, is_probed_for_on_the_connections_own_socket_only)
{
	struct pmv_silence silence = {0}, second = {0};
	struct pair others, pair, later;

	pmv_setting.timeout = 1;
	connect_pair(&others);
	connect_pair(&pair);
	pmv_silence_watch(&silence, &pair.own, &pair.peer, false);
	pmv_silence_watch(&silence, &pair.own, &pair.peer, false);
	while (!option(pair.ends[0], SOL_SOCKET, SO_KEEPALIVE))
		sched_yield();
	/* The thread goes on looking, also when it had none to look for. */
	pmv_silence_forget(&silence);
	pmv_silence_forget(&silence);
	connect_pair(&later);
	pmv_silence_watch(&second, &later.own, &later.peer, false);
	while (!option(later.ends[0], SOL_SOCKET, SO_KEEPALIVE))
		sched_yield();
	cr_expect_eq(option(pair.ends[0], IPPROTO_TCP, TCP_KEEPIDLE), 1);
	cr_expect_eq(option(pair.ends[1], SOL_SOCKET, SO_KEEPALIVE), 0);
	cr_expect_eq(option(others.ends[0], SOL_SOCKET, SO_KEEPALIVE), 0);
	cr_expect_eq(option(others.ends[1], SOL_SOCKET, SO_KEEPALIVE), 0);
	/* And no program that is started gets it. */
	cr_expect_eq(fcntl(pair.ends[0], F_GETFD), FD_CLOEXEC);
	cr_expect_eq(fcntl(others.ends[0], F_GETFD), 0);
	pmv_silence_forget(&second);
}

/* call -- a socket that is being connected, or is */
static int call(const struct sockaddr_in *in)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	cr_assert(!connect(fd, (const struct sockaddr *) in, sizeof(*in)) || errno == EINPROGRESS);
	return fd;
}

static uint8_t queued(int listener)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	cr_assert_eq(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info.tcpi_unacked;
}

Test(silence, ends_an_attempt_to_connect_that_nobody_answers)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), first, fd, error = 0;
	union pmv_silence_addr own = {0}, peer = {0};
	socklen_t len = sizeof(in), own_len = sizeof(own), error_len = sizeof(error);
	struct pmv_silence silence = {0};
	struct pollfd pfd;

	pmv_setting.timeout = 1;
	cr_assert_eq(bind(listener, (struct sockaddr *) &in, len), 0);
	cr_assert_eq(listen(listener, 0), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *) &in, &len), 0);
	first = call(&in);
	while (!queued(listener))
		sched_yield();
	/* The queue is full: the kernel answers nothing to this one. */
	fd = call(&in);
	cr_assert_eq(getsockname(fd, &own.any, &own_len), 0);
	peer.in = in;
	pmv_silence_watch(&silence, &own, &peer, true);
	pfd = (struct pollfd){.fd = fd, .events = POLLIN};
	cr_assert_eq(poll(&pfd, 1, -1), 1);
	cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len), 0);
	cr_expect_eq(error, ECONNRESET);
	cr_expect(atomic_load(&silence.given_up));
	pmv_silence_forget(&silence);
	close(first);
}

/* The core may be connected, although nobody has read the event yet: then it only reads. */
Test(silence, ends_an_attempt_that_has_succeeded_unseen, .timeout = 60)
{
	struct pmv_silence silence = {0};
	struct pair pair;
	struct pollfd pfd;
	char byte;

	pmv_setting.timeout = 1;
	connect_pair(&pair);
	atomic_store(&mute, true);
	pmv_silence_watch(&silence, &pair.own, &pair.peer, true);
	while (!option(pair.ends[0], SOL_SOCKET, SO_KEEPALIVE))
		sched_yield();
	while (!atomic_load(&silence.given_up))
		sched_yield();
	pmv_silence_forget(&silence);
	pfd = (struct pollfd){.fd = pair.ends[0], .events = POLLIN};
	cr_assert_eq(poll(&pfd, 1, -1), 1);
	cr_expect(pfd.revents & POLLIN);
	cr_expect_leq(recv(pair.ends[0], &byte, 1, MSG_DONTWAIT), 0);
}

/* A service has an address of its own, and the kernel connects to another one. */
Test(silence, is_looked_for_again_when_the_peers_address_is_known)
{
	struct pmv_silence silence = {0};
	union pmv_silence_addr called;
	struct pair first, pair;

	pmv_setting.timeout = 1;
	connect_pair(&first);
	connect_pair(&pair);
	called = pair.peer;
	called.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	pmv_silence_watch(&silence, &pair.own, &called, true);
	pmv_silence_watch(&silence, &pair.own, &pair.peer, false);
	while (!option(pair.ends[0], SOL_SOCKET, SO_KEEPALIVE))
		sched_yield();
	pmv_silence_forget(&silence);
}

/* The search */

static _Atomic(struct pmv_silence *) forgotten_in_search;
static atomic_bool searched;

/* It takes the place of libc's, and is what a search does between two descriptors. */
struct dirent *readdir(DIR *dir)
{
	struct dirent *(*real)(DIR *) = (struct dirent * (*) (DIR *) ) dlsym(RTLD_NEXT, "readdir");
	struct pmv_silence *silence = atomic_exchange(&forgotten_in_search, NULL);

	if (silence) {
		pmv_silence_forget(silence);
		atomic_store(&searched, true);
	}
	return real(dir);
}

/* Connections come and go meanwhile: with many descriptors it takes long. */
Test(silence, holds_up_nobody_while_sockets_are_searched)
{
	struct pmv_silence silence = {0};
	struct pair pair;

	pmv_setting.timeout = 1;
	connect_pair(&pair);
	atomic_store(&forgotten_in_search, &silence);
	pmv_silence_watch(&silence, &pair.own, &pair.peer, false);
	while (!atomic_load(&searched))
		sched_yield();
	cr_expect_eq(option(pair.ends[0], SOL_SOCKET, SO_KEEPALIVE), 0);
}

/* In a child */

/* The thread sanitizer ends a child that starts a thread. */
#ifndef __SANITIZE_THREAD__

/* watch_as_child -- its own connection, and not its parent's */
static void watch_as_child(struct pmv_silence *parents, const struct pair *pair)
{
	struct pmv_silence silence = {0};

	alarm(20);
	pmv_silence_watch(&silence, &pair->own, &pair->peer, false);
	while (!option(pair->ends[0], SOL_SOCKET, SO_KEEPALIVE))
		sched_yield();
	atomic_store(&mute, true);
	while (!atomic_load(&silence.given_up))
		sched_yield();
	if (atomic_load(&parents->given_up))
		_exit(1);
	pmv_silence_forget(parents);
	pmv_silence_forget(&silence);
	_exit(0);
}

Test(silence, is_looked_for_in_a_child, .timeout = 60)
{
	struct pmv_silence silence = {0};
	struct pair pair, childs;
	int status = -1;
	pid_t child;

	pmv_setting.timeout = 1;
	connect_pair(&pair);
	connect_pair(&childs);
	pmv_silence_watch(&silence, &pair.own, &pair.peer, false);
	while (!option(pair.ends[0], SOL_SOCKET, SO_KEEPALIVE))
		sched_yield();
	child = fork();
	if (!child)
		watch_as_child(&silence, &childs);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	/* The parent's thread goes on. */
	atomic_store(&mute, true);
	while (!atomic_load(&silence.given_up))
		sched_yield();
	pmv_silence_forget(&silence);
}

#endif
