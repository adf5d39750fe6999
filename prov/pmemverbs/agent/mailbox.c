/* SPDX-License-Identifier: BSD-2-Clause */
/* mailbox.c -- blocks, messages and acknowledgements; mailbox.h says how they are used */
#include "agent/mailbox.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "agent/receive_tracker.h"
#include "base/clock.h"
#include "base/setting.h"
#include "engine/engine.h"
#include "memory/locked.h"
#include "progress/op.h"

/* The block, the flush page behind it, and on the next page the outbox. */
#define OUTBOX_AT                                                                                  \
	((PMV_FLUSH_AT + PMV_FLUSH_SIZE + PMV_BLOCK_ALIGN - 1) & ~(size_t) (PMV_BLOCK_ALIGN - 1))
#define OUTBOX_SIZE (PMV_BLOCK_SIZE + PMV_MESSAGE_SIZE)
#define MAPPING_SIZE (OUTBOX_AT + OUTBOX_SIZE)

/* Without an acknowledgement hints are repeated: this long after the request, then less often. */
#define HINT_WAIT_NS 1000000
/* An agent that was woken looks for at least this long. */
#define HINT_HOLDS_NS 50000
#define LONGEST_HINT_WAIT_NS 100000000

static size_t message_at(uint64_t number)
{
	return number % PMV_SLOTS * PMV_MESSAGE_SIZE;
}

static size_t ack_at(uint64_t number)
{
	return PMV_ACKS_AT + number % PMV_SLOTS * PMV_ACK_SIZE;
}

/* Opening and closing */

static int register_part(struct pmv_mailbox *mailbox, size_t at, size_t len, uint64_t access,
			 struct fid_mr **mr)
{
	return pmv_locked_explain(fi_mr_reg(mailbox->engine->engine->domain_fid,
					    mailbox->block + at, len, access, 0, 0,
					    PMV_CORE_MR_NOCACHE, mr, NULL),
				  len);
}

/*
 * register_parts -- each with only the rights that it needs: peers of the domain must neither
 * read other peers' data in a block nor change what is sent from an outbox
 */
static int register_parts(struct pmv_mailbox *mailbox)
{
	int ret = register_part(mailbox, 0, PMV_BLOCK_SIZE, FI_REMOTE_WRITE, &mailbox->mr);

	if (!ret)
		ret = register_part(mailbox, PMV_FLUSH_AT, PMV_FLUSH_SIZE, FI_REMOTE_READ,
				    &mailbox->flush_mr);
	if (!ret && mailbox->engine->engine->scratch_mr)
		ret = register_part(mailbox, OUTBOX_AT, OUTBOX_SIZE, FI_WRITE, &mailbox->out_mr);
	mailbox->desc = mailbox->out_mr ? fi_mr_desc(mailbox->out_mr) : NULL;
	return ret;
}

/* make_seals -- from both halves of the secret, of which either may be known first */
static void make_seals(struct pmv_mailbox *mailbox)
{
	uint64_t mine = mailbox->secret, theirs = mailbox->peer.secret;

	mailbox->message_out = pmv_seal(mine, theirs, PMV_SEALED_MESSAGE);
	mailbox->message_in = pmv_seal(theirs, mine, PMV_SEALED_MESSAGE);
	mailbox->ack_out = pmv_seal(mine, theirs, PMV_SEALED_ACK);
	mailbox->ack_in = pmv_seal(theirs, mine, PMV_SEALED_ACK);
	mailbox->hint_in = pmv_seal(theirs, mine, PMV_SEALED_HINT);
}

static void make_hints(struct pmv_mailbox *mailbox)
{
	struct pmv_seal seal = pmv_seal(mailbox->secret, mailbox->peer.secret, PMV_SEALED_HINT);

	mailbox->hint = pmv_hint_make(mailbox->peer.key, false, &seal);
	mailbox->asking_hint = pmv_hint_make(mailbox->peer.key, true, &seal);
	pmv_hint_find_peer(mailbox->hints, mailbox->engine->fid, mailbox->peer.port,
			   &mailbox->hint_peer);
}

