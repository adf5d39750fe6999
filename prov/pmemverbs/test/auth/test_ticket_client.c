/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ticket_client.c -- how a ticket is got, and from whom it is not */
#include "auth/ticket_client.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "auth/ticket.h"
#include "auth/ticket_server.h"
#include "base/poller.h"
#include "test/support/descriptors.h"
#include "test/support/key_dirs.h"

#define ASKS "what the application asks, and a handshake"
#define LENGTH PMV_TICKET_SERVER_LENGTH

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

static atomic_int ahead; /* seconds, of the clock for timeouts */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int ret = __real_clock_gettime(clock, time);

	time->tv_sec += clock == CLOCK_MONOTONIC ? atomic_load(&ahead) : 0;
	return ret;
}

static int port_fd = -1;
static struct sockaddr_in there;
static struct sockaddr *to = (struct sockaddr *) &there;
static int told; /* as often as a client is over */
static char why[PMV_KEYS_WHY];

static void setup(void)
{
	socklen_t len = sizeof(there);

	key_dirs_make();
	key_dirs_be(TARGET);
	cr_assert_eq(pmv_admission_check(why), 0, "%s", why);
	there = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(port_fd, to, sizeof(there)), 0);
	cr_assert_eq(getsockname(port_fd, to, &len), 0);
	cr_assert_eq(listen(port_fd, 8), 0);
	told = eventfd(0, EFD_CLOEXEC);
}

static void teardown(void)
{
	close(told);
	if (port_fd >= 0)
		close(port_fd);
	key_dirs_remove();
}

TestSuite(ticket_client, .init = setup, .fini = teardown);

static void tell(void *arg)
{
	cr_expect_eq(arg, &there);
	eventfd_write(told, 1);
}

static struct pmv_ticket_client *begin(const struct sockaddr *from)
{
	struct pmv_ticket_client *client;

	key_dirs_be(CLIENT);
	client = pmv_ticket_client_begin(from, to, (const uint8_t *) ASKS, sizeof(ASKS), tell,
					 &there, why);
	key_dirs_be(TARGET);
	cr_assert_not_null(client, "%s", why);
	return client;
}

/* await -- its end, and what has become of it */
static int await(struct pmv_ticket_client *client, struct pmv_admission **admission)
{
	eventfd_t times;

	cr_assert_eq(eventfd_read(told, &times), 0);
	cr_expect_eq(times, 1);
	cr_expect(pmv_ticket_client_is_over(client));
	return pmv_ticket_client_end(client, admission, why);
}

static void expect_failed(struct pmv_ticket_client *client, int err, const char *says)
{
	struct pmv_admission *admission;
	int ret = await(client, &admission);

	cr_expect_eq(ret, err, "%s", strerror(ret));
	cr_expect_null(admission);
	cr_expect(strstr(why, says), "%s", why);
}

/* A target by hand: what it has heard, and what it replies. */
struct exchange {
	int fd;
	struct sockaddr_in from;
	struct pmv_admission *target;
	uint8_t reply[PMV_ADMISSION_REPLY];
};

static void hear(struct exchange *exchange)
{
	uint8_t bytes[LENGTH + PMV_ADMISSION_MOST];
	socklen_t from_len = sizeof(exchange->from);
	size_t len, reply_len = 0;
	uint16_t whole;

	exchange->fd = accept(port_fd, (struct sockaddr *) &exchange->from, &from_len);
	cr_assert_geq(exchange->fd, 0);
	cr_assert_eq(recv(exchange->fd, &whole, LENGTH, MSG_WAITALL), (ssize_t) LENGTH);
	len = le16toh(whole);
	cr_assert_eq(len, sizeof(ASKS) + PMV_ADMISSION_REQUEST);
	cr_assert_eq(recv(exchange->fd, bytes, len, MSG_WAITALL), (ssize_t) len);
	exchange->target = pmv_admission_asked(PMV_ADMISSION_BEFORE, to, ntohs(there.sin_port), 0,
					       bytes, &len, why);
	cr_assert_not_null(exchange->target, "%s", why);
	cr_expect_eq(len, sizeof(ASKS));
	cr_assert(pmv_admission_reply(exchange->target, exchange->reply, &reply_len, why));
}

static void finish(struct exchange *exchange)
{
	close(exchange->fd);
	pmv_admission_free(exchange->target);
}

static void reply(struct exchange *exchange, size_t len)
{
	cr_assert_eq(send(exchange->fd, exchange->reply, len, MSG_NOSIGNAL), (ssize_t) len);
}

static void expect_ticket(struct pmv_ticket_client *client, struct exchange *exchange)
{
	struct pmv_admission *admission;

	cr_assert_eq(await(client, &admission), 0, "%s", why);
	cr_assert_not_null(admission);
	pmv_ticket_make(exchange->target);
	cr_expect(admission->has_ticket);
	cr_expect_arr_eq(admission->ticket, exchange->target->ticket, PMV_TICKET_SIZE);
	pmv_admission_free(admission);
}

