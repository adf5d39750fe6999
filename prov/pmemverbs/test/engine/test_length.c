/* SPDX-License-Identifier: BSD-2-Clause */
/* test_length.c -- what is written counts, not what is said of the target's memory */
#include <string.h>

#include "objects/cq.h"
#include "test/support/pair.h"

/* Of the 64 bytes that are written; also none, and more than there is. */
static const size_t wrong[] = {0, 1, 63, 65, 4096, PAIR_SIZE + 1, SIZE_MAX};
#define WRONG (sizeof(wrong) / sizeof(wrong[0]))

/* put -- two buffers, 64 bytes, to one place that is said to have `len` of them */
static ssize_t put(struct pair *pair, enum pair_memory memory, size_t offset, size_t len,
		   void *context, uint64_t flags)
{
	struct iovec iov[] = {{pair->source + offset, 40}, {pair->source + offset + 40, 24}};
	struct fi_rma_iov rma_iov = {pair_addr(pair, memory, offset), len, pair_key(pair, memory)};
	struct fi_msg_rma msg = {iov, NULL, 2, 0, &rma_iov, 1, context, DATA};

	return fi_writemsg(pair->home->ep, &msg, flags);
}

/* rounds -- until nothing is under way; what the fake core writes is one buffer only */
static void rounds(struct pair *pair)
{
	for (int i = 0; i < 4; i++) {
		pair_round(pair);
		pmv_queue_progress(&pmv_to_cq(pair->home->cq)->queue, false);
	}
}

static void expect_named(struct pair *pair, size_t offset)
{
	struct pmv_flush_message message;

	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 1);
	cr_expect(pair_names(pair, &message, DMP, offset, 64));
}

Test(length, of_a_commit_is_what_is_written)
{
	struct pair *pair = pair_open(NULL);

	for (size_t i = 0; i < WRONG; i++) {
		accepted(put(pair, DMP, 1024 * i, wrong[i], CONTEXT(i), FI_COMMIT));
		cr_expect_eq(pair_post(pair, 1)->op.rma_len, 64, "the core has to agree");
		expect_named(pair, 1024 * i);
		rounds(pair);
		rig_expect(pair->home, CONTEXT(i), RIG_WRITTEN);
	}
	rig_expect_nothing(pair->home);
	pair_close(pair);
}

Test(length, of_a_write_that_a_later_commit_covers_is_what_is_written)
{
	struct pair *pair = pair_open(NULL);

	for (size_t i = 0; i < WRONG; i++) {
		accepted(put(pair, DMP, 1024 * i, wrong[i], CONTEXT(1), 0));
		cr_expect_eq(pair_post(pair, 0)->op.rma_len, 64);
		accepted(pair_put(pair, DMP, 1024 * i, 0, CONTEXT(2), FI_COMMIT));
		expect_named(pair, 1024 * i);
		rounds(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		rig_expect(pair->home, CONTEXT(2), RIG_WRITTEN);
	}
	pair_close(pair);
}

Test(length, of_a_fenced_commit_is_what_is_written)
{
	for (size_t i = 0; i < WRONG; i++) {
		struct pair *pair = pair_open(NULL);

		accepted(put(pair, DMP, 0, wrong[i], CONTEXT(1), 0));
		accepted(put(pair, DMP, 1024, wrong[i], CONTEXT(2), FI_COMMIT | FI_FENCE));
		rounds(pair);
		rig_expect_each(pair->home, 1, 2, RIG_WRITTEN);
		cr_expect(pair_survives(pair, DMP, 1024, 64), "%zu", wrong[i]);
		pair_close(pair);
	}
}

Test(length, of_what_is_covered_is_what_is_written)
{
	pmv_setting.commit_all = true;
	for (size_t i = 0; i < WRONG; i++) {
		struct pair *pair = pair_open(NULL);

		accepted(put(pair, DMP, 0, wrong[i], CONTEXT(1), FI_COMPLETION));
		rig_expect_nothing(pair->home);
		expect_named(pair, 0);
		rounds(pair);
		rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
		pair_close(pair);
	}
	pmv_setting.commit_all = false;
}

/* What may be read to flush it: the last place that was written, if nothing is written now. */
Test(length, of_nothing_is_nothing_whatever_is_said)
{
	struct rig *rig = rig_open(NULL);
	struct fi_rma_iov rma_iov = {ADDR + LEN, SIZE_MAX, KEY_MHP};
	struct fi_msg_rma msg = {NULL, NULL, 0, 0, &rma_iov, 1, CONTEXT(2), DATA};

	accepted(rig_write(rig, KEY_MHP, CONTEXT(1)));
	accepted(fi_writemsg(rig->ep, &msg, FI_COMMIT));
	expect_posted(rig, "W W0 R");
	cr_expect_eq(rig_post(rig, 1)->op.rma_len, 0);
	cr_expect_eq(rig_post(rig, 2)->op.addr, ADDR);
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect_each(rig, 1, 2, RIG_WRITTEN);
	rig_close(rig);
}

/* Several places */

static ssize_t put_two(struct pair *pair, size_t one, size_t two, size_t count, uint64_t flags)
{
	struct iovec iov = {pair->source, 64};
	struct fi_rma_iov rma_iov[9] = {
		{pair_addr(pair, DMP, 0), one, pair_key(pair, DMP)},
		{pair_addr(pair, PAGE, 0), two, pair_key(pair, PAGE)},
	};
	struct fi_msg_rma msg = {&iov, NULL, 1, 0, rma_iov, count, CONTEXT(1), DATA};

	return fi_writemsg(pair->home->ep, &msg, flags);
}

Test(length, of_several_places_has_to_be_what_is_written)
{
	static const uint64_t flags[] = {0, FI_COMMIT, FI_COMMIT | FI_FENCE, FI_COMMIT | FI_IMMED};
	struct pair *pair = pair_open(NULL);
	struct pmv_flush_message message;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		refused(put_two(pair, 0, 0, 2, flags[i]), FI_EINVAL);
		refused(put_two(pair, 40, 23, 2, flags[i]), FI_EINVAL);
		refused(put_two(pair, 64, 1, 2, flags[i]), FI_EINVAL);
		/* 64 with what does not fit a size_t. */
		refused(put_two(pair, SIZE_MAX, 65, 2, flags[i]), FI_EINVAL);
		refused(put_two(pair, 64, 0, 9, flags[i]), FI_EINVAL);
	}
	expect_sent(pair, "");
	cr_expect_eq(pmv_dirty_count(&pair->from->initiator.dirty, 0, true), 0);
	accepted(put_two(pair, 40, 24, 2, FI_COMMIT));
	pair_expect_message(pair, 0, &message);
	cr_expect_eq(message.count, 2);
	cr_expect(pair_names(pair, &message, DMP, 0, 40));
	cr_expect(pair_names(pair, &message, PAGE, 0, 24));
	rounds(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pair_close(pair);
}

/* Atomics */

static uint64_t operands[2] = {1, 2}, results[2];

/* add -- one operand to places that are said to be so many */
static ssize_t add(struct pair *pair, size_t count, size_t places, bool fetch, uint64_t flags)
{
	struct fi_ioc ioc = {operands, 1}, result = {results, 1};
	struct fi_rma_ioc rma_ioc[9] = {
		{pair_addr(pair, DMP, 512), count, pair_key(pair, DMP)},
		{pair_addr(pair, DMP, 1024), places == 2 ? count : 0, pair_key(pair, DMP)},
	};
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.iov_count = 1,
		.rma_iov = rma_ioc,
		.rma_iov_count = places,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = CONTEXT(1),
	};

	return fetch ? fi_fetch_atomicmsg(pair->home->ep, &msg, &result, NULL, 1, flags)
		     : fi_atomicmsg(pair->home->ep, &msg, flags);
}

