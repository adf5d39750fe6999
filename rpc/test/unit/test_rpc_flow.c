/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_flow.c -- what joins a batch, what a notice may say, rates, and when clients slow down
 */
#include <limits.h>

#include <arpa/inet.h>

#include <criterion/criterion.h>

#include "peer.h"
#include "server.h"

#define RING 4096U
#define SECOND INT64_C(1000000000)

/* An entry of 64 bytes at a time, from a position on; how many join */
static unsigned int join_from(struct rpc_batch *batch, unsigned int max, uint64_t position)
{
	*batch = (struct rpc_batch){0};
	while (rpc_batch_join(batch, max, RING, position + 64 * batch->calls, 40))
		;
	return batch->calls;
}

Test(rpc_flow, a_batch_ends_at_its_limit)
{
	struct rpc_batch batch;

	cr_assert_eq(join_from(&batch, 1, 128), 1);
	cr_assert_eq(batch.len, 56);
	cr_assert_eq(join_from(&batch, 8, 128), 8);
	cr_assert(batch.closed);
	cr_assert_eq(batch.position, 128);
	/* The last one without what is behind its argument. */
	cr_assert_eq(batch.len, 7 * 64 + 56);
}

Test(rpc_flow, a_batch_that_may_grow_is_not_closed)
{
	struct rpc_batch batch = {0};

	cr_assert(rpc_batch_join(&batch, 2, RING, 0, 40));
	cr_assert_not(batch.closed);
	cr_assert(rpc_batch_join(&batch, 2, RING, 64, 40));
	cr_assert(batch.closed);
}

Test(rpc_flow, a_batch_ends_with_the_lap)
{
	struct rpc_batch batch;

	cr_assert_eq(join_from(&batch, 100, 5 * RING - 192), 3);
	cr_assert(batch.closed);
	cr_assert_eq(join_from(&batch, 100, 5 * RING), 64);
}

Test(rpc_flow, a_batch_ends_before_a_long_entry)
{
	struct rpc_batch batch = {0};

	cr_assert_not(rpc_batch_join(&batch, 8, RING, 0, 369), "longer than one message");
	cr_assert_eq(batch.calls, 0);
	cr_assert_not(rpc_batch_join(&batch, 8, RING, RING - 64, 60), "it wraps");
	cr_assert(rpc_batch_join(&batch, 8, RING, 0, 368));
	cr_assert_not(rpc_batch_join(&batch, 8, RING, 384, 369));
	cr_assert(batch.closed);
	cr_assert_not(rpc_batch_join(&batch, 8, RING, 384, 8), "nothing overtakes the long one");
	cr_assert_eq(batch.calls, 1);
	cr_assert_eq(batch.len, 384);
}

Test(rpc_flow, a_batch_has_so_many_bytes_at_most)
{
	struct rpc_batch batch = {0};
	uint64_t position = 0;

	while (rpc_batch_join(&batch, 1000, 1 << 20, position, 368))
		position += 384;
	cr_assert_eq(batch.calls, RPC_BATCH_BYTES / 384);
	cr_assert_leq(batch.len, RPC_BATCH_BYTES);
	cr_assert(batch.closed);
}

Test(rpc_flow, a_batch_is_no_longer_than_the_window)
{
	cr_assert_eq(rpc_batch_max(0, 32), 8);
	cr_assert_eq(rpc_batch_max(0, 3), 1);
	cr_assert_eq(rpc_batch_max(1, 32), 1);
	cr_assert_eq(rpc_batch_max(40, 32), 32);
}

Test(rpc_flow, a_notice_is_checked)
{
	cr_assert_eq(rpc_batch_notice(1, 0, 2), 1);
	cr_assert_eq(rpc_batch_notice(2, 0, 2), 2);
	cr_assert_eq(rpc_batch_notice(1, 1, 2), 1);
	cr_assert_eq(rpc_batch_notice(0, 0, 2), 0);
	cr_assert_eq(rpc_batch_notice(3, 0, 2), 0);
	cr_assert_eq(rpc_batch_notice(1, 2, 2), 0);
	cr_assert_eq(rpc_batch_notice(UINT64_MAX, 1, 2), 0);
	cr_assert_eq(rpc_batch_notice(UINT64_MAX - 1, 2, 2), 0);
	cr_assert_eq(rpc_batch_notice(1, 3, 2), 0);
}

/* take_all -- as many calls as the rate allows until then, at the earliest times */
static unsigned int take_all(struct rpc_bucket *bucket, unsigned int rate, int64_t from, int64_t to)
{
	unsigned int taken = 0;

	while (from < to) {
		int64_t wait = rpc_bucket_take(bucket, rate, from);

		taken += !wait;
		from += wait;
	}
	return taken;
}

