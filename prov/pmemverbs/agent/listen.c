/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.c -- hints that have come */
#include "agent/listen.h"

#include "agent/agent.h"
#include "agent/mailbox.h"

/* So many are read in one go. */
#define AT_ONCE 64

/* heed -- look into the mailbox that a hint names; false: it is forged, or late */
static bool heed(struct pmv_agent *agent, const uint8_t *buf, size_t len, int64_t now)
{
	struct pmv_mailbox *mailbox;
	bool ask;

	if (len != PMV_HINT_SIZE)
		return false;
	mailbox = pmv_look_find(&agent->looks, pmv_hint_key(buf));
	if (!mailbox || !pmv_hint_decode(buf, &mailbox->hint_in, &ask))
		return false;
	pmv_look_hinted(&agent->looks, mailbox, now);
	if (ask)
		pmv_mailbox_hint(mailbox, false);
	return true;
}

bool pmv_listen(struct pmv_agent *agent, int64_t now)
{
	/* Room for one byte more: then a datagram that is too long does not pass for a hint. */
	uint8_t buf[PMV_HINT_SIZE + 1];
	unsigned int count = 0, heeded = 0;
	size_t len;

	while (count < AT_ONCE && (len = pmv_hint_receive(&agent->hints, buf, sizeof(buf)))) {
		count++;
		pthread_mutex_lock(&agent->lock);
		heeded += heed(agent, buf, len, now);
		pthread_mutex_unlock(&agent->lock);
	}
	return heeded || !count;
}

void pmv_listen_ask(struct pmv_agent *agent)
{
	struct pmv_mailbox *mailbox;

	/* Those whose hints have not come are warm. */
	TAILQ_FOREACH(mailbox, &agent->looks.warm, next)
	{
		if (!mailbox->look.hinted)
			pmv_mailbox_hint(mailbox, true);
	}
}
