/* SPDX-License-Identifier: BSD-2-Clause */
/* test_op_errors.c -- op.c: parts of an operation that fail are one error of it */
#include "base/setting.h"
#include "objects/ep.h"
#include "test/support/rig.h"

Test(errors, of_any_part_are_one_error_of_the_commit)
{
	static const struct {
		const char *what;
		int parts[3]; /* write, READ, notice */
		int err;
	} cases[] = {
		{"the write, then all is cancelled", {FI_EIO, FI_ECANCELED, FI_ECANCELED}, FI_EIO},
		{"the write alone", {FI_EIO, 0, 0}, FI_EIO},
		{"the READ, then the notice is cancelled", {0, FI_EACCES, FI_ECANCELED}, FI_EACCES},
		{"the READ alone", {0, FI_EACCES, 0}, FI_EACCES},
		{"the notice", {0, 0, FI_ENOTCONN}, FI_ENOTCONN},
		{"the write and the READ", {FI_EIO, FI_EACCES, 0}, FI_EIO},
		{"the write and the notice", {FI_EIO, 0, FI_ENOTCONN}, FI_EIO},
		{"a cancelled write", {FI_ECANCELED, FI_ECANCELED, FI_ECANCELED}, FI_ECANCELED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int notice = 0; notice < 2; notice++) {
			struct rig *rig = rig_open(NULL);
			int parts = notice ? 3 : 2;
			bool fails = false;

			accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), notice ? FI_IMMED : 0));
			for (int part = 0; part < parts; part++) {
				rig_expect_nothing(rig);
				rig_end_part(rig, cases[i].parts[part]);
				fails = fails || cases[i].parts[part];
			}
			if (fails)
				rig_expect_one_error(rig, cases[i].err);
			else
				rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
			rig_expect_nothing(rig);
			rig_close(rig);
		}
	}
}

/* Parts that the core completes in one go are not told before the last of them is read. */
Test(errors, are_told_once_if_all_parts_are_there_at_once)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	cr_assert_eq(fake_fail_all(&rig->fake, FI_EIO, 100 + FI_EIO), 3);
	rig_expect_one_error(rig, FI_EIO);
	rig_close(rig);
}

Test(errors, of_a_write_that_is_its_own_proof_are_told)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_WSP, CONTEXT(1), FI_IMMED));
	rig_end_part(rig, FI_EIO);
	rig_expect_one_error(rig, FI_EIO);
	rig_close(rig);
}

/*
 * The core may have sent zeros instead of memory that was lost since the endpoint was opened: no
 * commit is believed that ends from then on, whoever proves it.
 */
static void lose_what_is_sent(uint64_t key, int parts)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	struct rig *rig = rig_open(NULL);

	for (int i = 0; i < 3; i++) {
		accepted(rig_commit(rig, key, CONTEXT(1), FI_COMPLETION));
		cr_assert_eq(fake_complete(&rig->fake, parts - 1), parts - 1);
		if (i == 1)
			atomic_fetch_add(&pmv_guard_reads, 1);
		cr_assert_eq(fake_complete(&rig->fake, 1), 1);
		if (!i) {
			rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
			continue;
		}
		cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
		cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
		cr_expect_eq(error.op_context, CONTEXT(1));
		cr_expect_eq(error.err, FI_EFAULT);
		rig_expect_nothing(rig);
	}
	rig_close(rig);
	/* What a new connection sends was read later. */
	rig = rig_open(NULL);
	accepted(rig_commit(rig, key, CONTEXT(1), FI_COMPLETION));
	cr_assert_eq(fake_complete(&rig->fake, parts), parts);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(errors, of_memory_that_was_lost_are_told_of_commits_by_reads)
{
	lose_what_is_sent(KEY_MHP, 2);
}

Test(errors, of_memory_that_was_lost_are_told_of_commits_by_the_write_alone)
{
	lose_what_is_sent(KEY_WSP, 1);
}

Test(errors, of_a_lost_connection_hit_every_commit_once)
{
	enum { COMMITS = 100 };
	struct rig *rig = rig_open(NULL);

	for (int i = 0; i < COMMITS; i++)
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(i), i % 3 ? 0 : FI_IMMED));
	/* Somewhere in the middle: behind the write of the eighth. */
	fake_complete(&rig->fake, 19);
	fake_fail_all(&rig->fake, FI_EIO, 12);
	for (int i = 0; i < COMMITS; i++) {
		if (i < 8)
			rig_expect(rig, CONTEXT(i), RIG_WRITTEN);
		else
			rig_expect_error(rig, CONTEXT(i), RIG_WRITTEN,
					 i == 8 ? FI_EIO : FI_ECANCELED);
	}
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* open_watched -- what is posted there may end with a peer that is given up */
static struct rig *open_watched(void)
{
	pmv_setting.timeout = 10;
	return rig_open(&(struct rig_options){.sockets = true});
}

