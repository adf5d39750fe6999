/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shadow.c -- stands in for msync and libpmem2: what they write back is in the shadow
 *
 * The provider, which is loaded later, finds these functions in the program before it finds those
 * of the libraries.  What is flushed is staged: its bytes are taken when the flush is called,
 * and are durable when the same thread drains.  A sync takes the bytes when it is
 * called, and they are durable when the kernel has synced and it returns.  So nothing is in the
 * shadow that the provider does not wait for.
 *
 * Several threads may stage the same line.  The order in which they took its bytes decides which
 * are newer.
 */
#include <inttypes.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <errno.h>
#include <unistd.h>

#include <libpmem2.h>

#include "test/support/dice.h"
#include "stress.h"

#define LINE 64

struct staged {
	uint64_t order;
	size_t line;
	uint8_t bytes[LINE];
};

/* What a thread has staged */
struct stage {
	struct staged *lines;
	size_t count, room;
};

static bool active;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_order, *orders; /* of each line in the shadow */
static uint64_t dice_state;
static char path[PATH_MAX]; /* of the memory */
static __thread struct stage flushed, written;
static __thread bool
	failing; /* one of the ranges that were started together could not be written */
static pthread_key_t flushed_lines, written_lines; /* they free a thread's */

void shadow_begin(void)
{
	orders = calloc(memory_len() / LINE + 1, sizeof(*orders));
	if (!orders || (stress.memory && !realpath(stress.memory, path)))
		stress_fail("the shadow: %s", strerror(errno));
	if (pthread_key_create(&flushed_lines, free) || pthread_key_create(&written_lines, free))
		stress_fail("the shadow: no key");
	dice_state = world->seed * 2 + 1;
	active = true;
}

static void take(struct stage *stage, size_t from, size_t to)
{
	from /= LINE;
	to = (to + LINE - 1) / LINE;
	pthread_mutex_lock(&lock);
	if (stage->count + (to - from) > stage->room) {
		stage->room = 2 * (stage->count + (to - from));
		stage->lines = realloc(stage->lines, stage->room * sizeof(*stage->lines));
		if (!stage->lines)
			stress_fail("no memory to stage in");
		pthread_setspecific(stage == &written ? written_lines : flushed_lines,
				    stage->lines);
	}
	for (; from < to; from++) {
		struct staged *staged = &stage->lines[stage->count++];

		staged->order = ++last_order;
		staged->line = from;
		memcpy(staged->bytes, live + from * LINE, LINE);
	}
	pthread_mutex_unlock(&lock);
}

/* publish -- what this thread has staged is durable */
static void publish(struct stage *stage)
{
	bool forgotten;

	pthread_mutex_lock(&lock);
	forgotten = stress.forget && one_in(&dice_state, stress.forget);
	for (size_t i = 0; i < stage->count && !forgotten; i++) {
		const struct staged *staged = &stage->lines[i];

		if (staged->order < orders[staged->line])
			continue;
		orders[staged->line] = staged->order;
		memcpy(shadow + staged->line * LINE, staged->bytes, LINE);
	}
	stage->count = 0;
	pthread_mutex_unlock(&lock);
}

static bool inside(const void *addr)
{
	return (const uint8_t *) addr >= live && (const uint8_t *) addr < live + memory_len();
}

static void flush(const void *addr, size_t len)
{
	size_t from = (size_t) ((const uint8_t *) addr - live);

	if (!active || !inside(addr))
		return;
	if (!flushed.count)
		oracle_all_fences();
	take(&flushed, from, from + len);
}

static void drain(void)
{
	if (!active)
		return;
	oracle_all_fences();
	publish(&flushed);
	stress_count(C_DRAINS, 1);
}

static void *copy(void *to, const void *from, size_t len, unsigned int flags)
{
	(void) flags;
	memcpy(to, from, len);
	flush(to, len);
	return to;
}

pmem2_flush_fn pmem2_get_flush_fn(struct pmem2_map *map)
{
	(void) map;
	return flush;
}

pmem2_drain_fn pmem2_get_drain_fn(struct pmem2_map *map)
{
	(void) map;
	return drain;
}

pmem2_memcpy_fn pmem2_get_memcpy_fn(struct pmem2_map *map)
{
	(void) map;
	return copy;
}

/* find -- where in the memory's file an address is mapped; false: that is another file */
static bool find(uintptr_t addr, size_t *offset)
{
	FILE *maps = *path ? fopen("/proc/self/maps", "r") : NULL;
	char line[PATH_MAX + 100], name[PATH_MAX];
	uint64_t start, stop, from;
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095s",
			       &start, &stop, &from, name) == 4 &&
			start <= addr && addr < stop && !strcmp(name, path);
	}
	if (maps)
		fclose(maps);
	if (found)
		*offset = from + (addr - start);
	return found;
}

static unsigned int region_of(size_t offset)
{
	size_t region = offset % slot_len() / region_len();

	return region < REGIONS ? (unsigned int) region : REGIONS;
}

static atomic_bool *lost_at(size_t offset)
{
	return &world->slots[offset / slot_len()].lost[region_of(offset)];
}

/* lose -- nothing more is written back in its region until that is registered again */
static void lose(size_t offset)
{
	if (!atomic_exchange(lost_at(offset), true))
		atomic_fetch_add(&world->slots[offset / slot_len()].faults, 1);
}

/* fails -- shall this sync? */
static bool fails(size_t offset)
{
	bool now;

	pthread_mutex_lock(&lock);
	now = stress.faults && one_in(&dice_state, stress.faults);
	pthread_mutex_unlock(&lock);
	if (!now || atomic_load(lost_at(offset)))
		return false;
	lose(offset);
	stress_count(C_FAILURES, 1);
	errno = EIO;
	return true;
}

/* lose_written -- what was written before is not flushed */
static void lose_written(void)
{
	for (size_t i = 0; i < written.count; i++)
		lose(written.lines[i].line * LINE);
	written.count = 0;
}

int msync(void *addr, size_t len, int flags)
{
	size_t offset;
	int ret;

	if (!active || !find((uintptr_t) addr, &offset))
		return (int) syscall(SYS_msync, addr, len, flags);
	oracle_all_fences();
	if (fails(offset)) {
		lose_written();
		errno = EIO;
		return -1;
	}
	stress_count(C_SYNCS, 1);
	if (atomic_load(lost_at(offset)))
		return 0;
	take(&written, offset, offset + len);
	ret = (int) syscall(SYS_msync, addr, len, flags);
	if (!ret)
		publish(&written);
	written.count = 0;
	return ret;
}

static bool is_memory(int fd)
{
	struct stat one, other;

	return *path && !fstat(fd, &one) && !stat(path, &other) && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

/* await_range -- if one of those that are awaited together fails, all of them are lost */
static bool await_range(size_t offset, size_t len)
{
	stress_count(C_WRITTEN, 1);
	if (!failing && fails(offset)) {
		failing = true;
		lose_written();
		errno = EIO;
		return false;
	}
	if (failing)
		lose(offset);
	else if (!atomic_load(lost_at(offset)))
		take(&written, offset, offset + len);
	return true;
}

int sync_file_range(int fd, off_t offset, off_t len, unsigned int flags)
{
	bool ours = active && is_memory(fd);

	if (ours && flags == SYNC_FILE_RANGE_WRITE)
		failing = false;
	if (ours && flags == SYNC_FILE_RANGE_WRITE_AND_WAIT &&
	    !await_range((size_t) offset, (size_t) len))
		return -1;
	return (int) syscall(SYS_sync_file_range, fd, offset, len, flags);
}
