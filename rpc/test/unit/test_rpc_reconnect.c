/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_reconnect.c -- how a client comes to a server, and comes back when the connection is
 * lost */
#include <criterion/criterion.h>

#include <string.h>
#include <unistd.h>

#include "client_world.h"

/* send_again -- with room for one message at a time, nothing overtakes READY */
static void send_again(enum pmemrpc_transport transport, uint64_t cell)
{
	struct pmemrpc_call call = {.op = 1};
	struct pmemrpc_client *client;

	welcome.cell = htole64(cell);
	client = come(transport);
	cr_assert_eq(pmemrpc_post(client, &call), 0);
	lose_connection(client);
	net.room = 1;
	cr_assert_eq(pmemrpc_reconnect(client, 10000), 0);
	while (num_got < 3)
		cr_assert_eq(pmemrpc_progress(client), 0);
	cr_assert_eq(got[0], RPC_MSG_HELLO);
	cr_assert_eq(got[1], RPC_MSG_READY);
	cr_assert_eq(got[2], ENTRY);
	leave(client);
}

Test(rpc_reconnect, what_is_sent_again_does_not_overtake_ready, .init = set_up)
{
	send_again(PMEMRPC_WRITE, 0);
}

Test(rpc_reconnect, what_is_sent_again_comes_behind_hello_and_ready, .init = set_up)
{
	send_again(PMEMRPC_SEND, 256);
}

/* refuse -- a server that comes back with another ring */
static void refuse(struct pmemrpc_client *client, uint64_t *field, uint64_t value)
{
	uint64_t before = *field;

	*field = htole64(value);
	cr_assert_eq(pmemrpc_reconnect(client, 10000), -EPROTO);
	cr_assert_eq(num_got, 1, "more than HELLO goes to a ring that is another one");
	*field = before;
}

Test(rpc_reconnect, a_ring_stays_as_large_as_it_was, .init = set_up)
{
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);

	lose_connection(client);
	refuse(client, &welcome.ring, 512);
	refuse(client, &welcome.ring, 2048);
	refuse(client, &welcome.ring, 0);
	refuse(client, &welcome.cell, 64);
	refuse(client, &welcome.reply_max, 25);
	refuse(client, &welcome.reply_max, 23);
	refuse(client, &welcome.position, 63);
	welcome.window = htole32(3);
	refuse(client, &welcome.check_key, 8);
	welcome.window = htole32(4);
	cr_assert_eq(pmemrpc_reconnect(client, 10000), 0);
	leave(client);
}

Test(rpc_reconnect, a_server_without_room_is_asked_again, .init = set_up)
{
	struct pmemrpc_client *client;

	net.refusal = RPC_CROWDED;
	net.refusals = 2;
	client = come(PMEMRPC_WRITE);
	cr_assert_eq(net.refusals, 0);
	leave(client);
	net.refusal = "this is a pmemrpc server";
	net.refusals = 2;
	cr_assert_eq(connect_as(PMEMRPC_WRITE, &client), -FI_EACCES);
	cr_assert_eq(net.refusals, 1);
	cr_assert_eq(net.objects, 0);
}

/* What pmemverbs says of the key of a server that has another version, or does not use it. */
Test(rpc_reconnect, who_can_never_commit_there_is_told_so, .init = set_up)
{
	struct pmemrpc_call call = {.op = 1};
	struct pmemrpc_client *client;

	net.no_key = -FI_ENOKEY;
	cr_assert_eq(connect_as(PMEMRPC_WRITE, &client), -FI_EOPNOTSUPP);
	check_forgotten();
	net.no_key = 0;
	client = come(PMEMRPC_WRITE);
	cr_assert_eq(pmemrpc_post(client, &call), 0);
	lose_connection(client);
	/* It was replaced. */
	net.no_key = -FI_ENOKEY;
	cr_assert_eq(pmemrpc_reconnect(client, 10000), -FI_EOPNOTSUPP);
	cr_assert(strstr(pmemrpc_client_error(client), "another version"));
	leave(client);
}

Test(rpc_reconnect, who_may_not_commit_there_is_told_so, .init = set_up)
{
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);
	struct pmemrpc_call call = {.op = 1};

	net.no_commit = -FI_EOPNOTSUPP;
	cr_assert_eq(pmemrpc_post(client, &call), 0);
	cr_assert_eq(pmemrpc_wait(client, &call, PMEMRPC_EXECUTED, 10000), -FI_ENOTCONN);
	cr_assert_eq(pmemrpc_reconnect(client, 10000), -FI_EOPNOTSUPP);
	cr_assert_eq(call.state, PMEMRPC_POSTED);
	/* Whoever tries all the same finds out. */
	net.no_commit = 0;
	cr_assert_eq(pmemrpc_reconnect(client, 10000), 0);
	cr_assert_eq(pmemrpc_wait(client, &call, PMEMRPC_DURABLE, 10000), 0);
	leave(client);
}

