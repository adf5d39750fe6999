/* SPDX-License-Identifier: BSD-2-Clause */
/* throttle.c -- a server that has too much to do; throttle.h says what it does then */
#include "throttle.h"

#include <limits.h>

/* So many calls keep a thread busy, however short they are, while clients hear of it. */
#define CALLS_PER_THREAD 256U

void rpc_throttle_open(struct rpc_throttle *throttle, unsigned int high, unsigned int threads)
{
	if (!high)
		high = CALLS_PER_THREAD * threads;
	throttle->high = high == UINT_MAX ? 0 : high;
	throttle->low = (throttle->high + 1) / 2;
}

void rpc_throttle_add(struct rpc_throttle *throttle, int64_t calls)
{
	int64_t load = atomic_fetch_add(&throttle->load, calls) + calls;
	bool slow = throttle->slow;

	/* Two threads may come here in the other order: the next one puts it right. */
	if (!slow && throttle->high && load > throttle->high &&
	    atomic_compare_exchange_strong(&throttle->slow, &slow, true))
		throttle->times++;
	else if (slow && load < throttle->low)
		throttle->slow = false;
}

uint32_t rpc_throttle_pace(const struct rpc_throttle *throttle, uint64_t clients)
{
	/* Half of what it takes to end this: so it ends when all do as they are told. */
	uint64_t pace = (uint64_t) throttle->low / 2 / (clients ? clients : 1);

	if (!throttle->slow)
		return 0;
	return pace ? (uint32_t) pace : 1;
}
