/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ordering_core.c -- fences over cores whose requests have none */
#include <stdatomic.h>
#include <unistd.h>

#include "test/support/rig.h"

/* Cores whose requests have no fence */

static const struct rig_options no_fence = {.no_fence = true, .local = true};

Test(no_fence, waits_until_the_reads_have_completed)
{
	struct rig *rig = rig_open(&no_fence);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(1)));
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	refused(rig_sendmsg(rig, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	refused(rig_readmsg(rig, KEY_MHP, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	refused(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	fake_complete(&rig->fake, 1);
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(2), FI_FENCE), FI_EAGAIN);
	expect_posted(rig, "R R");
	/* What is not fenced may pass. */
	accepted(rig_write(rig, KEY_MHP, CONTEXT(2)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), 0));
	expect_posted(rig, "W W R");
	fake_complete(&rig->fake, 1);
	/* The call itself finds out, without a read of the CQ. */
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(4), FI_FENCE));
	expect_posted(rig, "W R");
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect(rig, CONTEXT(0), FI_RMA | FI_READ);
	rig_expect(rig, CONTEXT(1), FI_RMA | FI_READ);
	rig_expect_each(rig, 2, 4, RIG_WRITTEN);
	rig_close(rig);
}

/* What was taken from the core while waiting is still there, in order, once. */
/* Or a stream of them, by another thread, would keep it waiting for ever. */
Test(no_fence, that_waits_for_reads_lets_no_more_of_them_pass)
{
	struct rig *rig = rig_open(&no_fence);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE), FI_EAGAIN);
	refused(rig_read(rig, KEY_MHP, CONTEXT(2)), FI_EAGAIN);
	fake_complete(&rig->fake, 1);
	/* Also if the fenced operation was given up. */
	accepted(rig_read(rig, KEY_MHP, CONTEXT(2)));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(3)));
	expect_posted(rig, "R R R");
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect(rig, CONTEXT(0), FI_RMA | FI_READ);
	rig_expect(rig, CONTEXT(2), FI_RMA | FI_READ);
	rig_expect(rig, CONTEXT(3), FI_RMA | FI_READ);
	rig_close(rig);
}

Test(no_fence, keeps_what_it_finds_while_waiting)
{
	struct rig *rig = rig_open(&no_fence);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(2)));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(3)));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(4)));
	fake_complete(&rig->fake, 4);
	fake_fail(&rig->fake, FI_EIO, 5);
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(5), FI_FENCE), FI_EAGAIN);
	fake_complete(&rig->fake, 1);
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(5), FI_FENCE));
	fake_complete(&rig->fake, 1);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_expect(rig, CONTEXT(2), FI_RMA | FI_READ);
	rig_expect_error(rig, CONTEXT(3), RIG_WRITTEN, FI_EIO);
	rig_expect(rig, CONTEXT(4), FI_RMA | FI_READ);
	rig_expect(rig, CONTEXT(5), RIG_WRITTEN);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(no_fence, reads_complete_with_the_cores_entries)
{
	static const enum fi_cq_format all[] = {FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG,
						FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED};

	for (size_t i = 0; i < 4; i++) {
		struct rig_options options = no_fence;
		struct fi_cq_tagged_entry entries[3];
		struct fi_cq_tagged_entry expected = {
			.op_context = CONTEXT(1),
			.flags = FI_RMA | FI_READ,
			.len = FAKE_LEN(LEN),
			.buf = FAKE_BUF,
			.data = FAKE_DATA,
			.tag = FAKE_TAG,
		};
		static const size_t sizes[] = {
			sizeof(struct fi_cq_entry), sizeof(struct fi_cq_msg_entry),
			sizeof(struct fi_cq_data_entry), sizeof(struct fi_cq_tagged_entry)};
		struct rig *rig;

		options.format = all[i];
		rig = rig_open(&options);
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
		accepted(rig_read(rig, KEY_MHP, CONTEXT(1)));
		fake_complete(&rig->fake, 3);
		cr_assert_eq(fi_cq_read(rig->cq, entries, 3), 2);
		cr_expect_arr_eq((char *) entries + sizes[i], &expected, sizes[i]);
		rig_close(rig);
	}
}

Test(no_fence, reads_on_a_selective_cq_complete_as_they_were_asked_to)
{
	struct rig_options options = no_fence;
	struct rig *rig;

	options.selective = true;
	rig = rig_open(&options);
	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(1), FI_COMPLETION));
	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(2), 0));
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(3), FI_FENCE), FI_EAGAIN);
	fake_complete(&rig->fake, 2);
	fake_fail(&rig->fake, FI_EIO, 5);
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(3), FI_FENCE));
	rig_expect(rig, CONTEXT(1), FI_RMA | FI_READ);
	rig_expect_error(rig, CONTEXT(2), FI_RMA | FI_READ, FI_EIO);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(no_fence, read_that_could_not_be_posted_is_not_waited_for)
{
	struct rig *rig = rig_open(&no_fence);

	rig->fake.room = 0;
	refused(rig_read(rig, KEY_MHP, CONTEXT(0)), FI_EAGAIN);
	rig->fake.room = -1;
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	expect_posted(rig, "W");
	rig_close(rig);
}

