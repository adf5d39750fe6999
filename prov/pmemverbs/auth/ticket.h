/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ticket.h -- who may connect, where CM data have no room for a proof: by a ticket, got before
 *
 * Both messages of Noise (admission.h) are exchanged over a TCP connection first
 * (ticket_server.h).
 * Split() of Noise gives the two ends a pair of keys that nobody else has.
 *
 *    request     the first key, the ticket, and nothing else: the CM data that it stands for have
 *                gone in front of message 1
 *    acceptance  CM data, and 5 bytes of HMAC-SHA256 of them with the second key
 *
 * So the CM data of a request, handshake included, are those that message 1 has proved.  A ticket
 * is taken once, for PMV_TICKET_SECONDS, by the passive endpoint that gave it, and from the address
 * that got it.  It has 256 bits, so nobody guesses one.  Who sees it on its way may use it before
 * its owner does, from that address.  A false target can try one proof for each connection, with 40
 * bits; whoever can do that is on the path, and could take over a connection that is made.
 */
#ifndef PMV_TICKET_H
#define PMV_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "auth/admission.h"

#define PMV_TICKET_SIZE PMV_NOISE_KEY
/*
 * verbs has room for 55 bytes, of which the handshake takes 26.  The layer that makes datagrams of
 * connections needs 24 of them.
 */
#define PMV_TICKET_PROOF 5
#define PMV_TICKET_SECONDS 120 /* as a proof in CM data: until the target reads its queue */
/* So many of one peer wait to be used.  He shuts nobody else out. */
#define PMV_TICKET_MOST 4096

/* pmv_ticket_make -- after both messages; they are of no more use */
void pmv_ticket_make(struct pmv_admission *admission);

/*
 * As pmv_admission_reply and pmv_admission_established do, with the ticket's proof: the target puts
 * it behind *len bytes, if the peer is still known, and the initiator looks for it and takes it
 * off.
 */
bool pmv_ticket_reply(struct pmv_admission *admission, uint8_t *data, size_t *len,
		      char why[PMV_KEYS_WHY]);
bool pmv_ticket_established(struct pmv_admission *admission, const uint8_t *data, size_t *len,
			    char why[PMV_KEYS_WHY]);

/* What a target has given out, oldest first.  Zeros: pmv_tickets_init.  The caller has a lock. */
struct pmv_ticket;
struct pmv_tickets {
	TAILQ_HEAD(, pmv_ticket) list;
};

void pmv_tickets_init(struct pmv_tickets *tickets);
void pmv_tickets_forget(struct pmv_tickets *tickets);

/*
 * pmv_tickets_add -- one that its peer may use from now on, for these CM data.  It has the
 * admission from now on, also if it is refused (false, and why).
 */
bool pmv_tickets_add(struct pmv_tickets *tickets, struct pmv_admission *admission,
		     const uint8_t *data, size_t len, int64_t now_ms, char why[PMV_KEYS_WHY]);

/*
 * pmv_tickets_take -- *len bytes are shown from there.  If they are a ticket, it is gone, and the
 * caller has its admission; the CM data are in their place, of which there is room for
 * PMV_ADMISSION_MOST.  NULL: they are none, and why.
 */
struct pmv_admission *pmv_tickets_take(struct pmv_tickets *tickets, const struct sockaddr *from,
				       int64_t now_ms, uint8_t *data, size_t *len,
				       char why[PMV_KEYS_WHY]);

#endif /* PMV_TICKET_H */
