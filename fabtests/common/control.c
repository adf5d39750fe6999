/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control.c -- the functional program's talk over TCP, beside the connections
 * that it tests
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "options.h"
#include "stats.h"

/* The longest that a process is stopped: the peer ends it, if only by closing the connection. */
#define STOP_SECONDS 3600

static int complain(const char *call)
{
	fprintf(stderr, "control connection: %s: %s\n", call, strerror(errno));
	return -1;
}

static struct addrinfo *resolve(const char *host, const char *port, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
	struct addrinfo *found = NULL;
	int ret = getaddrinfo(host, port, &hints, &found);

	if (ret)
		fprintf(stderr, "%s: %s\n", host ? host : port, gai_strerror(ret));
	return found;
}

static int listen_at(const struct addrinfo *addr)
{
	int fd = socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, addr->ai_addr, addr->ai_addrlen) && !listen(fd, 16))
		return fd;
	close(fd);
	return -1;
}

int control_listen(const char *address, const char *port)
{
	struct addrinfo *found = resolve(address, port, AI_PASSIVE);
	struct addrinfo *addr;
	int fd = -1;

	if (!found)
		return -1;
	for (addr = found; addr && fd < 0; addr = addr->ai_next)
		fd = listen_at(addr);
	if (fd < 0)
		fprintf(stderr, "%s, port %s can't be listened at: %s\n",
			address ? address : "this machine", port, strerror(errno));
	else
		options_ready(port);
	freeaddrinfo(found);
	return fd;
}

int control_accept(const char *address, const char *port)
{
	int listener = control_listen(address, port);
	int fd;

	if (listener < 0)
		return -1;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		complain("accept");
	close(listener);
	return fd;
}

int control_address(int fd, char *node, size_t room)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *) &addr, &len))
		return complain("getsockname");
	if (!getnameinfo((struct sockaddr *) &addr, len, node, room, NULL, 0, NI_NUMERICHOST))
		return 0;
	fprintf(stderr, "control connection: its address has no name\n");
	return -1;
}

static int connect_to(const struct addrinfo *addr)
{
	int fd = socket(addr->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0)
		return -1;
	if (!connect(fd, addr->ai_addr, addr->ai_addrlen)) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		return fd;
	}
	close(fd);
	return -1;
}

/* connect_any -- scripts start both programs at a time: nobody may listen yet */
static int connect_any(const struct addrinfo *found, const char *host, const char *port)
{
	uint64_t deadline = now_ns() + 5000000000ULL;
	struct timespec pause = {.tv_nsec = 50000000};
	const struct addrinfo *addr;
	int fd;

	for (;;) {
		for (addr = found; addr; addr = addr->ai_next) {
			fd = connect_to(addr);
			if (fd >= 0)
				return fd;
		}
		if (errno == ECONNREFUSED && now_ns() < deadline) {
			nanosleep(&pause, NULL);
			continue;
		}
		fprintf(stderr, "%s, port %s: %s; start the server first\n", host, port,
			strerror(errno));
		return -1;
	}
}

int control_connect(const char *host, const char *port, unsigned long timeout)
{
	struct addrinfo *found = resolve(host, port, 0);
	struct timeval limit = {.tv_sec = timeout};
	int fd;

	if (!found)
		return -1;
	fd = connect_any(found, host, port);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	freeaddrinfo(found);
	return fd;
}

/* send_all -- flags: MSG_MORE, as what goes alone is held up until the one before was acknowledged,
 * 40 ms */
static int send_all(int fd, const void *buf, size_t len, int flags)
{
	const char *bytes = buf;
	ssize_t ret;

	for (; len; bytes += ret, len -= ret) {
		ret = send(fd, bytes, len, MSG_NOSIGNAL | flags);
		if (ret < 0)
			return errno == EPIPE || errno == ECONNRESET ? -1 : complain("send");
	}
	return 0;
}

