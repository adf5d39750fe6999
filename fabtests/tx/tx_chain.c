/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_chain.c -- the chains of a transaction
 *
 * The paper's commit allocates a buffer for each key.  Here a client has buffers of its own, which
 * it gets when it connects.  A commit exchanges them with those that the slots lead to, so that
 * three keys are one chain.  That is executed to its end, whether its client lives or not, and the
 * stage says at each time whose the buffers are.  The target gives them back when the client has
 * gone.  Nobody reads a buffer that no slot leads to: a chain reads a pointer and what it points to
 * in one step.
 */
#include "tx_chain.h"

#include "../common/steps.h"

static const struct tx_running over;
static const uint8_t busy = 1, idle;
static const uint64_t only_pr[4] = {UINT64_MAX, UINT64_MAX, 0, 0};

_Static_assert(offsetof(struct tx_stage, running) ==
		       offsetof(struct tx_stage, head.busy) + sizeof(uint64_t),
	       "a chain compares them together");

#define TAG_LEN sizeof(struct rs_tag)

/* in_stage -- the address of a field of the client's stage */
#define in_stage(client, field) ((client)->link.welcome.addr + offsetof(struct tx_stage, field))

/* in_slot -- the address of a field of a key's slot */
#define in_slot(client, number, field)                                                             \
	((client)->link.buffers->lease.index + (number) * sizeof(struct tx_slot) +                 \
	 offsetof(struct tx_slot, field))

/* tx_make_own -- in a chain of its own, as there may be none just now */
size_t tx_make_own(struct tx_client *client, unsigned int number)
{
	const struct kv_lease *lease = &client->link.buffers->lease;
	struct fi_pmemverbs_step *steps = client->link.steps;
	uint64_t stage = client->link.welcome.key;

	steps[0] = STEP(WRITE, .addr = in_stage(client, head.busy), .key = stage, .len = 1,
			.operand = &busy);
	steps[1] = STEP(ALLOCATE, .key = lease->key, .list = (uint32_t) lease->list,
			.result = &client->own[number], .flags = REDIRECT);
	steps[2] = STEP(WRITE, .addr = in_stage(client, own) + number * sizeof(uint64_t),
			.key = stage, .len = 8, .flags = CONDITIONAL | FROM_WORD);
	steps[3] = STEP(WRITE, .addr = in_stage(client, head.busy), .key = stage, .len = 1,
			.operand = &idle);
	return 4;
}

/* tx_make_look -- the slot first: if it swings in between, what was committed is not any more */
size_t tx_make_look(struct tx_client *client, struct tx_access *access)
{
	uint64_t key = client->link.buffers->lease.key;
	struct fi_pmemverbs_step *steps = client->link.steps;

	steps[0] = STEP(READ, .addr = in_slot(client, access->key, pr), .key = key,
			.len = sizeof(access->slot), .result = &access->slot);
	steps[1] = STEP(READ, .addr = in_slot(client, access->key, record), .key = key,
			.to_key = key, .len = sizeof(access->record), .result = &access->record,
			.flags = FI_PMEMVERBS_STEP_INDIRECT);
	return 2;
}

/* add_validation -- pw is in no case smaller than what was committed.  So if both stamps together
 * are smaller than that and the transaction's own, pw is the same as then, and pr is smaller. */
static void add_validation(struct tx_client *client, struct tx_access *access, size_t at)
{
	access->expected = (struct tx_prepared){client->stamp, access->slot.committed};
	access->wanted = (struct tx_prepared){client->stamp, client->stamp};
	client->link.steps[at] =
		STEP(CAS, .addr = in_slot(client, access->key, pr),
		     .key = client->link.buffers->lease.key, .len = sizeof(access->was),
		     .compare = FI_PMEMVERBS_LT, .expected = &access->expected,
		     .operand = &access->wanted, .swap_mask = access->writes ? NULL : only_pr,
		     .result = &access->was);
}

/* tx_make_prepare -- the first step says what may commit, then come those keys that are only read,
 * then the others, as far as they succeed.  */
size_t tx_make_prepare(struct tx_client *client)
{
	size_t count = 1, first;

	client->link.steps[0] =
		STEP(WRITE, .addr = in_stage(client, running), .key = client->link.welcome.key,
		     .len = TAG_LEN, .operand = &client->stamp);
	for (unsigned int writes = 0; writes < 2; writes++) {
		first = count;
		for (unsigned int i = 0; i < client->count; i++) {
			struct tx_access *access = &client->accesses[i];

			if (access->writes != writes)
				continue;
			access->step = count;
			add_validation(client, access, count);
			if (writes && count > first)
				client->link.steps[count].flags = CONDITIONAL;
			count++;
		}
	}
	return count;
}

