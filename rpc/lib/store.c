/* SPDX-License-Identifier: BSD-2-Clause */
/* store.c -- a server's persistent memory; store.h has its parts and why it is right */
#include "store.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "pmemrpc.h"

/* Numbers have this machine's byte order, so a store of the other byte order is no store. */
#define MAGIC UINT64_C(0x3563707276646d70)

struct head {
	uint64_t magic;
	uint64_t checksum; /* of what follows */
	struct rpc_sizes sizes;
	uint64_t secret;
};

static void lay_out(struct rpc_store *store, const struct rpc_sizes *sizes)
{
	store->sizes = *sizes;
	store->journal = RPC_PAGE;
	store->slots = store->journal + rpc_journal_len(sizes);
	store->slot_len = rpc_slot_len(sizes);
	store->rings = store->slots + sizes->clients * store->slot_len;
	store->handshakes = store->rings + sizes->clients * rpc_round_up(sizes->ring, RPC_PAGE);
	store->app = store->handshakes +
		     rpc_round_up(rpc_store_connections(sizes) * RPC_HANDSHAKE, RPC_PAGE);
}

unsigned int rpc_store_connections(const struct rpc_sizes *sizes)
{
	return (unsigned int) sizes->clients + RPC_MORE_SESSIONS;
}

uint64_t rpc_store_len(const struct rpc_sizes *sizes)
{
	struct rpc_store store;

	if (!rpc_sizes_are_right(sizes))
		return 0;
	lay_out(&store, sizes);
	return store.app + rpc_round_up(sizes->memory, RPC_PAGE);
}

static uint64_t head_checksum(const struct head *head)
{
	return XXH3_64bits(&head->sizes, sizeof(*head) - offsetof(struct head, sizes));
}

bool rpc_store_is_new(const struct rpc_memory *memory)
{
	const struct head *head = (const struct head *) memory->base;
	const char *behind = (const char *) (head + 1), *end = (const char *) head + RPC_PAGE;

	if (memory->len < RPC_PAGE)
		return true;
	/* A disk's image may begin with a few zeros, too. */
	while (behind < end && !*behind)
		behind++;
	return !head->magic && behind == end;
}

int rpc_store_format(struct rpc_memory *memory, const struct rpc_sizes *sizes, uint64_t secret)
{
	static const unsigned char zeros[RPC_PAGE];
	struct head head = {.magic = MAGIC, .sizes = *sizes, .secret = secret};
	uint64_t len = rpc_store_len(sizes);
	int ret;

	if (!len || len > memory->len)
		return -EINVAL;
	head.checksum = head_checksum(&head);
	for (uint64_t at = 0; at < len; at += RPC_PAGE)
		memory->write(memory, memory->base + at, zeros, RPC_PAGE);
	memory->write(memory, memory->base + sizeof(head.magic),
		      (char *) &head + sizeof(head.magic), sizeof(head) - sizeof(head.magic));
	ret = memory->persist(memory, memory->base, len);
	if (ret)
		return ret;
	memory->write(memory, memory->base, &head.magic, sizeof(head.magic));
	return memory->persist(memory, memory->base, sizeof(head.magic));
}

/* slot_place -- where its state is, and its replies behind it */
static unsigned char *slot_place(const struct rpc_store *store, unsigned int slot)
{
	return store->memory->base + store->slots + slot * store->slot_len;
}

/* open_states -- carry out what is in the journal, and copy the states of all slots */
static int open_states(struct rpc_store *store)
{
	int ret;

	store->states = calloc(store->sizes.clients, sizeof(*store->states));
	store->unkept = calloc(store->sizes.clients, sizeof(*store->unkept));
	if (!store->states || !store->unkept)
		return -ENOMEM;
	ret = rpc_commit_keep(&store->commits,
			      rpc_journal_open(&store->commits.journal, store->memory,
					       store->secret, store->journal,
					       rpc_journal_len(&store->sizes)));
	for (unsigned int i = 0; !ret && i < store->sizes.clients; i++) {
		memcpy(&store->states[i], slot_place(store, i), sizeof(*store->states));
		/* As a medium that is damaged may have it. */
		if (store->states[i].cell > store->sizes.ring || store->states[i].cell % RPC_ALIGN)
			ret = -EUCLEAN;
		store->unkept[i].executed = store->states[i].executed;
		store->unkept[i].position = store->states[i].position;
	}
	return ret;
}

