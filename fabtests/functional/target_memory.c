/* SPDX-License-Identifier: BSD-2-Clause */
/* target_memory.c -- what the target of the functional program does with its memory */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "target.h"
#include "../common/memory_direct.h"
#include "../common/stats.h"

/* is_free -- has no other target that file?  It is made. */
static bool is_free(const char *path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bool free = fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;

	if (fd >= 0)
		close(fd);
	return free;
}

/*
 * open_own_arena -- the first file that no other target has: one that takes the place of another
 * finds what that has left
 */
static int open_own_arena(struct target *target)
{
	unsigned int number = 0;
	int ret;

	do {
		snprintf(target->own_path, sizeof(target->own_path), "%s.%u", target->opts->memory,
			 number);
	} while (!is_free(memory_direct_path(target->own_path)) && ++number < 100);
	ret = memory_open(&target->arena, target->node.domain, target->own_path, ARENA_SIZE);
	if (ret)
		*target->own_path = '\0';
	return ret;
}

void close_arena(struct target *target)
{
	memory_unmap(&target->arena);
	if (*target->own_path)
		unlink(memory_direct_path(target->own_path));
}

/*
 * cmd_reg -- a region with guard bytes around it; skew moves it off the page
 * boundary, a seed of 0 leaves the memory's contents alone
 */
int cmd_reg(struct target *target, struct control_msg *msg)
{
	size_t len = msg->arg[0], skew = msg->arg[4] % PAGE;
	size_t total = (GUARD + skew + len + GUARD + PAGE - 1) / PAGE * PAGE;
	char *base;
	struct region *region;
	int i, ret = 0;

	for (i = 0; i < REGIONS && target->regions[i].mr; i++)
		;
	if (i == REGIONS || total > ARENA_SIZE - target->used)
		return -FI_ENOMEM;
	if (!target->node.domain)
		return -FI_EOPBADSTATE;
	if (!target->arena.base && open_own_arena(target))
		return -FI_ENOMEM;
	base = (char *) target->arena.base + target->used + GUARD + skew;
	region = &target->regions[i];
	if (msg->arg[3]) {
		pattern_fill(base - GUARD, GUARD, GUARD_SEED, 0);
		pattern_fill(base, len, msg->arg[3], 0);
		pattern_fill(base + len, GUARD, GUARD_SEED, 0);
		ret = memory_persist(&target->arena, base - GUARD, GUARD + len + GUARD);
	}
	if (!ret)
		ret = region_try(&target->node, region, base, len, msg->arg[1], msg->arg[2]);
	if (ret)
		return ret;
	target->used += total;
	msg->arg[0] = i;
	msg->arg[1] = region->addr;
	msg->arg[2] = region->key;
	return 0;
}

static struct fi_pmemverbs_chain_ops *chain_ops(struct target *target)
{
	struct fi_pmemverbs_chain_ops *ops;

	return fi_open_ops(&target->node.domain->fid, FI_PMEMVERBS_CHAIN_OPS, 0, (void **) &ops,
			   NULL)
		       ? NULL
		       : ops;
}

/* cmd_list -- all buffers of it are free */
int cmd_list(struct target *target, struct control_msg *msg)
{
	struct fi_pmemverbs_chain_ops *ops = chain_ops(target);
	struct region *region = find_region(target, msg->arg[0]);
	struct fi_pmemverbs_list **list = &target->lists[msg->arg[0] % REGIONS];
	int ret = ops && region && !*list
			  ? ops->list_open(region->mr, msg->arg[1], msg->arg[2], msg->arg[3], list)
			  : -FI_EINVAL;

	for (uint64_t i = 0; !ret && i < msg->arg[3]; i++)
		ret = ops->list_put(*list, (*list)->addr + i * msg->arg[2]);
	if (!ret)
		msg->arg[0] = (*list)->number;
	return ret;
}

int close_region(struct target *target, uint64_t id)
{
	int ret = region_close(&target->regions[id]);

	if (target->lists[id])
		chain_ops(target)->list_close(target->lists[id]);
	target->lists[id] = NULL;
	if (target->files[id].memory.base)
		own_file_close(&target->files[id]);
	CLOSE(target->cntrs[id]);
	target->cntrs[id] = NULL;
	return ret;
}

int cmd_dereg(struct target *target, uint64_t id)
{
	return find_region(target, id) ? close_region(target, id) : -FI_EINVAL;
}

