/* SPDX-License-Identifier: BSD-2-Clause */
/* choose.c -- the method for a submission */
#include "commit/choose.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/setting.h"
#include "commit/ordering.h"

static ssize_t refuse(const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s\n", why);
	return -FI_EOPNOTSUPP;
}

/* refuse_agent -- only an agent could do it, and there is none */
static ssize_t refuse_agent(struct pmv_initiator *ini, const char *why)
{
	PMV_WARN(EP_DATA, "commit refused: %s; and %s\n", why,
		 ini->mailbox->connected ? "the target's agent is switched off (FI_PMEMVERBS_AGENT)"
					 : "the target has no agent: it does not use pmemverbs");
	return -FI_EOPNOTSUPP;
}

static ssize_t choose_message(struct pmv_initiator *ini, const struct pmv_past *past,
			      struct pmv_chosen *chosen)
{
	const struct pmv_handshake *peer = &ini->mailbox->peer;
	struct pmv_choice *choice = &chosen->choice;

	*choice = pmv_choose_message(peer->one_kind ? &peer->received : NULL,
				     ini->engine->engine->transport,
				     pmv_setting.relaxed || peer->relaxed, past);
	if (choice->method == PMV_METHOD_REFUSED)
		return refuse(choice->why);
	if (choice->method == PMV_METHOD_AGENT && !peer->agent)
		return refuse_agent(ini, choice->why);
	if (choice->method == PMV_METHOD_AGENT && !peer->messages)
		return refuse("the target can't commit messages: its domain was opened without "
			      "FI_RMA_PMEM, or it uses a shared receive context");
	return choice->after_agent && !peer->agent ? refuse_agent(ini, choice->why) : 0;
}

/* choose_place -- the method for one place */
static ssize_t choose_place(struct pmv_initiator *ini, const struct pmv_submission *submission,
			    const struct fi_rma_iov *to, const struct pmv_past *past,
			    struct pmv_choice *choice, unsigned *notes)
{
	struct pmv_attr attr;

	if (!pmv_ordering_attr(ini, to->key, &attr))
		return refuse("the key says nothing of the memory behind it; its owner has to "
			      "register it through pmemverbs, in a domain whose mr_mode has "
			      "FI_MR_PROV_KEY, and hand over all 64 bits of the key");
	if (!attr.writable) {
		PMV_WARN(EP_DATA, "the target's region lacks FI_REMOTE_WRITE\n");
		return -FI_EACCES;
	}
	*notes |= pmv_ordering_note(ini, &attr);
	/* What the target's processor has changed is in its caches. */
	attr.ddio |= submission->changed != 0;
	*choice = pmv_choose_commit(&attr, ini->engine->engine->transport, past);
	if (choice->method == PMV_METHOD_REFUSED)
		return refuse(choice->why);
	if ((choice->method == PMV_METHOD_AGENT || choice->after_agent) &&
	    !ini->mailbox->peer.agent)
		return refuse_agent(ini, choice->why);
	if (past && attr.relaxed && atomic_load(&ini->ordering.wrote_unreadable))
		return refuse("an earlier write of this endpoint, which the fence covers, went "
			      "where peers can't read, over a path that may reorder writes "
			      "(FI_PMEMVERBS_ORDERING=relaxed)");
	return 0;
}

/* strength -- the agent's word covers all methods, a READ those below it */
static int strength(const struct pmv_choice *choice)
{
	return choice->method == PMV_METHOD_AGENT ? 2 : choice->method == PMV_METHOD_READ;
}

ssize_t pmv_choose(struct pmv_initiator *ini, const struct pmv_submission *submission,
		   struct pmv_chosen *chosen)
{
	bool message = submission->what & FI_MSG;
	struct pmv_past before, *past = NULL;

	if (submission->flags & FI_FENCE) {
		before = pmv_ordering_past(ini, message);
		past = &before;
	}
	*chosen = (struct pmv_chosen){.at = message ? NULL : submission->to};
	if (message)
		return choose_message(ini, past, chosen);
	if (!submission->num_to) {
		PMV_WARN(EP_DATA, "a commit needs an address and a key, also without data\n");
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < submission->num_to; i++) {
		const struct fi_rma_iov *to = &submission->to[i];
		struct pmv_choice one, *choice = &chosen->choice;
		ssize_t ret = choose_place(ini, submission, to, past, &one, &chosen->notes);

		if (ret)
			return ret;
		one.flush_agent |= choice->flush_agent;
		if (!i || strength(&one) > strength(choice) ||
		    (strength(&one) == strength(choice) && !chosen->at->len)) {
			*choice = one;
			chosen->at = to;
		}
		choice->flush_agent |= one.flush_agent;
	}
	return 0;
}
