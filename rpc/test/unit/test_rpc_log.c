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
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "batch.h"
#include "cut.h"

#define CALLS 7
#define BATCH 2
#define SECRET 77

static const uint8_t me[RPC_ID] = "the test's id";

/* What is broken on purpose. */
enum mutant {
	NONE,
	WATERMARK_FIRST, /* the watermark is durable before the effect */
	EFFECT_FIRST,    /* the effect is durable before the watermark */
	WORD_FIRST,      /* the word is durable before the data */
	TOLD_EARLY,      /* "durable" is said before it is */
	REPLY_EARLY,     /* the reply is given before it is durable */
	NO_SEQUENCE,     /* the check knows nothing of laps */
	NO_BODY,         /* the check does not cover the data */
	NO_KEY,          /* the check knows nothing of connections */
	JOURNAL_LOST,    /* there is no journal */
	JOURNAL_LATE,    /* the journal is not durable before its contents are written */
	JOURNAL_TORN,    /* a torn journal counts */
	PLACES_LATE,     /* the journal is overwritten before its contents are durable */
	JOURNAL_UNSURE,  /* a journal that a killed process has left is taken for durable */
	CELL_EARLY,      /* a cell is posted again before its call is executed */
	CELL_STRIDE,     /* the watermark moves by the entry's length, not by its cell */
	BATCH_FAR,       /* a batch's commit is told of the call behind it, too */
	NOTICE_FAR,      /* a notice of n calls is counted as n + 1 */
	NOTICE_SHORT,    /* and as n - 1 */
	MUTANTS
};

static enum mutant mutant;

uint64_t __real_rpc_check(uint64_t key, struct rpc_place place, const void *body, size_t len);
uint64_t __wrap_rpc_check(uint64_t key, struct rpc_place place, const void *body, size_t len);
uint64_t __real_rpc_journal_check(uint64_t secret, const void *changes, size_t len);
uint64_t __wrap_rpc_journal_check(uint64_t secret, const void *changes, size_t len);

uint64_t __wrap_rpc_check(uint64_t key, struct rpc_place place, const void *body, size_t len)
{
	static const unsigned char nothing[4096];

	if (mutant == NO_SEQUENCE)
		place = (struct rpc_place){0};
	if (mutant == NO_KEY)
		key = 0;
	return __real_rpc_check(key, place, mutant == NO_BODY ? nothing : body, len);
}

uint64_t __wrap_rpc_journal_check(uint64_t secret, const void *changes, size_t len)
{
	return mutant == JOURNAL_TORN ? 1 : __real_rpc_journal_check(secret, changes, len);
}

/* The application's memory: what calls have done. */
struct ledger {
	uint64_t count;
	uint64_t sum;
};

struct answer {
	uint64_t count;
	uint64_t life;
};

struct world {
	struct cut cut; /* first: a step knows its world */
	struct rpc_store store;
	unsigned char *mirror; /* the client's copy of the ring, and room behind it */
	size_t argument_len;
	size_t cell, other_cell; /* of this connection, and perhaps of the next one; 0: written */
	uint64_t free_cells, cell_position; /* cells with a receive, and where the first one is */
	size_t long_len;                    /* of the argument of each third call, if they differ */
	unsigned int window;
	bool batches;           /* calls share flushes */
	struct rpc_batch batch; /* calls that are held back */
	uint64_t notices;       /* calls that the server was told of, and has not executed */
	uint64_t life;          /* how often it has recovered */
	struct rpc_place next;
	uint64_t posted, durable, replied; /* as the client knows */
	struct answer replies[CALLS + 1];
	unsigned int depth;
	uint64_t images;
	const char *wrong; /* what was found */
};

/* What all calls up to this one add to the sum. */
static uint64_t sum_to(uint64_t sequence)
{
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= sequence; i++)
		sum += i * i + 3;
	return sum;
}

static void complain(struct world *world, const char *what)
{
	if (!world->wrong)
		world->wrong = what;
}

static struct ledger *ledger_of(const struct world *world)
{
	return (struct ledger *) (world->store.memory->base + world->store.app);
}

