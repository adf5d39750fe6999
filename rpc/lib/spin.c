/* SPDX-License-Identifier: BSD-2-Clause */
/* spin.c -- how long one looks for more before one sleeps; spin.h says why */
#include "spin.h"

#include <limits.h>

void rpc_spin_open(struct rpc_spin *spin, unsigned int us)
{
	*spin = (struct rpc_spin){.len_ns = (us ? us : RPC_SPIN_US) * INT64_C(1000)};
	if (us == UINT_MAX)
		spin->len_ns = 0;
}

bool rpc_spin_again(struct rpc_spin *spin, int64_t now_ns)
{
	if (!spin->idle_ns)
		spin->idle_ns = now_ns;
	return now_ns - spin->idle_ns < spin->len_ns;
}
