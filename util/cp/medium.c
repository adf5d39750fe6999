/* SPDX-License-Identifier: BSD-2-Clause */
/* medium.c -- the provider is asked about a file system; medium.h says why */
#include "medium.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "part.h"

/* A page of any processor, and a block of any disk. */
#define LEN 65536U

/* make_file -- with a name, as the provider refuses files without one; those of others stay */
static int make_file(int root, char name[NAME_MAX])
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd, err;

	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, NAME_MAX, ".medium.%d.%u" CP_PART_SUFFIX, (int) getpid(), i);
		fd = openat(root, name, flags, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		err = fd < 0 ? errno : posix_fallocate(fd, 0, LEN);
		if (!err)
			return fd;
		if (fd >= 0) {
			close(fd);
			unlinkat(root, name, 0);
		}
		return -err;
	}
	return -EEXIST;
}

/* lend_memory -- as a file is lent whose mapping is not good for it, but beside --max-memory */
static int lend_memory(struct node *node, int fd, cp_tick *tick, void *arg)
{
	struct cp_store own = {.lock = PTHREAD_MUTEX_INITIALIZER, .max_memory = LEN};
	struct cp_direct direct = {0};
	struct region region;
	int ret = cp_direct_open(&direct, &own, node, fd, LEN, tick, arg, 0);

	if (!ret)
		ret = cp_direct_register(&direct, node, &region, LEN);
	if (ret)
		return ret;
	region_close(&region);
	cp_direct_close(&direct);
	return 0;
}

static int lend(struct node *node, int fd, cp_tick *tick, void *arg, char reason[CP_TEXT])
{
	void *map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct region region;
	int mapped, direct;

	if (map == MAP_FAILED) {
		int err = errno;

		snprintf(reason, CP_TEXT, "%s", strerror(err));
		return err;
	}
	mapped = region_try(node, &region, map, LEN, FI_REMOTE_WRITE, FI_RMA_PMEM);
	if (!mapped)
		region_close(&region);
	munmap(map, LEN);
	direct = mapped ? lend_memory(node, fd, tick, arg) : 0;
	return direct ? cp_direct_explain(mapped, direct, reason) : 0;
}

int cp_medium_check(struct node *node, int root, cp_tick *tick, void *arg, char reason[CP_TEXT])
{
	char name[NAME_MAX];
	int fd = make_file(root, name), err;

	if (fd < 0) {
		snprintf(reason, CP_TEXT, "%s", strerror(-fd));
		return -fd;
	}
	err = lend(node, fd, tick, arg, reason);
	unlinkat(root, name, 0);
	close(fd);
	return err;
}
