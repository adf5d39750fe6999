/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_race.c -- swings that fail: two clients put a new key, and a record is replaced by one that
 * has not seen what is there
 *
 * The loser's chain gives its buffer back.  The target counts its buffers when it ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_chain.h"

#define KEY 5

static int expect(bool is_so, const char *what)
{
	if (!is_so)
		fprintf(stderr, "%s\n", what);
	return is_so ? 0 : -FI_EIO;
}

static int expect_status(const struct kv_client *client, unsigned int step, uint32_t status)
{
	if (client->steps[step].status != status)
		fprintf(stderr, "step %u has status %u\n", step, client->steps[step].status);
	return expect(client->steps[step].status == status, "not the status that it should have");
}

static int expect_value(struct kv_client *client, const char *value, uint64_t version)
{
	const struct kv_record *got = &client->buffers->got;
	int ret = kv_get(client, KEY);

	return ret ? ret
		   : expect(got->len == strlen(value) && !memcmp(got->value, value, got->len) &&
				    (got->version & UINT32_MAX) == version,
			    "another value than the last one");
}

static int stage(struct kv_client *client, const char *value)
{
	memcpy(client->buffers->put.value, value, strlen(value));
	return kv_stage(client, KEY, strlen(value), false);
}

/* both_insert -- into the same slot */
static int both_insert(struct kv_client *first, struct kv_client *second)
{
	uint64_t slot = kv_slot_at(first, kv_hash(KEY));
	int ret = stage(first, "first");

	if (!ret)
		ret = stage(second, "second");
	if (!ret)
		ret = kv_insert(first, slot, strlen("first"));
	if (!ret)
		ret = expect(kv_insert(second, slot, strlen("second")) == -FI_EAGAIN,
			     "both clients put a new key");
	if (!ret)
		ret = expect_value(second, "first", 1);
	/* As PUT does after that. */
	if (!ret)
		ret = kv_put(second, KEY, strlen("second"));
	return ret ? ret : expect_value(first, "second", 2);
}

/* replaces_late -- the slot is not what the swing expects */
static int replaces_late(struct kv_client *client)
{
	uint64_t slot = kv_slot_at(client, kv_hash(KEY)), old;
	int ret = stage(client, "late");

	if (ret)
		return ret;
	kv_make_replace(client, slot, strlen("late"), &old);
	client->steps[KV_STEP_SWING].expect = 0;
	ret = kv_run(client, KV_STEPS);
	if (!ret)
		ret = expect_status(client, KV_STEP_SWING, FI_PMEMVERBS_STEP_FAILED);
	if (!ret)
		ret = expect_status(client, KV_STEP_FREE_OLD, FI_PMEMVERBS_STEP_SKIPPED);
	if (!ret)
		ret = expect_status(client, KV_STEP_FREE_NEW, FI_PMEMVERBS_STEP_OK);
	return ret ? ret : expect_value(client, "second", 2);
}

static int run(const struct options *opts, struct kv_client *first, struct kv_client *second)
{
	int ret = kv_connect(first, opts);

	if (!ret)
		ret = kv_connect(second, opts);
	if (!ret)
		ret = both_insert(first, second);
	return ret ? ret : replaces_late(second);
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "kv_race", .summary = "Swings that fail.", .letters = "P"};
	struct options opts = {0};
	struct kv_client first = {0}, second = {0};
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	ret = run(&opts, &first, &second);
	if (ret)
		fprintf(stderr, "%s%s\n", first.error.text, second.error.text);
	kv_disconnect(&first);
	kv_disconnect(&second);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
