/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.c -- slots of work requests; queue.h says who holds which lock */
#include "queue.h"

#include <stdlib.h>

struct pmr_queue *pmr_queue_open(unsigned size, bool shared)
{
	struct pmr_queue *queue = calloc(1, sizeof(*queue) + size * sizeof(queue->slots[0]));

	if (!queue)
		return NULL;
	atomic_init(&queue->refs, 1);
	queue->size = size;
	queue->shared = shared;
	pthread_mutex_init(&queue->lock, NULL);
	for (unsigned i = size; i-- > 0;) {
		queue->slots[i].queue = queue;
		queue->slots[i].next_free = queue->free;
		queue->free = &queue->slots[i];
	}
	return queue;
}

void pmr_queue_put(struct pmr_queue *queue)
{
	if (atomic_fetch_sub(&queue->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

struct pmr_slot *pmr_queue_take_shared(struct pmr_queue *queue)
{
	struct pmr_slot *slot;

	pthread_mutex_lock(&queue->lock);
	slot = queue->free;
	if (slot)
		queue->free = slot->next_free;
	pthread_mutex_unlock(&queue->lock);
	return slot;
}

void pmr_queue_return_shared(struct pmr_slot *slot)
{
	struct pmr_queue *queue = slot->queue;

	pthread_mutex_lock(&queue->lock);
	slot->next_free = queue->free;
	queue->free = slot;
	pthread_mutex_unlock(&queue->lock);
}

unsigned pmr_queue_reap(struct pmr_slot *slot)
{
	struct pmr_queue *queue = slot->queue;
	unsigned count;

	if (queue->shared)
		return 0;
	slot->ended = true;
	if (slot->kept) {
		atomic_fetch_sub(&queue->kept, slot->kept);
		atomic_fetch_sub(&queue->flushes, slot->flushes);
	}
	count = (unsigned) (slot->seq + 1 - queue->reaped);
	queue->reaped = slot->seq + 1;
	return count;
}

void pmr_queue_hold(struct pmr_slot *slot)
{
	atomic_fetch_add(&slot->queue->refs, 1);
}

/*
 * give_back -- up to this one.  If no completion of the queue waits to be read, all that the
 * device is through with: those behind the one that was read may be unsignalled.
 */
static void give_back(struct pmr_slot *slot, bool none_waits)
{
	struct pmr_queue *queue = slot->queue;
	uint64_t done = none_waits ? queue->reaped : slot->seq + 1;

	atomic_store_explicit(&queue->done, done, memory_order_release);
}

void pmr_queue_release(struct pmr_slot *slot)
{
	struct pmr_queue *queue = slot->queue;

	if (queue->shared)
		pmr_queue_return_shared(slot);
	else
		/* The owner's, and this one's. */
		give_back(slot, atomic_load(&queue->refs) == 2);
	pmr_queue_put(queue);
}

void pmr_queue_forget(struct pmr_slot *slot)
{
	struct pmr_queue *queue = slot->queue;

	if (queue->shared)
		pmr_queue_return_shared(slot);
	else if (atomic_load(&queue->refs) == 1)
		give_back(slot, true);
}