static bool fits(uint64_t wanted, uint64_t is)
{
	return !wanted || wanted == is;
}

int rpc_store_open(struct rpc_store *store, struct rpc_memory *memory,
		   const struct rpc_sizes *wanted)
{
	const struct head *head = (const struct head *) memory->base;
	const struct rpc_sizes *sizes = &head->sizes;
	uint64_t len;
	int ret;

	*store = (struct rpc_store){.memory = memory,
				    .lock = PTHREAD_MUTEX_INITIALIZER,
				    .greeting = PTHREAD_MUTEX_INITIALIZER};
	if (memory->len < RPC_PAGE || head->magic != MAGIC || head->checksum != head_checksum(head))
		return -EUCLEAN;
	len = rpc_store_len(sizes);
	if (!len || len > memory->len)
		return -EUCLEAN;
	if (!fits(wanted->clients, sizes->clients) || !fits(wanted->ring, sizes->ring) ||
	    !fits(wanted->window, sizes->window) || !fits(wanted->reply_max, sizes->reply_max) ||
	    !fits(wanted->effects_max, sizes->effects_max) || !fits(wanted->memory, sizes->memory))
		return -EINVAL;
	lay_out(store, sizes);
	rpc_commits_init(&store->commits, &store->lock);
	/* Who has made it may have been killed before its first word was durable. */
	ret = rpc_commit_keep(&store->commits, rpc_memory_keep(memory, memory->base, RPC_PAGE));
	if (ret)
		return ret;
	store->secret = head->secret;
	ret = rpc_transaction_open(&store->own, store);
	return ret ? ret : open_states(store);
}

void rpc_store_close(struct rpc_store *store)
{
	rpc_transaction_close(&store->own);
	rpc_journal_close(&store->commits.journal);
	for (unsigned int i = 0; store->unkept && i < store->sizes.clients; i++)
		free(store->unkept[i].bytes);
	free(store->unkept);
	free(store->states);
	store->unkept = NULL;
	store->states = NULL;
}

int rpc_transaction_open(struct rpc_transaction *transaction, const struct rpc_store *store)
{
	transaction->bytes = malloc(rpc_transaction_len(&store->sizes));
	rpc_transaction_drop(transaction);
	return transaction->bytes ? 0 : -ENOMEM;
}

void rpc_transaction_close(struct rpc_transaction *transaction)
{
	free(transaction->bytes);
	transaction->bytes = NULL;
}

struct rpc_ring rpc_store_ring(const struct rpc_store *store, unsigned int slot)
{
	const struct rpc_sizes *sizes = &store->sizes;
	const struct rpc_slot *state = rpc_store_slot(store, slot);
	struct rpc_ring ring = {
		.base = store->memory->base + store->rings +
			slot * rpc_round_up(sizes->ring, RPC_PAGE),
		.size = sizes->ring,
		.key = state->key,
		.cell = state->cell,
	};

	if (ring.cell)
		ring.size = ring.cell * rpc_cell_count(sizes->ring, sizes->window, ring.cell);
	return ring;
}

unsigned char *rpc_store_handshake(const struct rpc_store *store, unsigned int handshake)
{
	return store->memory->base + store->handshakes + (size_t) handshake * RPC_HANDSHAKE;
}

static unsigned char *reply_place(const struct rpc_store *store, unsigned int slot,
				  uint64_t sequence)
{
	return slot_place(store, slot) + RPC_ALIGN +
	       sequence % store->sizes.window * rpc_reply_stride(&store->sizes);
}

