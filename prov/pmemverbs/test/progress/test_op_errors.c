/* SPDX-License-Identifier: BSD-2-Clause */
/* test_op_errors.c -- op.c: parts of an operation that fail are one error of it */
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
