/* SPDX-License-Identifier: BSD-2-Clause */
/* kick.c -- the agent's thread is woken up */
#include "agent/kick.h"

#include <unistd.h>

#include "agent/agent.h"

void pmv_agent_kick(struct pmv_agent *agent)
{
	const uint64_t one = 1;

	if (atomic_load(&agent->asleep) && write(agent->kick_fd, &one, sizeof(one)) < 0)
		return;
}
