/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_put.c -- PUT: one write of the record into the client's stage, and one chain behind it
 *
 * The chain swings the slot from what it has found there itself, if the key there is the right one.
 * While it is under way no buffer that is given back is given out, so the pointer can't come to
 * mean another record in between.
 *
 * If the swing fails, the chain gives the new buffer back.  A step can only be conditional on the
 * success of the one before, so the buffer's address stands in the stage (claim) from the
 * allocation to the swing, and a step compares it with 0 in the end.  A chain that has begun is
 * executed to its end, whether its initiator lives or not, unless the target closes the endpoint.
 * So the target waits until the stage is not busy.  Then no client that dies leaves a buffer
 * behind.
 */
#include <string.h>

#include "kv_chain.h"

#define FULL_MAX 1000 /* chains that find no buffer, before the store is full */

static const uint64_t zeros[2], one = 1;
static const uint8_t busy = 1;

/* in_stage -- the address of a field of the client's stage */
#define in_stage(client, field) ((client)->welcome.addr + offsetof(struct kv_stage, field))

/* add_old -- find out what is in the slot, and what the new record's version is */
static void add_old(struct kv_client *client, uint64_t slot, uint64_t *old)
{
	uint64_t key = client->buffers->lease.key, stage = client->welcome.key;
	struct fi_pmemverbs_step *steps = client->steps;

	steps[KV_STEP_SLOT] = STEP(READ, .addr = slot, .key = key, .len = sizeof(struct kv_slot),
				   .to = 2, .flags = REDIRECT);
	steps[KV_STEP_HEAD] =
		STEP(READ, .addr = slot, .key = key, .to_key = key, .len = 16, .to = 0,
		     .flags = CONDITIONAL | REDIRECT | FI_PMEMVERBS_STEP_INDIRECT);
	steps[KV_STEP_KEY] =
		STEP(CAS, .addr = in_stage(client, record.key), .key = stage, .len = 8, .expect = 0,
		     .from = 0, .swap_mask = zeros, .flags = CONDITIONAL | EXPECT_WORD | FROM_WORD);
	steps[KV_STEP_VERSION] = STEP(WRITE, .addr = in_stage(client, record.version), .key = stage,
				      .len = 8, .from = 1, .flags = CONDITIONAL | FROM_WORD);
	steps[KV_STEP_NEXT] =
		STEP(FETCH_ADD, .addr = in_stage(client, record.version), .key = stage, .len = 8,
		     .operand = &one, .result = old, .flags = CONDITIONAL);
}

/* add_record -- a buffer with the stage's record; word 1 = its bound */
static void add_record(struct kv_client *client, size_t len)
{
	uint64_t key = client->buffers->lease.key, stage = client->welcome.key;
	struct fi_pmemverbs_step *steps = client->steps;

	steps[KV_STEP_BUSY] = STEP(WRITE, .addr = in_stage(client, head.busy), .key = stage,
				   .len = 1, .operand = &busy);
	steps[KV_STEP_ALLOCATE] =
		STEP(ALLOCATE, .key = key, .list = (uint32_t) client->buffers->lease.list,
		     .from_addr = in_stage(client, record), .from_key = stage, .len = KV_HEAD_LEN,
		     .to = 0, .flags = CONDITIONAL | REDIRECT | FROM_MEMORY);
	steps[KV_STEP_CLAIM] = STEP(WRITE, .addr = in_stage(client, claim), .key = stage, .len = 8,
				    .from = 0, .flags = CONDITIONAL | FROM_WORD);
	steps[KV_STEP_VALUE] = STEP(WRITE, .addr = KV_HEAD_LEN, .at = 0, .key = key, .len = len,
				    .from_addr = in_stage(client, record.value), .from_key = stage,
				    .flags = CONDITIONAL | AT_WORD | FROM_MEMORY);
	steps[KV_STEP_BOUND] = STEP(READ, .addr = in_stage(client, bound), .key = stage, .len = 8,
				    .to = 1, .flags = CONDITIONAL | REDIRECT);
}

