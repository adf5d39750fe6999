/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_request.c -- a target whose peer asks the agent for anything
 *
 * The input says what the peer writes, into the memory and into the mailbox, and what the
 * target does meanwhile.  The agent is the real one, over the test core.  It must
 *   - touch nothing outside of the regions, nor one that peers may only read,
 *   - store nothing but what a request carries, where the request says,
 *   - acknowledge no request that names what it must not,
 *   - acknowledge without a fault only what is durable, as it was when the request came,
 *   - acknowledge every request that is whole, but after a malformed one no more,
 *   - tell the application of no more than was asked for.
 *
 * Each write has a number, and all bytes of it are that.  So of two versions of a byte the higher
 * one is the later one.
 */
#include "peer.h"

#include <stdlib.h>

#include "agent/agent.h"
#include "agent/service.h"

#define MOST_SENT 256
#define MOST_RECEIVES 64

/* A part of a memory, as it was. */
struct version {
	enum pair_memory memory;
	size_t offset;
	size_t len;
	uint8_t *bytes;
};

struct sent {
	bool whole;
	bool must_fail;
	bool notifies;
	unsigned int count;
	struct version flushed[PMV_MAX_RANGES];
	bool stores;
	struct version stored;
	uint64_t messages; /* it commits the first so many */
	size_t receives;   /* so many are to be durable, as they were: */
	uint8_t received[MOST_RECEIVES];
};

struct receive {
	enum pair_memory memory;
	size_t offset;
	size_t len;
	uint8_t write; /* what it received; 0: nothing yet */
	bool early;    /* a request has named it before it was sent */
};

struct target {
	struct peer peer;
	struct pair *pair;
	struct input input;
	uint8_t writes;
	bool spoilt; /* a request may have been overwritten before it was served */
	struct sent sent[MOST_SENT + 1];
	uint64_t told, acked, acks;
	struct receive receives[MOST_RECEIVES];
	size_t num_receives, received;
	uint64_t told_of; /* so many messages were covered by a request that failed */
	uint64_t notices_wanted, notices;
	uint8_t *expected[PAIR_MEMORIES]; /* what is there unless a request has stored something */
	uint8_t *stored[PAIR_MEMORIES];   /* 1: where one may have */
};

static struct target target;

/* What the agent claims */

static struct version take_version(enum pair_memory memory, size_t offset, size_t len)
{
	struct version version = {memory, offset, len, malloc(len + 1)};

	cr_assert_not_null(version.bytes);
	memcpy(version.bytes, target.pair->memory[memory] + offset, len);
	return version;
}

static bool is_checked(enum pair_memory memory)
{
	/* Nothing writes back what is durable in caches. */
	return memory != MHP;
}

/* is_durable -- that version of a byte, or a later one; a request may store older data there */
static bool is_durable(enum pair_memory memory, size_t at, uint8_t version)
{
	return !is_checked(memory) || (uint8_t) target.pair->durable[memory][at] >= version ||
	       target.stored[memory][at];
}

static void expect_durable(const struct version *version)
{
	for (size_t i = 0; i < version->len; i++)
		cr_assert(is_durable(version->memory, version->offset + i, version->bytes[i]));
}

/* expect_stored -- nothing older is stored behind it */
static void expect_stored(const struct version *version)
{
	for (size_t i = 0; i < version->len && is_checked(version->memory); i++)
		cr_assert((uint8_t) target.pair->durable[version->memory][version->offset + i] >=
			  version->bytes[i]);
}

/*
 * expect_received -- but for messages that cannot be durable any more, which is told once, and
 * for those that a peer had made durable before it sent them: only that peer's data can be lost
 */
static void expect_received(const struct sent *sent)
{
	for (size_t i = target.told_of; i < sent->receives; i++) {
		const struct receive *receive = &target.receives[i];

		for (size_t j = 0; j < receive->len && !receive->early; j++)
			cr_assert(is_durable(receive->memory, receive->offset + j,
					     sent->received[i]));
	}
}

static void expect_claim(const struct sent *sent)
{
	cr_assert(sent->whole && !sent->must_fail);
	cr_assert(sent->messages <= target.num_receives);
	for (unsigned int i = 0; i < sent->count; i++)
		expect_durable(&sent->flushed[i]);
	if (sent->stores)
		expect_stored(&sent->stored);
	expect_received(sent);
	target.notices_wanted += sent->notifies;
}

