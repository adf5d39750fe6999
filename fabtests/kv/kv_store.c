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
	uint64_t records;
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

static size_t index_len(const struct kv_layout *layout, uint64_t records)
{
	return whole_pages(records * layout->slots * layout->slot_size);
}

/* buffers_at -- an offset in the memory */
static size_t buffers_at(const struct kv_layout *layout, uint64_t records)
{
	return PAGE + 2 * index_len(layout, records);
}

size_t kv_store_len(const struct kv_layout *layout, uint64_t records)
{
	return buffers_at(layout, records) +
	       whole_pages((records + layout->spare) * layout->buffer_size);
}

uint64_t kv_store_slots(const struct kv_store *store)
{
	return store->records * store->layout->slots;
}

uint64_t kv_store_life(const struct kv_store *store)
{
	return super_of(store)->life;
}

static uint64_t index_at(const struct kv_store *store, uint64_t life)
{
	return PAGE + life % 2 * index_len(store->layout, store->records);
}

uint64_t kv_store_index(const struct kv_store *store)
{
	return index_at(store, kv_store_life(store));
}

uint64_t kv_store_buffers(const struct kv_store *store)
{
	return buffers_at(store->layout, store->records);
}

uint64_t kv_store_peer(const struct kv_store *store, const void *record)
{
	return store->peers + (uint64_t) ((const char *) record - store->memory);
}

static char *index_of(const struct kv_store *store, uint64_t life)
{
	return store->memory + index_at(store, life);
}

static void *buffer_of(const struct kv_store *store, uint64_t buffer)
{
	return store->memory + kv_store_buffers(store) + buffer * store->layout->buffer_size;
}

/* find_record -- NULL: the pointer leads to none, or to one that another slot has, too */
static const void *find_record(const struct kv_store *store, uint64_t life, uint64_t pointer,
			       uint64_t *buffer)
{
	size_t size = store->layout->buffer_size;
	uint64_t offset = pointer - super_of(store)->peers[life % 2] - kv_store_buffers(store);

	*buffer = offset / size;
	if (offset % size || *buffer >= store->buffers || store->used[*buffer])
		return NULL;
	return buffer_of(store, *buffer);
}

/* walk_slot -- see walk */
static void walk_slot(struct kv_store *store, uint64_t life, uint64_t number, bool moves,
		      struct kv_counts *counts)
{
	const struct kv_layout *layout = store->layout;
	enum kv_state state = KV_TORN;
	const void *record;
	uint64_t pointer, buffer;

	memcpy(&pointer, index_of(store, life) + number * layout->slot_size + layout->pointer,
	       sizeof(pointer));
	if (!pointer)
		return;
	record = find_record(store, life, pointer, &buffer);
	if (record)
		state = layout->judge(record, number);
	counts->live += state == KV_LIVE;
	counts->deleted += state == KV_DELETED;
	counts->torn += state == KV_TORN;
	if (state != KV_TORN)
		store->used[buffer] = true;
	if (state == KV_LIVE && moves)
		layout->put(store, index_of(store, life + 1), number, record);
}

/* walk -- through the index of a life; what is live goes into that of the next one if `moves` */
static void walk(struct kv_store *store, uint64_t life, bool moves, struct kv_counts *counts)
{
	uint64_t count = kv_store_slots(store);

	*counts = (struct kv_counts){0};
	memset(store->used, 0, store->buffers);
	for (uint64_t i = 0; i < count; i++)
		walk_slot(store, life, i, moves, counts);
}

void kv_store_count(struct kv_store *store, struct kv_counts *counts)
{
	walk(store, kv_store_life(store), false, counts);
}

/* make_all -- a new store's records, durably, in the index of its first life */
static int make_all(struct kv_store *store)
{
	const struct kv_layout *layout = store->layout;
	uint64_t count = layout->make ? kv_store_slots(store) : 0;

	for (uint64_t i = 0; i < count; i++) {
		layout->make(buffer_of(store, i), i);
		layout->put(store, index_of(store, 1), i, buffer_of(store, i));
	}
	return count ? store->persist(store->arg, buffer_of(store, 0), count * layout->buffer_size)
		     : 0;
}

/* move -- everything is in the index of the next life: begin that */
static int move(struct kv_store *store)
{
	struct super *super = super_of(store);
	uint64_t next = super->life + 1;
	int ret;

	super->peers[next % 2] = store->peers;
	ret = store->persist(store->arg, index_of(store, next),
			     index_len(store->layout, store->records));
	if (!ret)
		ret = store->persist(store->arg, super, PAGE);
	if (ret)
		return ret;
	super->life = next;
	ret = store->persist(store->arg, super, PAGE);
	if (ret || super->magic)
		return ret;
	/* Index number 0 is of nothing, and not durable: so a new store is none before its life. */
	super->magic = store->layout->magic;
	return store->persist(store->arg, super, PAGE);
}

static int check_super(const struct kv_store *store)
{
	const struct super *super = super_of(store);

	if (super->magic && super->magic != store->layout->magic) {
		fprintf(stderr, "the memory has something else than a store\n");
		return -FI_EINVAL;
	}
	if (super->magic && super->records != store->records) {
		fprintf(stderr, "the store was made for %llu records: -N has to say so\n",
			(unsigned long long) super->records);
		return -FI_EINVAL;
	}
	return 0;
}

/*
 * keep_super -- make durable what was found there, before the other index is changed: on the
 * medium that may still be the one in use, if the last target was killed before its sync or if the
 * sync has failed.  After a failure the page counts as clean, and a sync alone would not write it.
 */
static int keep_super(const struct kv_store *store)
{
	volatile uint64_t *life = &super_of(store)->life;
	uint64_t found = *life;

	*life = found;
	return store->persist(store->arg, super_of(store), PAGE);
}

int kv_store_start(struct kv_store *store, struct kv_counts *found)
{
	struct super *super = super_of(store);
	size_t len = index_len(store->layout, store->records);
	int ret = check_super(store);

	if (ret)
		return ret;
	store->buffers = store->records + store->layout->spare;
	store->used = calloc(store->buffers, 1);
	if (!store->used)
		return -FI_ENOMEM;
	if (super->magic) {
		ret = keep_super(store);
		if (ret)
			return ret;
	} else {
		*super = (struct super){.records = store->records};
		memset(index_of(store, 0), 0, len);
	}
	memset(index_of(store, super->life + 1), 0, len);
	walk(store, super->life, true, found);
	if (found->torn) {
		fprintf(stderr, "%llu slots lead to no whole record\n",
			(unsigned long long) found->torn);
		return -FI_EIO;
	}
	/* Where slots have a record from the start none is empty. */
	if (super->magic && store->layout->make && found->live != kv_store_slots(store)) {
		fprintf(stderr, "%llu slots have no record\n",
			(unsigned long long) (kv_store_slots(store) - found->live));
		return -FI_EIO;
	}
	if (!super->magic)
		ret = make_all(store);
	if (!ret)
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
