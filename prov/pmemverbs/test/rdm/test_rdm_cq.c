/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdm_cq.c -- operations that RxM never completes end all the same, and are used again */
#include <criterion/criterion.h>

#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/container.h"
#include "rdm/rdm.h"
#include "rdm/rdm_cq.h"
#include "rdm/rdm_wake.h"

#define CONTEXT(n) ((void *) (uintptr_t) (0x1000 + 16 * (n)))

/* A queue of RxM's: contexts of operations that have succeeded. */
static void *told[16];
static size_t num_told;
static bool loses; /* a connection, while it is read */

static struct pmv_lost_writes_list trackers;
static struct pmv_lost_writes *peer;
static struct fid_cq cq;
static struct pmv_op_owner owner;

static ssize_t rxm_read(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	struct fi_cq_data_entry *entry = buf;

	(void) fid, (void) count, (void) src_addr;
	if (loses)
		pmv_lost_writes_disconnected(peer);
	loses = false;
	if (!num_told)
		return -FI_EAGAIN;
	*entry = (struct fi_cq_data_entry){.op_context = told[0], .flags = FI_ATOMIC};
	memmove(told, told + 1, --num_told * sizeof(told[0]));
	return 1;
}

/* What happens while somebody sleeps there; in any case another thread loses a connection. */
static enum {
	NOTHING_ELSE, /* which wakes nobody */
	TOLD,
	SIGNALLED, /* by the application */
	TOLD_AND_SIGNALLED,
	SIGNALLED_UNHEARD = 4, /* between RxM's look for signals and its sleep */
	OVER_EARLY = 8,        /* RxM counts whole milliseconds */
} meanwhile;

static struct fid_domain under, others;
static int signals;
static int asleep_ms; /* so long at most when somebody slept last */

static int rxm_signal(struct fid_cq *fid)
{
	(void) fid;
	signals++;
	return 0;
}

static ssize_t rxm_sread(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			 const void *cond, int timeout)
{
	(void) fid, (void) buf, (void) count, (void) src_addr, (void) cond;
	if (timeout < 0)
		return -FI_EOTHER;
	asleep_ms = timeout;
	if (meanwhile == SIGNALLED_UNHEARD && !signals) {
		fi_cq_signal(fid);
		usleep((useconds_t) timeout * 1000);
		return -FI_EAGAIN;
	}
	if (meanwhile == OVER_EARLY) {
		meanwhile = SIGNALLED;
		return -FI_EAGAIN;
	}
	pmv_lost_writes_disconnected(peer);
	if (meanwhile & TOLD)
		pmv_rdm_wake_all(&under);
	if (meanwhile & SIGNALLED)
		fi_cq_signal(fid);
	if (signals)
		return -FI_ECANCELED;
	usleep((useconds_t) timeout * 1000);
	return -FI_EAGAIN;
}

static ssize_t rxm_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
	(void) fid, (void) entry, (void) flags;
	return -FI_EAGAIN;
}

static int rxm_close(struct fid *fid)
{
	(void) fid;
	return 0;
}

static void open_untracked(void)
{
	static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .close = rxm_close};
	static struct fi_ops_cq ops = {.size = sizeof(ops),
				       .readfrom = rxm_read,
				       .readerr = rxm_readerr,
				       .sreadfrom = rxm_sread,
				       .signal = rxm_signal};
	const struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};

	pmv_lost_writes_list_init(&trackers);
	peer = pmv_lost_writes_list_get(&trackers, "peer", 4);
	cq = (struct fid_cq){.fid = {.fclass = FI_CLASS_CQ, .ops = &fid_ops}, .ops = &ops};
	cr_assert_eq(pmv_rdm_cq_wrap(&cq, &attr, &under), 0);
}

static void open_queue(void)
{
	open_untracked();
	cr_assert_eq(pmv_rdm_cq_track(&cq.fid), 0);
	cr_assert_eq(pmv_op_owner_open(&owner, pmv_rdm_cq_pool(&cq.fid)), 0);
}

static void close_queue(void)
{
	pmv_op_owner_close(&owner);
	cr_assert_eq(fi_close(&cq.fid), 0);
	pmv_lost_writes_list_destroy(&trackers);
}

TestSuite(rdm_cq, .init = open_queue, .fini = close_queue);

/* take -- NULL: there is none */
static struct pmv_rdm_op *take(int n)
{
	struct pmv_rdm_op *op = (struct pmv_rdm_op *) pmv_op_get(&owner, PMV_OP_APPLICATION);

