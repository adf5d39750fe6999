/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_commit.c -- threads that commit share a flush, and nobody who is alone waits */
#include <sched.h>
#include <stdatomic.h>

#include <criterion/criterion.h>

#include "log_world.h"

#define SECRET 77
#define CLIENTS 6U
#define LEN (20U * RPC_PAGE)

static struct {
	struct rpc_memory memory; /* first */
	_Alignas(64) unsigned char seen[LEN], durable[LEN];
	struct rpc_store store;
	unsigned int flushes;
	uint64_t others; /* the first flush takes until so many have appended */
	int error;
	atomic_int inside; /* who waits for the medium ... */
	int most_inside;   /* ... at the same time */
} fixture;

struct caller {
	pthread_t thread;
	unsigned int slot;
	int ret;
};

static void write_memory(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	(void) memory;
	memcpy(place, data, len);
}

/* count_persist -- the first flush takes long */
static int count_persist(struct rpc_memory *memory, const void *place, size_t len)
{
	struct rpc_commits *commits = &fixture.store.commits;
	size_t offset = (size_t) ((const unsigned char *) place - memory->base);
	uint64_t appended = 0;

	atomic_fetch_add(&fixture.inside, 1);
	fixture.flushes++;
	while (fixture.flushes == 1 && fixture.others && appended < fixture.others) {
		sched_yield();
		pthread_mutex_lock(commits->lock);
		appended = commits->appended;
		pthread_mutex_unlock(commits->lock);
	}
	for (int i = 0; i < 100; i++) {
		sched_yield();
		if (atomic_load(&fixture.inside) > fixture.most_inside)
			fixture.most_inside = fixture.inside;
	}
	if (!fixture.error)
		memcpy(fixture.durable + offset, place, len);
	atomic_fetch_sub(&fixture.inside, 1);
	return fixture.error;
}

static void open_store(bool is_new)
{
	const struct rpc_sizes sizes = {.clients = CLIENTS,
					.ring = 64,
					.window = 1,
					.reply_max = 8,
					.effects_max = 32,
					.memory = CLIENTS * 8};
	uint8_t id[RPC_ID] = {0};

	fixture.memory = (struct rpc_memory){
		.base = fixture.seen, .len = LEN, .write = write_memory, .persist = count_persist};
	fixture.error = 0;
	fixture.others = 0;
	if (is_new)
		cr_assert_eq(rpc_store_format(&fixture.memory, &sizes, SECRET), 0);
	cr_assert_eq(rpc_store_open(&fixture.store, &fixture.memory, &any), 0);
	for (unsigned int i = 0; is_new && i < CLIENTS; i++) {
		id[0] = (uint8_t) (i + 1);
		cr_assert_eq(rpc_store_claim(&fixture.store, id, true, NULL), (int) i);
	}
	fixture.others = fixture.store.commits.appended;
}

/* place_of -- what a client's calls change */
static uint64_t *place_of(unsigned int slot)
{
	return (uint64_t *) (fixture.store.memory->base + fixture.store.app) + slot;
}

static void *call(void *arg)
{
	struct caller *caller = arg;
	struct rpc_store *store = &fixture.store;
	uint64_t value = *place_of(caller->slot) + caller->slot + 1;
	struct rpc_transaction transaction;

	if (rpc_transaction_open(&transaction, store))
		return NULL;
	rpc_store_change(store, &transaction, place_of(caller->slot), &value, sizeof(value));
	caller->ret = rpc_store_executed(store, &transaction, caller->slot, 16, 0, "reply", 5);
	rpc_transaction_close(&transaction);
	return NULL;
}

/* call_all -- each client a call, at the same time; returns how often it was flushed */
static unsigned int call_all(unsigned int clients, int ret)
{
	struct caller callers[CLIENTS];

	fixture.flushes = 0;
	fixture.others += clients;
	for (unsigned int i = 0; i < clients; i++) {
		callers[i] = (struct caller){.slot = i, .ret = 1};
		cr_assert_eq(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
	}
	for (unsigned int i = 0; i < clients; i++) {
		cr_assert_eq(pthread_join(callers[i].thread, NULL), 0);
		cr_assert_eq(callers[i].ret, ret);
	}
	return fixture.flushes;
}

/* restart -- after a power failure that has kept nothing that was not durable */
static void restart(void)
{
	rpc_store_close(&fixture.store);
	memcpy(fixture.seen, fixture.durable, LEN);
	open_store(false);
}

Test(rpc_commit, calls_of_many_clients_share_a_flush)
{
	open_store(true);
	/* The first one flushes its own, and then one of the others all that has gathered. */
	cr_assert_eq(call_all(CLIENTS, 0), 2);
	restart();
	for (unsigned int i = 0; i < CLIENTS; i++) {
		cr_assert_eq(rpc_store_slot(&fixture.store, i)->executed, 1);
		cr_assert_eq(*place_of(i), i + 1);
		cr_assert_not_null(rpc_store_reply(&fixture.store, i, 1));
	}
	rpc_store_close(&fixture.store);
}

Test(rpc_commit, who_is_alone_flushes_at_once)
{
	open_store(true);
	cr_assert_eq(call_all(1, 0), 1);
	cr_assert_eq(call_all(1, 0), 1);
	rpc_store_close(&fixture.store);
}

/* A journal that is full is settled when all have flushed: no record ends that is not durable. */
Test(rpc_commit, a_journal_that_is_full_waits_for_who_flushes)
{
	open_store(true);
	fixture.store.commits.journal.room = 500;
	for (unsigned int i = 1; i <= 3; i++) {
		/* Not all have room, so nobody waits until they do. */
		fixture.others = 0;
		call_all(CLIENTS, 0);
		for (unsigned int slot = 0; slot < CLIENTS; slot++)
			cr_assert_eq(*place_of(slot), i * (slot + 1));
	}
	restart();
	for (unsigned int slot = 0; slot < CLIENTS; slot++)
		cr_assert_eq(*place_of(slot), 3 * (slot + 1));
	rpc_store_close(&fixture.store);
}

Test(rpc_commit, a_flush_that_fails_fails_for_all)
{
	open_store(true);
	fixture.error = -5;
	cr_assert_eq(call_all(CLIENTS, -5), 1);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		cr_assert_eq(rpc_store_slot(&fixture.store, i)->executed, 0);
		cr_assert_eq(*place_of(i), 0);
	}
	rpc_store_close(&fixture.store);
}

static void *persist_often(void *arg)
{
	(void) arg;
	for (int i = 0; i < 100; i++)
		cr_assert_eq(rpc_store_persist(&fixture.store, place_of(CLIENTS - 1), 8), 0);
	return NULL;
}

/* Of an error the medium tells once: whoever hears of it knows which flushes it concerns. */
Test(rpc_commit, nobody_persists_beside_a_flush)
{
	pthread_t thread;

	open_store(true);
	fixture.others = 0;
	cr_assert_eq(pthread_create(&thread, NULL, persist_often, NULL), 0);
	for (int i = 0; i < 50; i++) {
		fixture.others = 0;
		for (unsigned int slot = 0; slot < 2; slot++)
			call(&(struct caller){.slot = slot});
	}
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(fixture.most_inside, 1);
	rpc_store_close(&fixture.store);
}
