/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rpc_log.c -- the log loses power at every step, and recovers from every image
 *
 * A client and a server take turns over memory that forgets (cut.h).  After each write, any
 * subset of what is not durable may be lost.  From each image the server recovers without the
 * client; then: what was called durable is executed, each call once and in order, nothing else is,
 * and a reply that was given is the reply that is kept.  Some recoveries lose power again, and in
 * some the client comes back and goes on.  The server is killed, too: then it recovers from all
 * that was written, durable or not, and loses power meanwhile.
 *
 * The client writes its entries, or sends them: then they are in their cells, and may be
 * executed, before they are durable, and a message waits until its cell is posted.
 */
#include <stdlib.h>

#include <criterion/criterion.h>

#include "log_world.h"

#define SECRET 77

static const uint8_t me[RPC_ID] = "the test's id";

static bool in_places(const struct cut *cut, size_t offset)
{
	const struct world *world = (const struct world *) cut;

	return (offset >= world->store.slots && offset < world->store.rings) ||
	       offset >= world->store.app;
}

/*
 * Rings and arguments: one write, three that wrap, an entry that fills the ring, one that nearly
 * does.  Then batches: in one lap, over several, and with a long call between short ones.  Then
 * cells: two, two with some ring behind them, two of several lines, one.  A client that comes back
 * may use the other transport.
 */
struct shape {
	size_t ring, argument, cell, other_cell, long_argument;
	bool batches;
};

static const struct shape written[] = {{128, 8, 0, 64, 0, false},   {128, 48, 0, 0, 0, false},
				       {192, 64, 0, 128, 0, false}, {512, 496, 0, 512, 0, false},
				       {576, 480, 0, 0, 0, false},  {512, 8, 0, 0, 0, true},
				       {192, 40, 0, 0, 0, true},    {1024, 8, 0, 0, 400, true}};
static const struct shape sent[] = {{128, 8, 64, 64, 0, false},
				    {192, 48, 64, 0, 0, false},
				    {576, 120, 256, 0, 0, false},
				    {512, 248, 512, 512, 0, false}};

/* live -- a store's life with such a ring and accidents; returns what was found wrong */
static const char *live(const struct shape *shape, void (*accident)(struct cut *cut),
			uint64_t *images)
{
	const struct rpc_sizes sizes = {.clients = 1,
					.ring = shape->ring,
					/* Room for a batch, and one that is held back. */
					.window = shape->batches ? BATCH + 1 : 2,
					.reply_max = sizeof(struct answer),
					.effects_max = 48,
					.memory = sizeof(struct ledger)};
	struct world *world = calloc(1, sizeof(*world));
	unsigned char mirror[2048] = {0};
	const char *wrong;

	cr_assert_leq(rpc_store_len(&sizes), CUT_LEN);
	cr_assert_not_null(world);
	cut_init(&world->cut, NULL);
	world->mirror = mirror;
	world->argument_len = shape->argument;
	world->cell = shape->cell;
	world->other_cell = shape->other_cell;
	world->long_len = shape->long_argument;
	world->batches = shape->batches;
	world->window = (unsigned int) sizes.window;
	cr_assert_eq(rpc_store_format(&world->cut.memory, &sizes, SECRET), 0);
	cr_assert_eq(world_open(world), 0);
	cr_assert_eq(rpc_store_claim(&world->store, me, true, NULL), 0);
	world_greet(world, 1);
	world->next.sequence = 1;
	if (mutant == JOURNAL_LOST)
		world->cut.forget_write = world_in_journal;
	if (mutant == JOURNAL_LATE)
		world->cut.forget_persist = world_in_journal;
	if (mutant == PLACES_LATE)
		world->cut.forget_persist = in_places;
	if (mutant == EPOCH_LATE)
		world->cut.forget_persist = world_in_epoch;
	world->cut.step = accident;
	world_run(world);
	if (!world->wrong && rpc_store_slot(&world->store, 0)->executed != CALLS)
		world_complain(world, "not all calls are executed");
	*images += world->images;
	wrong = world->wrong;
	rpc_store_close(&world->store);
	free(world);
	return wrong;
}

static const char *live_all(const struct shape *shapes, size_t count, uint64_t *images)
{
	const char *wrong = NULL;

	for (size_t i = 0; i < count && !wrong; i++)
		wrong = live(&shapes[i], world_explore, images);
	/* What is in the ring matters less then. */
	if (!wrong)
		wrong = live(&shapes[0], world_die, images);
	return wrong;
}

static const char *live_written(uint64_t *images)
{
	return live_all(written, sizeof(written) / sizeof(written[0]), images);
}

static const char *live_sent(uint64_t *images)
{
	return live_all(sent, sizeof(sent) / sizeof(sent[0]), images);
}

Test(rpc_log, survives_every_power_failure)
{
	uint64_t images = 0;
	const char *wrong = live_written(&images);

	cr_assert_null(wrong, "%s", wrong);
	cr_assert_gt(images, 100000);
}

Test(rpc_log, sent_calls_survive_every_power_failure)
{
	uint64_t images = 0;
	const char *wrong = live_sent(&images);

	cr_assert_null(wrong, "%s", wrong);
	cr_assert_gt(images, 100000);
}

/* What mutants do is wrong, but no other use of memory: a sanitizer has seen it all above. */
#ifndef __SANITIZE_ADDRESS__

static void find_mutants(const char *(*live_them)(uint64_t *images), const enum mutant *others,
			 size_t count)
{
	for (mutant = NONE + 1; mutant < MUTANTS; mutant++) {
		uint64_t images = 0;
		bool other = false;

		for (size_t i = 0; i < count; i++)
			other |= mutant == others[i];
		if (!other)
			cr_expect_not_null(live_them(&images), "mutant %d is not found", mutant);
	}
}

/* Only a client that comes back from elsewhere meets NO_KEY: below. */

Test(rpc_log, finds_every_mutant)
{
	const enum mutant others[] = {NO_KEY, CELL_EARLY, CELL_STRIDE};

	find_mutants(live_written, others, sizeof(others) / sizeof(others[0]));
}

/* A message has no pieces, and no other call shares its commit. */
Test(rpc_log, finds_every_mutant_of_sent_calls)
{
	const enum mutant others[] = {NO_KEY, WORD_FIRST, BATCH_FAR, NOTICE_FAR, NOTICE_SHORT};

	find_mutants(live_sent, others, sizeof(others) / sizeof(others[0]));
}

#endif