Test(no_fence, commits_are_ordered_by_the_core)
{
	struct rig *rig = rig_open(&no_fence);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE));
	expect_posted(rig, "W R W R");
	accepted(rig_commit(rig, KEY_DMP, CONTEXT(2), FI_FENCE));
	expect_posted(rig, "W R");
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect_each(rig, 0, 2, RIG_WRITTEN);
	rig_close(rig);
}

Test(no_fence, waits_for_fetching_atomics_that_were_committed)
{
	struct rig *rig = rig_open(&no_fence);

	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(0), FI_COMMIT));
	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE), FI_EAGAIN);
	fake_complete(&rig->fake, 2);
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	rig_close(rig);
}

/*
 * Two threads on one endpoint, at the worst moment: the second posts while the
 * core looks at an operation of the first, before it takes it.  Whether the
 * second gets through or has to wait for the first, the order must be right.
 */
#define INTRUDER_TRIES_MS 100

struct intruder {
	struct rig *rig;
	uint64_t what; /* it posts in front of such an operation */
	ssize_t (*act)(struct rig *rig);
	pthread_t thread;
	bool started;
	atomic_bool through;
	ssize_t ret;
};

static void *run_intruder(void *arg)
{
	struct intruder *intruder = arg;

	intruder->ret = intruder->act(intruder->rig);
	atomic_store(&intruder->through, true);
	return NULL;
}

static void intrude(struct fake *fake, const struct fake_post *post, void *arg)
{
	struct intruder *intruder = arg;

	(void) fake;
	if (intruder->started || post->op.what != intruder->what)
		return;
	intruder->started = true;
	cr_assert_eq(pthread_create(&intruder->thread, NULL, run_intruder, intruder), 0);
	for (int ms = 0; ms < INTRUDER_TRIES_MS && !atomic_load(&intruder->through); ms++)
		usleep(1000);
}

static void let_in(struct rig *rig, struct intruder *intruder)
{
	rig->fake.on_post_arg = intruder;
	rig->fake.on_post = intrude;
}

/* leave -- true: the second thread's operation was posted */
static bool leave(struct intruder *intruder)
{
	cr_assert(intruder->started);
	pthread_join(intruder->thread, NULL);
	cr_assert(!intruder->ret || intruder->ret == -FI_EAGAIN);
	return !intruder->ret;
}

static ssize_t fenced_commit(struct rig *rig)
{
	return rig_commit(rig, KEY_NONE, CONTEXT(7), FI_FENCE);
}

static ssize_t fenced_write(struct rig *rig)
{
	return rig_writemsg(rig, KEY_NONE, CONTEXT(7), FI_FENCE);
}

/*
 * expect_behind_read -- the write with that key (or, with 0, the send) waits
 * for a READ: there is one before it, and then a fence, its own or that of a
 * request before it
 */
static void expect_behind_read(struct rig *rig, uint64_t key)
{
	bool read = false, fenced = false;

	for (size_t i = 0; i < rig->fake.num_posts; i++) {
		const struct fake_post *post = rig_post(rig, i);

		fenced = fenced || (read && (post->op.flags & FI_FENCE));
		if (key ? post->op.what == RIG_WRITTEN && post->op.key == key
			: post->op.what & FI_SEND) {
			cr_expect(read, "no READ in front of a fenced write");
			cr_expect(fenced, "a fenced write does not wait for the READ");
			return;
		}
		read = read || post->op.what == (FI_RMA | FI_READ);
	}
	cr_assert_fail("nothing was written with key %#llx", (unsigned long long) key);
}

Test(shared_endpoint, fenced_commit_beside_another_one_is_ordered_too)
{
	struct rig *rig = rig_open(NULL);
	struct intruder other = {.rig = rig, .what = FI_RMA | FI_READ, .act = fenced_commit};

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	let_in(rig, &other);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	if (leave(&other))
		expect_behind_read(rig, CORE_KEY_NONE);
	expect_behind_read(rig, CORE_KEY_MHP);
	rig_close(rig);
}

Test(shared_endpoint, fenced_commit_beside_the_flush_of_another_is_ordered_too)
{
	struct rig *rig = rig_open(NULL);
	struct intruder other = {.rig = rig, .what = FI_RMA | FI_READ, .act = fenced_commit};

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	let_in(rig, &other);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	if (leave(&other))
		expect_behind_read(rig, CORE_KEY_NONE);
	rig_close(rig);
}

Test(shared_endpoint, fenced_write_beside_another_one_waits_for_the_read_too)
{
	struct rig *rig = rig_open(NULL);
	struct intruder other = {.rig = rig, .what = RIG_SENT, .act = fenced_write};

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	let_in(rig, &other);
	accepted(rig_sendmsg(rig, CONTEXT(1), FI_FENCE));
	if (leave(&other))
		expect_behind_read(rig, CORE_KEY_NONE);
	expect_behind_read(rig, 0);
	rig_close(rig);
}

/* The write of the first thread fails to be posted: who was let through relied on it. */
Test(shared_endpoint, fenced_write_beside_one_without_room_waits_for_the_read_too)
{
	struct rig *rig = rig_open(NULL);
	struct intruder other = {.rig = rig, .what = RIG_SENT, .act = fenced_write};

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	let_in(rig, &other);
	rig->fake.room = 1;
	(void) rig_sendmsg(rig, CONTEXT(1), FI_FENCE);
	if (leave(&other))
		expect_behind_read(rig, CORE_KEY_NONE);
	rig_close(rig);
}
