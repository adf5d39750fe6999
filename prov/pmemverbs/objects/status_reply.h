/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * status_reply.h -- answers to those who only ask (agent/status_query.h)
 *
 * The application does not hear of a question: its connection request is rejected with the
 * answer, before it becomes an event.  That happens when the application reads the event queue of
 * its passive endpoint, as with every connection request.
 */
#ifndef PMV_STATUS_REPLY_H
#define PMV_STATUS_REPLY_H

#include <stdbool.h>

struct pmv_event;

/* pmv_status_reply -- was the event of a core a question?  Then it was answered, and is gone. */
bool pmv_status_reply(struct pmv_event *event);

#endif /* PMV_STATUS_REPLY_H */
