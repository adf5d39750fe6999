/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_client.c -- GET */
#include "kv_client.h"

#include "kv_chain.h"

#define READS_MAX 1000 /* of a record that others keep changing */

int kv_connect(struct kv_client *client, const struct options *opts)
{
	const struct kv_dialect dialect = {KV_HELLO, KV_MAGIC, sizeof(struct kv_buffers)};

	return kv_connect_to(client, opts, &dialect);
}

uint64_t kv_slot_at(const struct kv_client *client, uint64_t number)
{
	const struct kv_lease *lease = &client->buffers->lease;

	return lease->index + number % lease->slots * sizeof(struct kv_slot);
}

/* judge -- what was read is whole, and the key is there or deleted */
static int judge(struct kv_client *client)
{
	struct kv_record *got = &client->buffers->got;

	if (!kv_is_whole(got))
		return explain(&client->error, -FI_EIO, "the record of key %llu is torn",
			       (unsigned long long) got->key);
	return got->deleted ? -FI_ENOENT : 0;
}

int kv_get(struct kv_client *client, uint64_t key)
{
	const struct kv_lease *lease = &client->buffers->lease;
	struct fi_pmemverbs_step *step = client->steps;
	struct kv_record *got = &client->buffers->got;
	uint64_t hash = kv_hash(key);
	int ret;

	for (uint64_t i = 0; i < lease->slots; i++) {
		*step = STEP(READ, .addr = kv_slot_at(client, hash + i), .key = lease->key,
			     .to_key = lease->key, .len = sizeof(*got), .result = got,
			     .flags = FI_PMEMVERBS_STEP_INDIRECT | FI_PMEMVERBS_STEP_BOUNDED);
		ret = kv_run(client, 1);
		if (ret)
			return ret;
		if (step->status == FI_PMEMVERBS_STEP_NULL)
			break;
		if (step->done < KV_HEAD_LEN || got->len > step->done - KV_HEAD_LEN)
			return explain(&client->error, -FI_EIO, "a slot's bound is too small");
		if (got->key == key)
			return judge(client);
	}
	*got = (struct kv_record){0};
	return -FI_ENOENT;
}

/* read_slot -- and the record, which may be another one by now */
static int read_slot(struct kv_client *client, uint64_t number)
{
	const struct kv_lease *lease = &client->buffers->lease;
	struct kv_slot *slot = &client->buffers->slot;
	int ret = kv_read(client, slot, sizeof(*slot), kv_slot_at(client, number), lease->key);

	if (ret || !slot->record)
		return ret;
	if (slot->bound > sizeof(struct kv_record))
		return explain(&client->error, -FI_EIO, "a slot's bound is too large");
	return kv_read(client, &client->buffers->got, slot->bound, slot->record, lease->key);
}

int kv_get_twice(struct kv_client *client, uint64_t key)
{
	const struct kv_lease *lease = &client->buffers->lease;
	const struct kv_record *got = &client->buffers->got;
	uint64_t hash = kv_hash(key), i = 0;
	unsigned int reads = 0;
	int ret;

	while (i < lease->slots && reads < READS_MAX) {
		ret = read_slot(client, hash + i);
		if (ret)
			return ret;
		if (!client->buffers->slot.record)
			return -FI_ENOENT;
		if (!kv_is_whole(got))
			reads++;
		else if (got->key == key)
			return judge(client);
		else
			i++;
	}
	return i < lease->slots ? judge(client) : -FI_ENOENT;
}
