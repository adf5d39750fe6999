/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_chain.c -- reading and writing a target's copy of a block, each in one chain
 *
 * A write's chain makes a record, and swings the slot to it if the slot's tag is smaller.  In any
 * case a buffer is left over: the old record's, or the new one's.  Its address is the stage's
 * claim, which the chain gives back in the end.  A chain that has begun is executed to its end,
 * whether its client lives or not (kv_put.c), so no client that dies leaves a buffer behind.
 *
 * Before the write counts, the slot has to be durable with a tag that is no smaller.  If the swing
 * has failed somebody else has made the slot what it is, and his commit may be still under way.
 * So TOUCH stores the slot again as it is.  The commit behind it makes the slot durable, whoever
 * has written it.  Then MARK says so to readers.  The old buffer is given back behind that, too:
 * no pointer that power failure brings back leads to a buffer that somebody else uses.
 */
#include "rs_chain.h"

#include "../common/steps.h"

static const uint64_t zeros[2];
/* Of a slot from its tag on: only the tag; from its record on: only the lock. */
static const uint64_t only_tag[3] = {UINT64_MAX, UINT64_MAX, 0}, only_lock[2] = {0, UINT64_MAX};
static const uint8_t busy = 1;

#define TAG_LEN sizeof(struct rs_tag)

/* in_stage -- the address of a field of the client's stage */
#define in_stage(replica, field) ((replica)->welcome.addr + offsetof(struct rs_stage, field))

/* in_slot -- the address of a field of the block's slot */
#define in_slot(replica, field) (slot_at(replica) + offsetof(struct rs_slot, field))

static uint64_t slot_at(const struct rs_replica *replica)
{
	return replica->buffers->lease.index + replica->request.block * sizeof(struct rs_slot);
}

static size_t make_tag(struct rs_replica *replica)
{
	replica->steps[0] =
		STEP(READ, .addr = in_slot(replica, tag), .key = replica->buffers->lease.key,
		     .len = TAG_LEN, .result = &replica->buffers->tag);
	return 1;
}

/* make_read -- the record first: if the slot is swung in between, `durable` may speak of a greater
 * tag, which is as good */
static size_t make_read(struct rs_replica *replica)
{
	uint64_t key = replica->buffers->lease.key;

	replica->steps[0] = STEP(READ, .addr = in_slot(replica, record), .key = key, .to_key = key,
				 .len = sizeof(struct rs_record), .result = &replica->buffers->got,
				 .flags = FI_PMEMVERBS_STEP_INDIRECT);
	replica->steps[1] = STEP(READ, .addr = in_slot(replica, durable), .key = key,
				 .len = TAG_LEN, .result = &replica->buffers->durable);
	return 2;
}

/* add_record -- a buffer with the stage's record */
static void add_record(struct rs_replica *replica)
{
	uint64_t key = replica->buffers->lease.key, stage = replica->welcome.key;
	struct fi_pmemverbs_step *steps = replica->steps;

	steps[RS_STEP_BUSY] = STEP(WRITE, .addr = in_stage(replica, head.busy), .key = stage,
				   .len = 1, .operand = &busy);
	steps[RS_STEP_TAG] = STEP(READ, .addr = in_stage(replica, record.tag), .key = stage,
				  .len = TAG_LEN, .to = 0, .flags = REDIRECT);
	steps[RS_STEP_ALLOCATE] =
		STEP(ALLOCATE, .key = key, .list = (uint32_t) replica->buffers->lease.list,
		     .from_addr = in_stage(replica, record), .from_key = stage, .len = RS_HEAD_LEN,
		     .to = 2, .flags = REDIRECT | FROM_MEMORY);
	steps[RS_STEP_CLAIM] = STEP(WRITE, .addr = in_stage(replica, claim), .key = stage, .len = 8,
				    .from = 2, .flags = CONDITIONAL | FROM_WORD);
	steps[RS_STEP_VALUE] =
		STEP(WRITE, .addr = RS_HEAD_LEN, .at = 2, .key = key, .len = RS_BLOCK,
		     .from_addr = in_stage(replica, record.value), .from_key = stage,
		     .flags = CONDITIONAL | AT_WORD | FROM_MEMORY);
}

