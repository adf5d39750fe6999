/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay.h -- has a request been made just now, and is it here for the first time?
 *
 * Whoever has recorded a request may send it again.  So a request carries the time at which it was
 * made, and is taken only within PMV_REPLAY_WINDOW_S of it, by our clock; and once.  The table
 * remembers requests of one peer in sets of a few, by a hash.  If a set is full, its oldest one
 * makes room, and the set takes nothing that is older than all that it has.  So a request that was
 * taken is never taken again: it is remembered, or too old.  Nothing is taken that was made before
 * this process listened there: nobody remembers what an earlier process has taken.
 */
#ifndef PMV_REPLAY_H
#define PMV_REPLAY_H

#include <stdint.h>

#include "auth/noise.h"

#define PMV_REPLAY_WINDOW_S 120
/*
 * By so much a request may be ahead of our clock.  One that an earlier process took, and that is
 * ahead of our start, would be new to us; and one that is ahead takes a set's place from others.
 */
#define PMV_REPLAY_AHEAD_S 5
#define PMV_REPLAY_SETS 256
#define PMV_REPLAY_WAYS 16

/* As little of an ephemeral key as nobody can hit: 16 bytes. */
struct pmv_replay_entry {
	uint64_t made_ns; /* 0: free */
	uint8_t key[16];
};

/* Of one peer, so that whoever fills it shuts nobody else out. */
struct pmv_replay {
	struct pmv_replay_entry sets[PMV_REPLAY_SETS][PMV_REPLAY_WAYS]; /* zeros: not used yet */
};

enum pmv_replay_verdict {
	PMV_REPLAY_NEW,
	PMV_REPLAY_SKEWED, /* by more than the window: the clocks differ */
	PMV_REPLAY_BEFORE, /* it was made before this process listened */
	PMV_REPLAY_REPEATED,
	PMV_REPLAY_CROWDED, /* it may be a repetition: newer ones have taken its place */
};

/*
 * pmv_replay_check -- times are CLOCK_REALTIME in ns; nothing is taken that was made until
 * since_ns; what is new is remembered
 */
enum pmv_replay_verdict pmv_replay_check(struct pmv_replay *replay, uint64_t since_ns,
					 uint64_t now_ns, uint64_t made_ns,
					 const uint8_t key[PMV_NOISE_KEY]);

#endif /* PMV_REPLAY_H */
