/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h -- how an endpoint and its peer's agent talk past the application
 *
 * A mailbox has two halves.  The endpoint asks the peer's agent through the sender.  Our agent
 * serves the receiver.  In the handshake both ends learn where the other one's block is, and its
 * half of the secret, of which the seals are made.
 */
#ifndef PMV_MAILBOX_H
#define PMV_MAILBOX_H

#include "agent/link.h"
#include "agent/receiver.h"
#include "agent/sender.h"

struct pmv_mailbox {
	struct pmv_link link;
	struct pmv_sender sender;     /* the endpoint's lock */
	struct pmv_receiver receiver; /* the agent's lock */
};

/* pmv_mailbox_init -- before all else: the halves know each other */
void pmv_mailbox_init(struct pmv_mailbox *mailbox);

/* pmv_mailbox_open -- allocate and register the block, unless there is one */
int pmv_mailbox_open(struct pmv_mailbox *mailbox);

/* pmv_mailbox_handshake -- for the peer; pmv_mailbox_connect -- the peer's has arrived */
void pmv_mailbox_handshake(struct pmv_mailbox *mailbox, uint8_t buf[PMV_HANDSHAKE_SIZE]);
void pmv_mailbox_connect(struct pmv_mailbox *mailbox, const struct pmv_handshake *handshake);

#endif /* PMV_MAILBOX_H */
