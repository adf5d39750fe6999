/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_client.c -- how a client's calls go, and what it does when a server means ill */
#include <criterion/criterion.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "client_world.h"

Test(rpc_client, a_server_has_a_version_of_ours, .init = set_up)
{
	const uint16_t v = RPC_HIGHEST;
	const uint16_t none[][2] = {
		{v + 1, v + 2}, {1, RPC_LOWEST - 1}, {v + 1, v}, {0, v}, {v, 0}};
	struct pmemrpc_client *client;

	welcome.highest = htole16(v + 1);
	client = come(PMEMRPC_WRITE);
	cr_expect_eq(le16toh(hello.lowest), RPC_LOWEST);
	cr_expect_eq(le16toh(hello.highest), RPC_HIGHEST);
	leave(client);
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		welcome.lowest = htole16(none[i][0]);
		welcome.highest = htole16(none[i][1]);
		cr_expect_eq(connect_as(PMEMRPC_WRITE, &client), -EPROTO, "row %zu", i);
	}
	cr_assert_eq(net.objects, 0);
}

/* What says that the client is there still comes from the client alone. */
Test(rpc_client, no_server_says_that_a_client_is_not_closed, .init = set_up)
{
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);
	int ret;

	farewell = (struct rpc_welcome_message){.type = htole32(RPC_MSG_REFUSED),
						.lowest = htole16(RPC_LOWEST),
						.highest = htole16(RPC_HIGHEST),
						.error = htole32(FI_EBUSY)};
	ret = pmemrpc_forget(client, 10000);
	cr_assert(ret && ret != -FI_EBUSY);
	cr_assert_eq(net.objects, 0);
}

/* What comes behind the operations that a provider has is not looked at. */
Test(rpc_client, a_provider_without_messages_is_not_asked_of_them, .init = set_up)
{
	struct pmemrpc_client *client;

	net.ops_len = offsetof(struct fi_pmemverbs_ops, query_messages);
	welcome.cell = htole64(256);
	cr_assert_eq(connect_as(PMEMRPC_SEND, &client), -FI_EOPNOTSUPP);
	cr_assert_eq(net.objects, 0);
	welcome.cell = 0;
	leave(come(PMEMRPC_WRITE));
}

/* A ring of 1024 bytes twice, and five receives; a short reply has no shorter one than this. */
Test(rpc_client, a_server_takes_no_more_memory_than_it_may, .init = set_up)
{
	const size_t needed = 2048 + 5 * ((sizeof(struct rpc_welcome_message) + 63) / 64 * 64);
	struct pmemrpc_client *client;

	memory_max = needed - 1;
	cr_assert_eq(connect_as(PMEMRPC_WRITE, &client), -FI_E2BIG);
	cr_assert_eq(net.objects, 0);
	memory_max = needed;
	leave(come(PMEMRPC_WRITE));
	welcome.ring = htole64(PMEMRPC_MAX_RING);
	cr_assert_eq(connect_as(PMEMRPC_WRITE, &client), -FI_E2BIG);
}

/* Else the server would keep a ring for somebody who never comes. */
Test(rpc_client, a_ring_that_is_too_large_goes_back, .init = set_up)
{
	struct pmemrpc_client *client;

	memory_max = 1024;
	cr_assert_eq(connect_as(PMEMRPC_WRITE, &client), -FI_E2BIG);
	check_forgotten();
	welcome.cell = htole64(256);
	writes_next = true;
	cr_assert_eq(connect_as(PMEMRPC_SEND, &client), -FI_E2BIG);
	check_forgotten();
	/* An earlier life has made calls: they are not forgotten. */
	welcome.executed = htole64(1);
	cr_assert_eq(connect_as(PMEMRPC_WRITE, &client), -FI_E2BIG);
	cr_assert_eq(num_got, 1);
	cr_assert_eq(net.objects, 0);
}

/* post_reply_only -- returns how many requests it took, of which the last one tells the server */
static unsigned int post_reply_only(struct pmemrpc_client *client, size_t len)
{
	static const char argument[1000];
	struct pmemrpc_call call = {
		.op = 1, .argument = argument, .argument_len = len, .reply_only = 1};
	unsigned int before = num_got;

	cr_assert_eq(pmemrpc_post(client, &call), 0);
	while (net_complete(net.eps, 0))
		;
	pmemrpc_progress(client);
	return num_got - before;
}

static uint64_t flushes(const struct pmemrpc_client *client)
{
	struct pmemrpc_limits limits;

	pmemrpc_get_limits(client, &limits);
	return limits.flushes;
}

Test(rpc_client, a_call_whose_reply_is_waited_for_is_not_committed, .init = set_up)
{
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);
	struct pmemrpc_call call = {.op = 1};

	cr_assert_eq(post_reply_only(client, 8), 1);
	cr_assert_eq(got[num_got - 1], PLAIN);
	cr_assert_eq(post_reply_only(client, 600), 1, "also if it is long");
	cr_assert_eq(got[num_got - 1], PLAIN);
	cr_assert_eq(flushes(client), 0);
	cr_assert_eq(client->durable, 0, "nobody has made it durable");
	cr_assert_eq(pmemrpc_post(client, &call), 0);
	cr_assert_eq(got[num_got - 1], ENTRY);
	cr_assert_eq(flushes(client), 1);
	lose_connection(client);
	leave(client);
}

