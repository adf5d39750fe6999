/* SPDX-License-Identifier: BSD-2-Clause */
/* ready.c -- entries that wait until the application reads them; queue.h has the rules */
#include "progress/ready.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "progress/op.h"

/*
 * Entries that wait beyond those that the application has asked for: so many until it is warned,
 * and until more are dropped.  One takes 64 bytes, or 144 if it is an error.
 */
#define WARN_BEYOND 1024
#define MOST_BEYOND ((size_t) 1 << 20)

void pmv_queue_wake(struct pmv_queue *queue)
{
	const uint64_t one = 1;

	/* Fails only when the descriptor is ready already. */
	if (queue->wake_fd >= 0 && write(queue->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void pmv_queue_raise(struct pmv_queue *queue)
{
	unsigned arms = atomic_load(&queue->arms);

	if (!atomic_load(&queue->reading) && atomic_load(&queue->raised_arms) != arms &&
	    atomic_exchange(&queue->raised_arms, arms) != arms)
		pmv_queue_wake(queue);
}

/* Memory of entries */

struct pmv_comp *pmv_comp_success(const struct pmv_queue *queue, const void *entry)
{
	struct pmv_comp *comp = calloc(1, offsetof(struct pmv_comp, ok) + queue->entry_size);

	/* All formats are prefixes of the tagged one. */
	if (comp && entry)
		memcpy(&comp->ok, entry, queue->entry_size);
	return comp;
}

struct pmv_comp *pmv_comp_error(void *context, uint64_t flags, int err)
{
	struct pmv_comp *comp = calloc(1, sizeof(*comp));

	if (!comp)
		return NULL;
	comp->is_error = true;
	comp->err = (struct fi_cq_err_entry){.op_context = context, .flags = flags, .err = err};
	return comp;
}

void pmv_ready_free_other(struct pmv_queue *queue, struct pmv_comp *comp)
{
	if (comp != &queue->overrun) {
		free(comp);
		return;
	}
	pthread_mutex_lock(&queue->ready_lock);
	queue->overruns = false;
	pthread_mutex_unlock(&queue->ready_lock);
}

void pmv_queue_free(struct pmv_queue *queue, struct pmv_comp *comp)
{
	pmv_unread_drop(comp);
	pmv_ready_free(queue, comp);
}

/* The list */

void pmv_ready_open(struct pmv_queue *queue)
{
	STAILQ_INIT(&queue->ready);
	pthread_mutex_init(&queue->ready_lock, NULL);
	if (!queue->most)
		queue->most = queue->size + MOST_BEYOND;
	queue->overrun.is_error = true;
	queue->overrun.err.err = FI_EOVERRUN;
}

void pmv_ready_close(struct pmv_queue *queue)
{
	struct pmv_comp *comp;

	while ((comp = STAILQ_FIRST(&queue->ready))) {
		STAILQ_REMOVE_HEAD(&queue->ready, next);
		pmv_queue_free(queue, comp);
	}
	pthread_mutex_destroy(&queue->ready_lock);
}

/* The context of the core's queue is the address of ours, which the application knows. */

__attribute__((noinline)) static void warn_unread(const struct pmv_queue *queue)
{
	PMV_WARN(CQ,
		 "%zu entries of the completion queue %p wait to be read, which was opened for "
		 "%zu: they take memory, and beyond %zu they are dropped\n",
		 atomic_load(&queue->num_ready), queue->core_fid->fid.context, queue->size,
		 queue->most);
}

__attribute__((noinline)) static void warn_overrun(const struct pmv_queue *queue)
{
	PMV_WARN(CQ,
		 "the completion queue %p has overrun, since it is not read: entries are "
		 "dropped\n",
		 queue->core_fid->fid.context);
}

static void insert(struct pmv_queue *queue, struct pmv_comp *comp)
{
	STAILQ_INSERT_TAIL(&queue->ready, comp, next);
	atomic_fetch_add(&queue->num_ready, 1);
}

/*
 * has_place -- or does another entry make the list too long?  What the application has posted is
 * told in any case: a peer that sends immediate data without end must not cost it that.  But
 * receives that ended with their connection come with each new peer, for ever; a layer above counts
 * on those, too.
 */
static bool has_place(const struct pmv_queue *queue, const struct pmv_comp *comp)
{
	if (comp->embedded || atomic_load(&queue->num_ready) < queue->most)
		return true;
	if (!comp->is_error)
		return comp->ok.op_context != NULL;
	return comp->err.op_context &&
	       (queue->contexts || comp->err.err != FI_ECANCELED || !(comp->err.flags & FI_RECV));
}

/* overrun -- an entry is dropped: true for the first one */
static bool overrun(struct pmv_queue *queue)
{
	bool first = !queue->has_overrun;

	/* A layer above would take this for the error of an operation. */
	if (!queue->overruns && !queue->contexts) {
		queue->overruns = true;
		insert(queue, &queue->overrun);
	}
	queue->has_overrun = true;
	return first;
}

bool pmv_ready_add(struct pmv_queue *queue, struct pmv_comp *comp)
{
	bool first_over = false, first_unread, kept;

	if (queue->discards) {
		pmv_queue_free(queue, comp);
		return true;
	}
	pthread_mutex_lock(&queue->ready_lock);
	kept = has_place(queue, comp);
	if (kept)
		insert(queue, comp);
	else
		first_over = overrun(queue);
	first_unread = !queue->warned && atomic_load(&queue->num_ready) > queue->size + WARN_BEYOND;
	queue->warned |= first_unread;
	pthread_mutex_unlock(&queue->ready_lock);
	if (first_unread)
		warn_unread(queue);
	if (first_over)
		warn_overrun(queue);
	if (!kept)
		pmv_queue_free(queue, comp);
	return kept;
}

bool pmv_queue_add(struct pmv_queue *queue, struct pmv_comp *comp)
{
	bool kept = pmv_ready_add(queue, comp);

	pmv_queue_raise(queue);
	return kept;
}

struct pmv_comp *pmv_queue_take(struct pmv_queue *queue, bool error)
{
	return pmv_ready_take(queue, error);
}

/* Entries of a connection */

static bool is_below(const struct pmv_queue *queue, const struct pmv_unread *unread, size_t others)
{
	return !unread || pmv_unread_count(unread) + others < queue->size;
}

bool pmv_queue_has_room(struct pmv_queue *queue, const struct pmv_unread *unread, size_t others)
{
	if (is_below(queue, unread, others))
		return true;
	atomic_store(&queue->room_wanted, true);
	return is_below(queue, unread, others);
}

bool pmv_queue_add_for(struct pmv_queue *queue, struct pmv_unread *unread, struct pmv_comp *comp)
{
	pmv_unread_add(unread, comp);
	return pmv_queue_add(queue, comp);
}
