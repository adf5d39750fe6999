/* SPDX-License-Identifier: BSD-2-Clause */
/* ticket_server.c -- where a target gives out tickets; ticket_server.h says how */
#include "auth/ticket_server.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "auth/ticket.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/poller.h"

#define BACKLOG 128
#define PAUSE_MS 100 /* if no descriptor is left */
#define LENGTH PMV_TICKET_SERVER_LENGTH

/* Of somebody who is not known yet. */
struct connection {
	struct pmv_watched watched;
	TAILQ_ENTRY(connection) next;
	struct pmv_ticket_server *server;
	size_t got;
	uint8_t buf[LENGTH + PMV_ADMISSION_MOST];
};

struct pmv_ticket_server {
	struct pmv_watched watched;
	bool listens;
	uint16_t port;
	uint64_t since_ns;
	pmv_ticket_refused *refused;
	size_t count;
	TAILQ_HEAD(, connection) connections; /* oldest first */
	struct pmv_tickets tickets;
};

/* A connection */

static void drop(struct connection *connection)
{
	struct pmv_ticket_server *server = connection->server;

	TAILQ_REMOVE(&server->connections, connection, next);
	server->count--;
	pmv_poller_remove(&connection->watched);
	free(connection);
}

/* admit -- who has sent all of it; true: he has a ticket, and *reply is for him */
static bool admit(struct pmv_ticket_server *server, const struct sockaddr *from,
		  const uint8_t *data, size_t len, uint8_t *reply, char why[PMV_KEYS_WHY])
{
	size_t reply_len = 0;
	struct pmv_admission *admission = pmv_admission_asked(
		PMV_ADMISSION_BEFORE, from, server->port, server->since_ns, data, &len, why);

	if (!admission)
		return false;
	if (!pmv_admission_reply(admission, reply, &reply_len, why)) {
		pmv_admission_free(admission);
		return false;
	}
	pmv_ticket_make(admission);
	return pmv_tickets_add(&server->tickets, admission, data, len, pmv_clock_ms(), why);
}

static void answer(const struct connection *connection)
{
	struct pmv_ticket_server *server = connection->server;
	const uint8_t *data = connection->buf + LENGTH;
	struct sockaddr_storage room = {0};
	struct sockaddr *from = (struct sockaddr *) &room;
	char why[PMV_KEYS_WHY] = "it has gone";
	uint8_t reply[PMV_ADMISSION_REPLY];
	socklen_t len = sizeof(room);

	if (getpeername(connection->watched.fd, from, &len) ||
	    !admit(server, from, data, connection->got - LENGTH, reply, why)) {
		server->refused(from, why);
		return;
	}
	/* Nothing was sent before, so there is room for all of it.  Else it is his loss. */
	send(connection->watched.fd, reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* wanted -- so many bytes have to be there, as far as they say; 0: it is no request */
static size_t wanted(const struct connection *connection)
{
	uint16_t len;

	if (connection->got < LENGTH)
		return LENGTH;
	memcpy(&len, connection->buf, LENGTH);
	len = le16toh(len);
	return len < PMV_ADMISSION_REQUEST || len > PMV_ADMISSION_MOST ? 0 : LENGTH + len;
}

static void receive(struct pmv_watched *watched)
{
	struct connection *connection = pmv_container_of(watched, struct connection, watched);
	size_t whole;

	while ((whole = wanted(connection)) > connection->got) {
		ssize_t ret = recv(watched->fd, connection->buf + connection->got,
				   whole - connection->got, MSG_DONTWAIT);

		if (ret < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (ret <= 0) {
			drop(connection);
			return;
		}
		connection->got += (size_t) ret;
	}
	if (whole)
		answer(connection);
	drop(connection);
}

static void give_up(struct pmv_watched *watched)
{
	drop(pmv_container_of(watched, struct connection, watched));
}

/* The port */

static struct pmv_ticket_server *to_server(struct pmv_watched *watched)
{
	return pmv_container_of(watched, struct pmv_ticket_server, watched);
}

static void pause_accepting(struct pmv_watched *watched)
{
	watched->until_ms = pmv_clock_ms() + PAUSE_MS;
	pmv_poller_fd(watched, watched->fd, 0);
}

static void resume_accepting(struct pmv_watched *watched)
{
	watched->until_ms = 0;
	pmv_poller_fd(watched, watched->fd, EPOLLIN);
}

static void accept_one(struct pmv_watched *watched)
{
	struct pmv_ticket_server *server = to_server(watched);
	int fd = accept4(watched->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct connection *connection;

	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			pause_accepting(watched);
		return;
	}
	if (server->count >= PMV_TICKET_SERVER_MOST)
		drop(TAILQ_FIRST(&server->connections));
	connection = calloc(1, sizeof(*connection));
	if (!connection) {
		close(fd);
		return;
	}
	connection->server = server;
	connection->watched = (struct pmv_watched){
		.fd = fd,
		.until_ms = pmv_clock_ms() + PMV_TICKET_SERVER_SECONDS * INT64_C(1000),
		.ready = receive,
		.late = give_up,
	};
	if (pmv_poller_add(&connection->watched, EPOLLIN)) {
		close(fd);
		free(connection);
		return;
	}
	TAILQ_INSERT_TAIL(&server->connections, connection, next);
	server->count++;
}

/* take_port -- 0 or a negative errno */
static int take_port(struct pmv_ticket_server *server, const struct sockaddr *addr)
{
	const int on = 1, off = 0, type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	struct sockaddr_storage room = {0};
	struct sockaddr *name = (struct sockaddr *) &room;
	int fd = server->watched.fd = socket(addr->sa_family, type, 0);
	socklen_t len = sizeof(room);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    (addr->sa_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off))) ||
	    bind(fd, addr, (socklen_t) pmv_address_len(addr)) || getsockname(fd, name, &len))
		return -errno;
	server->port = pmv_address_port(name);
	return 0;
}

