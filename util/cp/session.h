/* SPDX-License-Identifier: BSD-2-Clause */
/* session.h -- what a target does for one client, in a thread of its own */
#ifndef CP_SESSION_H
#define CP_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "../connection/connection.h"
#include "store.h"

struct cp_target {
	struct cp_store store;
	struct node *node;     /* where clients ask */
	atomic_int timeout_ms; /* of a client that says nothing */
	atomic_bool verbose;
	atomic_bool stop;
	atomic_uint clients;
	atomic_bool busy[CP_MAX_CLIENTS]; /* numbers that are taken */
};

/* cp_session_start -- serve who asks to be connected, as client with that number, and free info */
int cp_session_start(struct cp_target *target, struct fi_info *info, unsigned int number);

#endif /* CP_SESSION_H */
