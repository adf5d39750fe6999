/* SPDX-License-Identifier: BSD-2-Clause */
/* test_submit.c -- what a commit posts, when it completes, and what is refused */
#include "test_submit.h"

#include <string.h>

#include "engine/info.h"
#include "base/setting.h"

static bool inside(const struct fake_post *post, uint64_t addr, size_t len)
{
	return post->op.addr >= addr && post->op.addr + post->op.rma_len <= addr + len;
}

static ssize_t commit_range(struct rig *rig, uint64_t addr, size_t len, uint64_t key, void *context)
{
	static char buf[LEN];
	struct iovec iov = {buf, len};
	struct fi_rma_iov rma_iov = {addr, len, key};

	return commit_ranges(rig, &iov, 1, &rma_iov, 1, context, 0);
}

/* What is posted */

Test(commit, is_a_write_and_a_read_of_one_byte_of_it)
{
	static char buf[LEN];
	struct iovec iov = {buf, LEN};
	struct fi_rma_iov rma_iov = {ADDR, LEN, KEY_MHP};
	struct rig *rig = rig_open(NULL);
	const struct fake_post *write, *read;

	accepted(commit_ranges(rig, &iov, 1, &rma_iov, 1, CONTEXT(1), 0));
	expect_posted(rig, "W R");
	write = rig_post(rig, 0);
	cr_expect_eq(write->op.buf, buf);
	cr_expect_eq(write->op.len, LEN);
	cr_expect_eq(write->op.addr, ADDR);
	cr_expect_eq(write->op.rma_len, LEN);
	cr_expect_eq(write->op.key, CORE_KEY_MHP);
	cr_expect_eq(write->op.flags, FI_COMPLETION);

	read = rig_post(rig, 1);
	cr_expect_eq(read->op.len, 1);
	cr_expect_eq(read->op.rma_len, 1);
	cr_expect(inside(read, ADDR, LEN));
	cr_expect_eq(read->op.key, CORE_KEY_MHP);
	cr_expect_eq(read->op.flags, FI_COMPLETION);
	cr_expect((char *) read->op.buf < buf || (char *) read->op.buf >= buf + LEN);
	cr_expect_not_null(read->op.buf);

	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(commit, core_never_sees_the_context_or_the_flag_of_a_commit)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_FENCE | FI_IMMED));
	expect_posted(rig, "W R fW0i");
	for (size_t i = 0; i < 3; i++) {
		cr_expect_neq(rig_post(rig, i)->op.context, CONTEXT(1));
		cr_expect(!(rig_post(rig, i)->op.flags & (FI_COMMIT | FI_IMMED)));
	}
	rig_expect_parts(rig, 3, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(commit, flush_uses_a_registered_buffer_where_the_core_wants_one)
{
	struct rig *rig = rig_open(&(struct rig_options){.mr_local = true});

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_expect_eq(rig_post(rig, 1)->op.desc, rig_post(rig, 1)->op.buf);
	cr_expect_not_null(rig_post(rig, 1)->op.desc);
	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

static void commit_one(const struct rig_options *options, uint64_t key, uint64_t flags,
		       const char *posted)
{
	struct rig *rig = rig_open(options);

	accepted(rig_commit(rig, key, CONTEXT(1), flags));
	expect_posted(rig, posted);
	rig_expect_parts(rig, (int) rig->fake.num_posts, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(commit, of_volatile_memory_is_flushed_too)
{
	commit_one(NULL, KEY_NONE, 0, "W R");
}

Test(commit, of_dmp_without_ddio_is_flushed)
{
	commit_one(NULL, KEY_DMP, 0, "W R");
}

Test(commit, of_wsp_is_the_write_alone)
{
	commit_one(NULL, KEY_WSP, 0, "W");
}

Test(commit, of_wsp_is_flushed_where_a_write_completes_at_home)
{
	commit_one(&(struct rig_options){.local = true}, KEY_WSP, FI_IMMED, "W R fW0i");
}

Test(commit, without_data_reads_where_it_would_have_written)
{
	struct rig *rig = rig_open(NULL);

	accepted(commit_range(rig, ADDR, 0, KEY_MHP, CONTEXT(1)));
	expect_posted(rig, "W0 R");
	cr_expect_eq(rig_post(rig, 1)->op.len, 1);
	cr_expect_eq(rig_post(rig, 1)->op.addr, ADDR);
	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* The end of a region is a good address for no bytes, but nothing can be read there. */
Test(commit, without_data_at_the_end_of_a_region_reads_inside_it)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
	accepted(commit_range(rig, ADDR + LEN, 0, KEY_MHP, CONTEXT(1)));
	expect_posted(rig, "W W0 R");
	cr_expect(inside(rig_post(rig, 2), ADDR, LEN));
	fake_complete(&rig->fake, 3);
	rig_expect_each(rig, 0, 1, RIG_WRITTEN);
	rig_close(rig);
}

Test(commit, without_buffers_still_gives_the_core_one)
{
	for (int mr_local = 0; mr_local < 2; mr_local++) {
		struct rig *rig = rig_open(&(struct rig_options){.mr_local = mr_local});
		struct fi_rma_iov rma_iov = {ADDR, 0, KEY_MHP};

		accepted(commit_ranges(rig, NULL, 0, &rma_iov, 1, CONTEXT(1), 0));
		expect_posted(rig, "W0 R");
		cr_expect_eq(rig_post(rig, 0)->op.iov_count, 1);
		cr_expect_eq(rig_post(rig, 0)->op.rma_len, 0);
		cr_expect_not_null(rig_post(rig, 0)->op.buf);
		cr_expect_eq(rig_post(rig, 0)->op.desc != NULL, mr_local);
		rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(commit, of_several_ranges_reads_in_one_that_has_bytes)
{
	static char buf[LEN];
	struct iovec iov = {buf, 24};
	struct fi_rma_iov rma_iov[] = {
		{ADDR, 0, KEY_MHP},
		{ADDR + 64, 8, KEY_MHP},
		{ADDR + 128, 16, KEY_MHP},
	};
	struct rig *rig = rig_open(NULL);

	accepted(commit_ranges(rig, &iov, 1, rma_iov, 3, CONTEXT(1), 0));
	expect_posted(rig, "W R");
	cr_expect(inside(rig_post(rig, 1), ADDR + 64, 8) ||
		  inside(rig_post(rig, 1), ADDR + 128, 16));
	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(commit, of_ranges_in_several_regions_takes_the_strongest_method)
{
	static char buf[LEN];
	struct iovec iov = {buf, 16};
	struct fi_rma_iov wsp_first[] = {{ADDR, 8, KEY_WSP}, {ADDR, 8, KEY_MHP}};
	struct fi_rma_iov mhp_first[] = {{ADDR, 8, KEY_MHP}, {ADDR, 8, KEY_WSP}};
	struct rig *rig = rig_open(NULL);

	accepted(commit_ranges(rig, &iov, 1, wsp_first, 2, CONTEXT(1), 0));
	accepted(commit_ranges(rig, &iov, 1, mhp_first, 2, CONTEXT(2), 0));
	expect_posted(rig, "W R W R");
	fake_complete(&rig->fake, 4);
	rig_expect_each(rig, 1, 2, RIG_WRITTEN);
	rig_close(rig);
}

/* The region with WSP needs no READ for itself, so its owner need not allow one. */
Test(commit, flush_reads_only_regions_that_may_be_read)
{
	static char buf[LEN];
	struct pmv_attr attr = {.persist = PMV_WSP, .pmem = true, .writable = true};
	struct iovec iov = {buf, 16};
	struct fi_rma_iov rma_iov[] = {
		{ADDR, 8, pmv_key_pack(CORE_KEY_WSP, &attr)},
		{ADDR, 8, KEY_MHP},
	};
	struct rig *rig = rig_open(NULL);

	if (!commit_ranges(rig, &iov, 1, rma_iov, 2, CONTEXT(1), 0)) {
		expect_posted(rig, "W R");
		cr_expect_eq(rig_post(rig, 1)->op.key, CORE_KEY_MHP);
		fake_complete(&rig->fake, 2);
		rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	}
	rig_close(rig);
}

Test(commit, hands_on_that_the_data_is_to_be_injected)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_INJECT));
	cr_expect_eq(rig_post(rig, 0)->op.flags, FI_COMPLETION | FI_INJECT);
	cr_expect_eq(rig_post(rig, 1)->op.flags, FI_COMPLETION);
	rig_expect_parts(rig, 2, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* When it completes */

Test(commit, completes_once_and_not_before_the_read)
{
	commit_one(NULL, KEY_MHP, 0, "W R");
}

Test(commit, completes_with_whatever_context_it_was_given)
{
	static void *const contexts[] = {NULL, (void *) 1, (void *) UINTPTR_MAX, &rig_open};
	struct rig *rig = rig_open(NULL);

	for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
		accepted(rig_commit(rig, KEY_MHP, contexts[i], 0));
		fake_complete(&rig->fake, 2);
		rig_expect(rig, contexts[i], RIG_WRITTEN);
	}
	rig_close(rig);
}

static const struct {
	enum fi_cq_format format;
	size_t size;
} formats[] = {
	{FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry)},
	{FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry)},
	{FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry)},
	{FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry)},
};

#define NUM_FORMATS (sizeof(formats) / sizeof(formats[0]))

Test(commit, completes_in_every_format_and_writes_no_more_than_an_entry)
{
	for (size_t i = 0; i < NUM_FORMATS; i++) {
		struct rig *rig = rig_open(&(struct rig_options){.format = formats[i].format});
		union {
			struct fi_cq_tagged_entry entry;
			unsigned char bytes[3 * sizeof(struct fi_cq_tagged_entry)];
		} buf;

		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
		fake_complete(&rig->fake, 2);
		memset(&buf, 0xa5, sizeof(buf));
		cr_assert_eq(fi_cq_read(rig->cq, &buf, 1), 1);
		cr_expect_eq(buf.entry.op_context, CONTEXT(1));
		if (formats[i].format != FI_CQ_FORMAT_CONTEXT)
			cr_expect_eq(buf.entry.flags, RIG_WRITTEN);
		for (size_t at = formats[i].size; at < sizeof(buf); at++)
			cr_assert_eq(buf.bytes[at], 0xa5, "byte %zu of format %d", at,
				     formats[i].format);
		rig_close(rig);
	}
}

/*
 * What the core says of operations that are not commits is handed on as it is,
 * also where entries of commits in between are taken out.
 */
Test(commit, between_plain_operations_leaves_their_entries_alone)
{
	for (size_t i = 0; i < NUM_FORMATS; i++) {
		struct rig *rig = rig_open(&(struct rig_options){.format = formats[i].format});
		char buf[8][sizeof(struct fi_cq_tagged_entry)];
		struct fi_cq_tagged_entry expected = {
			.flags = RIG_WRITTEN,
			.len = FAKE_LEN(LEN),
			.buf = FAKE_BUF,
			.data = FAKE_DATA,
			.tag = FAKE_TAG,
		};

		accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
		accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
		accepted(rig_write(rig, KEY_MHP, CONTEXT(3)));
		expect_posted(rig, "W R W W R W");
		fake_complete(&rig->fake, 6);
		cr_assert_eq(fi_cq_read(rig->cq, buf, 8), 4);
		for (int n = 1; n <= 3; n += 2) {
			expected.op_context = CONTEXT(n);
			cr_assert_arr_eq((char *) buf + n * formats[i].size, &expected,
					 formats[i].size, "entry %d of format %d", n,
					 formats[i].format);
		}
		rig_close(rig);
	}
}

Test(commit, keeps_its_place_between_plain_operations)
{
	static const size_t counts[] = {1, 2, 3, 16};
	static const uint64_t flags[] = {
		RIG_WRITTEN, RIG_WRITTEN, RIG_SENT, RIG_WRITTEN, FI_RMA | FI_READ, RIG_WRITTEN,
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct rig *rig = rig_open(NULL);
		struct fi_cq_tagged_entry entries[16];
		int next = 0;
		ssize_t got;

		accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
		accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
		accepted(rig_send(rig, CONTEXT(2)));
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), 0));
		accepted(rig_read(rig, KEY_MHP, CONTEXT(4)));
		accepted(rig_commit(rig, KEY_DMP, CONTEXT(5), 0));
		expect_posted(rig, "W R W S W R R W R");
		/* Half of it first: the second commit is then partly done. */
		for (int half = 0; half < 2; half++) {
			fake_complete(&rig->fake, half ? 4 : 5);
			while ((got = fi_cq_read(rig->cq, entries, counts[i])) > 0) {
				for (ssize_t n = 0; n < got; n++, next++) {
					cr_assert_lt(next, 6);
					cr_expect_eq(entries[n].op_context, CONTEXT(next));
					cr_expect_eq(entries[n].flags, flags[next]);
				}
			}
			cr_assert_eq(got, -FI_EAGAIN);
			cr_assert_eq(next, half ? 6 : 3);
		}
		rig_close(rig);
	}
}

