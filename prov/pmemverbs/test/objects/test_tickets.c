/* SPDX-License-Identifier: BSD-2-Clause */
/* test_tickets.c -- FI_PMEMVERBS_KEYS over a core whose CM data have no room for proofs */
#include "stage.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/ticket.h"
#include "auth/ticket_server.h"
#include "objects/handshake.h"
#include "objects/tickets.h"
#include "objects/unwrap.h"
#include "test/support/fake_impl.h"
#include "test/support/key_dirs.h"

TestSuite(tickets, .init = stage_setup, .fini = stage_teardown);

static int no_name(fid_t fid, void *addr, size_t *len)
{
	(void) fid;
	memset(addr, 0, *len);
	return 0;
}

Test(tickets, connect_two_who_know_each_other)
{
	union event event;
	uint32_t what;
	ssize_t ret;

	accepted(connect_ep());
	cr_expect_eq(client.rig->fake.connects, 0, "there is no ticket yet");
	cr_expect_eq(connect_ep(), -FI_EALREADY);
	cr_expect_eq(post(&client), -FI_ENOTCONN);
	while (!client.rig->fake.connects) {
		cr_assert_eq(read_event(&client, &what, &event), -FI_EAGAIN);
		sched_yield();
	}
	cr_assert_eq(client.rig->fake.sent_len, PMV_TICKET_SIZE);
	raise_sent();
	expect_request();
	accepted(accept_ep());
	cr_expect_eq(target.rig->fake.sent_len,
		     sizeof(SAYS) + PMV_HANDSHAKE_SIZE + PMV_TICKET_PROOF);
	cr_expect_eq(post(&target), 0, "the peer is known");
	cr_expect_eq(post(&client), -FI_ENOTCONN);
	raise_connected(target.rig->fake.sent, target.rig->fake.sent_len);
	ret = read_event(&client, &what, &event);
	cr_assert_eq(ret, (ssize_t) (sizeof(event.cm) + sizeof(SAYS)), "%zd", ret);
	cr_expect_eq(what, FI_CONNECTED);
	cr_expect_str_eq((char *) event.cm.data, SAYS);
	cr_expect_eq(post(&client), 0);
	cr_expect(pmv_to_ep(client.rig->ep)->mailbox.link.connected);
	cr_expect(pmv_to_ep(target.rig->ep)->mailbox.link.connected);
}

/* Whoever sleeps in the core's queue has to be woken: by an event of it. */
Test(tickets, wake_whoever_sleeps)
{
	accepted(connect_ep());
	while (fake_eq_is_empty(&pmv_to_eq(client.eq)->core_fid->fid))
		sched_yield();
	cr_expect_eq(client.rig->fake.connects, 0);
}

Test(tickets, are_taken_once)
{
	await_ticket();
	raise_sent();
	expect_request();
	raise_sent();
	pmv_handshake_take(&target.rig->fabric, &handle, NULL);
	expect_rejected(1);
}

Test(tickets, are_void_from_another_address)
{
	await_ticket();
	raise_request(client.rig->fake.sent, client.rig->fake.sent_len, htonl(INADDR_LOOPBACK + 1));
	expect_rejected(1);
	raise_sent();
	expect_rejected(2);
}

Test(tickets, are_of_one_passive_endpoint)
{
	struct fid_pep *first = target.pep;

	await_ticket();
	accepted(pmv_pep_open(&target.rig->fabric.fabric_fid, target.rig->info, &target.pep, NULL));
	accepted(fi_pep_bind(target.pep, &target.eq->fid, 0));
	accepted(fi_listen(target.pep));
	raise_sent();
	expect_rejected(1);
	accepted(fi_close(&target.pep->fid));
	target.pep = first;
	raise_sent();
	expect_request();
}

Test(tickets, are_needed_by_everybody)
{
	static const uint8_t none[PMV_TICKET_SIZE];
	uint8_t request[PMV_ADMISSION_MOST];
	struct pmv_admission *admission;
	char why[PMV_KEYS_WHY];
	size_t len = 0;

	raise_request(NULL, 0, htonl(INADDR_LOOPBACK));
	expect_rejected(1);
	raise_request(none, sizeof(none), htonl(INADDR_LOOPBACK));
	expect_rejected(2);
	raise_request(ASKS, sizeof(ASKS), htonl(INADDR_LOOPBACK));
	expect_rejected(3);
	/* What would be a proof over tcp. */
	admission = pmv_admission_request(PMV_ADMISSION_WITHIN, (struct sockaddr *) &here, request,
					  &len, why);
	cr_assert_not_null(admission);
	pmv_admission_free(admission);
	raise_request(request, len, htonl(INADDR_LOOPBACK));
	expect_rejected(4);
	cr_expect_eq(accept_ep(), -FI_EACCES);
	cr_expect_eq(target.rig->fake.accepts, 0);
}

