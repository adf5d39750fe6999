/* SPDX-License-Identifier: BSD-2-Clause */
/* silence.c -- the thread that looks for silent peers; silence.h has the rules */
#include "base/silence.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/fork_lock.h"
#include "base/log.h"
#include "base/setting.h"
#include "base/spawn.h"

/* The kernel is asked so often in that time, while a peer owes an answer. */
#define LOOKS_PER_TIMEOUT 5

/* While none does it is asked no more often than that, but twice in that time. */
#define IDLE_LOOK_NS INT64_C(1000000000)

/* The most that the kernel takes; it is the thread that gives up. */
#define MOST_PROBES 127

LIST_HEAD(list, pmv_silence);

static struct list fresh = LIST_HEAD_INITIALIZER(fresh);      /* their sockets are to be found */
static struct list watched = LIST_HEAD_INITIALIZER(watched);  /* were found, or there are none */
static struct pmv_fork_lock lock = PMV_FORK_LOCK_INITIALIZER; /* of all here */
static bool running;

int64_t pmv_silence_since(int64_t since_ms, int64_t now_ms, const struct tcp_info *info)
{
	/* The kernel has not set that of a connection without any answer. */
	int64_t heard_ms = info->tcpi_state == TCP_SYN_SENT ? 0 : now_ms - info->tcpi_last_ack_recv;
	/* A peer without room answers each probe; but two of them may be two minutes apart. */
	bool sent = info->tcpi_unacked && info->tcpi_last_data_sent < info->tcpi_last_ack_recv;
	/* The kernel has tried to send data again, and nothing has left: its own link is down. */
	bool stuck = info->tcpi_unacked && info->tcpi_retransmits && !info->tcpi_retrans;
	bool owes = sent || stuck || info->tcpi_probes || info->tcpi_state == TCP_SYN_SENT;

	if (!owes)
		return PMV_SILENCE_NONE;
	if (since_ms == PMV_SILENCE_NONE)
		return now_ms;
	return heard_ms > since_ms ? heard_ms : since_ms;
}

static bool same(const struct sockaddr *one, const struct sockaddr *other)
{
	return pmv_address_is_same_host(one, other) &&
	       pmv_address_port(one) == pmv_address_port(other);
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

/*
 * take_socket -- the kernel is to probe the peer while nothing is sent.  The core lets programs
 * have it that the application starts: there the connection would outlive this process, and the
 * peer would wait for it.
 */
static void take_socket(struct pmv_silence *silence, int fd, uint64_t cookie)
{
	int between = (pmv_setting.timeout + 1) / 2;

	silence->cookie = cookie;
	silence->socket = fd;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, between);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, between);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, MOST_PROBES);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* is_still -- the same socket?  Holds the lock, so that one that is in a list is not closed. */
static bool is_still(int fd, uint64_t before)
{
	uint64_t cookie;

	return cookie_of(fd, &cookie) && cookie == before;
}

/* offer -- a descriptor to those that seek theirs */
static void offer(int fd)
{
	union pmv_silence_addr own = {0}, peer = {0};
	socklen_t len = sizeof(own);
	struct pmv_silence *silence;
	uint64_t cookie;

	/* Unlike getpeername, SO_PEERNAME knows the peer of a socket that is being connected. */
	if (!cookie_of(fd, &cookie) || getsockname(fd, &own.any, &len) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &peer, &len))
		return;
	pmv_fork_lock(&lock);
	LIST_FOREACH(silence, &fresh, next)
	{
		if (same(&silence->own.any, &own.any) && same(&silence->peer.any, &peer.any) &&
		    is_still(fd, cookie))
			take_socket(silence, fd, cookie);
	}
	pmv_fork_unlock(&lock);
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

/* begin_search -- false: nobody seeks a socket */
static bool begin_search(void)
{
	struct pmv_silence *silence;
	bool any;

	pmv_fork_lock(&lock);
	any = !LIST_EMPTY(&fresh);
	LIST_FOREACH(silence, &fresh, next)
	silence->offered = true;
	pmv_fork_unlock(&lock);
	return any;
}

/* end_search -- of those that were there when it began */
static void end_search(void)
{
	struct pmv_silence *silence, *next;

	pmv_fork_lock(&lock);
	for (silence = LIST_FIRST(&fresh); silence; silence = next) {
		next = LIST_NEXT(silence, next);
		if (!silence->offered)
			continue;
		LIST_REMOVE(silence, next);
		LIST_INSERT_HEAD(&watched, silence, next);
	}
	pmv_fork_unlock(&lock);
}

