/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * judge.c -- what a power failure leaves is recovered from, and held against what was said
 *
 * The server starts on the image, as it does after a crash: it carries out the journal, and
 * executes all that is valid.  Then:
 *   - all calls are executed of which the client has heard that they are durable, or the server
 *     itself by a notice, and none that was not posted,
 *   - each once and in order: the ledger says so,
 *   - the replies to the last calls are kept, and those that were given are the same ones,
 *   - once the client has come back (comeback.c), nothing is valid that was left in the ring; what
 *     it sends again and its next call are executed, and it has all replies.
 * What comes of an image depends on nothing but the image and on what was said, so each such pair
 * is looked at once.
 */
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <xxhash.h>

#include "stage.h"

#define NEXT_LIFE 1

/* What was said. */
struct told {
	uint64_t posted, durable, executed, heard, welcomed;
	uint64_t kept, committed;
	uint64_t freed, replied; /* what else the client has when it comes back */
};

struct judge {
	GHashTable *seen; /* what was wrong with it */
	struct part parts[PARTS];
	unsigned char *image;
	struct rpc_memory memory;
	struct actor actor;
	struct pmemrpc_server server;
	uint32_t readers[MAX_CALLS];
	struct rpc_executor executor;
	unsigned int window;
	uint64_t images;
};

static void write_image(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	(void) memory;
	memcpy(place, data, len);
}

static int persist_image(struct rpc_memory *memory, const void *place, size_t len)
{
	(void) memory;
	(void) place;
	(void) len;
	return 0;
}

struct judge *judge_open(const struct world *world)
{
	const struct stage *stage = world->own;
	struct judge *judge = g_new0(struct judge, 1);

	judge->seen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	stage_parts(stage, judge->parts);
	/* What is in no part never changes. */
	judge->image = g_memdup2(stage->memory.base, stage->memory.len);
	judge->memory = (struct rpc_memory){.base = judge->image,
					    .len = stage->memory.len,
					    .write = write_image,
					    .persist = persist_image};
	judge->actor = (struct actor){.scene = stage->scene, .life = NEXT_LIFE};
	judge->server.handler = stage_handle;
	judge->server.context = &judge->actor;
	pthread_mutex_init(&judge->server.lock, NULL);
	pthread_mutex_init(&judge->server.exclusive, NULL);
	judge->window = stage->scene->window;
	stage_set_readers(&judge->server, stage->scene, judge->readers);
	/* It has the sizes of the store that is there. */
	judge->server.store.sizes = stage->server.store.sizes;
	world_sure(rpc_executor_open(&judge->executor, &judge->server));
	return judge;
}

void judge_close(struct judge *judge)
{
	g_hash_table_destroy(judge->seen);
	rpc_executor_close(&judge->executor);
	g_free(judge->image);
	g_free(judge);
}

uint64_t judge_images(const struct judge *judge)
{
	return judge->images;
}

/* take_image -- and say what stands for it, and for what was said */
static uint64_t take_image(struct judge *judge, struct world *world, const struct told *told)
{
	uint64_t hash = XXH3_64bits(told, sizeof(*told));

	for (size_t i = 0; i < PARTS; i++) {
		unsigned char *at = judge->image + judge->parts[i].offset;

		if (!judge->parts[i].len)
			continue;
		hw_image(world->sim->hw, world->memory[0] + judge->parts[i].offset,
			 judge->parts[i].len, (char *) at);
		hash = XXH3_64bits_withSeed(at, judge->parts[i].len, hash);
	}
	return hash;
}

static const char *judge_replies(struct judge *judge, unsigned int slot, const struct told *told,
				 uint64_t executed)
{
	const struct scene *scene = judge->actor.scene;

	for (uint64_t i = executed; i && i + judge->window > executed; i--) {
		const struct rpc_reply *kept = rpc_store_reply(&judge->server.store, slot, i);
		const struct answer *answer = (const void *) (kept + 1);
		/* It need not be kept, and a second one is as good. */
		bool had = !slot && i <= told->executed && stage_reads(scene, i);

		if (had && !kept)
			continue;
		if (!kept || kept->status != STATUS || kept->len != sizeof(*answer) ||
		    answer->count != stage_ledger_of(scene, i).count)
			return "a reply is not there";
		if (!slot && !had && i <= told->executed && answer->life == NEXT_LIFE)
			return "another reply was given than is kept";
	}
	return NULL;
}

/* has_done -- does a client's ledger have its calls up to this one, each once? */
static bool has_done(const struct judge *judge, unsigned int client, uint64_t sequence)
{
	const struct ledger *is = stage_ledger(&judge->server.store, client);
	const struct ledger ought = stage_ledger_of(judge->actor.scene, sequence);

	return is->count == ought.count && is->order == ought.order;
}

/*
 * loses -- the calls up to this one count, and the server has only these: is one of the others
 * needed?  Not if it only reads, and its client has the reply.
 */
static bool loses(const struct judge *judge, const struct told *told, uint64_t sequence,
		  uint64_t executed)
{
	for (uint64_t i = executed + 1; i <= sequence; i++) {
		if (i > told->executed || !stage_reads(judge->actor.scene, i))
			return true;
	}
	return false;
}

