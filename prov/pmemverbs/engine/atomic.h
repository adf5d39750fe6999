/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.h -- sizes of operands; and the calls, which all kinds of endpoints share */
#ifndef PMV_ATOMIC_H
#define PMV_ATOMIC_H

#include "base/table.h"
#include "engine/engine.h"

/* pmv_operand_size -- in bytes; the largest there is for types that a later libfabric has */
size_t pmv_operand_size(enum fi_datatype datatype);

/* The calls of an endpoint, whose fid_ep::atomic is the table in here. */
struct pmv_atomic_calls {
	PMV_TABLE(fi_ops_atomic) ops; /* pmv_atomic_fill */
	/* what all of them become, with the right lengths: length.h */
	ssize_t (*post)(struct fid_ep *fid, const struct pmv_atomic *atomic, uint64_t flags);
	uint64_t op_flags; /* of calls without flags */
};

/* pmv_atomic_fill -- in all calls that post */
void pmv_atomic_fill(struct fi_ops_atomic *ops);

#endif /* PMV_ATOMIC_H */