/* It may be torn, as a short one: its checksum says so.  Only at the end of the ring it takes two.
 */
Test(rpc_client, a_long_call_is_one_write_and_its_commit, .init = set_up)
{
	static const char argument[1000];
	struct pmemrpc_call first = {.op = 1, .argument = argument, .argument_len = 600};
	struct pmemrpc_call second = first;
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);
	unsigned int before = num_got;

	cr_assert_eq(pmemrpc_post(client, &first), 0);
	cr_assert_eq(num_got - before, 1);
	cr_assert_eq(got[before], ENTRY);
	cr_assert(!fenced, "it waits for nothing");
	cr_assert_eq(pmemrpc_wait(client, &first, PMEMRPC_DURABLE, 10000), 0);
	cr_assert_eq(reply(client, RPC_MSG_REPLY, 1), 0);
	cr_assert_eq(pmemrpc_post(client, &second), 0);
	cr_assert_eq(num_got - before, 3);
	cr_assert_eq(got[before + 1], PLAIN);
	cr_assert_eq(got[before + 2], ENTRY);
	cr_assert(fenced, "its word is durable when all of it is");
	cr_assert_eq(flushes(client), 2);
	leave(client);
}

Test(rpc_client, a_sent_call_whose_reply_is_waited_for_is_not_committed, .init = set_up)
{
	struct pmemrpc_client *client;

	welcome.cell = htole64(256);
	client = come(PMEMRPC_SEND);
	cr_assert_eq(post_reply_only(client, 8), 1);
	cr_assert_eq(got[num_got - 1], PLAIN);
	cr_assert_eq(flushes(client), 0);
	leave(client);
}

/* There the server could hear of a call before it is there. */
Test(rpc_client, where_writes_overtake_each_other_all_calls_are_committed, .init = set_up)
{
	struct pmemrpc_client *client;

	net.relaxed = true;
	client = come(PMEMRPC_WRITE);
	cr_assert_eq(post_reply_only(client, 8), 1);
	cr_assert_eq(got[num_got - 1], ENTRY);
	cr_assert_eq(flushes(client), 1);
	leave(client);
}

/* mixed -- a call whose caller waits until it is durable, before or behind one whose does not */
static void mixed(int first, int second)
{
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);
	struct pmemrpc_call calls[] = {
		{.op = 1}, {.op = 1, .reply_only = first}, {.op = 1, .reply_only = second}};

	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(pmemrpc_post(client, &calls[i]), 0);
	for (unsigned int i = 0; i < 2; i++) {
		while (net_complete(net.eps, 0))
			;
		cr_assert_eq(pmemrpc_progress(client), 0);
	}
	cr_assert_eq(num_got, 4, "they share a write");
	cr_assert_eq(got[num_got - 1], ENTRY);
	cr_assert_eq(client->durable, 3);
	leave(client);
}

Test(rpc_client, a_batch_is_committed_if_any_of_its_calls_is, .init = set_up)
{
	welcome.window = htole32(32);
	mixed(1, 0);
	num_got = 0;
	mixed(0, 1);
}

/* The reply says more than the commit's completion would. */
Test(rpc_client, a_reply_ends_the_wait_for_a_commit, .init = set_up)
{
	struct pmemrpc_call calls[] = {{.op = 1}, {.op = 1}, {.op = 1}};
	struct pmemrpc_client *client;

	welcome.window = htole32(32);
	client = come(PMEMRPC_WRITE);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(pmemrpc_post(client, &calls[i]), 0);
	cr_assert_eq(flushes(client), 1, "two are held back");
	cr_assert_eq(reply(client, RPC_MSG_REPLY, 1), 0);
	cr_assert_eq(calls[0].state, PMEMRPC_EXECUTED);
	cr_assert_eq(flushes(client), 2, "the caller may not come again soon");
	lose_connection(client);
	leave(client);
}

Test(rpc_client, what_is_sent_again_is_committed_if_the_new_path_reorders, .init = set_up)
{
	struct pmemrpc_call call = {.op = 1, .reply_only = 1};
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);

	cr_assert_eq(pmemrpc_post(client, &call), 0);
	cr_assert_eq(got[num_got - 1], PLAIN);
	lose_connection(client);
	net.relaxed = true;
	cr_assert_eq(pmemrpc_reconnect(client, 10000), 0);
	while (num_got < 3)
		cr_assert_eq(pmemrpc_progress(client), 0);
	cr_assert_eq(got[2], ENTRY);
	leave(client);
}

