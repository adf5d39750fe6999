/* SPDX-License-Identifier: BSD-2-Clause */
/* arena.c -- memory that can be put back; arena.h says how it is used */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arena.h"

/* glibc's own, behind the replaced ones. */
extern void *__libc_malloc(size_t len);
extern void *__libc_calloc(size_t count, size_t len);
extern void *__libc_realloc(void *ptr, size_t len);
extern void *__libc_memalign(size_t align, size_t len);
extern void __libc_free(void *ptr);

#define ARENA_SIZE (2 * ARENA_ROOM)
#define UNIT 32
#define NUM_CLASSES 256 /* so many units are still a small object */

struct block {
	size_t len;         /* of what follows, in bytes */
	struct block *next; /* while it is free */
	char data[];
};

_Static_assert(sizeof(struct block) == ARENA_HEAD, "alignment of what is allocated");

/* At the start of the arena, so that putting it back puts this back, too. */
struct arena {
	char *small; /* up to here it is used */
	char *large;
	bool sealed;
	struct block *free[NUM_CLASSES + 1]; /* by units; 0: larger ones */
};

static struct arena *arena;
static bool is_open;
static void (*watcher)(const void *addr, size_t len);

static char *small_start(void)
{
	return (char *) arena + (sizeof(*arena) + UNIT - 1) / UNIT * UNIT;
}

static char *large_start(void)
{
	return (char *) arena + ARENA_ROOM;
}

void arena_reset(void)
{
	if (!arena) {
		arena = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (arena == MAP_FAILED)
			abort();
	} else {
		memset(large_start(), 0, arena->large - large_start());
		memset(arena, 0, arena->small - (char *) arena);
	}
	arena->small = small_start();
	arena->large = large_start();
}

void arena_open(void)
{
	is_open = true;
}

void arena_close(void)
{
	is_open = false;
}

void arena_seal(void)
{
	arena->sealed = true;
}

void arena_watch(void (*changed)(const void *addr, size_t len))
{
	watcher = changed;
}

static void changed(const void *addr, size_t len)
{
	if (watcher)
		watcher(addr, len);
}

char *arena_small(size_t *len)
{
	*len = arena->small - (char *) arena;
	return (char *) arena;
}

size_t arena_own(void)
{
	return sizeof(struct arena);
}

size_t arena_len(const void *ptr)
{
	return ((const struct block *) ((const char *) ptr - sizeof(struct block)))->len;
}

static bool is_ours(const void *ptr)
{
	return arena && (const char *) ptr >= (char *) arena &&
	       (const char *) ptr < (char *) arena + ARENA_SIZE;
}

static void *take(char **from, const char *end, size_t len)
{
	struct block *block = (struct block *) *from;

	if (len + sizeof(*block) > (size_t) (end - *from))
		abort();
	*from += sizeof(*block) + len;
	block->len = len;
	changed(from, sizeof(*from));
	changed(block, sizeof(*block));
	return block->data;
}

static void *allocate(size_t len)
{
	size_t units = (len + sizeof(struct block) + UNIT - 1) / UNIT;
	size_t room = units * UNIT - sizeof(struct block);
	struct block **at;

	at = &arena->free[units <= NUM_CLASSES ? units : 0];
	while (*at && (*at)->len != room)
		at = &(*at)->next;
	if (*at) {
		struct block *block = *at;

		*at = block->next;
		block->next = NULL;
		changed(at, sizeof(struct block *));
		changed(block, sizeof(*block));
		return block->data;
	}
	if (units <= NUM_CLASSES)
		return take(&arena->small, large_start(), room);
	if (arena->sealed)
		abort();
	return take(&arena->large, (char *) arena + ARENA_SIZE, room);
}

static void release(void *ptr)
{
	struct block *block = (struct block *) ((char *) ptr - sizeof(*block));
	size_t units = (block->len + sizeof(*block)) / UNIT;
	struct block **at = &arena->free[units <= NUM_CLASSES ? units : 0];

	memset(block->data, 0, block->len);
	while (*at && *at < block)
		at = &(*at)->next;
	block->next = *at;
	*at = block;
	changed(at, sizeof(struct block *));
	changed(block, sizeof(*block) + block->len);
}

/* What replaces libc's */

void *malloc(size_t len)
{
	return is_open ? allocate(len) : __libc_malloc(len);
}

void *calloc(size_t count, size_t len)
{
	/* What is free is zero. */
	return is_open ? allocate(count * len) : __libc_calloc(count, len);
}

void free(void *ptr)
{
	if (is_ours(ptr))
		release(ptr);
	else
		__libc_free(ptr);
}

void *realloc(void *ptr, size_t len)
{
	void *copy;

	if (!is_ours(ptr) && (ptr || !is_open))
		return __libc_realloc(ptr, len);
	copy = allocate(len);
	if (!ptr)
		return copy;
	memcpy(copy, ptr, arena_len(ptr) < len ? arena_len(ptr) : len);
	release(ptr);
	return copy;
}

/* What is aligned specially could not be freed: nothing that is modelled asks for it. */

void *memalign(size_t align, size_t len)
{
	if (is_open)
		abort();
	return __libc_memalign(align, len);
}

void *aligned_alloc(size_t align, size_t len)
{
	return memalign(align, len);
}

int posix_memalign(void **ptr, size_t align, size_t len)
{
	*ptr = memalign(align, len);
	return *ptr ? 0 : ENOMEM;
}
