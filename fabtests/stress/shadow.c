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
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
static __thread struct stage stage;
static pthread_key_t stages; /* frees a thread's lines */

void shadow_begin(void)
{
	orders = calloc(memory_len() / LINE + 1, sizeof(*orders));
	if (!orders || (stress.memory && !realpath(stress.memory, path)))
		stress_fail("the shadow: %s", strerror(errno));
	if (pthread_key_create(&stages, free))
		stress_fail("the shadow: no key");
	dice_state = world->seed * 2 + 1;
	active = true;
}

static void take(size_t from, size_t to)
{
	from /= LINE;
	to = (to + LINE - 1) / LINE;
	pthread_mutex_lock(&lock);
	if (stage.count + (to - from) > stage.room) {
		stage.room = 2 * (stage.count + (to - from));
		stage.lines = realloc(stage.lines, stage.room * sizeof(*stage.lines));
		if (!stage.lines)
			stress_fail("no memory to stage in");
		pthread_setspecific(stages, stage.lines);
	}
	for (; from < to; from++) {
		struct staged *staged = &stage.lines[stage.count++];

		staged->order = ++last_order;
		staged->line = from;
		memcpy(staged->bytes, live + from * LINE, LINE);
	}
	pthread_mutex_unlock(&lock);
}

/* publish -- what this thread has staged, from the nth line on, is durable */
static void publish(size_t n)
{
	bool forgotten;

	pthread_mutex_lock(&lock);
	forgotten = stress.forget && one_in(&dice_state, stress.forget);
	for (size_t i = n; i < stage.count && !forgotten; i++) {
		const struct staged *staged = &stage.lines[i];

		if (staged->order < orders[staged->line])
			continue;
		orders[staged->line] = staged->order;
		memcpy(shadow + staged->line * LINE, staged->bytes, LINE);
	}
	stage.count = n;
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
	if (!stage.count)
		oracle_all_fences();
	take(from, from + len);
}

static void drain(void)
{
	if (!active)
		return;
	oracle_all_fences();
	publish(0);
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

/* fails -- shall this sync?  Then nothing more is written back there until it is registered again.
 */
static bool fails(struct slot *slot, atomic_bool *lost)
{
	bool now;

	pthread_mutex_lock(&lock);
	now = stress.faults && one_in(&dice_state, stress.faults);
	pthread_mutex_unlock(&lock);
	if (!now || atomic_load(lost))
		return false;
	atomic_fetch_add(&slot->faults, 1);
	atomic_store(lost, true);
	stress_count(C_FAILURES, 1);
	return true;
}

int msync(void *addr, size_t len, int flags)
{
	size_t offset, staged = stage.count;
	atomic_bool *lost;
	struct slot *slot;
	int ret;

	if (!active || !find((uintptr_t) addr, &offset))
		return (int) syscall(SYS_msync, addr, len, flags);
	slot = &world->slots[offset / slot_len()];
	lost = &slot->lost[region_of(offset)];
	oracle_all_fences();
	if (fails(slot, lost)) {
		errno = EIO;
		return -1;
	}
	stress_count(C_SYNCS, 1);
	if (atomic_load(lost))
		return 0;
	take(offset, offset + len);
	ret = (int) syscall(SYS_msync, addr, len, flags);
	if (!ret)
		publish(staged);
	stage.count = staged;
	return ret;
}
