/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_begun.c -- calls of one thread's clients share a flush */
#include <criterion/criterion.h>

#include "session_world.h"

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

Test(rpc_begun, calls_of_one_thread_share_a_flush)
{
	cr_assert_eq(call_both(INT64_MAX), 1);
}

/* A flush that takes no time is not waited for. */
Test(rpc_begun, calls_wait_no_longer_for_others_than_a_flush_takes)
{
	cr_assert_eq(call_both(0), 2);
}

/* Whoever waits for it, in another thread, has to see what it has changed. */
Test(rpc_begun, a_call_that_excludes_others_is_flushed_at_once)
{
	excludes = true;
	cr_assert_eq(call_both(INT64_MAX), 2);
}

/* It may wait for long, and nobody waits with it. */
Test(rpc_begun, a_call_that_excludes_others_first_flushes_what_is_begun)
{
	first_excludes = true;
	cr_assert_eq(call_both(INT64_MAX), 2);
}

/* What others have begun waits for one call of a client, and not for its turn. */
Test(rpc_begun, a_turn_ends_when_calls_of_others_are_due)
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