/* add_swing -- and what comes behind it; the slot has been empty if `replaces` is false */
static void add_swing(struct kv_client *client, uint64_t slot, bool replaces)
{
	uint64_t key = client->buffers->lease.key, stage = client->welcome.key;
	uint64_t commit = client->opts->is_volatile ? 0 : FI_PMEMVERBS_STEP_COMMIT;
	uint32_t list = (uint32_t) client->buffers->lease.list;
	struct fi_pmemverbs_step *steps = client->steps;

	steps[KV_STEP_SWING] =
		STEP(CAS, .addr = slot, .key = key, .len = sizeof(struct kv_slot), .from = 0,
		     .expect = replaces ? 2 : 0, .expected = zeros,
		     .flags = CONDITIONAL | FROM_WORD | commit | (replaces ? EXPECT_WORD : 0));
	/* The swing is durable before the old buffer is given back. */
	steps[KV_STEP_UNCLAIM] = STEP(WRITE, .addr = in_stage(client, claim), .key = stage,
				      .len = 8, .operand = zeros, .flags = CONDITIONAL | commit);
	steps[KV_STEP_FREE_OLD] =
		STEP(FREE, .key = key, .list = list, .at = 2, .flags = CONDITIONAL | AT_WORD);
	steps[KV_STEP_FAILED] = STEP(CAS, .addr = in_stage(client, claim), .key = stage, .len = 8,
				     .compare = FI_PMEMVERBS_NE, .expected = zeros,
				     .operand = zeros, .to = 0, .flags = REDIRECT);
	steps[KV_STEP_FREE_NEW] =
		STEP(FREE, .key = key, .list = list, .at = 0, .flags = CONDITIONAL | AT_WORD);
	steps[KV_STEP_IDLE] = STEP(WRITE, .addr = in_stage(client, head.busy), .key = stage,
				   .len = 1, .operand = zeros);
}

int kv_insert(struct kv_client *client, uint64_t slot, size_t len)
{
	struct fi_pmemverbs_step *steps = client->steps;
	int ret;

	add_record(client, len);
	add_swing(client, slot, false);
	/* It does not depend on BUSY, and there is no old buffer. */
	steps[KV_STEP_ALLOCATE].flags &= ~CONDITIONAL;
	memmove(&steps[KV_STEP_FREE_OLD], &steps[KV_STEP_FAILED], 3 * sizeof(*steps));
	memmove(&steps[1], &steps[KV_STEP_ALLOCATE],
		(KV_STEPS - KV_STEP_ALLOCATE - 1) * sizeof(*steps));
	ret = kv_run(client, KV_STEPS - KV_STEP_ALLOCATE);
	if (ret)
		return ret;
	if (steps[1].status == FI_PMEMVERBS_STEP_EMPTY)
		return -FI_ENOSPC;
	client->version = client->buffers->put.version;
	return steps[1 + KV_STEP_SWING - KV_STEP_ALLOCATE].status ? -FI_EAGAIN : 0;
}

void kv_make_replace(struct kv_client *client, uint64_t slot, size_t len, uint64_t *old)
{
	add_old(client, slot, old);
	add_record(client, len);
	add_swing(client, slot, true);
}

/* replace -- the record in a slot: 0; -FI_EADDRINUSE: another key's; -FI_ENOENT: there is none;
 * or as kv_insert */
static int replace(struct kv_client *client, uint64_t slot, size_t len)
{
	const struct fi_pmemverbs_step *steps = client->steps;
	uint64_t old = 0;
	int ret;

	kv_make_replace(client, slot, len, &old);
	ret = kv_run(client, KV_STEPS);
	if (ret)
		return ret;
	if (steps[KV_STEP_HEAD].status == FI_PMEMVERBS_STEP_NULL)
		return -FI_ENOENT;
	if (steps[KV_STEP_KEY].status)
		return -FI_EADDRINUSE;
	if (steps[KV_STEP_ALLOCATE].status == FI_PMEMVERBS_STEP_EMPTY)
		return -FI_ENOSPC;
	client->version = old + 1;
	return steps[KV_STEP_SWING].status ? -FI_EAGAIN : 0;
}