	if (!op)
		return NULL;
	op->op.context = CONTEXT(n);
	op->op.told.audience = PMV_TELL_ALL;
	return op;
}

/* sent -- an atomic; what RxM knows of it */
static void *sent(int n)
{
	struct pmv_rdm_op *op = take(n);

	cr_assert(op);
	op->peer = peer;
	op->losses = pmv_lost_writes_losses(peer);
	return pmv_rdm_op_context(op);
}

static void tell(void *context)
{
	told[num_told++] = context;
}

static void expect_nothing(void)
{
	struct fi_cq_data_entry entry;

	cr_assert_eq(fi_cq_read(&cq, &entry, 1), -FI_EAGAIN);
}

static void expect(int n)
{
	struct fi_cq_data_entry entry;

	cr_assert_eq(fi_cq_read(&cq, &entry, 1), 1);
	cr_assert_eq(entry.op_context, CONTEXT(n));
}

static void expect_error(int n, int err)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = {0};

	cr_assert_eq(fi_cq_read(&cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(&cq, &error, 0), 1);
	cr_assert_eq(error.op_context, CONTEXT(n));
	cr_assert_eq(error.err, err);
	cr_assert_eq(error.flags, FI_ATOMIC);
}

Test(rdm_cq, ends_atomics_whose_connection_was_lost)
{
	sent(1);
	expect_nothing();
	pmv_lost_writes_disconnected(peer);
	sent(2);
	expect_error(1, FI_ECANCELED);
	expect_nothing();
	pmv_lost_writes_given_up(peer);
	pmv_lost_writes_disconnected(peer);
	expect_error(2, FI_ETIMEDOUT);
	expect_nothing();
}

/* Whoever sleeps after that read would not be woken. */
Test(rdm_cq, sees_a_loss_in_the_read_in_which_it_comes)
{
	sent(1);
	loses = true;
	expect_error(1, FI_ECANCELED);
	expect_nothing();
}

Test(rdm_cq, ends_nothing_that_rxm_tells_of)
{
	void *first = sent(1);

	take(2); /* no atomic, or not sent yet */
	tell(first);
	pmv_lost_writes_disconnected(peer);
	expect(1);
	expect_nothing();
	/* What is told while a connection is lost. */
	tell(sent(3));
	loses = true;
	expect(3);
	expect_nothing();
}

/* It is what the place is used for now that would end. */
Test(rdm_cq, takes_no_late_end_for_that_of_another_operation)
{
	void *late[2], *next;

	for (int i = 0; i < 2; i++) {
		late[i] = sent(1);
		pmv_lost_writes_disconnected(peer);
		expect_error(1, FI_ECANCELED);
	}
	next = sent(2);
	cr_assert_neq(next, late[0]);
	cr_assert_neq(next, late[1]);
	cr_assert_lt(labs((char *) next - (char *) late[0]), PMV_RDM_OP_LIVES, "the same place");
	tell(late[0]);
	tell(late[1]);
	expect_nothing();
	tell(next);
	expect(2);
	expect_nothing();
}

/* Its place is not given back yet. */
Test(rdm_cq, takes_no_late_end_of_an_operation_whose_failure_was_not_read)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = {0};
	void *late = sent(1);

	pmv_lost_writes_disconnected(peer);
	cr_assert_eq(fi_cq_read(&cq, &entry, 1), -FI_EAVAIL);
	tell(late);
	pmv_rdm_cq_pull(&cq);
	cr_assert_eq(fi_cq_readerr(&cq, &error, 0), 1);
	cr_assert_eq(error.op_context, CONTEXT(1));
	expect_nothing();
}

Test(rdm_cq, can_lose_any_number_of_atomics)
{
	for (int i = 0; i < 3 * PMV_OP_OWN; i += 3) {
		for (int n = 0; n < 3; n++)
			sent(1);
		pmv_lost_writes_disconnected(peer);
		for (int n = 0; n < 3; n++)
			expect_error(1, FI_ECANCELED);
	}
	expect_nothing();
}

/* reopen -- close the endpoint, and open another one; meanwhile the application reads, or not */
static void reopen(bool reads)
{
	struct pmv_op_list ops = STAILQ_HEAD_INITIALIZER(ops);

	pmv_rdm_cq_drop(&cq, &owner, &ops);
	if (reads)
		expect_nothing();
	pmv_rdm_cq_leave(&cq, &ops);
	pmv_op_owner_close(&owner);
	cr_assert_eq(pmv_op_owner_open(&owner, pmv_rdm_cq_pool(&cq.fid)), 0);
}

