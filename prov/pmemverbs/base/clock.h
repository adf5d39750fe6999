/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h -- the clock for timeouts */
#ifndef PMV_CLOCK_H
#define PMV_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t pmv_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static inline int64_t pmv_clock_ms(void)
{
	return pmv_clock_ns() / 1000000;
}

#endif /* PMV_CLOCK_H */