int pmv_mailbox_open(struct pmv_mailbox *mailbox)
{
	int ret;

	if (mailbox->block)
		return 0;
	if (getrandom(&mailbox->secret, sizeof(mailbox->secret), 0) != sizeof(mailbox->secret))
		return -FI_EOTHER;
	mailbox->secret &= PMV_SECRET_MASK;
	make_seals(mailbox);
	/* Who accepts a connection has known the peer for a while. */
	if (mailbox->connected)
		make_hints(mailbox);
	mailbox->block = mmap(NULL, MAPPING_SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mailbox->block == MAP_FAILED) {
		mailbox->block = NULL;
		return -FI_ENOMEM;
	}
	mailbox->outbox = mailbox->block + OUTBOX_AT;
	atomic_init(&mailbox->next_ack, 1);
	ret = register_parts(mailbox);
	if (ret)
		pmv_mailbox_close(mailbox);
	return ret;
}

static void unregister(struct fid_mr **mr)
{
	if (*mr)
		fi_close(&(*mr)->fid);
	*mr = NULL;
}

void pmv_mailbox_close(struct pmv_mailbox *mailbox)
{
	if (!mailbox->block)
		return;
	unregister(&mailbox->mr);
	unregister(&mailbox->flush_mr);
	unregister(&mailbox->out_mr);
	munmap(mailbox->block, MAPPING_SIZE);
	mailbox->block = NULL;
}

bool pmv_mailbox_listens(const struct pmv_mailbox *mailbox)
{
	return pmv_setting.agent == PMV_AGENT_THREAD && atomic_load(&mailbox->hints->fd) >= 0;
}

void pmv_mailbox_handshake(struct pmv_mailbox *mailbox, uint8_t buf[PMV_HANDSHAKE_SIZE])
{
	struct pmv_handshake handshake = {
		.addr = mailbox->engine->engine->virt_addr ? (uintptr_t) mailbox->block : 0,
		.key = (uint32_t) fi_mr_key(mailbox->mr),
		.flush_key = (uint32_t) fi_mr_key(mailbox->flush_mr),
		.secret = mailbox->secret,
		.agent = pmv_setting.agent != PMV_AGENT_OFF,
		.notices = mailbox->takes_notices,
		.messages = atomic_load(&mailbox->receives->on),
		.port = pmv_mailbox_listens(mailbox) ? mailbox->hints->port : 0,
		.relaxed = pmv_setting.relaxed,
		.one_kind = mailbox->receives->one_kind,
		.received = mailbox->receives->kind,
	};

	pmv_handshake_encode(buf, &handshake);
}

void pmv_mailbox_connect(struct pmv_mailbox *mailbox, const struct pmv_handshake *handshake)
{
	mailbox->peer = *handshake;
	mailbox->connected = handshake->known;
	make_seals(mailbox);
	make_hints(mailbox);
}

void pmv_mailbox_flush_place(const struct pmv_mailbox *mailbox, uint64_t *addr, uint64_t *key)
{
	*addr = pmv_handshake_flush_addr(&mailbox->peer);
	*key = mailbox->peer.flush_key;
}

static ssize_t post(struct pmv_mailbox *mailbox, uint8_t *from, size_t at, size_t len,
		    struct pmv_op *op, uint64_t flags)
{
	struct iovec iov = {.iov_base = from, .iov_len = len};
	struct fi_rma_iov rma_iov = {
		.addr = mailbox->peer.addr + at, .len = len, .key = mailbox->peer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = mailbox->desc ? &mailbox->desc : NULL,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
	};
	const struct pmv_wr wr = {
		.kind = PMV_WR_WRITE,
		.context = op,
		.flags = FI_COMPLETION | flags,
		.rma = &msg,
	};

	return pmv_engine_post_one(mailbox->engine, &wr);
}

/* Hints */

void pmv_mailbox_hint(const struct pmv_mailbox *mailbox, bool ask)
{
	const struct pmv_hint *hint = ask ? &mailbox->asking_hint : &mailbox->hint;

	pmv_hint_send(mailbox->hints, &mailbox->hint_peer, hint, sizeof(*hint));
}