Test(rdm_cq, uses_again_what_was_left_by_closed_endpoints)
{
	enum { EACH = PMV_OP_APPLICATION / 8 };

	for (int i = 0; i < 20; i++) {
		for (int n = 0; n < EACH; n++)
			cr_assert(take(n), "operation %d of endpoint %d", n, i);
		reopen(i % 2);
		expect_nothing();
	}
}

/* RxM tells in its queue of what had ended before. */
Test(rdm_cq, tells_of_what_has_ended_before_its_endpoint_was_closed)
{
	void *first = sent(1), *second = sent(2), *other;

	tell(first);
	reopen(false);
	/* Meanwhile its place is not given away. */
	other = sent(3);
	cr_expect_neq(other, first);
	expect(1);
	tell(second);
	expect(2);
	expect_nothing();
	tell(other);
	expect(3);
	expect_nothing();
}

static ssize_t never(struct pmv_rdm_op *op)
{
	(void) op;
	return -FI_EAGAIN;
}

/* Its commit was waiting for room. */
Test(rdm_cq, fails_what_waits_when_its_endpoint_is_closed_and_only_then_uses_it_again)
{
	struct pmv_rdm_op *op = sent(1);

	op->commit = never;
	tell(op);
	expect_nothing();
	reopen(false);
	/* Whoever waits for a fenced operation reads, too. */
	pmv_rdm_cq_pull(&cq);
	cr_expect_neq(take(2), op);
	expect_error(1, FI_ECANCELED);
	expect_nothing();
	expect_nothing();
	cr_expect_neq(take(3), take(4));
}

static ssize_t posts(struct pmv_rdm_op *op)
{
	(void) op;
	return 0;
}

/* It has been answered, and what commits it is a write, which ends as any other. */
Test(rdm_cq, leaves_the_commit_of_an_atomic_alone)
{
	void *context = sent(1);
	struct pmv_rdm_op *op = context;

	op->commit = posts;
	tell(context);
	expect_nothing();
	pmv_lost_writes_disconnected(peer);
	expect_nothing();
	tell(context);
	expect(1);
	expect_nothing();
}

/* A loss may be seen in a call that posts, after which who sleeps by the descriptor is not woken.
 */
Test(rdm_cq, lets_nobody_sleep_before_a_loss_was_looked_at)
{
	sent(1);
	expect_nothing();
	cr_assert_eq(pmv_rdm_cq_trywait(&cq.fid), 0);
	pmv_lost_writes_disconnected(peer);
	cr_assert_eq(pmv_rdm_cq_trywait(&cq.fid), -FI_EAGAIN);
	expect_error(1, FI_ECANCELED);
	expect_nothing();
	cr_assert_eq(pmv_rdm_cq_trywait(&cq.fid), 0);
}

static int lose_and_reset(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void) fabric, (void) fids, (void) count;
	pmv_lost_writes_disconnected(peer);
	return 0;
}

/* What has made the descriptor ready is forgotten there. */
Test(rdm_cq, lets_nobody_sleep_before_a_loss_meanwhile_was_looked_at)
{
	struct fi_ops_fabric ops = {.size = sizeof(ops), .trywait = lose_and_reset};
	struct fid_fabric rxm = {.ops = &ops};
	struct pmv_rdm_fabric fabric = {.fid = &rxm};

	sent(1);
	expect_nothing();
	cr_expect_eq(pmv_rdm_trywait(&fabric, &cq.fid), -FI_EAGAIN);
	expect_error(1, FI_ECANCELED);
}

/* A read that finds another one's completion does not tell of it yet. */
Test(rdm_cq, lets_nobody_sleep_before_a_loss_was_told)
{
	sent(1);
	tell(sent(2));
	pmv_lost_writes_disconnected(peer);
	expect(2);
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), -FI_EAGAIN);
	expect_error(1, FI_ECANCELED);
	expect_nothing();
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), 0);
}

Test(rdm_cq, lets_nobody_sleep_before_what_was_kept_is_read)
{
	tell(sent(1));
	pmv_rdm_cq_pull(&cq);
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), -FI_EAGAIN);
	expect(1);
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), 0);
}

static bool has_room;
static int num_posted;

static ssize_t posts_if_there_is_room(struct pmv_rdm_op *op)
{
	(void) op;
	num_posted += has_room;
	return has_room ? 0 : -FI_EAGAIN;
}

