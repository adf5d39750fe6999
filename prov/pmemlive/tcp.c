/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tcp.c -- the sockets of connections: what the kernel does for them, and says of them
 *
 * The provider finds them in /proc/self/fd, has the kernel probe idle ones, and asks it when the
 * peer has answered (base/silence.h).  The peer's kernel answers, whatever its processes do.
 */
#include "core.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "scheduler.h"
#include "testcore/fid.h"
#include "wraps.h"

/* Data are sent again after so long, and then after twice as long each time. */
#define FIRST_RESEND_NS INT64_C(200000000)
#define LAST_RESEND_NS INT64_C(120000000000)
#define LEAST_LOOK_NS INT64_C(100000000)

/* Sockets */

static bool never_ready(void *arg)
{
	(void) arg;
	return false;
}

static uint64_t no_edges(void *arg)
{
	(void) arg;
	return 0;
}

void tcp_open(struct core_ep *ep)
{
	static uint64_t last_cookie;

	ep->socket = (struct core_socket){
		.descriptor = {never_ready, no_edges, NULL, ep},
		.cookie = ++last_cookie,
		.calling = ep->connecting,
		.sent_ns = sched_now_ns,
		.acked_ns = sched_now_ns,
		.resend_ns = SCHED_NEVER,
		.probe_ns = SCHED_NEVER,
		.answer_ns = SCHED_NEVER,
	};
	ep->socket.fd = descriptors_add(&ep->socket.descriptor);
}

void tcp_close(struct core_ep *ep)
{
	if (ep->socket.fd)
		__wrap_close(ep->socket.fd);
	ep->socket.fd = 0;
}

static int wanted_fd;
static struct core_ep *found;

static void compare(struct core_ep *ep)
{
	if (ep->socket.fd == wanted_fd)
		found = ep;
}

/* find -- the endpoint of a socket, or NULL */
static struct core_ep *find(int fd)
{
	wanted_fd = fd;
	found = NULL;
	if (fd)
		core_for_each(compare);
	return found;
}

/* What is sent, and acknowledged */

/* settle -- what was acknowledged by now */
static void settle(struct core_socket *socket)
{
	unsigned int count = 0;

	while (count < socket->num_acks && socket->acks[count] <= sched_now_ns)
		count++;
	if (count) {
		if (socket->acks[count - 1] > socket->acked_ns)
			socket->acked_ns = socket->acks[count - 1];
		socket->num_acks -= count;
		memmove(socket->acks, socket->acks + count,
			socket->num_acks * sizeof(socket->acks[0]));
		socket->probes = socket->resends = 0;
		socket->resend_ns = SCHED_NEVER;
	}
	if (socket->answer_ns <= sched_now_ns) {
		if (socket->answer_ns > socket->acked_ns)
			socket->acked_ns = socket->answer_ns;
		socket->answer_ns = SCHED_NEVER;
		socket->probes = 0;
	}
}

/* hear -- whatever has come from the peer acknowledges, too */
static void hear(struct core_ep *ep)
{
	struct core_socket *socket = &ep->socket;
	const struct core_message *message;
	int64_t heard = ep->heard_ns;

	settle(socket);
	STAILQ_FOREACH(message, &ep->in, next) {
		if (message->arrives_ns <= sched_now_ns)
			heard = message->arrives_ns;
	}
	if (heard <= socket->acked_ns)
		return;
	socket->acked_ns = heard;
	socket->probes = 0;
}

static void resend_soon(struct core_socket *socket)
{
	if (socket->resend_ns != SCHED_NEVER)
		return;
	socket->backoff_ns = FIRST_RESEND_NS;
	socket->resend_ns = sched_now_ns + socket->backoff_ns;
}

void tcp_sent(struct core_ep *ep, int64_t arrives_ns)
{
	struct core_socket *socket = &ep->socket;
	int64_t ack = arrives_ns;

	settle(socket);
	socket->sent_ns = sched_now_ns;
	if (ack != SCHED_NEVER)
		ack += sched_between(core_rules.least_delay_ns, core_rules.most_delay_ns);
	if (socket->num_acks && ack < socket->acks[socket->num_acks - 1])
		ack = socket->acks[socket->num_acks - 1];
	if (socket->num_acks < CORE_ACKS)
		socket->num_acks++;
	socket->acks[socket->num_acks - 1] = ack;
	if (ack == SCHED_NEVER)
		resend_soon(socket);
}

