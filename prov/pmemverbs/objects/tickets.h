/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tickets.h -- FI_PMEMVERBS_KEYS over cores whose CM data have no room for a proof (verbs, native)
 *
 * fi_listen listens with TCP, too, at the same port.  fi_connect gets a ticket there, without
 * waiting for it.  When it is there, or when there will be none, the core's event queue is woken by
 * an event of ours.  Whoever reads the queue then, under its lock, has the core connect with the
 * ticket, or reads an error as of a peer that has refused (admit.h).
 */
#ifndef PMV_TICKETS_H
#define PMV_TICKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "objects/ep.h"

/* pmv_tickets_are_used -- with this core, and the setting? */
bool pmv_tickets_are_used(const struct pmv_core *core);

/* The target: info is the core's.  If it names no port, one is chosen that TCP has, too. */
int pmv_tickets_open(struct pmv_pep *pep, struct fi_info *info);
int pmv_tickets_listen(struct pmv_pep *pep);
void pmv_tickets_close(struct pmv_pep *pep);

/* The initiator: get a ticket for these CM data. */
int pmv_tickets_connect(struct pmv_ep *ep, const void *addr, const uint8_t *data, size_t len);

/* With the queue's lock, if there is one. */

/* pmv_tickets_go_on -- with those that are there */
void pmv_tickets_go_on(struct pmv_eq *eq);
/* pmv_tickets_cancel -- false: the endpoint gets none */
bool pmv_tickets_cancel(struct pmv_ep *ep);

#endif /* PMV_TICKETS_H */
