/* SPDX-License-Identifier: BSD-2-Clause */
/* client_world.c -- a client's server, without a network; client_world.h says what it does */
#include "client_world.h"

#include <criterion/criterion.h>

#include <rdma/fi_ext_pmemverbs.h>

struct rpc_welcome_message welcome, farewell;
uint32_t got[MOST_POSTED];
unsigned int num_got;
bool answered, completes, writes_next, fenced;
struct rpc_request_message hello, ready;
size_t memory_max;

static unsigned int last_ep;

static void see(struct net_ep *ep, const struct testcore_request *request)
{
	const struct rpc_request_message *message = request->buf;

	if (ep->number != last_ep) {
		last_ep = ep->number;
		num_got = 0;
		answered = false;
	}
	cr_assert_lt(num_got, MOST_POSTED);
	fenced = request->flags & FI_FENCE;
	if (request->flags & FI_COMMIT_COMPLETE)
		got[num_got++] = ENTRY;
	else if ((request->what & FI_RMA) || (welcome.cell && num_got > 1))
		got[num_got++] = PLAIN;
	else
		got[num_got++] = le32toh(message->type);
	if (got[num_got - 1] == RPC_MSG_HELLO)
		hello = *message;
	if (got[num_got - 1] == RPC_MSG_READY)
		ready = *message;
	if (got[num_got - 1] == RPC_MSG_FORGET)
		answered = false;
}

/* go_on -- the client waits: an answer comes first, and then what was posted completes */
static void go_on(int timeout_ms)
{
	bool says = net.eps && num_got && net.eps->number == last_ep && !answered;

	(void) timeout_ms;
	if (says && got[num_got - 1] == RPC_MSG_HELLO) {
		answered = net_deliver(net.eps, &welcome, sizeof(welcome));
		if (writes_next)
			welcome.cell = 0;
	} else if (says && got[num_got - 1] == RPC_MSG_FORGET)
		answered = net_deliver(net.eps, &farewell, sizeof(farewell));
	else if (net.eps && completes)
		net_complete(net.eps, 0);
}

void set_up(void)
{
	net = (struct net){
		.room = 16, .on_transmit = see, .on_idle = go_on, .method = FI_PMEMVERBS_READ};
	last_ep = UINT32_MAX;
	completes = true;
	farewell = (struct rpc_welcome_message){.type = htole32(RPC_MSG_FORGOTTEN),
						.lowest = htole16(RPC_LOWEST),
						.highest = htole16(RPC_HIGHEST)};
	welcome = (struct rpc_welcome_message){.type = htole32(RPC_MSG_WELCOME),
					       .lowest = htole16(RPC_LOWEST),
					       .highest = htole16(RPC_HIGHEST),
					       .window = htole32(4),
					       .ring = htole64(1024),
					       .reply_max = htole64(24),
					       .check_key = htole64(7)};
}

int connect_as(enum pmemrpc_transport transport, struct pmemrpc_client **client)
{
	const struct pmemrpc_client_attr attr = {.node = "there",
						 .service = "1",
						 .transport = transport,
						 .timeout_ms = 10000,
						 .memory_max = memory_max};
	char error[256];

	return pmemrpc_connect(&attr, client, error, sizeof(error));
}

struct pmemrpc_client *come(enum pmemrpc_transport transport)
{
	struct pmemrpc_client *client;

	cr_assert_eq(connect_as(transport, &client), 0);
	return client;
}

void lose_connection(struct pmemrpc_client *client)
{
	completes = false;
	net_raise(net.eq, FI_SHUTDOWN, &net.eps->core.fid.fid, NULL, NULL, 0);
	cr_assert_eq(pmemrpc_progress(client), -FI_ENOTCONN);
	completes = true;
}

void leave(struct pmemrpc_client *client)
{
	pmemrpc_close(client);
	cr_assert_eq(net.objects, 0);
}

int reply(struct pmemrpc_client *client, enum rpc_message_type type, uint64_t sequence)
{
	const struct rpc_reply_message message = {.type = htole32(type),
						  .sequence = htole64(sequence)};

	cr_assert(net_deliver(net.eps, &message, sizeof(message)));
	return pmemrpc_progress(client);
}

void check_forgotten(void)
{
	cr_assert_eq(num_got, 3);
	cr_assert_eq(got[0], RPC_MSG_HELLO);
	cr_assert_eq(got[1], RPC_MSG_READY);
	cr_assert_eq(got[2], RPC_MSG_FORGET);
	cr_assert(answered);
	cr_assert_eq(net.objects, 0);
}
