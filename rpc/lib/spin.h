/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h -- how long a thread looks for more before it sleeps
 *
 * To be woken takes longer than most calls.  So a thread that had something to do a moment ago
 * looks again, and yields the processor in between.  Pure functions.
 */
#ifndef RPC_SPIN_H
#define RPC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* What takes longer than this is slow anyway: then the wake-up does not matter much. */
#define RPC_SPIN_US 50U

struct rpc_spin {
	int64_t len_ns;
	int64_t idle_ns; /* since when there was nothing; 0: there was something */
};

/* rpc_spin_open -- as an attribute says; 0: RPC_SPIN_US, UINT_MAX: not at all */
void rpc_spin_open(struct rpc_spin *spin, unsigned int us);

/* rpc_spin_busy -- there was something to do */
static inline void rpc_spin_busy(struct rpc_spin *spin)
{
	spin->idle_ns = 0;
}

/* rpc_spin_again -- there was nothing to do at this time: is the thread to look again? */
bool rpc_spin_again(struct rpc_spin *spin, int64_t now_ns);

#endif /* RPC_SPIN_H */
