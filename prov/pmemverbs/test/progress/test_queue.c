/* SPDX-License-Identifier: BSD-2-Clause */
/* test_queue.c -- parts of a commit that fail, and how that is told */
#include <string.h>

#include "objects/cq.h"
#include "test/support/rig.h"

/* One part ends: 0 or a positive fi_errno. */
static void end_part(struct rig *rig, int err)
{
	if (err)
		cr_assert(fake_fail(&rig->fake, err, 100 + err));
	else
		cr_assert_eq(fake_complete(&rig->fake, 1), 1);
}

static void expect_one_error(struct rig *rig, int err)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};

	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	/* It stays until it is read. */
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_eq(error.op_context, CONTEXT(1));
	cr_expect_eq(error.flags, RIG_WRITTEN);
	cr_expect_eq(error.err, err);
	cr_expect_eq(error.prov_errno, 100 + err);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	rig_expect_nothing(rig);
}

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
				end_part(rig, cases[i].parts[part]);
				fails = fails || cases[i].parts[part];
			}
			if (fails)
				expect_one_error(rig, cases[i].err);
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
	expect_one_error(rig, FI_EIO);
	rig_close(rig);
}

Test(errors, of_a_write_that_is_its_own_proof_are_told)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_WSP, CONTEXT(1), FI_IMMED));
	end_part(rig, FI_EIO);
	expect_one_error(rig, FI_EIO);
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

Test(errors, keep_their_place_between_successes)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_MHP, CONTEXT(0)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_write(rig, KEY_MHP, CONTEXT(2)));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(3), 0));
	end_part(rig, 0);
	end_part(rig, 0);
	end_part(rig, FI_EIO);
	fake_complete(&rig->fake, 3);
	rig_expect(rig, CONTEXT(0), RIG_WRITTEN);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect_each(rig, 2, 3, RIG_WRITTEN);
	rig_close(rig);
}

Test(errors, behind_successes_wait_until_those_are_read)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entries[8];

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(0), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	fake_complete(&rig->fake, 3);
	end_part(rig, FI_EIO);
	fake_complete(&rig->fake, 2);
	cr_assert_eq(fi_cq_read(rig->cq, entries, 8), 1);
	cr_expect_eq(entries[0].op_context, CONTEXT(0));
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	rig_expect(rig, CONTEXT(2), RIG_WRITTEN);
	rig_close(rig);
}

Test(errors, of_plain_operations_are_those_of_the_core)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	int vendor = 0;

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	fake_fail(&rig->fake, FI_EIO, 4711);
	error.err_data = &vendor;
	error.err_data_size = sizeof(vendor);
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_eq(error.op_context, CONTEXT(1));
	cr_expect_eq(error.flags, RIG_WRITTEN);
	cr_expect_eq(error.err, FI_EIO);
	cr_expect_eq(error.prov_errno, 4711);
	cr_expect_eq(error.len, FAKE_LEN(LEN));
	cr_expect_eq(error.buf, FAKE_BUF);
	cr_expect_eq(error.data, FAKE_DATA);
	cr_expect_eq(error.tag, FAKE_TAG);
	cr_expect_eq(error.err_data, &vendor);
	cr_expect_eq(error.err_data_size, sizeof(vendor));
	cr_expect_eq(vendor, 4711);
	rig_expect_nothing(rig);
	rig_close(rig);
}

/* RxM would look at the operation that such an error names. */
Test(errors, of_injected_writes_are_kept_from_rxm)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_write(rig, KEY_MHP, NULL));
	fake_fail(&rig->fake, FI_ENOTCONN, 0);
	rig_expect_error(rig, NULL, RIG_WRITTEN, FI_ENOTCONN);
	pmv_to_cq(rig->cq)->queue.contexts = true;
	accepted(rig_write(rig, KEY_MHP, NULL));
	fake_fail(&rig->fake, FI_ENOTCONN, 0);
	rig_expect_nothing(rig);
	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	fake_fail(&rig->fake, FI_ENOTCONN, 0);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_ENOTCONN);
	rig_close(rig);
}

Test(errors, fill_no_more_err_data_than_there_is_room_for)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	unsigned char data[4] = {0xa5, 0xa5, 0xa5, 0xa5};

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	fake_fail(&rig->fake, FI_EIO, 4711);
	error.err_data = data;
	error.err_data_size = 2;
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_leq(error.err_data_size, 2);
	cr_expect_eq(data[2], 0xa5);
	cr_expect_eq(data[3], 0xa5);
	rig_close(rig);
}

Test(errors, are_not_longer_than_an_old_application_knows)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {.err_data_size = 0xa5a5};

	rig->fabric.fabric_fid.api_version = FI_VERSION(1, 4);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_fail_all(&rig->fake, FI_EIO, 5);
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_expect_eq(error.op_context, CONTEXT(1));
	cr_expect_eq(error.err, FI_EIO);
	cr_expect_eq(error.err_data_size, 0xa5a5);
	rig_close(rig);
}

/* What comes behind err_data_size is since 1.20. */
Test(errors, leave_what_is_behind_the_entry_of_1_17_alone)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_tagged_entry entry;
	union {
		struct fi_cq_err_entry entry;
		unsigned char bytes[sizeof(struct fi_cq_err_entry)];
	} error;

	memset(&error, 0xa5, sizeof(error));
	error.entry.err_data_size = 0;
	rig->fabric.fabric_fid.api_version = FI_VERSION(1, 17);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_fail_all(&rig->fake, FI_EIO, 5);
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	/* Not fi_cq_readerr: newer headers write to it before they call. */
	cr_assert_eq(rig->cq->ops->readerr(rig->cq, &error.entry, 0), 1);
	cr_expect_eq(error.entry.err, FI_EIO);
	cr_expect_eq(error.entry.err_data_size, 0);
	for (size_t i = offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t);
	     i < sizeof(error.bytes); i++)
		cr_expect_eq(error.bytes[i], 0xa5, "byte %zu", i);
	rig_close(rig);
}

Test(errors, there_are_none_to_read_if_there_are_none)
{
	struct rig *rig = rig_open(NULL);
	struct fi_cq_err_entry error = {0};

	cr_expect_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	cr_expect_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	fake_complete(&rig->fake, 2);
	cr_expect_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
	rig_close(rig);
}

/* A target that heard of success would be misled. */
Test(errors, before_the_notice_is_posted_keep_it_back)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 2;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	expect_posted(rig, "W R");
	end_part(rig, FI_EIO);
	end_part(rig, FI_ECANCELED);
	rig->fake.room = -1;
	expect_one_error(rig, FI_EIO);
	expect_posted(rig, "");
	rig_close(rig);
}

Test(errors, of_the_write_keep_back_the_flush_as_well)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 1;
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED));
	expect_posted(rig, "W");
	end_part(rig, FI_EIO);
	rig->fake.room = -1;
	expect_one_error(rig, FI_EIO);
	expect_posted(rig, "");
	/* And what comes later may be posted again. */
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(2), 0));
	expect_posted(rig, "W R");
	rig_close(rig);
}

Test(errors, of_the_post_of_the_write_are_the_callers)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.fail_in = 1;
	rig->fake.fail_err = FI_EOPBADSTATE;
	refused(rig_commit(rig, KEY_MHP, CONTEXT(1), FI_IMMED), FI_EOPBADSTATE);
	expect_posted(rig, "");
	rig_expect_nothing(rig);
	rig_close(rig);
}

Test(errors, of_the_post_of_a_later_part_are_the_completions)
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

Test(errors, of_the_post_are_told_also_if_the_write_ends_first)
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
