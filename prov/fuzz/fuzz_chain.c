/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_chain.c -- a target whose peer has the agent execute any chain
 *
 * The input says what is in memory, pointers among it, and what the steps are.  The agent is the
 * real one, over the test core.  It must
 *   - touch nothing outside of the regions, nor change one that peers may only read,
 *   - answer every message, and a chain that keeps to the rules with a reply that does,
 *   - write large results before the reply, where the steps say and nowhere else,
 *   - have made durable what a chain has changed whose last step commits, if it says so,
 *   - hold no lock and no buffer back when all chains have ended.
 */
#include "peer.h"

#include <stdlib.h>

#include "agent/agent.h"
#include "agent/chain_message.h"

#define MOST_SENT 64
#define BUFFERS 4
#define BUFFERS_AT 1024
#define BUFFER_SIZE 64
#define RESULT_KEY 0x4711 /* of the peer's memory */

struct chains {
	struct peer peer;
	struct pair *pair;
	struct input input;
	struct fi_pmemverbs_chain_ops *ops;
	struct fi_pmemverbs_list *list;
	uint64_t told, acked;
	bool faulted;       /* the last one that was acknowledged */
	bool replied;       /* to it */
	unsigned int large; /* results of it */
	size_t large_len;   /* of all of them */
	bool malformed;
	struct pmv_chain chain; /* that is executed */
	bool valid;
	char *before[PAIR_MEMORIES];
};

static struct chains chains;

/* What the agent sends */

/* next_large -- from a step on; NULL: there is none */
static const struct pmv_chain_step *next_large(unsigned int *step)
{
	while (*step < chains.chain.count) {
		const struct pmv_chain_step *at = &chains.chain.steps[(*step)++];

		if (at->head.flags & PMV_CHAIN_LARGE)
			return at;
	}
	return NULL;
}

/* see_large -- they come in the order of the steps, of which some may have read nothing */
static void see_large(const struct fake_post *post)
{
	const struct pmv_chain_step *step;

	cr_assert(chains.valid && !chains.replied);
	do
		cr_assert(step = next_large(&chains.large));
	while (step->result_addr != post->op.addr);
	cr_assert(post->op.len && post->op.len <= step->head.len);
	chains.large_len += post->op.len;
}

/* see_reply -- by itself, or with the acknowledgement */
static void see_reply(const struct pmv_reply *reply)
{
	size_t large_len = 0;

	for (unsigned int i = 0; i < chains.chain.count; i++) {
		const struct pmv_chain_step *step = &chains.chain.steps[i];

		cr_assert(reply->steps[i].status <= PMV_CHAIN_NOT_REACHED);
		cr_assert(reply->steps[i].done <= step->head.len ||
			  reply->steps[i].done == PMV_CHAIN_WORD);
		if (step->head.flags & PMV_CHAIN_LARGE)
			large_len += reply->steps[i].done;
	}
	cr_assert_eq(chains.large_len, large_len);
	cr_assert(!chains.replied);
	chains.replied = true;
}

static void see_long_reply(const struct fake_post *post)
{
	uint64_t buf[PMV_REPLY_SIZE / sizeof(uint64_t)];
	const struct pmv_reply_size size = pmv_chain_reply_size(&chains.chain);
	struct pmv_reply reply;

	cr_assert(chains.valid && !pmv_reply_is_short(size));
	cr_assert_eq(post->op.len, 2 * sizeof(uint64_t) + pmv_reply_len(size));
	memcpy(buf, post->op.buf, post->op.len);
	cr_assert(pmv_reply_decode((uint8_t *) buf, chains.told, size,
				   &chains.pair->from->mailbox.sender.reply_in, &reply));
	see_reply(&reply);
}

