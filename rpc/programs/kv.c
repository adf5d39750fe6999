/* SPDX-License-Identifier: BSD-2-Clause */
/* kv.c -- a durable key-value store; kv.h says how it is made */
#include "kv.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

/* Offset 0 is where the store begins, so it means "none". */
struct node {
	uint64_t next[KV_LEVELS];
	struct kv_key key;
	uint32_t len; /* of the value behind this */
	uint32_t height;
};

struct store {
	struct node head;
	uint64_t used; /* nodes that were ever used */
	uint64_t free; /* those that are not any more, by next[0] */
	char pad[48];
};

/* Where a key is, or would be: the nodes before it, on each level. */
struct path {
	struct node *before[KV_LEVELS];
	struct node *found;
};

static size_t node_len(size_t value_max)
{
	return (sizeof(struct node) + value_max + 63) / 64 * 64;
}

size_t kv_memory_len(uint64_t keys, size_t value_max)
{
	return sizeof(struct store) + keys * node_len(value_max);
}

size_t kv_effects_max(size_t value_max)
{
	/* A node, its value, what refers to it, and a counter; each with 16 bytes and padding. */
	return sizeof(struct node) + value_max + 8 + (KV_LEVELS + 1) * 8 + (KV_LEVELS + 3) * 16;
}

static struct store *store_of(const struct kv *kv)
{
	return (struct store *) kv->memory;
}

static uint64_t offset(const struct kv *kv, const struct node *node)
{
	return (uint64_t) ((const char *) node - kv->memory);
}

static struct node *node_at(const struct kv *kv, uint64_t at)
{
	return at ? (struct node *) (kv->memory + at) : NULL;
}

static int compare(const struct kv_key *a, const struct kv_key *b)
{
	int order = memcmp(a->bytes, b->bytes, a->len < b->len ? a->len : b->len);

	return order ? order : a->len - b->len;
}

/* height -- of a key's node: by its hash, so that nothing random has to be kept */
static uint32_t height(const struct kv_key *key)
{
	uint64_t hash = XXH3_64bits(key->bytes, key->len);
	uint32_t levels = 1;

	for (; !(hash & 3) && levels < KV_LEVELS; hash >>= 2)
		levels++;
	return levels;
}

static void find(const struct kv *kv, const struct kv_key *key, struct path *path)
{
	struct node *at = &store_of(kv)->head, *next = NULL;

	for (uint32_t level = KV_LEVELS; level-- > 0;) {
		while ((next = node_at(kv, at->next[level])) && compare(&next->key, key) < 0)
			at = next;
		path->before[level] = at;
	}
	path->found = next && !compare(&next->key, key) ? next : NULL;
}

static int change(struct kv *kv, void *place, const void *data, size_t len)
{
	return kv->store(kv->context, place, data, len);
}

static int change_number(struct kv *kv, uint64_t *place, uint64_t value)
{
	return change(kv, place, &value, sizeof(value));
}

/* allocate -- a node that was used before, or the next one */
static int allocate(struct kv *kv, struct node **node)
{
	struct store *store = store_of(kv);
	size_t len = node_len(kv->value_max);

	*node = node_at(kv, store->free);
	if (*node)
		return change_number(kv, &store->free, (*node)->next[0]);
	if (kv->len < kv_memory_len(store->used + 1, kv->value_max))
		return -ENOSPC;
	*node = (struct node *) (kv->memory + sizeof(*store) + store->used * len);
	return change_number(kv, &store->used, store->used + 1);
}

/* insert -- a node, and all that refers to it */
static int insert(struct kv *kv, const struct path *path, const struct kv_key *key,
		  const void *value, size_t len)
{
	struct node new = {.key = *key, .len = (uint32_t) len, .height = height(key)};
	struct node *node;
	int ret = allocate(kv, &node);

	for (uint32_t level = 0; level < new.height; level++)
		new.next[level] = path->before[level]->next[level];
	if (!ret)
		ret = change(kv, node, &new, sizeof(new));
	if (!ret && len)
		ret = change(kv, node + 1, value, len);
	for (uint32_t level = 0; !ret && level < new.height; level++)
		ret = change_number(kv, &path->before[level]->next[level], offset(kv, node));
	return ret;
}