/* cmd_file -- a region with guard bytes around it, in a file of its own */
int cmd_file(struct target *target, struct control_msg *msg, const char *path)
{
	struct own_file *file;
	struct region *region;
	size_t len = msg->arg[0];
	const char *beside;
	char *base;
	int i, ret;

	for (i = 0; i < REGIONS && target->regions[i].mr; i++)
		;
	if (i == REGIONS)
		return -FI_ENOMEM;
	file = &target->files[i];
	region = &target->regions[i];
	beside = memory_direct_path(target->opts->memory);
	ret = msg->len ? own_file_open(file, path)
		       : own_file_make(file, beside ? beside : target->opts->memory, i,
				       GUARD + len + GUARD);
	msg->len = 0;
	if (ret || file->memory.len < GUARD + len + GUARD)
		return -FI_EINVAL;
	base = (char *) file->memory.base + GUARD;
	if (msg->arg[1]) {
		pattern_fill(base - GUARD, GUARD, GUARD_SEED, 0);
		pattern_fill(base, len, msg->arg[1], 0);
		pattern_fill(base + len, GUARD, GUARD_SEED, 0);
	}
	ret = region_try(&target->node, region, base, len, FI_REMOTE_WRITE, FI_RMA_PMEM);
	if (ret) {
		own_file_close(file);
		return ret;
	}
	msg->arg[0] = i;
	msg->arg[1] = region->addr;
	msg->arg[2] = region->key;
	return 0;
}

int cmd_spoil(struct target *target, uint64_t id, enum spoil how)
{
	if (!find_region(target, id) || !target->files[id].memory.base)
		return -FI_EINVAL;
	return own_file_spoil(&target->files[id], how) ? -FI_EIO : 0;
}

int cmd_read(struct target *target, struct control_msg *msg, const void **reply)
{
	struct region *region = find_region(target, msg->arg[0]);
	const char *base;

	if (!region)
		return -FI_EINVAL;
	base = region->buf;
	msg->arg[0] = pattern_check(base - GUARD, GUARD, GUARD_SEED, 0) == GUARD &&
		      pattern_check(base + region->len, GUARD, GUARD_SEED, 0) == GUARD;
	msg->len = region->len;
	*reply = base;
	return 0;
}

/* cmd_watch -- what a reader sees who trusts the tail */
int cmd_watch(struct target *target, struct control_msg *msg, const void *payload)
{
	uint64_t deadline = deadline_in(target->opts->timeout);
	const volatile uint64_t *tail;
	uint64_t seen = 0, now;
	struct watch watch;
	const char *base;

	memcpy(&watch, payload, sizeof(watch));
	msg->len = 0;
	if (!find_region(target, watch.region))
		return -FI_EINVAL;
	base = target->regions[watch.region].buf;
	tail = (const volatile uint64_t *) (base + watch.tail);
	while (seen < watch.count && now_ns() < deadline) {
		target_progress(target);
		now = __atomic_load_n(tail, __ATOMIC_ACQUIRE);
		if (now > watch.count)
			return -FI_EIO;
		for (; seen < now; seen++) {
			if (pattern_check(base + seen * watch.size, watch.size,
					  watch.seed + seen + 1, seen * watch.size) != watch.size)
				return -FI_EIO;
		}
	}
	msg->arg[0] = seen;
	return 0;
}

/* A thread that does nothing but look at the memory */
struct watcher {
	pthread_t thread;
	const char *base;
	struct pairs pairs;
	uint64_t seen;
	bool wrong;
	atomic_bool done; /* the thread is */
	atomic_bool stop; /* it shall be */
};

static void *watch_pairs(void *arg)
{
	struct watcher *watcher = arg;
	const struct pairs *pairs = &watcher->pairs;
	const char *at;
	size_t offset;

	while (watcher->seen < pairs->count && !watcher->wrong && !watcher->stop) {
		offset = watcher->seen * pairs->stride;
		at = watcher->base + offset;
		if (pattern_check(at + pairs->first, pairs->second, pairs->old,
				  offset + pairs->first) == pairs->second)
			continue;
		__sync_synchronize();
		watcher->wrong = pattern_check(at, pairs->first, pairs->seed + watcher->seen,
					       offset) != pairs->first;
		watcher->seen++;
	}
	watcher->done = true;
	return NULL;
}

/* cmd_pairs -- as a reader in a thread of its own sees them */
int cmd_pairs(struct target *target, struct control_msg *msg, const void *payload)
{
	uint64_t deadline = deadline_in(target->opts->timeout);
	struct watcher watcher = {.seen = 0};
	struct region *region;

	memcpy(&watcher.pairs, payload, sizeof(watcher.pairs));
	msg->len = 0;
	region = find_region(target, watcher.pairs.region);
	if (!region)
		return -FI_EINVAL;
	watcher.base = region->buf;
	if (pthread_create(&watcher.thread, NULL, watch_pairs, &watcher))
		return -FI_ENOMEM;
	while (!watcher.done && now_ns() < deadline)
		target_progress(target);
	watcher.stop = true;
	pthread_join(watcher.thread, NULL);
	msg->arg[0] = watcher.seen;
	return watcher.wrong ? -FI_EIO : 0;
}