static void see_ack(const struct fake_post *post)
{
	const struct pmv_mailbox *home = &chains.pair->from->mailbox;
	const struct pmv_reply_size size = pmv_chain_reply_size(&chains.chain);
	uint64_t buf[PMV_ACK_SLOT / sizeof(uint64_t)];
	struct pmv_reply reply;
	struct pmv_ack ack;

	memcpy(buf, post->op.buf, post->op.len);
	cr_assert(pmv_ack_decode((uint8_t *) buf, buf[0], &home->sender.ack_in, &ack));
	cr_assert_eq(post->op.len, PMV_ACK_SIZE + ack.reply_len);
	cr_assert_eq(ack.done, chains.told);
	if (ack.reply_len) {
		cr_assert(chains.valid && ack.reply_len == pmv_reply_len(size));
		pmv_reply_unpack(&reply, ack.reply, size);
		see_reply(&reply);
	}
	cr_assert(chains.replied == chains.valid);
	chains.acked = ack.done;
	chains.faulted = ack.fault;
}

static void see_post(struct fake *fake, const struct fake_post *post, void *arg)
{
	size_t at = post->op.addr - chains.pair->to->mailbox.link.peer.addr;

	(void) fake;
	(void) arg;
	if (post->op.key == RESULT_KEY)
		see_large(post);
	if (post->op.key != chains.pair->to->mailbox.link.peer.key)
		return;
	if (at >= PMV_REPLIES_AT) {
		cr_assert_eq(at, pmv_reply_at(chains.chain.reply));
		see_long_reply(post);
	} else {
		see_ack(post);
	}
}

/* What the peer asks for */

static struct pmv_range input_place(void)
{
	uint8_t how = input_8(&chains.input);
	struct pmv_range place = {
		.key = how & 7,
		.addr = input_16(&chains.input) % (PAIR_SIZE + 16),
	};

	if (how & 8)
		place.addr = input_64(&chains.input);
	else if (how & 16)
		place.addr = (place.addr & 63) + (how & 32 ? BUFFERS_AT : 0);
	peer_translate(&chains.peer, &place);
	return place;
}

