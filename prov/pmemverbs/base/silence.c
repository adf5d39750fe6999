/* SPDX-License-Identifier: BSD-2-Clause */
/* silence.c -- the thread that looks for silent peers; silence.h has the rules */
#include "base/silence.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/setting.h"
#include "base/spawn.h"

/* The kernel is asked so often in that time. */
#define LOOKS_PER_TIMEOUT 5

/* The most that the kernel takes; it is the thread that gives up. */
#define MOST_PROBES 127

static LIST_HEAD(, pmv_silence) watched = LIST_HEAD_INITIALIZER(watched);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all here */
static bool running;

int64_t pmv_silence_since(int64_t since_ms, int64_t now_ms, const struct tcp_info *info)
{
	int64_t heard_ms = now_ms - info->tcpi_last_ack_recv;
	/* A peer without room answers each probe; but two of them may be two minutes apart. */
	bool sent = info->tcpi_unacked && info->tcpi_last_data_sent < info->tcpi_last_ack_recv;
	/* The kernel has tried to send data again, and nothing has left: its own link is down. */
	bool stuck = info->tcpi_unacked && info->tcpi_retransmits && !info->tcpi_retrans;
	bool owes = sent || stuck || info->tcpi_probes;

	if (!owes)
		return PMV_SILENCE_NONE;
	if (since_ms == PMV_SILENCE_NONE)
		return now_ms;
	return heard_ms > since_ms ? heard_ms : since_ms;
}

static bool same(const union pmv_silence_addr *one, const union pmv_silence_addr *other)
{
	if (one->any.sa_family != other->any.sa_family)
		return false;
	if (one->any.sa_family == AF_INET)
		return one->in.sin_port == other->in.sin_port &&
		       one->in.sin_addr.s_addr == other->in.sin_addr.s_addr;
	return one->any.sa_family == AF_INET6 && one->in6.sin6_port == other->in6.sin6_port &&
	       !memcmp(&one->in6.sin6_addr, &other->in6.sin6_addr, sizeof(one->in6.sin6_addr));
}

/* cookie_of -- of a socket; no other one ever has the same */
static bool cookie_of(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	return !getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len);
}

static void set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		PMV_WARN(EP_CTRL, "option %d of a connection's socket can't be set (%s)\n", option,
			 strerror(errno));
}

/* take_socket -- the kernel is to probe the peer while nothing is sent */
static void take_socket(struct pmv_silence *silence, int fd)
{
	int between = (pmv_setting.timeout + 1) / 2;

	silence->sought = true;
	if (!cookie_of(fd, &silence->cookie))
		return;
	silence->socket = fd;
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, between);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, between);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, MOST_PROBES);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* offer -- a descriptor to those that seek theirs */
static void offer(int fd)
{
	union pmv_silence_addr own = {0}, peer = {0};
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	struct pmv_silence *silence;

	if (getsockname(fd, &own.any, &own_len) || getpeername(fd, &peer.any, &peer_len))
		return;
	LIST_FOREACH(silence, &watched, next)
	{
		if (!silence->sought && same(&silence->own, &own) && same(&silence->peer, &peer))
			take_socket(silence, fd);
	}
}

static void complain_of_proc(void)
{
	static bool complained;

	if (!complained)
		PMV_WARN(EP_CTRL,
			 "/proc/self/fd can't be read (%s): if a peer's machine is gone, "
			 "operations end only when the kernel gives up\n",
			 strerror(errno));
	complained = true;
}

/* seek -- the sockets of all connections that are new, in one go.  Holds the lock. */
static void seek(void)
{
	struct pmv_silence *silence;
	struct dirent *entry;
	DIR *dir;

	LIST_FOREACH(silence, &watched, next)
	{
		if (!silence->sought)
			break;
	}
	/* Without a descriptor for the folder it is tried again. */
	dir = silence ? opendir("/proc/self/fd") : NULL;
	if (!dir) {
		if (silence && errno != EMFILE && errno != ENFILE && errno != ENOMEM)
			complain_of_proc();
		return;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			offer(atoi(entry->d_name));
	}
	closedir(dir);
	LIST_FOREACH(silence, &watched, next)
	silence->sought = true;
}

