/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c -- blocks, messages and acknowledgements; link.h says how they are used */
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "ep.h"
#include "prov.h"

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
	return fi_mr_reg(ep->domain->core_fid, start, len, access, 0, 0, PMV_CORE_MR_NOCACHE, mr,
			 NULL);
}

/*
 * register_parts -- each with no more rights than it needs: a peer of the domain that
 * could read a block would see other peers' data, and one that could write an outbox
 * could spoil what is sent
 */
static int register_parts(struct pmv_ep *ep)
{
	struct pmv_link *link = &ep->link;
	int ret = register_part(ep, link->block, PMV_BLOCK_SIZE, FI_REMOTE_WRITE, &link->mr);

	if (!ret)
		ret = register_part(ep, link->block + PMV_FLUSH_AT, PMV_FLUSH_SIZE, FI_REMOTE_READ,
				    &link->flush_mr);
	if (ret || !ep->domain->scratch_mr)
		return ret;
	ret = register_part(ep, link->outbox, OUTBOX_SIZE, FI_WRITE, &link->out_mr);
	if (!ret)
		link->desc = fi_mr_desc(link->out_mr);
	return ret;
}

/* make_seals -- once both halves of the secret are known, in whatever order */
static void make_seals(struct pmv_link *link)
{
	uint64_t mine = link->secret, theirs = link->peer.secret;

	link->message_out = pmv_seal(mine, theirs, PMV_SEALED_MESSAGE);
	link->message_in = pmv_seal(theirs, mine, PMV_SEALED_MESSAGE);
	link->ack_out = pmv_seal(mine, theirs, PMV_SEALED_ACK);
	link->ack_in = pmv_seal(theirs, mine, PMV_SEALED_ACK);
}

int pmv_link_open(struct pmv_ep *ep)
{
	struct pmv_link *link = &ep->link;
	uint8_t random[sizeof(link->secret)];
	int ret;

	if (link->block)
		return 0;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -FI_EOTHER;
	memcpy(&link->secret, random, sizeof(random));
	link->secret &= PMV_SECRET_MASK;
	make_seals(link);
	link->block =
		mmap(NULL, LINK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->block == MAP_FAILED) {
		link->block = NULL;
		return -FI_ENOMEM;
	}
	link->outbox = link->block + OUTBOX_AT;
	link->repeated = link->outbox + PMV_BLOCK_SIZE;
	atomic_init(&link->next_ack, 1);
	ret = register_parts(ep);
	if (ret)
		pmv_link_close(ep);
	return ret;
}

static void unregister(struct fid_mr **mr)
{
	if (*mr)
		fi_close(&(*mr)->fid);
	*mr = NULL;
}

void pmv_link_close(struct pmv_ep *ep)
{
	struct pmv_link *link = &ep->link;

	if (!link->block)
		return;
	unregister(&link->mr);
	unregister(&link->flush_mr);
	unregister(&link->out_mr);
	munmap(link->block, LINK_SIZE);
	link->block = NULL;
}

void pmv_link_hello(struct pmv_ep *ep, uint8_t buf[PMV_HELLO_SIZE])
{
	const struct pmv_link *link = &ep->link;
	struct pmv_hello hello = {
		.addr = ep->domain->virt_addr ? (uintptr_t) link->block : 0,
		.key = (uint32_t) fi_mr_key(link->mr),
		.flush_key = (uint32_t) fi_mr_key(link->flush_mr),
		.secret = link->secret,
		.agent = pmv_setting.agent != PMV_AGENT_OFF,
		.notices = !ep->rx_cq_data,
		.messages = !pmv_ep_direct(ep, PMV_CARE_RECEIVES),
		.relaxed = pmv_setting.relaxed,
		.one_kind = ep->receives.one_kind,
		.received = ep->receives.kind,
	};

	pmv_hello_encode(buf, &hello);
}