/* hint_of_request -- a request was posted: wake the agent up, if it may be asleep */
static void hint_of_request(struct pmv_mailbox *mailbox)
{
	int64_t now;

	if (!mailbox->hint_peer.len)
		return;
	now = pmv_clock_ns();
	mailbox->sent_ns[mailbox->sent % PMV_SLOTS] = now;
	atomic_store(&mailbox->hint_wait_ns, HINT_WAIT_NS);
	atomic_store(&mailbox->hint_again_ns, now + HINT_WAIT_NS);
	if (now < mailbox->awake_ns)
		return;
	pmv_mailbox_hint(mailbox, false);
	mailbox->awake_ns = now + HINT_HOLDS_NS;
}

void pmv_mailbox_hint_again(struct pmv_mailbox *mailbox, int64_t now)
{
	int_fast64_t again = atomic_load(&mailbox->hint_again_ns);
	int64_t wait = atomic_load(&mailbox->hint_wait_ns);

	if (!mailbox->hint_peer.len || now < again ||
	    !atomic_compare_exchange_strong(&mailbox->hint_again_ns, &again, now + wait))
		return;
	if (wait < LONGEST_HINT_WAIT_NS)
		atomic_store(&mailbox->hint_wait_ns, 2 * wait);
	pmv_mailbox_hint(mailbox, false);
}

/* Messages from here */

static ssize_t post_message(struct pmv_mailbox *mailbox, struct pmv_message *message,
			    struct pmv_op *op, uint64_t flags)
{
	size_t at = message_at(mailbox->sent + 1);
	uint8_t *slot = mailbox->outbox + at;
	ssize_t ret;

	message->number = mailbox->sent + 1;
	message->seen = (uint32_t) mailbox->acked;
	pmv_message_encode(slot, message, &mailbox->message_out);
	ret = post(mailbox, slot, at, message->len, op, flags);
	if (ret)
		return ret;
	mailbox->sent++;
	mailbox->in_request = message->more;
	hint_of_request(mailbox);
	return 0;
}

ssize_t pmv_mailbox_send(struct pmv_mailbox *mailbox, struct pmv_message *message,
			 struct pmv_op *op, uint64_t flags)
{
	if (mailbox->sent - mailbox->acked >= PMV_WINDOW)
		return -FI_EAGAIN;
	return post_message(mailbox, message, op, flags);
}

/*
 * From a place of its own: a core may read the message only when it sends it, and the
 * outbox's slot may contain another one by then
 */
ssize_t pmv_mailbox_repeat(struct pmv_mailbox *mailbox, struct pmv_op *op)
{
	bool last = mailbox->repeat_asked && mailbox->asked > mailbox->acked;
	uint64_t number = last ? mailbox->asked : mailbox->acked + 1;
	uint8_t *copy = mailbox->outbox + PMV_BLOCK_SIZE;
	struct pmv_message message;

	mailbox->repeat_asked = !mailbox->repeat_asked;
	memcpy(copy, mailbox->outbox + message_at(number), PMV_MESSAGE_SIZE);
	/* Where every region has all rights others may write to the outbox, too. */
	if (pmv_message_decode(copy, number, &mailbox->message_out, &message) != PMV_ARRIVED)
		return -FI_ECANCELED;
	return post(mailbox, copy, message_at(number), PMV_MESSAGE_SIZE, op, 0);
}

bool pmv_mailbox_may_ask(const struct pmv_mailbox *mailbox)
{
	return mailbox->asked <= mailbox->acked && mailbox->sent - mailbox->acked < PMV_SLOTS;
}

ssize_t pmv_mailbox_ask(struct pmv_mailbox *mailbox, struct pmv_op *op)
{
	/* In the middle of a request it is a part of that one. */
	struct pmv_message nothing = {.more = mailbox->in_request};
	ssize_t ret = post_message(mailbox, &nothing, op, 0);

	if (!ret)
		mailbox->asked = mailbox->sent;
	return ret;
}

static enum pmv_arrival look_for_ack(const struct pmv_mailbox *mailbox, uint64_t number,
				     struct pmv_ack *ack)
{
	return pmv_ack_decode(mailbox->block + ack_at(number), number, &mailbox->ack_in, ack);
}

