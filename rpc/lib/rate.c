/* SPDX-License-Identifier: BSD-2-Clause */
/* rate.c -- how many calls a second a client may have executed; rate.h says how */
#include "rate.h"

#define SECOND INT64_C(1000000000)

int64_t rpc_bucket_take(struct rpc_bucket *bucket, unsigned int rate, int64_t now_ns)
{
	int64_t interval = SECOND / rate ? SECOND / rate : 1;
	int64_t size = interval * rpc_bucket_size(rate);
	int64_t full = bucket->full_ns > now_ns ? bucket->full_ns : now_ns;

	if (full + interval - now_ns > size)
		return full + interval - now_ns - size;
	bucket->full_ns = full + interval;
	return 0;
}
