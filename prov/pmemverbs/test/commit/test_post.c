/* SPDX-License-Identifier: BSD-2-Clause */
/* test_post.c -- a part of a commit that can't be posted, or must not be any more */
#include "test/support/rig.h"

/* A target that heard of success would be misled. */
Test(post, keeps_a_notice_back_after_an_error)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 2;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	expect_posted(rig, "W R");
	rig_end_part(rig, FI_EIO);
	rig_end_part(rig, FI_ECANCELED);
	rig->fake.room = -1;
	rig_expect_one_error(rig, FI_EIO);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(post, keeps_a_flush_back_after_an_error_of_the_write)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	expect_posted(rig, "W");
	rig_end_part(rig, FI_EIO);
	rig->fake.room = -1;
	rig_expect_one_error(rig, FI_EIO);
	expect_posted(rig, "");
	/* And what comes later may be posted again. */
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W R");
	rig_close(rig);
}

Test(post, of_the_write_that_fails_is_an_error_of_the_call)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.fail_in = 1;
	rig->fake.fail_err = FI_EOPBADSTATE;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED), FI_EOPBADSTATE);
	expect_posted(rig, "");
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(post, of_a_later_part_that_fails_is_an_error_of_the_completion)
{
	static const struct {
		int part;
		const char *posted;
	} cases[] = {{2, "W"}, {3, "W R"}};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = rig_open(NULL);

		rig->fake.fail_in = cases[i].part;
		rig->fake.fail_err = FI_EOPBADSTATE;
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
		/* Nothing behind the part that failed is posted. */
		expect_posted(rig, cases[i].posted);
		rig_expect_nothing(rig);
		fake_complete(&rig->fake, SIZE_MAX);
		rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EOPBADSTATE);
		rig_expect_nothing(rig);
		rig_close(rig);
	}
}

Test(post, that_fails_after_the_write_has_ended_is_told)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_complete(&rig->fake, 1);
	rig_expect_nothing(rig);
	rig->fake.room = -1;
	rig->fake.fail_in = 1;
	rig->fake.fail_err = FI_EOPBADSTATE;
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EOPBADSTATE);
	expect_posted(rig, "W");
	rig_expect_nothing(rig);
	rig_close(rig);
}
