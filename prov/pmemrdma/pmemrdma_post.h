/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmemrdma_post.h -- what libfabric has no call for: several requests with one doorbell
 *
 * fi_open_ops(&ep->fid, PMEMRDMA_POST_OPS_V1, 0, (void **) &ops, NULL), on an endpoint of the
 * provider pmemrdma.
 */
#ifndef PMEMRDMA_POST_H
#define PMEMRDMA_POST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fi_endpoint.h>

#define PMEMRDMA_POST_OPS_V1 "pmemrdma_post_ops_v1"

/* The most requests of one list. */
#define PMEMRDMA_MAX_LIST 4

enum pmemrdma_kind {
	PMEMRDMA_WRITE,
	PMEMRDMA_READ,
	PMEMRDMA_SEND,
};

struct pmemrdma_request {
	enum pmemrdma_kind kind;
	/*
	 * FI_COMPLETION: its success is told, whatever the endpoint is bound with; without it only
	 * its failure is, as an error entry with its context.  FI_FENCE: behind all earlier READs
	 * and atomics.  FI_INJECT: as of fi_writemsg.  FI_REMOTE_CQ_DATA: with `data`.
	 */
	uint64_t flags;
	const struct iovec *iov;
	void **desc;
	size_t iov_count;
	uint64_t addr; /* WRITE and READ: at the target */
	uint64_t key;
	uint64_t data;
	void *context;
};

struct pmemrdma_post_ops {
	size_t size;
	/*
	 * In this order, with one doorbell.  Returns how many were posted, which are fewer than all
	 * only if the device has refused the next one; -FI_EAGAIN: there is no room for all, and
	 * none was posted; -FI_EOPNOTSUPP, with any count: it is no endpoint of this provider, but
	 * one in front of it (FI_HOOK); or another negative fi_errno, and none was posted.
	 */
	ssize_t (*post)(struct fid_ep *ep, const struct pmemrdma_request *requests, size_t count);
};

#endif /* PMEMRDMA_POST_H */
