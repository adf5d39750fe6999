/* SPDX-License-Identifier: BSD-2-Clause */
/* mailbox.c -- blocks, messages and acknowledgements; mailbox.h says how they are used */
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "objects/ep.h"
#include "base/setting.h"

/* The block, the flush page behind it, and what is sent from the next page on. */
#define OUTBOX_AT                                                                                  \
	((PMV_FLUSH_AT + PMV_FLUSH_SIZE + PMV_BLOCK_ALIGN - 1) & ~(size_t) (PMV_BLOCK_ALIGN - 1))
#define OUTBOX_SIZE (PMV_BLOCK_SIZE + PMV_MESSAGE_SIZE)
#define LINK_SIZE (OUTBOX_AT + OUTBOX_SIZE)

static size_t message_at(uint64_t number)
{
	return number % PMV_SLOTS * PMV_MESSAGE_SIZE;
}

static size_t ack_at(uint64_t number)
{
	return PMV_ACKS_AT + number % PMV_SLOTS * PMV_ACK_SIZE;
}

/* Opening and closing */

static int register_part(struct pmv_ep *ep, const void *start, size_t len, uint64_t access,
			 struct fid_mr **mr)
{
	return fi_mr_reg(ep->domain->engine.domain_fid, start, len, access, 0, 0,
			 PMV_CORE_MR_NOCACHE, mr, NULL);
}

/*
 * register_parts -- each with no more rights than it needs: a peer of the domain that
 * could read a block would see other peers' data, and one that could write an outbox
 * could spoil what is sent
 */
static int register_parts(struct pmv_ep *ep)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	int ret = register_part(ep, mailbox->block, PMV_BLOCK_SIZE, FI_REMOTE_WRITE, &mailbox->mr);

	if (!ret)
		ret = register_part(ep, mailbox->block + PMV_FLUSH_AT, PMV_FLUSH_SIZE,
				    FI_REMOTE_READ, &mailbox->flush_mr);
	if (ret || !ep->domain->engine.scratch_mr)
		return ret;
	ret = register_part(ep, mailbox->outbox, OUTBOX_SIZE, FI_WRITE, &mailbox->out_mr);
	if (!ret)
		mailbox->desc = fi_mr_desc(mailbox->out_mr);
	return ret;
}

/* make_seals -- once both halves of the secret are known, in whatever order */
static void make_seals(struct pmv_mailbox *mailbox)
{
	uint64_t mine = mailbox->secret, theirs = mailbox->peer.secret;

	mailbox->message_out = pmv_seal(mine, theirs, PMV_SEALED_MESSAGE);
	mailbox->message_in = pmv_seal(theirs, mine, PMV_SEALED_MESSAGE);
	mailbox->ack_out = pmv_seal(mine, theirs, PMV_SEALED_ACK);
	mailbox->ack_in = pmv_seal(theirs, mine, PMV_SEALED_ACK);
}

int pmv_mailbox_open(struct pmv_ep *ep)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	uint8_t random[sizeof(mailbox->secret)];
	int ret;

	if (mailbox->block)
		return 0;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -FI_EOTHER;
	memcpy(&mailbox->secret, random, sizeof(random));
	mailbox->secret &= PMV_SECRET_MASK;
	make_seals(mailbox);
	mailbox->block =
		mmap(NULL, LINK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mailbox->block == MAP_FAILED) {
		mailbox->block = NULL;
		return -FI_ENOMEM;
	}
	mailbox->outbox = mailbox->block + OUTBOX_AT;
	mailbox->repeated = mailbox->outbox + PMV_BLOCK_SIZE;
	atomic_init(&mailbox->next_ack, 1);
	ret = register_parts(ep);
	if (ret)
		pmv_mailbox_close(ep);
	return ret;
}

static void unregister(struct fid_mr **mr)
{
	if (*mr)
		fi_close(&(*mr)->fid);
	*mr = NULL;
}

void pmv_mailbox_close(struct pmv_ep *ep)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;

	if (!mailbox->block)
		return;
	unregister(&mailbox->mr);
	unregister(&mailbox->flush_mr);
	unregister(&mailbox->out_mr);
	munmap(mailbox->block, LINK_SIZE);
	mailbox->block = NULL;
}

void pmv_mailbox_handshake(struct pmv_ep *ep, uint8_t buf[PMV_HANDSHAKE_SIZE])
{
	const struct pmv_mailbox *mailbox = &ep->mailbox;
	struct pmv_handshake handshake = {
		.addr = ep->domain->engine.virt_addr ? (uintptr_t) mailbox->block : 0,
		.key = (uint32_t) fi_mr_key(mailbox->mr),
		.flush_key = (uint32_t) fi_mr_key(mailbox->flush_mr),
		.secret = mailbox->secret,
		.agent = pmv_setting.agent != PMV_AGENT_OFF,
		.notices = !ep->rx_cq_data,
		.messages = !pmv_ep_direct(ep, PMV_SLOW_RECEIVES),
		.relaxed = pmv_setting.relaxed,
		.one_kind = ep->receives.one_kind,
		.received = ep->receives.kind,
	};

	pmv_handshake_encode(buf, &handshake);
}