void tcp_full(struct core_ep *ep)
{
	/* The peer has no room for it, and says so. */
	if (!ep->socket.num_acks)
		resend_soon(&ep->socket);
}

void tcp_cut(struct core_ep *ep)
{
	struct core_socket *socket = &ep->socket;

	settle(socket);
	for (unsigned int i = 0; i < socket->num_acks; i++)
		socket->acks[i] = SCHED_NEVER;
	socket->answer_ns = SCHED_NEVER;
	if (socket->num_acks)
		resend_soon(socket);
}

void tcp_mend(struct core_ep *ep, int64_t then_ns)
{
	for (unsigned int i = 0; i < ep->socket.num_acks; i++) {
		if (ep->socket.acks[i] == SCHED_NEVER)
			ep->socket.acks[i] = then_ns + core_rules.most_delay_ns;
	}
}

static void pause_one(int64_t *at, int64_t ns)
{
	if (*at > sched_now_ns && *at != SCHED_NEVER)
		*at += ns;
}

void tcp_pause(struct core_ep *ep, int64_t ns)
{
	struct core_socket *socket = &ep->socket;

	settle(socket);
	for (unsigned int i = 0; i < socket->num_acks; i++)
		pause_one(&socket->acks[i], ns);
	pause_one(&socket->resend_ns, ns);
	pause_one(&socket->probe_ns, ns);
	pause_one(&socket->answer_ns, ns);
}

/* Timers */

int64_t tcp_next_ns(const struct core_ep *ep)
{
	const struct core_socket *socket = &ep->socket;

	if (!socket->fd || socket->shut || ep->dead)
		return SCHED_NEVER;
	return socket->resend_ns < socket->probe_ns ? socket->resend_ns : socket->probe_ns;
}

static bool leaves(const struct core_ep *ep)
{
	return !(ep->domain->cut_off && ep->domain->near);
}

/* resend -- what was not acknowledged, or what the peer has no room for */
static void resend(struct core_ep *ep)
{
	struct core_socket *socket = &ep->socket;

	socket->resend_ns = SCHED_NEVER;
	if (!socket->num_acks && !core_is_full(ep))
		return;
	socket->resends++;
	if (leaves(ep))
		socket->sent_ns = sched_now_ns;
	if (!socket->num_acks && links_reach(ep))
		socket->acked_ns = sched_now_ns;
	socket->backoff_ns *= 2;
	if (socket->backoff_ns > LAST_RESEND_NS)
		socket->backoff_ns = LAST_RESEND_NS;
	socket->resend_ns = sched_now_ns + socket->backoff_ns;
}

/* probe -- the peer of an idle connection */
static void probe(struct core_ep *ep)
{
	struct core_socket *socket = &ep->socket;

	hear(ep);
	if (socket->num_acks || core_is_full(ep)) {
		socket->probe_ns = sched_now_ns + socket->idle_ns;
		return;
	}
	if (!socket->probes && sched_now_ns < socket->acked_ns + socket->idle_ns) {
		socket->probe_ns = socket->acked_ns + socket->idle_ns;
		return;
	}
	socket->probes++;
	if (links_reach(ep))
		socket->answer_ns = sched_now_ns + 2 * core_rules.most_delay_ns;
	socket->probe_ns = sched_now_ns + socket->between_ns;
}

void tcp_advance(struct core_ep *ep)
{
	if (tcp_next_ns(ep) > sched_now_ns)
		return;
	settle(&ep->socket);
	if (ep->socket.resend_ns <= sched_now_ns)
		resend(ep);
	if (ep->socket.probe_ns <= sched_now_ns)
		probe(ep);
}

/* The calls */

static void tell_info(struct core_ep *ep, struct tcp_info *info)
{
	struct core_socket *socket = &ep->socket;

	hear(ep);
	memset(info, 0, sizeof(*info));
	info->tcpi_state = TCP_ESTABLISHED;
	info->tcpi_unacked = socket->num_acks + core_is_full(ep);
	info->tcpi_last_data_sent = (uint32_t) ((sched_now_ns - socket->sent_ns) / 1000000);
	info->tcpi_last_ack_recv = (uint32_t) ((sched_now_ns - socket->acked_ns) / 1000000);
	info->tcpi_retransmits = (uint8_t) (socket->resends < 255 ? socket->resends : 255);
	info->tcpi_retrans = socket->resends && leaves(ep);
	info->tcpi_probes = (uint8_t) socket->probes;
	if (socket->calling)
		info->tcpi_state = TCP_SYN_SENT;
}

