/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rate.h -- how many calls a second a client may have executed
 *
 * A token bucket.  What is kept of it is the time at which it will be full again: each call moves
 * this time by one interval.  It holds the tokens of a tenth of a second, and at least one.  Pure
 * functions.
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

/* rpc_bucket_take -- take a token at this time: 0, or the nanoseconds until there will be one */
int64_t rpc_bucket_take(struct rpc_bucket *bucket, unsigned int rate, int64_t now_ns);

#endif /* RPC_RATE_H */
