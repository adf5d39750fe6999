/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_store.c -- how the target finds its store again; kv_store.h says why that is right */
#include "kv_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#define PAGE 4096U

/* At the beginning of the memory. */
struct super {
	uint64_t magic;
	uint64_t buffers;
	uint64_t life;     /* the index in use is number life % 2 */
	uint64_t peers[2]; /* the address that the pointers of each index begin at */
};

static struct super *super_of(const struct kv_store *store)
{
	return (struct super *) store->memory;
}

static size_t whole_pages(size_t len)
{
	return (len + PAGE - 1) / PAGE * PAGE;
}

static size_t index_len(uint64_t buffers)
{
	return whole_pages(buffers * KV_SLOTS_A_BUFFER * sizeof(struct kv_slot));
}

size_t kv_store_len(uint64_t buffers)
{
	return PAGE + 2 * index_len(buffers) + whole_pages(buffers * KV_BUFFER_SIZE);
}

uint64_t kv_store_slots(const struct kv_store *store)
{
	return store->buffers * KV_SLOTS_A_BUFFER;
}

uint64_t kv_store_life(const struct kv_store *store)
{
	return super_of(store)->life;
}

static uint64_t index_at(const struct kv_store *store, uint64_t life)
{
	return PAGE + life % 2 * index_len(store->buffers);
}

uint64_t kv_store_index(const struct kv_store *store)
{
	return index_at(store, kv_store_life(store));
}

uint64_t kv_store_buffers(const struct kv_store *store)
{
	return PAGE + 2 * index_len(store->buffers);
}

static struct kv_slot *slots_of(const struct kv_store *store, uint64_t life)
{
	return (struct kv_slot *) (store->memory + index_at(store, life));
}

/* find_record -- NULL: the pointer leads to none, or to one that another slot has, too */
static const struct kv_record *find_record(const struct kv_store *store, uint64_t life,
					   const struct kv_slot *slot, uint64_t *buffer)
{
	uint64_t offset = slot->record - super_of(store)->peers[life % 2];
	const struct kv_record *record;

	offset -= kv_store_buffers(store);
	*buffer = offset / KV_BUFFER_SIZE;
	if (offset % KV_BUFFER_SIZE || *buffer >= store->buffers || store->used[*buffer])
		return NULL;
	record = (const struct kv_record *) (store->memory + kv_store_buffers(store) + offset);
	return kv_is_whole(record) ? record : NULL;
}

/* put_slot -- into an index that has room, for a key that is not in it */
static void put_slot(const struct kv_store *store, uint64_t life, const struct kv_record *record)
{
	struct kv_slot *slots = slots_of(store, life);
	uint64_t count = kv_store_slots(store), at = kv_hash(record->key) % count;
	uint64_t offset = (uint64_t) ((const char *) record - store->memory);

	while (slots[at].record)
		at = (at + 1) % count;
	slots[at] = (struct kv_slot){store->peers + offset, KV_HEAD_LEN + record->len};
}

/* walk -- through the index of a life; what is live goes into that of the next one if `moves` */
static void walk(struct kv_store *store, uint64_t life, bool moves, struct kv_counts *counts)
{
	const struct kv_slot *slots = slots_of(store, life);
	uint64_t count = kv_store_slots(store), buffer;

	*counts = (struct kv_counts){0};
	memset(store->used, 0, store->buffers);
	for (uint64_t i = 0; i < count; i++) {
		const struct kv_record *record;

		if (!slots[i].record)
			continue;
		record = find_record(store, life, &slots[i], &buffer);
		if (!record) {
			counts->torn++;
			continue;
		}
		store->used[buffer] = true;
		if (record->deleted)
			counts->deleted++;
		else
			counts->live++;
		if (!record->deleted && moves)
			put_slot(store, life + 1, record);
	}
}

void kv_store_count(struct kv_store *store, struct kv_counts *counts)
{
	walk(store, kv_store_life(store), false, counts);
}

/* move -- everything into the index of the next life, and begin that */
static int move(struct kv_store *store)
{
	struct super *super = super_of(store);
	uint64_t next = super->life + 1;
	int ret;

	super->peers[next % 2] = store->peers;
	ret = store->persist(store->arg, slots_of(store, next), index_len(store->buffers));
	if (!ret)
		ret = store->persist(store->arg, super, PAGE);
	if (ret)
		return ret;
	super->life = next;
	ret = store->persist(store->arg, super, PAGE);
	if (ret || super->magic)
		return ret;
	/* Index number 0 is of nothing, and not durable: so a new store is none before its life. */
	super->magic = KV_MAGIC;
	return store->persist(store->arg, super, PAGE);
}

static int check_super(const struct kv_store *store)
{
	const struct super *super = super_of(store);

	if (super->magic && super->magic != KV_MAGIC) {
		fprintf(stderr, "the memory has something else than a store\n");
		return -FI_EINVAL;
	}
	if (super->magic && super->buffers != store->buffers) {
		fprintf(stderr, "the store was made for %llu records: -N has to say so\n",
			(unsigned long long) super->buffers);
		return -FI_EINVAL;
	}
	return 0;
}

int kv_store_start(struct kv_store *store, struct kv_counts *found)
{
	struct super *super = super_of(store);
	int ret = check_super(store);

	if (ret)
		return ret;
	store->used = calloc(store->buffers, 1);
	if (!store->used)
		return -FI_ENOMEM;
	if (!super->magic) {
		*super = (struct super){.buffers = store->buffers};
		memset(slots_of(store, 0), 0, index_len(store->buffers));
	}
	memset(slots_of(store, super->life + 1), 0, index_len(store->buffers));
	walk(store, super->life, true, found);
	if (found->torn) {
		fprintf(stderr, "%llu slots lead to no whole record\n",
			(unsigned long long) found->torn);
		return -FI_EIO;
	}
	ret = move(store);
	/* What was deleted is free now. */
	if (!ret)
		kv_store_count(store, &(struct kv_counts){0});
	return ret;
}

void kv_store_close(struct kv_store *store)
{
	free(store->used);
	*store = (struct kv_store){0};
}