int pmv_ticket_server_bind(const struct sockaddr *addr, pmv_ticket_refused *refused,
			   struct pmv_ticket_server **out)
{
	struct pmv_ticket_server *server;
	int ret;

	if (!pmv_address_len(addr))
		return -EAFNOSUPPORT;
	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->refused = refused;
	server->watched.ready = accept_one;
	server->watched.late = resume_accepting;
	TAILQ_INIT(&server->connections);
	pmv_tickets_init(&server->tickets);
	ret = take_port(server, addr);
	if (ret)
		pmv_ticket_server_close(server);
	else
		*out = server;
	return ret;
}

uint16_t pmv_ticket_server_port(const struct pmv_ticket_server *server)
{
	return server->port;
}

int pmv_ticket_server_listen(struct pmv_ticket_server *server, uint64_t since_ns)
{
	int ret;

	if (server->listens)
		return 0;
	if (listen(server->watched.fd, BACKLOG))
		return -errno;
	ret = pmv_poller_enter();
	if (ret)
		return -ret;
	server->since_ns = since_ns;
	pmv_poller_lock();
	ret = pmv_poller_add(&server->watched, EPOLLIN);
	pmv_poller_unlock();
	server->listens = !ret;
	if (ret)
		pmv_poller_leave();
	return -ret;
}

void pmv_ticket_server_close(struct pmv_ticket_server *server)
{
	if (server->listens) {
		pmv_poller_lock();
		while (!TAILQ_EMPTY(&server->connections))
			drop(TAILQ_FIRST(&server->connections));
		pmv_poller_remove(&server->watched);
		pmv_poller_unlock();
		pmv_poller_leave();
	} else if (server->watched.fd >= 0) {
		close(server->watched.fd);
	}
	pmv_tickets_forget(&server->tickets);
	free(server);
}

struct pmv_admission *pmv_ticket_server_take(struct pmv_ticket_server *server,
					     const struct sockaddr *from, uint8_t *data,
					     size_t *len, char why[PMV_KEYS_WHY])
{
	struct pmv_admission *admission;

	pmv_poller_lock();
	admission = pmv_tickets_take(&server->tickets, from, pmv_clock_ms(), data, len, why);
	pmv_poller_unlock();
	return admission;
}
