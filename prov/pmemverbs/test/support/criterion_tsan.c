/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criterion_tsan.c -- lets Criterion run tests with threads, and under the thread sanitizer
 *
 * An assertion that fails ends its test by a jump back to where the test was
 * called.  From another thread that is a jump onto somebody else's stack, and the
 * test dies of SIGSEGV somewhere else, or goes on.  Linked into a test, this ends
 * the process instead; what has failed was printed before.
 *
 * Criterion puts memory that its processes share at a random address between
 * 0x200000000000 and 0x600000000000, if nothing is mapped there.  Most of that
 * is the sanitizer's shadow memory, so no address is ever found.  With the
 * sanitizer this finds the range empty and moves the mapping to a part of it that
 * the sanitizer leaves to programs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>

void criterion_abort_test(void)
{
	void (*jump)(void) = (void (*)(void)) dlsym(RTLD_NEXT, "criterion_abort_test");

	if (jump && syscall(SYS_gettid) == getpid())
		jump();
	abort();
}

#ifdef __SANITIZE_THREAD__

#define RANGE_START UINT64_C(0x200000000000)
#define RANGE_END UINT64_C(0x600000000000)
/*
 * The sanitizer leaves what is from here to 0x568000000000 to programs, and Linux
 * loads them somewhere behind 0x555555554000.  Nothing else comes to lie below
 * that; above, now and then, Criterion's memory would replace the program's own.
 */
#define FREE_START UINT64_C(0x550000000000)
#define FREE_END UINT64_C(0x554000000000)
#define FREE_MASK (FREE_END - FREE_START - 1)

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
