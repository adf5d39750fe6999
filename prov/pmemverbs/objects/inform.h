/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inform.h -- answers to those who only ask (agent/inquiry.h)
 *
 * The application does not hear of a question: its connection request is rejected with the
 * answer, before it becomes an event.  That happens when the application reads the event queue of
 * its passive endpoint, as with every connection request.
 */
#ifndef PMV_INFORM_H
#define PMV_INFORM_H

#include <stdbool.h>

struct pmv_event;

/* pmv_inform -- was the event of a core a question?  Then it was answered, and is gone. */
bool pmv_inform(struct pmv_event *event);

#endif /* PMV_INFORM_H */
