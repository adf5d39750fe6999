/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guard.h -- a page that has no memory behind it ends a commit, not the process
 *
 * Whoever touches a mapped page of a file that was truncated, of a hole where the
 * disk is full, or of memory that is poisoned, gets SIGBUS.  Who touches regions in
 * this process is the agent, and a core that copies what has arrived, in the agent's
 * thread or in a call of the application's.  So there is one handler in the process.
 * Where a thread is inside the provider (between pmv_guard_enter and pmv_guard_leave)
 * and the page is part of a range that is watched, it puts a page of anonymous memory
 * there, so that the copy can end, and notes that all ranges with part of that page were
 * hit: commits to their regions fail from then on.
 *
 * All other signals go to the handler that was there before, or do what they did
 * before.  A handler that is installed later gets all of them.  Ours stays for good: the
 * library is never unmapped.
 */
#ifndef PMV_GUARD_H
#define PMV_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct pmv_watch;

/*
 * pmv_guard_add -- watch one more range: *watch is NULL, or has other ranges of the
 * same region.  0, or -FI_ENOMEM, and then *watch is as it was.
 */
int pmv_guard_add(struct pmv_watch **watch, void *addr, size_t len);

/* pmv_guard_remove -- none of its ranges is watched any more; watch may be NULL */
void pmv_guard_remove(struct pmv_watch *watch);

/* pmv_guard_was_hit -- was there a page without memory?  watch may be NULL. */
bool pmv_guard_was_hit(const struct pmv_watch *watch);

/*
 * How deep a thread is inside the provider.  The handler must be able to read it in
 * threads that have never been here, where other models of thread-local storage
 * would allocate it first; and it costs one instruction.  The thread-local storage of
 * the provider, less than a hundred bytes, then comes out of the reserve that the C
 * library keeps for this (glibc: more than a KiB).
 */
extern __thread unsigned int pmv_guard_depth __attribute__((tls_model("initial-exec")));

static inline void pmv_guard_enter(void)
{
	pmv_guard_depth++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void pmv_guard_leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	pmv_guard_depth--;
}

#endif /* PMV_GUARD_H */
