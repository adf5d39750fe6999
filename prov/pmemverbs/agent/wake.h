/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wake.h -- the agent wakes the application's threads that sleep until an
 * acknowledgement comes; no core does that
 *
 * agent.h has what the others call: pmv_agent_kick, pmv_agent_watch, pmv_agent_nudge.
 */
#ifndef PMV_WAKE_H
#define PMV_WAKE_H

#include <stdbool.h>

struct pmv_agent;

/*
 * pmv_wake_sleepers -- wake those whose acknowledgements have arrived; and now and then all,
 * so that they check the connection.  True: some are still waiting.  Holds the lock.
 */
bool pmv_wake_sleepers(struct pmv_agent *agent);

#endif /* PMV_WAKE_H */
