/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cq.h -- the completion queue of a test core
 *
 * It has no lock: a core that is used by threads takes its own one around each
 * call.  Its memory is the same for the same entries, whatever was there before,
 * so that a model checker recognises a state that it has seen.
 */
#ifndef TESTCORE_CQ_H
#define TESTCORE_CQ_H

#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

struct testcore_entry {
	int err; /* 0: a success; else a positive fi_errno */
	int prov_errno;
	struct fi_cq_tagged_entry ok;
};

struct testcore_cq {
	struct fid_cq fid;
	size_t entry_size;
	size_t first; /* the oldest one's place: 0, unless there are many */
	size_t count;
	size_t room;
	struct testcore_entry *entries;
};

/* testcore_cq_init -- the core brings its own way to close it; the rest it may replace */
void testcore_cq_init(struct testcore_cq *cq, const struct fi_cq_attr *attr, struct fi_ops *ops,
		      void *context);
void testcore_cq_destroy(struct testcore_cq *cq);

void testcore_cq_add(struct testcore_cq *cq, const struct testcore_entry *entry);

/* These two are as fi_cq_read and fi_cq_readerr are. */
ssize_t testcore_cq_read(struct fid_cq *fid, void *buf, size_t count);
ssize_t testcore_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags);

#endif /* TESTCORE_CQ_H */
