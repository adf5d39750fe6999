/* SPDX-License-Identifier: BSD-2-Clause */
/* memory_direct.c -- memory with a file behind it, by FI_PMEMVERBS_FILE_OPS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "memory_direct.h"

struct opened {
	struct fi_pmemverbs_file *file;
	struct fi_pmemverbs_file_ops *ops;
};

static void close_file(struct memory *mem)
{
	struct opened *opened = mem->file;

	opened->ops->close(opened->file);
	free(opened);
}

static int open_file(struct opened *opened, struct fid_domain *domain, const char *path, size_t len)
{
	const struct fi_pmemverbs_file_attr attr = {
		.path = path,
		.len = (len + 4095) / 4096 * 4096,
		.flags = FI_PMEMVERBS_FILE_CREATE,
		.mode = 0666,
	};
	int ret = fi_open_ops(&domain->fid, FI_PMEMVERBS_FILE_OPS, 0, (void **) &opened->ops, NULL);

	if (!ret)
		ret = opened->ops->open(domain, &attr, &opened->file);
	if (ret)
		fprintf(stderr, "%s: direct I/O: %s\n", path, strerror(-ret));
	return ret;
}

int memory_open(struct memory *mem, struct fid_domain *domain, const char *name, size_t len)
{
	const char *path = memory_direct_path(name);
	struct opened *opened;

	if (!path)
		return memory_map(mem, name, len);
	*mem = (struct memory){.len = len};
	opened = calloc(1, sizeof(*opened));
	if (!opened || open_file(opened, domain, path, len)) {
		free(opened);
		return -1;
	}
	mem->file = opened;
	mem->close = close_file;
	mem->base = opened->file->addr;
	return 0;
}

int memory_persist(struct memory *mem, const void *addr, size_t len)
{
	struct opened *opened = mem->file;

	return opened ? opened->ops->persist(opened->file, addr, len) : 0;
}
