/* SPDX-License-Identifier: BSD-2-Clause */
/* flush.c -- libpmem2's functions and msync, behind the table of flush.h */
#include "agent/flush.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <libpmem2.h>

static pmem2_flush_fn flush_fn;
static pmem2_drain_fn drain_fn;
static pmem2_memcpy_fn memcpy_fn;
static bool populates; /* the kernel has MADV_POPULATE_WRITE (5.14) */

static void flush(const void *addr, size_t len)
{
	flush_fn(addr, len);
}

static void drain(void)
{
	drain_fn();
}

static void store(void *to, const void *from, size_t len)
{
	memcpy_fn(to, from, len, PMEM2_F_MEM_NONTEMPORAL | PMEM2_F_MEM_NODRAIN);
}

static void page_bounds(void *addr, size_t len, uintptr_t *start, uintptr_t *end)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);

	*start = (uintptr_t) addr & ~(page - 1);
	*end = ((uintptr_t) addr + len + page - 1) & ~(page - 1);
}

/* touch -- else the kernel does not write back pages that a device wrote while pinned */
static int touch(void *addr, size_t len)
{
	uintptr_t start, end;

	page_bounds(addr, len, &start, &end);
	if (populates)
		return madvise((void *) start, end - start, MADV_POPULATE_WRITE) ? -errno : 0;
	/* An atomic write that changes nothing, even if others write there. */
	for (; start < end; start += sysconf(_SC_PAGESIZE))
		atomic_fetch_or((atomic_uchar *) start, 0);
	return 0;
}

static int sync_pages(void *addr, size_t len)
{
	uintptr_t start, end;

	page_bounds(addr, len, &start, &end);
	return msync((void *) start, end - start, MS_SYNC) ? -errno : 0;
}

static const struct pmv_flush_ops hardware = {
	.flush = flush,
	.drain = drain,
	.store = store,
	.touch = touch,
	.sync = sync_pages,
};

const struct pmv_flush_ops *pmv_flush = &hardware;

/*
 * find_populate -- tried on a page of our own: the kernel also answers EINVAL for memory
 * that may not be written
 */
static void find_populate(void *page, size_t size)
{
	populates = !madvise(page, size, MADV_POPULATE_WRITE);
}

/*
 * find_functions -- libpmem2 has functions for each mapping, but they depend only on the
 * granularity.  Use a mapping of our own: libpmem2 accepts each mapping only once, and
 * the application may have registered its own already.
 */
static int find_functions(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct pmem2_source *source = NULL;
	struct pmem2_map *map = NULL;
	void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	find_populate(memory, page);
	if (!pmem2_source_from_anon(&source, page) &&
	    !pmem2_map_from_existing(&map, source, memory, page, PMEM2_GRANULARITY_CACHE_LINE)) {
		flush_fn = pmem2_get_flush_fn(map);
		drain_fn = pmem2_get_drain_fn(map);
		memcpy_fn = pmem2_get_memcpy_fn(map);
	}
	if (map)
		pmem2_map_delete(&map);
	if (source)
		pmem2_source_delete(&source);
	munmap(memory, page);
	return flush_fn && drain_fn && memcpy_fn ? 0 : -EOPNOTSUPP;
}

static int found;

static void find_once(void)
{
	found = find_functions();
}

int pmv_flush_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_once);
	return found;
}
