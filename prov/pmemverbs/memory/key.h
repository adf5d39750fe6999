/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * key.h -- the rkey as carrier of what the memory is
 *
 * The low half is the core provider's key, the high half is what its owner says of the
 * region.  From it alone the initiator chooses the method of a commit.
 *
 *  63       56 55      48 47      43 42     36 35 34   32 31             0
 * +-----------+----------+----------+---------+--+-------+----------------+
 * | 0xf5 tag  | version  | zero     | flags   |  |persist| core key       |
 * +-----------+----------+----------+---------+--+-------+----------------+
 *
 * The tag keeps other keys from being taken for ours.  Reserved bits are zero and
 * checked: an initiator that does not know what they mean must refuse to commit.
 */
#ifndef PMV_KEY_H
#define PMV_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/setting.h"

struct pmv_attr {
	enum pmv_persist persist;
	bool pmem;     /* registered with FI_PMEM */
	bool ddio;     /* inbound DMA lands in caches, or may */
	bool uncached; /* registered with FI_UNCACHED */
	bool relaxed;  /* the path may place writes of one connection out of order */
	bool readable; /* peers may read: a flush READ can work */
	bool writable; /* peers may write */
	bool events;   /* the owner's application is to be told of their writes */
};

/* A range of a peer's memory, in the form in which it is sent. */
struct pmv_range {
	uint64_t addr;
	uint64_t len;
	uint64_t key; /* the core's, of 32 bits */
};

#define PMV_KEY_TAG UINT64_C(0xf5)

uint64_t pmv_key_pack(uint32_t core_key, const struct pmv_attr *attr);

/* pmv_key_unpack -- false, and attr is untouched: it carries none, or some that are unknown here */
bool pmv_key_unpack(uint64_t key, struct pmv_attr *attr);

/* pmv_key_is_ours -- false: it is a plain peer's, and all 64 bits are the core's */
static inline bool pmv_key_is_ours(uint64_t key)
{
	return key >> 56 == PMV_KEY_TAG;
}

static inline uint64_t pmv_key_core(uint64_t key)
{
	return key & UINT32_MAX;
}

/* pmv_key_compare -- the order of a search tree whose nodes begin with a core key */
int pmv_key_compare(const void *a, const void *b);

#endif /* PMV_KEY_H */
