/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdm_fence.c -- what a fenced operation of FI_EP_RDM waits for, and that this ends */
#include <criterion/criterion.h>

#include <rdma/fi_errno.h>

#include "rdm/rdm_fence.h"

static struct pmv_lost_writes_list trackers;
static struct pmv_lost_writes *peer, *other;
static struct pmv_rdm_fence fence;

static void open_endpoint(void)
{
	pmv_lost_writes_list_init(&trackers);
	peer = pmv_lost_writes_list_get(&trackers, "peer", 4);
	other = pmv_lost_writes_list_get(&trackers, "other", 5);
	pmv_rdm_fence_init(&fence);
	fence.first_ms = INT32_MAX;
}

static void close_endpoint(void)
{
	pmv_rdm_fence_destroy(&fence);
	pmv_lost_writes_list_destroy(&trackers);
}

TestSuite(rdm_fence, .init = open_endpoint, .fini = close_endpoint);

static struct pmv_rdm_ticket begun(enum pmv_rdm_kind kind)
{
	struct pmv_rdm_ticket ticket = {0};

	cr_assert_eq(pmv_rdm_fence_begin(&fence, peer, kind, false, &ticket), 0);
	return ticket;
}

static ssize_t pass(enum pmv_rdm_kind kind)
{
	return pmv_rdm_fence_pass(&fence, peer, kind);
}

/* What the connection itself fences need not be waited for. */
Test(rdm_fence, waits_for_messages_and_atomics_and_writes_wait_for_nothing_else)
{
	for (enum pmv_rdm_kind earlier = 0; earlier < PMV_RDM_KINDS; earlier++) {
		for (enum pmv_rdm_kind kind = 0; kind < PMV_RDM_KINDS; kind++) {
			struct pmv_rdm_ticket first, second;
			bool waits = earlier == PMV_RDM_OTHER || kind == PMV_RDM_OTHER;

			cr_expect_eq(pass(kind), 0, "there is nothing to wait for");
			first = begun(earlier);
			second = begun(earlier);
			for (int i = 0; i < 3; i++)
				cr_expect_eq(pass(kind), waits ? -FI_EAGAIN : 0);
			pmv_rdm_fence_end(&second);
			cr_expect_eq(pass(kind), waits ? -FI_EAGAIN : 0, "one is left");
			pmv_rdm_fence_end(&first);
			pmv_rdm_fence_end(&first);
			cr_expect_eq(pass(kind), 0);
		}
	}
}

Test(rdm_fence, waits_for_no_other_peer)
{
	struct pmv_rdm_ticket first = begun(PMV_RDM_OTHER);

	cr_expect_eq(pmv_rdm_fence_pass(&fence, other, PMV_RDM_OTHER), 0);
	cr_expect_eq(pass(PMV_RDM_OTHER), -FI_EAGAIN);
	pmv_rdm_fence_end(&first);
}

/* A stream of others would keep it waiting for ever. */
Test(rdm_fence, goes_first_while_it_waits)
{
	struct pmv_rdm_ticket first = begun(PMV_RDM_OTHER), ticket;

	cr_expect_eq(pass(PMV_RDM_RMA), -FI_EAGAIN);
	cr_expect_eq(pmv_rdm_fence_begin(&fence, peer, PMV_RDM_RMA, false, &ticket), -FI_EAGAIN);
	cr_expect_eq(pmv_rdm_fence_begin(&fence, other, PMV_RDM_RMA, false, &ticket), 0);
	pmv_rdm_fence_end(&ticket);
	/* Nobody tries the fenced one again. */
	pmv_rdm_fence_end(&first);
	ticket = begun(PMV_RDM_RMA);
	pmv_rdm_fence_end(&ticket);
}

Test(rdm_fence, holds_nobody_up_when_it_was_posted)
{
	struct pmv_rdm_ticket first = begun(PMV_RDM_OTHER), fenced, ticket;

	cr_expect_eq(pass(PMV_RDM_RMA), -FI_EAGAIN);
	pmv_rdm_fence_end(&first);
	cr_expect_eq(pass(PMV_RDM_RMA), 0);
	cr_expect_eq(pmv_rdm_fence_begin(&fence, peer, PMV_RDM_RMA, true, &fenced), 0);
	ticket = begun(PMV_RDM_OTHER);
	pmv_rdm_fence_end(&ticket);
	pmv_rdm_fence_end(&fenced);
}