Test(ticket_client, gets_a_ticket)
{
	struct pmv_ticket_client *client = begin(NULL);
	struct exchange exchange;

	hear(&exchange);
	reply(&exchange, sizeof(exchange.reply));
	expect_ticket(client, &exchange);
	finish(&exchange);
}

Test(ticket_client, gets_a_ticket_in_pieces)
{
	struct pmv_ticket_client *client = begin(NULL);
	struct exchange exchange;

	hear(&exchange);
	for (size_t i = 0; i < sizeof(exchange.reply); i++)
		cr_assert_eq(send(exchange.fd, exchange.reply + i, 1, MSG_NOSIGNAL), 1);
	expect_ticket(client, &exchange);
	finish(&exchange);
}

Test(ticket_client, comes_from_where_it_has_to)
{
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	struct pmv_ticket_client *client = begin((struct sockaddr *) &from);
	struct exchange exchange;

	hear(&exchange);
	cr_expect_eq(exchange.from.sin_addr.s_addr, from.sin_addr.s_addr);
	reply(&exchange, sizeof(exchange.reply));
	expect_ticket(client, &exchange);
	finish(&exchange);
	/* Documentation's: no host has it. */
	from.sin_addr.s_addr = htonl(0xc0000201);
	client = begin((struct sockaddr *) &from);
	expect_failed(client, EADDRNOTAVAIL, "no ticket could be got at its TCP port");
}

Test(ticket_client, gets_none_where_nobody_listens)
{
	close(port_fd);
	port_fd = -1;
	expect_failed(begin(NULL), ECONNREFUSED, "no ticket could be got at its TCP port");
}

Test(ticket_client, gets_none_from_who_refuses)
{
	struct pmv_ticket_client *client;
	struct exchange exchange;

	/* At once, after the request, and in the middle of the reply. */
	for (int when = 0; when < 3; when++) {
		client = begin(NULL);
		if (when == 0) {
			close(accept(port_fd, NULL, NULL));
			cr_assert_neq(await(client, &exchange.target), 0);
			cr_expect_null(exchange.target);
			continue;
		}
		hear(&exchange);
		if (when == 2)
			reply(&exchange, sizeof(exchange.reply) - 1);
		finish(&exchange);
		expect_failed(client, ECONNREFUSED, "it gives no ticket: it does not know this");
	}
}

Test(ticket_client, gets_none_from_who_proves_no_key)
{
	for (size_t bit = 0; bit < 8 * PMV_ADMISSION_REPLY; bit += 7) {
		struct pmv_ticket_client *client = begin(NULL);
		struct exchange exchange;

		hear(&exchange);
		exchange.reply[bit / 8] ^= (uint8_t) (1 << bit % 8);
		reply(&exchange, sizeof(exchange.reply));
		expect_failed(client, EACCES, "it does not prove the key of peer0");
		finish(&exchange);
	}
}

/* The thread looks at the clock when something else happens; no test can wait so long. */
Test(ticket_client, gives_up_who_is_silent)
{
	struct pmv_ticket_client *silent = begin(NULL), *other;
	struct exchange exchange, later;

	hear(&exchange);
	reply(&exchange, 1);
	atomic_fetch_add(&ahead, PMV_TICKET_CLIENT_SECONDS + 1);
	other = begin(NULL);
	expect_failed(silent, ETIMEDOUT, "no ticket could be got at its TCP port");
	hear(&later);
	reply(&later, sizeof(later.reply));
	expect_ticket(other, &later);
	finish(&later);
	finish(&exchange);
}

Test(ticket_client, ends_at_any_time_and_leaves_nothing)
{
	int before = count_descriptors();

	for (int n = 0; n < 200; n++) {
		struct pmv_ticket_client *client = begin(NULL);
		struct pmv_admission *admission;
		struct exchange exchange;

		if (n % 2) {
			hear(&exchange);
			cr_expect_eq(pmv_ticket_client_end(client, &admission, why), ECANCELED);
			finish(&exchange);
		} else {
			pmv_ticket_client_end(client, &admission, why);
			pmv_admission_free(admission);
			/* It may have come so far. */
			while (poll(&(struct pollfd){.fd = port_fd, .events = POLLIN}, 1, 0) == 1)
				close(accept(port_fd, NULL, NULL));
		}
	}
	/* None of them has said anything, and the thread is gone. */
	cr_expect_eq(poll(&(struct pollfd){.fd = told, .events = POLLIN}, 1, 0), 0);
	cr_expect_eq(count_descriptors(), before);
}

Test(ticket_client, asks_nobody_unknown)
{
	key_dirs_be(CLIENT);
	key_dirs_know(CLIENT, TARGET, "192.0.2.1");
	cr_expect_null(pmv_ticket_client_begin(NULL, to, NULL, 0, tell, &there, why));
	cr_expect(strstr(why, "no line for it"), "%s", why);
	cr_expect_null(pmv_ticket_client_begin(NULL, NULL, NULL, 0, tell, &there, why));
	cr_expect_null(pmv_ticket_client_begin(NULL, to, (const uint8_t *) ASKS,
					       PMV_ADMISSION_MOST - PMV_ADMISSION_REQUEST + 1, tell,
					       &there, why));
	cr_expect(strstr(why, "are too many"), "%s", why);
}
