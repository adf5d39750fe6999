/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queues.h -- the completion queues that the agent reads beside the application
 *
 * A round calls the cores for some queues: for all, where the core moves data in calls only, and
 * else for those where the agent waits for an entry of its own.  Meanwhile such a queue is pinned,
 * so it is not closed, and is used without the agent's lock.
 *
 * An application may sleep on a queue's descriptor.  Each acknowledgement that the agent posts has
 * an entry in that queue, and its event would wake the application, which has nothing to read.  So
 * while the thread is awake it attends to the queues whose applications sleep: it takes the core's
 * descriptor out of the application's, reads the queue in every round, and wakes the application if
 * there is something for it.  Before the thread sleeps, or is busy for long, it hands the queues
 * over: the core's descriptor wakes the application again.
 *
 * Why no wake-up is lost.  Whatever comes while a queue is attended is read by the thread's next
 * round, which raises the queue's own descriptor; or by the thread that reads the queue.  When
 * the queue is handed over, first `attended` is reset, then the core's descriptor is listened to,
 * then the core is asked whether it may be slept on: it arms its event, or says that something has
 * come, and then the application is woken.  An application that is about to sleep asks the core
 * itself, unless it sees `attended`.  If it does, `attended` is reset later, and what comes before
 * the reset is found by the thread.
 *
 * Only the thread attends and hands over.  It holds `serving`, as a call of the application may
 * serve at the same time.
 */
#ifndef PMV_QUEUES_H
#define PMV_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

struct pmv_agent;
struct pmv_receiver;

/*
 * pmv_queues_pin -- list all queues, or only those that are attended and those where the agent
 * waits for the core; until they are unpinned they are not closed, and may be used without the lock
 * pmv_queues_pin_both -- those of one endpoint, too
 * Both hold the lock.
 */
void pmv_queues_pin(struct pmv_agent *agent, bool all);
void pmv_queues_pin_both(struct pmv_agent *agent, const struct pmv_receiver *receiver);
void pmv_queues_unpin(struct pmv_agent *agent);

/*
 * pmv_queues_call -- the cores of the pinned queues, and unpin them: some move data only in calls,
 * and completions have to be reaped
 */
void pmv_queues_call(struct pmv_agent *agent);

/* pmv_queues_attend -- the thread stays awake: read the queues of those that sleep */
void pmv_queues_attend(struct pmv_agent *agent, int64_t now);

/*
 * pmv_queues_hand_over -- the thread reads no more: the cores wake the applications.  False: one
 * can't be handed over, so the thread must not sleep.
 */
bool pmv_queues_hand_over(struct pmv_agent *agent);

#endif /* PMV_QUEUES_H */