Test(length, of_an_atomic_is_that_of_its_operands)
{
	static const size_t counts[] = {0, 1, 2, 1000000};
	struct pmv_flush_message message;

	for (size_t i = 0; i < 4; i++) {
		for (int fetch = 0; fetch < 2; fetch++) {
			for (int later = 0; later < 2; later++) {
				struct pair *pair = pair_open(NULL);

				accepted(add(pair, counts[i], 1, fetch, later ? 0 : FI_COMMIT));
				if (later)
					accepted(
						pair_put(pair, DMP, 512, 0, CONTEXT(2), FI_COMMIT));
				pair_expect_message(pair, 0, &message);
				cr_expect_eq(message.count, 1);
				cr_expect(pair_names(pair, &message, DMP, 512, 8), "%zu",
					  counts[i]);
				rounds(pair);
				pair_close(pair);
			}
		}
	}
}

Test(length, of_an_atomic_on_several_places_has_to_be_that_of_its_operands)
{
	struct pair *pair = pair_open(NULL);

	refused(add(pair, 1, 2, false, FI_COMMIT), FI_EINVAL);
	refused(add(pair, 0, 2, true, FI_COMMIT), FI_EINVAL);
	refused(add(pair, 1, 2, true, 0), FI_EINVAL);
	refused(add(pair, 1, 9, true, FI_COMMIT), FI_EINVAL);
	refused(add(pair, 1, 9, false, 0), FI_EINVAL);
	expect_sent(pair, "");
	accepted(add(pair, 1, 8, false, 0));
	expect_sent(pair, "A");
	pair_round(pair);
	pair_close(pair);

	pair = pair_open(NULL);
	refused(add(pair, 1, 2, false, FI_COMMIT), FI_EINVAL);
	expect_sent(pair, "");
	cr_expect_eq(pmv_dirty_count(&pair->from->initiator.dirty, 0, true), 0);
	pair_close(pair);
}

/* It writes nothing; what it reads is given by where the result goes. */
Test(length, of_an_atomic_that_reads_is_that_of_its_result)
{
	struct pair *pair = pair_open(NULL);
	struct fi_ioc result = {results, 2}, ignored = {operands, 0};
	struct fi_rma_ioc rma_ioc = {pair_addr(pair, DMP, 512), 7, pair_key(pair, DMP)};
	struct fi_msg_atomic msg = {
		.msg_iov = &ignored,
		.iov_count = 1,
		.rma_iov = &rma_ioc,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_ATOMIC_READ,
		.context = CONTEXT(1),
	};

	accepted(fi_fetch_atomicmsg(pair->home->ep, &msg, &result, NULL, 1, 0));
	cr_expect_eq(pair_post(pair, 0)->op.rma_len, 2 * 8);
	rounds(pair);
	pair_close(pair);
}
