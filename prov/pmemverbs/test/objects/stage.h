/* SPDX-License-Identifier: BSD-2-Clause */
/* stage.h -- two sides that connect by tickets: FI_PMEMVERBS_KEYS over a core like verbs */
#ifndef STAGE_H
#define STAGE_H

#include <netinet/in.h>

#include "objects/eq.h"
#include "test/support/rig.h"

#define ASKS "asks"
#define SAYS "says so"

/* One side: a rig with an EQ, to which its endpoint is bound, and a passive endpoint. */
struct stage {
	struct rig *rig;
	struct fid_eq *eq;
	struct fid_pep *pep;
};

union event {
	struct fi_eq_cm_entry cm;
	char room[512];
};

/* Two sides that have one key and know it: the thread is both. */
extern struct stage target, client;
extern struct sockaddr_in here; /* where the target listens */
extern struct fid handle;       /* of the request */

void stage_setup(void);
void stage_teardown(void);

void set_source(struct rig *rig, const struct sockaddr_in *addr);

/* has_thread -- does this process have the one that moves tickets? */
bool has_thread(void);

int connect_ep(void);
ssize_t read_event(struct stage *stage, uint32_t *event, union event *entry);

/* await_ticket -- as an application does that reads its queue until something has happened */
void await_ticket(void);

/* raise_request -- the target's core hears of one, from there; raise_sent -- of the client's */
void raise_request(const void *data, size_t len, in_addr_t from);
void raise_sent(void);
void expect_request(void);
void expect_rejected(int times);

/* open_accepted -- an endpoint for the request, in the place of the rig's; accept_ep accepts it */
void open_accepted(void);
int accept_ep(void);
void raise_connected(const uint8_t *data, size_t len);
ssize_t post(struct stage *stage);

/* expect_error -- the client's application reads it, once, and nothing can be posted */
void expect_error(int err);
void await_error(int err);

#endif /* STAGE_H */
