/* SPDX-License-Identifier: BSD-2-Clause */
/* test_prepare.c -- ordinary commits, whose plan is known, do what others do; so do quiet writes */
#include <string.h>

#include "commit/prepare.h"
#include "objects/ep.h"
#include "test/support/rig.h"

static struct pmv_initiator *initiator(struct rig *rig)
{
	return &pmv_to_ep(rig->ep)->initiator;
}

static void commit(struct rig *rig, uint64_t key)
{
	accepted(rig_commit(rig, key, CONTEXT(1), FI_COMPLETION));
	cr_assert_eq(fake_complete(&rig->fake, 2), 2);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_posted(rig);
}

static enum pmv_method ordinary(struct rig *rig, uint64_t key, uint64_t flags)
{
	const struct fi_rma_iov to = {.len = 8, .key = key};
	const struct pmv_submission submission = {
		.what = FI_RMA | FI_WRITE, .to = &to, .num_to = 1, .flags = flags};
	unsigned known;

	return pmv_prepare_is_ordinary(initiator(rig), &submission, &known)
		       ? (enum pmv_method)(known / PMV_NOTE_METHOD)
		       : PMV_METHOD_REFUSED;
}

/* warm_up -- from here on nothing has to be remembered of what is written there */
static struct rig *warm_up(const struct rig_options *options, uint64_t key)
{
	struct rig *rig = rig_open(options);

	commit(rig, key);
	commit(rig, key);
	cr_assert_eq(ordinary(rig, key, FI_COMMIT), PMV_METHOD_READ);
	return rig;
}

/* expect_alike -- two requests are the same, but for whom they complete to */
static void expect_alike(struct rig *rig, size_t one, size_t other)
{
	struct testcore_request a = rig_post(rig, one)->op, b = rig_post(rig, other)->op;

	a.context = b.context = NULL;
	cr_expect_eq(a.what, b.what);
	cr_expect_eq(a.flags, b.flags);
	cr_expect_eq(a.buf, b.buf);
	cr_expect_eq(a.len, b.len);
	cr_expect_eq(a.addr, b.addr);
	cr_expect_eq(a.rma_len, b.rma_len);
	cr_expect_eq(a.key, b.key);
}

/* The same by the general way, on which everything is looked at. */
Test(prepare, commit_posts_what_any_other_posts)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);

	atomic_fetch_or(&initiator(rig)->slow, PMV_SLOW_HOOKS);
	commit(rig, KEY_MHP);
	expect_alike(rig, 2, 4);
	expect_alike(rig, 3, 5);
	rig_close(rig);
}

/* The same if its write has to be remembered. */
Test(prepare, commit_posts_what_one_posts_that_is_not_bare)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);

	atomic_store(&initiator(rig)->ordering.quiet_key, 0);
	commit(rig, KEY_MHP);
	expect_alike(rig, 2, 4);
	expect_alike(rig, 3, 5);
	cr_expect(pmv_ordering_is_quiet(initiator(rig), KEY_MHP));
	rig_close(rig);
}

/* A READ keeps no fenced operation waiting. */
Test(prepare, commit_by_a_read_prolongs_no_wait_for_the_agent)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);

	atomic_store(&initiator(rig)->fence_awaits_agent, true);
	cr_expect_eq(ordinary(rig, KEY_MHP, FI_COMMIT), PMV_METHOD_READ);
	rig_close(rig);
}

Test(prepare, commit_completes_once_with_its_last_part)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	rig_expect_parts(rig, 2, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(prepare, commit_without_completion_is_not_reported)
{
	struct rig *rig = warm_up(&(struct rig_options){.selective = true}, KEY_MHP);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W R");
	cr_assert_eq(fake_complete(&rig->fake, 2), 2);
	rig_expect_nothing(rig);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), 0));
	cr_assert(fake_fail(&rig->fake, FI_EIO, 0));
	cr_assert_eq(fake_complete(&rig->fake, 1), 1);
	rig_expect_error(rig, CONTEXT(3), RIG_WRITTEN, FI_EIO);
	rig_close(rig);
}

Test(prepare, commit_fails_if_either_part_does)
{
	for (int part = 0; part < 2; part++) {
		struct rig *rig = warm_up(NULL, KEY_MHP);

		accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
		if (part)
			cr_assert_eq(fake_complete(&rig->fake, 1), 1);
		cr_assert(fake_fail(&rig->fake, FI_EIO, 0));
		fake_complete(&rig->fake, SIZE_MAX);
		rig_expect_error(rig, CONTEXT(2), RIG_WRITTEN, FI_EIO);
		rig_expect_nothing(rig);
		rig_close(rig);
	}
}

