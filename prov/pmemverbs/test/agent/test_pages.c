/* SPDX-License-Identifier: BSD-2-Clause */
/* test_pages.c -- commits to memory with a file behind it, from the request to the disk */
#include "test/support/drive.h"
#include "test/support/pair.h"

#include <errno.h>
#include <unistd.h>
#include <string.h>

#include "objects/domain.h"

#define BLOCKS 32

static struct pair *pair;
static struct pmv_direct *direct;
static char *memory;
static struct fid_mr *mr;
static struct pmv_ep *other; /* another connection to the same target */
static uint64_t asked_by_other;

static struct fid_mr *register_memory(uint64_t flags)
{
	struct fid_mr *registered;

	accepted(fi_mr_reg(pair->away->domain, memory, BLOCKS * PMV_BLOCK, FI_REMOTE_WRITE, 0, 0,
			   flags, &registered, NULL));
	return registered;
}

static void begin(void)
{
	direct = drive_open(BLOCKS);
	memory = pmv_direct_memory(direct).iov_base;
	pair = pair_open(NULL);
	mr = register_memory(FI_PMEM);
	other = pair_join(pair);
	asked_by_other = 0;
}

static void end(void)
{
	if (other)
		accepted(fi_close(&other->ep_fid.fid));
	if (mr)
		accepted(fi_close(&mr->fid));
	pair_close(pair);
	drive_close(direct);
}

TestSuite(direct_sync, .init = begin, .fini = end);

static uint64_t at(int block)
{
	return (uint64_t) block * PMV_BLOCK + 100;
}

static struct pmv_range range(int block, uint64_t len)
{
	uint64_t start =
		pmv_to_domain(pair->away->domain)->engine.virt_addr ? (uintptr_t) memory : 0;

	return (struct pmv_range){start + at(block), len, (uint32_t) fi_mr_key(mr)};
}

/* put -- as a peer's write */
static void put(int block, char what)
{
	memory[at(block)] = what;
}

static void commit(int block, char what)
{
	put(block, what);
	pair_tell_range(pair, range(block, 1));
}

/* ask_other -- the other connection asks for a block */
static void ask_other(int block, char what)
{
	struct pmv_flush_message message = {.count = 1, .ranges = {range(block, 1)}};

	put(block, what);
	message.envelope.number = ++asked_by_other;
	message_encode(other->mailbox.link.block + asked_by_other % PMV_SLOTS * PMV_MESSAGE_SIZE,
		       &message, &other->mailbox.receiver.message_in);
}

static bool has(int block)
{
	return drive_has(direct, at(block), 1);
}

Test(direct_sync, writes_what_a_commit_names_before_it_is_acknowledged)
{
	put(4, 9);
	commit(3, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_NONE);
	cr_expect(has(3));
	cr_expect_not(has(4));
	cr_expect_eq(drive.calls, 1);
	/* Neither cache lines nor pages are touched. */
	expect_done(pair, "D K");
}

Test(direct_sync, whatever_is_declared_only_the_agent_makes_it_durable)
{
	struct pmv_attr attr;

	cr_assert(pmv_key_unpack(fi_mr_key(mr), &attr));
	cr_expect_eq(pmv_setting.domain, PMV_MHP, "what the pair declares");
	cr_expect_eq(attr.persist, PMV_PAGE);
}

Test(direct_sync, commits_of_one_round_share_their_writes)
{
	commit(3, 7);
	commit(9, 7);
	ask_other(3, 8);
	ask_other(20, 8);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
	cr_expect_eq(other->mailbox.receiver.posted_acks, 1, "for both of its requests");
	cr_expect(has(3) && has(9) && has(20));
	cr_expect_eq(drive.calls, 3);
	cr_expect_eq(drive.writes[3], 1);
	cr_expect_leq(drive.flushes, 1);
}

