/* SPDX-License-Identifier: BSD-2-Clause */
/* spin.c -- how long one looks for more before one sleeps; spin.h says why */
#include "spin.h"

#include "pmemrpc.h"

#define US INT64_C(1000)

void rpc_spin_open(struct rpc_spin *spin, unsigned int us)
{
	*spin = (struct rpc_spin){.len_ns = (us ? us : RPC_SPIN_US) * US, .adapts = !us};
	if (us == PMEMRPC_OFF)
		spin->len_ns = 0;
	if (us == PMEMRPC_ALWAYS)
		spin->len_ns = INT64_MAX;
}

/* adapt -- to so long a pause */
static void adapt(struct rpc_spin *spin, int64_t pause_ns)
{
	if (pause_ns > RPC_MOST_SPIN_US * US)
		spin->len_ns /= 2;
	else if (spin->len_ns < 2 * pause_ns)
		spin->len_ns = 2 * pause_ns;
	if (spin->len_ns < RPC_LEAST_SPIN_US * US)
		spin->len_ns = RPC_LEAST_SPIN_US * US;
	if (spin->len_ns > RPC_MOST_SPIN_US * US)
		spin->len_ns = RPC_MOST_SPIN_US * US;
}

void rpc_spin_busy(struct rpc_spin *spin, int64_t now_ns)
{
	if (spin->adapts && spin->idle_ns)
		adapt(spin, now_ns - spin->idle_ns);
	spin->idle_ns = 0;
}

bool rpc_spin_again(struct rpc_spin *spin, int64_t now_ns)
{
	if (!spin->idle_ns)
		spin->idle_ns = now_ns;
	return now_ns - spin->idle_ns < spin->len_ns;
}
