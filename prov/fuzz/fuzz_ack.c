/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_ack.c -- an initiator whose peer acknowledges anything
 *
 * The input says what the application calls, how the core's requests end, and what the peer
 * writes to where acknowledgements are expected.  The endpoint is the real one, over the test
 * core; nobody plays the agent but the input.  What was accepted must
 *   - complete once, and nothing else completes,
 *   - not succeed before an acknowledgement with the peer's seal and the right number says so,
 *   - fail if an acknowledgement reports a fault of one of its messages,
 *   - complete when the connection is lost, whatever the peer has done.
 */
#include "peer.h"

#include <stdlib.h>

#include "objects/ep.h"

#define MOST_OPS 96
#define MOST_MESSAGES 4096

struct op {
	bool accepted;
	bool told; /* it completes also if it succeeds */
	bool asks; /* only the agent makes it durable */
	bool faulted;
	uint64_t first; /* none of its messages is before this one */
	uint64_t last;  /* of its own; 0: none yet */
	int completions;
};

struct ack {
	uint64_t number; /* 0: nothing that is sealed is there */
	uint64_t done;
	uint32_t fault;
	size_t len; /* what the seal is of */
};

struct initiator {
	struct pair *pair;
	struct pmv_mailbox *mailbox;
	struct input input;
	struct op ops[MOST_OPS];
	int num_ops;
	struct op *senders[MOST_MESSAGES]; /* whose message it is; NULL: nobody's */
	struct ack acks[PMV_SLOTS];
	uint64_t next; /* the acknowledgement that is taken next */
	uint64_t covered;
};

static struct initiator initiator;

/* Acknowledgements */

/* take_acks -- those that the endpoint has taken since the last call: were they the peer's? */
static void take_acks(void)
{
	for (; initiator.next < atomic_load(&initiator.mailbox->sender.next_ack);
	     initiator.next++) {
		const struct ack *ack = &initiator.acks[initiator.next % PMV_SLOTS];

		cr_assert_eq(ack->number, initiator.next);
		cr_assert(ack->done > initiator.covered &&
			  ack->done <= initiator.mailbox->sender.sent);
		initiator.covered = ack->done;
		if (ack->fault && initiator.senders[ack->done])
			initiator.senders[ack->done]->faulted = true;
	}
	cr_assert_eq(initiator.covered, initiator.mailbox->sender.acked);
}

static struct op *op_of(const void *context)
{
	ptrdiff_t id = ((const char *) context - (char *) CONTEXT(0)) / 16;

	cr_assert(id >= 0 && id < initiator.num_ops && context == CONTEXT(id));
	return &initiator.ops[id];
}

/* see_post -- is it a message, and whose?  It comes again if there was no room for it. */
static void see_post(struct fake *fake, const struct fake_post *post, void *arg)
{
	const struct pmv_op *own = post->op.context;
	uint64_t number = initiator.mailbox->sender.sent + 1;

	(void) fake;
	(void) arg;
	if (post->op.key != initiator.mailbox->link.peer.key ||
	    ((const struct pmv_envelope *) post->op.buf)->number != number)
		return;
	cr_assert(number < MOST_MESSAGES);
	/* Nobody is told of what the endpoint sends for itself, or what was injected. */
	initiator.senders[number] =
		own->told.audience == PMV_TELL_NOBODY ? NULL : op_of(own->context);
	if (initiator.senders[number])
		initiator.senders[number]->last = number;
}

static uint8_t *slot_of(uint64_t number)
{
	return initiator.mailbox->link.block + pmv_ack_at(number);
}

enum {
	OTHER_NUMBER = 1,
	ANY_DONE = 2,
	FAULT = 4,
	WRONG_SEAL = 8,
};