static void input_step(struct pmv_chain_step *step, unsigned int number)
{
	static const uint8_t bytes[PMV_MESSAGE_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	uint8_t kind = input_8(&chains.input), words = input_8(&chains.input);
	struct pmv_range place = input_place(), to = input_place(), from = input_place();
	struct pmv_chain_head *head = &step->head;
	bool cas;

	*step = (struct pmv_chain_step){0};
	head->kind = (uint8_t) (1 + (kind & 7) % 6);
	head->compare = (kind >> 3) % 6;
	head->flags = input_16(&chains.input) & 0xfff;
	head->len = input_16(&chains.input) % 64;
	head->to = words & 3;
	head->from = words >> 2 & 3;
	head->expect = words >> 4 & 3;
	head->at = words >> 6;
	head->addr = head->kind == PMV_CHAIN_ALLOCATE ? 0 : place.addr;
	head->key = (uint32_t) place.key;
	head->to_key = head->kind >= PMV_CHAIN_ALLOCATE ? chains.list->number : (uint32_t) to.key;
	cas = head->kind == PMV_CHAIN_COMPARE_SWAP;
	/* Most words are where they may be, and most lengths are those of the kind. */
	head->to &= head->flags & PMV_CHAIN_REDIRECT ? 3 : 0;
	head->from &= head->flags & PMV_CHAIN_FROM_SCRATCH ? 3 : 0;
	head->expect &= head->flags & PMV_CHAIN_EXPECT_SCRATCH ? 3 : 0;
	head->at &= head->flags & PMV_CHAIN_AT_SCRATCH ? 3 : 0;
	if (!cas)
		head->compare = 0;
	if (head->kind == PMV_CHAIN_FETCH_ADD)
		head->len = 8;
	if (head->kind == PMV_CHAIN_FREE)
		head->len = 0;
	if (head->kind == PMV_CHAIN_READ && (head->flags & PMV_CHAIN_LARGE))
		head->len *= 1U << (words >> 5);
	if (head->kind < PMV_CHAIN_ALLOCATE && !(head->flags & PMV_CHAIN_INDIRECT))
		head->to_key = 0;
	step->expected = cas && !(head->flags & PMV_CHAIN_EXPECT_SCRATCH) ? bytes + 9 : NULL;
	if (head->kind != PMV_CHAIN_READ && head->kind != PMV_CHAIN_FREE &&
	    !(head->flags & (PMV_CHAIN_FROM_SCRATCH | PMV_CHAIN_FROM_MEMORY)))
		step->operand = bytes;
	step->compare_mask = head->flags & PMV_CHAIN_MASK_COMPARE ? bytes : NULL;
	step->swap_mask = head->flags & PMV_CHAIN_MASK_SWAP ? bytes + 2 : NULL;
	step->from_addr = from.addr;
	step->from_key = (uint32_t) from.key;
	step->result_addr = number;
	step->result_key = RESULT_KEY;
}

/* mask_flags -- to those that the kind may have: else hardly any chain keeps to the rules */
static void mask_flags(struct pmv_chain_step *step)
{
	static const uint16_t may[] = {0, 0x83f, 0xf7 & ~8, 0x7fd, 0xfd, 0xdc, 0x34};
	uint16_t flags = step->head.flags & may[step->head.kind];

	if (!(flags & PMV_CHAIN_INDIRECT))
		flags &= (uint16_t) ~PMV_CHAIN_BOUNDED;
	if (flags & PMV_CHAIN_FROM_SCRATCH)
		flags &= (uint16_t) ~PMV_CHAIN_FROM_MEMORY;
	if (flags & PMV_CHAIN_LARGE) {
		flags &= (uint16_t) ~PMV_CHAIN_REDIRECT;
		step->head.to = 0;
	}
	step->head.flags = flags;
}

static void send_message(size_t len, uint8_t *bytes)
{
	static uint64_t buf[PMV_MESSAGE_SIZE / sizeof(uint64_t)];
	struct pmv_flush_message *message = (struct pmv_flush_message *) buf;
	struct pmv_mailbox *to = &chains.pair->to->mailbox;

	memset(buf, 0, sizeof(buf));
	message->envelope.content = PMV_CONTENT_FLUSH;
	message->envelope.number = ++chains.told;
	message->envelope.len = (uint16_t) (pmv_flush_message_len(1) + len);
	message->count = 1;
	message->store = message->chain = true;
	message->ranges[0].len = len;
	memcpy(message->ranges + 1, bytes, len);
	chains.valid = pmv_chain_decode(bytes, len, &chains.chain);
	cr_assert_eq(chains.valid, pmv_flush_message_is_valid(message));
	chains.malformed |= !chains.valid;
	reseal(message, message->envelope.len, &to->receiver.message_in);
	memcpy(to->link.block + pmv_message_at(chains.told), message, PMV_MESSAGE_SIZE);
}

/* What came of it */

static void expect_durable(void)
{
	const struct pmv_chain *chain = &chains.chain;

	if (!chains.valid || chains.faulted ||
	    !(chain->steps[chain->count - 1].head.flags & PMV_CHAIN_COMMIT))
		return;
	for (int i = 0; i < PAIR_MEMORIES; i++) {
		const char *now = chains.pair->memory[i];

		if (i == MHP || !memcmp(now, chains.before[i], PAIR_SIZE))
			continue;
		for (size_t j = 0; j < PAIR_SIZE; j++)
			cr_assert(now[j] == chains.before[i][j] ||
				  now[j] == chains.pair->durable[i][j]);
	}
}

static void run_chain(void)
{
	uint8_t how = input_8(&chains.input), bytes[PMV_MESSAGE_SIZE];
	struct pmv_chain chain = {.reply = how & 7};
	size_t len;

	if (chains.malformed || chains.told == MOST_SENT)
		return;
	chain.count = 1 + input_8(&chains.input) % 8;
	for (unsigned int i = 0; i < chain.count; i++) {
		input_step(&chain.steps[i], i);
		if (how & 0xf0)
			mask_flags(&chain.steps[i]);
	}
	len = pmv_chain_encode(bytes, sizeof(bytes) - pmv_flush_message_len(1), &chain);
	if (!len)
		return;
	if (how & 8)
		bytes[input_16(&chains.input) % len] = input_8(&chains.input);
	for (int i = 0; i < PAIR_MEMORIES; i++)
		memcpy(chains.before[i], chains.pair->memory[i], PAIR_SIZE);
	chains.replied = false;
	chains.large = 0;
	chains.large_len = 0;
	send_message(len, bytes);
	pair_serve(chains.pair);
	cr_assert_eq(chains.acked, chains.told);
	expect_durable();
}

static void write_pointer(void)
{
	uint8_t memory = input_8(&chains.input) % PAIR_MEMORIES;
	size_t at = input_16(&chains.input) % (PAIR_SIZE - 16);
	struct pmv_range place = input_place();
	uint64_t bound = input_8(&chains.input);

	memcpy(chains.pair->memory[memory] + at, &place.addr, sizeof(place.addr));
	memcpy(chains.pair->memory[memory] + at + 8, &bound, sizeof(bound));
}

static void put_back(void)
{
	uint64_t addr = chains.list->addr + input_8(&chains.input) * 32;
	int ret = chains.ops->list_put(chains.list, addr);

	cr_assert(!ret || ret == -FI_EINVAL || ret == -FI_EALREADY);
}

static void act(void)
{
	uint8_t memory;

	switch (input_8(&chains.input) % 8) {
	case 0:
		write_pointer();
		break;
	case 1:
		put_back();
		break;
	case 2:
		memory = input_8(&chains.input) % PAIR_MEMORIES;
		if (chains.pair->mr[memory])
			pair_unregister(chains.pair, (enum pair_memory) memory);
		break;
	case 3:
		chains.pair->sync_fails = input_8(&chains.input) & 1;
		break;
	default:
		run_chain();
	}
}

/* expect_nothing_left -- of chains: no lock, no number, and each buffer is where it is said to be
 */
static void expect_nothing_left(void)
{
	struct pmv_chains *all = &pair_agent(chains.pair)->regions.chains;
	const struct pmv_free_list *list = LIST_FIRST(&all->lists);
	size_t num_free = 0;

	cr_assert(!pthread_mutex_trylock(&all->lock));
	cr_assert(TAILQ_EMPTY(&all->under_way));
	for (size_t i = 0; i < BUFFERS; i++)
		num_free += list->is_free[i];
	cr_assert_eq(list->num_free, num_free);
	for (size_t i = 0; i < num_free; i++)
		cr_assert(list->is_free[list->freed[(list->first + i) % BUFFERS].buffer]);
	pthread_mutex_unlock(&all->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&chains, 0, sizeof(chains));
	chains.input = (struct input){data, size};
	peer_open(&chains.peer, &(struct pair_options){.offsets = input_8(&chains.input) & 1});
	chains.pair = chains.peer.pair;
	chains.pair->away->fake.on_post = see_post;
	for (int i = 0; i < PAIR_MEMORIES; i++)
		cr_assert((chains.before[i] = malloc(PAIR_SIZE)));
	accepted(fi_open_ops(&chains.pair->away->domain->fid, FI_PMEMVERBS_CHAIN_OPS, 0,
			     (void **) &chains.ops, NULL));
	accepted(chains.ops->list_open(chains.pair->mr[DMP], BUFFERS_AT, BUFFER_SIZE, BUFFERS,
				       &chains.list));
	for (uint64_t i = 0; i < BUFFERS; i++)
		accepted(chains.ops->list_put(chains.list, chains.list->addr + i * BUFFER_SIZE));
	while (chains.input.left)
		act();
	expect_nothing_left();
	accepted(chains.ops->list_close(chains.list));
	for (int i = 0; i < PAIR_MEMORIES; i++)
		free(chains.before[i]);
	peer_close(&chains.peer);
	return 0;
}
