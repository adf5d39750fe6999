/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_session.c -- how clients come to their slots, and who gets none */
#include <sys/epoll.h>
#include <sys/types.h>

#include <netinet/in.h>

#include <criterion/criterion.h>

#include "fuzz/net.h"
#include "server.h"

#define CLIENTS 2U
#define RING 4096U
#define MOST_EPS 64
#define MOST_SESSIONS (CLIENTS + RPC_MORE_SESSIONS)

static struct pmemrpc_server *server;
static struct rpc_memory memory;
static unsigned int flushes;
static bool keeps; /* the memory is there when the server has gone */
static int64_t now;
/* The last message of the server to each client, by the number of its endpoint. */
static struct rpc_welcome_message heard[MOST_EPS];

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

static bool excludes;         /* the client that came last, and is served first */
static bool first_excludes;   /* the other one */
static bool makes_others_due; /* a call of the other one takes as long as a flush */

static int handle(struct pmemrpc_request *request, void *context)
{
	(void) context;
	if (excludes && request->client == CLIENTS - 1)
		pmemrpc_exclude(request);
	if (first_excludes && !request->client)
		pmemrpc_exclude(request);
	if (makes_others_due && !request->client)
		server->workers[0].executor.flush_ns = 0;
	return 0;
}

static void see(struct net_ep *ep, const struct testcore_request *request)
{
	cr_assert_lt(ep->number, MOST_EPS);
	/* Replies have other lengths. */
	if (request->len == sizeof(heard[0]))
		memcpy(&heard[ep->number], request->buf, sizeof(heard[0]));
}

static unsigned int threads = CLIENTS;

static void open_server_with(unsigned int pool, unsigned int silence_ms,
			     unsigned int rings_per_peer)
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
						 .handler = handle};
	char error[256];

	net = (struct net){.room = 16, .on_transmit = see};
	cr_assert_eq(pmemrpc_server_open(&attr, &server, error, sizeof(error)), 0);
}

static void open_server(unsigned int pool)
{
	open_server_with(pool, 0, 0);
}

static void close_server(void)
{
	pmemrpc_server_close(server);
	cr_assert_eq(net.objects, 0);
}

/* serve -- until everybody has come to its thread, and was served there */
static void serve(void)
{
	for (unsigned int round = 0; round < 4; round++) {
		cr_assert_geq(rpc_worker_serve(&server->listener), 0);
		for (unsigned int i = 0; i < server->threads; i++)
			cr_assert_geq(rpc_worker_serve(&server->workers[i]), 0);
	}
}

/* knock -- from that address; NULL: it is not let in */
static struct net_ep *knock(enum pmemrpc_transport transport, uint32_t address)
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

static struct net_ep *come(enum pmemrpc_transport transport)
{
	struct net_ep *ep = knock(transport, 1);

	cr_assert_not_null(ep);
	return ep;
}

static void say(struct net_ep *ep, const struct rpc_request_message *message)
{
	struct rpc_request_message said = *message;

	said.version = htole32(RPC_VERSION);
	cr_assert(net_deliver(ep, &said, sizeof(said)));
}

static void greet(struct net_ep *ep, uint8_t id)
{
	say(ep, &(struct rpc_request_message){
			.type = htole32(RPC_MSG_HELLO), .id = {id}, .process = htole64(id)});
}

/* is_open -- by its number: who comes later may have the address of one that has gone */
static bool is_open(unsigned int number)
{
	const struct net_ep *at = net.eps;

	while (at && at->number != number)
		at = at->next;
	return at;
}

/* is_there -- nobody has come since it was known to be there */
static bool is_there(const struct net_ep *ep)
{
	const struct net_ep *at = net.eps;

	while (at && at != ep)
		at = at->next;
	return at;
}

static void check_welcomed(const struct net_ep *ep)
{
	cr_assert(is_there(ep), "its connection has ended: %s", pmemrpc_server_error(server));
	cr_assert_eq(le32toh(heard[ep->number].type), RPC_MSG_WELCOME);
}

static void check_refused(const struct net_ep *ep, uint32_t error)
{
	cr_assert(is_there(ep));
	cr_assert_eq(le32toh(heard[ep->number].type), RPC_MSG_REFUSED);
	cr_assert_eq(le32toh(heard[ep->number].error), error);
}

/* A slot is forgotten, and goes to somebody else, while its client has come back and is on its way.
 */
