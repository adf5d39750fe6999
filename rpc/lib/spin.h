/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h -- how long a thread looks for more before it sleeps
 *
 * To be woken takes longer than most calls.  So a thread that had something to do a moment ago
 * looks again, and yields the processor in between.  How long it looks follows what comes: longer,
 * if what came would have been found by looking longer; shorter, if it came much later, so that
 * looking costs more than being woken.  Who was told how long to look does just that.  Pure
 * functions.
 */
#ifndef RPC_SPIN_H
#define RPC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* At first.  What takes much longer is slow anyway: then the wake-up does not matter much. */
#define RPC_SPIN_US 50U
#define RPC_LEAST_SPIN_US 10U
#define RPC_MOST_SPIN_US 200U

struct rpc_spin {
	int64_t len_ns;
	int64_t idle_ns; /* since when there was nothing; 0: there was something */
	unsigned int looks;
	bool adapts;
};

/* rpc_spin_open -- as an attribute says, PMEMRPC_OFF and PMEMRPC_ALWAYS included; 0: as it pays */
void rpc_spin_open(struct rpc_spin *spin, unsigned int us);

/* rpc_spin_busy -- there was something to do at this time */
void rpc_spin_busy(struct rpc_spin *spin, int64_t now_ns);

/*
 * rpc_spin_yields -- it looks again: is it to yield the processor before?  Not each time: a
 * provider whose thread could look, too, has to see that somebody does.
 */
static inline bool rpc_spin_yields(struct rpc_spin *spin)
{
	return ++spin->looks % 4 == 0;
}

/* rpc_spin_again -- there was nothing to do at this time: is the thread to look again? */
bool rpc_spin_again(struct rpc_spin *spin, int64_t now_ns);

#endif /* RPC_SPIN_H */
