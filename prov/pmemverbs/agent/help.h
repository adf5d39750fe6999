/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * help.h -- an application that polls looks for requests in the thread's place
 *
 * While requests are likely the thread looks for them without pause (idle_plan.h).  If the
 * application reads its queues without pause as well, that is one processor more than needed, and
 * both may share one.  So these calls look into the mailboxes, and serve what is small; the thread
 * naps, and checks that they go on.
 */
#ifndef PMV_HELP_H
#define PMV_HELP_H

#include <stdatomic.h>
#include <stdbool.h>

struct pmv_agent;

/* Of an agent. */
struct pmv_help {
	atomic_bool wanted; /* idle_plan.h says when */
	atomic_ulong calls; /* while it was wanted; a few may get lost */
};

/* pmv_help -- called by whoever reads a queue, while help is wanted */
void pmv_help(struct pmv_agent *agent);

#endif /* PMV_HELP_H */