Test(commit, may_have_many_others_under_way)
{
	enum { COMMITS = 5000 };
	struct rig *rig = rig_open(NULL);

	for (int i = 0; i < COMMITS; i++)
		accepted(rig_commit(rig, KEY_MHP, CONTEXT(i), 0));
	cr_assert_eq(fake_complete(&rig->fake, SIZE_MAX), 2 * COMMITS);
	rig_expect_each(rig, 0, COMMITS - 1, RIG_WRITTEN);
	rig_close(rig);
}

Test(commit, on_a_selective_cq_completes_only_if_asked_to)
{
	struct rig *rig = rig_open(&(struct rig_options){.selective = true});

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), FI_COMPLETION));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(3)));
	fake_complete(&rig->fake, 5);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(commit, on_a_selective_cq_fails_aloud)
{
	struct rig *rig = rig_open(&(struct rig_options){.selective = true});

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_fail_all(&rig->fake, FI_EIO, 5);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(commit, is_not_read_from_the_queue_of_receives)
{
	struct rig *rig = rig_open(&(struct rig_options){.own_rx_cq = true});
	struct fi_cq_tagged_entry entry;

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(fi_recv(rig->ep, NULL, 0, NULL, 0, CONTEXT(2)));
	fake_complete(&rig->fake, 2);
	cr_assert_eq(fi_cq_read(rig->rx_cq, &entry, 1), -FI_EAGAIN);
	fake_receive(&rig->fake, 0);
	cr_assert_eq(fi_cq_read(rig->rx_cq, &entry, 1), 1);
	cr_expect_eq(entry.op_context, CONTEXT(2));
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* The notice */

Test(notice, follows_the_flush_and_is_part_of_the_commit)
{
	static const uint64_t spellings[] = {FI_IMMED, FI_REMOTE_CQ_DATA,
					     FI_IMMED | FI_REMOTE_CQ_DATA};

	for (size_t i = 0; i < 3; i++) {
		struct rig *rig = rig_open(NULL);

		accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), spellings[i]));
		expect_posted(rig, "W R fW0i");
		expect_notice(rig, 2);
		cr_expect_eq(rig_post(rig, 2)->op.key, CORE_KEY_MHP);
		rig_expect_parts(rig, 3, CONTEXT(1), RIG_WRITTEN);
		rig_close(rig);
	}
}

