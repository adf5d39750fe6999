/* SPDX-License-Identifier: BSD-2-Clause */
/* file_ops.c -- FI_PMEMVERBS_FILE_OPS: memory with a file behind it, for applications */
#include "objects/domain.h"

#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "memory/direct.h"
#include "memory/direct_path.h"

/* So much of the memory is made durable at once. */
#define PERSIST_SLICE ((size_t) 16 << 20)

struct file {
	struct fi_pmemverbs_file file;
	struct pmv_direct *direct;
};

static int file_open(struct fid_domain *domain, const struct fi_pmemverbs_file_attr *attr,
		     struct fi_pmemverbs_file **result)
{
	struct pmv_direct_attr direct_attr;
	struct file *file;
	struct pmv_mem mem;
	struct iovec memory;
	int ret;

	(void) domain;
	if (!attr || !result)
		return -FI_EINVAL;
	direct_attr = (struct pmv_direct_attr){
		.path = attr->path,
		.offset = attr->offset,
		.len = attr->len,
		.create = attr->flags & FI_PMEMVERBS_FILE_CREATE,
		.exclusive = attr->flags & FI_PMEMVERBS_FILE_EXCL,
		.mode = attr->mode,
	};
	if (attr->flags & ~(FI_PMEMVERBS_FILE_CREATE | FI_PMEMVERBS_FILE_EXCL))
		return -FI_EBADFLAGS;
	file = malloc(sizeof(*file));
	if (!file)
		return -FI_ENOMEM;
	ret = pmv_direct_open(&direct_attr, &file->direct, &mem);
	if (ret) {
		PMV_WARN(MR, "no memory with a file behind it: %s\n", mem.what);
		free(file);
		return ret;
	}
	memory = pmv_direct_memory(file->direct);
	file->file = (struct fi_pmemverbs_file){.addr = memory.iov_base, .len = memory.iov_len};
	*result = &file->file;
	return 0;
}

static int file_close(struct fi_pmemverbs_file *closed)
{
	struct file *file = pmv_container_of(closed, struct file, file);
	int ret = pmv_direct_close(file->direct);

	if (!ret)
		free(file);
	return ret;
}

static int file_persist(struct fi_pmemverbs_file *persisted, const void *addr, size_t len)
{
	struct file *file = pmv_container_of(persisted, struct file, file);
	uintptr_t start = (uintptr_t) persisted->addr, at = (uintptr_t) addr;
	int ret = 0;

	if (at < start || at - start > persisted->len || len > persisted->len - (at - start))
		return -FI_EINVAL;
	/*
	 * Commits to the file go on in between.  After an error, too: a later success says that all
	 * of it is durable.
	 */
	do {
		const struct iovec range = {(void *) at, len < PERSIST_SLICE ? len : PERSIST_SLICE};
		int err = pmv_direct_write(file->direct, &range, 1);

		ret = ret ? ret : err;
		at += range.iov_len;
		len -= range.iov_len;
	} while (len);
	return ret;
}

static int file_query(struct fid_domain *domain, const char *path,
		      struct fi_pmemverbs_file_path *answer)
{
	struct pmv_direct_path found;
	struct pmv_mem mem;
	int error;

	(void) domain;
	if (!path || !answer)
		return -FI_EINVAL;
	error = pmv_direct_path_query(path, &found, &mem);
	*answer = (struct fi_pmemverbs_file_path){
		.error = error,
		.block_size = PMV_BLOCK,
		.sector_size = found.sector_size,
		.fua = found.fua,
	};
	snprintf(answer->why, sizeof(answer->why), "%.319s", answer->error ? mem.what : "");
	snprintf(answer->file_system, sizeof(answer->file_system), "%s", found.file_system);
	snprintf(answer->device, sizeof(answer->device), "%s", found.device);
	return 0;
}

struct fi_pmemverbs_file_ops pmv_file_ops = {
	.size = sizeof(struct fi_pmemverbs_file_ops),
	.open = file_open,
	.close = file_close,
	.persist = file_persist,
	.query = file_query,
};