int control_send(int fd, const struct control_msg *msg, const void *payload)
{
	return send_all(fd, msg, sizeof(*msg), msg->len ? MSG_MORE : 0) ||
			       send_all(fd, payload, msg->len, 0)
		       ? -1
		       : 0;
}

static int receive_all(int fd, void *buf, size_t len, unsigned long timeout)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char *bytes = buf;
	ssize_t ret;

	for (; len; bytes += ret, len -= ret) {
		ret = poll(&pfd, 1, (int) timeout * 1000);
		if (ret == 0) {
			fprintf(stderr, "control connection: no answer in time\n");
			return -1;
		}
		ret = recv(fd, bytes, len, 0);
		if (ret == 0 || (ret < 0 && errno == ECONNRESET))
			return -1;
		if (ret < 0)
			return complain("recv");
	}
	return 0;
}

int control_receive(int fd, struct control_msg *msg, void *payload, size_t room,
		    unsigned long timeout)
{
	if (receive_all(fd, msg, sizeof(*msg), timeout))
		return -1;
	if (msg->len > room) {
		fprintf(stderr, "control connection: %llu bytes, no room for them\n",
			(unsigned long long) msg->len);
		return -1;
	}
	return receive_all(fd, payload, msg->len, timeout);
}

int control_end(int fd, unsigned long timeout)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char rest[256];
	ssize_t ret = -1;

	shutdown(fd, SHUT_WR);
	while (poll(&pfd, 1, (int) timeout * 1000) > 0 &&
	       (ret = recv(fd, rest, sizeof(rest), 0)) > 0)
		;
	if (ret < 0 && errno == ECONNRESET)
		ret = 0;
	close(fd);
	return ret ? -1 : 0;
}

bool control_waits(int fd, int ms)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, ms) > 0;
}

/*
 * Looking at threads takes no memory: control_stop does it in a child of a process with threads,
 * one of which may have held the allocator's lock (gcc 12's address sanitizer keeps it in the
 * child).
 */

/* runs -- may this thread run?  Its state follows the name in parentheses. */
static bool runs(int threads, const char *thread)
{
	char path[300], line[512] = "", *end;
	int fd;

	snprintf(path, sizeof(path), "%s/stat", thread);
	fd = openat(threads, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, line, sizeof(line) - 1) < 0)
		line[0] = '\0';
	close(fd);
	end = strrchr(line, ')');
	return end && end[1] && !strchr("TtZX", end[2]);
}

bool control_is_stopped(pid_t pid)
{
	_Alignas(struct dirent64) char entries[4096];
	bool stopped = true;
	char path[64];
	ssize_t len;
	int threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
	threads = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (threads < 0)
		return true;
	while (stopped && (len = getdents64(threads, entries, sizeof(entries))) > 0) {
		for (const struct dirent64 *entry = (struct dirent64 *) entries;
		     stopped && (const char *) entry < entries + len;
		     entry = (struct dirent64 *) ((const char *) entry + entry->d_reclen))
			stopped = *entry->d_name == '.' || !runs(threads, entry->d_name);
	}
	close(threads);
	return stopped;
}

int control_stop(int fd)
{
	struct control_msg msg = {0};
	pid_t parent = getpid();
	pid_t child = fork();

	if (child < 0)
		return -1;
	if (!child) {
		while (!control_is_stopped(parent)) {
			if (getppid() != parent)
				_exit(1);
			usleep(1000);
		}
		control_send(fd, &msg, NULL);
		control_receive(fd, &msg, NULL, 0, STOP_SECONDS);
		if (getppid() == parent)
			kill(parent, SIGCONT);
		_exit(0);
	}
	raise(SIGSTOP);
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

int control_have(const char *variable)
{
	const char *command = getenv(variable);
	char *const argv[] = {(char *) "sh", (char *) "-c", (char *) command, NULL};
	int status;
	pid_t pid;

	if (!command || posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) ||
	    waitpid(pid, &status, 0) != pid)
		return -1;
	return status ? -1 : 0;
}
