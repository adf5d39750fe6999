/* SPDX-License-Identifier: BSD-2-Clause */
/* sample.c -- how large commits are, and how long they take; sample.h says of which */
#include "commit/sample.h"

#include "base/clock.h"
#include "base/setting.h"

/* Commits that are so far apart, on average, are all timed: that costs them nothing. */
#define RARE_NS 100000

struct pmv_sample_histograms pmv_sample_histograms;

void pmv_sampling_init(struct pmv_sampling *sampling)
{
	for (unsigned int i = 0; i < PMV_SAMPLE_METHODS; i++)
		atomic_init(&sampling->next[i], pmv_setting.metrics ? 0 : UINT64_MAX);
}

/* draw -- a number up to PMV_SAMPLE_GAP - 1; the high bits of such a generator are the random ones
 */
static uint64_t draw(struct pmv_sampling *sampling)
{
	uint64_t seed = atomic_load_explicit(&sampling->seed, memory_order_relaxed);

	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	atomic_store_explicit(&sampling->seed, seed, memory_order_relaxed);
	return (seed >> 33) % PMV_SAMPLE_GAP;
}

void pmv_sample_begin(struct pmv_sampling *sampling, struct pmv_sample *sample,
		      enum pmv_method method, uint64_t count, uint64_t size)
{
	uint64_t covered = atomic_exchange(&sampling->covered[method], count);
	int64_t now = pmv_clock_ns(), last = atomic_exchange(&sampling->begun_ns[method], now);
	uint64_t weight = count > covered ? count - covered : 1;
	bool rare = now - last >= (int64_t) weight * RARE_NS;

	*sample =
		(struct pmv_sample){.weight = weight < UINT32_MAX ? (uint32_t) weight : UINT32_MAX,
				    .method = method,
				    .size = size,
				    .begun_ns = now};
	atomic_store(&sampling->next[method], rare ? count : count + draw(sampling));
}

void pmv_sample_drop(struct pmv_sampling *sampling, struct pmv_sample *sample)
{
	atomic_fetch_sub(&sampling->covered[sample->method], sample->weight);
	atomic_store(&sampling->next[sample->method], 0);
	sample->weight = 0;
}

void pmv_sample_end(struct pmv_sample *sample)
{
	struct pmv_sample_histograms *all = &pmv_sample_histograms;
	int64_t ns = pmv_clock_ns() - sample->begun_ns;

	pmv_histogram_add(&all->size[sample->method], sample->size, sample->weight);
	pmv_histogram_add(&all->time[sample->method], (uint64_t) ns, sample->weight);
	sample->weight = 0;
}