/* slow_for_messages -- what a commit has to know of those that were sent before it */
static unsigned slow_for_messages(const struct pmv_ep *ep)
{
	const struct pmv_handshake *peer = &ep->mailbox.peer;

	if (ep->message_method != PMV_METHOD_AGENT)
		return pmv_ordered_by_flush(&peer->received) ? PMV_SLOW_SENDS : 0;
	if (!peer->messages)
		return 0;
	return PMV_SLOW_SENDS | (ep->domain->engine.core->imm_receives ? PMV_SLOW_IMMEDIATES : 0);
}

void pmv_mailbox_connect(struct pmv_ep *ep, const struct pmv_handshake *handshake)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;

	mailbox->peer = *handshake;
	mailbox->connected = handshake->known;
	make_seals(mailbox);
	ep->message_method = pmv_message_method(handshake->one_kind ? &handshake->received : NULL,
						ep->domain->engine.transport);
	atomic_fetch_or(&ep->slow, slow_for_messages(ep));
	/* Any message may be one of those; more than a needless flush it can't cost. */
	if (ep->message_method == PMV_METHOD_READ)
		atomic_store(&ep->wrote_flush, true);
}

static ssize_t post_from(struct pmv_ep *ep, uint8_t *from, size_t at, size_t len, void *context,
			 uint64_t flags)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	struct iovec iov = {.iov_base = from, .iov_len = len};
	struct fi_rma_iov rma_iov = {
		.addr = mailbox->peer.addr + at, .len = len, .key = mailbox->peer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = mailbox->desc ? &mailbox->desc : NULL,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = context,
	};

	return fi_writemsg(ep->engine.fid, &msg, FI_COMPLETION | flags);
}

static ssize_t post(struct pmv_ep *ep, size_t at, size_t len, void *context, uint64_t flags)
{
	return post_from(ep, ep->mailbox.outbox + at, at, len, context, flags);
}

/* Messages from here */

static ssize_t post_message(struct pmv_ep *ep, struct pmv_message *message, void *context,
			    uint64_t flags)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	size_t at = message_at(mailbox->sent + 1);
	ssize_t ret;

	message->number = mailbox->sent + 1;
	message->seen = (uint32_t) mailbox->acked;
	ret = post(ep, at, pmv_message_encode(mailbox->outbox + at, message, &mailbox->message_out),
		   context, flags);
	if (!ret)
		mailbox->sent++;
	return ret;
}

ssize_t pmv_mailbox_send(struct pmv_ep *ep, struct pmv_message *message, void *context,
			 uint64_t flags)
{
	if (ep->mailbox.sent - ep->mailbox.acked >= PMV_WINDOW)
		return -FI_EAGAIN;
	return post_message(ep, message, context, flags);
}

/*
 * pmv_mailbox_repeat -- from a place of its own: cores send from where the message is when
 * its turn comes, and the outbox's slot may have the next one by then
 */
ssize_t pmv_mailbox_repeat(struct pmv_ep *ep, void *context)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	bool last = mailbox->repeat_asked && mailbox->asked > mailbox->acked;
	uint64_t number = last ? mailbox->asked : mailbox->acked + 1;
	uint8_t copy[PMV_MESSAGE_SIZE];
	struct pmv_message message;

	mailbox->repeat_asked = !mailbox->repeat_asked;
	memcpy(mailbox->repeated, mailbox->outbox + message_at(number), PMV_MESSAGE_SIZE);
	/* Where every region has all rights others may write to the outbox, too. */
	if (pmv_message_decode(mailbox->repeated, number, &mailbox->message_out, copy, &message) !=
	    PMV_ARRIVED)
		return -FI_ECANCELED;
	return post_from(ep, mailbox->repeated, message_at(number), PMV_MESSAGE_SIZE, context, 0);
}

bool pmv_mailbox_may_ask(const struct pmv_mailbox *mailbox)
{
	return mailbox->asked <= mailbox->acked && mailbox->sent - mailbox->acked < PMV_SLOTS;
}

ssize_t pmv_mailbox_ask(struct pmv_ep *ep, void *context)
{
	struct pmv_message nothing = {0};
	ssize_t ret = post_message(ep, &nothing, context, 0);

	if (!ret)
		ep->mailbox.asked = ep->mailbox.sent;
	return ret;
}

