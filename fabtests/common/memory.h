/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h -- the target's memory, and patterns to tell what was written there
 */
#ifndef PMEM_MEMORY_H
#define PMEM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	void *base;
	size_t len;
	size_t mapped;
	bool is_file; /* mapped: msync makes it durable */
	/* Of memory with a file behind it (memory_direct.h), or NULL. */
	void *file;
	void (*close)(struct memory *mem);
};

/* memory_direct_path -- of a name "direct:PATH", or NULL */
const char *memory_direct_path(const char *name);

/*
 * memory_map -- len bytes of a file or /dev/dax device, or anonymous ones for
 * NULL; prints what is wrong and returns -1
 */
int memory_map(struct memory *mem, const char *path, size_t len);

/* memory_check -- could that be mapped?  Nothing is changed; prints what is wrong, and -1 */
int memory_check(const char *path);
void memory_unmap(struct memory *mem);

/*
 * A pattern is a function of a seed and of the offset in the region: bytes of
 * another write, and right bytes in a wrong place, are told apart.
 */
void pattern_fill(void *buf, size_t len, uint64_t seed, size_t offset);

/* pattern_check -- how many bytes are right before the first wrong one; len: all */
size_t pattern_check(const void *buf, size_t len, uint64_t seed, size_t offset);

#endif /* PMEM_MEMORY_H */
