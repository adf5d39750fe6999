/* SPDX-License-Identifier: BSD-2-Clause */
/* histogram.h -- how many values were seen of each size, by powers of two */
#ifndef PMV_HISTOGRAM_H
#define PMV_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

/* The last one has all that is larger, too. */
#define PMV_HISTOGRAM_BUCKETS 48

struct pmv_histogram {
	atomic_uint_fast64_t
		buckets[PMV_HISTOGRAM_BUCKETS]; /* up to 2^n, and not in those before */
	atomic_uint_fast64_t sum;
};

/* pmv_histogram_bucket -- the first n with value <= 2^n */
static inline unsigned int pmv_histogram_bucket(uint64_t value)
{
	unsigned int n = value < 2 ? 0 : 64 - (unsigned int) __builtin_clzll(value - 1);

	return n < PMV_HISTOGRAM_BUCKETS ? n : PMV_HISTOGRAM_BUCKETS - 1;
}

/* pmv_histogram_add -- a value that was seen so often */
static inline void pmv_histogram_add(struct pmv_histogram *histogram, uint64_t value,
				     uint64_t times)
{
	atomic_fetch_add_explicit(&histogram->buckets[pmv_histogram_bucket(value)], times,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&histogram->sum, value * times, memory_order_relaxed);
}

#endif /* PMV_HISTOGRAM_H */
