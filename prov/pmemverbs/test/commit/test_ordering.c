/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ordering.c -- fences: of commits after other writes, and alone */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "test/support/rig.h"

static char data[8];

/* Fenced commits */

Test(fenced_commit, waits_only_for_what_a_flush_has_to_order)
{
	const struct {
		const char *what;
		uint64_t before;
		uint64_t before_flags; /* of the write to it */
		uint64_t key;
		const char *posted;
	} cases[] = {
		{"DMP written, DMP", KEY_DMP, 0, KEY_DMP, "R fW R"},
		{"DMP written, MHP", KEY_DMP, 0, KEY_MHP, "R fW R"},
		{"DMP written, WSP", KEY_DMP, 0, KEY_WSP, "R fW R"},
		{"DMP written, volatile", KEY_DMP, 0, KEY_NONE, "R fW R"},
		{"DMP committed, DMP", KEY_DMP, FI_COMMIT, KEY_DMP, "fW R"},
		{"DMP committed, MHP", KEY_DMP, FI_COMMIT, KEY_MHP, "fW R"},
		{"MHP written, MHP", KEY_MHP, 0, KEY_MHP, "W R"},
		{"MHP written, DMP", KEY_MHP, 0, KEY_DMP, "W R"},
		{"MHP written, WSP", KEY_MHP, 0, KEY_WSP, "W R"},
		{"MHP committed, MHP", KEY_MHP, FI_COMMIT, KEY_MHP, "W R"},
		{"WSP written, WSP", KEY_WSP, 0, KEY_WSP, "W"},
		{"WSP written, MHP", KEY_WSP, 0, KEY_MHP, "W R"},
		{"WSP committed, WSP", KEY_WSP, FI_COMMIT, KEY_WSP, "W"},
		{"volatile written, WSP", KEY_NONE, 0, KEY_WSP, "W R"},
		{"plain key written, WSP", KEY_PLAIN, 0, KEY_WSP, "W"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig *rig = rig_open(NULL);

		accepted(rig_writemsg(rig, cases[i].before, CONTEXT(0), cases[i].before_flags));
		rig_posted(rig);
		accepted(rig_commit(rig, cases[i].key, CONTEXT(1), FI_FENCE));
		cr_expect_str_eq(rig_posted(rig), cases[i].posted, "%s: %s", cases[i].what,
				 rig->posted);
		fake_complete(&rig->fake, SIZE_MAX);
		rig_expect_each(rig, 0, 1, RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(fenced_commit, on_a_fresh_endpoint_waits_for_nothing)
{
	const uint64_t keys[] = {KEY_DMP, KEY_MHP, KEY_NONE};

	for (size_t i = 0; i < 3; i++) {
		struct rig *rig = rig_open(NULL);

		accepted(rig_commit(rig, keys[i], CONTEXT(1), FI_FENCE));
		expect_posted(rig, "W R");
		rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(fenced_commit, after_writes_of_every_kind_flushes_first)
{
	static const struct {
		enum testcore_call call;
		uint64_t flags; /* of the completion */
	} writes[] = {
		{TESTCORE_WRITE, RIG_WRITTEN},
		{TESTCORE_WRITEV, RIG_WRITTEN},
		{TESTCORE_WRITEDATA, RIG_WRITTEN},
		{TESTCORE_INJECT_WRITE, 0},
		{TESTCORE_INJECT_WRITEDATA, 0},
		{TESTCORE_WRITEMSG, RIG_WRITTEN},
		{TESTCORE_ATOMICMSG, FI_ATOMIC | FI_WRITE},
		{TESTCORE_FETCH_ATOMICMSG, FI_ATOMIC | FI_READ},
	};

	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		struct rig *rig = rig_open(NULL);
		enum testcore_call call = writes[i].call;

		cr_assert_eq(rig_call(rig, call, data, KEY_DMP, CONTEXT(0)), 0, "call %d", call);
		rig_posted(rig);
		accepted(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE));
		cr_expect_str_eq(rig_posted(rig), "R fW R", "call %d: %s", call, rig->posted);
		/* Once: what comes next has only its own READ to wait for. */
		accepted(rig_commit(rig, KEY_DMP, CONTEXT(2), FI_FENCE));
		cr_expect_str_eq(rig_posted(rig), "fW R", "call %d: %s", call, rig->posted);
		fake_complete(&rig->fake, SIZE_MAX);
		if (writes[i].flags)
			rig_expect(rig, CONTEXT(0), writes[i].flags);
		rig_expect_each(rig, 1, 2, RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(fenced_commit, reads_for_the_flush_in_front_what_it_will_write)
{
	struct rig *rig = rig_open(NULL);
	const struct fake_post *flush;

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	expect_posted(rig, "W R fW R");
	flush = rig_post(rig, 1);
	cr_expect_eq(flush->op.len, 1);
	cr_expect_eq(flush->op.key, CORE_KEY_MHP);
	cr_expect(flush->op.addr >= ADDR && flush->op.addr < ADDR + LEN);
	cr_expect(flush->op.flags & FI_COMPLETION);
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect_each(rig, 0, 1, RIG_WRITTEN);
	rig_close(rig);
}

Test(fenced_commit, completes_nothing_with_the_flush_in_front)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE));
	fake_complete(&rig->fake, 1);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect_parts(rig, 3, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(fenced_commit, after_writes_that_need_an_agent_is_refused)
{
	const uint64_t keys[] = {KEY_PAGE, KEY_DMP_DDIO};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = rig_open(NULL);

		accepted(rig_write(rig, keys[i], CONTEXT(0)));
		refused(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_FENCE), FI_EOPNOTSUPP);
		refused(rig_commit(rig, KEY_WSP, CONTEXT(1), FI_FENCE), FI_EOPNOTSUPP);
		expect_posted(rig, "W");
		/* Without the fence it is about its own region only. */
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
		/* Nothing has made those writes durable since. */
		refused(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_FENCE), FI_EOPNOTSUPP);
		fake_complete(&rig->fake, SIZE_MAX);
		rig_expect_each(rig, 0, 1, RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(fenced_commit, is_not_troubled_by_writes_that_failed_to_be_posted)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 0;
	refused(rig_write(rig, KEY_PAGE, CONTEXT(0)), FI_EAGAIN);
	refused(rig_write(rig, KEY_DMP, CONTEXT(0)), FI_EAGAIN);
	refused(rig_writemsg(rig, KEY_PAGE, CONTEXT(0), 0), FI_EAGAIN);
	refused(rig_fetch(rig, KEY_DMP, CONTEXT(0), 0), FI_EAGAIN);
	refused(rig_commit(rig, KEY_DMP, CONTEXT(0), 0), FI_EAGAIN);
	rig->fake.room = -1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	expect_posted(rig, "W R");
	rig_close(rig);
}

Test(fenced_commit, of_volatile_and_wsp_regions_in_one_operation_flushes)
{
	struct iovec iov = {data, 8};
	struct fi_rma_iov rma_iov[] = {{ADDR, 4, KEY_WSP}, {ADDR, 4, KEY_DMP}};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = rma_iov,
		.rma_iov_count = 2,
		.context = CONTEXT(1),
	};
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	accepted(fi_writemsg(rig->ep, &msg, FI_COMMIT | FI_FENCE));
	expect_posted(rig, "W R fW R");
	rig_close(rig);
}

/* What may fail on the way */

Test(fenced_commit, without_room_for_the_flush_in_front_is_not_accepted)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	rig->fake.room = 0;
	refused(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE), FI_EAGAIN);
	rig->fake.room = -1;
	accepted(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE));
	expect_posted(rig, "W R fW R");
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect_each(rig, 0, 1, RIG_WRITTEN);
	rig_close(rig);
}

/* The flush in front is there by then: the write has to wait for it, not for another. */
Test(fenced_commit, without_room_for_its_write_is_fenced_when_tried_again)
{
	static const int errors[] = {FI_EAGAIN, FI_EOPBADSTATE};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = rig_open(NULL);

		accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
		rig->fake.fail_in = 2;
		rig->fake.fail_err = errors[i];
		refused(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE), errors[i]);
		expect_posted(rig, "W R");
		fake_complete(&rig->fake, SIZE_MAX);
		rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
		rig_expect_nothing(rig);
		accepted(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE));
		expect_posted(rig, "fW R");
		rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(fenced_commit, is_refused_if_the_flush_in_front_can_not_be_posted)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	rig->fake.fail_in = 1;
	rig->fake.fail_err = FI_EOPBADSTATE;
	refused(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE), FI_EOPBADSTATE);
	expect_posted(rig, "W");
	accepted(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE));
	expect_posted(rig, "R fW R");
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect_each(rig, 0, 1, RIG_WRITTEN);
	rig_close(rig);
}

