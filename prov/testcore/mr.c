/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.c -- the memory regions of a test core */
#include "testcore/mr.h"

#include <stdlib.h>
#include <string.h>

#include "testcore/fid.h"

void testcore_mr_init(struct testcore_mr *mr, struct testcore_mrs *all,
		      const struct fi_mr_attr *attr, uint64_t key, struct fi_ops *ops)
{
	size_t len = attr->iov_count * sizeof(attr->mr_iov[0]);

	*mr = (struct testcore_mr){
		.fid = {.fid = {.fclass = FI_CLASS_MR, .context = attr->context, .ops = ops},
			.mem_desc = attr->mr_iov[0].iov_base,
			.key = key},
		.access = attr->access,
		.iov_count = attr->iov_count,
		.iov = testcore_need(malloc(len)),
	};
	memcpy(mr->iov, attr->mr_iov, len);
	LIST_INSERT_HEAD(all, mr, next);
}

void testcore_mr_destroy(struct testcore_mr *mr)
{
	LIST_REMOVE(mr, next);
	free(mr->iov);
}

struct testcore_mr *testcore_mr_find(const struct testcore_mrs *all, uint64_t key)
{
	struct testcore_mr *mr = LIST_FIRST(all);

	while (mr && mr->fid.key != key)
		mr = LIST_NEXT(mr, next);
	return mr;
}

char *testcore_mr_at(const struct testcore_mr *mr, size_t offset, size_t len)
{
	size_t i = 0;

	for (; i + 1 < mr->iov_count && offset >= mr->iov[i].iov_len; i++)
		offset -= mr->iov[i].iov_len;
	if (offset > mr->iov[i].iov_len || len > mr->iov[i].iov_len - offset)
		return NULL;
	return (char *) mr->iov[i].iov_base + offset;
}

int testcore_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		    uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	const struct fid_domain *domain = testcore_of(fid, struct fid_domain, fid);
	struct iovec iov = {(void *) buf, len};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return domain->mr->regattr(fid, &attr, flags, mr);
}
