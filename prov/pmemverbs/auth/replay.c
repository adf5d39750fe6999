/* SPDX-License-Identifier: BSD-2-Clause */
/* replay.c -- is a request here for the first time? */
#include "auth/replay.h"

#include <string.h>

#define WINDOW_NS (PMV_REPLAY_WINDOW_S * UINT64_C(1000000000))
#define AHEAD_NS (PMV_REPLAY_AHEAD_S * UINT64_C(1000000000))

enum pmv_replay_verdict pmv_replay_check(struct pmv_replay *replay, uint64_t since_ns,
					 uint64_t now_ns, uint64_t made_ns,
					 const uint8_t key[PMV_NOISE_KEY])
{
	struct pmv_replay_entry *oldest, *set;
	uint32_t where;

	if (made_ns > now_ns ? made_ns - now_ns > AHEAD_NS : now_ns - made_ns > WINDOW_NS)
		return PMV_REPLAY_SKEWED;
	if (made_ns <= since_ns)
		return PMV_REPLAY_BEFORE;
	/* Whoever has made the key fills his own table, so there is no need for a better hash. */
	memcpy(&where, key + sizeof(oldest->key), sizeof(where));
	oldest = set = replay->sets[where % PMV_REPLAY_SETS];
	for (size_t i = 0; i < PMV_REPLAY_WAYS; i++) {
		struct pmv_replay_entry *entry = &set[i];

		if (entry->made_ns && !memcmp(entry->key, key, sizeof(entry->key)))
			return PMV_REPLAY_REPEATED;
		if (entry->made_ns < oldest->made_ns)
			oldest = entry;
	}
	if (oldest->made_ns && made_ns <= oldest->made_ns)
		return PMV_REPLAY_CROWDED;
	oldest->made_ns = made_ns;
	memcpy(oldest->key, key, sizeof(oldest->key));
	return PMV_REPLAY_NEW;
}