Test(rpc_session, who_comes_to_a_slot_that_is_not_its_any_more_gets_another)
{
	struct net_ep *first, *again, *other;

	open_server(0);
	first = come(PMEMRPC_WRITE);
	greet(first, 1);
	serve();
	check_welcomed(first);
	say(first, &(struct rpc_request_message){.type = htole32(RPC_MSG_READY),
						 .replies_from = htole64(1)});
	serve();
	again = come(PMEMRPC_WRITE);
	greet(again, 1);
	cr_assert_geq(rpc_worker_serve(&server->listener), 0);
	say(first, &(struct rpc_request_message){.type = htole32(RPC_MSG_FORGET)});
	cr_assert_geq(rpc_session_serve(server->work[0].session), 0);
	cr_assert_eq(le32toh(heard[first->number].type), RPC_MSG_FORGOTTEN);
	other = come(PMEMRPC_WRITE);
	greet(other, 2);
	serve();
	check_welcomed(other);
	check_welcomed(again);
	cr_assert(rpc_store_is_of(&server->store, 0, (const uint8_t[RPC_ID]){2}));
	cr_assert(rpc_store_is_of(&server->store, 1, (const uint8_t[RPC_ID]){1}));
	close_server();
}

Test(rpc_session, who_is_refused_and_says_that_it_is_somebody_else_changes_its_thread)
{
	struct net_ep *first, *other;
	int fd;

	open_server(0);
	first = come(PMEMRPC_WRITE);
	greet(first, 1);
	serve();
	other = come(PMEMRPC_WRITE);
	say(other, &(struct rpc_request_message){.type = htole32(RPC_MSG_HELLO),
						 .id = {1},
						 .process = htole64(2),
						 .resumes = htole64(1)});
	serve();
	check_refused(other, EUCLEAN);
	net_complete(other, 0);
	serve();
	greet(other, 2);
	serve();
	check_welcomed(first);
	check_welcomed(other);
	cr_assert_eq(fi_control(&server->work[1].session->link.cq->fid, FI_GETWAIT, &fd), 0);
	cr_assert_eq(epoll_ctl(server->workers[0].epoll_fd, EPOLL_CTL_DEL, fd, NULL), -1,
		     "it wakes two threads");
	close_server();
}

Test(rpc_session, who_has_arguments_that_are_too_long_gets_no_slot)
{
	struct net_ep *ep;

	open_server(0);
	ep = come(PMEMRPC_SEND);
	say(ep, &(struct rpc_request_message){
			.type = htole32(RPC_MSG_HELLO), .id = {1}, .argument_max = htole64(RING)});
	serve();
	check_refused(ep, FI_EMSGSIZE);
	cr_assert_not(rpc_store_slot(&server->store, 0)->used);
	close_server();
}

/* Who comes back to a new store: its calls are lost, and nobody has to have a slot for that. */
Test(rpc_session, who_comes_back_and_is_not_known_gets_no_slot)
{
	struct net_ep *ep;

	open_server(0);
	ep = come(PMEMRPC_WRITE);
	say(ep, &(struct rpc_request_message){
			.type = htole32(RPC_MSG_HELLO), .id = {1}, .resumes = htole64(1)});
	serve();
	check_refused(ep, EUCLEAN);
	cr_assert_not(rpc_store_slot(&server->store, 0)->used);
	close_server();
}

/* A call of its slot runs for longer than a client has to be READY. */
Test(rpc_session, who_has_waited_for_its_slot_has_time_to_be_ready)
{
	struct rpc_work *work;
	struct net_ep *ep;

	open_server(1);
	work = &server->work[0];
	work->busy = true;
	ep = come(PMEMRPC_WRITE);
	greet(ep, 1);
	serve();
	now += 60000;
	serve();
	cr_assert(is_there(ep));
	cr_assert_eq(heard[ep->number].type, 0);
	work->busy = work->drains = false;
	serve();
	check_welcomed(ep);
	/* But not for ever. */
	now += 60000;
	serve();
	serve();
	cr_assert_not(is_there(ep));
	close_server();
}

/* come_and_call -- a client that has its ring, and a call there which nobody has told of */
static struct net_ep *come_and_call(uint8_t id)
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

/* Its old calls are in the ring, and a new key would make them invalid. */
Test(rpc_session, who_comes_back_when_the_server_ends_loses_no_call)
{
	struct net_ep *again;

	open_server(0);
	come_and_call(1);
	again = come(PMEMRPC_WRITE);
	greet(again, 1);
	pmemrpc_server_stop(server);
	serve();
	serve();
	cr_assert_eq(heard[again->number].type, 0, "it has an answer from a server that ends");
	cr_assert_eq(server->counters.executed, 0, "a call has begun after the server's end");
	keeps = true;
	close_server();
	open_server(0);
	cr_assert_eq(server->counters.recovered, 1, "a call that was durable is lost");
	keeps = false;
	close_server();
}

