/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sample.h -- how large commits are, and how long they take (FI_PMEMVERBS_METRICS)
 *
 * To read the clock twice costs a fast commit too much.  So only some commits are timed.  Where
 * they are rare (0.1 ms apart, on average since the last one), that is each.  Otherwise it is one
 * in 64 on average, at random distances: a fixed one would always meet the same place of an
 * application's loop.  Each timed commit stands for all since the last one (its weight), so the
 * histograms have as many commits as were made, but for the last ones.
 *
 * What is timed is shared by all endpoints: they are few.
 */
#ifndef PMV_SAMPLE_H
#define PMV_SAMPLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "commit/method.h"

#define PMV_SAMPLE_METHODS (PMV_METHOD_AGENT + 1)

/* The most commits between two that are timed. */
#define PMV_SAMPLE_GAP 127

/* Of an endpoint, by enum pmv_method.  Threads that meet here time one commit more, or none. */
struct pmv_sampling {
	atomic_uint_fast64_t next[PMV_SAMPLE_METHODS];    /* time it after so many commits */
	atomic_uint_fast64_t covered[PMV_SAMPLE_METHODS]; /* that timed ones stand for */
	atomic_int_fast64_t begun_ns[PMV_SAMPLE_METHODS]; /* the last one */
	atomic_uint_fast64_t seed;
};

/* A commit that is timed. */
struct pmv_sample {
	uint32_t weight; /* 0: it is not */
	enum pmv_method method;
	uint64_t size;
	int64_t begun_ns;
};

struct pmv_sample_histograms {
	struct pmv_histogram size[PMV_SAMPLE_METHODS]; /* in bytes */
	struct pmv_histogram
		time[PMV_SAMPLE_METHODS]; /* in nanoseconds, of those that are durable */
};

extern struct pmv_sample_histograms pmv_sample_histograms;

/* pmv_sampling_init -- of an endpoint; nothing is timed without FI_PMEMVERBS_METRICS */
void pmv_sampling_init(struct pmv_sampling *sampling);

/* pmv_sample_is_due -- is the next one to be timed, after so many commits by this method? */
static inline bool pmv_sample_is_due(const struct pmv_sampling *sampling, enum pmv_method method,
				     uint64_t count)
{
	return count >= atomic_load_explicit(&sampling->next[method], memory_order_relaxed);
}

/*
 * pmv_sample_begin -- of the count-th commit by this method
 * pmv_sample_drop -- it was not accepted, or has failed: the next one stands for the others, too
 * pmv_sample_end -- it is durable
 */
void pmv_sample_begin(struct pmv_sampling *sampling, struct pmv_sample *sample,
		      enum pmv_method method, uint64_t count, uint64_t size);
void pmv_sample_drop(struct pmv_sampling *sampling, struct pmv_sample *sample);
void pmv_sample_end(struct pmv_sample *sample);

#endif /* PMV_SAMPLE_H */
