/* SPDX-License-Identifier: BSD-2-Clause */
/* ticket_client.c -- how an initiator gets a ticket; ticket_server.h has the format */
#include "auth/ticket_client.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/ticket.h"
#include "auth/ticket_server.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/poller.h"

#define LENGTH PMV_TICKET_SERVER_LENGTH

struct pmv_ticket_client {
	struct pmv_watched watched;
	bool is_watched, is_over;
	int err;
	struct sockaddr_storage from, to;
	struct pmv_admission *admission;
	void (*over)(void *arg);
	void *arg;
	size_t len, got;
	char why[PMV_KEYS_WHY];
	uint8_t buf[LENGTH + PMV_ADMISSION_MOST];
};

static struct pmv_ticket_client *to_client(struct pmv_watched *watched)
{
	return pmv_container_of(watched, struct pmv_ticket_client, watched);
}

static void finish(struct pmv_ticket_client *client, int err, const char *why)
{
	pmv_poller_remove(&client->watched);
	client->is_watched = false;
	client->is_over = true;
	client->err = err;
	snprintf(client->why, sizeof(client->why), "%s", why);
	client->over(client->arg);
}

static void finish_unreached(struct pmv_ticket_client *client, int err)
{
	char why[PMV_KEYS_WHY];

	snprintf(
		why, sizeof(why),
		"no ticket could be got at its TCP port of that number (%s): it has to listen with "
		"FI_PMEMVERBS_KEYS, and firewalls have to let TCP through",
		strerror(err));
	finish(client, err, why);
}

