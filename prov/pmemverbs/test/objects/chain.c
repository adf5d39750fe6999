/* SPDX-License-Identifier: BSD-2-Clause */
/* chain.c -- chains over a pair; chain.h says how they are used */
#include "chain.h"

#include <string.h>

struct fi_pmemverbs_chain_ops *chain_ops(struct pair *pair)
{
	struct fi_pmemverbs_chain_ops *ops = NULL;

	accepted(
		fi_open_ops(&pair->home->ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) &ops, NULL));
	return ops;
}

ssize_t chain_post(struct pair *pair, struct fi_pmemverbs_step *steps, size_t count, void *context)
{
	return chain_ops(pair)->post(pair->home->ep, steps, count, context, FI_COMPLETION);
}

void chain_run(struct pair *pair, struct fi_pmemverbs_step *steps, size_t count)
{
	accepted(chain_post(pair, steps, count, CONTEXT(1)));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
}

void chain_fail(struct pair *pair, struct fi_pmemverbs_step *steps, size_t count, int err)
{
	accepted(chain_post(pair, steps, count, CONTEXT(1)));
	pair_round(pair);
	rig_expect_error(pair->home, CONTEXT(1), RIG_WRITTEN, err);
	rig_expect_nothing(pair->home);
}

struct fi_pmemverbs_step chain_at(struct pair *pair, struct fi_pmemverbs_step step,
				  enum pair_memory memory, size_t offset)
{
	step.addr = pair_addr(pair, memory, offset);
	step.key = step.to_key = pair_key(pair, memory);
	return step;
}

void chain_point(struct pair *pair, enum pair_memory memory, uint64_t bound)
{
	chain_set(pair, memory, POINTER, pair_addr(pair, memory, BUFFER));
	chain_set(pair, memory, POINTER + 8, bound);
}

struct fi_pmemverbs_list *chain_list(struct pair *pair, enum pair_memory memory, size_t count,
				     size_t free)
{
	struct fi_pmemverbs_list *list;

	accepted(chain_ops(pair)->list_open(pair->mr[memory], BUFFER, CHAIN_BUFFER, count, &list));
	for (size_t i = 0; i < free; i++)
		accepted(chain_ops(pair)->list_put(list, list->addr + i * CHAIN_BUFFER));
	return list;
}

uint64_t chain_word(struct pair *pair, enum pair_memory memory, size_t offset)
{
	uint64_t value;

	memcpy(&value, pair->memory[memory] + offset, sizeof(value));
	return value;
}

void chain_set(struct pair *pair, enum pair_memory memory, size_t offset, uint64_t value)
{
	memcpy(pair->memory[memory] + offset, &value, sizeof(value));
}

void chain_lie(struct pair *pair, struct pmv_reply_step step, int more)
{
	struct pmv_sender *sender = &pair->from->mailbox.sender;
	uint64_t number = atomic_load(&sender->next_ack);
	uint8_t *slot = pair->from->mailbox.link.block + pmv_ack_at(number);
	struct pmv_ack ack;

	cr_assert(pmv_ack_decode(slot, number, &sender->ack_in, &ack));
	memcpy(ack.reply, &step, sizeof(step));
	ack.reply_len = (ack.reply_len + (unsigned int) more) & (PMV_ACK_SLOT - 1);
	ack_encode(slot, &ack, &sender->ack_in);
}
