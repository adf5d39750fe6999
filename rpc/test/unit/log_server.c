/* SPDX-License-Identifier: BSD-2-Clause */
/* log_server.c -- the server of log_world.h: it executes, crashes and recovers */
#include "log_world.h"

#include <stdlib.h>
#include <string.h>

enum mutant mutant;

const struct rpc_sizes any;

uint64_t __real_rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len);
uint64_t __wrap_rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len);
uint64_t __real_rpc_journal_checksum(uint64_t secret, const void *changes, size_t len);
uint64_t __wrap_rpc_journal_checksum(uint64_t secret, const void *changes, size_t len);

uint64_t __wrap_rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len)
{
	static const unsigned char nothing[4096];

	if (mutant == NO_SEQUENCE)
		place = (struct rpc_place){0};
	if (mutant == NO_KEY)
		key = 0;
	return __real_rpc_checksum(key, place, mutant == NO_BODY ? nothing : body, len);
}

uint64_t __wrap_rpc_journal_checksum(uint64_t secret, const void *changes, size_t len)
{
	return mutant == JOURNAL_TORN ? 1 : __real_rpc_journal_checksum(secret, changes, len);
}

uint64_t world_sum_to(uint64_t sequence)
{
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= sequence; i++)
		sum += i * i + 3;
	return sum;
}

void world_complain(struct world *world, const char *what)
{
	if (!world->wrong)
		world->wrong = what;
}

static struct ledger *ledger_of(const struct world *world)
{
	return (struct ledger *) (world->store.memory->base + world->store.app);
}

size_t world_length(const struct world *world, uint64_t sequence)
{
	return world->long_len && sequence % 3 == 0 ? world->long_len : world->argument_len;
}

void world_fill(const struct world *world, uint64_t sequence, uint64_t *argument)
{
	for (size_t i = 0; i < world_length(world, sequence) / 8; i++)
		argument[i] = sequence * sequence + 3;
}

/* change -- the effect of a call; its argument has to be what the client has sent */
static void change(struct world *world, uint64_t sequence, const unsigned char *body, size_t len)
{
	uint64_t argument[128];
	struct ledger ledger = *ledger_of(world);

	world_fill(world, sequence, argument);
	if (len != RPC_BODY_HEAD + world_length(world, sequence) ||
	    memcmp(body + RPC_BODY_HEAD, argument, world_length(world, sequence)))
		world_complain(world, "a call is executed that nobody has made");
	ledger.count++;
	ledger.sum += sequence * sequence + 3;
	rpc_store_change(&world->store, &world->store.own, &ledger_of(world)->count, &ledger.count,
			 8);
	rpc_store_change(&world->store, &world->store.own, &ledger_of(world)->sum, &ledger.sum, 8);
}

static void reply(struct world *world, const struct answer *answer)
{
	if (world->replied == CALLS)
		world_complain(world, "a call is replied to that nobody has made");
	else
		world->replies[++world->replied] = *answer;
}

/* skew -- a mutant's watermark */
static void skew(struct world *world)
{
	struct rpc_slot *slot = rpc_store_slot(&world->store, 0);

	slot->position += RPC_ALIGN - slot->cell;
}

bool world_execute(struct world *world, bool tell)
{
	struct rpc_slot *slot = rpc_store_slot(&world->store, 0), state = *slot;
	struct rpc_ring ring = rpc_store_ring(&world->store, 0);
	unsigned char body[1024];
	struct rpc_place place = {state.executed + 1, state.position};
	size_t len = rpc_ring_read(&ring, place, body);
	struct answer answer = {ledger_of(world)->count + 1, world->life};

	if (!len)
		return false;
	if (tell && mutant == REPLY_EARLY) {
		reply(world, &answer);
		world_post_next(world);
	}
	if (mutant == EFFECT_FIRST) {
		change(world, place.sequence, body, len);
		rpc_store_greet(&world->store, 0, 1, state.key, state.cell, false);
	}
	if (mutant != EFFECT_FIRST && mutant != WATERMARK_FIRST)
		change(world, place.sequence, body, len);
	rpc_store_executed(&world->store, &world->store.own, 0, len, 9, &answer, sizeof(answer));
	if (mutant == WATERMARK_FIRST) {
		change(world, place.sequence, body, len);
		rpc_store_greet(&world->store, 0, 1, state.key, state.cell, false);
	}
	if (mutant == CELL_STRIDE && ring.cell)
		skew(world);
	world->free_cells += mutant != CELL_EARLY;
	if (tell && mutant != REPLY_EARLY)
		reply(world, &answer);
	return true;
}

/* judge -- what a server that has recovered has to have */
static void judge(struct world *after, const struct world *before)
{
	uint64_t executed = rpc_store_slot(&after->store, 0)->executed;

	if (after->wrong)
		return;
	if (executed < before->durable)
		world_complain(after, "a call that was durable is lost");
	else if (executed > before->posted)
		world_complain(after, "more calls are executed than were made");
	else if (executed < before->replied)
		world_complain(after, "a call whose reply was given is not executed");
	else if (ledger_of(after)->count != executed ||
		 ledger_of(after)->sum != world_sum_to(executed))
		world_complain(after, "effects are lost, or there twice");
	for (uint64_t i = executed; i && i + before->window > executed && !after->wrong; i--) {
		const struct rpc_reply *kept = rpc_store_reply(&after->store, 0, i);
		const struct answer *answer = (const void *) (kept + 1);

		if (!kept || kept->status != 9 || kept->len != sizeof(*answer) ||
		    answer->count != i)
			world_complain(after, "a reply is not there");
		else if (i <= before->replied && answer->life != before->replies[i].life)
			world_complain(after, "another reply was given than is kept");
	}
}