Test(rpc_flow, a_rate_is_kept_after_a_burst)
{
	const unsigned int rates[] = {1, 7, 10, 1000, 250000};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct rpc_bucket bucket = {0};
		unsigned int rate = rates[i], burst = rate >= 10 ? rate / 10 : 1;
		unsigned int count = take_all(&bucket, rate, 5 * SECOND, 15 * SECOND);

		cr_assert_geq(count, 10 * rate);
		cr_assert_leq(count, 10 * rate + burst + 10, "rate %u: %u", rate, count);
		/* What was not used does not add up. */
		count = 0;
		while (!rpc_bucket_take(&bucket, rate, 100 * SECOND))
			count++;
		cr_assert_eq(count, burst);
	}
}

Test(rpc_flow, the_wait_for_a_rate_is_neither_too_long_nor_too_short)
{
	struct rpc_bucket bucket = {0};
	int64_t wait;

	cr_assert_eq(rpc_bucket_take(&bucket, 4, SECOND), 0);
	wait = rpc_bucket_take(&bucket, 4, SECOND);
	cr_assert_eq(wait, SECOND / 4);
	cr_assert_eq(rpc_bucket_take(&bucket, 4, SECOND + wait - 1), 1);
	cr_assert_eq(rpc_bucket_take(&bucket, 4, SECOND + wait), 0);
}

Test(rpc_flow, a_server_is_slow_until_it_has_much_less_to_do)
{
	struct rpc_throttle throttle = {0};

	rpc_throttle_open(&throttle, 100, 4);
	rpc_throttle_add(&throttle, 100);
	cr_assert_eq(rpc_throttle_pace(&throttle, 2), 0);
	rpc_throttle_add(&throttle, 1);
	cr_assert_eq(rpc_throttle_pace(&throttle, 2), 12);
	cr_assert_eq(rpc_throttle_pace(&throttle, 1), 25);
	cr_assert_eq(rpc_throttle_pace(&throttle, 0), 25);
	cr_assert_eq(rpc_throttle_pace(&throttle, 4000), 1, "each client may have one");
	rpc_throttle_add(&throttle, -51);
	cr_assert_neq(rpc_throttle_pace(&throttle, 2), 0, "50 are not less than half");
	rpc_throttle_add(&throttle, -1);
	cr_assert_eq(rpc_throttle_pace(&throttle, 2), 0);
	rpc_throttle_add(&throttle, 51);
	cr_assert_eq(rpc_throttle_pace(&throttle, 2), 0, "100 are not more than 100");
	cr_assert_eq(throttle.times, 1);
	rpc_throttle_add(&throttle, 1);
	cr_assert_eq(throttle.times, 2);
}

Test(rpc_flow, calls_that_wait_for_their_rate_slow_down_nobody)
{
	static struct pmemrpc_server server;
	struct rpc_session session = {.server = &server, .notices = 300};

	rpc_session_weigh(&session);
	cr_assert_eq(server.throttle.load, 300);
	/* It may have as many executed at once as its rate allows. */
	server.rate = 1000;
	rpc_session_weigh(&session);
	cr_assert_eq(server.throttle.load, 100);
	session.limited = true;
	rpc_session_weigh(&session);
	cr_assert_eq(server.throttle.load, 0);
	session.limited = false;
	session.notices = 7;
	rpc_session_weigh(&session);
	cr_assert_eq(server.throttle.load, 7);
}

Test(rpc_flow, a_threshold_can_be_left_out_and_turned_off)
{
	struct rpc_throttle throttle = {0};

	rpc_throttle_open(&throttle, 0, 4);
	rpc_throttle_add(&throttle, 1024);
	cr_assert_not(throttle.slow);
	rpc_throttle_add(&throttle, 1);
	cr_assert(throttle.slow);
	throttle = (struct rpc_throttle){0};
	rpc_throttle_open(&throttle, UINT_MAX, 4);
	rpc_throttle_add(&throttle, 1 << 30);
	cr_assert_not(throttle.slow);
	/* One at a time is the least. */
	throttle = (struct rpc_throttle){0};
	rpc_throttle_open(&throttle, 1, 4);
	rpc_throttle_add(&throttle, 2);
	cr_assert_eq(rpc_throttle_pace(&throttle, 1), 1);
	rpc_throttle_add(&throttle, -2);
	cr_assert_eq(rpc_throttle_pace(&throttle, 1), 0);
}

Test(rpc_flow, who_has_nothing_to_do_looks_for_a_while)
{
	struct rpc_spin spin;

	rpc_spin_open(&spin, 20);
	cr_assert(rpc_spin_again(&spin, SECOND));
	cr_assert(rpc_spin_again(&spin, SECOND + 19999));
	cr_assert_not(rpc_spin_again(&spin, SECOND + 20000));
	rpc_spin_busy(&spin, SECOND + 20000);
	cr_assert(rpc_spin_again(&spin, SECOND + 20000), "from the last thing on that there was");
	cr_assert_not(rpc_spin_again(&spin, SECOND + 40000));
}

/* pauses -- something comes again and again, each time after so long a pause */
static void pauses(struct rpc_spin *spin, int64_t ns)
{
	for (int i = 0; i < 10; i++) {
		rpc_spin_again(spin, SECOND);
		rpc_spin_busy(spin, SECOND + ns);
	}
}