static size_t length_of(const struct world *world, uint64_t sequence)
{
	return world->long_len && sequence % 3 == 0 ? world->long_len : world->argument_len;
}

static void fill(const struct world *world, uint64_t sequence, uint64_t *argument)
{
	for (size_t i = 0; i < length_of(world, sequence) / 8; i++)
		argument[i] = sequence * sequence + 3;
}

/* change -- the effect of a call; its argument has to be what the client has sent */
static void change(struct world *world, uint64_t sequence, const unsigned char *body, size_t len)
{
	uint64_t argument[128];
	struct ledger ledger = *ledger_of(world);

	fill(world, sequence, argument);
	if (len != RPC_BODY_HEAD + length_of(world, sequence) ||
	    memcmp(body + RPC_BODY_HEAD, argument, length_of(world, sequence)))
		complain(world, "a call is executed that nobody has made");
	ledger.count++;
	ledger.sum += sequence * sequence + 3;
	rpc_store_change(&world->store, &world->store.own, &ledger_of(world)->count, &ledger.count,
			 8);
	rpc_store_change(&world->store, &world->store.own, &ledger_of(world)->sum, &ledger.sum, 8);
}

static void reply(struct world *world, const struct answer *answer)
{
	if (world->replied == CALLS)
		complain(world, "a call is replied to that nobody has made");
	else
		world->replies[++world->replied] = *answer;
}

static bool post_next(struct world *world);

/* skew -- a mutant's watermark */
static void skew(struct world *world)
{
	struct rpc_slot *slot = rpc_store_slot(&world->store, 0), state = *slot;

	state.position += RPC_ALIGN - state.cell;
	cut_write(&world->cut.memory, slot, &state, sizeof(state));
	cut_persist(&world->cut.memory, slot, sizeof(state));
}

/* execute -- the next call, if it is there */
static bool execute(struct world *world, bool tell)
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
		post_next(world);
	}
	if (mutant == EFFECT_FIRST) {
		change(world, place.sequence, body, len);
		rpc_store_greet(&world->store, 0, 1, state.key, state.cell);
	}
	if (mutant != EFFECT_FIRST && mutant != WATERMARK_FIRST)
		change(world, place.sequence, body, len);
	rpc_store_executed(&world->store, &world->store.own, 0, len, 9, &answer, sizeof(answer));
	if (mutant == WATERMARK_FIRST) {
		change(world, place.sequence, body, len);
		rpc_store_greet(&world->store, 0, 1, state.key, state.cell);
	}
	if (mutant == CELL_STRIDE && ring.cell)
		skew(world);
	world->free_cells += mutant != CELL_EARLY;
	if (tell && mutant != REPLY_EARLY)
		reply(world, &answer);
	return true;
}

static const struct rpc_sizes any;

/* judge -- what a server that has recovered has to have */
static void judge(struct world *after, const struct world *before)
{
	uint64_t executed = rpc_store_slot(&after->store, 0)->executed;

	if (after->wrong)
		return;
	if (executed < before->durable)
		complain(after, "a call that was durable is lost");
	else if (executed > before->posted)
		complain(after, "more calls are executed than were made");
	else if (executed < before->replied)
		complain(after, "a call whose reply was given is not executed");
	else if (ledger_of(after)->count != executed || ledger_of(after)->sum != sum_to(executed))
		complain(after, "effects are lost, or there twice");
	for (uint64_t i = executed; i && i + before->window > executed && !after->wrong; i--) {
		const struct rpc_reply *kept = rpc_store_reply(&after->store, 0, i);
		const struct answer *answer = (const void *) (kept + 1);

		if (!kept || kept->status != 9 || kept->len != sizeof(*answer) ||
		    answer->count != i)
			complain(after, "a reply is not there");
		else if (i <= before->replied && answer->life != before->replies[i].life)
			complain(after, "another reply was given than is kept");
	}
}

static void explore(struct cut *cut);
static void run(struct world *world);