/* give_up -- what the thread for silent peers does, and then the core */
static void give_up(struct rig *rig)
{
	atomic_store(&pmv_to_ep(rig->ep)->silence.given_up, true);
	fake_fail_all(&rig->fake, FI_ECANCELED, 0);
}

static void post_each(struct rig *rig, int first)
{
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(first), 0));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(first + 1)));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(first + 2)));
	accepted(rig_send(rig, CONTEXT(first + 3)));
}

static void expect_each(struct rig *rig, int first, int err)
{
	rig_expect_error(rig, CONTEXT(first), RIG_WRITTEN, err);
	rig_expect_error(rig, CONTEXT(first + 1), RIG_WRITTEN, err);
	rig_expect_error(rig, CONTEXT(first + 2), FI_RMA | FI_READ, err);
	rig_expect_error(rig, CONTEXT(first + 3), RIG_SENT, err);
	rig_expect_nothing(rig);
}

Test(errors, of_a_connection_that_was_given_up_say_so)
{
	struct rig *rig = open_watched();

	post_each(rig, 1);
	give_up(rig);
	expect_each(rig, 1, FI_ETIMEDOUT);
	/* What the core says of itself stays. */
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(5), 0));
	fake_fail_all(&rig->fake, FI_EIO, 0);
	rig_expect_error(rig, CONTEXT(5), RIG_WRITTEN, FI_EIO);
	rig_close(rig);
}

/* as -- the calls are those of another endpoint from now on; returns the one before */
static struct fid_ep *as(struct rig *rig, struct fid_ep *ep)
{
	struct fid_ep *before = rig->ep;

	rig->ep = ep;
	return before;
}

/* Each entry is told as its own connection's, also of what was posted before others came. */
Test(errors, of_a_connection_that_was_given_up_are_told_apart_from_others)
{
	struct rig *rig = open_watched();
	struct fid_ep *other, *first;

	post_each(rig, 1);
	other = rig_ep(rig, rig->cq);
	give_up(rig);
	expect_each(rig, 1, FI_ETIMEDOUT);
	post_each(rig, 11);
	fake_fail_all(&rig->fake, FI_ECANCELED, 0);
	expect_each(rig, 11, FI_ETIMEDOUT);

	first = as(rig, other);
	post_each(rig, 21);
	fake_fail_all(&rig->fake, FI_ECANCELED, 0);
	expect_each(rig, 21, FI_ECANCELED);
	post_each(rig, 31);
	atomic_store(&pmv_to_ep(first)->silence.given_up, false);
	give_up(rig);
	expect_each(rig, 31, FI_ETIMEDOUT);
	/* A third one, when the first is closed. */
	cr_assert_eq(fi_close(&first->fid), 0);
	first = other;
	as(rig, rig_ep(rig, rig->cq));
	post_each(rig, 41);
	give_up(rig);
	expect_each(rig, 41, FI_ETIMEDOUT);
	cr_assert_eq(fi_close(&first->fid), 0);
	rig_close(rig);
}

/* They succeed as before. */
Test(errors, are_told_apart_without_any_change_of_successes)
{
	struct rig *rig = open_watched();
	struct fid_ep *other = rig_ep(rig, rig->cq);

	for (int i = 0; i < 2; i++) {
		post_each(rig, 1);
		fake_complete(&rig->fake, SIZE_MAX);
		rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
		rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
		rig_expect(rig, CONTEXT(3), FI_RMA | FI_READ);
		rig_expect(rig, CONTEXT(4), RIG_SENT);
		rig_expect_nothing(rig);
		other = as(rig, other);
	}
	cr_assert_eq(fi_close(&other->fid), 0);
	rig_close(rig);
}

/* Receives end so with any connection. */
Test(errors, of_receives_stay_as_they_are)
{
	struct rig *rig = open_watched();
	char buf[8];

	accepted(fi_recv(rig->ep, buf, sizeof(buf), NULL, 0, CONTEXT(1)));
	atomic_store(&pmv_to_ep(rig->ep)->silence.given_up, true);
	cr_assert(fake_receive(&rig->fake, FI_ECANCELED));
	rig_expect_error(rig, CONTEXT(1), RIG_RECEIVED, FI_ECANCELED);
	rig_close(rig);
}
