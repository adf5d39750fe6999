/* SPDX-License-Identifier: BSD-2-Clause */
/* test_tx_chain.c -- what is durable before which step of a commit */
#include <criterion/criterion.h>

#include "tx/tx_chain.h"

Test(tx_chain, records_are_durable_before_a_slot_swings_and_slots_before_one_is_read)
{
	static struct tx_buffers buffers;

	for (unsigned int writes = 1; writes <= TX_KEYS; writes++) {
		struct options opts = {0};
		struct tx_client client = {.count = TX_KEYS};
		const struct fi_pmemverbs_step *steps = client.link.steps;
		size_t count;

		client.link.opts = &opts;
		client.link.buffers = (struct kv_buffers *) &buffers;
		for (unsigned int i = 0; i < TX_KEYS; i++)
			client.accesses[i] = (struct tx_access){
				.key = i, .writes = i >= TX_KEYS - writes, .slot.record = 1 + i};
		count = tx_make_install(&client);
		cr_assert_eq(count, 2 * writes + 3);
		for (size_t i = 0; i < count; i++) {
			bool commits = steps[i].flags & FI_PMEMVERBS_STEP_COMMIT;
			bool conditional = steps[i].flags & FI_PMEMVERBS_STEP_CONDITIONAL;

			cr_assert_eq(commits, i == 1 || i == 1 + writes, "%u: %zu", writes, i);
			cr_assert_eq(conditional, i > 0 && i < count - 1, "%u: %zu", writes, i);
			cr_assert_eq(steps[i].kind, i > writes && i < count - 1
							    ? FI_PMEMVERBS_STEP_WRITE
							    : FI_PMEMVERBS_STEP_CAS);
		}
	}
}