/* What the client sleeps, and when it is. */
static int64_t now_ms, slept_ms;

int __wrap_usleep(useconds_t us);
int64_t __wrap_rpc_now_ms(void);

int __wrap_usleep(useconds_t us)
{
	now_ms += us / 1000;
	slept_ms += us / 1000;
	return 0;
}

int64_t __wrap_rpc_now_ms(void)
{
	return now_ms;
}

/* comes_back_after -- a connection on which nothing came of the call; how long it waited */
static int64_t comes_back_after(struct pmemrpc_client *client)
{
	slept_ms = 0;
	lose_connection(client);
	cr_assert_eq(pmemrpc_reconnect(client, 10000), 0);
	return slept_ms;
}

/* A commit that fails each time, or a server that ends each connection: it may get better. */
Test(rpc_reconnect, who_connects_in_vain_pauses_for_longer_each_time, .init = set_up)
{
	static const int64_t pauses[] = {0, 20, 40, 80, 160, 320, 320};
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);
	struct pmemrpc_call call = {.op = 1};

	cr_assert_eq(pmemrpc_post(client, &call), 0);
	for (unsigned int i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++)
		cr_expect_eq(comes_back_after(client), pauses[i], "after %u times", i);
	/* A connection that has lasted was none of those that end at once. */
	now_ms += 1000;
	cr_expect_eq(comes_back_after(client), 0);
	slept_ms = 0;
	lose_connection(client);
	cr_assert_eq(pmemrpc_reconnect(client, 20), 0);
	cr_expect_eq(slept_ms, 11, "there has to be time for the attempt");
	cr_assert_eq(pmemrpc_wait(client, &call, PMEMRPC_DURABLE, 10000), 0);
	welcome.executed = htole64(1);
	welcome.position = htole64(64);
	cr_expect_eq(comes_back_after(client), 0, "something has come of it");
	cr_expect_eq(comes_back_after(client), 0);
	cr_expect_eq(comes_back_after(client), 20);
	cr_assert_eq(reply(client, RPC_MSG_REPLY, 1), 0);
	cr_expect_eq(comes_back_after(client), 0, "also of this");
	leave(client);
}

Test(rpc_reconnect, who_comes_back_says_which_replies_it_has, .init = set_up)
{
	struct pmemrpc_client *client;
	struct pmemrpc_call call = {.op = 1}, next = {.op = 1};

	client = come(PMEMRPC_WRITE);
	cr_assert_eq(hello.executed, 0);
	cr_assert_eq(pmemrpc_post(client, &call), 0);
	cr_assert_eq(reply(client, RPC_MSG_REPLY, 1), 0);
	while (net_complete(net.eps, 0))
		;
	call.state = PMEMRPC_IDLE;
	call.reply_only = 1;
	cr_assert_eq(pmemrpc_post(client, &call), 0);
	cr_assert_eq(reply(client, RPC_MSG_READ, 2), 0);
	cr_assert_eq(pmemrpc_post(client, &next), 0);
	lose_connection(client);
	/* It had started again, and knew of one call. */
	welcome.executed = htole64(2);
	welcome.position = htole64(128);
	cr_assert_eq(pmemrpc_reconnect(client, 10000), 0);
	cr_assert_eq(le64toh(hello.executed), 2);
	cr_assert_eq(le64toh(hello.position), 128);
	cr_assert_eq(le64toh(hello.durable), 1);
	cr_assert_eq(le64toh(ready.replies_from), 3);
	leave(client);
}

/* A call that was durable, and has no reply, has to be there. */
Test(rpc_reconnect, who_comes_back_says_what_was_durable, .init = set_up)
{
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);
	struct pmemrpc_call calls[2] = {{.op = 1}, {.op = 1}};

	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(pmemrpc_post(client, &calls[i]), 0);
		while (net_complete(net.eps, 0))
			;
		cr_assert_eq(pmemrpc_progress(client), 0);
		cr_assert_eq(calls[i].state, PMEMRPC_DURABLE);
	}
	lose_connection(client);
	welcome.executed = htole64(2);
	welcome.position = htole64(128);
	cr_assert_eq(pmemrpc_reconnect(client, 10000), 0);
	cr_assert_eq(le64toh(hello.executed), 0);
	cr_assert_eq(le64toh(hello.position), 0);
	cr_assert_eq(le64toh(hello.durable), 2);
	leave(client);
}
