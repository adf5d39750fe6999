/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdm_reach.c -- how long a call waits for a connection, and how often one is tried */
#include <netinet/in.h>
#include <string.h>

#include <criterion/criterion.h>

#include <rdma/fi_errno.h>

#include "base/setting.h"
#include "rdm/rdm_reach.h"

#define NOW INT64_C(1000000)
#define TIMEOUT 10000

static struct pmv_lost_writes_wait waited;

static ssize_t call(int64_t now, int64_t failed)
{
	return pmv_rdm_reach_wait(&waited, now, NOW, failed, TIMEOUT);
}

Test(rdm_reach, calls_time_out_once_and_begin_again)
{
	for (int64_t now = NOW; now < NOW + TIMEOUT; now += 1000)
		cr_expect_eq(call(now, 0), 0);
	cr_expect_eq(call(NOW + TIMEOUT, 0), -FI_ETIMEDOUT);
	for (int64_t now = NOW + TIMEOUT; now < NOW + 2 * TIMEOUT; now += 1000)
		cr_expect_eq(call(now, 0), 0);
	cr_expect_eq(call(NOW + 2 * TIMEOUT, 0), -FI_ETIMEDOUT);
}

/* Nothing was tried in the pause: one call has to be made, and whoever goes on has some time. */
Test(rdm_reach, a_pause_of_the_caller_counts_but_for_one_call)
{
	cr_expect_eq(call(NOW, 0), 0);
	cr_expect_eq(call(NOW + 3600000, 0), 0);
	cr_expect_eq(call(NOW + 3600000 + TIMEOUT / 2 - 1, 0), 0);
	cr_expect_eq(call(NOW + 3600000 + TIMEOUT / 2, 0), -FI_ETIMEDOUT);
}

/* The peer may have come back. */
Test(rdm_reach, a_pause_that_ends_with_the_time_counts_but_for_one_call)
{
	for (int64_t now = NOW; now <= NOW + TIMEOUT / 2; now += 1000)
		cr_expect_eq(call(now, 0), 0);
	cr_expect_eq(call(NOW + TIMEOUT, 0), 0);
	cr_expect_eq(call(NOW + TIMEOUT + TIMEOUT / 2, 0), -FI_ETIMEDOUT);
}

Test(rdm_reach, who_calls_rarely_is_told_too)
{
	for (int i = 0; i < 3; i++) {
		int64_t now = NOW + INT64_C(6) * i * TIMEOUT;

		cr_expect_eq(call(now, 0), 0);
		cr_expect_eq(call(now + 2 * TIMEOUT, 0), 0);
		cr_expect_eq(call(now + 4 * TIMEOUT, 0), -FI_ETIMEDOUT);
	}
}

Test(rdm_reach, what_was_connected_meanwhile_begins_again)
{
	for (int64_t now = NOW; now < NOW + TIMEOUT; now += 1000)
		cr_expect_eq(call(now, 0), 0);
	cr_expect_eq(pmv_rdm_reach_wait(&waited, NOW + TIMEOUT, NOW + 5000, 0, TIMEOUT), 0);
}

Test(rdm_reach, an_attempt_that_failed_is_followed_by_a_pause)
{
	cr_expect_eq(call(NOW + 100, NOW + 100), -FI_EAGAIN);
	cr_expect_eq(call(NOW + 99 + PMV_RDM_REACH_PAUSE_MS, NOW + 100), -FI_EAGAIN);
	cr_expect_eq(call(NOW + 100 + PMV_RDM_REACH_PAUSE_MS, NOW + 100), 0);
}

Test(rdm_reach, without_a_timeout_it_goes_on_for_ever)
{
	for (int64_t now = NOW; now < NOW + 10 * TIMEOUT; now += 1000)
		cr_expect_eq(pmv_rdm_reach_wait(&waited, now, NOW, 0, 0), 0);
}

/* Of one address, also if what tells no peers apart differs. */
Test(rdm_reach, knows_who_is_not_connected)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = 1, .sin_zero = "x"};
	struct pmv_hooks_peer peer = {.len = sizeof(in)};
	struct pmv_lost_writes tracker = {.addrlen = sizeof(in)}, other = {.addrlen = sizeof(in)};

	memcpy(peer.addr, &in, sizeof(in));
	pmv_rdm_reach_plain(&in);
	memcpy(tracker.addr, &in, sizeof(in));
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_BEGUN);
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_FAILED);
	cr_expect_eq(pmv_rdm_reach_count, 1);
	pmv_rdm_reach_check(&tracker);
	pmv_rdm_reach_check(&other);
	cr_expect_neq(tracker.wait.since_ms, 0);
	cr_expect_eq(other.wait.since_ms, 0);
	pmv_rdm_reach_answered(&tracker, -FI_ECONNRESET);
	cr_expect_eq(tracker.wait.since_ms, 0, "who was told something begins again");
	cr_expect_eq(pmv_rdm_reach_count, 1, "it is not connected");
	pmv_rdm_reach_check(&tracker);
	pmv_rdm_reach_answered(&tracker, 0);
	cr_expect_eq(tracker.wait.since_ms, 0);
	cr_expect_eq(pmv_rdm_reach_count, 0);
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_BEGUN);
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_OVER);
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_OVER);
	cr_expect_eq(pmv_rdm_reach_count, 0);
}

/*
 * A peer that refuses has perhaps connected by itself, so the next call is made at once.  If it
 * refuses for ever it is one that can't be connected to.
 */
Test(rdm_reach, a_refusal_does_not_end_the_wait)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = 1};
	struct pmv_hooks_peer peer = {.len = sizeof(in)};
	struct pmv_lost_writes tracker = {.addrlen = sizeof(in)};

	pmv_setting.timeout = 10;
	memcpy(peer.addr, &in, sizeof(in));
	memcpy(tracker.addr, &in, sizeof(in));
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_BEGUN);
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_REFUSED);
	cr_expect_eq(pmv_rdm_reach_count, 1);
	cr_expect_eq(pmv_rdm_reach_check(&tracker), 0);
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_BEGUN);
	pmv_rdm_reach_attempt(&peer, PMV_ATTEMPT_REFUSED);
	cr_expect_eq(pmv_rdm_reach_count, 1);
	cr_expect_eq(pmv_rdm_reach_check(&tracker), -FI_EAGAIN, "only the first one is no pause");
	pmv_rdm_reach_answered(&tracker, 0);
	cr_expect_eq(pmv_rdm_reach_count, 0);
}