Test(rpc_flow, one_looks_for_as_long_as_it_pays)
{
	struct rpc_spin spin;

	rpc_spin_open(&spin, 0);
	pauses(&spin, 80000);
	cr_assert(rpc_spin_again(&spin, SECOND), "and it counts from here");
	cr_assert(rpc_spin_again(&spin, SECOND + 90000), "most would be missed");
	spin.idle_ns = 0;
	pauses(&spin, SECOND);
	cr_assert(rpc_spin_again(&spin, SECOND));
	cr_assert_not(rpc_spin_again(&spin, SECOND + 1000 * RPC_LEAST_SPIN_US), "nothing is found");
	spin.idle_ns = 0;
	pauses(&spin, 150000);
	cr_assert(rpc_spin_again(&spin, SECOND));
	cr_assert_not(rpc_spin_again(&spin, SECOND + 1000 * RPC_MOST_SPIN_US), "no longer");
	rpc_spin_open(&spin, 70);
	pauses(&spin, SECOND);
	cr_assert(rpc_spin_again(&spin, SECOND));
	cr_assert(rpc_spin_again(&spin, SECOND + 69000), "as it was told");
}

Test(rpc_flow, who_never_sleeps_looks_for_ever)
{
	struct rpc_spin spin;

	rpc_spin_open(&spin, PMEMRPC_ALWAYS);
	cr_assert(rpc_spin_again(&spin, SECOND));
	cr_assert(rpc_spin_again(&spin, 1000000 * SECOND));
}

Test(rpc_flow, who_is_not_to_look_sleeps_at_once)
{
	struct rpc_spin spin;

	rpc_spin_open(&spin, PMEMRPC_OFF);
	cr_assert_not(rpc_spin_again(&spin, SECOND));
	rpc_spin_open(&spin, 0);
	cr_assert(rpc_spin_again(&spin, SECOND), "if nothing is said");
	cr_assert_not(rpc_spin_again(&spin, SECOND + 1000 * RPC_SPIN_US));
}

static uint32_t address4(const char *text, in_port_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

	cr_assert_eq(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return rpc_peer_address(&in, sizeof(in), 7);
}

static uint32_t address6(const char *text, in_port_t port)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port};

	cr_assert_eq(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	return rpc_peer_address(&in6, sizeof(in6), 7);
}

Test(rpc_flow, a_peer_is_its_address)
{
	struct sockaddr_in in = {.sin_family = AF_INET};

	cr_assert_eq(address4("10.0.0.1", 1), address4("10.0.0.1", 2));
	cr_assert_neq(address4("10.0.0.1", 1), address4("10.0.0.2", 1));
	cr_assert_eq(address6("::ffff:10.0.0.1", 1), address4("10.0.0.1", 2));
	cr_assert_neq(address6("::ffff:10.0.0.1", 1), address6("::ffff:10.0.0.2", 1));
	/* Who has one of these has the others, too. */
	cr_assert_eq(address6("2001:db8::1", 1), address6("2001:db8::2:3", 2));
	cr_assert_neq(address6("2001:db8::1", 1), address6("2001:db8:0:1::1", 1));
	/* Where there is none, all are one. */
	cr_assert_eq(rpc_peer_address(NULL, 16, 7), rpc_peer_address(NULL, 0, 7));
	cr_assert_neq(rpc_peer_address(&in, 1, 7), 0);
}

Test(rpc_flow, a_peer_is_the_name_of_its_key)
{
	cr_assert_eq(rpc_peer_name("one", 7), rpc_peer_name("one", 7));
	cr_assert_neq(rpc_peer_name("one", 7), rpc_peer_name("other", 7));
	cr_assert_neq(rpc_peer_name("one", 7), rpc_peer_name("one", 8));
}

/* One completion for two of four: what it does not tell of must not be filled again. */
Test(rpc_flow, sends_are_over_in_their_order)
{
	struct rpc_buffer buffers[4];
	struct rpc_buffers set = {.buffers = buffers, .sends = 4, .share = 2};

	for (int i = 0; i < 4; i++)
		buffers[i] = (struct rpc_buffer){.kind = RPC_SEND, .set = &set};
	cr_assert_eq(rpc_buffers_unused(&set), &buffers[0]);
	set.sent = 4;
	cr_assert_null(rpc_buffers_unused(&set));
	rpc_buffer_sent(&buffers[1]);
	cr_assert_eq(set.done, 2);
	cr_assert_eq(rpc_buffers_unused(&set), &buffers[0]);
	set.sent = 6;
	cr_assert_null(rpc_buffers_unused(&set));
	rpc_buffer_sent(&buffers[3]);
	cr_assert_eq(rpc_buffers_unused(&set), &buffers[2]);
	rpc_buffer_sent(&buffers[1]);
	cr_assert_eq(set.done, 6);
}