static int put(struct kv *kv, const struct kv_key *key, const void *value, size_t len)
{
	uint32_t new_len = (uint32_t) len;
	struct path path;
	int ret = 0;

	if (len > kv->value_max)
		return -EINVAL;
	find(kv, key, &path);
	if (!path.found)
		return insert(kv, &path, key, value, len);
	if (path.found->len != new_len)
		ret = change(kv, &path.found->len, &new_len, sizeof(new_len));
	return ret || !len ? ret : change(kv, path.found + 1, value, len);
}

static int delete (struct kv *kv, const struct kv_key *key)
{
	struct store *store = store_of(kv);
	struct path path;
	struct node *node;
	int ret = 0;

	find(kv, key, &path);
	node = path.found;
	if (!node)
		return -ENOENT;
	for (uint32_t level = 0; !ret && level < node->height; level++)
		ret = change_number(kv, &path.before[level]->next[level], node->next[level]);
	if (!ret)
		ret = change_number(kv, &node->next[0], store->free);
	return ret ? ret : change_number(kv, &store->free, offset(kv, node));
}

static int get(struct kv *kv, const struct kv_key *key, void *reply, size_t reply_max,
	       size_t *reply_len)
{
	struct path path;

	find(kv, key, &path);
	if (!path.found)
		return -ENOENT;
	if (path.found->len > reply_max)
		return -ENOSPC;
	memcpy(reply, path.found + 1, path.found->len);
	*reply_len = path.found->len;
	return 0;
}

static size_t entry_len(size_t len)
{
	return sizeof(struct kv_entry) + (len + 7) / 8 * 8;
}

static int scan(struct kv *kv, const struct kv_key *from, uint32_t count, char *reply,
		size_t reply_max, size_t *reply_len)
{
	const struct node *node;
	struct path path;
	size_t len = 0;

	find(kv, from, &path);
	node = node_at(kv, path.before[0]->next[0]);
	for (; node && count--; node = node_at(kv, node->next[0])) {
		struct kv_entry entry = {.key = node->key, .len = node->len};

		if (entry_len(node->len) > reply_max - len)
			break;
		memcpy(reply + len, &entry, sizeof(entry));
		memcpy(reply + len + sizeof(entry), node + 1, node->len);
		len += entry_len(node->len);
	}
	*reply_len = len;
	return 0;
}

int kv_handle(struct kv *kv, uint32_t operation, const void *argument, size_t argument_len,
	      void *reply, size_t reply_max, size_t *reply_len)
{
	struct kv_scan asked = {.count = 0};
	const char *value = (const char *) argument + sizeof(asked.from);

	*reply_len = 0;
	if (kv->len < sizeof(struct store) || argument_len < sizeof(asked.from))
		return -EINVAL;
	memcpy(&asked.from, argument, sizeof(asked.from));
	if (asked.from.len > KV_KEY_MAX || (!asked.from.len && operation != KV_SCAN))
		return -EINVAL;
	/* What is behind the key's bytes is kept with it. */
	memset(asked.from.bytes + asked.from.len, 0, KV_KEY_MAX - asked.from.len);
	switch (operation) {
	case KV_GET:
		return get(kv, &asked.from, reply, reply_max, reply_len);
	case KV_PUT:
		return put(kv, &asked.from, value, argument_len - sizeof(asked.from));
	case KV_DELETE:
		return delete (kv, &asked.from);
	case KV_SCAN:
		if (argument_len != sizeof(asked))
			return -EINVAL;
		memcpy(&asked.count, value, sizeof(asked.count));
		return scan(kv, &asked.from, asked.count, reply, reply_max, reply_len);
	default:
		return -EINVAL;
	}
}

const struct kv_entry *kv_next(const void *reply, size_t reply_len, const struct kv_entry *entry)
{
	const char *end = (const char *) reply + reply_len;
	const char *next = entry ? (const char *) entry + entry_len(entry->len) : reply;
	const struct kv_entry *found = (const struct kv_entry *) next;

	if (next > end || (size_t) (end - next) < sizeof(*found) || found->key.len > KV_KEY_MAX ||
	    entry_len(found->len) > (size_t) (end - next))
		return NULL;
	return found;
}