static struct rig *fail_the_flush_in_front(void)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_DMP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_DMP, CONTEXT(1), FI_FENCE));
	fake_complete(&rig->fake, 1);
	fake_fail_all(&rig->fake, FI_EACCES, 5);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	return rig;
}

Test(fenced_commit, fails_once_with_the_flush_in_front)
{
	struct rig *rig = fail_the_flush_in_front();
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};

	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_eq(error.op_context, CONTEXT(1));
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* What went wrong is in the first entry; those behind it only say that it has. */
Test(fenced_commit, fails_with_the_error_of_the_flush_in_front)
{
	struct rig *rig = fail_the_flush_in_front();

	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EACCES);
	rig_close(rig);
}

/* FI_FENCE without a commit */

Test(fence, alone_is_taken_to_the_core_only_after_reads_and_atomics)
{
	static const struct {
		enum testcore_call before;
		const char *posted;
	} cases[] = {
		{TESTCORE_WRITE, "W W"},      {TESTCORE_SEND, "W W"},
		{TESTCORE_READ, "fW W"},      {TESTCORE_FETCH_ATOMICMSG, "fW W"},
		{TESTCORE_ATOMICMSG, "fW W"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig *rig = rig_open(NULL);

		cr_assert_eq(rig_call(rig, cases[i].before, data, KEY_MHP, CONTEXT(0)), 0,
			     "case %zu", i);
		rig_posted(rig);
		accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
		accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(2), FI_FENCE));
		cr_expect_str_eq(rig_posted(rig), cases[i].posted, "case %zu: %s", i, rig->posted);
		rig_close(rig);
	}
}

