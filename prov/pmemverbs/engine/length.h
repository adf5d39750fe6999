/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * length.h -- how much an operation writes or reads
 *
 * An application says it twice: by its own buffers, and by the places at the target.  The two
 * may disagree.  Then verbs ignores the lengths of the places, and tcp trusts them and loses
 * track of its stream.  This provider must remember, and commit, all that was written.  So
 * the buffers decide, here and for the core.
 */
#ifndef PMV_LENGTH_H
#define PMV_LENGTH_H

#include <stddef.h>
#include <sys/uio.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

/* rma_iov_limit of the cores is at most this. */
#define PMV_MAX_RMA 8

static inline size_t pmv_iov_len(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* Room for a message with another length. */
struct pmv_rma_msg {
	struct fi_msg_rma msg;
	struct fi_rma_iov place;
};

struct pmv_atomic_msg {
	struct fi_msg_atomic msg;
	struct fi_rma_ioc place;
};

/*
 * pmv_write_lengths -- of a write or a read: the message itself, or a copy in `copy` with
 * the length of the buffers.  NULL after a warning: it names too many places, or several whose
 * lengths do not add up, and nobody can tell which of them is wrong.
 */
const struct fi_msg_rma *pmv_write_lengths(const struct fi_msg_rma *msg, struct pmv_rma_msg *copy);

/* pmv_atomic_lengths -- the same; `count` is the number of operands */
const struct fi_msg_atomic *pmv_atomic_lengths(const struct fi_msg_atomic *msg, size_t count,
					       struct pmv_atomic_msg *copy);

#endif /* PMV_LENGTH_H */