/* defer -- an atomic that was executed, and whose commit waits for room */
static void defer(int n)
{
	struct pmv_rdm_op *op = sent(n);

	op->commit = posts_if_there_is_room;
	tell(op);
	expect_nothing();
	cr_assert_eq(num_posted, 0);
}

Test(rdm_cq, lets_nobody_sleep_on_its_descriptor_while_a_commit_waits_for_room)
{
	defer(1);
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), -FI_EAGAIN);
	has_room = true;
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), 0);
	cr_expect_eq(num_posted, 1);
}

Test(rdm_cq, tries_a_commit_again_in_the_next_read)
{
	defer(1);
	has_room = true;
	expect_nothing();
	cr_expect_eq(num_posted, 1);
}

Test(rdm_cq, looks_for_room_more_often_than_for_losses)
{
	struct fi_cq_data_entry entry;

	meanwhile = SIGNALLED;
	cr_expect_eq(fi_cq_sread(&cq, &entry, 1, NULL, -1), -FI_ECANCELED);
	cr_expect_eq(asleep_ms, 1000);
	signals = 0;
	defer(1);
	cr_expect_eq(fi_cq_sread(&cq, &entry, 1, NULL, -1), -FI_ECANCELED);
	cr_expect_eq(asleep_ms, 1);
}

static ssize_t refuses(struct pmv_rdm_op *op)
{
	(void) op;
	return -FI_EOPNOTSUPP;
}

Test(rdm_cq, lets_nobody_sleep_before_a_refusal_is_read)
{
	struct pmv_rdm_op *op = sent(1);

	op->commit = refuses;
	tell(op);
	pmv_rdm_cq_pull(&cq);
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), -FI_EAGAIN);
	expect_error(1, FI_EOPNOTSUPP);
	cr_expect_eq(pmv_rdm_cq_trywait(&cq.fid), 0);
}

/* RxM may tell an error of what it has sent after the answer has come. */
Test(rdm_cq, takes_no_second_end_of_an_operation)
{
	void *first = sent(1), *next;

	tell(first);
	expect(1);
	tell(first);
	expect_nothing();
	next = sent(2);
	tell(first);
	expect_nothing();
	tell(next);
	expect(2);
	cr_assert_neq(take(3), take(4));
	expect_nothing();
}

Test(rdm_cq, lets_nobody_sleep_without_end)
{
	struct fi_cq_data_entry entry;

	sent(1);
	cr_assert_eq(fi_cq_sread(&cq, &entry, 1, NULL, -1), -FI_EAVAIL);
	expect_error(1, FI_ECANCELED);
	expect_nothing();
}

Test(rdm_cq, wakes_who_sleeps_when_a_connection_of_its_domain_is_lost)
{
	struct fi_cq_data_entry entry;

	pmv_rdm_wake_all(&others);
	cr_expect_eq(signals, 0);
	sent(1);
	meanwhile = TOLD;
	cr_expect_eq(fi_cq_sread(&cq, &entry, 1, NULL, -1), -FI_EAVAIL);
	cr_expect_eq(signals, 1);
	expect_error(1, FI_ECANCELED);
}

Test(rdm_cq, takes_no_signal_of_the_application_for_its_own)
{
	struct fi_cq_data_entry entry;

	meanwhile = SIGNALLED;
	cr_expect_eq(fi_cq_sread(&cq, &entry, 1, NULL, -1), -FI_ECANCELED);
	meanwhile = TOLD_AND_SIGNALLED;
	cr_expect_eq(fi_cq_sread(&cq, &entry, 1, NULL, -1), -FI_ECANCELED);
}

/* expect_untracked_sread -- a call without a time limit ends with this, and for one signal */
static void expect_untracked_sread(ssize_t ret)
{
	struct fi_cq_data_entry entry;

	cr_expect_eq(fi_cq_sread(&cq, &entry, 1, NULL, -1), ret);
	cr_expect_eq(signals, 1);
	cr_assert_eq(fi_close(&cq.fid), 0);
	pmv_lost_writes_list_destroy(&trackers);
}

/* Nobody has signalled, and there is time left. */
Test(rdm_untracked_cq, sleeps_on_when_a_nap_ends_early, .init = open_untracked)
{
	meanwhile = OVER_EARLY;
	expect_untracked_sread(-FI_ECANCELED);
}

Test(rdm_untracked_cq, hears_a_signal_that_came_just_before_its_sleep, .init = open_untracked)
{
	meanwhile = SIGNALLED_UNHEARD;
	expect_untracked_sread(-FI_EAGAIN);
}
