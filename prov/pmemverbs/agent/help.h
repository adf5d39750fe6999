/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * help.h -- an application that polls looks for requests in the thread's place
 *
 * While requests are likely (look.h) the thread looks for them without pause.  If the
 * application reads its queues without pause as well, that is one processor more than needed, and
 * both may share one.  So these calls look into the mailboxes, and serve what is small; the thread
 * naps, and checks that they go on.
 */
#ifndef PMV_HELP_H
#define PMV_HELP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pmv_agent;

/* Of an agent. */
struct pmv_help {
	atomic_bool wanted;
	atomic_ulong calls; /* while it was wanted; a few may get lost */
	/* Of the thread: */
	unsigned long checked_calls;
	int64_t checked_ns;
	int64_t nap_ns; /* 0: nobody helps */
};

/* pmv_help -- called by whoever reads a queue, while help is wanted */
void pmv_help(struct pmv_agent *agent);

/*
 * pmv_help_nap -- the thread would look without pause: how long may it sleep instead, because the
 * application looks?  0: it may not.
 */
int64_t pmv_help_nap(struct pmv_help *help, int64_t now);

/* pmv_help_end -- no requests are likely now */
void pmv_help_end(struct pmv_help *help);

#endif /* PMV_HELP_H */
