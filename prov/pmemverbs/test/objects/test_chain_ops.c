/* SPDX-License-Identifier: BSD-2-Clause */
/* test_chain_ops.c -- what each step of a chain does, and each of its options */
#include "chain.h"

#include <string.h>

/* READ and WRITE */

Test(chain, reads_and_writes)
{
	struct pair *pair = pair_open(NULL);
	char result[64] = {0};
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair, STEP(WRITE, .operand = "hello", .len = 5), DMP, 100),
		chain_at(pair, STEP(READ, .result = result, .len = 6), DMP, 99),
	};

	chain_run(pair, steps, 2);
	cr_expect_eq(memcmp(pair->memory[DMP] + 100, "hello", 6), 0);
	cr_expect_eq(memcmp(result, "\0hello", 7), 0);
	expect_status(steps[0], OK);
	expect_status(steps[1], OK);
	cr_expect_eq(steps[0].done, 5);
	cr_expect_eq(steps[1].done, 6);
	pair_close(pair);
}

Test(chain, reads_through_a_pointer_up_to_its_bound)
{
	static const size_t bounds[] = {0, 1, 15, 16, 17, 1000};

	for (int offsets = 0; offsets < 2; offsets++) {
		struct pair *pair = pair_open(&(struct pair_options){.offsets = offsets});
		char result[16], expected[17];

		memset(pair->memory[DMP] + BUFFER, 'x', 64);
		for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
			size_t len = bounds[i] < 16 ? bounds[i] : 16;
			struct fi_pmemverbs_step step =
				chain_at(pair,
					 STEP(READ, .result = result, .len = 16,
					      .flags = FI_PMEMVERBS_STEP_INDIRECT |
						       FI_PMEMVERBS_STEP_BOUNDED),
					 DMP, POINTER);

			memset(result, '.', 16);
			chain_point(pair, DMP, bounds[i]);
			chain_run(pair, &step, 1);
			memset(expected, '.', 16);
			memset(expected, 'x', len);
			cr_expect_eq(memcmp(result, expected, 16), 0, "bound %zu", bounds[i]);
			cr_expect_eq(step.done, len, "bound %zu", bounds[i]);
			expect_status(step, OK);
		}
		pair_close(pair);
	}
}

Test(chain, writes_through_a_pointer_up_to_its_bound)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step step =
		chain_at(pair,
			 STEP(WRITE, .operand = "0123456789", .len = 10,
			      .flags = FI_PMEMVERBS_STEP_INDIRECT | FI_PMEMVERBS_STEP_BOUNDED),
			 DMP, POINTER);

	chain_point(pair, DMP, 4);
	chain_run(pair, &step, 1);
	cr_expect_eq(memcmp(pair->memory[DMP] + BUFFER, "0123\0\0", 6), 0);
	cr_expect_eq(step.done, 4);
	step.flags = FI_PMEMVERBS_STEP_INDIRECT;
	chain_run(pair, &step, 1);
	cr_expect_eq(memcmp(pair->memory[DMP] + BUFFER, "0123456789", 11), 0);
	pair_close(pair);
}

Test(chain, follows_a_pointer_into_another_region)
{
	struct pair *pair = pair_open(NULL);
	char result[8] = {0};
	struct fi_pmemverbs_step step = chain_at(
		pair, STEP(READ, .result = result, .len = 5, .flags = FI_PMEMVERBS_STEP_INDIRECT),
		DMP, POINTER);

	step.to_key = pair_key(pair, PAGE);
	chain_set(pair, DMP, POINTER, pair_addr(pair, PAGE, 7));
	memcpy(pair->memory[PAGE] + 7, "there", 5);
	chain_run(pair, &step, 1);
	cr_expect_str_eq(result, "there");
	pair_close(pair);
}

/* A pointer of 0 points nowhere, also where addresses are offsets. */
Test(chain, does_not_follow_a_null_pointer)
{
	for (int offsets = 0; offsets < 2; offsets++) {
		struct pair *pair = pair_open(&(struct pair_options){.offsets = offsets});
		char result[8] = "before";
		struct fi_pmemverbs_step step = chain_at(
			pair,
			STEP(READ, .result = result, .len = 8, .flags = FI_PMEMVERBS_STEP_INDIRECT),
			DMP, POINTER);

		chain_run(pair, &step, 1);
		expect_status(step, NULL);
		cr_expect_eq(step.done, 0);
		cr_expect_str_eq(result, "before");
		pair_close(pair);
	}
}

/* CAS */

