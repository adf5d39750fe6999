/* SPDX-License-Identifier: BSD-2-Clause */
/* flush.c -- libpmem2's functions and msync, behind the table of flush.h */
#include "agent/flush.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include <libpmem2.h>

static pmem2_memcpy_fn memcpy_fn;
static int found;      /* what pmv_flush_init returns */
static bool populates; /* the kernel has MADV_POPULATE_WRITE (5.14) */

static void store(void *to, const void *from, size_t len)
{
	memcpy_fn(to, from, len, PMEM2_F_MEM_NONTEMPORAL | PMEM2_F_MEM_NODRAIN);
}

/* whole_pages -- where the first page of a range begins; *len: of all of its pages */
static char *whole_pages(void *addr, size_t *len)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t before = (uintptr_t) addr & (page - 1);

	*len = (before + *len + page - 1) & ~(page - 1);
	return (char *) addr - before;
}

/* touch -- else the kernel does not write back pages that a device wrote while pinned */
static int touch(void *addr, size_t len)
{
	char *start = whole_pages(addr, &len);

	if (populates)
		return madvise(start, len, MADV_POPULATE_WRITE) ? -errno : 0;
	/* An atomic write that changes nothing, even if others write there. */
	for (size_t at = 0; at < len; at += sysconf(_SC_PAGESIZE))
		atomic_fetch_or((atomic_uchar *) (start + at), 0);
	return 0;
}

static int sync_pages(void *addr, size_t len)
{
	char *start = whole_pages(addr, &len);

	return msync(start, len, MS_SYNC) ? -errno : 0;
}

static int start_pages(int fd, uint64_t offset, size_t len)
{
	return sync_file_range(fd, (off_t) offset, (off_t) len, SYNC_FILE_RANGE_WRITE) ? -errno : 0;
}

/* await_pages -- start_pages leaves out those that are on their way with older contents */
static int await_pages(int fd, uint64_t offset, size_t len)
{
	return sync_file_range(fd, (off_t) offset, (off_t) len, SYNC_FILE_RANGE_WRITE_AND_WAIT)
		       ? -errno
		       : 0;
}

/* libpmem2's functions are added by pmv_flush_init. */
static struct pmv_flush_ops hardware = {
	.store = store,
	.touch = touch,
	.sync = sync_pages,
	.start = start_pages,
	.await = await_pages,
};

const struct pmv_flush_ops *pmv_flush = &hardware;

/*
 * find_functions -- libpmem2's depend only on a mapping's granularity, but it accepts each
 * mapping once, and the application's may be its own already: so use one of ours
 */
static void find_functions(void)
{
	static struct pmem2_map *map;
	size_t page = sysconf(_SC_PAGESIZE);
	struct pmem2_source *source = NULL;
	void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		found = -ENOMEM;
		return;
	}
	/* On a page of our own: EINVAL is also the answer for memory that may not be written. */
	populates = !madvise(memory, page, MADV_POPULATE_WRITE);
	if (!pmem2_source_from_anon(&source, page) &&
	    !pmem2_map_from_existing(&map, source, memory, page, PMEM2_GRANULARITY_CACHE_LINE)) {
		hardware.flush = pmem2_get_flush_fn(map);
		hardware.drain = pmem2_get_drain_fn(map);
		memcpy_fn = pmem2_get_memcpy_fn(map);
	}
	if (source)
		pmem2_source_delete(&source);
	/*
	 * libpmem2 1.12 does not free all of such a mapping (PMDK's issue 5637): it is kept, and
	 * known, as libpmem2 forgets it when the program ends and leaks are looked for.
	 */
	if (!map)
		munmap(memory, page);
	found = hardware.flush && hardware.drain && memcpy_fn ? 0 : -EOPNOTSUPP;
}

int pmv_flush_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_functions);
	return found;
}
