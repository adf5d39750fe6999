/* SPDX-License-Identifier: BSD-2-Clause */
/* session_world.c -- a server without a network or persistent memory */
#include "session_world.h"

#include <netinet/in.h>
#include <stdio.h>

#include <criterion/criterion.h>

struct pmemrpc_server *server;
static struct rpc_memory memory;
unsigned int flushes;
unsigned int handled;
char complaint[256];
unsigned int complaints;
bool keeps;
int64_t now;
struct rpc_welcome_message heard[MOST_EPS];

int64_t __wrap_rpc_now_ms(void);
int __wrap_rpc_pmem_open(struct rpc_pmem *pmem, const char *path, uint64_t len,
			 struct connection_error *error);
void __wrap_rpc_pmem_close(struct rpc_pmem *pmem);

int64_t __wrap_rpc_now_ms(void)
{
	return now;
}

static void write_memory(struct rpc_memory *of, void *place, const void *data, size_t len)
{
	(void) of;
	memcpy(place, data, len);
}

static int persist_memory(struct rpc_memory *of, const void *place, size_t len)
{
	(void) of, (void) place, (void) len;
	flushes++;
	return 0;
}

int __wrap_rpc_pmem_open(struct rpc_pmem *pmem, const char *path, uint64_t len,
			 struct connection_error *error)
{
	(void) path, (void) error;
	memory = (struct rpc_memory){.base = memory.base ? memory.base : calloc(1, len),
				     .len = len,
				     .write = write_memory,
				     .persist = persist_memory};
	*pmem = (struct rpc_pmem){.memory = memory, .fd = -1};
	return memory.base ? 0 : -FI_ENOMEM;
}

void __wrap_rpc_pmem_close(struct rpc_pmem *pmem)
{
	(void) pmem;
	if (keeps)
		return;
	free(memory.base);
	memory.base = NULL;
}

bool excludes;
bool first_excludes;
bool makes_others_due;

static int handle(struct pmemrpc_request *request, void *context)
{
	(void) context;
	handled++;
	if (excludes && request->client == CLIENTS - 1)
		pmemrpc_exclude(request);
	if (first_excludes && !request->client)
		pmemrpc_exclude(request);
	if (makes_others_due && !request->client)
		server->workers[0].executor.flush_ns = 0;
	return 0;
}

static void complain(const char *sentence, void *context)
{
	(void) context;
	complaints++;
	snprintf(complaint, sizeof(complaint), "%s", sentence);
}

static void see(struct net_ep *ep, const struct testcore_request *request)
{
	cr_assert_lt(ep->number, MOST_EPS);
	/* Replies have other lengths. */
	if (request->len == sizeof(heard[0]))
		memcpy(&heard[ep->number], request->buf, sizeof(heard[0]));
}

unsigned int threads = CLIENTS;

void open_server_with(unsigned int pool, unsigned int silence_ms, unsigned int rings_per_peer)
{
	const struct pmemrpc_server_attr attr = {.path = "anything",
						 .service = "1",
						 .clients = CLIENTS,
						 .ring = RING,
						 .window = 2,
						 .threads = threads,
						 .pool = pool,
						 .silence_ms = silence_ms,
						 .rings_per_peer = rings_per_peer,
						 .handler = handle,
						 .complain = complain};
	char error[256];

	net = (struct net){.room = 16, .on_transmit = see};
	cr_assert_eq(pmemrpc_server_open(&attr, &server, error, sizeof(error)), 0);
}

void open_server(unsigned int pool)
{
	open_server_with(pool, 0, 0);
}

void close_server(void)
{
	pmemrpc_server_close(server);
	cr_assert_eq(net.objects, 0);
}

void serve(void)
{
	for (unsigned int round = 0; round < 4; round++) {
		cr_assert_geq(rpc_worker_serve(&server->listener), 0);
		for (unsigned int i = 0; i < server->threads; i++)
			cr_assert_geq(rpc_worker_serve(&server->workers[i]), 0);
	}
}

struct net_ep *knock(enum pmemrpc_transport transport, uint32_t address)
{
	const struct rpc_connect_message message = {.magic = RPC_MAGIC,
						    .transport = (uint8_t) transport};
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = (in_port_t) net.opened,
				 .sin_addr.s_addr = address};
	struct fi_info *info = net_info();
	unsigned int opened = net.opened;

	info->dest_addr = malloc(sizeof(in));
	cr_assert_not_null(info->dest_addr);
	memcpy(info->dest_addr, &in, sizeof(in));
	info->dest_addrlen = sizeof(in);
	net_raise(server->eq, FI_CONNREQ, NULL, info, &message, sizeof(message));
	cr_assert_eq(rpc_server_hear(server), 1);
	return net.opened == opened + 1 ? net.eps : NULL;
}

struct net_ep *come(enum pmemrpc_transport transport)
{
	struct net_ep *ep = knock(transport, 1);

	cr_assert_not_null(ep);
	return ep;
}

void say(struct net_ep *ep, const struct rpc_request_message *message)
{
	struct rpc_request_message said = *message;

	if (!said.lowest && !said.highest) {
		said.lowest = htole16(RPC_LOWEST);
		said.highest = htole16(RPC_HIGHEST);
	}
	cr_assert(net_deliver(ep, &said, sizeof(said)));
}

void greet(struct net_ep *ep, uint8_t id)
{
	say(ep, &(struct rpc_request_message){
			.type = htole32(RPC_MSG_HELLO), .id = {id}, .process = htole64(id)});
}

bool is_open(unsigned int number)
{
	const struct net_ep *at = net.eps;

	while (at && at->number != number)
		at = at->next;
	return at;
}

bool is_there(const struct net_ep *ep)
{
	const struct net_ep *at = net.eps;

	while (at && at != ep)
		at = at->next;
	return at;
}

void check_welcomed(const struct net_ep *ep)
{
	cr_assert(is_there(ep), "its connection has ended: %s", pmemrpc_server_error(server));
	cr_assert_eq(le32toh(heard[ep->number].type), RPC_MSG_WELCOME);
}

void check_refused(const struct net_ep *ep, uint32_t error)
{
	cr_assert(is_there(ep));
	cr_assert_eq(le32toh(heard[ep->number].type), RPC_MSG_REFUSED);
	cr_assert_eq(le32toh(heard[ep->number].error), error);
}

struct net_ep *come_and_call(uint8_t id)
{
	struct net_ep *ep = come(PMEMRPC_WRITE);
	struct rpc_ring ring;

	greet(ep, id);
	serve();
	/* The pool would have found no call. */
	server->work[0].busy = server->work[0].drains = false;
	serve();
	check_welcomed(ep);
	say(ep, &(struct rpc_request_message){.type = htole32(RPC_MSG_READY),
					      .replies_from = htole64(1)});
	serve();
	ring = rpc_store_ring(&server->store, 0);
	rpc_ring_write(&ring, (struct rpc_place){1, 0}, 0, 0, "", 1);
	return ep;
}
