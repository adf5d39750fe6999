/* SPDX-License-Identifier: BSD-2-Clause */
/* key.c -- the rkey as carrier of what the memory is; key.h has the layout */
#include "memory/key.h"

#define KEY_FLAGS_SHIFT 35
#define KEY_PERSIST_SHIFT 32
#define KEY_PERSIST_MASK UINT64_C(0x7)
#define KEY_PERSIST_FLUSHABLE (PMV_WSP + UINT64_C(1))
#define KEY_PERSIST_ATOMIC_WRITE (PMV_WSP + UINT64_C(2))

enum {
	KEY_PMEM = 1 << 0,
	KEY_DDIO = 1 << 1,
	KEY_UNCACHED = 1 << 2,
	KEY_RELAXED = 1 << 3,
	KEY_READABLE = 1 << 4,
	KEY_WRITABLE = 1 << 5,
	KEY_EVENTS = 1 << 6,
};

uint64_t pmv_key_pack(uint32_t core_key, const struct pmv_attr *attr)
{
	uint64_t persist = attr->flushable ? KEY_PERSIST_FLUSHABLE + attr->atomic_write
					   : (uint64_t) attr->persist;
	uint64_t flags = attr->pmem * KEY_PMEM + attr->ddio * KEY_DDIO +
			 attr->uncached * KEY_UNCACHED + attr->relaxed * KEY_RELAXED +
			 attr->readable * KEY_READABLE + attr->writable * KEY_WRITABLE +
			 attr->events * KEY_EVENTS;

	return (uint64_t) pmv_key_start(attr->life) << PMV_KEY_LIFE_SHIFT |
	       flags << KEY_FLAGS_SHIFT | persist << KEY_PERSIST_SHIFT | core_key;
}

bool pmv_key_unpack(uint64_t key, struct pmv_attr *attr)
{
	uint64_t persist = key >> KEY_PERSIST_SHIFT & KEY_PERSIST_MASK;
	uint64_t flags = key >> KEY_FLAGS_SHIFT;

	if (!pmv_key_is_ours(key) || persist > KEY_PERSIST_ATOMIC_WRITE)
		return false;

	attr->flushable = persist >= KEY_PERSIST_FLUSHABLE;
	attr->atomic_write = persist == KEY_PERSIST_ATOMIC_WRITE;
	attr->persist = attr->flushable ? PMV_DMP : (enum pmv_persist) persist;
	attr->pmem = flags & KEY_PMEM;
	attr->ddio = flags & KEY_DDIO;
	attr->uncached = flags & KEY_UNCACHED;
	attr->relaxed = flags & KEY_RELAXED;
	attr->readable = flags & KEY_READABLE;
	attr->writable = flags & KEY_WRITABLE;
	attr->events = flags & KEY_EVENTS;
	attr->life = (uint16_t) (key >> PMV_KEY_LIFE_SHIFT);
	return true;
}

int pmv_key_compare(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *) a;
	uint32_t other = *(const uint32_t *) b;

	return one < other ? -1 : one > other;
}
