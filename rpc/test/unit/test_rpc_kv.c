/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rpc_kv.c -- the key-value store of the example against a plain table
 *
 * What a call gives to store is put aside, as libpmemrpc does, and comes to its places when the
 * call has returned; or never, as if the power had failed before.  In both cases the store
 * has to be as the table says.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/kv.h"

#define KEYS 200U
#define ROOM 150U
#define VALUE 40U

struct change {
	char *place;
	size_t len;
	char data[256];
};

static struct change changes[32];
static unsigned int num_changes;
static char memory[65536];
static struct kv kv;

/* What has to be there: by the key's number; len 0: nothing. */
static struct {
	size_t len;
	char value[VALUE];
} table[KEYS];
static unsigned int present;

static int store(void *context, void *place, const void *data, size_t len)
{
	(void) context;
	cr_assert(num_changes < 32 && len <= sizeof(changes->data));
	cr_assert((char *) place >= memory && (char *) place + len <= memory + kv.len);
	changes[num_changes].place = place;
	changes[num_changes].len = len;
	memcpy(changes[num_changes++].data, data, len);
	return 0;
}

static void set_up(void)
{
	kv = (struct kv){.memory = memory,
			 .len = kv_memory_len(ROOM, VALUE),
			 .value_max = VALUE,
			 .store = store};
	cr_assert(kv.len <= sizeof(memory));
	srand(1);
}

static struct kv_key key_of(unsigned int n)
{
	struct kv_key key = {0};

	/* Of different lengths; in the order of numbers. */
	key.len = (uint8_t) snprintf(key.bytes, sizeof(key.bytes), "k%03u%s", n,
				     n % 3 ? "" : ".long");
	return key;
}

static int call(uint32_t op, unsigned int n, const void *value, size_t len, void *reply,
		size_t reply_max, size_t *reply_len)
{
	char argument[sizeof(struct kv_scan) + VALUE + 1] = {0};
	struct kv_key key = key_of(n);

	memcpy(argument, &key, sizeof(key));
	if (len)
		memcpy(argument + sizeof(key), value, len);
	num_changes = 0;
	return kv_handle(&kv, op, argument, sizeof(key) + len, reply, reply_max, reply_len);
}

/* take_effect -- all of it, or nothing */
static void take_effect(bool all)
{
	size_t effects = 0;

	for (unsigned int i = 0; i < num_changes; i++) {
		effects += 16 + (changes[i].len + 7) / 8 * 8;
		if (all)
			memcpy(changes[i].place, changes[i].data, changes[i].len);
	}
	cr_assert(effects <= kv_effects_max(VALUE), "%zu", effects);
}

static void change_one(unsigned int n, bool all)
{
	size_t len = 1 + (size_t) rand() % VALUE, reply_len;
	char value[VALUE];
	bool deletes = rand() % 3 == 0, full = !table[n].len && present == ROOM;
	int ret;

	memset(value, rand(), sizeof(value));
	ret = call(deletes ? KV_DELETE : KV_PUT, n, value, deletes ? 0 : len, NULL, 0, &reply_len);
	if (deletes ? !table[n].len : full) {
		cr_assert(ret == (deletes ? -ENOENT : -ENOSPC), "%d", ret);
		return;
	}
	cr_assert(ret == 0, "%d", ret);
	take_effect(all);
	if (!all)
		return;
	present += deletes ? -!!table[n].len : !table[n].len;
	table[n].len = deletes ? 0 : len;
	memcpy(table[n].value, value, len);
}

static void expect_key(unsigned int n)
{
	char reply[VALUE];
	size_t len;
	int ret = call(KV_GET, n, NULL, 0, reply, sizeof(reply), &len);

	cr_assert(ret == (table[n].len ? 0 : -ENOENT), "%u: %d", n, ret);
	cr_assert(len == table[n].len && !memcmp(reply, table[n].value, len));
	cr_assert(num_changes == 0);
}