/* come_back -- the client: what it has left is not valid any more, and it goes on */
static const char *come_back(struct judge *judge, const struct stage *stage,
			     const struct told *told)
{
	struct rpc_store *store = &judge->server.store;
	const struct scene *scene = judge->actor.scene;
	struct rpc_request_message hello;
	const char *wrong;

	rpc_client_resumes(stage->client, &hello);
	if (rpc_store_resume(store, 0, le64toh(hello.executed), le64toh(hello.position),
			     le64toh(hello.durable)))
		return "a client that comes back is refused";
	if (rpc_store_greet(store, 0, 2, NEW_KEY + 1, scene->cell, false) ||
	    rpc_server_execute(&judge->executor, 0))
		return "what an earlier connection has left is valid";
	wrong = comeback(stage, store, &judge->executor);
	if (!wrong && (judge->actor.wrong || !has_done(judge, 0, told->posted + 1)))
		wrong = "what is sent again is executed twice, or not at all";
	return wrong;
}

/* drain -- as rpc_server_drain, but a mutant may find calls for ever */
static int drain(struct judge *judge, unsigned int client, uint64_t posted)
{
	const struct rpc_slot *slot = rpc_store_slot(&judge->server.store, client);
	int ret = 1;

	for (uint64_t i = 0; ret > 0 && i <= posted && slot->executed <= posted; i++)
		ret = rpc_server_execute(&judge->executor, client);
	return ret < 0 ? ret : 0;
}

/* recover_other -- the other client, whose calls were all durable before */
static const char *recover_other(struct judge *judge, const struct told *told)
{
	const struct rpc_store *store = &judge->server.store;
	const struct rpc_slot *slot = rpc_store_slot(store, 1);
	unsigned int left = judge->actor.scene->left;

	if (told->welcomed && (slot->executed != left || slot->key != NEW_KEY))
		return "the other client was told more than is durable";
	if (drain(judge, 1, left) || slot->executed != left)
		return "calls of the other client are lost, or there twice";
	if (!has_done(judge, 1, left))
		return "effects of the other client are lost, or there twice";
	return judge_replies(judge, 1, told, left);
}

static const char *recover(struct judge *judge, const struct stage *stage, const struct told *told)
{
	static const struct rpc_sizes any;
	struct rpc_store *store = &judge->server.store;
	uint64_t executed, before;
	const char *wrong = NULL;

	if (rpc_store_open(store, &judge->memory, &any))
		return "the store can't be opened";
	before = rpc_store_slot(store, 0)->executed;
	judge->actor.wrong = NULL;
	if (judge->actor.scene->left)
		wrong = recover_other(judge, told);
	if (!wrong && drain(judge, 0, told->posted))
		wrong = "what is durable can't be executed";
	executed = rpc_store_slot(store, 0)->executed;
	if (!wrong)
		wrong = judge->actor.wrong;
	if (!wrong && loses(judge, told, told->durable, executed))
		wrong = "a call is lost of which the client has heard that it is durable";
	if (!wrong && loses(judge, told, told->heard, executed))
		wrong = "a call is lost of which the server has heard that it is durable";
	if (!wrong && executed > told->posted)
		wrong = "more calls are executed than were made";
	if (!wrong && loses(judge, told, told->executed, before))
		wrong = "a call whose reply was given is not executed";
	if (!wrong && !has_done(judge, 0, executed))
		wrong = "effects are lost, or there twice, or in another order";
	if (!wrong)
		wrong = judge_replies(judge, 0, told, executed);
	if (!wrong)
		wrong = come_back(judge, stage, told);
	rpc_store_close(store);
	return wrong;
}

/* judge_told -- what the client was told of calls that are executed */
static const char *judge_told(const struct stage *stage)
{
	const struct pmemrpc_client *client = stage->client;

	if (stage->actor.wrong)
		return stage->actor.wrong;
	for (unsigned int i = 0; i < stage->posted; i++) {
		const struct pmemrpc_call *call = &stage->calls[i];

		if (call->sequence > client->executed)
			continue;
		if (call->state != PMEMRPC_EXECUTED || call->status != STATUS ||
		    call->reply_len != sizeof(struct answer) ||
		    stage->answers[i].count !=
			    stage_ledger_of(stage->scene, call->sequence).count ||
		    stage->answers[i].life)
			return "a reply is not that of the call";
	}
	return NULL;
}

const char *judge_now(struct world *world, bool final)
{
	const struct stage *stage = world->own;
	const struct pmemrpc_client *client = stage->client;
	struct judge *judge = stage->judge;
	const struct told told = {.posted = client->posted,
				  .durable = client->durable,
				  .executed = client->executed,
				  /* A notice of a call that is not committed says nothing. */
				  .heard =
					  !stage->scene->reads && stage->heard > stage->scene->plain
						  ? stage->scene->before + stage->heard
						  : 0,
				  .welcomed = stage->welcomed,
				  .kept = client->kept,
				  .committed = client->committed,
				  .freed = client->freed,
				  .replied = stage->session.reply};
	const char *wrong = judge_told(stage);
	uint64_t hash;
	void *known;

	if (wrong)
		return wrong;
	if (final && client->executed != stage->scene->before + stage->scene->calls)
		return "nothing happens any more, and not all calls are executed";
	hash = take_image(judge, world, &told);
	if (g_hash_table_lookup_extended(judge->seen, &hash, NULL, &known))
		return known;
	judge->images++;
	wrong = recover(judge, stage, &told);
	g_hash_table_insert(judge->seen, g_memdup2(&hash, sizeof(hash)), (void *) wrong);
	return wrong;
}
