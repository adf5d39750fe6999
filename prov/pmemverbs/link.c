/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c -- blocks, messages and acknowledgements; link.h says how they are used */
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "ep.h"
#include "prov.h"

/* Sent from behind the block, each slot to the slot of that number in the peer's. */
#define LINK_SIZE ((size_t) 2 * PMV_BLOCK_SIZE + PMV_MAX_LEAD)
#define OUTBOX(link) ((link)->block + PMV_BLOCK_SIZE)

static size_t message_at(uint64_t number)
{
	return number % PMV_SLOTS * PMV_MESSAGE_SIZE;
}

static size_t ack_at(uint64_t number)
{
	return PMV_ACKS_AT + number % PMV_SLOTS * PMV_ACK_SIZE;
}

/* lead_of -- what the place of the block has to say */
static unsigned int lead_of(struct pmv_ep *ep)
{
	return pmv_hello_lead(&(struct pmv_hello){
		.messages = !pmv_ep_direct(ep, PMV_CARE_RECEIVES),
		.relaxed = pmv_setting.relaxed,
		.one_kind = ep->receives.one_kind,
		.received = ep->receives.kind,
	});
}

int pmv_link_open(struct pmv_ep *ep)
{
	const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct pmv_link *link = &ep->link;
	void *memory;
	int ret;

	if (link->block)
		return 0;
	if (getrandom(&link->nonce, sizeof(link->nonce), 0) != sizeof(link->nonce))
		return -FI_EOTHER;
	memory = mmap(NULL, LINK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -FI_ENOMEM;
	ret = fi_mr_reg(ep->domain->core_fid, memory, LINK_SIZE, access, 0, 0, PMV_CORE_MR_NOCACHE,
			&link->mr, NULL);
	if (ret) {
		munmap(memory, LINK_SIZE);
		return ret;
	}
	link->memory = memory;
	link->block = (uint8_t *) memory + lead_of(ep);
	link->desc = fi_mr_desc(link->mr);
	atomic_init(&link->next_ack, 1);
	return 0;
}

void pmv_link_close(struct pmv_ep *ep)
{
	struct pmv_link *link = &ep->link;

	if (!link->block)
		return;
	fi_close(&link->mr->fid);
	munmap(link->memory, LINK_SIZE);
	link->block = NULL;
}

void pmv_link_hello(struct pmv_ep *ep, uint8_t buf[PMV_HELLO_SIZE])
{
	const struct pmv_link *link = &ep->link;
	struct pmv_hello hello = {
		.addr = ep->domain->virt_addr ? (uintptr_t) link->block
					      : (uint64_t) (link->block - (uint8_t *) link->memory),
		.key = (uint32_t) fi_mr_key(link->mr),
		.nonce = link->nonce,
		.agent = pmv_setting.agent != PMV_AGENT_OFF,
		.notices = !ep->rx_cq_data,
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
	ep->link.peer = *hello;
	/* No block is at key 0 and address 0 of a peer that has one: it has said nothing. */
	ep->link.connected = hello->nonce || hello->key || hello->addr;
	ep->message_method = pmv_message_method(hello->one_kind ? &hello->received : NULL,
						ep->domain->transport);
	atomic_fetch_or(&ep->care, care_of_messages(ep));
	/* Any message may be one of those; more than a needless flush it can't cost. */
	if (ep->message_method == PMV_METHOD_READ)
		atomic_store(&ep->wrote_flush, true);
}

static ssize_t post(struct pmv_ep *ep, size_t at, size_t len, void *context, uint64_t flags)
{
	struct pmv_link *link = &ep->link;
	struct iovec iov = {.iov_base = OUTBOX(link) + at, .iov_len = len};
	struct fi_rma_iov rma_iov = {
		.addr = link->peer.addr + at, .len = len, .key = link->peer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &link->desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = context,
	};

	return fi_writemsg(ep->core_fid, &msg, FI_COMPLETION | flags);
}

/* Messages from here */

ssize_t pmv_link_send(struct pmv_ep *ep, struct pmv_message *message, void *context, uint64_t flags)
{
	struct pmv_link *link = &ep->link;
	size_t at = message_at(link->sent + 1);
	ssize_t ret;

	if (link->sent - link->acked >= PMV_SLOTS)
		return -FI_EAGAIN;
	message->number = link->sent + 1;
	message->seen = (uint32_t) link->acked;
	ret = post(ep, at, pmv_message_encode(OUTBOX(link) + at, message, link->peer.nonce),
		   context, flags);
	if (!ret)
		link->sent++;
	return ret;
}

bool pmv_link_has_ack(const struct pmv_link *link)
{
	uint64_t number = atomic_load(&link->next_ack);

	return pmv_message_ready(link->block + ack_at(number), number);
}

enum pmv_arrival pmv_link_take_ack(struct pmv_link *link, struct pmv_ack *ack)
{
	uint64_t number = atomic_load(&link->next_ack);
	enum pmv_arrival arrival =
		pmv_ack_decode(link->block + ack_at(number), number, link->nonce, ack);

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
						      link->nonce, copy, message);

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
	       pmv_message_decode(link->block + message_at(number), number, link->nonce, copy,
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
	pmv_ack_encode(OUTBOX(link) + at, &ack, link->peer.nonce);
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