/* expect_scan -- the keys that there are, from this one on */
static void expect_scan(unsigned int from, uint32_t count)
{
	static char reply[65536];
	const struct kv_entry *entry = NULL;
	size_t len;

	cr_assert(!call(KV_SCAN, from, &count, sizeof(count), reply, sizeof(reply), &len));
	for (unsigned int n = from; n < KEYS && count; n++) {
		struct kv_key key = key_of(n);

		if (!table[n].len)
			continue;
		entry = kv_next(reply, len, entry);
		cr_assert(entry && !memcmp(&entry->key, &key, sizeof(key)));
		cr_assert(entry->len == table[n].len &&
			  !memcmp(entry + 1, table[n].value, entry->len));
		count--;
	}
	cr_assert(!kv_next(reply, len, entry));
}

Test(rpc_kv, is_what_the_table_says, .init = set_up)
{
	for (int i = 0; i < 20000; i++) {
		/* At times more is put than there is room for. */
		change_one((unsigned int) rand() % KEYS, rand() % 4);
		if (i % 10 == 0)
			expect_scan((unsigned int) rand() % KEYS, (uint32_t) rand() % KEYS);
		expect_key((unsigned int) rand() % KEYS);
	}
	for (unsigned int n = 0; n < KEYS; n++)
		expect_key(n);
}

Test(rpc_kv, wrong_arguments_are_refused, .init = set_up)
{
	char value[VALUE + 1] = {0}, reply[8];
	struct kv_key key = {.len = KV_KEY_MAX + 1};
	size_t len;

	cr_assert(call(KV_PUT, 1, value, VALUE + 1, NULL, 0, &len) == -EINVAL);
	cr_assert(call(KV_SCAN, 1, NULL, 0, reply, sizeof(reply), &len) == -EINVAL);
	cr_assert(call(99, 1, NULL, 0, reply, sizeof(reply), &len) == -EINVAL);
	cr_assert(kv_handle(&kv, KV_GET, &key, sizeof(key), reply, 8, &len) == -EINVAL);
	key.len = 0;
	cr_assert(kv_handle(&kv, KV_GET, &key, sizeof(key), reply, 8, &len) == -EINVAL);
	cr_assert(kv_handle(&kv, KV_GET, &key, 5, reply, 8, &len) == -EINVAL);
	/* And a reply that is too short. */
	cr_assert(!call(KV_PUT, 1, value, VALUE, NULL, 0, &len));
	take_effect(true);
	cr_assert(call(KV_GET, 1, NULL, 0, reply, sizeof(reply), &len) == -ENOSPC);
}

Test(rpc_kv, an_entry_is_in_its_reply)
{
	struct {
		struct kv_entry entry;
		char value[8];
	} reply[2] = {{{.key = {1, "a"}, .len = 3}, "one"},
		      {{.key = {KV_KEY_MAX, "b"}, .len = 3}, "two"}};
	const struct kv_entry *first = &reply[0].entry, *second = &reply[1].entry;

	cr_assert_eq(kv_next(reply, sizeof(reply), NULL), first);
	cr_assert_eq(kv_next(reply, sizeof(reply), first), second);
	cr_assert_null(kv_next(reply, sizeof(reply), second));
	/* Cut off, and what a server says that means ill. */
	cr_assert_null(kv_next(reply, sizeof(reply) - 1, first));
	cr_assert_null(kv_next(reply, sizeof(reply[0].entry) - 1, NULL));
	reply[1].entry.len = 9;
	cr_assert_null(kv_next(reply, sizeof(reply), first));
	reply[1].entry.len = UINT32_MAX;
	cr_assert_null(kv_next(reply, sizeof(reply), first));
	reply[1].entry.len = 3;
	reply[1].entry.key.len = KV_KEY_MAX + 1;
	cr_assert_null(kv_next(reply, sizeof(reply), first), "a key that is longer than its place");
}