/* count_look -- into a socket: it costs a wake-up, of which there are ten a second at most */
static void count_look(struct core_socket *socket)
{
	if (socket->looked_ns && sched_now_ns - socket->looked_ns < LEAST_LOOK_NS)
		sched_fail("a socket is looked at again and again");
	socket->looked_ns = sched_now_ns;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct core_ep *ep;

	if (!sched_current)
		return __real_getsockopt(fd, level, name, value, len);
	sched_step();
	ep = find(fd);
	if (!ep) {
		errno = ENOTSOCK;
		return -1;
	}
	if (level == IPPROTO_TCP && name == TCP_INFO) {
		count_look(&ep->socket);
		tell_info(ep, value);
	} else if (level == SOL_SOCKET && name == SO_COOKIE) {
		memcpy(value, &ep->socket.cookie, sizeof(ep->socket.cookie));
	} else if (level == SOL_SOCKET && name == SO_TYPE) {
		*(int *) value = SOCK_STREAM;
	} else if (level == SOL_SOCKET && name == SO_PEERNAME) {
		size_t room = *len;

		fi_getpeer(&ep->core.fid, value, &room);
	} else {
		sched_fail("an option %d of a socket is asked for", name);
	}
	return 0;
}

bool tcp_set(int fd, int level, int name, int value)
{
	struct core_ep *ep = find(fd);

	if (!ep)
		return false;
	if (level == IPPROTO_TCP && name == TCP_KEEPIDLE)
		ep->socket.idle_ns = value * INT64_C(1000000000);
	if (level == IPPROTO_TCP && name == TCP_KEEPINTVL)
		ep->socket.between_ns = value * INT64_C(1000000000);
	if (level == SOL_SOCKET && name == SO_KEEPALIVE && ep->socket.idle_ns)
		ep->socket.probe_ns = sched_now_ns + ep->socket.idle_ns;
	return true;
}

bool tcp_name(int fd, void *addr)
{
	size_t room = sizeof(struct sockaddr_in);
	struct core_ep *ep = find(fd);

	return ep && !fi_getname(&ep->core.fid.fid, addr, &room);
}

int __wrap_shutdown(int fd, int how)
{
	struct core_ep *ep;

	if (!sched_current)
		return __real_shutdown(fd, how);
	sched_step();
	ep = find(fd);
	if (!ep || how != SHUT_RDWR)
		sched_fail("shutdown of a descriptor that is no socket");
	sched_trace("a peer is given up");
	if (!ep->socket.shut)
		core_hang_up(ep->peer, false);
	/* Whoever accepts it later hears of that. */
	core_hang_up_call(ep);
	core_cm_forget(ep);
	ep->socket.shut = true;
	sched_step();
	return 0;
}

/* give_up_call -- whoever asks a socket that is being connected to connect to nobody */
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	(void) len;
	if (!sched_current || !find(fd) || addr->sa_family != AF_UNSPEC)
		sched_fail("connect is called for something else");
	sched_step();
	return 0;
}

/* /proc/self/fd */

static struct {
	int next;
	struct dirent entry;
} folder;

DIR *__wrap_opendir(const char *path)
{
	if (!sched_current || strcmp(path, "/proc/self/fd"))
		return __real_opendir(path);
	folder.next = 0;
	return (DIR *) &folder;
}

struct dirent *__wrap_readdir(DIR *dir)
{
	int fd;

	if (dir != (DIR *) &folder)
		return __real_readdir(dir);
	fd = descriptors_next(folder.next);
	if (fd < 0)
		return NULL;
	folder.next = fd + 1;
	snprintf(folder.entry.d_name, sizeof(folder.entry.d_name), "%d", fd);
	return &folder.entry;
}

int __wrap_closedir(DIR *dir)
{
	return dir == (DIR *) &folder ? 0 : __real_closedir(dir);
}