static bool swaps(struct pair *pair, uint64_t memory, uint32_t compare, uint64_t expected)
{
	uint64_t fresh = 77, old = 1;
	struct fi_pmemverbs_step step =
		chain_at(pair,
			 STEP(CAS, .compare = compare, .expected = &expected, .operand = &fresh,
			      .result = &old, .len = 8),
			 DMP, 8);

	chain_set(pair, DMP, 8, memory);
	chain_run(pair, &step, 1);
	cr_expect_eq(old, memory);
	cr_expect_eq(step.done, 8);
	cr_expect_eq(chain_word(pair, DMP, 8), step.status ? memory : fresh);
	cr_expect(step.status == FI_PMEMVERBS_STEP_OK || step.status == FI_PMEMVERBS_STEP_FAILED);
	return !step.status;
}

Test(chain, compares_as_unsigned_numbers)
{
	static const uint64_t values[] = {0,         1, 255, 256, 0x01ff, 0x0200, UINT64_MAX - 1,
					  UINT64_MAX};
	struct pair *pair = pair_open(NULL);

	for (size_t i = 0; i < 8; i++) {
		for (size_t j = 0; j < 8; j++) {
			uint64_t m = values[i], e = values[j];

			cr_expect_eq(swaps(pair, m, FI_PMEMVERBS_EQ, e), m == e);
			cr_expect_eq(swaps(pair, m, FI_PMEMVERBS_NE, e), m != e);
			cr_expect_eq(swaps(pair, m, FI_PMEMVERBS_LT, e), m < e);
			cr_expect_eq(swaps(pair, m, FI_PMEMVERBS_LE, e), m <= e);
			cr_expect_eq(swaps(pair, m, FI_PMEMVERBS_GT, e), m > e);
			cr_expect_eq(swaps(pair, m, FI_PMEMVERBS_GE, e), m >= e);
		}
	}
	pair_close(pair);
}

Test(chain, compares_one_field_and_swaps_another)
{
	struct pair *pair = pair_open(NULL);
	uint64_t expected[4] = {5, 0, 9, 0}, fresh[4] = {6, 7, 8, 9}, old[4] = {0};
	uint64_t compare_mask[4] = {UINT64_MAX, 0, 0, 0}, swap_mask[4] = {0, UINT64_MAX, 0xf, 0};
	struct fi_pmemverbs_step step =
		chain_at(pair,
			 STEP(CAS, .expected = expected, .operand = fresh, .result = old,
			      .compare_mask = compare_mask, .swap_mask = swap_mask, .len = 32),
			 DMP, 0);

	for (size_t i = 0; i < 4; i++)
		chain_set(pair, DMP, 8 * i, i ? 0x50 + i : 5);
	chain_run(pair, &step, 1);
	expect_status(step, OK);
	cr_expect_eq(old[0], 5);
	cr_expect_eq(old[3], 0x53);
	cr_expect_eq(chain_word(pair, DMP, 0), 5);
	cr_expect_eq(chain_word(pair, DMP, 8), 7);
	cr_expect_eq(chain_word(pair, DMP, 16), 0x58);
	cr_expect_eq(chain_word(pair, DMP, 24), 0x53);
	pair_close(pair);
}

Test(chain, swaps_any_number_of_bytes)
{
	struct pair *pair = pair_open(NULL);
	uint8_t fresh[33], old[33], zeros[33] = {0};

	memset(fresh, 0xab, sizeof(fresh));
	for (size_t len = 1; len <= 32; len++) {
		struct fi_pmemverbs_step step = chain_at(
			pair,
			STEP(CAS, .expected = zeros, .operand = fresh, .result = old, .len = len),
			DMP, 64 * len);

		memset(old, 1, sizeof(old));
		chain_run(pair, &step, 1);
		expect_status(step, OK);
		cr_expect_eq(memcmp(old, zeros, len), 0);
		cr_expect_eq(memcmp(pair->memory[DMP] + 64 * len, fresh, len), 0);
		cr_expect_eq(pair->memory[DMP][64 * len + len], 0, "too many");
	}
	pair_close(pair);
}

Test(chain, adds_and_tells_what_was_there)
{
	struct pair *pair = pair_open(NULL);
	uint64_t more = 3, old = 0;
	struct fi_pmemverbs_step step = chain_at(
		pair, STEP(FETCH_ADD, .operand = &more, .result = &old, .len = 8), DMP, 16);

	chain_set(pair, DMP, 16, UINT64_MAX);
	chain_run(pair, &step, 1);
	cr_expect_eq(old, UINT64_MAX);
	cr_expect_eq(chain_word(pair, DMP, 16), 2);
	pair_close(pair);
}

