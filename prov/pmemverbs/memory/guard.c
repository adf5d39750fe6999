/* SPDX-License-Identifier: BSD-2-Clause */
/* guard.c -- the handler of SIGBUS; guard.h says what it does */
#include "memory/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

/*
 * A range that is or was watched.  The handler may be reading any of them, so none is ever
 * freed.  Unused ones stay in the list and are used again.
 */
struct pmv_watch {
	struct pmv_watch *next; /* of all; never changes */
	atomic_uintptr_t start;
	atomic_uintptr_t end;              /* 0: not used */
	_Atomic(struct pmv_watch *) first; /* of its region: the one that is hit for all */
	atomic_bool hit;
};

__thread unsigned int pmv_guard_depth;
__thread struct pmv_guard_source pmv_guard_source;
atomic_uint pmv_guard_reads;

static _Atomic(struct pmv_watch *) watches;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of changes to them */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;
static uintptr_t page;

/*
 * mark -- mark each region that has part of [from, to) as hit: regions may overlap, or
 * share a page.  False: no region has part of it.  Runs in the handler.
 */
static bool mark(uintptr_t from, uintptr_t to)
{
	bool any = false;

	for (struct pmv_watch *watch = atomic_load(&watches); watch; watch = watch->next) {
		uintptr_t end = atomic_load(&watch->end), start = atomic_load(&watch->start);
		struct pmv_watch *first = atomic_load(&watch->first);

		/* Read the end again: the range may have changed meanwhile. */
		if (first && from < end && start < to && end == atomic_load(&watch->end)) {
			atomic_store(&first->hit, true);
			any = true;
		}
	}
	return any;
}

/* is_sent -- the application's call reads it, to send it */
static bool is_sent(uintptr_t at)
{
	for (size_t i = 0; i < pmv_guard_source.count; i++) {
		const struct iovec *iov = &pmv_guard_source.iov[i];

		if (at - (uintptr_t) iov->iov_base < iov->iov_len)
			return true;
	}
	return false;
}

/* was_written -- a store has touched the page, and no load */
static bool was_written(const void *context)
{
#ifdef __x86_64__
	enum { PAGE_FAULT = 14, BY_WRITE = 2 };
	const greg_t *registers = ((const ucontext_t *) context)->uc_mcontext.gregs;

	return registers[REG_TRAPNO] == PAGE_FAULT && (registers[REG_ERR] & BY_WRITE);
#else
	/* It is told in another way there: better to believe too little. */
	(void) context;
	return false;
#endif
}

/*
 * rescue -- true: the thread can go on.  Mappings of device DAX and hugetlbfs can only be
 * split at huge pages: elsewhere the kernel refuses with EINVAL and changes nothing.
 * After any other error a larger block might be memory of no region.
 */
static bool rescue(const siginfo_t *info, const void *context)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	const uintptr_t sizes[] = {page, 1UL << 21, 1UL << 30};
	uintptr_t at = (uintptr_t) info->si_addr;

	/* Not sent by the kernel, or not in the provider: then the address is none of ours. */
	if (info->si_code <= 0 || !pmv_guard_depth || is_sent(at))
		return false;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uintptr_t start = at & ~(sizes[i] - 1);
		long ret;

		/* Mark first: nobody may read the new memory without knowing. */
		if (!mark(start, start + sizes[i]))
			return false;
		if (!i && !pmv_guard_source.nothing && !was_written(context))
			atomic_fetch_add(&pmv_guard_reads, 1);
		/* Libraries intercept mmap, and take locks in it. */
		ret = syscall(SYS_mmap, start, sizes[i], PROT_READ | PROT_WRITE, flags, -1, 0L);
		if (ret != -1 || errno != EINVAL)
			return ret == (long) start;
	}
	return false;
}

/* pass_on -- to the previous handler, as the kernel would have called it */
static void pass_on(int signo, siginfo_t *info, void *context)
{
	bool was_touched = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
	struct sigaction old = before;

	/* Touching a page kills the process even if the signal is ignored. */
	if (old.sa_handler == SIG_IGN && !was_touched)
		return;
	if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) {
		old.sa_handler = SIG_DFL;
		sigaction(signo, &old, NULL);
		/* The thread touches the page again, and is killed. */
		if (!was_touched)
			raise(signo);
		return;
	}
	if (old.sa_flags & (int) SA_RESETHAND)
		before.sa_handler = SIG_DFL;
	if (old.sa_flags & SA_SIGINFO)
		old.sa_sigaction(signo, info, context);
	else
		old.sa_handler(signo);
}

static void on_sigbus(int signo, siginfo_t *info, void *context)
{
	int err = errno;

	if (!rescue(info, context))
		pass_on(signo, info, context);
	errno = err;
}

/* install -- only once: a later handler may call ours, and would then be the one before ours */
static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus};

	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	sigaction(SIGBUS, NULL, &before);
	/* On the signal stack, if there is one: in some languages only that one is large. */
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_NODEFER | SA_RESTART));
	action.sa_mask = before.sa_mask;
	sigaction(SIGBUS, &action, NULL);
}

/* unused -- a watch that is free; holds the lock */
static struct pmv_watch *unused(void)
{
	struct pmv_watch *watch = atomic_load(&watches);

	while (watch && atomic_load(&watch->first))
		watch = watch->next;
	if (!watch && (watch = calloc(1, sizeof(*watch)))) {
		watch->next = atomic_load(&watches);
		atomic_store(&watches, watch);
	}
	return watch;
}

int pmv_guard_add(struct pmv_watch **watch, void *addr, size_t len)
{
	struct pmv_watch *one;

	pthread_once(&once, install);
	pthread_mutex_lock(&lock);
	one = unused();
	if (one) {
		if (!*watch)
			*watch = one;
		atomic_store(&one->hit, false);
		atomic_store(&one->first, *watch);
		/* The kernel reports poisoned memory by pages. */
		atomic_store(&one->start, (uintptr_t) addr & ~(page - 1));
		atomic_store(&one->end, ((uintptr_t) addr + len + page - 1) & ~(page - 1));
	}
	pthread_mutex_unlock(&lock);
	return one ? 0 : -FI_ENOMEM;
}

void pmv_guard_remove(struct pmv_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&lock);
	for (struct pmv_watch *one = atomic_load(&watches); one; one = one->next) {
		if (atomic_load(&one->first) != watch)
			continue;
		atomic_store(&one->end, 0);
		atomic_store(&one->first, NULL);
	}
	pthread_mutex_unlock(&lock);
}

bool pmv_guard_was_hit(const struct pmv_watch *watch)
{
	return watch && atomic_load(&watch->hit);
}
