/* SPDX-License-Identifier: BSD-2-Clause */
/* mailbox.c -- joins the two halves of a mailbox, and both ends of a connection */
#include "agent/mailbox.h"

#include "agent/receive_tracker.h"
#include "base/setting.h"
#include "engine/engine.h"

void pmv_mailbox_init(struct pmv_mailbox *mailbox)
{
	mailbox->sender.link = mailbox->receiver.link = &mailbox->link;
	mailbox->receiver.sender = &mailbox->sender;
	atomic_init(&mailbox->sender.next_ack, 1);
}

/* make_seals -- from both halves of the secret, of which either may be known first */
static void make_seals(struct pmv_mailbox *mailbox)
{
	uint64_t mine = mailbox->link.secret, theirs = mailbox->link.peer.secret;

	mailbox->sender.message_out = pmv_seal(mine, theirs, PMV_SEALED_MESSAGE);
	mailbox->receiver.message_in = pmv_seal(theirs, mine, PMV_SEALED_MESSAGE);
	mailbox->receiver.ack_out = pmv_seal(mine, theirs, PMV_SEALED_ACK);
	mailbox->receiver.reply_out = pmv_seal(mine, theirs, PMV_SEALED_REPLY);
	mailbox->sender.ack_in = pmv_seal(theirs, mine, PMV_SEALED_ACK);
	mailbox->sender.reply_in = pmv_seal(theirs, mine, PMV_SEALED_REPLY);
	mailbox->receiver.hint_in = pmv_seal(theirs, mine, PMV_SEALED_HINT);
}

int pmv_mailbox_open(struct pmv_mailbox *mailbox)
{
	int ret;

	if (mailbox->link.opened)
		return 0;
	ret = pmv_link_open(&mailbox->link);
	make_seals(mailbox);
	/* Whoever accepts a connection has known the peer for a while. */
	if (!ret && mailbox->link.connected)
		pmv_link_make_hints(&mailbox->link);
	return ret;
}

void pmv_mailbox_handshake(struct pmv_mailbox *mailbox, uint8_t buf[PMV_HANDSHAKE_SIZE])
{
	const struct pmv_link *link = &mailbox->link;
	const struct pmv_receive_tracker *receives = mailbox->receiver.receives;
	struct pmv_handshake handshake = {
		.addr = link->engine->engine->virt_addr ? (uintptr_t) link->block : 0,
		.key = (uint32_t) fi_mr_key(link->mr),
		.flush_key = (uint32_t) fi_mr_key(link->flush_mr),
		.secret = link->secret,
		.life = link->life,
		.agent = pmv_setting.agent != PMV_AGENT_OFF,
		.notices = mailbox->receiver.takes_notices,
		.messages = atomic_load(&receives->on),
		.port = pmv_link_listens(link) ? link->hints->port : 0,
		.relaxed = pmv_setting.relaxed,
		.one_kind = receives->one_kind,
		.received = receives->kind,
	};

	pmv_handshake_encode(buf, &handshake);
}

void pmv_mailbox_connect(struct pmv_mailbox *mailbox, const struct pmv_handshake *handshake)
{
	mailbox->link.peer = *handshake;
	mailbox->link.connected = handshake->known;
	make_seals(mailbox);
	pmv_link_make_hints(&mailbox->link);
}