static void receive_reply(struct pmv_watched *watched)
{
	struct pmv_ticket_client *client = to_client(watched);
	size_t len = PMV_ADMISSION_REPLY;
	char why[PMV_KEYS_WHY];
	ssize_t ret = recv(watched->fd, client->buf + client->got, len - client->got, MSG_DONTWAIT);

	if (ret < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (ret <= 0) {
		pmv_admission_refused(client->admission, "it gives no ticket:", why);
		finish(client, ECONNREFUSED, why);
		return;
	}
	client->got += (size_t) ret;
	if (client->got < len)
		return;
	if (!pmv_admission_established(client->admission, client->buf, &len, why)) {
		finish(client, EACCES, why);
		return;
	}
	pmv_ticket_make(client->admission);
	finish(client, 0, "");
}

static void send_request(struct pmv_watched *watched)
{
	struct pmv_ticket_client *client = to_client(watched);
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(watched->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	/* Nothing was sent before, so there is room for all of it. */
	if (!err && send(watched->fd, client->buf, client->len, MSG_NOSIGNAL | MSG_DONTWAIT) !=
			    (ssize_t) client->len)
		err = ECONNABORTED;
	if (!err)
		err = pmv_poller_fd(watched, watched->fd, EPOLLIN);
	watched->ready = receive_reply;
	if (err)
		finish_unreached(client, err);
}

static void give_up(struct pmv_watched *watched)
{
	finish_unreached(to_client(watched), ETIMEDOUT);
}

/* start -- connect, without waiting for it */
static void start(struct pmv_watched *watched)
{
	struct pmv_ticket_client *client = to_client(watched);
	const struct sockaddr *from = (struct sockaddr *) &client->from;
	const struct sockaddr *to = (struct sockaddr *) &client->to;
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? errno : pmv_poller_fd(watched, fd, 0);

	watched->until_ms = pmv_clock_ms() + PMV_TICKET_CLIENT_SECONDS * INT64_C(1000);
	watched->late = give_up;
	if (!err && ((pmv_address_len(from) && bind(fd, from, (socklen_t) pmv_address_len(from))) ||
		     (connect(fd, to, (socklen_t) pmv_address_len(to)) && errno != EINPROGRESS)))
		err = errno;
	if (!err)
		err = pmv_poller_fd(watched, fd, EPOLLOUT);
	if (err)
		finish_unreached(client, err);
}

/* set_link -- a socket needs to know it, and RDMA does not tell it of our own address */
static void set_link(struct pmv_ticket_client *client)
{
	struct sockaddr_in6 *from = (struct sockaddr_in6 *) &client->from;
	const struct sockaddr *to = (struct sockaddr *) &client->to;

	if (pmv_address_is_link_local((struct sockaddr *) from) && !from->sin6_scope_id)
		from->sin6_scope_id = pmv_address_scope(to);
}

/* make_request -- with the length in front; false: nobody is known there, and why */
static bool make_request(struct pmv_ticket_client *client, const uint8_t *data, size_t len,
			 char why[PMV_KEYS_WHY])
{
	const struct sockaddr *to = (struct sockaddr *) &client->to;
	uint16_t whole;

	if (pmv_address_is_link_local(to) && !pmv_address_scope(to)) {
		snprintf(why, PMV_KEYS_WHY,
			 "a link-local address needs the name of the interface, as in "
			 "fe80::1%%eth0");
		return false;
	}
	if (len > PMV_ADMISSION_MOST - PMV_ADMISSION_REQUEST) {
		snprintf(why, PMV_KEYS_WHY, "%zu bytes of CM data are too many", len);
		return false;
	}
	if (len)
		memcpy(client->buf + LENGTH, data, len);
	client->admission =
		pmv_admission_request(PMV_ADMISSION_BEFORE, pmv_address_len(to) ? to : NULL,
				      client->buf + LENGTH, &len, why);
	whole = htole16((uint16_t) len);
	memcpy(client->buf, &whole, LENGTH);
	client->len = LENGTH + len;
	return client->admission;
}

struct pmv_ticket_client *pmv_ticket_client_begin(const struct sockaddr *from,
						  const struct sockaddr *to, const uint8_t *data,
						  size_t len, void (*over)(void *arg), void *arg,
						  char why[PMV_KEYS_WHY])
{
	struct pmv_ticket_client *client = calloc(1, sizeof(*client));
	int err;

	if (!client) {
		snprintf(why, PMV_KEYS_WHY, "there is no memory");
		return NULL;
	}
	/* It is late at once: so it starts. */
	client->watched =
		(struct pmv_watched){.fd = -1, .until_ms = 1, .ready = send_request, .late = start};
	client->over = over;
	client->arg = arg;
	if (from)
		memcpy(&client->from, from, pmv_address_len(from));
	if (to)
		memcpy(&client->to, to, pmv_address_len(to));
	set_link(client);
	if (!make_request(client, data, len, why)) {
		free(client);
		return NULL;
	}
	err = pmv_poller_enter();
	if (err) {
		snprintf(why, PMV_KEYS_WHY, "no thread can be started: %s", strerror(err));
		pmv_admission_free(client->admission);
		free(client);
		return NULL;
	}
	pmv_poller_lock();
	client->is_watched = true;
	pmv_poller_add(&client->watched, 0);
	pmv_poller_unlock();
	return client;
}

bool pmv_ticket_client_is_over(struct pmv_ticket_client *client)
{
	bool is_over;

	pmv_poller_lock();
	is_over = client->is_over;
	pmv_poller_unlock();
	return is_over;
}

int pmv_ticket_client_end(struct pmv_ticket_client *client, struct pmv_admission **admission,
			  char why[PMV_KEYS_WHY])
{
	int err;

	pmv_poller_lock();
	if (client->is_watched)
		pmv_poller_remove(&client->watched);
	err = client->is_over ? client->err : ECANCELED;
	pmv_poller_unlock();
	pmv_poller_leave();
	*admission = err ? NULL : client->admission;
	if (err) {
		snprintf(why, PMV_KEYS_WHY, "%s",
			 client->is_over ? client->why : "it was given up");
		pmv_admission_free(client->admission);
	}
	free(client);
	return err;
}
