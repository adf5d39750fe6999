/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ticket_server.c -- the TCP port of a target: those who are known, and all the others */
#include "auth/ticket_server.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <sodium.h>

#include "auth/ticket.h"
#include "base/poller.h"
#include "test/support/descriptors.h"
#include "test/support/key_dirs.h"

#define ASKS "what the application asks, and a handshake"
#define LENGTH PMV_TICKET_SERVER_LENGTH

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

/* The clock for timeouts: so many seconds ahead, and whether it stands, and where. */
static atomic_int ahead;
static atomic_bool stands;
static struct timespec stopped_at;

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int ret = __real_clock_gettime(clock, time);

	time->tv_sec += clock == CLOCK_MONOTONIC ? atomic_load(&ahead) : 0;
	if (clock == CLOCK_MONOTONIC && atomic_load(&stands))
		*time = stopped_at;
	return ret;
}

int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

static atomic_bool none_left;     /* of descriptors */
static atomic_int none_were_left; /* so often */

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	if (!atomic_load(&none_left))
		return __real_accept4(fd, addr, len, flags);
	atomic_fetch_add(&none_were_left, 1);
	errno = EMFILE;
	return -1;
}

static struct pmv_ticket_server *server;
static struct sockaddr_in there;
static const struct sockaddr *to = (struct sockaddr *) &there;
static atomic_int refusals;
static char why[PMV_KEYS_WHY];

static void count_refusal(const struct sockaddr *from, const char *says)
{
	cr_expect_eq(from->sa_family, AF_INET);
	cr_expect(*says);
	atomic_fetch_add(&refusals, 1);
}

static struct pmv_ticket_server *begin(uint16_t port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				   .sin_port = htons(port)};
	struct pmv_ticket_server *begun;

	cr_assert_eq(pmv_ticket_server_bind((struct sockaddr *) &addr, count_refusal, &begun), 0);
	return begun;
}

static void setup(void)
{
	key_dirs_make();
	key_dirs_be(TARGET);
	cr_assert_eq(pmv_admission_check(why), 0, "%s", why);
	server = begin(0);
	there = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				     .sin_port = htons(pmv_ticket_server_port(server))};
	cr_assert_eq(pmv_ticket_server_listen(server, 0), 0);
}

static void teardown(void)
{
	if (server)
		pmv_ticket_server_close(server);
	key_dirs_remove();
}

TestSuite(ticket_server, .init = setup, .fini = teardown);

/* A client by hand. */

struct request {
	struct pmv_admission *initiator;
	size_t len;
	uint8_t bytes[LENGTH + PMV_ADMISSION_MOST];
};

static void make(struct request *request, int end)
{
	size_t len = sizeof(ASKS);
	uint16_t whole;

	memcpy(request->bytes + LENGTH, ASKS, len);
	/* The thread is the target, and reads whose keys it has. */
	pmv_poller_lock();
	key_dirs_be(end);
	request->initiator =
		pmv_admission_request(PMV_ADMISSION_BEFORE, to, request->bytes + LENGTH, &len, why);
	cr_assert_not_null(request->initiator, "%s", why);
	key_dirs_be(TARGET);
	pmv_poller_unlock();
	whole = htole16((uint16_t) len);
	memcpy(request->bytes, &whole, LENGTH);
	request->len = LENGTH + len;
}

static int reach(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, to, sizeof(there)), 0, "%s", strerror(errno));
	return fd;
}

static void say(int fd, const void *bytes, size_t len)
{
	cr_assert_eq(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t) len);
}

/* hear -- all that comes, up to the end */
static size_t hear(int fd, uint8_t *reply, size_t room)
{
	size_t len = 0;
	ssize_t ret;

	while ((ret = recv(fd, reply + len, room - len, 0)) > 0)
		len += (size_t) ret;
	close(fd);
	return len;
}

/* expect_ticket -- the reply is there, and what it is worth can be shown, once */
static void expect_ticket(struct request *request, int fd)
{
	uint8_t reply[256], shown[PMV_ADMISSION_MOST];
	struct pmv_admission *admission;
	size_t len = hear(fd, reply, sizeof(reply));

	cr_assert_eq(len, PMV_ADMISSION_REPLY);
	cr_assert(pmv_admission_established(request->initiator, reply, &len, why), "%s", why);
	pmv_ticket_make(request->initiator);
	for (int times = 0; times < 2; times++) {
		len = PMV_TICKET_SIZE;
		memcpy(shown, request->initiator->ticket, len);
		admission = pmv_ticket_server_take(server, to, shown, &len, why);
		if (times) {
			cr_expect_null(admission, "it was taken twice");
			continue;
		}
		cr_assert_not_null(admission, "%s", why);
		cr_expect_eq(len, sizeof(ASKS));
		cr_expect_str_eq((char *) shown, ASKS);
		pmv_admission_free(admission);
	}
	pmv_admission_free(request->initiator);
}