/* Conditions, and words */

Test(chain, executes_conditional_steps_only_behind_success)
{
	struct pair *pair = pair_open(NULL);
	uint64_t one = 1, two = 2;
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair, STEP(CAS, .expected = &one, .operand = &two, .len = 8), DMP, 0),
		chain_at(pair,
			 STEP(WRITE, .operand = "a", .len = 1,
			      .flags = FI_PMEMVERBS_STEP_CONDITIONAL),
			 DMP, 100),
		chain_at(pair,
			 STEP(WRITE, .operand = "b", .len = 1,
			      .flags = FI_PMEMVERBS_STEP_CONDITIONAL),
			 DMP, 101),
		chain_at(pair, STEP(WRITE, .operand = "c", .len = 1), DMP, 102),
		chain_at(pair,
			 STEP(WRITE, .operand = "d", .len = 1,
			      .flags = FI_PMEMVERBS_STEP_CONDITIONAL),
			 DMP, 103),
	};

	chain_run(pair, steps, 5);
	expect_status(steps[0], FAILED);
	expect_status(steps[1], SKIPPED);
	expect_status(steps[2], SKIPPED);
	expect_status(steps[3], OK);
	expect_status(steps[4], OK);
	cr_expect_eq(memcmp(pair->memory[DMP] + 100, "\0\0cd", 4), 0);
	chain_set(pair, DMP, 0, 1);
	chain_run(pair, steps, 5);
	for (int i = 0; i < 5; i++)
		expect_status(steps[i], OK);
	cr_expect_eq(memcmp(pair->memory[DMP] + 100, "abcd", 4), 0);
	pair_close(pair);
}

Test(chain, hands_results_on_in_words)
{
	struct pair *pair = pair_open(NULL);
	uint64_t addr = pair_addr(pair, DMP, BUFFER), old = 0;
	char result[6] = {0};
	struct fi_pmemverbs_step steps[] = {
		/* word 1 = the pointer, word 2 = what is compared with */
		chain_at(pair,
			 STEP(READ, .result = result, .len = 16, .to = 1,
			      .flags = FI_PMEMVERBS_STEP_REDIRECT),
			 DMP, POINTER),
		/* at the pointer, and 8 behind it */
		STEP(WRITE, .addr = 8, .key = pair_key(pair, DMP), .at = 1, .operand = "words",
		     .len = 5, .flags = FI_PMEMVERBS_STEP_AT_WORD),
		/* from the words, and in them */
		chain_at(pair,
			 STEP(CAS, .from = 1, .expect = 2, .result = &old, .len = 8,
			      .flags = FI_PMEMVERBS_STEP_FROM_WORD | FI_PMEMVERBS_STEP_EXPECT_WORD),
			 DMP, 200),
		chain_at(pair,
			 STEP(WRITE, .from_addr = addr + 8, .from_key = pair_key(pair, DMP),
			      .len = 5, .flags = FI_PMEMVERBS_STEP_FROM_MEMORY),
			 DMP, 300),
	};

	chain_point(pair, DMP, 42);
	chain_set(pair, DMP, 200, 42);
	chain_run(pair, steps, 4);
	cr_expect_eq(memcmp(pair->memory[DMP] + BUFFER + 8, "words", 5), 0);
	cr_expect_eq(chain_word(pair, DMP, 200), addr);
	cr_expect_eq(old, 42);
	cr_expect_eq(memcmp(pair->memory[DMP] + 300, "words", 5), 0);
	cr_expect_str_eq(result, "", "it went to the words");
	pair_close(pair);
}

/* The result goes to the words that the memory is compared with: behind the comparison. */
Test(chain, compares_before_words_get_the_result)
{
	struct pair *pair = pair_open(NULL);
	uint64_t fresh = 7;
	struct fi_pmemverbs_step steps[] = {
		chain_at(pair,
			 STEP(CAS, .operand = &fresh, .len = 8,
			      .flags = FI_PMEMVERBS_STEP_REDIRECT | FI_PMEMVERBS_STEP_EXPECT_WORD),
			 DMP, 8),
		chain_at(pair, STEP(WRITE, .len = 8, .flags = FI_PMEMVERBS_STEP_FROM_WORD), DMP,
			 16),
	};

	chain_set(pair, DMP, 8, 55);
	chain_run(pair, steps, 2);
	expect_status(steps[0], FAILED);
	cr_expect_eq(chain_word(pair, DMP, 8), 55);
	cr_expect_eq(chain_word(pair, DMP, 16), 55);
	pair_close(pair);
}