/*
 * seek -- the sockets of all connections that are new, in one go.  With many descriptors that takes
 * a while, in which nobody is to wait for the lock.
 */
static void seek(void)
{
	struct dirent *entry;
	DIR *dir;

	if (!begin_search())
		return;
	dir = opendir("/proc/self/fd");
	/* Without a descriptor for the folder it is tried again. */
	if (!dir && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return;
	if (!dir) {
		complain_of_proc();
		return;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			offer(atoi(entry->d_name));
	}
	closedir(dir);
	end_search();
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
	const struct sockaddr *peer = &silence->peer.any;
	char name[INET6_ADDRSTRLEN] = "";

	pmv_address_host(peer, name);
	PMV_WARN(EP_CTRL,
		 "the machine of the peer %s, port %u, has not answered for %d s "
		 "(FI_PMEMVERBS_TIMEOUT): its connection is given up, and %u more\n",
		 name, pmv_address_port(peer), pmv_setting.timeout, others);
}

/*
 * give_up -- until it is connected, the core takes the end of the stream for an answer that is
 * still to come, if errno is EAGAIN from before; a lost connection has an error of its own.  Once
 * it is connected the core reads only if there is something to read, and that is the end.
 */
static void give_up(struct pmv_silence *silence)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	atomic_store(&silence->given_up, true);
	if (silence->connecting)
		connect(silence->socket, &nobody, sizeof(nobody));
	shutdown(silence->socket, SHUT_RDWR);
	silence->socket = -1;
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
		give_up(silence);
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

/* owes -- does any peer?  Holds the lock. */
static bool owes(void)
{
	struct pmv_silence *silence;

	LIST_FOREACH(silence, &watched, next)
	{
		if (silence->socket >= 0 && silence->since_ms != PMV_SILENCE_NONE)
			return true;
	}
	return false;
}

/* pause_ns -- until the next look.  Holds the lock. */
static int64_t pause_ns(void)
{
	int64_t timeout_ns = pmv_setting.timeout * INT64_C(1000000000);
	int64_t often_ns = timeout_ns / LOOKS_PER_TIMEOUT;
	int64_t idle_ns = timeout_ns / 2 < IDLE_LOOK_NS ? timeout_ns / 2 : IDLE_LOOK_NS;

	return owes() || idle_ns < often_ns ? often_ns : idle_ns;
}

static void *run(void *arg)
{
	int64_t looked_ms = 0, ns;

	for (;;) {
		seek();
		pmv_fork_lock(&lock);
		heed_pause(&looked_ms);
		look();
		ns = pause_ns();
		pmv_fork_unlock(&lock);
		nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
	}
	return arg;
}

static void hold(void)
{
	pmv_fork_lock(&lock);
}

static void let_go(void)
{
	pmv_fork_unlock(&lock);
}

/* forget -- in a child: it has no thread, and the connections are the parent's */
static void forget(void)
{
	pmv_fork_child(&lock);
	LIST_INIT(&fresh);
	LIST_INIT(&watched);
	running = false;
}

static void forget_in_children(void)
{
	pthread_atfork(hold, let_go, forget);
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
			 "no thread can be started that looks for silent peers (%s): if a "
			 "peer's machine is gone, operations end only when the kernel gives up\n",
			 strerror(ret));
		return;
	}
	pthread_detach(thread);
	running = true;
}

/* is_listed -- holds the lock */
static bool is_listed(const struct pmv_silence *silence)
{
	return silence->watched == lock.process;
}

/* is_known -- the socket is watched, or was until it was given up */
static bool is_known(const struct pmv_silence *silence)
{
	return is_listed(silence) && (silence->socket >= 0 || atomic_load(&silence->given_up));
}

void pmv_silence_watch(struct pmv_silence *silence, const union pmv_silence_addr *own,
		       const union pmv_silence_addr *peer, bool connecting)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, forget_in_children);
	pmv_fork_lock(&lock);
	/* The peer may have another address than the one that was called. */
	if (!is_known(silence)) {
		if (is_listed(silence))
			LIST_REMOVE(silence, next);
		silence->own = *own;
		silence->peer = *peer;
		silence->offered = false;
		silence->socket = -1;
		silence->since_ms = PMV_SILENCE_NONE;
		silence->watched = lock.process;
		LIST_INSERT_HEAD(&fresh, silence, next);
		start();
	}
	silence->connecting = connecting;
	pmv_fork_unlock(&lock);
}

void pmv_silence_forget(struct pmv_silence *silence)
{
	pmv_fork_lock(&lock);
	if (is_listed(silence))
		LIST_REMOVE(silence, next);
	silence->watched = 0;
	pmv_fork_unlock(&lock);
}
