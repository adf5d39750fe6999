/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ready.h -- the ready list, for queue.c alone; ready.c also has what queue.h says of single
 * entries
 */
#ifndef PMV_READY_H
#define PMV_READY_H

#include "progress/queue.h"

/* pmv_ready_open -- the caller has set `size`; and perhaps `most` */
void pmv_ready_open(struct pmv_queue *queue);
void pmv_ready_close(struct pmv_queue *queue);

/* pmv_ready_add -- pmv_queue_add that wakes nobody */
bool pmv_ready_add(struct pmv_queue *queue, struct pmv_comp *comp);

/* pmv_ready_take, pmv_ready_free -- pmv_queue_take, pmv_queue_free */
static inline struct pmv_comp *pmv_ready_take(struct pmv_queue *queue, bool error)
{
	struct pmv_comp *comp;

	if (!atomic_load(&queue->num_ready))
		return NULL;
	pthread_mutex_lock(&queue->ready_lock);
	comp = STAILQ_FIRST(&queue->ready);
	if (comp && comp->is_error == error) {
		STAILQ_REMOVE_HEAD(&queue->ready, next);
		atomic_fetch_sub(&queue->num_ready, 1);
	} else {
		comp = NULL;
	}
	pthread_mutex_unlock(&queue->ready_lock);
	if (!comp)
		return NULL;
	pmv_unread_drop(comp);
	if (atomic_load(&queue->room_wanted) && atomic_exchange(&queue->room_wanted, false))
		queue->has_room(queue->has_room_arg);
	return comp;
}

void pmv_ready_free_other(struct pmv_queue *queue, struct pmv_comp *comp);

static inline void pmv_ready_free(struct pmv_queue *queue, struct pmv_comp *comp)
{
	if (comp->embedded)
		pmv_op_put(queue->pool, (struct pmv_op *) comp);
	else
		pmv_ready_free_other(queue, comp);
}

#endif /* PMV_READY_H */
