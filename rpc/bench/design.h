/* SPDX-License-Identifier: BSD-2-Clause */
/* design.h -- how frames come to the other side; README.md has the designs and where they are from
 */
#ifndef BENCH_DESIGN_H
#define BENCH_DESIGN_H

#include "design_link.h"

struct design {
	const char *name;
	bool messages;      /* frames are sent and received */
	bool server_sleeps; /* the queue tells of requests */
	bool client_sleeps; /* ... of replies */
	size_t frame_max;   /* 0: none */

	/* At the client: a sealed request goes to the server.  more: the next one follows at once.
	 */
	int (*request)(struct link *link, struct frame *frame, bool more);
	/* At the client: the next reply, if it is there. */
	struct frame *(*take_reply)(struct link *link);

	/* At the server: does any link of a port have a request?  NULL: look at each. */
	bool (*look)(struct port *port, const volatile uint8_t *flags, size_t len);
	/* At the server: the next request, if it is there. */
	struct frame *(*take_request)(struct link *link);
	/* At the server: a sealed reply goes to the client, or waits there for it. */
	int (*reply)(struct link *link, struct frame *frame, bool more);

	/* What was taken is not needed any more; may be NULL. */
	int (*release)(struct link *link);
};

extern const struct design design_darpc, design_fasst;
extern const struct design design_octopus, design_farm, design_l5, design_scalerpc;
extern const struct design design_rfp;

/* design_find -- NULL: there is none of that name */
const struct design *design_find(const char *name);

/* By writes, as several do it. */
int write_request(struct link *link, struct frame *frame, bool more);
int write_reply(struct link *link, struct frame *frame, bool more);
struct frame *poll_request(struct link *link);
struct frame *poll_reply(struct link *link);

#endif /* BENCH_DESIGN_H */