Test(fence, alone_on_a_fresh_endpoint_is_nothing_to_the_core)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(2), FI_FENCE));
	expect_posted(rig, "W W");
	rig_close(rig);
}

Test(fence, of_every_kind_of_operation_is_taken_to_the_core)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_sendmsg(rig, CONTEXT(1), FI_FENCE));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(2)));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(3), FI_FENCE));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(4)));
	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(5), FI_FENCE));
	expect_posted(rig, "R fS R fW R fA");
	/* They stay the application's own. */
	for (size_t i = 0; i < 6; i++)
		cr_expect_eq(rig_post(rig, i)->op.context, CONTEXT(i));
	rig_close(rig);
}

Test(fence, after_plain_reads_holds_for_commits_too)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_FENCE));
	accepted(rig_commit(rig, KEY_WSP, CONTEXT(3), FI_FENCE));
	expect_posted(rig, "R W R fW R W R");
	rig_close(rig);
}

/* A commit of an atomic returns something; what is fenced behind it has to wait. */
Test(fence, waits_for_atomics_that_were_committed)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(0), FI_COMMIT));
	accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	expect_posted(rig, "A R fW");
	rig_close(rig);
}

Test(fence, that_could_not_be_posted_is_still_due)
{
	static const uint64_t flags[] = {FI_FENCE, FI_FENCE | FI_COMMIT};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = rig_open(NULL);

		accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
		rig->fake.room = 0;
		refused(rig_writemsg(rig, KEY_MHP, CONTEXT(1), flags[i]), FI_EAGAIN);
		rig->fake.room = -1;
		accepted(rig_writemsg(rig, KEY_MHP, CONTEXT(1), flags[i]));
		cr_expect_eq(rig_post(rig, 1)->op.flags & FI_FENCE, FI_FENCE);
		rig_close(rig);
	}
}

static struct rig *open_with_a_fenced_read(void)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	accepted(rig_read(rig, KEY_MHP, CONTEXT(2)));
	rig_posted(rig);
	return rig;
}

