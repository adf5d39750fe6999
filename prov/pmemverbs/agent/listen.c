/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.c -- hints that have come */
#include "agent/listen.h"

#include "agent/agent.h"
#include "agent/idle_plan.h"
#include "agent/receiver.h"

/* heed -- look into the mailbox that a hint names; false: it is forged, or late, or repeated */
static bool heed(struct pmv_agent *agent, const struct pmv_hint *hint, int64_t now)
{
	struct pmv_receiver *receiver = pmv_look_find(&agent->looks, hint->key);

	if (!receiver || !pmv_hint_is_genuine(hint, &receiver->hint_in) ||
	    !pmv_look_hinted(&agent->looks, receiver, hint->ask, now))
		return false;
	if (hint->ask)
		pmv_link_hint(receiver->link, false);
	return true;
}

bool pmv_listen(struct pmv_agent *agent, int64_t now)
{
	struct {
		struct pmv_hint hint;
		char more; /* a datagram that is too long does not pass for a hint */
	} buf;
	unsigned int count = 0, heeded = 0;
	ssize_t len;

	while (count < PMV_IDLE_LISTEN_MOST &&
	       (len = pmv_hint_receive(&agent->hints, &buf, sizeof(buf))) >= 0) {
		count++;
		pthread_mutex_lock(&agent->lock);
		heeded += len == sizeof(buf.hint) && heed(agent, &buf.hint, now);
		pthread_mutex_unlock(&agent->lock);
	}
	return heeded || !count;
}

void pmv_listen_ask(struct pmv_agent *agent)
{
	struct pmv_receiver *receiver;

	/* Those whose hints have not come are active. */
	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	{
		if (receiver->look.hinted)
			continue;
		pmv_link_hint(receiver->link, true);
		pmv_look_asked(&agent->looks, receiver);
	}
}