static void expect_served(void)
{
	struct request request;
	int fd;

	make(&request, CLIENT);
	fd = reach();
	say(fd, request.bytes, request.len);
	expect_ticket(&request, fd);
}

static void expect_refused(const void *bytes, size_t len)
{
	uint8_t reply[256];
	int fd = reach();

	say(fd, bytes, len);
	cr_expect_eq(hear(fd, reply, sizeof(reply)), 0);
}

Test(ticket_server, gives_tickets_to_who_is_known)
{
	expect_served();
	expect_served();
	cr_expect_eq(atomic_load(&refusals), 0);
}

Test(ticket_server, takes_a_request_in_pieces)
{
	struct request request;
	int fd = reach();

	make(&request, CLIENT);
	for (size_t i = 0; i < request.len; i++) {
		say(fd, request.bytes + i, 1);
		if (i % 16 == 0)
			expect_served();
	}
	expect_ticket(&request, fd);
}

Test(ticket_server, gives_none_to_strangers)
{
	struct request request;

	make(&request, STRANGER);
	expect_refused(request.bytes, request.len);
	cr_expect_eq(atomic_load(&refusals), 1);
	pmv_admission_free(request.initiator);
	expect_served();
}

Test(ticket_server, gives_none_for_a_request_that_was_here_before)
{
	struct request request;
	int fd;

	make(&request, CLIENT);
	fd = reach();
	say(fd, request.bytes, request.len);
	expect_ticket(&request, fd);
	expect_refused(request.bytes, request.len);
	cr_expect_eq(atomic_load(&refusals), 1);
}

Test(ticket_server, gives_none_for_another_ports_request)
{
	struct request request;

	there.sin_port ^= htons(1);
	make(&request, CLIENT);
	there.sin_port ^= htons(1);
	expect_refused(request.bytes, request.len);
	cr_expect_eq(atomic_load(&refusals), 1);
	pmv_admission_free(request.initiator);
}

Test(ticket_server, gives_none_for_a_request_with_other_cm_data)
{
	struct request request;

	make(&request, CLIENT);
	for (size_t i = LENGTH; i < request.len; i++) {
		request.bytes[i] ^= 1;
		expect_refused(request.bytes, request.len);
		request.bytes[i] ^= 1;
	}
	cr_expect_eq(atomic_load(&refusals), (int) (request.len - LENGTH));
	pmv_admission_free(request.initiator);
	expect_served();
}

/* Lengths that can't be are refused before anything else is read. */
Test(ticket_server, gives_none_for_noise)
{
	uint8_t bytes[LENGTH + PMV_ADMISSION_MOST];

	randombytes_buf(bytes, sizeof(bytes));
	for (int len = 0; len < 65536; len += len < 1024 ? 1 : 1021) {
		uint16_t whole = htole16((uint16_t) len);
		bool can_be = len >= PMV_ADMISSION_REQUEST && len <= PMV_ADMISSION_MOST;

		memcpy(bytes, &whole, LENGTH);
		expect_refused(bytes, can_be ? LENGTH + (size_t) len : LENGTH);
	}
	expect_served();
}

Test(ticket_server, is_left_by_many_in_the_middle)
{
	struct request request;
	int before = count_descriptors();

	make(&request, CLIENT);
	for (size_t len = 0; len < request.len; len++) {
		int fd = reach();

		if (len)
			say(fd, request.bytes, len);
		if (len % 2)
			cr_assert_eq(shutdown(fd, SHUT_WR), 0);
		close(fd);
	}
	pmv_admission_free(request.initiator);
	expect_served();
	pmv_ticket_server_close(server);
	server = NULL;
	cr_expect_lt(count_descriptors(), before, "the port, and nothing else, is gone");
}

/* Whoever opens connections and says nothing loses the oldest. */
Test(ticket_server, serves_beside_a_flood)
{
	enum { FLOOD = PMV_TICKET_SERVER_MOST + 50 };
	static int fds[FLOOD];
	uint8_t byte;

	/* So nobody is given up for being slow. */
	clock_gettime(CLOCK_MONOTONIC, &stopped_at);
	atomic_store(&stands, true);
	for (int i = 0; i < FLOOD; i++) {
		fds[i] = reach();
		if (i % 10 == 0)
			expect_served();
	}
	expect_served();
	/* 50 of the flood, and some that were served, were too many. */
	for (int i = 0; i < 50; i++)
		cr_expect_leq(recv(fds[i], &byte, 1, 0), 0);
	cr_expect_eq(recv(fds[FLOOD - 1], &byte, 1, MSG_DONTWAIT), -1);
	cr_expect_eq(errno, EAGAIN);
	for (int i = 0; i < FLOOD; i++)
		close(fds[i]);
}

