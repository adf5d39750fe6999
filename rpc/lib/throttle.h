/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * throttle.h -- a server that has too much to do tells its clients to slow down
 *
 * What counts are the calls that are durable and wait to be executed, of all clients together.
 * Above `high` the server is slow, until there are less than `low`.  While it is, each client may
 * have so many calls without replies; the same number for all.  It hears that with its welcome
 * and with each reply, so nothing has to be sent to it: a client that waits for no reply has no
 * calls here.  One that doesn't care is stopped by its window, as always.
 *
 * Calls that wait because of their client's own rate (rate.h) don't count: others would pay.
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

/* rpc_throttle_add -- calls that have come, or (negative) that wait no more */
void rpc_throttle_add(struct rpc_throttle *throttle, int64_t calls);

/* rpc_throttle_pace -- calls that each of the clients may have without replies; 0: its window */
uint32_t rpc_throttle_pace(const struct rpc_throttle *throttle, uint64_t clients);

#endif /* RPC_THROTTLE_H */