/* add_swing -- to a record that is durable, and what makes the slot durable */
static void add_swing(struct rs_replica *replica)
{
	uint64_t key = replica->buffers->lease.key, stage = replica->welcome.key;
	uint64_t commit = replica->opts.is_volatile ? 0 : FI_PMEMVERBS_STEP_COMMIT;
	const struct rs_tag *tag = &replica->buffers->record.tag;
	struct fi_pmemverbs_step *steps = replica->steps;

	/* Behind the tag the record is the claim's word, of which nothing is compared. */
	steps[RS_STEP_SWING] = STEP(CAS, .addr = in_slot(replica, tag), .key = key,
				    .len = TAG_LEN + 8, .compare = FI_PMEMVERBS_LT, .expect = 0,
				    .compare_mask = only_tag, .from = 0, .to = 0,
				    .flags = CONDITIONAL | FROM_WORD |
					     FI_PMEMVERBS_STEP_EXPECT_WORD | REDIRECT | commit);
	steps[RS_STEP_OLD] = STEP(WRITE, .addr = in_stage(replica, claim), .key = stage, .len = 8,
				  .from = 2, .flags = CONDITIONAL | FROM_WORD);
	steps[RS_STEP_TOUCH] = STEP(CAS, .addr = in_slot(replica, tag), .key = key, .len = TAG_LEN,
				    .compare = FI_PMEMVERBS_GE, .expected = tag, .from = 0,
				    .swap_mask = zeros, .to = 0, .flags = FROM_WORD | REDIRECT);
	steps[RS_STEP_MARK] =
		STEP(CAS, .addr = in_slot(replica, durable), .key = key, .len = TAG_LEN,
		     .compare = FI_PMEMVERBS_LT, .expected = tag, .operand = tag, .to = 0,
		     .flags = CONDITIONAL | REDIRECT | commit);
}

static size_t make_write(struct rs_replica *replica)
{
	uint64_t key = replica->buffers->lease.key, stage = replica->welcome.key;
	struct fi_pmemverbs_step *steps = replica->steps;

	add_record(replica);
	add_swing(replica);
	steps[RS_STEP_TAKE] = STEP(CAS, .addr = in_stage(replica, claim), .key = stage, .len = 8,
				   .compare = FI_PMEMVERBS_NE, .expected = zeros, .operand = zeros,
				   .to = 0, .flags = REDIRECT);
	steps[RS_STEP_FREE] =
		STEP(FREE, .key = key, .list = (uint32_t) replica->buffers->lease.list, .at = 0,
		     .flags = CONDITIONAL | AT_WORD);
	steps[RS_STEP_IDLE] = STEP(WRITE, .addr = in_stage(replica, head.busy), .key = stage,
				   .len = 1, .operand = zeros);
	return RS_STEPS;
}

/* make_lock -- the result is also where the record is */
static size_t make_lock(struct rs_replica *replica)
{
	const uint64_t mine[] = {0, replica->request.writer};
	uint64_t *place = replica->buffers->place;

	place[0] = mine[0];
	place[1] = mine[1];
	replica->steps[0] =
		STEP(CAS, .addr = in_slot(replica, record), .key = replica->buffers->lease.key,
		     .len = sizeof(mine), .expected = zeros, .compare_mask = only_lock,
		     .operand = place, .swap_mask = only_lock, .result = place);
	return 1;
}

static size_t make_unlock(struct rs_replica *replica)
{
	replica->steps[0] =
		STEP(CAS, .addr = in_slot(replica, lock), .key = replica->buffers->lease.key,
		     .len = 8, .expected = &replica->request.writer, .operand = zeros);
	return 1;
}

size_t rs_make(struct rs_replica *replica)
{
	switch (replica->request.what) {
	case RS_TAG:
		return make_tag(replica);
	case RS_READ:
		return make_read(replica);
	case RS_WRITE:
		return make_write(replica);
	case RS_LOCK:
		return make_lock(replica);
	case RS_UNLOCK:
		return make_unlock(replica);
	default:
		return 0;
	}
}

bool rs_judge(struct rs_replica *replica)
{
	if (replica->request.what == RS_LOCK)
		replica->locked = replica->steps[0].status == FI_PMEMVERBS_STEP_OK;
	return replica->request.what != RS_WRITE ||
	       replica->steps[RS_STEP_TOUCH].status == FI_PMEMVERBS_STEP_OK;
}