/* Nothing is left of an earlier chain, not even of the same connection. */
Test(chain, begins_with_words_of_zeros)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_step first =
		chain_at(pair, STEP(READ, .len = 32, .flags = FI_PMEMVERBS_STEP_REDIRECT), DMP, 0);
	struct fi_pmemverbs_step second = chain_at(
		pair, STEP(WRITE, .len = 32, .flags = FI_PMEMVERBS_STEP_FROM_WORD), DMP, 100);

	memset(pair->memory[DMP], 1, 200);
	chain_run(pair, &first, 1);
	chain_run(pair, &second, 1);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(chain_word(pair, DMP, 100 + 8 * i), 0);
	pair_close(pair);
}

/* Buffers */

Test(chain, allocates_until_a_list_is_empty)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_list *list = chain_list(pair, DMP, 3, 2);
	uint64_t addr = 0;
	struct fi_pmemverbs_step step = STEP(ALLOCATE, .key = list->key, .list = list->number,
					     .operand = "buffer", .len = 6, .result = &addr);

	for (size_t i = 0; i < 2; i++) {
		chain_run(pair, &step, 1);
		expect_status(step, OK);
		cr_expect_eq(addr, list->addr + i * CHAIN_BUFFER);
		cr_expect_eq(memcmp(pair->memory[DMP] + BUFFER + i * CHAIN_BUFFER, "buffer", 7), 0);
	}
	chain_run(pair, &step, 1);
	expect_status(step, EMPTY);
	cr_expect_eq(step.done, 0);
	accepted(chain_ops(pair)->list_put(list, list->addr + 2 * CHAIN_BUFFER));
	chain_run(pair, &step, 1);
	cr_expect_eq(addr, list->addr + 2 * CHAIN_BUFFER);
	accepted(chain_ops(pair)->list_close(list));
	pair_close(pair);
}

Test(chain, gives_buffers_back)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_list *list = chain_list(pair, DMP, 2, 1);
	uint64_t addr[2] = {0};
	struct fi_pmemverbs_step steps[] = {
		STEP(ALLOCATE, .key = list->key, .list = list->number, .result = &addr[0], .to = 3,
		     .flags = FI_PMEMVERBS_STEP_REDIRECT),
		STEP(FREE, .key = list->key, .list = list->number, .at = 3,
		     .flags = FI_PMEMVERBS_STEP_AT_WORD),
		STEP(ALLOCATE, .key = list->key, .list = list->number, .result = &addr[1]),
	};

	cr_expect_eq(chain_ops(pair)->list_num_free(list), 1);
	chain_run(pair, steps, 3);
	expect_status(steps[1], OK);
	/* This chain knows the buffer. */
	expect_status(steps[2], EMPTY);
	cr_expect_eq(addr[0], list->addr);
	cr_expect_eq(chain_ops(pair)->list_num_free(list), 1);
	chain_run(pair, steps + 2, 1);
	expect_status(steps[2], OK);
	cr_expect_eq(addr[1], list->addr);
	accepted(chain_ops(pair)->list_close(list));
	pair_close(pair);
}

Test(chain, lists_know_their_buffers)
{
	struct pair *pair = pair_open(NULL);
	struct fi_pmemverbs_chain_ops *ops = chain_ops(pair);
	struct fi_pmemverbs_list *list = chain_list(pair, DMP, 4, 2), *other;

	refused(ops->list_put(list, list->addr), FI_EALREADY);
	refused(ops->list_put(list, list->addr + 1), FI_EINVAL);
	refused(ops->list_put(list, list->addr - CHAIN_BUFFER), FI_EINVAL);
	refused(ops->list_put(list, list->addr + 4 * CHAIN_BUFFER), FI_EINVAL);
	refused(ops->list_open(pair->mr[DMP], 0, 0, 1, &other), FI_EINVAL);
	refused(ops->list_open(pair->mr[DMP], 0, 1, 0, &other), FI_EINVAL);
	refused(ops->list_open(pair->mr[DMP], 0, PAIR_SIZE, 2, &other), FI_EINVAL);
	refused(ops->list_open(pair->mr[DMP], 1, PAIR_SIZE, 1, &other), FI_EINVAL);
	refused(ops->list_open(pair->mr[DMP], PAIR_SIZE + 1, 1, 1, &other), FI_EINVAL);
	refused(ops->list_open(pair->mr[DMP], 8, UINT64_MAX / 2, 3, &other), FI_EINVAL);
	refused(fi_close(&pair->away->domain->fid), FI_EBUSY);
	accepted(ops->list_close(list));
	pair_close(pair);
}