/* Once is enough. */
static void expect_passed_on(struct rig *rig, bool quiet)
{
	uint64_t what = rig_post(rig, 3)->op.what;

	accepted(rig_send(rig, CONTEXT(4)));
	expect_posted(rig, "S");
	fake_complete(&rig->fake, SIZE_MAX);
	for (int i = 0; i < 3; i++)
		rig_expect(rig, CONTEXT(i), FI_RMA | FI_READ);
	if (!quiet)
		rig_expect(rig, CONTEXT(3), what);
	rig_expect(rig, CONTEXT(4), RIG_SENT);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* The core executes reads in order but does not fence them: the next request stands in. */
Test(fence, of_a_read_passes_to_the_next_request)
{
	static const struct {
		const char *what;
		enum testcore_call call;
		const char *posted;
	} next[] = {
		{"write", TESTCORE_WRITE, "fW"},
		{"writev", TESTCORE_WRITEV, "fW"},
		{"writedata", TESTCORE_WRITEDATA, "fWi"},
		{"inject_write", TESTCORE_INJECT_WRITE, "fW"},
		{"inject_writedata", TESTCORE_INJECT_WRITEDATA, "fWi"},
		{"writemsg", TESTCORE_WRITEMSG, "fW"},
		{"send", TESTCORE_SEND, "fS"},
		{"sendv", TESTCORE_SENDV, "fS"},
		{"senddata", TESTCORE_SENDDATA, "fSi"},
		{"inject", TESTCORE_INJECT, "fS"},
		{"injectdata", TESTCORE_INJECTDATA, "fSi"},
		{"sendmsg", TESTCORE_SENDMSG, "fS"},
	};

	for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		struct rig *rig = open_with_a_fenced_read();
		bool quiet = testcore_injects(next[i].call);
		const struct fake_post *post;

		/* It is not lost if there is no room. */
		rig->fake.room = 0;
		cr_assert_eq(rig_call(rig, next[i].call, data, KEY_MHP, CONTEXT(3)), -FI_EAGAIN,
			     "%s", next[i].what);
		rig->fake.room = -1;
		cr_assert_eq(rig_call(rig, next[i].call, data, KEY_MHP, CONTEXT(3)), 0, "%s",
			     next[i].what);
		cr_expect_str_eq(rig_posted(rig), next[i].posted, "%s: %s", next[i].what,
				 rig->posted);
		post = rig_post(rig, 3);
		cr_expect_eq(post->op.buf, data, "%s", next[i].what);
		cr_expect_eq(post->op.len, CALL_LEN, "%s", next[i].what);
		cr_expect_eq(!(post->op.flags & FI_INJECT), !quiet, "%s", next[i].what);
		if (post->op.flags & FI_REMOTE_CQ_DATA)
			cr_expect_eq(post->op.data, DATA, "%s", next[i].what);
		expect_passed_on(rig, quiet);
	}
}

Test(fence, of_a_read_passes_to_the_next_commit)
{
	const struct {
		uint64_t key;
		const char *posted;
	} next[] = {{KEY_MHP, "fW R"}, {KEY_WSP, "fW"}};

	for (size_t i = 0; i < 2; i++) {
		struct rig *rig = open_with_a_fenced_read();

		rig->fake.room = 0;
		refused(rig_commit(rig, next[i].key, CONTEXT(3), 0), FI_EAGAIN);
		rig->fake.room = -1;
		accepted(rig_commit(rig, next[i].key, CONTEXT(3), 0));
		cr_expect_str_eq(rig_posted(rig), next[i].posted, "case %zu: %s", i, rig->posted);
		expect_passed_on(rig, false);
	}
}

Test(fence, of_a_read_that_had_nothing_to_wait_for_passes_to_nobody)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_readmsg(rig, KEY_MHP, CONTEXT(0), FI_FENCE));
	accepted(rig_send(rig, CONTEXT(1)));
	expect_posted(rig, "R S");
	rig_close(rig);
}

/* The core fences atomics, also those that return something. */
Test(fence, of_an_atomic_passes_to_nobody)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_read(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_fetch(rig, KEY_MHP, CONTEXT(1), FI_FENCE));
	accepted(rig_send(rig, CONTEXT(2)));
	expect_posted(rig, "R fA S");
	rig_close(rig);
}