static void answer(void)
{
	uint8_t how = input_8(&initiator.input);
	struct pmv_ack ack = {
		.number = initiator.next,
		.done = initiator.covered + input_8(&initiator.input),
	};
	uint16_t looks = input_16(&initiator.input);

	ack.looks_us = looks & INT16_MAX;
	ack.unhinted = looks >> 15;
	if (how & OTHER_NUMBER)
		ack.number += (uint64_t) (int8_t) input_8(&initiator.input);
	if (how & ANY_DONE)
		ack.done = input_64(&initiator.input);
	if (how & FAULT)
		ack.fault = (enum pmv_fault) input_16(&initiator.input);
	/* Some are too long, and no acknowledgements. */
	ack.reply_len = (how >> 4) * 16;
	if (ack.reply_len > PMV_ACK_ROOM)
		how |= WRONG_SEAL;
	if (!(how & WRONG_SEAL))
		reseal(&ack, PMV_ACK_SIZE + ack.reply_len, &initiator.mailbox->sender.ack_in);
	memcpy(slot_of(ack.number), &ack, sizeof(ack));
	initiator.acks[ack.number % PMV_SLOTS] =
		(struct ack){how & WRONG_SEAL ? 0 : ack.number, ack.done, ack.fault,
			     how & WRONG_SEAL ? 0 : PMV_ACK_SIZE + ack.reply_len};
}

static void write_block(void)
{
	uint8_t before[PMV_ACK_SLOT], buf[UINT8_MAX];
	size_t at = input_16(&initiator.input) % (PMV_BLOCK_SIZE - sizeof(buf));
	size_t len = input_8(&initiator.input);

	if (at < PMV_ACKS_AT)
		at = PMV_ACKS_AT + at % (PMV_SLOTS * PMV_ACK_SLOT - sizeof(buf));
	input_copy(&initiator.input, buf, len);
	for (uint64_t slot = 0; slot < PMV_SLOTS; slot++) {
		uint8_t *start = slot_of(slot), *end = start + PMV_ACK_SLOT;
		uint8_t *to = initiator.mailbox->link.block + at;

		memcpy(before, start, PMV_ACK_SLOT);
		for (size_t i = 0; i < len; i++) {
			if (to + i >= start && to + i < end)
				to[i] = buf[i];
		}
		if (memcmp(before, start, initiator.acks[slot].len))
			initiator.acks[slot].number = 0;
	}
}

/* time_passes -- long enough for the endpoint to look what is wrong */
static void time_passes(void)
{
	initiator.pair->from->initiator.heard_ns -= INT64_C(1000000000);
}

/* The application */

static struct op *new_op(void)
{
	struct op *op = &initiator.ops[initiator.num_ops++];

	*op = (struct op){.first = initiator.mailbox->sender.sent + 1};
	return op;
}

static uint64_t input_flags(void)
{
	static const uint64_t all[] = {FI_COMMIT, FI_FENCE, FI_REMOTE_CQ_DATA, FI_COMPLETION};
	uint8_t which = input_8(&initiator.input);
	uint64_t flags = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		flags |= which & 1U << i ? all[i] : 0;
	return flags;
}

static bool is_told(uint64_t flags)
{
	return !initiator.pair->home->options.selective || (flags & FI_COMPLETION);
}

static void put(void)
{
	enum pair_memory memory = (enum pair_memory)(input_8(&initiator.input) % PAIR_MEMORIES);
	uint64_t flags = input_flags();
	size_t offset = input_16(&initiator.input) % PAIR_SIZE;
	size_t len = input_16(&initiator.input) % 1024;
	struct op *op = new_op();

	if (offset + len > PAIR_SIZE)
		offset -= len;
	op->told = is_told(flags);
	op->asks = (flags & FI_COMMIT) && (memory == DMP || memory == PAGE || memory == PAGE_TOO);
	op->accepted =
		!pair_put(initiator.pair, memory, offset, len, CONTEXT(op - initiator.ops), flags);
}

static void inject(void)
{
	struct pair *pair = initiator.pair;
	enum pair_memory memory = (enum pair_memory)(input_8(&initiator.input) % PAIR_MEMORIES);
	size_t offset = input_16(&initiator.input) % PAIR_SIZE & ~(size_t) 7;

	/* Nobody is told of it. */
	fi_inject_write(pair->home->ep, pair->source + offset, 8, 0,
			pair_addr(pair, memory, offset), pair_key(pair, memory));
}