/* greet -- a connection: all cells of the ring get receives, from the next call's on */
static void greet(struct world *world, uint64_t key)
{
	struct rpc_ring ring;

	if (rpc_store_greet(&world->store, 0, 1, key, world->cell))
		complain(world, "no transaction");
	ring = rpc_store_ring(&world->store, 0);
	world->cell_position = rpc_store_slot(&world->store, 0)->position;
	world->free_cells = ring.cell ? ring.size / ring.cell : 0;
}

/* come_back -- the client connects again, sends what was not durable, and goes on */
static void come_back(struct world *world)
{
	struct rpc_slot *slot = rpc_store_slot(&world->store, 0);

	greet(world, slot->key + 1);
	world->posted = world->durable = world->replied = slot->executed;
	world->next = (struct rpc_place){slot->executed + 1, slot->position};
	run(world);
	if (!world->wrong && slot->executed != CALLS)
		complain(world, "the client can't go on");
}

static bool in_journal(const struct cut *cut, size_t offset)
{
	const struct world *world = (const struct world *) cut;

	return offset >= world->store.journal && offset < world->store.slots;
}

/* in_old_journal -- while a store is opened: nothing is being made yet */
static bool in_old_journal(const struct cut *cut, size_t offset)
{
	const struct world *world = (const struct world *) cut;

	return world->store.own.len <= 16 && in_journal(cut, offset);
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
	if (rpc_store_open(&after->store, &after->cut.memory, &any))
		complain(after, "the store can't be opened");
	else {
		while (!after->wrong && execute(after, false))
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

/* recover -- from one image, as a server that starts */
static void recover(const unsigned char *contents, void *arg)
{
	struct world *before = arg, *after;

	before->images++;
	if (before->wrong)
		return;
	after = heir(before);
	cut_init(&after->cut, contents);
	/* Power fails again; then in turn the client comes back. */
	if (before->depth == 0 && before->images % 61 == 0)
		after->cut.step = explore;
	start(after, before, before->images % 7 == 0);
}

/*
 * die -- the server is killed, and starts again: it sees all that was written, durable or not.
 * Then power fails while it recovers.
 */
static void die(struct cut *cut)
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
	after->cut.step = explore;
	start(after, before, false);
}

static void explore(struct cut *cut)
{
	struct world *world = (struct world *) cut;

	if (!world->wrong)
		cut_explore(cut, world->depth ? 3 : 10, recover, world);
}

/*
 * post_sent -- the next call, as a message, if there is a cell for it.  Real clients count: they
 * have no more under way than there are cells.  This one relies on the server.
 */
static bool post_sent(struct world *world)
{
	struct rpc_ring ring = rpc_store_ring(&world->store, 0), mirror = ring;
	size_t at = world->cell_position % ring.size, from = world->next.position % ring.size;
	uint64_t argument[128];

	if (world->next.sequence > CALLS || !world->free_cells)
		return false;
	fill(world, world->next.sequence, argument);
	mirror.base = world->mirror;
	rpc_ring_write(&mirror, world->next, 5, argument, world->argument_len);
	world->posted++;
	if (mutant == TOLD_EARLY)
		world->durable = world->posted;
	world->notices++;
	world->free_cells -= mutant != CELL_EARLY;
	world->cell_position += ring.cell;
	world->next.sequence++;
	world->next.position += ring.cell;
	cut_write(&world->cut.memory, ring.base + at, mirror.base + from,
		  RPC_WORD + RPC_BODY_HEAD + world->argument_len);
	return true;
}

/* commit_sent -- the sender is told that what it has sent is durable */
static void commit_sent(struct world *world)
{
	struct rpc_ring ring = rpc_store_ring(&world->store, 0);

	if (!ring.cell || world->durable == world->posted)
		return;
	cut_persist(&world->cut.memory, ring.base, ring.size);
	world->durable = world->posted;
	if (world->cut.step)
		world->cut.step(&world->cut);
}

/* has_room -- in the ring and in the window, for the client's next call */
static bool has_room(const struct world *world)
{
	uint64_t oldest = rpc_store_slot(&world->store, 0)->position;
	struct rpc_ring ring = rpc_store_ring(&world->store, 0);
	size_t len = rpc_footprint(&ring, length_of(world, world->next.sequence));

	/* What was replied to is room again: more than the watermark says, if it is late. */
	if (world->replied == world->posted)
		oldest = world->next.position;
	return world->next.sequence <= CALLS && world->posted - world->replied < world->window &&
	       world->next.position + len - oldest <= world->store.sizes.ring;
}

/* make -- the client's next call, in its copy of the ring */
static void make(struct world *world)
{
	struct rpc_ring ring = rpc_store_ring(&world->store, 0), mirror = ring;
	size_t len = length_of(world, world->next.sequence);
	uint64_t argument[128];

	fill(world, world->next.sequence, argument);
	mirror.base = world->mirror;
	rpc_ring_write(&mirror, world->next, 5, argument, len);
	world->posted = world->next.sequence++;
	world->next.position += rpc_footprint(&ring, len);
}

/* notify -- the server is told of calls that are durable */
static void notify(struct world *world, unsigned int calls)
{
	uint64_t data = calls + (mutant == NOTICE_FAR) - (mutant == NOTICE_SHORT);
	unsigned int known = rpc_batch_notice(data, world->notices, world->window);

	if (!known)
		complain(world, "a notice of calls that there are is refused");
	world->notices += known;
}

/* committed -- all calls up to this one are durable; power may fail now */
static void committed(struct world *world, uint64_t sequence)
{
	cut_persist(&world->cut.memory, rpc_store_ring(&world->store, 0).base,
		    world->store.sizes.ring);
	world->durable = sequence;
	if (mutant == BATCH_FAR && world->batch.calls)
		world->durable++;
	if (world->cut.step)
		world->cut.step(&world->cut);
}

static void copy(struct world *world, size_t offset, size_t len)
{
	cut_write(&world->cut.memory, rpc_store_ring(&world->store, 0).base + offset,
		  world->mirror + offset, len);
}

/* post -- the client's next call, by itself */
static bool post(struct world *world)
{
	struct rpc_ring ring = rpc_store_ring(&world->store, 0);
	struct rpc_piece pieces[RPC_MAX_PIECES];
	struct rpc_place place = world->next;
	unsigned int count;

	if (!has_room(world))
		return false;
	make(world);
	count = rpc_ring_plan(ring.size, place.position, length_of(world, place.sequence), pieces);
	if (mutant == TOLD_EARLY)
		world->durable = world->posted;
	for (unsigned int i = 0; i < count; i++) {
		const struct rpc_piece *piece = &pieces[mutant == WORD_FIRST ? count - 1 - i : i];

		if (piece->fence)
			cut_persist(&world->cut.memory, ring.base, ring.size);
		copy(world, piece->offset, piece->len);
		if (piece->commit)
			committed(world, world->posted);
	}
	notify(world, 1);
	return true;
}

/* gather -- calls that will be written together */
static void gather(struct world *world)
{
	while (has_room(world) &&
	       rpc_batch_join(&world->batch, BATCH, world->store.sizes.ring, world->next.position,
			      length_of(world, world->next.sequence)))
		make(world);
}

/* post_batch -- with one commit; more calls are made, and held back, while it is under way */
static bool post_batch(struct world *world)
{
	struct rpc_batch batch;

	gather(world);
	batch = world->batch;
	if (!batch.calls)
		return post(world);
	world->batch = (struct rpc_batch){0};
	if (mutant == TOLD_EARLY)
		world->durable = world->posted;
	copy(world, batch.position % world->store.sizes.ring, batch.len);
	gather(world);
	committed(world, world->posted - world->batch.calls);
	notify(world, batch.calls);
	return true;
}

static bool post_next(struct world *world)
{
	if (rpc_store_ring(&world->store, 0).cell)
		return post_sent(world);
	return world->batches ? post_batch(world) : post(world);
}

/* serve -- execute some of the calls that the server was told of: each has to be there */
static bool serve(struct world *world)
{
	unsigned int count = world->batches ? BATCH : 1;

	if (!world->notices)
		return false;
	while (count-- && world->notices && !world->wrong) {
		world->notices--;
		if (!execute(world, true))
			complain(world, "the client seems to mean ill");
	}
	return true;
}

/* run -- calls overlap: as many as there is room for, then some are executed */
static void run(struct world *world)
{
	bool progress = true;

	for (unsigned int round = 0; progress && !world->wrong; round++) {
		progress = false;
		while (!world->wrong && post_next(world))
			progress = true;
		/* A message is here before it is durable: it may be executed before, too. */
		if (round % 2)
			commit_sent(world);
		progress |= serve(world);
		commit_sent(world);
		/* The reply is there: power may fail now, too. */
		if (world->cut.step)
			world->cut.step(&world->cut);
	}
}

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
	cr_assert_eq(rpc_store_open(&world->store, &world->cut.memory, &any), 0);
	cr_assert_eq(rpc_store_claim(&world->store, me, true, NULL), 0);
	greet(world, 1);
	world->next.sequence = 1;
	if (mutant == JOURNAL_LOST)
		world->cut.forget_write = in_journal;
	if (mutant == JOURNAL_LATE)
		world->cut.forget_persist = in_journal;
	if (mutant == PLACES_LATE)
		world->cut.forget_persist = in_places;
	world->cut.step = accident;
	run(world);
	if (!world->wrong && rpc_store_slot(&world->store, 0)->executed != CALLS)
		complain(world, "not all calls are executed");
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
		wrong = live(&shapes[i], explore, images);
	/* What is in the ring matters less then. */
	if (!wrong)
		wrong = live(&shapes[0], die, images);
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

struct fixture {
	struct cut cut;
	struct rpc_store store;
};

static void open_fixture(struct fixture *fixture, size_t ring)
{
	const struct rpc_sizes sizes = {.clients = 2,
					.ring = ring,
					.window = 1,
					.reply_max = 8,
					.effects_max = 32,
					.memory = 64};

	cut_init(&fixture->cut, NULL);
	cr_assert_eq(rpc_store_format(&fixture->cut.memory, &sizes, SECRET), 0);
	cr_assert_eq(rpc_store_open(&fixture->store, &fixture->cut.memory, &any), 0);
	cr_assert_eq(rpc_store_claim(&fixture->store, me, true, NULL), 0);
	cr_assert_eq(rpc_store_greet(&fixture->store, 0, 1, 1, 0), 0);
}

/* late -- is an entry valid that arrives when its client has connected again? */
static bool late(void)
{
	static struct fixture fixture;
	unsigned char body[1024];
	struct rpc_ring ring;
	size_t len;

	open_fixture(&fixture, 256);
	ring = rpc_store_ring(&fixture.store, 0);
	cr_assert_eq(rpc_store_greet(&fixture.store, 0, 1, 2, 0), 0);
	rpc_ring_write(&ring, (struct rpc_place){1, 0}, 5, "argument", 8);
	ring = rpc_store_ring(&fixture.store, 0);
	len = rpc_ring_read(&ring, (struct rpc_place){1, 0}, body);
	rpc_store_close(&fixture.store);
	return len;
}

Test(rpc_log, an_entry_of_an_earlier_connection_is_not_valid)
{
	mutant = NONE;
	cr_assert_not(late());
	mutant = NO_KEY;
	cr_assert(late());
}

Test(rpc_log, nothing_random_is_valid)
{
	static struct fixture fixture;
	unsigned char body[256];
	unsigned int seed = 1;
	struct rpc_ring ring;

	open_fixture(&fixture, 256);
	ring = rpc_store_ring(&fixture.store, 0);
	for (int n = 0; n < 200000; n++) {
		uint64_t sequence = (uint64_t) rand_r(&seed), word;

		for (size_t i = 0; i < ring.size; i += 4)
			*(int *) (ring.base + i) = rand_r(&seed);
		/* Mostly a length that is possible. */
		word = *(uint64_t *) ring.base;
		if (n % 8)
			*(uint64_t *) ring.base = word << 24 | (word >> 40) % 300;
		cr_assert_not(rpc_ring_read(&ring, (struct rpc_place){sequence, 0}, body));
	}
	rpc_store_close(&fixture.store);
}

Test(rpc_log, a_client_that_changes_its_entry_meanwhile_changes_nothing)
{
	static struct fixture fixture;
	unsigned char body[256];
	struct rpc_ring ring;

	open_fixture(&fixture, 256);
	ring = rpc_store_ring(&fixture.store, 0);
	rpc_ring_write(&ring, (struct rpc_place){1, 64}, 5, "argument", 8);
	cr_assert_eq(rpc_ring_read(&ring, (struct rpc_place){1, 64}, body), 16);
	memset(ring.base, 0xff, ring.size);
	cr_assert_arr_eq(body + RPC_BODY_HEAD, "argument", 8);
	rpc_store_close(&fixture.store);
}

static void check_format(const unsigned char *contents, void *arg)
{
	static struct cut after;
	struct rpc_store store;

	(void) arg;
	cut_init(&after, contents);
	if (rpc_store_is_new(&after.memory))
		return;
	cr_assert_eq(rpc_store_open(&store, &after.memory, &any), 0);
	cr_assert_eq(store.sizes.clients, 2);
	cr_assert_not(rpc_store_slot(&store, 0)->used);
	rpc_store_close(&store);
}

/* adopt -- who makes it is killed; who finds it relies on it, so it has to be durable then */
static void adopt(const struct cut *cut)
{
	static struct cut after;
	struct rpc_store store;

	if (rpc_store_is_new(&cut->memory))
		return;
	cut_init(&after, NULL);
	memcpy(after.seen, cut->seen, CUT_LEN);
	memcpy(after.durable, cut->durable, CUT_LEN);
	cr_assert_eq(rpc_store_open(&store, &after.memory, &any), 0);
	cr_assert_arr_eq(after.durable, after.seen, RPC_PAGE, "it would be made anew");
	rpc_store_close(&store);
}

static void explore_format(struct cut *cut)
{
	adopt(cut);
	cut_explore(cut, 8, check_format, NULL);
}

Test(rpc_log, making_a_store_can_be_interrupted)
{
	static struct cut cut;
	const struct rpc_sizes sizes = {.clients = 2, .ring = 64, .window = 1};

	cut_init(&cut, NULL);
	/* What was there before: only its first page says that it is nothing. */
	memset(cut.seen + RPC_PAGE, 0xa5, CUT_LEN - RPC_PAGE);
	memset(cut.durable + RPC_PAGE, 0xa5, CUT_LEN - RPC_PAGE);
	cut.step = explore_format;
	cr_assert(rpc_store_is_new(&cut.memory));
	cr_assert_eq(rpc_store_format(&cut.memory, &sizes, SECRET), 0);
	cr_assert_not(rpc_store_is_new(&cut.memory));
}

/* As ext4 has its superblock, and a disk its table of partitions. */
Test(rpc_log, what_begins_with_zeros_need_not_be_new)
{
	static struct cut cut;
	struct rpc_store store;

	cut_init(&cut, NULL);
	cr_assert(rpc_store_is_new(&cut.memory));
	cut.seen[1024 + 56] = 0x53;
	cr_assert_not(rpc_store_is_new(&cut.memory));
	cr_assert_eq(rpc_store_open(&store, &cut.memory, &any), -EUCLEAN);
	cut.seen[1024 + 56] = 0;
	cut.seen[RPC_PAGE - 1] = 1;
	cr_assert_not(rpc_store_is_new(&cut.memory));
	cut.seen[RPC_PAGE - 1] = 0;
	cr_assert(rpc_store_is_new(&cut.memory));
}

Test(rpc_log, a_store_says_what_is_wrong_with_it)
{
	static struct fixture fixture;
	struct rpc_store store;
	const struct rpc_sizes other = {.ring = 512}, same = {.ring = 256, .clients = 2};
	const struct rpc_sizes bad[] = {{.clients = 1, .ring = 100, .window = 1},
					{.clients = 1, .ring = 64},
					{.ring = 64, .window = 1},
					{.clients = 1, .ring = 16 << 20, .window = 1}};

	open_fixture(&fixture, 256);
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &same), 0);
	rpc_store_close(&store);
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &other), -EINVAL);
	fixture.cut.memory.len -= 8192;
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &any), -EUCLEAN);
	fixture.cut.memory.len += 8192;
	fixture.cut.seen[24] ^= 1;
	cr_assert_eq(rpc_store_open(&store, &fixture.cut.memory, &any), -EUCLEAN);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(rpc_store_len(&bad[i]), 0);
	rpc_store_close(&fixture.store);
}

