/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmemrdma_post.h -- what libfabric has no call for: several requests with one doorbell, RDMA FLUSH
 * and ATOMIC WRITE
 *
 * fi_open_ops(&ep->fid, PMEMRDMA_POST_OPS_V3, 0, (void **) &ops, NULL), on an endpoint of the
 * provider pmemrdma.
 */
#ifndef PMEMRDMA_POST_H
#define PMEMRDMA_POST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fi_endpoint.h>

#define PMEMRDMA_POST_OPS_V3 "pmemrdma_post_ops_v3"

/* The most requests of one list. */
#define PMEMRDMA_MAX_LIST 4

enum pmemrdma_kind {
	PMEMRDMA_WRITE,
	PMEMRDMA_READ,
	PMEMRDMA_SEND,
	/*
	 * All that was written there before, on this connection, is visible at the target, or
	 * persistent, when it completes.  A region without the right to it ends the connection.
	 */
	PMEMRDMA_FLUSH,
	/*
	 * Of 8 bytes, which are taken at once, to an address that is a multiple of 8.  Unlike a
	 * WRITE it is executed only when earlier FLUSHes, READs and atomics have been, and not at
	 * all if one of them, or an earlier WRITE, has failed.
	 */
	PMEMRDMA_ATOMIC_WRITE,
};

/* What a FLUSH does with the data. */
enum pmemrdma_flush {
	PMEMRDMA_FLUSH_GLOBAL = 1 << 0,
	PMEMRDMA_FLUSH_PERSISTENT = 1 << 1,
	/* None of them, but of `flushes`: an ATOMIC WRITE may stand between two of them. */
	PMEMRDMA_ATOMIC_WRITES = 1 << 2,
};

/*
 * A flag of fi_mr_regattr and its like: peers may FLUSH the region, in all ways that its device
 * has.  Without any, -FI_EOPNOTSUPP; memory that the kernel does not take for persistent is refused
 * by it.
 */
#define PMEMRDMA_MR_FLUSH (1ULL << 61)

/* ... and may ATOMIC WRITE to it; -FI_EOPNOTSUPP, if its device has none */
#define PMEMRDMA_MR_ATOMIC_WRITE (1ULL << 62)

/*
 * In caps of the hints of fi_getinfo: only devices that can FLUSH persistently are offered, by a
 * libibverbs that can.  It is not among the capabilities that are offered.
 */
#define PMEMRDMA_FLUSHES (1ULL << 61)

struct pmemrdma_request {
	enum pmemrdma_kind kind;
	/*
	 * FI_COMPLETION: its success is told, whatever the endpoint is bound with; without it only
	 * its failure is, as an error entry with its context and, also of a FLUSH, FI_WRITE among
	 * its flags; other entries of a FLUSH have FI_READ.  FI_FENCE: behind all earlier READs
	 * and atomics; of a FLUSH it is refused, and no fence waits for one.  FI_INJECT: as of
	 * fi_writemsg.  FI_REMOTE_CQ_DATA: with `data`.
	 */
	uint64_t flags;
	const struct iovec *iov;
	void **desc;
	size_t iov_count;
	uint64_t addr; /* at the target; not of a SEND */
	uint64_t key;
	uint64_t data;
	void *context;
	/* Of a FLUSH, which has no buffers: */
	uint64_t len;
	unsigned flush; /* one of enum pmemrdma_flush */
	/*
	 * All of the region, wherever addr and len are.  Soft-RoCE takes 32 bits of its length, and
	 * flushes less of a region of 4 GiB or more, without an error.
	 */
	bool whole;
};

struct pmemrdma_post_ops {
	size_t size;
	/*
	 * In this order, with one doorbell; with FLUSHes and ATOMIC WRITEs only if all others are
	 * WRITEs from one buffer at most, without immediate data, and then all are posted or none.
	 * Returns how many were posted, which are fewer than all only if the device has refused
	 * the next one; -FI_EAGAIN: there is no room for
	 * all, and none was posted; -FI_EOPNOTSUPP, with any count: it is no endpoint of this
	 * provider, but one in front of it (FI_HOOK); or another negative fi_errno, and none was
	 * posted.
	 */
	ssize_t (*post)(struct fid_ep *ep, const struct pmemrdma_request *requests, size_t count);
	/*
	 * enum pmemrdma_flush: the ways in which this endpoint, which is connected, can FLUSH.
	 * That the peer and its region can is for the caller to know.
	 */
	unsigned (*flushes)(struct fid_ep *ep);
	/*
	 * hold -- before fi_connect: FI_CONNECTED with the peer's private data comes before there
	 * is a connection, and nothing that the peer sends is received until establish is called.
	 * fi_shutdown refuses the peer then.  establish: 0, also if it is not held, or a negative
	 * fi_errno.
	 */
	void (*hold)(struct fid_ep *ep);
	int (*establish)(struct fid_ep *ep);
};

#endif /* PMEMRDMA_POST_H */