static void see_post(struct fake *fake, const struct fake_post *post, void *arg)
{
	const struct pmv_mailbox *home = &target.pair->from->mailbox;
	uint64_t buf[PMV_ACK_SIZE / sizeof(uint64_t)];
	struct pmv_ack ack;

	(void) fake;
	(void) arg;
	if (post->op.key != target.pair->to->mailbox.link.peer.key)
		return;
	cr_assert_eq(post->op.len, PMV_ACK_SIZE);
	memcpy(buf, post->op.buf, sizeof(buf));
	cr_assert(pmv_ack_decode((uint8_t *) buf, buf[0], &home->sender.ack_in, &ack));
	cr_assert_eq(post->op.addr - target.pair->to->mailbox.link.peer.addr,
		     pmv_ack_at(ack.number));
	/* It comes again if there was no room for it. */
	cr_assert(ack.number == target.acks || ack.number == target.acks + 1);
	cr_assert(ack.done > target.acked || ack.number == target.acks);
	cr_assert(ack.done <= target.told);
	target.acks = ack.number;
	while (target.acked < ack.done) {
		const struct sent *sent = &target.sent[++target.acked];

		if (target.acked < ack.done || !ack.fault)
			expect_claim(sent);
		else if (target.told_of < sent->messages)
			target.told_of = sent->messages;
	}
}

/* What the peer does */

static enum pair_memory input_memory(void)
{
	return (enum pair_memory)(input_8(&target.input) % PAIR_MEMORIES);
}

/* input_part -- somewhere in a memory */
static void input_part(size_t *offset, size_t *len, size_t most)
{
	*offset = input_16(&target.input) % PAIR_SIZE;
	*len = input_16(&target.input) % most;
	if (*len > PAIR_SIZE - *offset)
		*len = PAIR_SIZE - *offset;
}

static void write_bytes(enum pair_memory memory, size_t offset, size_t len)
{
	target.writes++;
	memset(target.pair->memory[memory] + offset, target.writes, len);
	memset(target.expected[memory] + offset, target.writes, len);
}

static void write_memory(void)
{
	enum pair_memory memory = input_memory();
	size_t offset, len;

	input_part(&offset, &len, PAIR_SIZE);
	if (target.writes < UINT8_MAX)
		write_bytes(memory, offset, len);
}

/* note_range -- as the input has it; false: it is to be refused */
static bool is_allowed(const struct pmv_range *range)
{
	uint32_t which = (uint32_t) range->key;

	return which < PAIR_MEMORIES && target.pair->mr[which] && range->addr <= PAIR_SIZE &&
	       range->len <= PAIR_SIZE - range->addr;
}

static void note_ranges(struct sent *sent, const struct pmv_flush_message *message)
{
	for (unsigned int i = 0; i < message->count; i++) {
		const struct pmv_range *range = &message->ranges[i];
		bool last = message->store && i == message->count - 1U;

		if (!is_allowed(range))
			sent->must_fail = true;
		else if (!last && !(range->key & PMV_RANGE_EVENT))
			sent->flushed[sent->count++] = take_version(
				(enum pair_memory)(uint32_t) range->key, range->addr, range->len);
	}
}

/* note_store -- what is stored gets the number of a write, too */
static void note_store(struct sent *sent, struct pmv_flush_message *message)
{
	size_t at = pmv_flush_message_len(message->count);
	const struct pmv_range *range = &message->ranges[message->count - 1];
	enum pair_memory memory = (enum pair_memory)(uint32_t) range->key;

	if (sent->must_fail || at + range->len != message->envelope.len)
		return;
	if (target.writes < UINT8_MAX)
		target.writes++;
	sent->stores = true;
	sent->stored = take_version(memory, range->addr, range->len);
	memset(sent->stored.bytes, target.writes, range->len);
	memset((uint8_t *) message + at, target.writes, range->len);
	memset(target.stored[memory] + range->addr, 1, range->len);
}

static void note_receives(struct sent *sent, uint64_t messages)
{
	sent->messages = messages;
	sent->receives = messages < target.num_receives ? messages : target.num_receives;
	for (size_t i = 0; i < sent->receives; i++)
		sent->received[i] = target.receives[i].write;
	for (size_t i = target.received; i < messages && i < MOST_RECEIVES; i++)
		target.receives[i].early = true;
}

