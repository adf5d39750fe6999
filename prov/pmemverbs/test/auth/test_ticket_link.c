/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ticket_link.c -- tickets over link-local addresses, in a network of the test's own */
#include "auth/ticket_client.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "auth/ticket.h"
#include "auth/ticket_server.h"
#include "test/support/key_dirs.h"

static char why[PMV_KEYS_WHY];
static int told;

static void tell(void *arg)
{
	(void) arg;
	eventfd_write(told, 1);
}

static void see(const struct sockaddr *from, const char *says)
{
	(void) from;
	cr_expect_fail("refused: %s", says);
}

/* address -- fe80::1, behind the interface of that number */
static struct sockaddr_in6 address(uint32_t scope, uint16_t port)
{
	return (struct sockaddr_in6){.sin6_family = AF_INET6,
				     .sin6_port = htons(port),
				     .sin6_addr.s6_addr = {0xfe, 0x80, [15] = 1},
				     .sin6_scope_id = scope};
}

/* make_network -- false: nobody here may */
static bool make_network(void)
{
	return !unshare(CLONE_NEWNET) &&
	       !system("{ ip link set lo up && ip address add fe80::1/64 dev lo nodad; } 2>&1");
}

static void setup(void)
{
	key_dirs_make();
	key_dirs_know(CLIENT, CLIENT, "fe80::1%lo");
	key_dirs_be(CLIENT);
	told = eventfd(0, EFD_CLOEXEC);
}

static void teardown(void)
{
	close(told);
	key_dirs_remove();
}

TestSuite(ticket_link, .init = setup, .fini = teardown);

/* RDMA names no interface of the own address, nor of a peer that shows its ticket. */
Test(ticket_link, is_got_from_there_and_shown_without_the_interface)
{
	struct sockaddr_in6 at, from = address(0, 0);
	const struct sockaddr *whence = (struct sockaddr *) &from;
	struct pmv_admission *admission, *peer;
	struct pmv_ticket_client *client;
	struct pmv_ticket_server *server;
	uint8_t data[PMV_ADMISSION_MOST];
	size_t len = PMV_TICKET_SIZE;
	eventfd_t times;

	if (!make_network())
		cr_skip_test("no network can be made here");
	cr_assert_eq(pmv_admission_check(why), 0, "%s", why);
	at = address(if_nametoindex("lo"), 0);
	cr_assert_eq(pmv_ticket_server_bind((struct sockaddr *) &at, see, &server), 0);
	cr_assert_eq(pmv_ticket_server_listen(server, 0), 0);
	at.sin6_port = htons(pmv_ticket_server_port(server));
	client = pmv_ticket_client_begin(whence, (struct sockaddr *) &at, NULL, 0, tell, NULL, why);
	cr_assert_not_null(client, "%s", why);
	cr_assert_eq(eventfd_read(told, &times), 0);
	cr_assert_eq(pmv_ticket_client_end(client, &admission, why), 0, "%s", why);
	memcpy(data, admission->ticket, len);
	peer = pmv_ticket_server_take(server, whence, data, &len, why);
	cr_assert_not_null(peer, "%s", why);
	pmv_admission_free(peer);
	pmv_admission_free(admission);
	pmv_ticket_server_close(server);
}

Test(ticket_link, needs_the_interface)
{
	struct sockaddr_in6 at = address(0, 1);

	cr_assert_eq(pmv_admission_check(why), 0, "%s", why);
	cr_expect_null(
		pmv_ticket_client_begin(NULL, (struct sockaddr *) &at, NULL, 0, tell, NULL, why));
	cr_expect(strstr(why, "needs the name of the interface"), "%s", why);
}
