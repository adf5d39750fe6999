/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sockets.c -- the calls of sockets, for simulated ones that take datagrams: hints travel so
 *
 * A datagram takes time, may overtake others, and may be lost.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "core.h"
#include "descriptors.h"
#include "scheduler.h"
#include "wraps.h"

#define MOST_SOCKETS 16
#define MOST_DATAGRAMS 64
#define MOST_BYTES 64
#define FIRST_PORT 1000

struct datagram {
	int64_t arrives_ns; /* 0: there is none */
	size_t len;
	char bytes[MOST_BYTES];
};

struct simulated_socket {
	struct descriptor_core descriptor;
	int fd; /* 0: it is not open */
	unsigned int count;
	struct datagram datagrams[MOST_DATAGRAMS];
};

static struct simulated_socket sockets[MOST_SOCKETS];

static struct simulated_socket *find(int fd)
{
	for (int i = 0; i < MOST_SOCKETS; i++) {
		if (sockets[i].fd == fd)
			return &sockets[i];
	}
	sched_fail("descriptor %d is no socket", fd);
}

/* first_of -- the one that arrives first, or has; or NULL */
static struct datagram *first_of(struct simulated_socket *to)
{
	struct datagram *first = NULL;

	for (int i = 0; to->count && i < MOST_DATAGRAMS; i++) {
		struct datagram *one = &to->datagrams[i];

		if (one->arrives_ns && (!first || one->arrives_ns < first->arrives_ns))
			first = one;
	}
	return first;
}

static bool is_ready(void *arg)
{
	const struct datagram *first = first_of(arg);

	return first && first->arrives_ns <= sched_now_ns;
}

static uint64_t edges(void *arg)
{
	(void) arg;
	return 0;
}

static void closed(void *arg)
{
	memset(arg, 0, sizeof(struct simulated_socket));
}

int __wrap_socket(int family, int type, int protocol)
{
	struct simulated_socket *one;

	/* Only its number is looked at. */
	if (family == AF_UNIX)
		return __real_socket(family, type, protocol);
	one = find(0);
	one->descriptor = (struct descriptor_core){is_ready, edges, closed, one};
	one->fd = descriptors_add(&one->descriptor);
	return one->fd;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	(void) len;
	tcp_set(fd, level, name, *(const int *) value);
	return 0;
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	(void) fd, (void) addr, (void) len;
	return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	(void) len;
	if (tcp_name(fd, addr))
		return 0;
	/* At the same place in both families. */
	((struct sockaddr_in *) addr)->sin_port =
		htons((uint16_t) (FIRST_PORT + (find(fd) - sockets)));
	return 0;
}

static struct datagram *find_room(struct simulated_socket *to)
{
	for (int i = 0; i < MOST_DATAGRAMS; i++) {
		if (!to->datagrams[i].arrives_ns)
			return &to->datagrams[i];
	}
	return NULL;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
		      socklen_t addr_len)
{
	int number = ntohs(((const struct sockaddr_in *) addr)->sin_port) - FIRST_PORT;
	struct datagram *room;

	(void) fd, (void) flags, (void) addr_len;
	sched_step();
	if (number < 0 || number >= MOST_SOCKETS || len > MOST_BYTES)
		sched_fail("a datagram to nowhere");
	room = find_room(&sockets[number]);
	if (!sockets[number].fd || !room ||
	    (core_rules.loses_in && sched_one_in(core_rules.loses_in))) {
		sched_trace("a hint is lost");
		return (ssize_t) len;
	}
	sched_trace("a hint is sent");
	memcpy(room->bytes, buf, len);
	room->len = len;
	sockets[number].count++;
	room->arrives_ns = sched_now_ns +
			   sched_between(core_rules.least_delay_ns, 2 * core_rules.most_delay_ns);
	return (ssize_t) len;
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	struct simulated_socket *from = find(fd);
	struct datagram *first;

	(void) flags;
	sched_step();
	if (!is_ready(from)) {
		errno = EAGAIN;
		return -1;
	}
	first = first_of(from);
	len = first->len < len ? first->len : len;
	memcpy(buf, first->bytes, len);
	first->arrives_ns = 0;
	from->count--;
	return (ssize_t) len;
}

static int64_t next_ns(void)
{
	int64_t next = SCHED_NEVER;

	for (int i = 0; i < MOST_SOCKETS; i++) {
		for (int j = 0; sockets[i].count && j < MOST_DATAGRAMS; j++) {
			int64_t one = sockets[i].datagrams[j].arrives_ns;

			if (one > sched_now_ns && one < next)
				next = one;
		}
	}
	return next;
}

static void advance(void)
{
}

void sockets_start(void)
{
	static struct sched_clockwork datagrams = {.next_ns = next_ns, .advance = advance};

	sched_add(&datagrams);
}