/* care_of_messages -- what a commit has to know of those that were sent before it */
static unsigned care_of_messages(const struct pmv_ep *ep)
{
	const struct pmv_hello *peer = &ep->link.peer;

	if (ep->message_method != PMV_METHOD_AGENT)
		return pmv_ordered_by_flush(&peer->received) ? PMV_CARE_SENDS : 0;
	if (!peer->messages)
		return 0;
	return PMV_CARE_SENDS | (ep->domain->fabric->core->imm_receives ? PMV_CARE_IMMEDIATES : 0);
}

void pmv_link_connect(struct pmv_ep *ep, const struct pmv_hello *hello)
{
	struct pmv_link *link = &ep->link;

	link->peer = *hello;
	link->connected = hello->known;
	make_seals(link);
	ep->message_method = pmv_message_method(hello->one_kind ? &hello->received : NULL,
						ep->domain->transport);
	atomic_fetch_or(&ep->care, care_of_messages(ep));
	/* Any message may be one of those; more than a needless flush it can't cost. */
	if (ep->message_method == PMV_METHOD_READ)
		atomic_store(&ep->wrote_flush, true);
}

static ssize_t post_from(struct pmv_ep *ep, uint8_t *from, size_t at, size_t len, void *context,
			 uint64_t flags)
{
	struct pmv_link *link = &ep->link;
	struct iovec iov = {.iov_base = from, .iov_len = len};
	struct fi_rma_iov rma_iov = {
		.addr = link->peer.addr + at, .len = len, .key = link->peer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = link->desc ? &link->desc : NULL,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = context,
	};

	return fi_writemsg(ep->core_fid, &msg, FI_COMPLETION | flags);
}

static ssize_t post(struct pmv_ep *ep, size_t at, size_t len, void *context, uint64_t flags)
{
	return post_from(ep, ep->link.outbox + at, at, len, context, flags);
}

/* Messages from here */

static ssize_t post_message(struct pmv_ep *ep, struct pmv_message *message, void *context,
			    uint64_t flags)
{
	struct pmv_link *link = &ep->link;
	size_t at = message_at(link->sent + 1);
	ssize_t ret;

	message->number = link->sent + 1;
	message->seen = (uint32_t) link->acked;
	ret = post(ep, at, pmv_message_encode(link->outbox + at, message, &link->message_out),
		   context, flags);
	if (!ret)
		link->sent++;
	return ret;
}

ssize_t pmv_link_send(struct pmv_ep *ep, struct pmv_message *message, void *context, uint64_t flags)
{
	if (ep->link.sent - ep->link.acked >= PMV_WINDOW)
		return -FI_EAGAIN;
	return post_message(ep, message, context, flags);
}

/*
 * pmv_link_repeat -- from a place of its own: cores send from where the message is when
 * its turn comes, and the outbox's slot may have the next one by then
 */
ssize_t pmv_link_repeat(struct pmv_ep *ep, void *context)
{
	struct pmv_link *link = &ep->link;
	bool last = link->repeat_asked && link->asked > link->acked;
	uint64_t number = last ? link->asked : link->acked + 1;
	uint8_t copy[PMV_MESSAGE_SIZE];
	struct pmv_message message;

	link->repeat_asked = !link->repeat_asked;
	memcpy(link->repeated, link->outbox + message_at(number), PMV_MESSAGE_SIZE);
	/* Where every region has all rights others may write to the outbox, too. */
	if (pmv_message_decode(link->repeated, number, &link->message_out, copy, &message) !=
	    PMV_ARRIVED)
		return -FI_ECANCELED;
	return post_from(ep, link->repeated, message_at(number), PMV_MESSAGE_SIZE, context, 0);
}

bool pmv_link_may_ask(const struct pmv_link *link)
{
	return link->asked <= link->acked && link->sent - link->acked < PMV_SLOTS;
}

ssize_t pmv_link_ask(struct pmv_ep *ep, void *context)
{
	struct pmv_message nothing = {0};
	ssize_t ret = post_message(ep, &nothing, context, 0);

	if (!ret)
		ep->link.asked = ep->link.sent;
	return ret;
}