static atomic_bool has_run;

static void *run(void *arg)
{
	int ret = pmemrpc_server_run(arg);

	has_run = true;
	return (void *) (intptr_t) ret;
}

/* Of two stops at once, the second sets its flag when the run has ended that took both. */
Test(rpc_session, a_server_that_was_stopped_twice_runs_again)
{
	pthread_t thread;
	void *ret;

	open_server(0);
	/* Nobody runs: the next run ends at once. */
	pmemrpc_server_stop(server);
	cr_assert_eq(pmemrpc_server_run(server), 0);
	server->stopping = true;
	cr_assert_not(pthread_create(&thread, NULL, run, server));
	while (server->stopping && !has_run)
		sched_yield();
	cr_assert_not(has_run);
	pmemrpc_server_stop(server);
	cr_assert_not(pthread_join(thread, &ret));
	cr_assert_null(ret);
	close_server();
}

/* Connections cost nothing.  Who says nothing has to make room for who does. */
Test(rpc_session, who_says_nothing_gives_way)
{
	struct net_ep *owner, *newcomer;
	unsigned int oldest, second;

	open_server(0);
	owner = come(PMEMRPC_WRITE);
	greet(owner, 1);
	serve();
	oldest = come(PMEMRPC_SEND)->number;
	second = come(PMEMRPC_SEND)->number;
	for (unsigned int i = 3; i < MOST_SESSIONS; i++)
		come(PMEMRPC_SEND);
	newcomer = come(PMEMRPC_SEND);
	cr_assert_eq(server->num_sessions, MOST_SESSIONS);
	cr_assert_not(is_open(oldest));
	cr_assert(is_open(second));
	greet(newcomer, 2);
	serve();
	check_welcomed(newcomer);
	check_welcomed(owner);
	close_server();
}

/* Nor has who was refused by its worker, and stays. */
Test(rpc_session, who_has_no_ring_gives_way)
{
	struct net_ep *owner, *refused[MOST_SESSIONS], *newcomer;

	open_server(0);
	owner = come(PMEMRPC_WRITE);
	greet(owner, 1);
	serve();
	for (unsigned int i = 1; i < MOST_SESSIONS; i++) {
		refused[i] = come(PMEMRPC_WRITE);
		say(refused[i], &(struct rpc_request_message){.type = htole32(RPC_MSG_HELLO),
							      .id = {1},
							      .process = htole64(2),
							      .resumes = htole64(1)});
		serve();
		check_refused(refused[i], EUCLEAN);
	}
	cr_assert_null(knock(PMEMRPC_WRITE, 1));
	serve();
	cr_assert_not(is_there(refused[1]));
	cr_assert(is_there(refused[2]));
	newcomer = come(PMEMRPC_WRITE);
	greet(newcomer, 2);
	serve();
	check_welcomed(newcomer);
	check_welcomed(owner);
	close_server();
}

/* Its machine may be gone, and what it has left is durable: it is executed without it. */
Test(rpc_session, who_is_silent_loses_its_connection_and_no_call)
{
	struct net_ep *ep;

	open_server_with(0, 1000, 0);
	ep = come_and_call(1);
	now += 1000;
	serve();
	cr_assert(is_there(ep));
	net_complete(ep, 0);
	serve();
	now += 1000;
	serve();
	cr_assert(is_there(ep), "a sign of life does not count");
	now += 1;
	serve();
	cr_assert_not(is_there(ep));
	cr_assert_eq(server->counters.recovered, 1);
	cr_assert(rpc_store_is_of(&server->store, 0, (const uint8_t[RPC_ID]){1}));
	close_server();
	open_server(0);
	ep = come_and_call(1);
	now += 1000000000;
	serve();
	cr_assert(is_there(ep), "nobody has asked for that");
	close_server();
}

/* return_work -- the pool, whose only call this is, executes it */
static void return_work(struct rpc_work *work)
{
	struct rpc_pool *pool = &server->pool;
	struct rpc_worker *worker = rpc_worker_of(server, work->slot);

	cr_assert_eq(pool->first, work);
	pool->first = NULL;
	pool->last = &pool->first;
	work->result = rpc_server_execute(&pool->executors[0], work->slot);
	work->next = worker->returned;
	worker->returned = work;
}

