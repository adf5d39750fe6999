/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * throttle.h -- a server that has too much to do tells its clients to slow down
 *
 * The throttle counts the durable calls of all clients that wait to be executed.  When more than
 * `high` wait, the server is slow, until fewer than `low` wait.  While it is slow, there is a limit
 * for the calls without replies that a client may have, which is the same for all.  The server
 * tells this limit with its WELCOME and with each REPLY.  It needs no message of its own, since a
 * client that waits for no reply has no calls here.  A client that ignores the limit is stopped by
 * its window.
 *
 * Calls that wait for their client's own rate (rate.h) don't count: other clients would pay.
 */
#ifndef RPC_THROTTLE_H
#define RPC_THROTTLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_throttle {
	int64_t high, low; /* high 0: never */
	atomic_int_fast64_t load;
	atomic_bool slow;
	atomic_uint_fast64_t times; /* it became so */
};

/* rpc_throttle_open -- high as asked for; 0: by the number of threads; UINT_MAX: never */
void rpc_throttle_open(struct rpc_throttle *throttle, unsigned int high, unsigned int threads);

/* rpc_throttle_add -- so many more calls wait, or (negative) fewer */
void rpc_throttle_add(struct rpc_throttle *throttle, int64_t calls);

/* rpc_throttle_pace -- how many calls without replies each client may have; 0: its window */
uint32_t rpc_throttle_pace(const struct rpc_throttle *throttle, uint64_t clients);

#endif /* RPC_THROTTLE_H */
