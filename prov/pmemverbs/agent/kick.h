/* SPDX-License-Identifier: BSD-2-Clause */
/* kick.h -- the agent's thread is woken up */
#ifndef PMV_KICK_H
#define PMV_KICK_H

struct pmv_agent;

/* pmv_agent_kick -- wake the thread up, if it sleeps; takes no lock */
void pmv_agent_kick(struct pmv_agent *agent);

#endif /* PMV_KICK_H */
