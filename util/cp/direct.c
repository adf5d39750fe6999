/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.c -- files in memory while they are put; direct.h says which */
#include "direct.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

/* take -- memory for so many bytes, of what the store allows */
static bool take(struct cp_store *store, size_t len)
{
	bool fits;
	uint64_t most;

	pthread_mutex_lock(&store->lock);
	most = store->max_memory;
	fits = store->memory <= most && len <= most - store->memory;
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

/* One opening, in a thread of its own. */
struct opening {
	struct cp_direct *direct;
	struct fid_domain *domain;
	struct fi_pmemverbs_file_attr attr;
	int ret;
};

static void *open_file(void *arg)
{
	struct opening *opening = arg;
	struct cp_direct *direct = opening->direct;

	opening->ret = direct->ops->open(opening->domain, &opening->attr, &direct->file);
	return NULL;
}

/* used_us -- of processors, by a thread: it stands still while the disk does not answer */
static uint64_t used_us(pthread_t thread)
{
	struct timespec used = {0};
	clockid_t clock;

	if (!pthread_getcpuclockid(thread, &clock))
		clock_gettime(clock, &used);
	return (uint64_t) used.tv_sec * 1000000 + (uint64_t) used.tv_nsec / 1000;
}

/* open_watched -- the thread is waited for in any case: it has the file */
static int open_watched(struct opening *opening, cp_tick *tick, void *arg, uint64_t done)
{
	bool given_up = false;
	struct timespec until;
	pthread_t thread;
	int err = pthread_create(&thread, NULL, open_file, opening);

	if (err)
		return -err;
	do {
		if (!given_up)
			given_up = tick(arg, done + used_us(thread)) != 0;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
	} while (pthread_timedjoin_np(thread, NULL, &until) == ETIMEDOUT);
	if (!opening->ret && given_up) {
		opening->direct->ops->close(opening->direct->file);
		return -FI_ECANCELED;
	}
	return opening->ret;
}

int cp_direct_open(struct cp_direct *direct, struct cp_store *store, struct node *node, int fd,
		   size_t len, cp_tick *tick, void *arg, uint64_t done)
{
	struct opening opening = {.direct = direct, .domain = node->domain, .attr = {.len = len}};
	char path[32];
	int ret;

	/* The memory goes with its region. */
	if (!node_is_passive(node))
		return -FI_EOPNOTSUPP;
	/* The file itself, whatever has its name meanwhile. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opening.attr.path = path;
	ret = fi_open_ops(&node->domain->fid, FI_PMEMVERBS_FILE_OPS, 0, (void **) &direct->ops,
			  NULL);
	if (ret)
		return -FI_EOPNOTSUPP;
	if (!take(store, len))
		return -EDQUOT;
	ret = open_watched(&opening, tick, arg, done);
	if (ret)
		give_back(store, len);
	else
		direct->store = store;
	return ret;
}

int cp_direct_register(struct cp_direct *direct, struct node *node, struct region *region,
		       size_t len)
{
	int ret = region_try(node, region, direct->file->addr, len, FI_REMOTE_WRITE, FI_PMEM);

	if (ret)
		cp_direct_close(direct);
	return ret;
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

int cp_direct_explain(int mapped, int direct, char reason[CP_TEXT])
{
	if (direct == -EDQUOT) {
		snprintf(reason, CP_TEXT,
			 "files that a NIC can't write to are in memory while they are put, and "
			 "there is no room for this one now (--max-memory at the target)");
		return EDQUOT;
	}
	if (direct != -FI_EOPNOTSUPP) {
		snprintf(reason, CP_TEXT,
			 "the target can't have the file in memory while it is put: %s%s; with "
			 "FI_LOG_LEVEL=warn the target says more",
			 fi_strerror(-direct),
			 direct == -FI_ENOMEM ? " (is its limit of locked memory too low?)" : "");
		return -direct;
	}
	snprintf(reason, CP_TEXT,
		 "the provider refuses the target's memory: %s; with FI_LOG_LEVEL=warn the target "
		 "says why. A file system in memory (tmpfs) is not durable; to try things out "
		 "there, start the target with FI_PMEMVERBS_DOMAIN=mhp, which declares it durable",
		 fi_strerror(-mapped));
	return EOPNOTSUPP;
}