Test(prepare, commit_without_room_is_refused_or_posted_later)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);

	rig->fake.room = 0;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(2), 0), FI_EAGAIN);
	expect_posted(rig, "");
	rig_expect_nothing(rig);
	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), 0));
	expect_posted(rig, "W");
	refused(rig_commit(rig, KEY_MHP, CONTEXT(4), 0), FI_EAGAIN);
	cr_assert_eq(fake_complete(&rig->fake, 1), 1);
	rig_expect_nothing(rig);
	rig->fake.room = -1;
	rig_expect_nothing(rig);
	expect_posted(rig, "R");
	cr_assert_eq(fake_complete(&rig->fake, 1), 1);
	rig_expect(rig, CONTEXT(3), RIG_WRITTEN);
	rig_close(rig);
}

/* As above, but the core fails instead of having no room. */
Test(prepare, commit_that_can_not_be_posted_fails)
{
	for (int part = 1; part <= 2; part++) {
		struct rig *rig = warm_up(NULL, KEY_MHP);

		rig->fake.fail_in = part;
		rig->fake.fail_err = FI_EINVAL;
		if (part == 1) {
			refused(rig_commit(rig, KEY_MHP, CONTEXT(2), 0), FI_EINVAL);
			fake_complete(&rig->fake, SIZE_MAX);
			rig_expect_nothing(rig);
		} else {
			accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
			fake_complete(&rig->fake, SIZE_MAX);
			rig_expect_error(rig, CONTEXT(2), RIG_WRITTEN, FI_EINVAL);
		}
		rig_close(rig);
	}
}

Test(prepare, commit_is_counted)
{
	struct rig *rig = rig_open(&(struct rig_options){.not_enabled = true});
	struct fid_cntr *cntr = rig_count(rig, FI_WRITE);

	for (int i = 1; i < 5; i++) {
		commit(rig, KEY_MHP);
		cr_expect_eq(fi_cntr_read(cntr), i);
	}
	rig_close_ep(rig);
	accepted(fi_close(&cntr->fid));
	rig_close(rig);
}

Test(prepare, commit_with_other_flags_is_not_ordinary)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);
	static const uint64_t flags[] = {FI_FENCE, FI_IMMED, FI_REMOTE_CQ_DATA, FI_INJECT};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		cr_expect_not(ordinary(rig, KEY_MHP, FI_COMMIT | flags[i]));
	cr_expect_not(ordinary(rig, KEY_MHP, FI_COMPLETION));
	rig_close(rig);
}

/* A read is under way, and another one waits for it: the latter's fence is passed on. */
Test(prepare, ordinary_commit_carries_a_fence_that_was_passed_on)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(2)));
	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(2), FI_FENCE));
	rig_posted(rig);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), 0));
	expect_posted(rig, "fW R");
	fake_complete(&rig->fake, SIZE_MAX);
	rig_close(rig);
}

Test(prepare, ordinary_commit_has_the_method_of_its_key)
{
	struct rig *rig = rig_open(NULL);

	cr_expect_eq(ordinary(rig, KEY_MHP, FI_COMMIT), PMV_METHOD_READ);
	cr_expect_eq(ordinary(rig, KEY_DMP, FI_COMMIT), PMV_METHOD_READ);
	cr_expect_eq(ordinary(rig, KEY_WSP, FI_COMMIT), PMV_METHOD_WRITE);
	cr_expect_eq(ordinary(rig, KEY_NONE, FI_COMMIT), PMV_METHOD_READ);
	/* There is no agent. */
	cr_expect_eq(ordinary(rig, KEY_DMP_DDIO, FI_COMMIT), PMV_METHOD_REFUSED);
	cr_expect_eq(ordinary(rig, KEY_PAGE, FI_COMMIT), PMV_METHOD_REFUSED);
	cr_expect_eq(ordinary(rig, KEY_PLAIN, FI_COMMIT), PMV_METHOD_REFUSED);
	cr_expect_eq(ordinary(rig, 0, FI_COMMIT), PMV_METHOD_REFUSED);
	pmv_setting.relaxed = true;
	atomic_store(&initiator(rig)->ordering.known, 0);
	cr_expect_eq(ordinary(rig, KEY_MHP, FI_COMMIT), PMV_METHOD_REFUSED);
	pmv_setting.relaxed = false;
	rig_close(rig);
}

