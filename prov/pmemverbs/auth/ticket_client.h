/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ticket_client.h -- how an initiator gets a ticket (ticket.h): at the target's TCP port
 *
 * The poller's thread does it, so nobody waits.  It has PMV_TICKET_CLIENT_SECONDS.
 */
#ifndef PMV_TICKET_CLIENT_H
#define PMV_TICKET_CLIENT_H

#include "auth/admission.h"

#define PMV_TICKET_CLIENT_SECONDS 10

struct pmv_ticket_client;

/*
 * pmv_ticket_client_begin -- for these CM data, from that address (NULL: any).  NULL: nobody is
 * known there, and why.  over(arg) is called when it has ended, by the poller's thread with its
 * lock, but never after pmv_ticket_client_end.
 */
struct pmv_ticket_client *pmv_ticket_client_begin(const struct sockaddr *from,
						  const struct sockaddr *to, const uint8_t *data,
						  size_t len, void (*over)(void *arg), void *arg,
						  char why[PMV_KEYS_WHY]);
bool pmv_ticket_client_is_over(struct pmv_ticket_client *client);

/*
 * pmv_ticket_client_end -- at any time; it is gone.  0: the caller has *admission, with a ticket;
 * else a positive errno, and why.
 */
int pmv_ticket_client_end(struct pmv_ticket_client *client, struct pmv_admission **admission,
			  char why[PMV_KEYS_WHY]);

#endif /* PMV_TICKET_CLIENT_H */
