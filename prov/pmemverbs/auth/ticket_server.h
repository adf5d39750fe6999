/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ticket_server.h -- where a target gives out tickets (ticket.h): a TCP port
 *
 * It has the address and the port number of a passive endpoint, which RDMA does not use up: its
 * connection manager has ports of its own.  Each connection is one exchange of the messages of
 * admission.h:
 *
 *    initiator   u16 length of what follows, little-endian; CM data, message 1
 *    target      message 2, and the end of the connection; or, to whom it refuses, only that
 *
 * The target has the ticket before the initiator can.  The poller's thread serves them all.  A
 * connection has PMV_TICKET_SERVER_SECONDS.  At most PMV_TICKET_SERVER_MOST are open, and one more
 * takes the place of the oldest.  So who only opens connections has to open that many in the time
 * that a message takes, to keep others out.
 */
#ifndef PMV_TICKET_SERVER_H
#define PMV_TICKET_SERVER_H

#include "auth/admission.h"

#define PMV_TICKET_SERVER_LENGTH sizeof(uint16_t)
#define PMV_TICKET_SERVER_SECONDS 10
#define PMV_TICKET_SERVER_MOST 128

struct pmv_ticket_server;

/* Somebody was refused, and why.  It is called by the poller's thread. */
typedef void pmv_ticket_refused(const struct sockaddr *from, const char *why);

/*
 * pmv_ticket_server_bind -- take the port; of port 0, any that is free.  _listen begins, for
 * requests that were made since then.  Both: 0 or a negative errno.
 */
int pmv_ticket_server_bind(const struct sockaddr *addr, pmv_ticket_refused *refused,
			   struct pmv_ticket_server **server);
uint16_t pmv_ticket_server_port(const struct pmv_ticket_server *server);
int pmv_ticket_server_listen(struct pmv_ticket_server *server, uint64_t since_ns);
void pmv_ticket_server_close(struct pmv_ticket_server *server);

/* pmv_ticket_server_take -- what a connection request shows: pmv_tickets_take */
struct pmv_admission *pmv_ticket_server_take(struct pmv_ticket_server *server,
					     const struct sockaddr *from, uint8_t *data,
					     size_t *len, char why[PMV_KEYS_WHY]);

#endif /* PMV_TICKET_SERVER_H */
