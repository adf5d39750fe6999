/* SPDX-License-Identifier: BSD-2-Clause */
/* test_post_list.c -- a WRITE and its READ with one doorbell, of which only the READ completes */
#include "test/support/rig.h"

#include "pmemrdma/pmemrdma_post.h"

static int doorbells;
static size_t accepts;               /* of a list */
static ssize_t answer;               /* for nothing, if not 0 */
static ssize_t unasked = -FI_EINVAL; /* to a list of none */

static ssize_t post(struct fid_ep *fid, const struct pmemrdma_request *requests, size_t count)
{
	size_t n = 0;

	if (!count)
		return unasked;
	doorbells++;
	if (answer)
		return answer;
	for (; n < count && n < accepts; n++) {
		const struct pmemrdma_request *from = &requests[n];
		const struct fi_rma_iov to = {
			.addr = from->addr,
			.len = from->iov->iov_len,
			.key = from->key,
		};
		const struct fi_msg_rma msg = {
			.msg_iov = from->iov,
			.desc = from->desc,
			.iov_count = from->iov_count,
			.rma_iov = &to,
			.rma_iov_count = 1,
			.context = from->context,
		};

		accepted(from->kind == PMEMRDMA_READ ? fi_readmsg(fid, &msg, from->flags)
						     : fi_writemsg(fid, &msg, from->flags));
	}
	return n ? (ssize_t) n : -FI_EAGAIN;
}

static const struct pmemrdma_post_ops lists = {.size = sizeof(lists), .post = post};

/* opened -- an endpoint of a core with lists, which knows the key, and that it may forget writes */
static struct rig *opened(void)
{
	struct rig *rig = rig_open(&(struct rig_options){.selective = true});

	for (int i = 0; i < 2; i++) {
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(9), FI_COMPLETION));
		cr_assert_eq(fake_complete(&rig->fake, 2), 2U);
		rig_expect(rig, CONTEXT(9), RIG_WRITTEN);
		expect_posted(rig, "W R");
	}
	pmv_to_ep(rig->ep)->engine.lists = &lists;
	accepts = 2;
	doorbells = 0;
	return rig;
}

static int ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void) fid;
	(void) flags;
	(void) context;
	if (strcmp(name, PMEMRDMA_POST_OPS_V3) != 0)
		return -FI_ENOSYS;
	*ops = (void *) &lists;
	return 0;
}

/* joins -- is a list what an endpoint uses of a core that has them, or has not? */
static bool joins(bool has_lists)
{
	struct fi_ops fid_ops = {.size = sizeof(fid_ops), .ops_open = ops_open};
	struct fid_ep fid = {.fid = {.fclass = FI_CLASS_EP, .ops = &fid_ops}};
	const struct pmv_core core = {.posts_lists = has_lists};
	struct pmv_engine engine = {.core = &core};
	struct pmv_engine_ep ep = {.fid = &fid};

	pmv_engine_join(&ep, &engine);
	return ep.lists == &lists;
}

Test(post_list, is_used_where_the_core_has_it_and_nothing_is_in_front)
{
	cr_assert(joins(true));
	cr_assert_not(joins(false));
	unasked = -FI_EOPNOTSUPP;
	cr_assert_not(joins(true));
}

Test(post_list, has_one_doorbell_and_one_completion)
{
	struct rig *rig = opened();

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	cr_assert_eq(doorbells, 1);
	expect_posted(rig, "W R");
	rig_end_part(rig, 0);
	rig_expect_nothing(rig);
	rig_end_part(rig, 0);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* The error is the WRITE's own, and what is used again is not ended by what comes behind it. */
Test(post_list, a_write_that_fails_ends_with_its_own_error_behind_its_read)
{
	struct rig *rig = opened();

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	rig_end_part(rig, FI_EIO);
	rig_expect_nothing(rig);
	rig_end_part(rig, FI_ECANCELED);
	rig_expect_one_error(rig, FI_EIO);
	rig_close(rig);
}

Test(post_list, a_read_that_fails_is_an_error)
{
	struct rig *rig = opened();

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	rig_end_part(rig, 0);
	rig_end_part(rig, FI_EIO);
	rig_expect_one_error(rig, FI_EIO);
	rig_close(rig);
}

Test(post_list, without_room_is_refused_and_changes_nothing)
{
	struct rig *rig = opened();

	accepts = 0;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION), FI_EAGAIN);
	expect_posted(rig, "");
	accepts = 2;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	cr_assert_eq(fake_complete(&rig->fake, 2), 2U);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(post_list, whose_answer_makes_no_sense_is_refused)
{
	struct rig *rig = opened();

	answer = 22;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION), FI_EIO);
	expect_posted(rig, "");
	answer = 0;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	cr_assert_eq(fake_complete(&rig->fake, 2), 2U);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(post_list, of_which_the_write_alone_was_taken_gets_its_read_later)
{
	struct rig *rig = opened();

	accepts = 1;
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	expect_posted(rig, "W");
	rig->fake.room = -1;
	rig_end_part(rig, 0);
	rig_expect_nothing(rig);
	expect_posted(rig, "R");
	rig_end_part(rig, 0);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* without_read -- the WRITE of a commit alone was taken, and its READ is refused for good */
static struct rig *without_read(void)
{
	struct rig *rig = opened();

	accepts = 1;
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	rig->fake.room = -1;
	rig->fake.fail_in = 1;
	rig->fake.fail_err = FI_ENODEV;
	rig_expect_nothing(rig);
	cr_assert_eq(rig->fake.fail_in, 0);
	expect_posted(rig, "W");
	accepts = 2;
	return rig;
}

/* Until then the WRITE may fail, and no other operation may have what its error names. */
Test(post_list, whose_read_is_given_up_ends_with_its_writes_error)
{
	struct rig *rig = without_read();

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	rig_end_part(rig, FI_EIO);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_ENODEV);
	rig_expect_nothing(rig);
	cr_assert_eq(fake_complete(&rig->fake, 2), 2U);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(post_list, whose_read_is_given_up_ends_at_the_latest_with_its_endpoint)
{
	struct rig *rig = without_read();

	rig_end_part(rig, 0);
	rig_expect_nothing(rig);
	rig_close_ep(rig);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* The close cancels the WRITE, too: that is told once, and of no other operation. */
Test(post_list, that_waits_for_its_read_ends_once_when_the_endpoint_is_closed)
{
	struct rig *rig = opened();

	accepts = 1;
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	rig_close_ep(rig);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* A run that was posted so is used again for another plan, of which each part counts. */
Test(post_list, leaves_nothing_behind_in_what_is_used_again)
{
	struct rig *rig = opened();

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(8), FI_COMPLETION));
	cr_assert_eq(fake_complete(&rig->fake, 2), 2U);
	rig_expect(rig, CONTEXT(8), RIG_WRITTEN);
	pmv_to_ep(rig->ep)->engine.lists = NULL;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	rig_end_part(rig, FI_EIO);
	rig_end_part(rig, FI_ECANCELED);
	rig_expect_one_error(rig, FI_EIO);
	rig_close(rig);
}
