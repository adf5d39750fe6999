/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h -- the memory regions of a test core */
#ifndef TESTCORE_MR_H
#define TESTCORE_MR_H

#include <stdbool.h>
#include <sys/queue.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

struct testcore_mr {
	struct fid_mr fid;
	LIST_ENTRY(testcore_mr) next;
	uint64_t access;
	size_t iov_count;
	struct iovec *iov;
};

LIST_HEAD(testcore_mrs, testcore_mr);

/* testcore_mr_init -- the core says what its key is and how it is closed */
void testcore_mr_init(struct testcore_mr *mr, struct testcore_mrs *all,
		      const struct fi_mr_attr *attr, uint64_t key, struct fi_ops *ops);
void testcore_mr_destroy(struct testcore_mr *mr);

/* testcore_mr_find -- NULL: no region has that key */
struct testcore_mr *testcore_mr_find(const struct testcore_mrs *all, uint64_t key);

/* testcore_mr_at -- where that part of a region is; NULL: outside, or in several pieces */
char *testcore_mr_at(const struct testcore_mr *mr, size_t offset, size_t len);

/* testcore_mr_reg -- for the table of a domain that has a regattr */
int testcore_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		    uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context);

#endif /* TESTCORE_MR_H */