Test(rpc_client, who_rests_for_no_time_hears_what_there_is, .init = set_up)
{
	struct pmemrpc_client *client = come(PMEMRPC_WRITE);

	completes = false;
	net_raise(net.eq, FI_SHUTDOWN, &net.eps->core.fid.fid, NULL, NULL, 0);
	cr_assert_eq(pmemrpc_rest(client, 0), -FI_ENOTCONN);
	leave(client);
}

/* read_twice -- two calls, of 64 bytes each, which have left nothing at the server */
static struct pmemrpc_client *read_twice(void)
{
	static struct pmemrpc_call calls[2];
	struct pmemrpc_client *client;

	welcome.ring = htole64(256);
	client = come(PMEMRPC_WRITE);
	cr_assert_eq(le64toh(ready.in_order), 1);
	for (unsigned int i = 0; i < 2; i++) {
		calls[i] = (struct pmemrpc_call){.op = 1, .reply_only = 1};
		cr_assert_eq(pmemrpc_post(client, &calls[i]), 0);
		cr_assert_eq(reply(client, RPC_MSG_READ, i + 1), 0);
		cr_assert_eq(calls[i].state, PMEMRPC_EXECUTED);
	}
	return client;
}

/* After a crash the server finds it from there on. */
Test(rpc_client, what_has_read_is_not_overwritten_while_a_durable_call_waits, .init = set_up)
{
	struct pmemrpc_client *client = read_twice();
	unsigned char argument[100] = {0};
	struct pmemrpc_call durable = {.op = 1};
	struct pmemrpc_call next = {.op = 1, .argument = argument, .argument_len = 100};

	cr_assert_eq(pmemrpc_post(client, &durable), 0);
	cr_assert_eq(got[num_got - 1], ENTRY);
	cr_assert_eq(pmemrpc_post(client, &next), -FI_EAGAIN);
	while (net_complete(net.eps, 0))
		;
	cr_assert_eq(pmemrpc_progress(client), 0);
	cr_assert_eq(durable.state, PMEMRPC_DURABLE);
	cr_assert_eq(pmemrpc_post(client, &next), -FI_EAGAIN);
	cr_assert_eq(reply(client, RPC_MSG_REPLY, 3), 0);
	cr_assert_eq(pmemrpc_post(client, &next), 0);
	while (net_complete(net.eps, 0))
		;
	cr_assert_eq(pmemrpc_progress(client), 0);
	cr_assert_eq(next.state, PMEMRPC_DURABLE);
	leave(client);
}

/* Its place is needed: then nothing that follows is found after a crash, so nobody says so. */
Test(rpc_client, what_overwrites_calls_that_have_read_is_durable_by_its_reply, .init = set_up)
{
	struct pmemrpc_client *client = read_twice();
	unsigned char argument[200] = {0};
	struct pmemrpc_call call = {.op = 1, .argument = argument, .argument_len = 200};
	struct pmemrpc_call next = {.op = 1};

	cr_assert_eq(pmemrpc_post(client, &call), 0);
	cr_assert_eq(got[num_got - 1], PLAIN);
	while (net_complete(net.eps, 0))
		;
	cr_assert_eq(pmemrpc_progress(client), 0);
	cr_assert_eq(call.state, PMEMRPC_POSTED);
	cr_assert_eq(reply(client, RPC_MSG_REPLY, 3), 0);
	cr_assert_eq(call.state, PMEMRPC_EXECUTED);
	cr_assert_eq(pmemrpc_post(client, &next), 0);
	cr_assert_eq(got[num_got - 1], ENTRY);
	leave(client);
}

Test(rpc_client, where_writes_overtake_each_other_all_calls_are_kept, .init = set_up)
{
	net.relaxed = true;
	leave(come(PMEMRPC_WRITE));
	cr_assert_eq(le64toh(ready.in_order), 0);
}

static uint64_t missed;

static void on_missed(const struct pmemrpc_call *call, void *context)
{
	(void) context;
	missed = missed * 10 + call->sequence;
}

Test(rpc_client, a_reply_that_is_gone_is_not_missed, .init = set_up)
{
	const struct pmemrpc_client_attr attr = {.node = "there",
						 .service = "1",
						 .timeout_ms = 10000,
						 .replies_from = 1,
						 .missed = on_missed};
	struct pmemrpc_call call = {.op = 1};
	struct pmemrpc_client *client;
	char error[256];

	welcome.executed = htole64(3);
	welcome.position = htole64(192);
	cr_assert_eq(pmemrpc_connect(&attr, &client, error, sizeof(error)), 0);
	cr_assert_eq(reply(client, RPC_MSG_REPLY, 1), 0);
	cr_assert_eq(reply(client, RPC_MSG_GONE, 2), 0);
	cr_assert_eq(pmemrpc_post(client, &call), -FI_EAGAIN);
	cr_assert_eq(reply(client, RPC_MSG_GONE, 3), 0);
	cr_assert_eq(missed, 1);
	cr_assert_eq(pmemrpc_post(client, &call), 0);
	/* But not of a call that is under way. */
	cr_assert_eq(reply(client, RPC_MSG_GONE, 4), -FI_ENOTCONN);
	leave(client);
}
