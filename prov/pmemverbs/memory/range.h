/* SPDX-License-Identifier: BSD-2-Clause */
/* range.h -- a range of a peer's memory, in the form in which it is sent */
#ifndef PMV_RANGE_H
#define PMV_RANGE_H

#include <stdint.h>

struct pmv_range {
	uint64_t addr;
	uint64_t len;
	uint64_t key; /* the core's, of 32 bits */
};

#endif /* PMV_RANGE_H */
