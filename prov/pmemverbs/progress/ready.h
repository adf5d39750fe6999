/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ready.h -- the ready list, for queue.c alone; ready.c also has what queue.h says of single
 * entries
 */
#ifndef PMV_READY_H
#define PMV_READY_H

#include <stdbool.h>

struct pmv_comp;
struct pmv_queue;

/* pmv_ready_open -- the caller has set `size`; and perhaps `most` */
void pmv_ready_open(struct pmv_queue *queue);
void pmv_ready_close(struct pmv_queue *queue);

/* pmv_ready_add -- pmv_queue_add that wakes nobody */
bool pmv_ready_add(struct pmv_queue *queue, struct pmv_comp *comp);

#endif /* PMV_READY_H */