/* One that does not listen by fi_listen has given out none. */
Test(tickets, are_needed_before_it_listens)
{
	await_ticket();
	accepted(fi_close(&target.pep->fid));
	accepted(pmv_pep_open(&target.rig->fabric.fabric_fid, target.rig->info, &target.pep, NULL));
	accepted(fi_pep_bind(target.pep, &target.eq->fid, 0));
	raise_sent();
	expect_rejected(1);
}

Test(tickets, refuse_an_acceptance_that_proves_nothing)
{
	await_ticket();
	raise_connected((const uint8_t *) SAYS, sizeof(SAYS));
	await_error(FI_ECONNREFUSED);
	cr_expect_eq(client.rig->fake.shutdowns, 1);
}

Test(tickets, refuse_an_acceptance_that_was_changed)
{
	struct fake *fake = &target.rig->fake;

	await_ticket();
	raise_sent();
	expect_request();
	accepted(accept_ep());
	fake->sent[sizeof(SAYS) + 3] ^= 1;
	raise_connected(fake->sent, fake->sent_len);
	await_error(FI_ECONNREFUSED);
	cr_expect_eq(client.rig->fake.shutdowns, 1);
}

Test(tickets, are_not_got_where_nobody_listens)
{
	accepted(fi_close(&target.pep->fid));
	target.pep = NULL;
	accepted(connect_ep());
	await_error(FI_ECONNREFUSED);
	cr_expect_eq(client.rig->fake.connects, 0);
}

Test(tickets, are_of_no_use_to_who_is_not_known_any_more)
{
	await_ticket();
	raise_sent();
	expect_request();
	key_dirs_know(CLIENT, STRANGER, "");
	cr_expect_eq(accept_ep(), -FI_EACCES);
	cr_expect_eq(target.rig->fake.accepts, 0);
}

Test(tickets, are_asked_of_nobody_unknown)
{
	struct fid_ep *ep = client.rig->ep;

	key_dirs_know(CLIENT, CLIENT, "192.0.2.1");
	cr_expect_eq(connect_ep(), -FI_EACCES);
	cr_expect_eq(fi_connect(ep, NULL, NULL, 0), -FI_EACCES);
	cr_expect_eq(client.rig->fake.connects, 0);
}

Test(tickets, need_an_event_queue)
{
	struct rig *rig = client.rig;

	rig_close_ep(rig);
	rig->ep = rig_ep(rig, rig->cq);
	cr_expect_eq(connect_ep(), -FI_ENOEQ);
}

/* Whenever it is: nobody hears of it, and it is not connected later. */
Test(tickets, are_forgotten_with_their_endpoint)
{
	for (int n = 0; n < 40; n++) {
		struct rig *rig = client.rig;
		union event event;
		uint32_t what;

		accepted(connect_ep());
		for (int i = 0; i < n % 20; i++)
			sched_yield();
		if (n >= 20)
			accepted(fi_shutdown(rig->ep, 0));
		if (n < 20)
			rig_close_ep(rig);
		cr_expect_eq(read_event(&client, &what, &event), -FI_EAGAIN);
		cr_expect_eq(rig->fake.connects, 0);
		if (n >= 20)
			rig_close_ep(rig);
		rig->ep = rig_ep(rig, rig->cq);
		accepted(fi_ep_bind(rig->ep, &client.eq->fid, 0));
	}
	accepted(fi_close(&target.pep->fid));
	target.pep = NULL;
	cr_expect_not(has_thread(), "nobody needs it any more");
}

Test(tickets, leave_one_figure_of_room_for_both_directions)
{
	const size_t most = sizeof(client.rig->fake.sent) - PMV_HANDSHAKE_SIZE - PMV_TICKET_PROOF;
	uint8_t data[256] = {0};
	size_t room, len;

	await_ticket();
	raise_sent();
	expect_request();
	open_accepted();
	for (int accepts = 0; accepts < 2; accepts++) {
		struct fid_ep *ep = accepts ? target.rig->ep : client.rig->ep;

		len = sizeof(room);
		accepted(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &room, &len));
		cr_expect_eq(room, most);
	}
	cr_expect_eq(fi_accept(target.rig->ep, data, most + 1), -FI_EINVAL);
	cr_expect_eq(fi_accept(target.rig->ep, data, most), 0);
	cr_expect_eq(target.rig->fake.sent_len, sizeof(client.rig->fake.sent));
}

