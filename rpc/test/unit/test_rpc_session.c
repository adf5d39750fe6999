/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_session.c -- how clients come to their slots, and who gets none */
#include <sys/epoll.h>
#include <sys/types.h>

#include <criterion/criterion.h>

#include "session_world.h"

/* A slot is forgotten, and goes to somebody else, while its client is on its way back. */
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

/* greet_as -- a client of these versions; the server says its own in any case */
static struct net_ep *greet_as(uint8_t id, uint16_t lowest, uint16_t highest)
{
	struct net_ep *ep = come(PMEMRPC_WRITE);

	say(ep, &(struct rpc_request_message){.type = htole32(RPC_MSG_HELLO),
					      .id = {id},
					      .process = htole64(id),
					      .lowest = htole16(lowest),
					      .highest = htole16(highest)});
	serve();
	cr_expect_eq(le16toh(heard[ep->number].lowest), RPC_LOWEST);
	cr_expect_eq(le16toh(heard[ep->number].highest), RPC_HIGHEST);
	return ep;
}

Test(rpc_session, who_has_no_version_of_ours_is_told_which_there_are)
{
	const uint16_t v = RPC_HIGHEST;
	/* The next ones, earlier ones, no ranges; and as it was before there were any. */
	const uint16_t none[][2] = {
		{v + 1, v + 2}, {1, RPC_LOWEST - 1}, {v + 1, v}, {0, v}, {v, 0}};
	struct net_ep *ep;

	open_server(0);
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		ep = greet_as(1, none[i][0], none[i][1]);
		check_refused(ep, FI_EOPNOTSUPP);
		if (!i)
			cr_expect_str_eq(heard[ep->number].text,
					 "this server has versions 4 to 4, and the client 5 to 6");
	}
	cr_expect_not(rpc_store_slot(&server->store, 0)->used);
	check_welcomed(greet_as(1, v, v));
	check_welcomed(greet_as(2, v, v + 1));
	cr_expect(rpc_store_slot(&server->store, 1)->used);
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

/* Rights of keys */

static int status_of(uint64_t sequence)
{
	const struct rpc_reply *reply = rpc_store_reply(&server->store, 0, sequence);

	cr_assert_not_null(reply);
	return reply->status;
}

Test(rpc_session, who_may_only_read_calls_nothing_else)
{
	struct net_ep *ep;

	open_server(0);
	net.rights = "may=read";
	ep = come_and_call(1);
	cr_assert(net_notice(ep, 1, false));
	serve();
	cr_assert(is_there(ep));
	cr_expect_eq(status_of(1), -FI_EACCES);
	cr_expect_eq(handled, 0);
	cr_expect_eq(server->counters.denied, 1);
	cr_expect_eq(server->counters.executed, 1, "it is over");
	cr_expect_str_eq(complaint,
			 "client 0 (somebody) may only read, and has called operation 0");
	close_server();
}

/* Whoever executes it then knows no key. */
Test(rpc_session, who_may_only_read_calls_nothing_else_without_a_connection_either)
{
	open_server(0);
	net.rights = "may=read";
	come_and_call(1);
	keeps = true;
	close_server();
	open_server(0);
	cr_expect_eq(server->counters.recovered, 1);
	cr_expect_eq(status_of(1), -FI_EACCES);
	cr_expect_eq(handled, 0);
	keeps = false;
	close_server();
}

/* What the one has left is the one's, and not executed with the rights of the other. */
Test(rpc_session, who_may_do_all_takes_over_from_who_may_not)
{
	struct rpc_ring ring;
	struct net_ep *ep;

	open_server(0);
	net.rights = "may=read";
	come_and_call(1);
	net.rights = "";
	ep = come(PMEMRPC_WRITE);
	greet(ep, 1);
	serve();
	check_welcomed(ep);
	cr_expect_eq(status_of(1), -FI_EACCES);
	say(ep, &(struct rpc_request_message){.type = htole32(RPC_MSG_READY),
					      .replies_from = htole64(1)});
	serve();
	ring = rpc_store_ring(&server->store, 0);
	rpc_ring_write(&ring, (struct rpc_place){2, rpc_store_slot(&server->store, 0)->position}, 0,
		       0, "", 1);
	cr_assert(net_notice(ep, 1, false));
	serve();
	cr_expect_eq(status_of(2), 0);
	cr_expect_eq(handled, 1);
	close_server();
}

/* A key that may only read keeps nobody out, however many identities it has, and wherever it is. */
Test(rpc_session, a_key_has_no_more_rings_than_it_may)
{
	static const struct {
		const char *name;
		uint8_t id;
		bool gets_in;
	} rows[] = {{"reader", 1, true},
		    {"reader", 2, false},
		    {"writer", 3, true},
		    {"reader", 1, true}};

	open_server_with(0, 0, 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* Each comes from the same address, but for one. */
		struct net_ep *ep = i == 1 ? knock(PMEMRPC_WRITE, 2) : come(PMEMRPC_WRITE);

		net.name = rows[i].name;
		net.rights = strcmp(rows[i].name, "reader") ? "" : "may=read";
		greet(ep, rows[i].id);
		serve();
		if (rows[i].gets_in)
			check_welcomed(ep);
		else
			check_refused(ep, FI_EBUSY);
	}
	close_server();
}

Test(rpc_session, who_has_another_right_gets_no_slot)
{
	static const char *const rights[] = {"below=its", "may=put", "may=read below=its",
					     "may=read may=read"};

	open_server(0);
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		struct net_ep *ep;

		net.rights = rights[i];
		ep = come(PMEMRPC_WRITE);
		greet(ep, 1);
		serve();
		check_refused(ep, FI_EACCES);
	}
	cr_expect_not(rpc_store_slot(&server->store, 0)->used);
	cr_expect_str_eq(complaint,
			 "refused: the line of somebody in the file peers has a right that is not "
			 "may=read");
	cr_expect_eq(complaints, 1, "they fill the log");
	now += 1000;
	come(PMEMRPC_WRITE);
	greet(net.eps, 1);
	serve();
	cr_expect_eq(complaints, 2);
	close_server();
}