bool pmv_link_misses_ack(struct pmv_link *link)
{
	uint64_t next = atomic_load(&link->next_ack);
	bool missed = link->missing_ack == next;
	struct pmv_ack ack;

	link->missing_ack = 0;
	for (uint64_t number = next + 1; number < next + PMV_SLOTS; number++) {
		if (pmv_ack_decode(link->block + ack_at(number), number, &link->ack_in, &ack) ==
		    PMV_ARRIVED)
			link->missing_ack = next;
	}
	return missed && link->missing_ack;
}

bool pmv_link_has_ack(const struct pmv_link *link)
{
	uint64_t number = atomic_load(&link->next_ack);
	struct pmv_ack ack;

	return pmv_ack_decode(link->block + ack_at(number), number, &link->ack_in, &ack) !=
	       PMV_NOT_YET;
}

enum pmv_arrival pmv_link_take_ack(struct pmv_link *link, struct pmv_ack *ack)
{
	uint64_t number = atomic_load(&link->next_ack);
	enum pmv_arrival arrival =
		pmv_ack_decode(link->block + ack_at(number), number, &link->ack_in, ack);

	if (arrival != PMV_ARRIVED)
		return arrival;
	/* What was not sent, or is done already, can't be done. */
	if (ack->done <= link->acked || ack->done > link->sent)
		return PMV_MALFORMED;
	link->acked = ack->done;
	atomic_store(&link->next_ack, number + 1);
	return PMV_ARRIVED;
}

/* Messages from the peer */

bool pmv_link_has_message(const struct pmv_link *link)
{
	uint64_t number = link->served + 1;

	return pmv_message_ready(link->block + message_at(number), number);
}

enum pmv_arrival pmv_link_take_message(struct pmv_link *link, uint8_t copy[PMV_MESSAGE_SIZE],
				       struct pmv_message *message)
{
	uint64_t number = link->served + 1;
	enum pmv_arrival arrival = pmv_message_decode(link->block + message_at(number), number,
						      &link->message_in, copy, message);

	if (arrival != PMV_NOT_YET)
		link->served = number;
	return arrival;
}

bool pmv_link_has_whole_message(const struct pmv_link *link)
{
	uint64_t number = link->served + 1;
	uint8_t copy[PMV_MESSAGE_SIZE];
	struct pmv_message message;

	return pmv_link_has_message(link) &&
	       pmv_message_decode(link->block + message_at(number), number, &link->message_in, copy,
				  &message) != PMV_NOT_YET;
}

void pmv_link_put_back(struct pmv_link *link, uint64_t number)
{
	link->served = number - 1;
}

void pmv_link_owe(struct pmv_link *link, uint64_t number, enum pmv_fault fault)
{
	struct pmv_owed *last = link->num_owed ? &link->owed[link->num_owed - 1] : NULL;

	/* One acknowledgement covers any number of messages without a fault. */
	if (!last || last->fault || fault)
		last = &link->owed[link->num_owed++];
	*last = (struct pmv_owed){.done = number, .fault = fault};
}

static ssize_t post_ack(struct pmv_ep *ep, const struct pmv_owed *owed)
{
	struct pmv_link *link = &ep->link;
	struct pmv_ack ack = {.number = link->acks + 1, .done = owed->done, .fault = owed->fault};
	size_t at = ack_at(ack.number);
	struct pmv_req *req = pmv_req_get_own(&ep->domain->reqs, ep);
	ssize_t ret;

	if (!req)
		return -FI_EAGAIN;
	req->silent = true;
	pmv_ack_encode(link->outbox + at, &ack, &link->ack_out);
	ret = post(ep, at, PMV_ACK_SIZE, req, 0);
	if (ret)
		pmv_req_put(&ep->domain->reqs, req);
	else
		link->acks++;
	return ret;
}

ssize_t pmv_link_pay(struct pmv_ep *ep)
{
	struct pmv_link *link = &ep->link;
	unsigned int paid = 0;
	ssize_t ret = 0;

	while (paid < link->num_owed && !ret) {
		ret = post_ack(ep, &link->owed[paid]);
		paid += !ret;
	}
	link->num_owed -= paid;
	memmove(link->owed, link->owed + paid, link->num_owed * sizeof(link->owed[0]));
	return ret;
}
