/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * key.h -- the rkey as carrier of what the memory is
 *
 * A 64-bit key is the core provider's key in the low half and, in the high
 * half, what its owner says of the region.  The initiator chooses the method
 * of a commit from the key alone: it has to know nothing else of the target.
 *
 *  63       56 55      48 47      42 41     36 35 34   32 31             0
 * +-----------+----------+----------+---------+--+-------+----------------+
 * | 0xf5 tag  | version  | zero     | flags   |  |persist| core key       |
 * +-----------+----------+----------+---------+--+-------+----------------+
 *
 * The tag keeps a plain core key, or one chosen by an application, from being
 * taken for one of ours.  Reserved bits are zero and checked: a later version
 * may use them, and an initiator that does not know their meaning must refuse
 * to commit instead of guessing.
 */
#ifndef PMV_KEY_H
#define PMV_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/persist.h"

struct pmv_attr {
	enum pmv_persist persist;
	bool pmem;     /* registered with FI_PMEM */
	bool ddio;     /* inbound DMA lands in caches, or may */
	bool uncached; /* registered with FI_UNCACHED */
	bool relaxed;  /* the path may place writes of one connection out of order */
	bool readable; /* peers may read: a flush READ can work */
	bool writable; /* peers may write */
};

#define PMV_KEY_TAG UINT64_C(0xf5)

uint64_t pmv_key_pack(uint32_t core_key, const struct pmv_attr *attr);

/*
 * pmv_key_unpack -- read what a key says.  False: it carries no attributes, or
 * some that this version does not know; attr is then untouched.
 */
bool pmv_key_unpack(uint64_t key, struct pmv_attr *attr);

/* pmv_key_is_ours -- or is it a plain peer's, all of whose 64 bits are the core's? */
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
