/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle.h -- what the agent's thread does between its rounds
 *
 * idle_plan.h decides; this finds the facts, sleeps, reads hints, and asks for them.
 */
#ifndef PMV_IDLE_H
#define PMV_IDLE_H

#include <stdbool.h>

#include "agent/idle_plan.h"

struct pmv_agent;

void pmv_idle_begin(struct pmv_agent *agent, struct pmv_idle_plan *plan);

/* pmv_idle -- after a round; busy: it had something to do */
void pmv_idle(struct pmv_agent *agent, struct pmv_idle_plan *plan, bool busy);

#endif /* PMV_IDLE_H */