Test(rpc_log, a_call_changes_only_the_applications_memory)
{
	static struct fixture fixture;
	struct rpc_store *store = &fixture.store;
	unsigned char *app, data[64] = {0};

	open_fixture(&fixture, 256);
	app = fixture.cut.seen + store->app;
	cr_assert_eq(rpc_store_change(store, &store->own, app - 1, data, 1), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app + 64, data, 1), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app + 60, data, 5), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, SIZE_MAX), -EINVAL);
	cr_assert_eq(rpc_store_change(store, &store->own, app + 60, data, 4), 0);
	/* 16 bytes more for each: the next one is too much, and so is a small one after it. */
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, 8), -ENOSPC);
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, 0), -ENOSPC);
	rpc_transaction_drop(&store->own);
	cr_assert_eq(rpc_store_change(store, &store->own, app, data, 16), 0);
	rpc_store_close(store);
}

Test(rpc_log, a_slot_goes_from_one_client_to_the_next)
{
	static struct fixture fixture;
	struct rpc_store *store = &fixture.store;
	const uint8_t other[RPC_ID] = "another", third[RPC_ID] = "a third one";
	static const unsigned char zeros[256];

	open_fixture(&fixture, 256);
	cr_assert_eq(rpc_store_executed(store, &store->own, 0, 16, 0, "reply", 5), 0);
	cr_assert_not_null(rpc_store_reply(store, 0, 1));
	cr_assert_eq(rpc_store_claim(store, other, true, NULL), 1);
	cr_assert(rpc_store_is_of(store, 1, other));
	cr_assert_not(rpc_store_is_of(store, 1, third));
	cr_assert_eq(rpc_store_claim(store, third, true, NULL), -ENOSPC);
	cr_assert_eq(rpc_store_forget(store, 0), 0);
	cr_assert_eq(rpc_store_claim(store, other, true, NULL), 1);
	cut_write(&fixture.cut.memory, rpc_store_ring(store, 0).base, "my argument", 11);
	cr_assert_not(rpc_store_is_of(store, 0, me));
	cr_assert_eq(rpc_store_claim(store, third, true, NULL), 0);
	cr_assert_arr_eq(rpc_store_ring(store, 0).base, zeros, 256, "somebody else's arguments");
	cr_assert_eq(rpc_store_slot(store, 0)->executed, 0);
	cr_assert_null(rpc_store_reply(store, 0, 1), "a reply to somebody else");
	rpc_store_close(store);
}

static int broken(struct rpc_memory *memory, const void *place, size_t len)
{
	(void) memory;
	(void) place;
	(void) len;
	return -EIO;
}

Test(rpc_log, after_a_failure_of_the_medium_nothing_is_executed)
{
	static struct fixture fixture;

	open_fixture(&fixture, 256);
	fixture.cut.memory.persist = broken;
	cr_assert_eq(rpc_store_executed(&fixture.store, &fixture.store.own, 0, 16, 0, "", 0), -EIO);
	fixture.cut.memory.persist = cut_persist;
	cr_assert_eq(rpc_store_executed(&fixture.store, &fixture.store.own, 0, 16, 0, "", 0), -EIO);
	cr_assert_eq(rpc_store_slot(&fixture.store, 0)->executed, 0);
	rpc_store_close(&fixture.store);
}