void world_greet(struct world *world, uint64_t key)
{
	struct rpc_ring ring;

	if (rpc_store_greet(&world->store, 0, 1, key, world->cell, false))
		world_complain(world, "no transaction");
	ring = rpc_store_ring(&world->store, 0);
	world->cell_position = rpc_store_slot(&world->store, 0)->position;
	world->free_cells = ring.cell ? ring.size / ring.cell : 0;
}

/* come_back -- the client connects again, sends what was not durable, and goes on */
static void come_back(struct world *world)
{
	struct rpc_slot *slot = rpc_store_slot(&world->store, 0);

	world_greet(world, slot->key + 1);
	world->posted = world->durable = world->replied = slot->executed;
	world->next = (struct rpc_place){slot->executed + 1, slot->position};
	world_run(world);
	if (!world->wrong && slot->executed != CALLS)
		world_complain(world, "the client can't go on");
}

int world_open(struct world *world)
{
	int ret = rpc_store_open(&world->store, &world->cut.memory, &any);

	/* Of two calls, so that it is settled now and then. */
	world->store.commits.journal.room = 480;
	return ret;
}

bool world_in_journal(const struct cut *cut, size_t offset)
{
	const struct world *world = (const struct world *) cut;

	return offset >= world->store.journal && offset < world->store.slots;
}

bool world_in_epoch(const struct cut *cut, size_t offset)
{
	const struct world *world = (const struct world *) cut;

	return offset == world->store.journal;
}

/* in_old_journal -- while a store is opened: nothing is being made yet */
static bool in_old_journal(const struct cut *cut, size_t offset)
{
	const struct world *world = (const struct world *) cut;

	return world->store.own.len <= RPC_RECORD_HEAD && world_in_journal(cut, offset) &&
	       !world_in_epoch(cut, offset);
}

/* heir -- a world in which a server starts; what its memory has is up to the caller */
static struct world *heir(const struct world *before)
{
	struct world *after = malloc(sizeof(*after));

	memset((char *) after + sizeof(after->cut), 0, sizeof(*after) - sizeof(after->cut));
	after->life = before->life + 1;
	after->argument_len = before->argument_len;
	after->cell = before->images % 2 ? before->cell : before->other_cell;
	after->other_cell = before->images % 2 ? before->other_cell : before->cell;
	after->long_len = before->long_len;
	after->window = before->window;
	after->batches = before->batches;
	after->posted = before->posted;
	after->durable = before->durable;
	after->replied = before->replied;
	memcpy(after->replies, before->replies, sizeof(after->replies));
	after->depth = before->depth + 1;
	return after;
}

/* start -- a server, which recovers; then the client may come back */
static void start(struct world *after, struct world *before, bool back)
{
	unsigned char mirror[2048] = {0};

	after->mirror = mirror;
	after->cut.forget_write = before->cut.forget_write;
	after->cut.forget_persist = before->cut.forget_persist;
	if (mutant == JOURNAL_UNSURE)
		after->cut.forget_persist = in_old_journal;
	if (world_open(after))
		world_complain(after, "the store can't be opened");
	else {
		while (!after->wrong && world_execute(after, false))
			;
		judge(after, before);
		after->cut.step = NULL;
		if (!after->wrong && back)
			come_back(after);
	}
	rpc_store_close(&after->store);
	before->images += after->images;
	before->wrong = after->wrong;
	free(after);
}

/*
 * Under a sanitizer, which is slow, from one image of so many: all take the same code, and faults
 * of the rules are found without it.  The number has nothing in common with those below.
 */
#ifdef __SANITIZE_ADDRESS__
#define IMAGES_OF 9
#else
#define IMAGES_OF 1
#endif

/* recover -- from one image, as a server that starts */
static void recover(const unsigned char *contents, void *arg)
{
	struct world *before = arg, *after;

	before->images++;
	if (before->wrong || before->images % IMAGES_OF)
		return;
	after = heir(before);
	cut_init(&after->cut, contents);
	/* Power fails again; then in turn the client comes back. */
	if (before->depth == 0 && before->images % 61 == 0)
		after->cut.step = world_explore;
	start(after, before, before->images % 7 == 0);
}

void world_die(struct cut *cut)
{
	struct world *before = (struct world *) cut, *after;

	if (before->wrong)
		return;
	after = heir(before);
	cut_init(&after->cut, NULL);
	memcpy(after->cut.seen, cut->seen, CUT_LEN);
	memcpy(after->cut.durable, cut->durable, CUT_LEN);
	memcpy(after->cut.dirty, cut->dirty, cut->count * sizeof(cut->dirty[0]));
	after->cut.count = cut->count;
	after->cut.step = world_explore;
	start(after, before, false);
}

void world_explore(struct cut *cut)
{
	struct world *world = (struct world *) cut;

	if (!world->wrong)
		cut_explore(cut, world->depth ? 3 : 8, recover, world);
}
