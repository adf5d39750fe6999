/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rest.h -- what the agent's thread does between its rounds: go on at once, or sleep
 *
 * It goes on while a request is likely (look.h).  Then it sleeps:
 *
 *   on descriptors  where the core moves data in calls (events.h)
 *   on its socket   where a NIC places data, and the hints of all peers arrive (hint.h)
 *   for intervals   where they do not, so short that no commit takes a millisecond
 *
 * With FI_PMEMVERBS_AGENT=busy it never sleeps.
 */
#ifndef PMV_REST_H
#define PMV_REST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/events.h"

struct pmv_agent;

/* A thread's state between rounds. */
struct pmv_rest {
	int64_t sleep_ns;      /* the next interval */
	int sleep_ms;          /* the next sleep on descriptors */
	bool asked;            /* a peer has sent a request */
	unsigned int patience; /* calls without effect before a sleep */
	unsigned int calls;    /* since the last one */
	int64_t listen_ns;     /* when to read hints, while the thread is awake */
	int64_t deaf_ns;       /* all hints were forged: read none until then */
	int64_t everywhere_ns; /* when to look into all mailboxes, and to ask for hints */
};

/* What it knows when it goes to sleep. */
struct pmv_bed {
	enum pmv_events events;
	bool watching; /* somebody waits for an acknowledgement, and nothing else tells of that */
	int64_t longest_ns;
	int64_t nap_ns; /* the application looks for requests meanwhile; 0: it does not */
};

void pmv_rest_begin(struct pmv_agent *agent, struct pmv_rest *rest);

/* pmv_rest -- after a round; busy: it had something to do */
void pmv_rest(struct pmv_agent *agent, struct pmv_rest *rest, bool busy);

/* pmv_rest_sleep_ns -- how long it sleeps now, if no descriptor of the core wakes it */
int64_t pmv_rest_sleep_ns(struct pmv_rest *rest, const struct pmv_bed *bed);

#endif /* PMV_REST_H */
