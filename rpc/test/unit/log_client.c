/* SPDX-License-Identifier: BSD-2-Clause */
/* log_client.c -- the client of log_world.h: it writes or sends calls, alone or in batches */
#include "log_world.h"

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
	world_fill(world, world->next.sequence, argument);
	mirror.base = world->mirror;
	rpc_ring_write(&mirror, world->next, 5, 0, argument, world->argument_len);
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
	size_t len = rpc_footprint(&ring, world_length(world, world->next.sequence));

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
	size_t len = world_length(world, world->next.sequence);
	uint64_t argument[128];

	world_fill(world, world->next.sequence, argument);
	mirror.base = world->mirror;
	rpc_ring_write(&mirror, world->next, 5, 0, argument, len);
	world->posted = world->next.sequence++;
	world->next.position += rpc_footprint(&ring, len);
}

/* notify -- the server is told of calls that are durable */
static void notify(struct world *world, unsigned int calls)
{
	uint64_t data = calls + (mutant == NOTICE_FAR) - (mutant == NOTICE_SHORT);
	unsigned int known = rpc_batch_notice(data, world->notices, world->window);

	if (!known)
		world_complain(world, "a notice of calls that there are is refused");
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
	count = rpc_ring_plan(ring.size, place.position, world_length(world, place.sequence),
			      pieces);
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
			      world_length(world, world->next.sequence)))
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

bool world_post_next(struct world *world)
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
		if (!world_execute(world, true))
			world_complain(world, "the client seems to mean ill");
	}
	return true;
}

void world_run(struct world *world)
{
	bool progress = true;

	for (unsigned int round = 0; progress && !world->wrong; round++) {
		progress = false;
		while (!world->wrong && world_post_next(world))
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