/* note -- what the agent may say of it */
static void note(struct sent *sent, struct pmv_flush_message *message)
{
	size_t at = pmv_flush_message_len(message->count);

	sent->whole = true;
	sent->must_fail = message->count > PMV_MAX_RANGES || at > message->envelope.len;
	if (sent->must_fail)
		return;
	note_ranges(sent, message);
	if (message->store && message->count)
		note_store(sent, message);
	if (message->messages)
		note_receives(sent, message->data);
	sent->notifies = message->notify;
}

enum {
	LEN_AS_IT_IS = 1, /* not what the ranges need */
	WRONG_SEAL = 2,
	WRONG_NUMBER = 4,
	BYTES = 8, /* all of it is the input's, not only what a range may be */
};

/* input_range -- in few bytes, and most are near the end of a memory, or not far from it */
static void input_range(struct pmv_range *range, bool is_stored)
{
	uint8_t how = input_8(&target.input);

	range->key = how & 7;
	if (how & 8)
		range->key |= PMV_RANGE_EVENT;
	range->addr = input_16(&target.input) % (PAIR_SIZE + 64);
	range->len = input_16(&target.input) % (is_stored ? PMV_MESSAGE_SIZE : PAIR_SIZE + 64);
	if (how & 16)
		range->addr = input_64(&target.input);
	if (how & 32)
		range->len = input_64(&target.input);
}

static void input_message(struct pmv_flush_message *message)
{
	message->flags = input_8(&target.input);
	message->count = input_8(&target.input) % (PMV_MAX_RANGES + 2);
	message->data = input_8(&target.input);
	message->envelope.unacked = input_8(&target.input);
	for (unsigned int i = 0; i < message->count && i < PMV_MAX_RANGES; i++)
		input_range(&message->ranges[i], message->store && i + 1U == message->count);
}

static void send_message(void)
{
	static uint64_t buf[PMV_MESSAGE_SIZE / sizeof(uint64_t) + 1];
	struct pmv_flush_message *message = (struct pmv_flush_message *) buf;
	struct pmv_mailbox *to = &target.pair->to->mailbox;
	uint8_t how = input_8(&target.input);
	struct sent *sent = &target.sent[target.told + 1];

	memset(buf, 0, sizeof(buf));
	if (how & BYTES)
		input_copy(&target.input, buf, input_16(&target.input) % (PMV_MESSAGE_SIZE + 1));
	else
		input_message(message);
	/* fuzz_chain.c has chains. */
	message->chain = false;
	if (target.told == MOST_SENT || target.told - target.acked >= PMV_WINDOW)
		return;
	message->envelope.number =
		target.told + 1 + (how & WRONG_NUMBER ? message->envelope.number : 0);
	if (!(how & LEN_AS_IT_IS) && message->count <= PMV_MAX_RANGES)
		message->envelope.len =
			(uint16_t) (pmv_flush_message_len(message->count) +
				    (message->store && message->count
					     ? message->ranges[message->count - 1].len
					     : 0));
	if (message->envelope.len < sizeof(struct pmv_envelope) ||
	    message->envelope.len > PMV_MESSAGE_SIZE)
		how |= WRONG_SEAL;
	if (message->envelope.number == target.told + 1 && !(how & WRONG_SEAL)) {
		note(sent, message);
		target.told++;
	}
	for (unsigned int i = 0; i < message->count && i < PMV_MAX_RANGES; i++)
		peer_translate(&target.peer, &message->ranges[i]);
	if (!(how & WRONG_SEAL))
		reseal(message, message->envelope.len, &to->receiver.message_in);
	/* The number that it should have had says where. */
	memcpy(to->link.block + (sent - target.sent) % PMV_SLOTS * PMV_MESSAGE_SIZE, message,
	       PMV_MESSAGE_SIZE);
}

static void write_block(void)
{
	uint8_t buf[UINT8_MAX];
	size_t at = input_16(&target.input);
	size_t len = input_8(&target.input);

	input_copy(&target.input, buf, len);
	if (at + len > PMV_BLOCK_SIZE)
		return;
	memcpy(target.pair->to->mailbox.link.block + at, buf, len);
	target.spoilt = true;
}

/* What the target does */

static void post_receive(void)
{
	enum pair_memory memory = input_memory();
	size_t offset, len;

	input_part(&offset, &len, 1024);
	if (target.num_receives == MOST_RECEIVES || !target.pair->mr[memory] || !len)
		return;
	/* An endpoint that has said where it receives takes nothing else. */
	if (fi_recv(target.pair->away->ep, target.pair->memory[memory] + offset, len, NULL, 0,
		    NULL))
		return;
	/* Keeps what requests have said of it. */
	target.receives[target.num_receives].memory = memory;
	target.receives[target.num_receives].offset = offset;
	target.receives[target.num_receives++].len = len;
}

