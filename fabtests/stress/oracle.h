/* SPDX-License-Identifier: BSD-2-Clause */
/* oracle.h -- what oracle.c and oracle_told.c share; stress.h has what others call */
#ifndef PMEM_STRESS_ORACLE_H
#define PMEM_STRESS_ORACLE_H

#include "stress.h"

static inline struct entry *entry_at(struct lane *lane, uint64_t seq)
{
	return &lane->journal[seq % JOURNAL];
}

/* oracle_is_newer -- does a byte come from a write behind those up to seq? */
bool oracle_is_newer(struct lane *lane, uint64_t seq, uint32_t at, uint8_t is);

/*
 * oracle_claim_extent -- it is durable, with the lock held; before: the operation is executed, not
 * completed
 */
void oracle_claim_extent(unsigned int slot, const struct extent *extent, const struct op *op,
			 bool before);

#endif /* PMEM_STRESS_ORACLE_H */