/* tx_make_undo -- of what was prepared to be written */
size_t tx_make_undo(struct tx_client *client)
{
	size_t count = 0;

	for (unsigned int i = 0; i < client->count; i++) {
		const struct tx_access *access = &client->accesses[i];

		if (access->prepared)
			client->link.steps[count++] = STEP(
				CAS, .addr = in_slot(client, access->key, pw),
				.key = client->link.buffers->lease.key, .len = TAG_LEN,
				.expected = &client->stamp, .operand = &access->slot.committed);
	}
	return count;
}

/* add_swing -- of a slot to the client's own buffer of that number */
static void add_swing(struct tx_client *client, const struct tx_access *access, unsigned int number,
		      size_t at)
{
	client->link.steps[at] = STEP(CAS, .addr = in_slot(client, access->key, record),
				      .key = client->link.buffers->lease.key,
				      .len = sizeof(uint64_t), .expected = &access->slot.record,
				      .operand = &client->own[number], .flags = CONDITIONAL);
}

/* add_release -- it has swung, and others may read and write it */
static void add_release(struct tx_client *client, const struct tx_access *access, size_t at)
{
	client->link.steps[at] = STEP(WRITE, .addr = in_slot(client, access->key, committed),
				      .key = client->link.buffers->lease.key, .len = TAG_LEN,
				      .operand = &client->stamp, .flags = CONDITIONAL);
}

/*
 * tx_make_install -- two commits: all records are durable before a slot swings, and all slots
 * before one of them says that it is committed.  Whoever reads that, or is told of it, has read
 * what no crash takes back.  The old records are the client's own only behind that.
 */
size_t tx_make_install(struct tx_client *client)
{
	uint64_t commit = client->link.opts->is_volatile ? 0 : FI_PMEMVERBS_STEP_COMMIT;
	struct fi_pmemverbs_step *steps = client->link.steps;
	uint64_t stage = client->link.welcome.key;
	unsigned int written = 0;
	size_t count = 1;

	client->ready = (struct tx_running){0, client->stamp};
	client->committing = (struct tx_running){1, client->stamp};
	steps[0] = STEP(CAS, .addr = in_stage(client, head.busy), .key = stage,
			.len = sizeof(client->ready), .expected = &client->ready,
			.operand = &client->committing);
	for (unsigned int i = 0; i < client->count; i++) {
		if (client->accesses[i].writes)
			add_swing(client, &client->accesses[i], written++, count++);
	}
	steps[1].flags |= commit;
	for (unsigned int i = 0; i < client->count; i++) {
		if (client->accesses[i].writes)
			add_release(client, &client->accesses[i], count++);
	}
	steps[1 + written].flags |= commit;
	written = 0;
	for (unsigned int i = 0; i < client->count; i++) {
		if (client->accesses[i].writes)
			client->left[written++] = client->accesses[i].slot.record;
	}
	steps[count++] = STEP(WRITE, .addr = in_stage(client, own), .key = stage,
			      .len = written * sizeof(uint64_t), .operand = client->left,
			      .flags = CONDITIONAL);
	steps[count++] = STEP(CAS, .addr = in_stage(client, head.busy), .key = stage,
			      .len = sizeof(client->committing), .expected = &client->committing,
			      .operand = &over);
	return count;
}

size_t tx_make_stop(struct tx_client *client, const struct rs_tag *stamp, struct tx_running *was)
{
	uint64_t place = stamp->writer % KV_PLACES;
	uint64_t own_place = client->link.buffers->lease.client % KV_PLACES;
	uint64_t distance = (place - own_place) * sizeof(struct tx_stage);

	client->ready = (struct tx_running){0, *stamp};
	client->link.steps[0] = STEP(CAS, .addr = in_stage(client, head.busy) + distance,
				     .key = client->link.welcome.key, .len = sizeof(client->ready),
				     .expected = &client->ready, .operand = &over, .result = was);
	return 1;
}

size_t tx_make_clear(struct tx_client *client, uint64_t key, const struct rs_tag *stamp)
{
	uint64_t region = client->link.buffers->lease.key;

	client->link.steps[0] = STEP(READ, .addr = in_slot(client, key, committed), .key = region,
				     .len = TAG_LEN, .flags = REDIRECT);
	client->link.steps[1] = STEP(CAS, .addr = in_slot(client, key, pw), .key = region,
				     .len = TAG_LEN, .expected = stamp, .flags = FROM_WORD);
	return 2;
}
