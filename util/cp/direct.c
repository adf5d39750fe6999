/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.c -- files in memory while they are put; direct.h says which */
#include "direct.h"

#include <stdio.h>

#include <rdma/fi_ext_pmemverbs.h>

/* take -- memory for so many bytes, of what the store allows */
static bool take(struct cp_store *store, size_t len)
{
	bool fits;

	pthread_mutex_lock(&store->lock);
	fits = len <= store->max_memory - store->memory;
	if (fits)
		store->memory += len;
	pthread_mutex_unlock(&store->lock);
	return fits;
}

static void give_back(struct cp_store *store, size_t len)
{
	pthread_mutex_lock(&store->lock);
	store->memory -= len;
	pthread_mutex_unlock(&store->lock);
}

int cp_direct_open(struct cp_direct *direct, struct cp_store *store, struct node *node, int fd,
		   size_t len)
{
	struct fi_pmemverbs_file_attr attr = {.len = len};
	char path[32];
	int ret;

	/* The file itself, whatever has its name meanwhile. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	attr.path = path;
	ret = fi_open_ops(&node->domain->fid, FI_PMEMVERBS_FILE_OPS, 0, (void **) &direct->ops,
			  NULL);
	if (ret)
		return ret;
	if (!take(store, len))
		return -FI_ENOMEM;
	ret = direct->ops->open(node->domain, &attr, &direct->file);
	if (ret)
		give_back(store, len);
	else
		direct->store = store;
	return ret;
}

void *cp_direct_memory(const struct cp_direct *direct)
{
	return direct->file->addr;
}

void cp_direct_close(struct cp_direct *direct)
{
	size_t len;

	if (!direct->store)
		return;
	len = direct->file->len;
	/* Where a region of it could not be closed, its memory stays. */
	if (!direct->ops->close(direct->file))
		give_back(direct->store, len);
	*direct = (struct cp_direct){0};
}
