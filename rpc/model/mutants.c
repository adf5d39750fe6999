/* SPDX-License-Identifier: BSD-2-Clause */
/* mutants.c -- what a wrong client or server would do: these stand in for functions of the library
 */
#include <string.h>

#include "stage.h"

enum mutant mutant;

uint64_t __real_rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len);
uint64_t __wrap_rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len);
uint64_t __real_rpc_journal_checksum(uint64_t secret, const void *changes, size_t len);
uint64_t __wrap_rpc_journal_checksum(uint64_t secret, const void *changes, size_t len);
unsigned int __real_rpc_ring_plan(size_t ring_size, uint64_t position, size_t argument_len,
				  struct rpc_piece pieces[RPC_MAX_PIECES]);
unsigned int __wrap_rpc_ring_plan(size_t ring_size, uint64_t position, size_t argument_len,
				  struct rpc_piece pieces[RPC_MAX_PIECES]);
void __real_rpc_ring_seal(const struct rpc_ring *ring, struct rpc_place place, size_t argument_len);
void __wrap_rpc_ring_seal(const struct rpc_ring *ring, struct rpc_place place, size_t argument_len);
int __real_rpc_client_resume(struct pmemrpc_client *client, uint64_t executed, uint64_t position,
			     uint64_t *from);
int __wrap_rpc_client_resume(struct pmemrpc_client *client, uint64_t executed, uint64_t position,
			     uint64_t *from);
void __real_rpc_work_execute(struct rpc_work *work);
void __wrap_rpc_work_execute(struct rpc_work *work);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
void __real_rpc_ring_write(const struct rpc_ring *ring, struct rpc_place place, uint32_t op,
			   uint32_t waiting, const void *argument, size_t argument_len);
void __wrap_rpc_ring_write(const struct rpc_ring *ring, struct rpc_place place, uint32_t op,
			   uint32_t waiting, const void *argument, size_t argument_len);
int __real_rpc_commit_wait(struct rpc_commits *commits, uint64_t ticket);
int __wrap_rpc_commit_wait(struct rpc_commits *commits, uint64_t ticket);
int __real_rpc_store_resume(struct rpc_store *store, unsigned int slot, uint64_t executed,
			    uint64_t position, uint64_t durable);
int __wrap_rpc_store_resume(struct rpc_store *store, unsigned int slot, uint64_t executed,
			    uint64_t position, uint64_t durable);
int __real_rpc_store_executed(struct rpc_store *store, struct rpc_transaction *transaction,
			      unsigned int slot, size_t len, int status, const void *reply,
			      size_t reply_len);
int __wrap_rpc_store_executed(struct rpc_store *store, struct rpc_transaction *transaction,
			      unsigned int slot, size_t len, int status, const void *reply,
			      size_t reply_len);

uint64_t __wrap_rpc_checksum(uint64_t key, struct rpc_place place, const void *body, size_t len)
{
	static const unsigned char nothing[1024];

	if (mutant == NO_SEQUENCE)
		place = (struct rpc_place){0};
	return __real_rpc_checksum(key, place, mutant == NO_BODY ? nothing : body, len);
}

uint64_t __wrap_rpc_journal_checksum(uint64_t secret, const void *changes, size_t len)
{
	return mutant == JOURNAL_TORN ? 1 : __real_rpc_journal_checksum(secret, changes, len);
}

unsigned int __wrap_rpc_ring_plan(size_t ring_size, uint64_t position, size_t argument_len,
				  struct rpc_piece pieces[RPC_MAX_PIECES])
{
	unsigned int count = __real_rpc_ring_plan(ring_size, position, argument_len, pieces);
	struct rpc_piece word = pieces[count - 1];

	if (mutant == WORD_FIRST) {
		memmove(&pieces[1], &pieces[0], (count - 1) * sizeof(pieces[0]));
		pieces[0] = word;
	}
	return count;
}

void __wrap_rpc_ring_seal(const struct rpc_ring *ring, struct rpc_place place, size_t argument_len)
{
	if (mutant != OLD_KEY)
		__real_rpc_ring_seal(ring, place, argument_len);
}

void __wrap_rpc_ring_write(const struct rpc_ring *ring, struct rpc_place place, uint32_t op,
			   uint32_t waiting, const void *argument, size_t argument_len)
{
	__real_rpc_ring_write(ring, place, op, mutant == HAS_ALL ? 0 : waiting, argument,
			      argument_len);
}

int __wrap_rpc_commit_wait(struct rpc_commits *commits, uint64_t ticket)
{
	return mutant == NO_WAIT && commits->flushing ? 0 : __real_rpc_commit_wait(commits, ticket);
}

int __wrap_rpc_store_resume(struct rpc_store *store, unsigned int slot, uint64_t executed,
			    uint64_t position, uint64_t durable)
{
	return mutant == NOT_RESUMED
		       ? 0
		       : __real_rpc_store_resume(store, slot, executed, position, durable);
}

int __wrap_rpc_client_resume(struct pmemrpc_client *client, uint64_t executed, uint64_t position,
			     uint64_t *from)
{
	int ret = __real_rpc_client_resume(client, executed, position, from);

	if (mutant == FEW_REPLIES)
		*from = executed + 1;
	if (mutant != SENT_AGAIN)
		return ret;
	client->pushed = client->executed;
	for (uint64_t i = client->executed + 1; i <= executed; i++) {
		struct rpc_posted *posted = &client->calls[i % client->window];

		posted->pieces = 0;
		rpc_ring_seal(&client->ring, posted->place, posted->argument_len);
	}
	return ret;
}

/* store_effect -- without a transaction */
static void store_effect(struct rpc_store *store, unsigned int client, uint64_t sequence)
{
	struct ledger *place = stage_ledger(store, client);
	const struct ledger ledger = {place->count + 1, place->order * 31 + sequence};

	store->memory->write(store->memory, place, &ledger, sizeof(ledger));
	store->memory->persist(store->memory, place, sizeof(ledger));
}

int __wrap_rpc_store_executed(struct rpc_store *store, struct rpc_transaction *transaction,
			      unsigned int slot, size_t len, int status, const void *reply,
			      size_t reply_len)
{
	uint64_t sequence = rpc_store_slot(store, slot)->executed + 1;
	int ret;

	if (mutant == WATERMARK_FIRST || mutant == EFFECT_FIRST)
		rpc_transaction_drop(transaction);
	if (mutant == OTHER_WATERMARK)
		slot = 1 - slot;
	if (mutant == EFFECT_FIRST)
		store_effect(store, slot, sequence);
	ret = __real_rpc_store_executed(store, transaction, slot, len, status, reply, reply_len);
	if (mutant == WATERMARK_FIRST)
		store_effect(store, slot, sequence);
	return ret;
}

void __wrap_rpc_work_execute(struct rpc_work *work)
{
	__real_rpc_work_execute(work);
	if (mutant == WORK_SHARED)
		work->busy = false;
}

/* Threads of the model take turns: who waits for a lock lets the others go on. */

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	if (!world_current || !world_current->running)
		return __real_pthread_mutex_lock(lock);
	if (mutant == NO_LOCK && stage_is_commit(lock))
		return 0;
	while (pthread_mutex_trylock(lock))
		world_pause("waits for a lock");
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	if (mutant == NO_LOCK && world_current && world_current->running && stage_is_commit(lock))
		return 0;
	return __real_pthread_mutex_unlock(lock);
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	if (!world_current || !world_current->running)
		return __real_pthread_cond_wait(cond, lock);
	__wrap_pthread_mutex_unlock(lock);
	world_pause("waits for a flush");
	return __wrap_pthread_mutex_lock(lock);
}
