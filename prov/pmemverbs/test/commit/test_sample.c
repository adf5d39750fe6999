/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sample.c -- which commits are timed, and for how many each stands */
#include <string.h>

#include "commit/sample.h"
#include "test/support/pair.h"

static uint64_t counted(const struct pmv_histogram *histogram)
{
	uint64_t count = 0;

	for (int i = 0; i < PMV_HISTOGRAM_BUCKETS; i++)
		count += atomic_load(&histogram->buckets[i]);
	return count;
}

static const struct pmv_histogram *sizes(enum pmv_method method)
{
	return &pmv_sample_histograms.size[method];
}

static const struct pmv_histogram *sizes_read(void)
{
	return sizes(PMV_METHOD_READ);
}

/* time_commits -- as if FI_PMEMVERBS_METRICS were set; there is no such directory, and no socket */
static void time_commits(void)
{
	pmv_setting.metrics = "/nonexistent";
}

TestSuite(sample, .init = time_commits);

static void commit(struct rig *rig, void *context)
{
	accepted(rig_commit(rig, KEY_MHP, context, 0));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect(rig, context, RIG_WRITTEN);
}

Test(histogram, has_values_up_to_each_power_of_two)
{
	cr_expect_eq(pmv_histogram_bucket(0), 0);
	cr_expect_eq(pmv_histogram_bucket(1), 0);
	cr_expect_eq(pmv_histogram_bucket(2), 1);
	cr_expect_eq(pmv_histogram_bucket(3), 2);
	cr_expect_eq(pmv_histogram_bucket(4), 2);
	cr_expect_eq(pmv_histogram_bucket(5), 3);
	cr_expect_eq(pmv_histogram_bucket(UINT64_C(1) << 40), 40);
	cr_expect_eq(pmv_histogram_bucket((UINT64_C(1) << 40) + 1), 41);
	cr_expect_eq(pmv_histogram_bucket(UINT64_MAX), PMV_HISTOGRAM_BUCKETS - 1);
}

Test(sample, times_nothing_without_the_setting)
{
	struct rig *rig;

	pmv_setting.metrics = NULL;
	rig = rig_open(NULL);
	for (int i = 0; i < 1000; i++)
		commit(rig, CONTEXT(1));
	cr_expect_eq(counted(sizes_read()), 0);
	rig_close(rig);
}

/* However fast they are: of so many in a row one is timed. */
Test(sample, stands_for_all_commits_since_the_last_one)
{
	struct rig *rig = rig_open(NULL);
	uint64_t count;

	commit(rig, CONTEXT(1));
	cr_expect_eq(counted(sizes_read()), 1);
	for (int i = 1; i < 5000; i++)
		commit(rig, CONTEXT(1));
	count = counted(sizes_read());
	cr_expect_leq(count, 5000);
	cr_expect_gt(count, 5000 - PMV_SAMPLE_GAP);
	cr_expect_eq(atomic_load(&sizes_read()->sum), count * LEN);
	cr_expect_eq(counted(&pmv_sample_histograms.time[PMV_METHOD_READ]), count);
	cr_expect_eq(counted(sizes(PMV_METHOD_WRITE)), 0);
	rig_close(rig);
}

Test(sample, times_each_one_that_comes_late)
{
	struct pmv_sampling sampling = {0};
	struct pmv_sample one;

	for (uint64_t i = 1; i <= 100; i++) {
		cr_assert(pmv_sample_is_due(&sampling, PMV_METHOD_AGENT, i - 1));
		/* As if the last one had been long ago. */
		atomic_store(&sampling.begun_ns[PMV_METHOD_AGENT], 0);
		pmv_sample_begin(&sampling, &one, PMV_METHOD_AGENT, i, 8);
		cr_assert_eq(one.weight, 1);
		pmv_sample_end(&one);
	}
}

/* next_of -- the next one is timed after so many */
static uint64_t next_of(struct pmv_sampling *sampling, uint64_t count)
{
	struct pmv_sample one;

	/* The last one is in the future, so this one comes early on any machine. */
	atomic_store(&sampling->begun_ns[PMV_METHOD_READ], INT64_MAX);
	pmv_sample_begin(sampling, &one, PMV_METHOD_READ, count, 8);
	return atomic_load(&sampling->next[PMV_METHOD_READ]) - count;
}

Test(sample, is_drawn_by_chance_when_they_come_fast)
{
	struct pmv_sampling sampling = {0};
	bool seen[PMV_SAMPLE_GAP] = {0};
	uint64_t count = 1000, sum = 0;

	for (int i = 0; i < 10000; i++) {
		uint64_t gap = next_of(&sampling, count);

		cr_assert_lt(gap, PMV_SAMPLE_GAP);
		seen[gap] = true;
		sum += gap + 1;
		count += gap + 1;
	}
	for (int i = 0; i < PMV_SAMPLE_GAP; i++)
		cr_expect(seen[i]);
	/* The generator starts with the same seed each time. */
	cr_expect_gt(sum, 10000 * 60);
	cr_expect_lt(sum, 10000 * 68);
}

Test(sample, is_taken_back_if_it_finds_no_room)
{
	struct rig *rig = rig_open(NULL);

	rig->fake.room = 0;
	for (int i = 0; i < 10; i++)
		refused(rig_commit(rig, KEY_MHP, CONTEXT(1), 0), FI_EAGAIN);
	rig->fake.room = -1;
	cr_expect_eq(counted(sizes_read()), 0);
	commit(rig, CONTEXT(2));
	cr_expect_eq(counted(sizes_read()), 1);
	rig_close(rig);
}

Test(sample, has_only_what_is_durable)
{
	struct rig *rig = rig_open(NULL);

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	rig_end_part(rig, FI_EIO);
	rig_end_part(rig, FI_EIO);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_EIO);
	cr_expect_eq(counted(sizes_read()), 0);
	commit(rig, CONTEXT(2));
	cr_expect_eq(counted(sizes_read()), 2);
	rig_close(rig);
}

/* Its operation is used again, by something that is not timed. */
Test(sample, is_forgotten_with_its_endpoint)
{
	struct rig *rig = rig_open(&(struct rig_options){.no_fence = true});

	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	rig_close_ep(rig);
	rig_expect_error(rig, CONTEXT(1), RIG_WRITTEN, FI_ECANCELED);
	pmv_setting.metrics = NULL;
	rig->ep = rig_ep(rig, rig->cq);
	rig_expect_nothing(rig);
	/* Its end is looked at, too. */
	accepted(rig_read(rig, KEY_MHP, CONTEXT(2)));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect(rig, CONTEXT(2), FI_RMA | FI_READ);
	cr_expect_eq(counted(sizes_read()), 0);
	rig_close(rig);
}

Test(sample, has_commits_by_the_agent)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, DMP, 0, 100, CONTEXT(1), FI_COMMIT));
	cr_expect_eq(counted(sizes(PMV_METHOD_AGENT)), 0);
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	cr_expect_eq(counted(sizes(PMV_METHOD_AGENT)), 1);
	cr_expect_eq(atomic_load(&sizes(PMV_METHOD_AGENT)->sum), 100);
	pair_close(pair);
}