/* is_silent -- for too long? */
static bool is_silent(struct pmv_silence *silence)
{
	int64_t now = pmv_clock_ms();
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	uint64_t cookie;

	if (silence->socket < 0)
		return false;
	if (!cookie_of(silence->socket, &cookie) || cookie != silence->cookie ||
	    getsockopt(silence->socket, IPPROTO_TCP, TCP_INFO, &info, &len)) {
		silence->socket = -1;
		return false;
	}
	silence->since_ms = pmv_silence_since(silence->since_ms, now, &info);
	return silence->since_ms != PMV_SILENCE_NONE &&
	       now - silence->since_ms >= pmv_setting.timeout * INT64_C(1000);
}

static void complain(const struct pmv_silence *silence, unsigned int others)
{
	const union pmv_silence_addr *peer = &silence->peer;
	bool v6 = peer->any.sa_family == AF_INET6;
	char name[INET6_ADDRSTRLEN] = "";

	if (v6)
		inet_ntop(AF_INET6, &peer->in6.sin6_addr, name, sizeof(name));
	else
		inet_ntop(AF_INET, &peer->in.sin_addr, name, sizeof(name));
	PMV_WARN(EP_CTRL,
		 "the machine of the peer %s, port %u, has not answered for %d s "
		 "(FI_PMEMVERBS_TIMEOUT): its connection is given up, and %u more\n",
		 name, ntohs(v6 ? peer->in6.sin6_port : peer->in.sin_port), pmv_setting.timeout,
		 others);
}

/* look -- at all of them; one message tells of all that are given up.  Holds the lock. */
static void look(void)
{
	struct pmv_silence *silence, *given_up = NULL;
	unsigned int count = 0;

	LIST_FOREACH(silence, &watched, next)
	{
		if (!is_silent(silence))
			continue;
		shutdown(silence->socket, SHUT_RDWR);
		silence->socket = -1;
		given_up = silence;
		count++;
	}
	if (given_up)
		complain(given_up, count - 1);
}

/*
 * heed_pause -- this machine may have been paused since the last look, and the answers that came
 * meanwhile are still to be taken in.  Holds the lock.
 */
static void heed_pause(int64_t *looked_ms)
{
	int64_t now = pmv_clock_ms(), before = *looked_ms;
	struct pmv_silence *silence;

	*looked_ms = now;
	if (now - before < pmv_setting.timeout * INT64_C(1000))
		return;
	LIST_FOREACH(silence, &watched, next)
	silence->since_ms = PMV_SILENCE_NONE;
}

static void *run(void *arg)
{
	int64_t looked_ms = 0;
	struct timespec pause = {.tv_sec = pmv_setting.timeout / LOOKS_PER_TIMEOUT,
				 .tv_nsec = pmv_setting.timeout % LOOKS_PER_TIMEOUT *
					    (1000000000 / LOOKS_PER_TIMEOUT)};

	for (;;) {
		pthread_mutex_lock(&lock);
		seek();
		heed_pause(&looked_ms);
		look();
		pthread_mutex_unlock(&lock);
		nanosleep(&pause, NULL);
	}
	return arg;
}

/* start -- the thread, which ends with the process.  Holds the lock. */
static void start(void)
{
	pthread_t thread;
	int ret;

	if (running)
		return;
	ret = pmv_spawn(&thread, "pmv-silence", run, NULL, 0);
	if (ret) {
		PMV_WARN(EP_CTRL,
			 "no thread can be started that looks for silent peers (%s): if one's "
			 "machine is gone, operations end only when the kernel gives up\n",
			 strerror(ret));
		return;
	}
	pthread_detach(thread);
	running = true;
}

void pmv_silence_watch(struct pmv_silence *silence, const union pmv_silence_addr *own,
		       const union pmv_silence_addr *peer)
{
	pthread_mutex_lock(&lock);
	if (!silence->watched) {
		silence->own = *own;
		silence->peer = *peer;
		silence->socket = -1;
		silence->sought = false;
		silence->since_ms = PMV_SILENCE_NONE;
		silence->watched = true;
		LIST_INSERT_HEAD(&watched, silence, next);
		start();
	}
	pthread_mutex_unlock(&lock);
}

void pmv_silence_forget(struct pmv_silence *silence)
{
	pthread_mutex_lock(&lock);
	if (silence->watched)
		LIST_REMOVE(silence, next);
	silence->watched = false;
	pthread_mutex_unlock(&lock);
}