Test(notice, rides_along_where_the_write_itself_is_the_proof)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_WSP, CONTEXT(1), FI_IMMED));
	expect_posted(rig, "Wi");
	cr_expect_eq(rig_post(rig, 0)->op.data, DATA);
	rig_expect_parts(rig, 1, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

Test(notice, without_commit_is_an_error)
{
	struct rig *rig = rig_open(NULL);

	refused(rig_writemsg(rig, KEY_MHP, CONTEXT(1), FI_IMMED), FI_EINVAL);
	refused(rig_writemsg(rig, KEY_WSP, CONTEXT(1), FI_IMMED | FI_REMOTE_CQ_DATA), FI_EINVAL);
	refused(rig_fetch(rig, KEY_MHP, CONTEXT(1), FI_IMMED), FI_EINVAL);
	refused(rig_readmsg(rig, KEY_MHP, CONTEXT(1), FI_IMMED), FI_EINVAL);
	refused(rig_sendmsg(rig, CONTEXT(1), FI_IMMED), FI_EINVAL);
	expect_posted(rig, "");
	rig_close(rig);
}

/* The core may be told that there is data to hand on only if there is. */
Test(notice, is_not_sent_for_commits_that_ask_for_none)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_WSP, CONTEXT(1), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W W R");
	fake_complete(&rig->fake, 3);
	rig_expect_each(rig, 1, 2, RIG_WRITTEN);
	rig_close(rig);
}
