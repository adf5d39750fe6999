/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.h -- the agent's thread reads hints, and asks for them; hint.h says what they are */
#ifndef PMV_LISTEN_H
#define PMV_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

struct pmv_agent;

/*
 * pmv_listen -- read the hints that have come, a limited number of them.  False: all of
 * them were forged, so it is better not to listen for a while.
 */
bool pmv_listen(struct pmv_agent *agent, int64_t now);

/* pmv_listen_ask -- ask the peers for a hint whose hints have not come; holds the lock */
void pmv_listen_ask(struct pmv_agent *agent);

#endif /* PMV_LISTEN_H */
