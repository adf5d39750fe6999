/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guard.h -- a page that has no memory behind it ends a commit, not the process
 *
 * A process gets SIGBUS if it touches a mapped page of a truncated file, a hole on a full
 * disk, or poisoned memory.  The agent touches regions, and so does a core that copies data
 * which has arrived.  So the process has one handler.  If the thread is inside the provider
 * (between pmv_guard_enter and pmv_guard_leave) and the page belongs to a watched range,
 * the handler maps anonymous memory there, so that the copy can end, and marks all ranges
 * with part of that page as hit.  Commits to their regions fail from then on.
 *
 * What the application sends is another matter: zeros in its place would arrive, and be durable.
 * So a page of that is not replaced, and the application gets its signal.  A core may also read it
 * later, in any call that moves data.  Nobody knows then what the page was read for.  So that is
 * counted, and what was sent from then on is not believed (op.h).
 *
 * All other signals go to the previous handler, or have their previous effect.  A handler
 * that is installed later gets all signals.  Ours is never removed, nor the library unmapped.
 */
#ifndef PMV_GUARD_H
#define PMV_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

struct pmv_watch;

/*
 * pmv_guard_add -- watch one more range.  *watch is NULL, or has other ranges of the same
 * region.  0 or -FI_ENOMEM, which leaves *watch as it was.
 */
int pmv_guard_add(struct pmv_watch **watch, void *addr, size_t len);

/* pmv_guard_remove -- none of its ranges is watched any more; watch may be NULL */
void pmv_guard_remove(struct pmv_watch *watch);

/* pmv_guard_was_hit -- was there a page without memory?  watch may be NULL. */
bool pmv_guard_was_hit(const struct pmv_watch *watch);

/*
 * How deep a thread is inside the provider.  The handler must be able to read it in
 * threads that have never been here; other models of thread-local storage would have to
 * allocate it first.  It comes from the C library's reserve (more than a KiB in glibc), of
 * which the provider takes less than 100 bytes.
 */
extern __thread unsigned int pmv_guard_depth __attribute__((tls_model("initial-exec")));

/* What the call sends in which the thread is. */
struct pmv_guard_source {
	const struct iovec *iov;
	size_t count;
	bool nothing; /* it only writes back what was written here */
};

extern __thread struct pmv_guard_source pmv_guard_source __attribute__((tls_model("initial-exec")));

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

/* pmv_guard_enter_sending, pmv_guard_leave_sending -- the iov stays valid in between */
static inline void pmv_guard_enter_sending(const struct iovec *iov, size_t count)
{
	pmv_guard_source = (struct pmv_guard_source){.iov = iov, .count = count};
	pmv_guard_enter();
}

static inline void pmv_guard_leave_sending(void)
{
	pmv_guard_leave();
	pmv_guard_source.count = 0;
}

/* pmv_guard_enter_flushing, pmv_guard_leave_flushing -- inside the provider, no core is called */
static inline void pmv_guard_enter_flushing(void)
{
	pmv_guard_source.nothing = true;
	pmv_guard_enter();
}

static inline void pmv_guard_leave_flushing(void)
{
	pmv_guard_leave();
	pmv_guard_source.nothing = false;
}

/* How often a page was replaced that was read, perhaps by a core, in order to send it. */
extern atomic_uint pmv_guard_reads;

#endif /* PMV_GUARD_H */