Test(ticket_server, gives_up_who_is_slow)
{
	struct request request;
	int slow = reach();
	uint8_t byte;

	make(&request, CLIENT);
	say(slow, request.bytes, 50);
	/* It was accepted before this one. */
	expect_served();
	cr_expect_eq(recv(slow, &byte, 1, MSG_DONTWAIT), -1);
	cr_expect_eq(errno, EAGAIN);
	atomic_fetch_add(&ahead, PMV_TICKET_SERVER_SECONDS + 1);
	expect_served();
	cr_expect_leq(recv(slow, &byte, 1, 0), 0);
	close(slow);
	pmv_admission_free(request.initiator);
}

Test(ticket_server, gives_out_nothing_that_lasts)
{
	uint8_t reply[256], shown[PMV_ADMISSION_MOST];
	struct request request;
	size_t len;
	int fd;

	make(&request, CLIENT);
	fd = reach();
	say(fd, request.bytes, request.len);
	len = hear(fd, reply, sizeof(reply));
	cr_assert(pmv_admission_established(request.initiator, reply, &len, why), "%s", why);
	pmv_ticket_make(request.initiator);
	atomic_fetch_add(&ahead, PMV_TICKET_SECONDS + 1);
	len = PMV_TICKET_SIZE;
	memcpy(shown, request.initiator->ticket, len);
	cr_expect_null(pmv_ticket_server_take(server, to, shown, &len, why));
	cr_expect(strstr(why, "is older than"), "%s", why);
	pmv_admission_free(request.initiator);
}

/* Then it takes nobody, and does not keep a processor busy with that; later it goes on. */
Test(ticket_server, goes_on_when_there_are_descriptors_again)
{
	struct request request, before[4];
	int fd, fds[4];

	for (int i = 0; i < 4; i++) {
		make(&before[i], CLIENT);
		fds[i] = reach();
	}
	/* They have been accepted, too. */
	expect_served();
	make(&request, CLIENT);
	clock_gettime(CLOCK_MONOTONIC, &stopped_at);
	atomic_store(&stands, true);
	atomic_store(&none_left, true);
	fd = reach();
	say(fd, request.bytes, request.len);
	while (!atomic_load(&none_were_left))
		sched_yield();
	for (int i = 0; i < 4; i++) {
		say(fds[i], before[i].bytes, before[i].len);
		expect_ticket(&before[i], fds[i]);
	}
	cr_expect_eq(atomic_load(&none_were_left), 1, "it waits before it tries again");
	atomic_store(&none_left, false);
	atomic_store(&stands, false);
	expect_ticket(&request, fd);
}

Test(ticket_server, has_its_port_alone)
{
	struct pmv_ticket_server *other = NULL;

	cr_expect_eq(pmv_ticket_server_listen(server, 0), 0, "it listens already");

	cr_expect_eq(pmv_ticket_server_bind(to, count_refusal, &other), -EADDRINUSE);
	cr_expect_null(other);
	pmv_ticket_server_close(server);
	server = begin(ntohs(there.sin_port));
	cr_assert_eq(pmv_ticket_server_listen(server, 0), 0);
	expect_served();
}

Test(ticket_server, takes_nothing_from_before_it_listened)
{
	struct request request;

	make(&request, CLIENT);
	pmv_ticket_server_close(server);
	server = begin(ntohs(there.sin_port));
	cr_assert_eq(pmv_ticket_server_listen(server, pmv_admission_now()), 0);
	expect_refused(request.bytes, request.len);
	cr_expect_eq(atomic_load(&refusals), 1);
	pmv_admission_free(request.initiator);
	expect_served();
}

/* The thread is, too. */
Test(ticket_server, is_its_processs_own)
{
	pid_t child = fork();
	int status = -1;

	if (!child) {
		pmv_ticket_server_close(server);
		server = begin(0);
		there.sin_port = htons(pmv_ticket_server_port(server));
		cr_assert_eq(pmv_ticket_server_listen(server, 0), 0);
		expect_served();
		pmv_ticket_server_close(server);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	expect_served();
}

Test(ticket_server, that_never_listened_is_closed)
{
	struct pmv_ticket_server *other = begin(0);

	cr_expect_neq(pmv_ticket_server_port(other), 0);
	pmv_ticket_server_close(other);
	cr_expect_eq(pmv_ticket_server_bind(&(struct sockaddr){.sa_family = AF_UNIX}, count_refusal,
					    &other),
		     -EAFNOSUPPORT);
}