/* As two that are joined by msync, but gaps are not written. */
Test(direct_sync, writes_nothing_between_two_commits)
{
	commit(3, 7);
	commit(6, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
	cr_expect_eq(drive.writes[4] + drive.writes[5], 0);
}

Test(direct_sync, two_regions_of_a_file_share_their_writes)
{
	struct fid_mr *first = mr;

	commit(3, 7);
	mr = register_memory(FI_PMEM);
	commit(3, 8);
	commit(9, 8);
	pair_serve(pair);
	pair_expect_ack(pair, 3, PMV_FAULT_NONE);
	cr_expect_eq(drive.writes[3], 1, "not two at the same time");
	cr_expect_eq(drive.calls, 2);
	cr_expect(has(3) && has(9));
	accepted(fi_close(&first->fid));
}

Test(direct_sync, more_ranges_than_are_written_at_a_time)
{
	struct pmv_flush_message message = {.count = PMV_MAX_RANGES};

	for (int i = 0; i < 2 * PMV_MAX_RANGES; i++) {
		put(i % BLOCKS, (char) (i + 1));
		message.ranges[i / 2] = range(i / 2 * 31 % BLOCKS, 1);
	}
	for (int i = 0; i < 4; i++) {
		pair_tell(pair, &message);
		ask_other(i, 3);
	}
	pair_serve(pair);
	pair_expect_ack(pair, 4, PMV_FAULT_NONE);
	for (int i = 0; i < PMV_MAX_RANGES; i++)
		cr_expect(has(i * 31 % BLOCKS), "%d", i);
}

Test(direct_sync, a_failed_write_fails_its_commit_and_is_tried_again_by_the_next)
{
	drive.errors[3] = EIO;
	commit(3, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	/* This one promises all earlier writes, too. */
	commit(5, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_IO);
	drive.errors[3] = 0;
	commit(6, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 3, PMV_FAULT_NONE);
	cr_expect(has(3) && has(5) && has(6));
	cr_expect_eq(drive.writes[3], 3);
}

Test(direct_sync, fails_also_a_commit_behind_it_in_the_same_round)
{
	drive.errors[3] = EIO;
	commit(3, 7);
	/* It relies on the one before. */
	pair_tell_range(pair, range(5, 0));
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_expect_ack(pair, 2, PMV_FAULT_IO);
}

Test(direct_sync, a_commit_of_no_byte_tries_again)
{
	drive.errors[3] = EIO;
	commit(3, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	pair_tell_range(pair, range(5, 0));
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_IO);
	cr_expect_eq(drive.writes[3], 2);
	drive.errors[3] = 0;
	pair_tell_range(pair, range(5, 0));
	pair_serve(pair);
	pair_expect_ack(pair, 3, PMV_FAULT_NONE);
	cr_expect(has(3));
	/* There is nothing left to do. */
	pair_tell_range(pair, range(5, 0));
	pair_serve(pair);
	pair_expect_ack(pair, 4, PMV_FAULT_NONE);
	cr_expect_eq(drive.writes[3], 3);
}

Test(direct_sync, so_does_one_whose_data_are_no_byte)
{
	struct pmv_flush_message message = {.count = 1, .ranges = {range(5, 0)}};

	drive.errors[3] = EIO;
	commit(3, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	message_carry(&message, "");
	pair_tell(pair, &message);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_IO);
	cr_expect_eq(drive.writes[3], 2);
}

Test(direct_sync, a_commit_of_no_byte_sees_that_the_file_is_gone)
{
	unlink(drive_path());
	pair_tell_range(pair, range(5, 0));
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
}

Test(direct_sync, ordered_data_come_behind_a_write_that_succeeded)
{
	struct pmv_flush_message message = {.count = 2, .ranges = {range(3, 1), range(5, 8)}};

	message.ordered = true;
	put(3, 7);
	message_carry(&message, "abcdefgh");
	drive.errors[3] = EIO;
	pair_tell(pair, &message);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	cr_expect_eq(memory[at(5)], 0);
	drive.errors[3] = 0;
	message_carry(&message, "abcdefgh");
	message.envelope.unacked = 0;
	pair_tell(pair, &message);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
	cr_expect_eq(memory[at(5)], 'a');
	cr_expect(has(3) && has(5));
}

/* The kernel may have told somebody else of an error in such; there is nobody else here. */
Test(direct_sync, does_not_fail_with_mapped_files)
{
	pair->sync_fails = true;
	pair_tell_of(pair, PAGE, 0, 8);
	pair_serve(pair);
	pair_expect_ack(pair, 1, PMV_FAULT_IO);
	commit(3, 7);
	pair_serve(pair);
	pair_expect_ack(pair, 2, PMV_FAULT_NONE);
}

/* Registering */

Test(direct_sync, memory_stays_while_it_is_registered)
{
	struct fid_mr *plain = register_memory(0);

	cr_expect_eq(pmv_direct_close(direct), -FI_EBUSY);
	accepted(fi_close(&mr->fid));
	mr = NULL;
	cr_expect_eq(pmv_direct_close(direct), -FI_EBUSY);
	accepted(fi_close(&plain->fid));
}

Test(direct_sync, memory_that_is_only_partly_of_a_file_is_refused)
{
	struct fid_mr *none;

	cr_expect_eq(fi_mr_reg(pair->away->domain, memory + 8, BLOCKS * PMV_BLOCK, FI_REMOTE_WRITE,
			       0, 0, FI_PMEM, &none, NULL),
		     -FI_EINVAL);
}