/* store -- what is in the stage, where its key belongs */
static int store(struct kv_client *client, size_t len)
{
	const struct kv_record *put = &client->buffers->put;
	uint64_t hash = kv_hash(put->key), at = 0, slot;
	unsigned int full = 0;
	int ret = -FI_ENOSPC;

	while (at < client->buffers->lease.slots && full < FULL_MAX) {
		slot = kv_slot_at(client, hash + at);
		ret = replace(client, slot, len);
		if (ret == -FI_ENOENT && !put->deleted)
			ret = kv_insert(client, slot, len);
		/* Buffers that were given back may have to wait for chains that are under way. */
		if (ret == -FI_ENOSPC)
			full++;
		else if (ret == -FI_EADDRINUSE)
			at++;
		else if (ret != -FI_EAGAIN)
			return ret;
	}
	return -FI_ENOSPC;
}

int kv_stage(struct kv_client *client, uint64_t key, size_t len, bool deleted)
{
	struct kv_buffers *buffers = client->buffers;
	struct kv_record *put = &buffers->put;

	buffers->claim = 0;
	buffers->bound = KV_HEAD_LEN + len;
	put->key = key;
	put->version = (buffers->lease.life << 32) + 1; /* of a new key */
	put->len = (uint32_t) len;
	put->deleted = deleted;
	put->check = kv_check(put);
	return kv_post_write(client, &buffers->claim, 2 * sizeof(uint64_t) + KV_HEAD_LEN + len,
			     in_stage(client, claim), client->welcome.key, 0);
}

int kv_put(struct kv_client *client, uint64_t key, size_t len)
{
	int ret = kv_stage(client, key, len, false);

	return ret ? ret : store(client, len);
}

int kv_delete(struct kv_client *client, uint64_t key)
{
	int ret = kv_stage(client, key, 0, true);

	return ret ? ret : store(client, 0);
}

/* ---- for comparison ---- */

int kv_reserve(struct kv_client *client, uint64_t *addr)
{
	int ret;

	client->steps[0] = STEP(ALLOCATE, .key = client->buffers->lease.key,
				.list = (uint32_t) client->buffers->lease.list, .result = addr);
	ret = kv_run(client, 1);
	return ret || !client->steps[0].status ? ret : -FI_ENOSPC;
}

int kv_release(struct kv_client *client, uint64_t addr)
{
	client->steps[0] = STEP(FREE, .key = client->buffers->lease.key,
				.list = (uint32_t) client->buffers->lease.list, .addr = addr);
	return kv_run(client, 1);
}

int kv_swing(struct kv_client *client, uint64_t word, size_t len, uint64_t *fresh)
{
	uint64_t commit = client->opts->is_volatile ? 0 : FI_PMEMVERBS_STEP_COMMIT;
	const struct kv_lease *lease = &client->buffers->lease;
	struct fi_pmemverbs_step *steps = client->steps;
	int ret;

	steps[0] = STEP(ALLOCATE, .key = lease->key, .list = (uint32_t) lease->list, .to = 0,
			.result = fresh, .flags = REDIRECT);
	steps[1] = STEP(WRITE, .at = 0, .key = lease->key, .len = len,
			.operand = client->buffers->put.value, .flags = CONDITIONAL | AT_WORD);
	/* Whatever is there: nobody else knows it. */
	steps[2] =
		STEP(CAS, .addr = word, .key = lease->key, .len = 8, .expected = zeros,
		     .compare_mask = zeros, .from = 0, .flags = CONDITIONAL | FROM_WORD | commit);
	ret = kv_run(client, 3);
	return ret || !steps[2].status ? ret : -FI_ENOSPC;
}

int kv_write(struct kv_client *client, uint64_t addr, uint64_t key, size_t len)
{
	uint64_t flags = client->opts->is_volatile ? FI_DELIVERY_COMPLETE : FI_COMMIT_COMPLETE;
	struct kv_record *put = &client->buffers->put;
	int ret;

	put->key = key;
	put->len = (uint32_t) len;
	put->deleted = false;
	put->check = kv_check(put);
	ret = kv_post_write(client, put, KV_HEAD_LEN + len, addr, client->buffers->lease.key,
			    FI_COMPLETION | flags);
	return ret ? ret : kv_await(client);
}