const struct rpc_reply *rpc_store_reply(const struct rpc_store *store, unsigned int slot,
					uint64_t sequence)
{
	const struct rpc_unkept *unkept = &store->unkept[slot];
	const struct rpc_reply *reply = NULL;

	while ((reply = rpc_unkept_next(unkept, reply))) {
		if (reply->sequence == sequence)
			return reply;
	}
	reply = (const struct rpc_reply *) reply_place(store, slot, sequence);
	if (!sequence || reply->sequence != sequence ||
	    reply->life != rpc_store_slot(store, slot)->life)
		return NULL;
	return reply;
}

/* same_id -- it takes the same time for each identity, so that nobody can guess one by the time */
static bool same_id(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (size_t i = 0; i < RPC_ID; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

/* find -- the slot of an identity, or one that is free; -ENOSPC: there is none */
static int find(const struct rpc_store *store, const uint8_t id[RPC_ID])
{
	int found = -1, free_one = -ENOSPC;

	for (int i = (int) store->sizes.clients - 1; i >= 0; i--) {
		const struct rpc_slot *slot = rpc_store_slot(store, (unsigned int) i);

		if (!slot->used)
			free_one = i;
		else if (same_id(slot->id, id))
			found = i;
	}
	return found >= 0 ? found : free_one;
}

/* clear -- the ring goes to somebody else, who could read what is in it */
static int clear(struct rpc_store *store, unsigned int slot)
{
	static const unsigned char zeros[RPC_ALIGN];
	struct rpc_memory *memory = store->memory;
	unsigned char *ring = rpc_store_ring(store, slot).base;

	for (size_t at = 0; at < store->sizes.ring; at += sizeof(zeros))
		memory->write(memory, ring + at, zeros, sizeof(zeros));
	return rpc_commit_keep(&store->commits, memory->persist(memory, ring, store->sizes.ring));
}

/* add_state -- of a slot, to the transaction: nobody reads its place while there is a copy */
static void add_state(const struct rpc_store *store, struct rpc_transaction *transaction,
		      unsigned int slot, const struct rpc_slot *state)
{
	rpc_transaction_add(&store->commits.journal, transaction, slot_place(store, slot), state,
			    sizeof(*state), sizeof(*state), true);
}

/* add_unkept -- the replies to calls that the watermark passes: they may be asked for again */
static void add_unkept(const struct rpc_store *store, struct rpc_transaction *transaction,
		       unsigned int slot)
{
	const struct rpc_reply *reply = NULL;

	while ((reply = rpc_unkept_next(&store->unkept[slot], reply))) {
		size_t len = sizeof(*reply) + reply->len;

		rpc_transaction_add(&store->commits.journal, transaction,
				    reply_place(store, slot, reply->sequence), reply, len, len,
				    false);
	}
}

/* append -- a slot's state, which ends the transaction; the store is locked */
static int append(struct rpc_store *store, struct rpc_transaction *transaction, unsigned int slot,
		  const struct rpc_slot *state, struct rpc_pending *pending)
{
	*pending = (struct rpc_pending){.slot = slot, .state = *state};
	add_state(store, transaction, slot, state);
	return rpc_commit_append(&store->commits, transaction, &pending->ticket);
}

/* wait -- until it counts; the store is locked */
static int wait(struct rpc_store *store, const struct rpc_pending *pending)
{
	struct rpc_unkept *unkept = &store->unkept[pending->slot];
	int ret = rpc_commit_wait(&store->commits, pending->ticket);

	if (ret)
		return ret;
	store->states[pending->slot] = pending->state;
	unkept->len = 0;
	unkept->executed = pending->state.executed;
	unkept->position = pending->state.position;
	return 0;
}

/* set -- the state of the slot of somebody who comes or goes */
static int set(struct rpc_store *store, unsigned int slot, const struct rpc_slot *state)
{
	struct rpc_pending pending;
	int ret = append(store, &store->own, slot, state, &pending);

	return ret ? ret : wait(store, &pending);
}

/* has_all -- has this peer all the rings that it may have?  The store is locked */
static bool has_all(const struct rpc_store *store, const struct rpc_peer *peer)
{
	unsigned int count = 0;

	for (unsigned int i = 0; peer && i < store->sizes.clients; i++)
		count += rpc_store_slot(store, i)->used == peer->who;
	return peer && peer->rings && count >= peer->rings;
}

/* begin, end -- a transaction of somebody who comes or goes */
static void begin(struct rpc_store *store)
{
	pthread_mutex_lock(&store->greeting);
	pthread_mutex_lock(&store->lock);
}

static void end(struct rpc_store *store)
{
	pthread_mutex_unlock(&store->lock);
	pthread_mutex_unlock(&store->greeting);
}

int rpc_store_claim(struct rpc_store *store, const uint8_t id[RPC_ID], bool may_be_new,
		    const struct rpc_peer *peer)
{
	struct rpc_slot *place, state;
	int slot, ret = 0;

	begin(store);
	slot = find(store, id);
	place = slot < 0 ? NULL : rpc_store_slot(store, (unsigned int) slot);
	if (!may_be_new && (!place || !place->used)) {
		ret = -ENOENT;
	} else if ((!place || !place->used) && has_all(store, peer)) {
		ret = -EDQUOT;
	} else if (place && !place->used) {
		state = (struct rpc_slot){.used = peer ? peer->who : 1, .life = place->life + 1};
		memcpy(state.id, id, RPC_ID);
		ret = clear(store, (unsigned int) slot);
		if (!ret)
			ret = set(store, (unsigned int) slot, &state);
	}
	end(store);
	return ret ? ret : slot;
}

bool rpc_store_is_of(struct rpc_store *store, unsigned int slot, const uint8_t id[RPC_ID])
{
	const struct rpc_slot *place = rpc_store_slot(store, slot);
	bool is_of;

	pthread_mutex_lock(&store->lock);
	is_of = place->used && same_id(place->id, id);
	pthread_mutex_unlock(&store->lock);
	return is_of;
}

int rpc_store_greet(struct rpc_store *store, unsigned int slot, uint64_t process, uint64_t key,
		    size_t cell, bool reads_only)
{
	struct rpc_slot state;
	int ret;

	begin(store);
	state = store->states[slot];
	state.process = process;
	state.key = key;
	state.cell = (uint32_t) cell & INT32_MAX;
	state.reads_only = reads_only;
	/* Nothing in the ring is valid with the new key, so calls may go on anywhere. */
	if (cell)
		state.position = rpc_round_up(state.position, cell);
	add_unkept(store, &store->own, slot);
	ret = set(store, slot, &state);
	end(store);
	return ret;
}

int rpc_store_resume(struct rpc_store *store, unsigned int slot, uint64_t executed,
		     uint64_t position, uint64_t durable)
{
	struct rpc_slot *state = rpc_store_slot(store, slot);
	uint64_t calls = executed - state->executed, len = position - state->position;

	if (state->executed < durable)
		return -ENOENT;
	rpc_store_has(store, slot, executed);
	if (state->executed >= executed)
		return 0;
	/* The client's ring has had them all, so there can't be more. */
	if (position < state->position || len > store->sizes.ring || calls > len / RPC_ALIGN ||
	    position % (state->cell ? state->cell : RPC_ALIGN))
		return -EINVAL;
	state->executed = executed;
	state->position = position;
	return 0;
}

uint64_t rpc_store_process(struct rpc_store *store, unsigned int slot)
{
	uint64_t process;

	pthread_mutex_lock(&store->lock);
	process = rpc_store_slot(store, slot)->process;
	pthread_mutex_unlock(&store->lock);
	return process;
}

int rpc_store_forget(struct rpc_store *store, unsigned int slot)
{
	struct rpc_slot state = {.life = rpc_store_slot(store, slot)->life};
	int ret;

	begin(store);
	ret = set(store, slot, &state);
	end(store);
	return ret;
}

bool rpc_store_is_app(const struct rpc_store *store, const void *place, size_t len)
{
	uintptr_t start = (uintptr_t) store->memory->base + store->app;
	uintptr_t at = (uintptr_t) place;

	return at >= start && at - start <= store->sizes.memory &&
	       len <= store->sizes.memory - (at - start);
}

int rpc_store_persist(struct rpc_store *store, const void *place, size_t len)
{
	int ret;

	if (!rpc_store_is_app(store, place, len))
		return -EINVAL;
	pthread_mutex_lock(&store->lock);
	ret = store->commits.failed;
	/* After a crash its old contents would come back, and newer calls refer to these. */
	if (!ret && rpc_journal_names(&store->commits.journal, place, len))
		ret = rpc_commit_settle(&store->commits);
	if (!ret)
		ret = rpc_commit_persist(&store->commits, store->memory, place, len);
	pthread_mutex_unlock(&store->lock);
	return ret;
}

int rpc_store_change(const struct rpc_store *store, struct rpc_transaction *transaction,
		     const void *place, const void *data, size_t len)
{
	if (!rpc_store_is_app(store, place, len))
		return -EINVAL;
	if (!transaction->full && len <= store->sizes.effects_max &&
	    rpc_change_len(len) <= store->sizes.effects_max - transaction->effects_len) {
		rpc_transaction_add(&store->commits.journal, transaction, place, data, len, len,
				    false);
		transaction->effects_len += rpc_change_len(len);
		return 0;
	}
	transaction->full = -ENOSPC;
	return transaction->full;
}

int rpc_store_append(struct rpc_store *store, struct rpc_transaction *transaction,
		     unsigned int slot, size_t len, int status, const void *reply, size_t reply_len,
		     struct rpc_pending *pending)
{
	struct rpc_slot state = *rpc_store_slot(store, slot);
	struct rpc_ring ring = rpc_store_ring(store, slot);
	/* The reply and its head are one change: they are neighbours. */
	struct rpc_reply head = {.sequence = ++state.executed,
				 .life = state.life,
				 .status = status,
				 .len = (uint32_t) reply_len};
	unsigned char *contents = rpc_transaction_add(
		&store->commits.journal, transaction, reply_place(store, slot, state.executed),
		&head, sizeof(head), sizeof(head) + reply_len, false);
	int ret;

	memcpy(contents + sizeof(head), reply, reply_len);
	state.position += rpc_footprint(&ring, len - RPC_BODY_HEAD);
	add_unkept(store, transaction, slot);
	pthread_mutex_lock(&store->lock);
	ret = append(store, transaction, slot, &state, pending);
	pthread_mutex_unlock(&store->lock);
	return ret;
}

int rpc_store_wait(struct rpc_store *store, const struct rpc_pending *pending)
{
	int ret;

	pthread_mutex_lock(&store->lock);
	ret = wait(store, pending);
	pthread_mutex_unlock(&store->lock);
	return ret;
}

int rpc_store_executed(struct rpc_store *store, struct rpc_transaction *transaction,
		       unsigned int slot, size_t len, int status, const void *reply,
		       size_t reply_len)
{
	struct rpc_pending pending;
	int ret =
		rpc_store_append(store, transaction, slot, len, status, reply, reply_len, &pending);

	return ret ? ret : rpc_store_wait(store, &pending);
}

bool rpc_store_read(struct rpc_store *store, unsigned int slot, size_t len, int status,
		    const void *reply, size_t reply_len)
{
	struct rpc_slot *state = rpc_store_slot(store, slot);
	struct rpc_unkept *unkept = &store->unkept[slot];
	struct rpc_ring ring = rpc_store_ring(store, slot);
	const struct rpc_reply head = {.sequence = state->executed + 1,
				       .life = state->life,
				       .status = status,
				       .len = (uint32_t) reply_len};
	uint64_t position = state->position + rpc_footprint(&ring, len - RPC_BODY_HEAD);

	/* Then the client has half of its ring for calls that it commits. */
	if (unkept->off || position - unkept->position > ring.size / 2 ||
	    !rpc_unkept_add(unkept, &head, reply, store->sizes.reply_max))
		return false;
	/* Nobody else looks at these two. */
	state->executed++;
	state->position = position;
	return true;
}