/* A client whose call waits has nothing to say. */
Test(rpc_session, who_waits_for_a_call_is_not_silent)
{
	struct net_ep *ep;

	open_server_with(1, 1000, 0);
	ep = come_and_call(1);
	cr_assert(net_notice(ep, 1, false));
	serve();
	cr_assert(server->work[0].busy);
	now += 1000000;
	serve();
	cr_assert(is_there(ep));
	/* Nobody has looked while it was executed. */
	now += 1000000;
	return_work(&server->work[0]);
	serve();
	cr_assert_eq(server->counters.executed, 1);
	cr_assert(is_there(ep), "its call took too long");
	now += 1001;
	serve();
	cr_assert_not(is_there(ep));
	close_server();
}

Test(rpc_session, an_address_has_no_more_rings_than_it_may)
{
	struct net_ep *ep;

	keeps = true;
	open_server_with(0, 0, 1);
	ep = come(PMEMRPC_WRITE);
	greet(ep, 1);
	serve();
	check_welcomed(ep);
	/* Also after a restart, and when its client is away. */
	close_server();
	open_server_with(0, 0, 1);
	ep = come(PMEMRPC_WRITE);
	greet(ep, 2);
	serve();
	check_refused(ep, FI_EBUSY);
	ep = come(PMEMRPC_WRITE);
	greet(ep, 1);
	serve();
	check_welcomed(ep);
	ep = knock(PMEMRPC_WRITE, 2);
	greet(ep, 2);
	serve();
	check_welcomed(ep);
	keeps = false;
	close_server();
}

/* call_both -- two clients of one thread, a call of each; returns how often they were flushed */
static unsigned int call_both(int64_t flush_ns)
{
	struct net_ep *eps[CLIENTS];

	threads = 1;
	open_server(0);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		struct rpc_ring ring;

		eps[i] = come_and_call((uint8_t) (i + 1));
		ring = rpc_store_ring(&server->store, i);
		rpc_ring_write(&ring, (struct rpc_place){1, 0}, 0, 0, "", 1);
	}
	for (unsigned int i = 0; i < CLIENTS; i++)
		cr_assert(net_notice(eps[i], 1, false));
	/* So long the last one took. */
	server->workers[0].executor.flush_ns = flush_ns;
	flushes = 0;
	cr_assert_eq(rpc_worker_serve(&server->workers[0]), 1);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		cr_assert_eq(rpc_store_slot(&server->store, i)->executed, 1);
		cr_assert_eq(server->work[i].session->reply, 2, "it has its reply");
		cr_assert_eq(server->work[i].session->notices, 0);
	}
	cr_assert_eq(server->counters.executed, CLIENTS);
	close_server();
	return flushes;
}

Test(rpc_session, calls_of_one_thread_share_a_flush)
{
	cr_assert_eq(call_both(INT64_MAX), 1);
}

/* A flush that takes no time is not waited for. */
Test(rpc_session, calls_wait_no_longer_for_others_than_a_flush_takes)
{
	cr_assert_eq(call_both(0), 2);
}

/* Whoever waits for it, in another thread, has to see what it has changed. */
Test(rpc_session, a_call_that_excludes_others_is_flushed_at_once)
{
	excludes = true;
	cr_assert_eq(call_both(INT64_MAX), 2);
}

/* It may wait for long, and nobody waits with it. */
Test(rpc_session, a_call_that_excludes_others_first_flushes_what_is_begun)
{
	first_excludes = true;
	cr_assert_eq(call_both(INT64_MAX), 2);
}

/* What others have begun waits for one call of a client, and not for its turn. */
Test(rpc_session, a_turn_ends_when_calls_of_others_are_due)
{
	struct net_ep *eps[CLIENTS];

	threads = 1;
	makes_others_due = true;
	open_server(0);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		struct rpc_ring ring;

		eps[i] = come_and_call((uint8_t) (i + 1));
		ring = rpc_store_ring(&server->store, i);
		rpc_ring_write(&ring, (struct rpc_place){1, 0}, 0, 0, "", 1);
		rpc_ring_write(&ring, (struct rpc_place){2, RPC_ALIGN}, 0, 0, "", 1);
	}
	cr_assert(net_notice(eps[0], 2, false));
	cr_assert(net_notice(eps[1], 1, false));
	server->workers[0].executor.flush_ns = INT64_MAX;
	cr_assert_eq(rpc_worker_serve(&server->workers[0]), 1);
	cr_assert_eq(server->work[1].session->reply, 2, "the other one has its reply");
	cr_assert_eq(rpc_store_slot(&server->store, 0)->executed, 1);
	cr_assert_eq(rpc_worker_serve(&server->workers[0]), 1);
	cr_assert_eq(rpc_store_slot(&server->store, 0)->executed, 2);
	close_server();
}