/* The peer may need the later one to end the earlier one. */
Test(rdm_fence, goes_first_only_for_a_while)
{
	struct pmv_rdm_ticket first = begun(PMV_RDM_OTHER), ticket;
	ssize_t ret;

	fence.first_ms = 1;
	cr_expect_eq(pass(PMV_RDM_OTHER), -FI_EAGAIN);
	do {
		ret = pmv_rdm_fence_begin(&fence, peer, PMV_RDM_OTHER, false, &ticket);
	} while (ret == -FI_EAGAIN);
	cr_expect_eq(ret, 0);
	cr_expect_eq(pass(PMV_RDM_OTHER), -FI_EAGAIN);
	pmv_rdm_fence_end(&first);
	cr_expect_eq(pass(PMV_RDM_OTHER), -FI_EAGAIN, "that one is an earlier one, too");
	/* A stream of others would make it wait for ever. */
	do {
		struct pmv_rdm_ticket more;

		ret = pmv_rdm_fence_begin(&fence, peer, PMV_RDM_OTHER, false, &more);
		if (!ret)
			pmv_rdm_fence_end(&more);
	} while (!ret);
	cr_expect_eq(ret, -FI_EAGAIN);
	pmv_rdm_fence_end(&ticket);
	cr_expect_eq(pass(PMV_RDM_OTHER), 0);
}

/* RxM may never say how they ended. */
Test(rdm_fence, is_refused_once_for_what_was_lost)
{
	struct pmv_rdm_ticket lost = begun(PMV_RDM_OTHER), late = begun(PMV_RDM_RMA), next;

	pmv_lost_writes_disconnected(peer);
	cr_expect_eq(pass(PMV_RDM_RMA), -FI_ECONNRESET);
	cr_expect_eq(pass(PMV_RDM_RMA), 0, "it was told");
	next = begun(PMV_RDM_OTHER);
	/* That it has ended after all does not count for another one. */
	pmv_rdm_fence_end(&late);
	cr_expect_eq(pass(PMV_RDM_RMA), -FI_EAGAIN);
	pmv_lost_writes_disconnected(peer);
	pmv_rdm_fence_end(&lost);
	cr_expect_eq(pass(PMV_RDM_RMA), -FI_ECONNRESET, "the next one was lost, too");
	pmv_rdm_fence_end(&next);
	cr_expect_eq(pass(PMV_RDM_RMA), 0);
}

/* The endpoint stays open, and nobody counts what is still under way. */
Test(rdm_fence, is_refused_once_for_what_a_close_that_failed_has_let_go)
{
	begun(PMV_RDM_OTHER);
	begun(PMV_RDM_RMA);
	pmv_rdm_fence_lose(&fence);
	cr_expect_eq(pass(PMV_RDM_OTHER), -FI_ECONNRESET);
	cr_expect_eq(pass(PMV_RDM_OTHER), 0);
}

Test(rdm_fence, is_not_refused_if_all_have_ended_after_a_loss)
{
	struct pmv_rdm_ticket first = begun(PMV_RDM_OTHER), second = begun(PMV_RDM_RMA);

	pmv_lost_writes_disconnected(peer);
	pmv_rdm_fence_end(&first);
	pmv_lost_writes_disconnected(peer);
	pmv_rdm_fence_end(&second);
	cr_expect_eq(pass(PMV_RDM_OTHER), 0);
}

/* A connection whose peer nobody knows would be lost without notice. */
Test(rdm_fence, has_to_find_each_connection)
{
	cr_expect(!pmv_rdm_fence_knows(&fence, peer));
	pmv_rdm_fence_found(&fence, peer);
	cr_expect(pmv_rdm_fence_knows(&fence, peer));
	cr_expect(!pmv_rdm_fence_knows(&fence, other));
	pmv_lost_writes_disconnected(peer);
	cr_expect(!pmv_rdm_fence_knows(&fence, peer));
}