static void receive(void)
{
	struct receive *oldest = &target.receives[target.received];

	if (target.received == target.num_receives || target.writes == UINT8_MAX)
		return;
	write_bytes(oldest->memory, oldest->offset, oldest->len);
	oldest->write = target.writes;
	target.received++;
	cr_assert(fake_receive(&target.pair->away->fake, 0));
}

static void unregister(void)
{
	enum pair_memory memory = input_memory();

	if (target.pair->mr[memory])
		pair_unregister(target.pair, memory);
}

/* read_queue -- true: there was something */
static bool read_queue(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	ssize_t ret = fi_cq_read(target.pair->away->cq, &entry, 1);

	if (ret == -FI_EAVAIL)
		cr_assert_eq(fi_cq_readerr(target.pair->away->cq, &error, 0), 1);
	else if (ret == 1)
		target.notices += (entry.flags & FI_REMOTE_CQ_DATA) != 0;
	else
		cr_assert_eq(ret, -FI_EAGAIN);
	cr_assert(target.notices <= target.told);
	return ret != -FI_EAGAIN;
}

/* serve_slice -- a round in which nobody gets far */
static void serve_slice(void)
{
	struct pmv_slice slice = {.lines = input_16(&target.input),
				  .pages = (uint64_t) input_16(&target.input) << 8};

	pmv_service_round(&pmv_to_domain(target.pair->away->domain)->agent, slice);
}

static void act(void)
{
	struct fake *away = &target.pair->away->fake;

	switch (input_8(&target.input) % 12) {
	case 0:
	case 1:
		send_message();
		break;
	case 2:
		pair_serve(target.pair);
		break;
	case 3:
		write_memory();
		break;
	case 4:
		write_block();
		break;
	case 5:
		post_receive();
		break;
	case 6:
		receive();
		break;
	case 7:
		unregister();
		break;
	case 8:
		target.pair->sync_fails = input_8(&target.input) & 1;
		break;
	case 9:
		read_queue();
		break;
	case 10:
		away->room = input_8(&target.input) % 4 - 1;
		break;
	default:
		serve_slice();
	}
}

/* The end */

static void serve_all(void)
{
	target.pair->away->fake.room = -1;
	for (int i = 0; i < 2 * MOST_SENT && target.acked < target.told; i++) {
		read_queue();
		pair_serve(target.pair);
	}
	while (read_queue())
		;
	if (!target.spoilt && !target.pair->to->mailbox.receiver.refused)
		cr_assert_eq(target.acked, target.told);
	cr_assert(target.pair->to->mailbox.receiver.served <= target.told);
	cr_assert(target.notices <= target.notices_wanted);
}

static void expect_only_what_was_stored(void)
{
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		const uint8_t *memory = (uint8_t *) target.pair->memory[i];

		if (!memcmp(memory, target.expected[i], PAIR_SIZE))
			continue;
		for (size_t j = 0; j < PAIR_SIZE; j++)
			cr_assert(target.stored[i][j] || memory[j] == target.expected[i][j]);
	}
}

static void open_target(void)
{
	uint8_t how = input_8(&target.input);
	struct pair_options options = {
		.away = {.events = how & 1, .cq_size = how & 2 ? 4 : 0},
		.offsets = how & 4,
		.one_kind = how & 8,
		.received = DMP,
	};

	peer_open(&target.peer, &options);
	target.pair = target.peer.pair;
	target.pair->away->fake.on_post = see_post;
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		target.expected[i] = calloc(1, PAIR_SIZE);
		target.stored[i] = calloc(1, PAIR_SIZE);
		cr_assert(target.expected[i] && target.stored[i]);
	}
}

static void close_target(void)
{
	for (uint64_t n = 1; n <= target.told; n++) {
		for (unsigned int i = 0; i < target.sent[n].count; i++)
			free(target.sent[n].flushed[i].bytes);
		free(target.sent[n].stored.bytes);
	}
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		free(target.expected[i]);
		free(target.stored[i]);
	}
	peer_close(&target.peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&target, 0, sizeof(target));
	target.input = (struct input){data, size};
	open_target();
	while (target.input.left)
		act();
	serve_all();
	expect_only_what_was_stored();
	close_target();
	return 0;
}
