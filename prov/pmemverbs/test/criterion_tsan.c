/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criterion_tsan.c -- lets Criterion run under the thread sanitizer
 *
 * Criterion puts memory that its processes share at a random address between
 * 0x200000000000 and 0x600000000000, if nothing is mapped there.  Most of that
 * is the sanitizer's shadow memory, so no address is ever found.  Linked into a
 * test, this finds the range empty and moves the mapping to a part of it that
 * the sanitizer leaves to programs.  Other builds are left as they are.
 */
#ifdef __SANITIZE_THREAD__
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RANGE_START UINT64_C(0x200000000000)
#define RANGE_END UINT64_C(0x600000000000)
/* Where position-independent programs are loaded, less what one may take there. */
#define FREE_START UINT64_C(0x550000000000)
#define FREE_END UINT64_C(0x568000000000)
#define FREE_MASK (UINT64_C(0x10000000000) - 1)

/* The sanitizer calls these before its own start: they must not be instrumented. */
#define PLAIN __attribute__((no_sanitize_thread))

void *__interceptor_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset);

static inline PLAIN int in_range(uint64_t addr)
{
	return addr >= RANGE_START && addr < RANGE_END;
}

PLAIN void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	uint64_t at = (uintptr_t) addr;

	if ((flags & MAP_FIXED) && in_range(at) && (at < FREE_START || at >= FREE_END))
		at = FREE_START + (at & FREE_MASK);
	return __interceptor_mmap64((void *) (uintptr_t) at, len, prot, flags, fd, offset);
}

PLAIN int mincore(void *addr, size_t len, unsigned char *vec)
{
	if (!in_range((uintptr_t) addr))
		return (int) syscall(SYS_mincore, addr, len, vec);
	errno = ENOMEM;
	return -1;
}
#endif