/* A write to a region that only a flush orders has to be flushed by the next READ. */
Test(prepare, ordinary_commit_flushes_earlier_writes_that_wait_for_it)
{
	struct rig *rig = warm_up(NULL, KEY_MHP);
	struct pmv_ordering *ordering = &initiator(rig)->ordering;

	atomic_store(&ordering->wrote_ordered, true);
	atomic_store(&ordering->fence_due, false);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W R");
	cr_expect_not(atomic_load(&ordering->wrote_ordered));
	cr_expect(atomic_load(&ordering->fence_due), "a fence waits for that READ");
	fake_complete(&rig->fake, SIZE_MAX);
	rig_close(rig);
}

/* It is still there, as it belongs to a layer above, and cancels all that is posted. */
Test(prepare, closed_endpoint_posts_nothing)
{
	static const struct pmv_hooks hooks;
	struct rig *rig = warm_up(NULL, KEY_MHP);
	size_t posts = rig->fake.num_posts;
	struct fid_ep *ep = rig->ep;

	pmv_to_domain(rig->domain)->hooks = &hooks;
	rig_close_ep(rig);
	rig->ep = ep;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	rig_expect_error(rig, CONTEXT(2), RIG_WRITTEN, FI_ECANCELED);
	accepted(rig_write(rig, KEY_MHP, CONTEXT(3)));
	rig_expect_error(rig, CONTEXT(3), RIG_WRITTEN, FI_ECANCELED);
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(4), 0));
	rig_expect_error(rig, CONTEXT(4), RIG_WRITTEN, FI_ECANCELED);
	cr_expect_eq(rig->fake.num_posts, posts);
	rig->ep = NULL;
	rig_close(rig);
}

Test(prepare, quiet_write_posts_what_any_other_posts)
{
	uint64_t key = KEY_MHP;
	struct rig *rig = rig_open(NULL);
	size_t first;

	accepted(rig_writemsg(rig, key, CONTEXT(1), FI_COMPLETION));
	accepted(rig_write(rig, key, CONTEXT(1)));
	/* Nothing of it has to be remembered any more. */
	commit(rig, key);
	commit(rig, key);
	cr_assert(pmv_ordering_is_quiet(initiator(rig), key));
	fake_complete(&rig->fake, SIZE_MAX);
	first = rig->fake.num_posts;
	accepted(rig_writemsg(rig, key, CONTEXT(1), FI_COMPLETION));
	accepted(rig_write(rig, key, CONTEXT(1)));
	expect_alike(rig, 0, first);
	expect_alike(rig, 1, first + 1);
	cr_expect_eq(rig_post(rig, first)->op.context, CONTEXT(1));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_close(rig);
}

/* What only the agent makes durable is remembered, so such a write is never a quiet one. */
Test(prepare, write_that_needs_the_agent_is_not_quiet)
{
	struct rig *rig = rig_open(NULL);

	for (int i = 0; i < 3; i++) {
		accepted(rig_write(rig, KEY_DMP_DDIO, CONTEXT(1)));
		cr_expect_not(pmv_ordering_is_quiet(initiator(rig), KEY_DMP_DDIO));
	}
	cr_expect(atomic_load(&initiator(rig)->ordering.wrote_agent));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_close(rig);
}

static unsigned fresh_notes(struct pmv_initiator *ini, uint64_t key)
{
	struct pmv_attr attr;

	return pmv_ordering_attr(ini, key, &attr) ? pmv_ordering_note(ini, &attr) : 0;
}

/* What was found out of the last key is another one's only if they are of the same kind. */
Test(prepare, what_is_known_of_a_key_is_not_taken_for_another)
{
	struct rig *rig = rig_open(NULL);
	struct pmv_initiator *ini = initiator(rig);
	const uint64_t keys[] = {KEY_MHP,  KEY_DMP,   KEY_DMP_DDIO, KEY_WSP, KEY_PAGE,
				 KEY_NONE, KEY_PLAIN, KEY_MHP + 1,  0};
	size_t count = sizeof(keys) / sizeof(keys[0]);

	for (int flushed = 0; flushed < 2; flushed++) {
		for (size_t i = 0; i < count * count; i++) {
			uint64_t one = keys[i / count], other = keys[i % count];

			cr_expect_eq(pmv_ordering_note_key(ini, one), fresh_notes(ini, one));
			cr_expect_eq(pmv_ordering_note_key(ini, other), fresh_notes(ini, other));
		}
		atomic_store(&ini->ordering.wrote_flush, true);
	}
	rig_close(rig);
}