bool pmv_mailbox_misses_ack(struct pmv_mailbox *mailbox)
{
	uint64_t next = atomic_load(&mailbox->next_ack);
	bool missed = mailbox->missing_ack == next;
	struct pmv_ack ack;

	mailbox->missing_ack = 0;
	for (uint64_t number = next + 1; number < next + PMV_SLOTS; number++) {
		if (pmv_ack_decode(mailbox->block + ack_at(number), number, &mailbox->ack_in,
				   &ack) == PMV_ARRIVED)
			mailbox->missing_ack = next;
	}
	return missed && mailbox->missing_ack;
}

bool pmv_mailbox_has_ack(const struct pmv_mailbox *mailbox)
{
	uint64_t number = atomic_load(&mailbox->next_ack);
	struct pmv_ack ack;

	return pmv_ack_decode(mailbox->block + ack_at(number), number, &mailbox->ack_in, &ack) !=
	       PMV_NOT_YET;
}

enum pmv_arrival pmv_mailbox_take_ack(struct pmv_mailbox *mailbox, struct pmv_ack *ack)
{
	uint64_t number = atomic_load(&mailbox->next_ack);
	enum pmv_arrival arrival =
		pmv_ack_decode(mailbox->block + ack_at(number), number, &mailbox->ack_in, ack);

	if (arrival != PMV_ARRIVED)
		return arrival;
	/* What was not sent, or is done already, can't be done. */
	if (ack->done <= mailbox->acked || ack->done > mailbox->sent)
		return PMV_MALFORMED;
	mailbox->acked = ack->done;
	atomic_store(&mailbox->next_ack, number + 1);
	return PMV_ARRIVED;
}

/* Messages from the peer */

bool pmv_mailbox_has_message(const struct pmv_mailbox *mailbox)
{
	uint64_t number = mailbox->served + 1;

	return pmv_message_ready(mailbox->block + message_at(number), number);
}

enum pmv_arrival pmv_mailbox_take_message(struct pmv_mailbox *mailbox,
					  uint8_t copy[PMV_MESSAGE_SIZE],
					  struct pmv_message *message)
{
	uint64_t number = mailbox->served + 1;
	enum pmv_arrival arrival = pmv_message_decode(mailbox->block + message_at(number), number,
						      &mailbox->message_in, copy, message);

	if (arrival != PMV_NOT_YET)
		mailbox->served = number;
	return arrival;
}

bool pmv_mailbox_has_whole_message(const struct pmv_mailbox *mailbox)
{
	uint64_t number = mailbox->served + 1;
	uint8_t copy[PMV_MESSAGE_SIZE];
	struct pmv_message message;

	return pmv_mailbox_has_message(mailbox) &&
	       pmv_message_decode(mailbox->block + message_at(number), number, &mailbox->message_in,
				  copy, &message) != PMV_NOT_YET;
}

void pmv_mailbox_put_back(struct pmv_mailbox *mailbox, uint64_t number)
{
	mailbox->served = number - 1;
}

void pmv_mailbox_owe(struct pmv_mailbox *mailbox, uint64_t number, enum pmv_fault fault)
{
	struct pmv_owed *last = mailbox->num_owed ? &mailbox->owed[mailbox->num_owed - 1] : NULL;

	/* One acknowledgement covers any number of messages without a fault. */
	if (!last || last->fault || fault)
		last = &mailbox->owed[mailbox->num_owed++];
	*last = (struct pmv_owed){.done = number, .fault = fault};
}

static ssize_t post_ack(struct pmv_ep *ep, const struct pmv_owed *owed)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	struct pmv_ack ack = {
		.number = mailbox->acks + 1, .done = owed->done, .fault = owed->fault};
	size_t at = ack_at(ack.number);
	struct pmv_op *req = pmv_op_get_own(&ep->domain->reqs, ep);
	ssize_t ret;

	if (!req)
		return -FI_EAGAIN;
	req->silent = true;
	pmv_ack_encode(mailbox->outbox + at, &ack, &mailbox->ack_out);
	ret = post(ep, at, PMV_ACK_SIZE, req, 0);
	if (ret)
		pmv_op_put(&ep->domain->reqs, req);
	else
		mailbox->acks++;
	return ret;
}

ssize_t pmv_mailbox_pay(struct pmv_ep *ep)
{
	struct pmv_mailbox *mailbox = &ep->mailbox;
	unsigned int paid = 0;
	ssize_t ret = 0;

	while (paid < mailbox->num_owed && !ret) {
		ret = post_ack(ep, &mailbox->owed[paid]);
		paid += !ret;
	}
	mailbox->num_owed -= paid;
	memmove(mailbox->owed, mailbox->owed + paid, mailbox->num_owed * sizeof(mailbox->owed[0]));
	return ret;
}
