/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * key.h -- the rkey as carrier of what the memory is
 *
 * The low half is the core provider's key, the high half is what its owner says of the
 * region.  From it alone the initiator chooses the method of a commit.
 *
 *  63      58 57           42 41     35 34     32 31             0
 * +----------+---------------+---------+---------+----------------+
 * | 0x3d tag | life          | flags   | persist | core key       |
 * +----------+---------------+---------+---------+----------------+
 *
 * persist is enum pmv_persist, or 5: DMP that is flushable, or 6: that, with ATOMIC WRITE.
 *
 * The tag keeps plain keys of up to 32 bits from being taken for ours; longer ones that an
 * application chooses may look like it, so keys of peers that have sent no handshake say nothing.
 * A later layout has another tag.
 *
 * Cores give the same keys again: tcp counts them from 1 in each domain, and a NIC may find the
 * one that it has had before.  So a key that was handed over before the target was started again
 * may be valid there, and lead to other memory.  Hence each domain has a random number, its life.
 * Its keys have it, and so has what it says when it connects (agent/wire.h).  The initiator
 * refuses a key that does not have the number of the connection's other end.  Two lives have the
 * same number once in 65,536 times.
 */
#ifndef PMV_KEY_H
#define PMV_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/setting.h"

struct pmv_attr {
	enum pmv_persist persist;
	bool pmem;         /* registered with FI_PMEM */
	bool ddio;         /* inbound DMA lands in caches, or may */
	bool uncached;     /* registered with FI_UNCACHED */
	bool relaxed;      /* the path may place writes of one connection out of order */
	bool readable;     /* peers may read: a flush READ can work */
	bool writable;     /* peers may write */
	bool events;       /* the owner's application is to be told of their writes */
	bool flushable;    /* DMP: an RDMA FLUSH from afar makes it durable, wherever data land */
	bool atomic_write; /* ... and an ATOMIC WRITE may stand behind one */
	uint16_t life;     /* of the owner's domain */
};

/* A range of a peer's memory, in the form in which it is sent. */
struct pmv_range {
	uint64_t addr;
	uint64_t len;
	uint64_t key; /* the core's, of 32 bits */
};

#define PMV_KEY_TAG UINT64_C(0x3d)
#define PMV_KEY_TAG_SHIFT 58
#define PMV_KEY_LIFE_SHIFT 42

uint64_t pmv_key_pack(uint32_t core_key, const struct pmv_attr *attr);

/* pmv_key_unpack -- false, and attr is untouched: it carries none, or some that are unknown here */
bool pmv_key_unpack(uint64_t key, struct pmv_attr *attr);

/* pmv_key_is_ours -- false: it is a plain peer's, and all 64 bits are the core's */
static inline bool pmv_key_is_ours(uint64_t key)
{
	return key >> PMV_KEY_TAG_SHIFT == PMV_KEY_TAG;
}

/* pmv_key_start -- what all keys of a life begin with; never 0 */
static inline uint32_t pmv_key_start(uint16_t life)
{
	return (uint32_t) (PMV_KEY_TAG << (PMV_KEY_TAG_SHIFT - PMV_KEY_LIFE_SHIFT)) | life;
}

/* pmv_key_fits -- false: it is of another life than the one with this start; 0: that is unknown */
static inline bool pmv_key_fits(uint64_t key, uint32_t start)
{
	return key >> PMV_KEY_LIFE_SHIFT == start || !start || !pmv_key_is_ours(key);
}

static inline uint64_t pmv_key_core(uint64_t key)
{
	return key & UINT32_MAX;
}

/* pmv_key_compare -- the order of a search tree whose nodes begin with a core key */
int pmv_key_compare(const void *a, const void *b);

#endif /* PMV_KEY_H */