bool pmv_mailbox_misses_ack(struct pmv_mailbox *mailbox)
{
	uint64_t next = atomic_load(&mailbox->next_ack);
	bool missed = mailbox->missing_ack == next;
	struct pmv_ack ack;

	mailbox->missing_ack = 0;
	for (uint64_t number = next + 1; number < next + PMV_SLOTS; number++) {
		if (look_for_ack(mailbox, number, &ack) == PMV_ARRIVED)
			mailbox->missing_ack = next;
	}
	return missed && mailbox->missing_ack;
}

bool pmv_mailbox_has_ack(const struct pmv_mailbox *mailbox)
{
	struct pmv_ack ack;

	return look_for_ack(mailbox, atomic_load(&mailbox->next_ack), &ack) != PMV_NOT_YET;
}

enum pmv_arrival pmv_mailbox_take_ack(struct pmv_mailbox *mailbox, struct pmv_ack *ack)
{
	uint64_t number = atomic_load(&mailbox->next_ack);
	enum pmv_arrival arrival = look_for_ack(mailbox, number, ack);
	int64_t until;

	if (arrival != PMV_ARRIVED)
		return arrival;
	/* It was never sent, or was acknowledged before. */
	if (ack->done <= mailbox->acked || ack->done > mailbox->sent)
		return PMV_MALFORMED;
	mailbox->acked = ack->done;
	/*
	 * It looks for so long from when it has sent this on.  The next request takes as long
	 * to it as this one did: so it is in time if it is sent within that time after it.
	 */
	until = mailbox->sent_ns[ack->done % PMV_SLOTS] + (int64_t) ack->looks_us * (1000 * 3 / 4);
	if (mailbox->awake_ns < until)
		mailbox->awake_ns = until;
	atomic_store(&mailbox->next_ack, number + 1);
	return PMV_ARRIVED;
}

/* Messages from the peer */

bool pmv_mailbox_has_message(const struct pmv_mailbox *mailbox)
{
	uint64_t number = mailbox->served + 1;

	return pmv_message_ready(mailbox->block + message_at(number), number);
}

enum pmv_arrival pmv_mailbox_look(const struct pmv_mailbox *mailbox, struct pmv_message *message)
{
	uint64_t number = mailbox->served + 1;

	return pmv_message_decode(mailbox->block + message_at(number), number, &mailbox->message_in,
				  message);
}

void pmv_mailbox_owe(struct pmv_mailbox *mailbox, uint64_t number, enum pmv_fault fault)
{
	struct pmv_ack *last = mailbox->num_owed ? &mailbox->owed[mailbox->num_owed - 1] : NULL;

	/* One acknowledgement covers any number of messages without a fault. */
	if (!last || last->fault || fault)
		last = &mailbox->owed[mailbox->num_owed++];
	*last = (struct pmv_ack){.done = number, .fault = fault};
}

static ssize_t post_ack(struct pmv_mailbox *mailbox, struct pmv_ack *ack)
{
	struct pmv_op *op = pmv_op_get(mailbox->owner, PMV_OP_OWN);
	uint8_t *slot;
	ssize_t ret;

	if (!op)
		return -FI_EAGAIN;
	/* Nothing is to be done when it was sent. */
	op->ordinary = true;
	ack->number = mailbox->acks + 1;
	ack->looks_us = (uint32_t) (mailbox->look.window_ns / 1000);
	slot = mailbox->outbox + ack_at(ack->number);
	pmv_ack_encode(slot, ack, &mailbox->ack_out);
	ret = post(mailbox, slot, ack_at(ack->number), PMV_ACK_SIZE, op, 0);
	if (ret)
		pmv_op_put(mailbox->owner->pool, op);
	else
		mailbox->acks++;
	return ret;
}

ssize_t pmv_mailbox_pay(struct pmv_mailbox *mailbox)
{
	unsigned int paid = 0;
	ssize_t ret = 0;

	while (paid < mailbox->num_owed && !ret) {
		ret = post_ack(mailbox, &mailbox->owed[paid]);
		paid += !ret;
	}
	mailbox->num_owed -= paid;
	if (mailbox->num_owed)
		memmove(mailbox->owed, mailbox->owed + paid,
			mailbox->num_owed * sizeof(mailbox->owed[0]));
	return ret;
}
