/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rate.h -- how many calls a second a client may have executed
 *
 * A token bucket, kept as the time at which it will be full again: each call takes one interval of
 * it.  It holds what a tenth of a second gives, and one call at least.  Pure functions.
 */
#ifndef RPC_RATE_H
#define RPC_RATE_H

#include <stdint.h>

struct rpc_bucket {
	int64_t full_ns; /* when it is full, if nothing is taken */
};

/* rpc_bucket_size -- calls that may come at once */
static inline unsigned int rpc_bucket_size(unsigned int rate)
{
	return rate >= 10 ? rate / 10 : 1;
}

/* rpc_bucket_take -- a token at this time: 0, or how long there will be none, in nanoseconds */
int64_t rpc_bucket_take(struct rpc_bucket *bucket, unsigned int rate, int64_t now_ns);

#endif /* RPC_RATE_H */
