/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostile.h -- the scene of the cases in which a peer writes to the agent's mailbox what no
 * pmemverbs would: see raw_peer.h
 *
 * Meanwhile another connection to the same target goes on committing.  Whatever happens on the one,
 * the other does not notice, no memory changes that was not offered for writing, and the target
 * lives.
 */
#ifndef PMEM_HOSTILE_H
#define PMEM_HOSTILE_H

#include "raw_peer.h"

/* The well-behaved connection, with a thread of its own */
struct steady {
	pthread_t thread;
	struct link *link;
	struct remote *remote;
	atomic_bool stop;
	atomic_uint commits;
	atomic_int ret;
};

struct scene {
	struct fx *fx;
	struct raw raw;
	struct steady steady;
	struct remote *open;     /* persistent: may be written */
	struct remote *readonly; /* persistent, not for writing */
	struct remote *secret;   /* registered for other purposes */
};

/* One value, in what is right otherwise */
struct edit {
	const char *what;
	size_t at;
	size_t size;
	uint64_t value;
};

int scene_open(struct fx *fx, struct scene *scene);

/* scene_close -- ret: what came of the hostile peer's part; the result of the case */
int scene_close(struct scene *scene, int ret);

/* scene_reopen -- another connection of the hostile peer, which has not said its name yet */
int scene_reopen(struct scene *scene);

/* scene_is_ended -- the connection, by the target, once that has answered; then another one */
int scene_is_ended(struct scene *scene, const char *what);

/* scene_flush_works -- an ordinary message is served: the agent has lost nothing of its senses */
int scene_flush_works(struct scene *scene, const char *after);

/* scene_is_untouched -- all that the hostile peer has no business with */
int scene_is_untouched(struct scene *scene);

struct pmv_range scene_range(const struct remote *remote, uint64_t offset, uint64_t len);

/* hostile -- a case: mischief on a connection that has begun well */
int hostile(struct fx *fx, int (*mischief)(struct scene *scene));

/* hostile_hellos -- the case about what a connection begins with */
int hostile_hellos(struct fx *fx);

#endif /* PMEM_HOSTILE_H */
