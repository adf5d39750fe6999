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

_Static_assert(sizeof(struct rpc_slot) <= RPC_ALIGN, "replies follow");

/* The journal has room for so many of the longest transactions, and for more that are shorter. */
#define TRANSACTIONS 8U

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t reply_stride(const struct rpc_sizes *sizes)
{
	return round_up(sizeof(struct rpc_reply) + sizes->reply_max, RPC_ALIGN);
}

/* call_len -- of the longest transaction of one call */
static uint64_t call_len(const struct rpc_sizes *sizes)
{
	return RPC_RECORD_HEAD + rpc_change_len(sizeof(struct rpc_slot)) +
	       rpc_change_len(sizeof(struct rpc_reply) + sizes->reply_max) +
	       round_up(sizes->effects_max, 8);
}

/* others_len -- of the replies to earlier calls in it, each of which is a change */
static uint64_t others_len(const struct rpc_sizes *sizes)
{
	uint64_t room = RPC_UNKEPT * rpc_unkept_len(sizes->reply_max);

	return room + room / sizeof(struct rpc_reply) * RPC_CHANGE_HEAD;
}

static uint64_t transaction_len(const struct rpc_sizes *sizes)
{
	return call_len(sizes) + others_len(sizes);
}

static uint64_t journal_len(const struct rpc_sizes *sizes)
{
	return round_up(RPC_JOURNAL_HEAD + TRANSACTIONS * call_len(sizes) + others_len(sizes),
			RPC_PAGE);
}

static uint64_t slot_len(const struct rpc_sizes *sizes)
{
	return round_up(RPC_ALIGN + sizes->window * reply_stride(sizes), RPC_PAGE);
}

static bool in_range(const struct rpc_sizes *sizes)
{
	return sizes->clients && sizes->clients <= 4096 && sizes->ring &&
	       sizes->ring % RPC_ALIGN == 0 && sizes->ring <= PMEMRPC_MAX_RING && sizes->window &&
	       sizes->window <= PMEMRPC_MAX_WINDOW && sizes->reply_max <= PMEMRPC_MAX_REPLY &&
	       sizes->effects_max <= UINT32_MAX && sizes->memory <= UINT64_C(1) << 56;
}

static void lay_out(struct rpc_store *store, const struct rpc_sizes *sizes)
{
	store->sizes = *sizes;
	store->journal = RPC_PAGE;
	store->slots = store->journal + journal_len(sizes);
	store->slot_len = slot_len(sizes);
	store->rings = store->slots + sizes->clients * store->slot_len;
	store->handshakes = store->rings + sizes->clients * round_up(sizes->ring, RPC_PAGE);
	store->app = store->handshakes +
		     round_up(rpc_store_connections(sizes) * RPC_HANDSHAKE, RPC_PAGE);
}

unsigned int rpc_store_connections(const struct rpc_sizes *sizes)
{
	return (unsigned int) sizes->clients + RPC_MORE_SESSIONS;
}

