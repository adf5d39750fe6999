/* SPDX-License-Identifier: BSD-2-Clause */
/* count.h -- what a counter counts: operations that have ended */
#ifndef PMV_COUNT_H
#define PMV_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rdma/fabric.h>

struct pmv_count {
	atomic_uint_fast64_t value;
	atomic_uint_fast64_t errors;
};

/* An endpoint may have a counter for each kind of operation. */
enum pmv_count_kind {
	PMV_COUNT_SEND,
	PMV_COUNT_RECV,
	PMV_COUNT_READ,
	PMV_COUNT_WRITE,
	PMV_COUNT_REMOTE_WRITE, /* the agent counts these */
	PMV_COUNT_KINDS,
};

/* pmv_count_kind -- of an operation, by the flags of its completion */
static inline enum pmv_count_kind pmv_count_kind(uint64_t flags)
{
	if (flags & FI_RECV)
		return PMV_COUNT_RECV;
	if (flags & FI_SEND)
		return PMV_COUNT_SEND;
	return flags & FI_READ ? PMV_COUNT_READ : PMV_COUNT_WRITE;
}

static inline void pmv_count_add(struct pmv_count *count, bool ok)
{
	atomic_fetch_add(ok ? &count->value : &count->errors, 1);
}

#endif /* PMV_COUNT_H */
