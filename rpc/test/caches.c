/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * caches.c -- preloaded into a server: processor caches that lose their contents with the power
 *
 * What libpmem2's functions flush from PMEM_CACHES_MEMORY, a file or a device, is copied to the
 * file PMEM_CACHES_DISK when they drain: line by line, as it was when it was flushed.  So that
 * file has what a power failure would leave at least; lose_caches makes it what is left.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <libpmem2.h>

#define LINE 64U
#define MAPPINGS 16

static struct mapping {
	uintptr_t start, end;
	uint64_t offset;
} mappings[MAPPINGS];
static unsigned int num_mappings;
static uint64_t *disk;
static uint64_t disk_len;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static pmem2_flush_fn real_flush;
static pmem2_drain_fn real_drain;
static pmem2_persist_fn real_persist;
static pmem2_memcpy_fn real_memcpy;

/* A line that was flushed, and is durable when this thread drains. */
struct line {
	uint64_t offset;
	uint64_t words[LINE / sizeof(uint64_t)];
};

static _Thread_local struct line *lines;
static _Thread_local size_t num_lines, max_lines;

static void end(const char *why)
{
	fprintf(stderr, "caches: %s\n", why);
	_exit(9);
}

static void open_disk(void)
{
	const char *path = getenv("PMEM_CACHES_DISK");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		end("there is no PMEM_CACHES_DISK");
	disk_len = (uint64_t) st.st_size;
	disk = mmap(NULL, disk_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (disk == MAP_FAILED)
		end("PMEM_CACHES_DISK can't be mapped");
	close(fd);
}

/* find_mappings -- of the memory in this process */
static void find_mappings(void)
{
	const char *memory = getenv("PMEM_CACHES_MEMORY");
	FILE *maps = fopen("/proc/self/maps", "r");
	char text[PATH_MAX + 100], path[PATH_MAX];
	struct mapping found;

	num_mappings = 0;
	while (maps && memory && fgets(text, sizeof(text), maps)) {
		if (sscanf(text, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %*s %*s %4095s",
			   &found.start, &found.end, &found.offset, path) != 4 ||
		    strcmp(path, memory))
			continue;
		if (num_mappings == MAPPINGS)
			end("too many mappings");
		mappings[num_mappings++] = found;
	}
	if (maps)
		fclose(maps);
}

/* find -- the place of an address in the memory */
static bool find(uintptr_t addr, uint64_t *offset)
{
	for (unsigned int i = 0; i < num_mappings; i++) {
		if (addr < mappings[i].start || addr >= mappings[i].end)
			continue;
		*offset = mappings[i].offset + addr - mappings[i].start;
		return true;
	}
	return false;
}

static void note_line(uintptr_t addr, uint64_t offset)
{
	const volatile uint64_t *words = (const volatile uint64_t *) addr;

	if (offset + LINE > disk_len)
		end("PMEM_CACHES_DISK is too short");
	if (num_lines == max_lines) {
		max_lines = max_lines ? 2 * max_lines : 64;
		lines = realloc(lines, max_lines * sizeof(*lines));
		if (!lines)
			end("no memory");
	}
	lines[num_lines].offset = offset;
	for (size_t i = 0; i < LINE / sizeof(*words); i++)
		lines[num_lines].words[i] = words[i];
	num_lines++;
}

static void note(const void *ptr, size_t len)
{
	uintptr_t addr = (uintptr_t) ptr / LINE * LINE, stop = (uintptr_t) ptr + len;
	uint64_t offset;
	bool is_memory;

	pthread_mutex_lock(&lock);
	if (!disk)
		open_disk();
	is_memory = find(addr, &offset);
	if (!is_memory) {
		find_mappings();
		is_memory = find(addr, &offset);
	}
	pthread_mutex_unlock(&lock);
	for (; is_memory && addr < stop; addr += LINE, offset += LINE)
		note_line(addr, offset);
}

/* settle -- words become durable one by one */
static void settle(void)
{
	for (size_t i = 0; i < num_lines; i++) {
		volatile uint64_t *to = disk + lines[i].offset / sizeof(*disk);

		for (size_t j = 0; j < LINE / sizeof(*to); j++)
			to[j] = lines[i].words[j];
	}
	num_lines = 0;
}

static void flush(const void *ptr, size_t len)
{
	note(ptr, len);
	real_flush(ptr, len);
}

static void drain(void)
{
	real_drain();
	settle();
}

static void persist(const void *ptr, size_t len)
{
	note(ptr, len);
	real_persist(ptr, len);
	settle();
}

static void *copy(void *to, const void *from, size_t len, unsigned int flags)
{
	void *ret = real_memcpy(to, from, len, flags);

	if (!(flags & PMEM2_F_MEM_NOFLUSH))
		note(to, len);
	if (!(flags & (PMEM2_F_MEM_NOFLUSH | PMEM2_F_MEM_NODRAIN)))
		settle();
	return ret;
}

/* next -- libpmem2's own; a function's address does not fit into void * by the letter of C */
static void next(const char *name, void *function)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	if (!symbol)
		end("libpmem2 is not there");
	memcpy(function, &symbol, sizeof(symbol));
}

pmem2_flush_fn pmem2_get_flush_fn(struct pmem2_map *map)
{
	pmem2_flush_fn (*get)(struct pmem2_map *);

	next("pmem2_get_flush_fn", &get);
	real_flush = get(map);
	return flush;
}

pmem2_drain_fn pmem2_get_drain_fn(struct pmem2_map *map)
{
	pmem2_drain_fn (*get)(struct pmem2_map *);

	next("pmem2_get_drain_fn", &get);
	real_drain = get(map);
	return drain;
}

pmem2_persist_fn pmem2_get_persist_fn(struct pmem2_map *map)
{
	pmem2_persist_fn (*get)(struct pmem2_map *);

	next("pmem2_get_persist_fn", &get);
	real_persist = get(map);
	return persist;
}

pmem2_memcpy_fn pmem2_get_memcpy_fn(struct pmem2_map *map)
{
	pmem2_memcpy_fn (*get)(struct pmem2_map *);

	next("pmem2_get_memcpy_fn", &get);
	real_memcpy = get(map);
	return copy;
}