uint64_t rpc_store_len(const struct rpc_sizes *sizes)
{
	struct rpc_store store;

	if (!in_range(sizes))
		return 0;
	lay_out(&store, sizes);
	return store.app + round_up(sizes->memory, RPC_PAGE);
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

/* keep -- remember an error: from now on nobody knows what is durable */
static int keep(struct rpc_store *store, int ret)
{
	if (ret)
		store->failed = ret;
	return ret;
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
	ret = keep(store, rpc_journal_open(&store->records, store->memory, store->secret,
					   store->journal, journal_len(&store->sizes)));
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

	*store = (struct rpc_store){.memory = memory, .lock = PTHREAD_MUTEX_INITIALIZER};
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
	/* Who has made it may have been killed before its first word was durable. */
	ret = keep(store, memory->persist(memory, memory->base, RPC_PAGE));
	if (ret)
		return ret;
	store->secret = head->secret;
	ret = rpc_transaction_open(&store->own, store);
	return ret ? ret : open_states(store);
}

void rpc_store_close(struct rpc_store *store)
{
	rpc_transaction_close(&store->own);
	rpc_journal_close(&store->records);
	for (unsigned int i = 0; store->unkept && i < store->sizes.clients; i++)
		free(store->unkept[i].bytes);
	free(store->unkept);
	free(store->states);
	store->unkept = NULL;
	store->states = NULL;
}

int rpc_transaction_open(struct rpc_transaction *transaction, const struct rpc_store *store)
{
	transaction->bytes = malloc(transaction_len(&store->sizes));
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
		.base = store->memory->base + store->rings + slot * round_up(sizes->ring, RPC_PAGE),
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
	       sequence % store->sizes.window * reply_stride(&store->sizes);
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

/*
 * commit -- from now on the transaction counts, and then its contents come to their places; the
 * store is locked
 */
static int commit(struct rpc_store *store, struct rpc_transaction *transaction)
{
	int ret = store->failed;

	if (!ret)
		ret = keep(store, rpc_journal_append(&store->records, transaction));
	if (!ret)
		ret = keep(store, rpc_journal_sync(&store->records));
	if (!ret)
		rpc_journal_write(&store->records, transaction);
	rpc_transaction_drop(transaction);
	return ret;
}

/* clear -- the ring goes to somebody else, who could read what is in it */
static int clear(struct rpc_store *store, unsigned int slot)
{
	static const unsigned char zeros[RPC_ALIGN];
	struct rpc_memory *memory = store->memory;
	unsigned char *ring = rpc_store_ring(store, slot).base;

	for (size_t at = 0; at < store->sizes.ring; at += sizeof(zeros))
		memory->write(memory, ring + at, zeros, sizeof(zeros));
	return keep(store, memory->persist(memory, ring, store->sizes.ring));
}

/* add_state -- of a slot, to the transaction: nobody reads its place while there is a copy */
static void add_state(const struct rpc_store *store, struct rpc_transaction *transaction,
		      unsigned int slot, const struct rpc_slot *state)
{
	rpc_transaction_add(&store->records, transaction, slot_place(store, slot), state,
			    sizeof(*state), sizeof(*state), true);
}

/* add_unkept -- the replies to calls that the watermark passes: they may be asked for again */
static void add_unkept(const struct rpc_store *store, struct rpc_transaction *transaction,
		       unsigned int slot)
{
	const struct rpc_reply *reply = NULL;

	while ((reply = rpc_unkept_next(&store->unkept[slot], reply))) {
		size_t len = sizeof(*reply) + reply->len;

		rpc_transaction_add(&store->records, transaction,
				    reply_place(store, slot, reply->sequence), reply, len, len,
				    false);
	}
}

/* set -- a slot's state, which ends the transaction; the store is locked */
static int set(struct rpc_store *store, struct rpc_transaction *transaction, unsigned int slot,
	       const struct rpc_slot *state)
{
	struct rpc_unkept *unkept = &store->unkept[slot];
	int ret;

	add_state(store, transaction, slot, state);
	ret = commit(store, transaction);
	if (ret)
		return ret;
	store->states[slot] = *state;
	unkept->len = 0;
	unkept->executed = state->executed;
	unkept->position = state->position;
	return 0;
}

/* has_all -- has this peer all the rings that it may have?  The store is locked */
static bool has_all(const struct rpc_store *store, const struct rpc_peer *peer)
{
	unsigned int count = 0;

	for (unsigned int i = 0; peer && i < store->sizes.clients; i++)
		count += rpc_store_slot(store, i)->used == peer->address;
	return peer && peer->rings && count >= peer->rings;
}

int rpc_store_claim(struct rpc_store *store, const uint8_t id[RPC_ID], bool may_be_new,
		    const struct rpc_peer *peer)
{
	struct rpc_slot *place, state;
	int slot, ret = 0;

	pthread_mutex_lock(&store->lock);
	slot = find(store, id);
	place = slot < 0 ? NULL : rpc_store_slot(store, (unsigned int) slot);
	if (!may_be_new && (!place || !place->used)) {
		ret = -ENOENT;
	} else if ((!place || !place->used) && has_all(store, peer)) {
		ret = -EDQUOT;
	} else if (place && !place->used) {
		state = (struct rpc_slot){.used = peer ? peer->address : 1,
					  .life = place->life + 1};
		memcpy(state.id, id, RPC_ID);
		ret = clear(store, (unsigned int) slot);
		if (!ret)
			ret = set(store, &store->own, (unsigned int) slot, &state);
	}
	pthread_mutex_unlock(&store->lock);
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
		    size_t cell)
{
	struct rpc_slot state;
	int ret;

	pthread_mutex_lock(&store->lock);
	state = store->states[slot];
	state.process = process;
	state.key = key;
	state.cell = (uint32_t) cell;
	/* Nothing in the ring is valid with the new key, so calls may go on anywhere. */
	if (cell)
		state.position = round_up(state.position, cell);
	add_unkept(store, &store->own, slot);
	ret = set(store, &store->own, slot, &state);
	pthread_mutex_unlock(&store->lock);
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

	pthread_mutex_lock(&store->lock);
	ret = set(store, &store->own, slot, &state);
	pthread_mutex_unlock(&store->lock);
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
	ret = store->failed;
	/* After a crash its old contents would come back, and newer calls refer to these. */
	if (!ret && rpc_journal_names(&store->records, place, len))
		ret = keep(store, rpc_journal_settle(&store->records));
	pthread_mutex_unlock(&store->lock);
	/* It may be long, and others commit meanwhile. */
	if (!ret) {
		ret = store->memory->persist(store->memory, place, len);
		pthread_mutex_lock(&store->lock);
		keep(store, ret);
		pthread_mutex_unlock(&store->lock);
	}
	return ret;
}

int rpc_store_change(const struct rpc_store *store, struct rpc_transaction *transaction,
		     const void *place, const void *data, size_t len)
{
	if (!rpc_store_is_app(store, place, len))
		return -EINVAL;
	if (!transaction->full && len <= store->sizes.effects_max &&
	    rpc_change_len(len) <= store->sizes.effects_max - transaction->effects_len) {
		rpc_transaction_add(&store->records, transaction, place, data, len, len, false);
		transaction->effects_len += rpc_change_len(len);
		return 0;
	}
	transaction->full = -ENOSPC;
	return transaction->full;
}

int rpc_store_executed(struct rpc_store *store, struct rpc_transaction *transaction,
		       unsigned int slot, size_t len, int status, const void *reply,
		       size_t reply_len)
{
	struct rpc_slot state = *rpc_store_slot(store, slot);
	struct rpc_ring ring = rpc_store_ring(store, slot);
	/* The reply and its head are one change: they are neighbours. */
	struct rpc_reply head = {.sequence = ++state.executed,
				 .life = state.life,
				 .status = status,
				 .len = (uint32_t) reply_len};
	unsigned char *contents = rpc_transaction_add(
		&store->records, transaction, reply_place(store, slot, state.executed), &head,
		sizeof(head), sizeof(head) + reply_len, false);
	int ret;

	memcpy(contents + sizeof(head), reply, reply_len);
	state.position += rpc_footprint(&ring, len - RPC_BODY_HEAD);
	add_unkept(store, transaction, slot);
	pthread_mutex_lock(&store->lock);
	ret = set(store, transaction, slot, &state);
	pthread_mutex_unlock(&store->lock);
	return ret;
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