static void send_message(void)
{
	uint64_t flags = input_flags() & ~(uint64_t) FI_REMOTE_CQ_DATA;
	struct op *op = new_op();

	op->told = is_told(flags);
	op->asks = flags & FI_COMMIT;
	op->accepted = !pair_send(initiator.pair, 0, 64, CONTEXT(op - initiator.ops), flags);
}

static void fetch(void)
{
	enum pair_memory memory = (enum pair_memory)(input_8(&initiator.input) % PAIR_MEMORIES);
	uint64_t flags = input_flags() & ~(uint64_t) FI_REMOTE_CQ_DATA;
	struct op *op = new_op();

	op->told = is_told(flags);
	op->asks = (flags & FI_COMMIT) && (memory == DMP || memory == PAGE || memory == PAGE_TOO);
	op->accepted = !pair_fetch(initiator.pair, memory, 0, CONTEXT(op - initiator.ops), flags);
}

static void completed(const void *context, int err)
{
	struct op *op = op_of(context);

	cr_assert(op->accepted && ++op->completions == 1);
	if (err)
		return;
	cr_assert(op->told);
	cr_assert(!op->asks || (initiator.covered >= op->first && initiator.covered >= op->last));
	cr_assert(!op->faulted);
}

static bool read_queue(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	struct fid_cq *cq = initiator.pair->home->cq;
	ssize_t ret = fi_cq_read(cq, &entry, 1);

	take_acks();
	if (ret == 1) {
		completed(entry.op_context, 0);
	} else if (ret == -FI_EAVAIL) {
		cr_assert_eq(fi_cq_readerr(cq, &error, 0), 1);
		completed(error.op_context, error.err);
	} else {
		cr_assert_eq(ret, -FI_EAGAIN);
	}
	return ret != -FI_EAGAIN;
}

static void call(void)
{
	if (initiator.num_ops == MOST_OPS)
		return;
	switch (input_8(&initiator.input) % 6) {
	case 0:
		inject();
		break;
	case 1:
		send_message();
		break;
	case 2:
		fetch();
		break;
	default:
		put();
	}
	take_acks();
}

static void act(void)
{
	struct fake *home = &initiator.pair->home->fake;

	switch (input_8(&initiator.input) % 10) {
	case 0:
	case 1:
	case 2:
		call();
		break;
	case 3:
		answer();
		break;
	case 4:
		write_block();
		break;
	case 5:
		fake_complete(home, input_8(&initiator.input));
		break;
	case 6:
		fake_fail(home, FI_EIO, 5);
		break;
	case 7:
		home->room = input_8(&initiator.input) % 5 - 1;
		break;
	case 8:
		time_passes();
		break;
	default:
		read_queue();
	}
}

/* The end */

static void lose_connection(void)
{
	struct fake *home = &initiator.pair->home->fake;

	home->room = -1;
	pmv_initiator_break(&initiator.pair->from->initiator);
	for (int quiet = 0; quiet < 3; quiet++) {
		if (fake_complete(home, SIZE_MAX) || read_queue())
			quiet = 0;
	}
	for (int i = 0; i < initiator.num_ops; i++) {
		const struct op *op = &initiator.ops[i];

		if (op->accepted && op->told)
			cr_assert_eq(op->completions, 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pair_options options = {0};
	struct peer peer;
	uint8_t how;

	memset(&initiator, 0, sizeof(initiator));
	initiator.input = (struct input){data, size};
	how = input_8(&initiator.input);
	options.home.selective = how & 1;
	options.home.cq_size = how & 2 ? 4 : 0;
	options.home.no_fence = how & 4;
	options.home.local = how & 4;
	options.offsets = how & 8;
	options.stores = how & 16;
	options.away.events = how & 32;
	peer_open(&peer, &options);
	initiator.pair = peer.pair;
	initiator.mailbox = &peer.pair->from->mailbox;
	initiator.next = 1;
	peer.pair->home->fake.on_post = see_post;
	while (initiator.input.left)
		act();
	lose_connection();
	peer_close(&peer);
	return 0;
}
