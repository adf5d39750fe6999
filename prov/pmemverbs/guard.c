/* SPDX-License-Identifier: BSD-2-Clause */
/* guard.c -- the handler of SIGBUS; guard.h says what for */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "guard.h"

/*
 * A range that is watched, or was: the handler may be looking at any, so none is
 * ever freed, and those that are not used wait in the list for the next one.
 */
struct pmv_watch {
	struct pmv_watch *next; /* of all; never changes */
	atomic_uintptr_t start;
	atomic_uintptr_t end;              /* 0: not used */
	_Atomic(struct pmv_watch *) first; /* of its region: the one that is hit for all */
	atomic_bool hit;
	struct pmv_watch *sibling; /* the next one of its region */
};

__thread unsigned int pmv_guard_depth;

static _Atomic(struct pmv_watch *) watches;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of changes to them */

static bool installed;
static struct sigaction before;
static uintptr_t page;

/* find -- the watch whose range has an address; in the handler */
static struct pmv_watch *find(uintptr_t at)
{
	for (struct pmv_watch *watch = atomic_load(&watches); watch; watch = watch->next) {
		uintptr_t end = atomic_load(&watch->end);

		/* The end again: a range that has changed meanwhile is another one. */
		if (at < end && at >= atomic_load(&watch->start) && end == atomic_load(&watch->end))
			return watch;
	}
	return NULL;
}

/*
 * replace -- memory for the page at an address.  Device DAX is cut at huge pages
 * only: the kernel refuses to do it elsewhere, and changes nothing then.
 */
static bool replace(uintptr_t at)
{
	static const uintptr_t huge[] = {1UL << 21, 1UL << 30};
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	uintptr_t size = page;

	for (size_t i = 0;; size = huge[i++]) {
		void *start = (void *) (at & ~(size - 1));

		if (mmap(start, size, PROT_READ | PROT_WRITE, flags, -1, 0) == start)
			return true;
		if (i == sizeof(huge) / sizeof(huge[0]))
			return false;
	}
}

/* rescue -- true: the thread can go on */
static bool rescue(const siginfo_t *info)
{
	uintptr_t at = (uintptr_t) info->si_addr;
	struct pmv_watch *watch;

	/* Not by the kernel, or not here: there is no address, or it is none of ours. */
	if (info->si_code <= 0 || !pmv_guard_depth)
		return false;
	watch = find(at);
	if (!watch)
		return false;
	/* First: nobody may read the new page and not know. */
	atomic_store(&atomic_load(&watch->first)->hit, true);
	return replace(at);
}

/* pass_on -- to the handler from before, as the kernel would have called it */
static void pass_on(int signo, siginfo_t *info, void *context)
{
	struct sigaction old = before;

	/* A fault that is ignored kills, too. */
	if (old.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) {
		old.sa_handler = SIG_DFL;
		sigaction(signo, &old, NULL);
		/* Where a page was touched, it is about to be touched again. */
		if (info->si_code <= 0 || info->si_code == BUS_MCEERR_AO)
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

	if (!rescue(info))
		pass_on(signo, info, context);
	errno = err;
}

/*
 * install -- once: a handler that came later may call ours, which would then have
 * come before it.  Holds the lock.
 */
static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus};

	if (installed)
		return;
	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	sigaction(SIGBUS, NULL, &before);
	/* On the signal stack if there is one: some languages have no other that is large. */
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_NODEFER | SA_RESTART));
	action.sa_mask = before.sa_mask;
	installed = !sigaction(SIGBUS, &action, NULL);
}

/* unused -- a watch that nobody has; holds the lock */
static struct pmv_watch *unused(void)
{
	struct pmv_watch *watch = atomic_load(&watches);

	while (watch && atomic_load(&watch->first))
		watch = watch->next;
	if (watch)
		return watch;
	watch = calloc(1, sizeof(*watch));
	if (watch) {
		watch->next = atomic_load(&watches);
		atomic_store(&watches, watch);
	}
	return watch;
}

int pmv_guard_add(struct pmv_watch **watch, void *addr, size_t len)
{
	struct pmv_watch *one;
	uintptr_t start, end;

	pthread_mutex_lock(&lock);
	install();
	one = unused();
	if (one) {
		/* The kernel tells pages of poisoned memory, not bytes. */
		start = (uintptr_t) addr & ~(page - 1);
		end = ((uintptr_t) addr + len + page - 1) & ~(page - 1);
		atomic_store(&one->hit, false);
		atomic_store(&one->first, *watch ? *watch : one);
		one->sibling = *watch ? (*watch)->sibling : NULL;
		if (*watch)
			(*watch)->sibling = one;
		else
			*watch = one;
		atomic_store(&one->start, start);
		atomic_store(&one->end, end);
	}
	pthread_mutex_unlock(&lock);
	return one ? 0 : -FI_ENOMEM;
}

void pmv_guard_remove(struct pmv_watch *watch)
{
	pthread_mutex_lock(&lock);
	while (watch) {
		struct pmv_watch *next = watch->sibling;

		atomic_store(&watch->end, 0);
		atomic_store(&watch->first, NULL);
		watch = next;
	}
	pthread_mutex_unlock(&lock);
}

bool pmv_guard_was_hit(const struct pmv_watch *watch)
{
	return watch && atomic_load(&watch->hit);
}
