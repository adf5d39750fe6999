/* SPDX-License-Identifier: BSD-2-Clause */
/* link.h -- an endpoint on the fake device, and all that it needs */
#ifndef PMR_TEST_LINK_H
#define PMR_TEST_LINK_H

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "pmemrdma/ep.h"
#include "pmemrdma/pmemrdma_post.h"
#include "fake_verbs.h"

struct link {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	char buf[4096];
	bool holds; /* pmemrdma_post.h; it is not established */
};

/* link_hints -- that name the provider */
struct fi_info *link_hints(void);

/* link_open -- connected; sizes of the queues.  0, or the error of the first call that fails */
int link_open(struct link *link, size_t tx_size, size_t cq_size, uint64_t cq_flags);

/*
 * link_close -- what is open; link_close_all -- these, some of which may be NULL.  A call that
 * fails, once, is made again; returns its error.
 */
int link_close(struct link *link);
int link_close_all(struct fid *const *fids, size_t count);

/* link_write -- of so many bytes, with these flags */
ssize_t link_write(struct link *link, size_t len, uint64_t flags, void *context);

/* link_lists -- the endpoint's table */
const struct pmemrdma_post_ops *link_lists(struct link *link);

/* link_pair -- a WRITE that is not wanted, and a READ that is; until the next call */
const struct pmemrdma_request *link_pair(struct link *link);

#define CONTEXT(n) ((void *) (uintptr_t) (n))

#endif /* PMR_TEST_LINK_H */
