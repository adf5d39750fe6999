/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay.h -- has a request been made just now, and is it here for the first time?
 *
 * Whoever has recorded a request may send it again.  So a request carries the time at which it was
 * made, and is taken only within PMV_REPLAY_WINDOW_S of it, by our clock; and once.  The table
 * remembers requests in sets of a few, by a hash.  If a set is full, its oldest one makes
 * room, and from then on the set takes nothing that is as old as that one.  So a request that was
 * taken is never taken again: it is remembered, or too old.  Nothing is taken that is older than
 * the table itself: nobody remembers what an earlier process has taken.
 */
#ifndef PMV_REPLAY_H
#define PMV_REPLAY_H

#include <stdint.h>

#include "auth/noise.h"

#define PMV_REPLAY_WINDOW_S 120
#define PMV_REPLAY_SETS 4096
#define PMV_REPLAY_WAYS 16

/* As little of an ephemeral key as nobody can hit: 16 bytes. */
struct pmv_replay_entry {
	uint64_t made_ns; /* 0: free */
	uint8_t key[16];
};

struct pmv_replay_set {
	uint64_t floor_ns; /* nothing that was made then, or earlier, is taken */
	struct pmv_replay_entry entries[PMV_REPLAY_WAYS];
};

struct pmv_replay {
	uint64_t start_ns;
	struct pmv_replay_set sets[PMV_REPLAY_SETS]; /* zeros: not used yet */
};

enum pmv_replay_verdict {
	PMV_REPLAY_NEW,
	PMV_REPLAY_SKEWED, /* by more than the window: the clocks differ */
	PMV_REPLAY_BEFORE, /* it was made before this table was */
	PMV_REPLAY_REPEATED,
	PMV_REPLAY_CROWDED, /* it may be a repetition: newer ones have taken its place */
};

/* pmv_replay_check -- time is CLOCK_REALTIME in ns; what is new is remembered */
enum pmv_replay_verdict pmv_replay_check(struct pmv_replay *replay, uint64_t now_ns,
					 uint64_t made_ns, const uint8_t key[PMV_NOISE_KEY]);

#endif /* PMV_REPLAY_H */