/* The port of that number is TCP's and the core's. */
Test(tickets, need_the_tcp_port)
{
	struct sockaddr_in taken = {.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(taken);

	cr_assert_eq(bind(fd, (struct sockaddr *) &taken, sizeof(taken)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *) &taken, &len), 0);
	cr_assert_eq(listen(fd, 1), 0);
	accepted(fi_close(&client.pep->fid));
	set_source(client.rig, &taken);
	accepted(pmv_pep_open(&client.rig->fabric.fabric_fid, client.rig->info, &client.pep, NULL));
	accepted(fi_pep_bind(client.pep, &client.eq->fid, 0));
	cr_expect_eq(fi_listen(client.pep), -FI_EADDRINUSE);
	close(fd);
	cr_expect_eq(fi_listen(client.pep), 0);
}

/* If any port will do, one is taken that both have. */
Test(tickets, choose_a_port_that_the_core_has_too)
{
	struct sockaddr_in name;
	size_t len = sizeof(name);

	accepted(fi_close(&client.pep->fid));
	client.rig->fake.ports_taken = 3;
	accepted(pmv_pep_open(&client.rig->fabric.fabric_fid, client.rig->info, &client.pep, NULL));
	cr_expect_eq(client.rig->fake.ports_taken, 0);
	accepted(fi_getname(&client.pep->fid, &name, &len));
	cr_expect_neq(name.sin_port, 0);
	cr_expect_eq(name.sin_port,
		     htons(pmv_ticket_server_port(
			     pmv_container_of(client.pep, struct pmv_pep, pep_fid)->tickets)));
	accepted(fi_close(&client.pep->fid));
	client.rig->fake.ports_taken = 1000;
	cr_expect_eq(
		pmv_pep_open(&client.rig->fabric.fabric_fid, client.rig->info, &client.pep, NULL),
		-FI_EADDRINUSE);
	client.pep = NULL;
}

Test(tickets, come_from_the_address_of_the_endpoints_info)
{
	const struct sockaddr_in from = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	struct rig *rig = client.rig;
	struct pmv_ep *ep;

	rig_close_ep(rig);
	set_source(rig, &from);
	rig->ep = rig_ep(rig, rig->cq);
	accepted(fi_ep_bind(rig->ep, &client.eq->fid, 0));
	ep = pmv_to_ep(rig->ep);
	ep->engine.fid->cm->getname = no_name;
	await_ticket();
	raise_request(rig->fake.sent, rig->fake.sent_len, from.sin_addr.s_addr);
	expect_request();
}

/* Else its queue would say for ever that there is an error, or swallow the connection. */
Test(tickets, are_for_one_attempt)
{
	struct fi_eq_err_entry entry = {0};
	union event event;
	uint32_t what;
	ssize_t ret;

	accepted(fi_close(&target.pep->fid));
	target.pep = NULL;
	accepted(connect_ep());
	while ((ret = read_event(&client, &what, &event)) == -FI_EAGAIN)
		sched_yield();
	cr_assert_eq(ret, -FI_EAVAIL);
	cr_expect_eq(connect_ep(), -FI_EALREADY);
	cr_assert_eq(fi_eq_readerr(client.eq, &entry, 0), (ssize_t) sizeof(entry));
	cr_expect_eq(connect_ep(), -FI_EALREADY);
	cr_expect_eq(read_event(&client, &what, &event), -FI_EAGAIN);
}

/* Whoever sleeps in the core would not be woken by that. */
Test(tickets, tell_a_refusal_behind_many_strangers)
{
	union event event = {.cm = {0}};
	uint32_t what;

	await_ticket();
	while (!fake_eq_is_empty(&pmv_to_eq(client.eq)->core_fid->fid))
		cr_assert_eq(read_event(&client, &what, &event), -FI_EAGAIN);
	for (int i = 0; i < 15; i++) {
		event.cm.fid = pmv_unwrap_fid(&client.pep->fid);
		event.cm.info = fi_dupinfo(client.rig->info);
		event.cm.info->handle = &handle;
		fake_raise(pmv_to_eq(client.eq)->core_fid, FI_CONNREQ, &event, sizeof(event.cm));
	}
	raise_connected((const uint8_t *) SAYS, sizeof(SAYS));
	cr_expect_eq(read_event(&client, &what, &event), -FI_EAVAIL);
	expect_error(FI_ECONNREFUSED);
}
