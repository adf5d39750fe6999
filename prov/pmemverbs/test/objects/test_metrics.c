/* SPDX-License-Identifier: BSD-2-Clause */
/* test_metrics.c -- what a process tells of itself, and that it never tells less */
#include <stdlib.h>
#include <string.h>

#include "objects/domain.h"
#include "test/support/pair.h"

/* There is no such directory, and no socket: test_text_socket.c has that. */
static void time_commits(void)
{
	pmv_setting.metrics = "/nonexistent";
}

TestSuite(metrics, .init = time_commits);

static char *text;

/* look -- get the text */
static void look(void)
{
	size_t len;
	FILE *file;

	free(text);
	file = open_memstream(&text, &len);
	pmv_metrics_write(file);
	fclose(file);
}

/* value -- of what is named so, and has these labels behind those of the process */
static double value(const char *name, const char *labels)
{
	char begin[128], end[64];
	const char *line = text;

	snprintf(begin, sizeof(begin), "pmemverbs_%s{pid=", name);
	snprintf(end, sizeof(end), "\"%s} ", labels);
	for (; line; line = strchr(line, '\n')) {
		const char *at;

		line += *line == '\n';
		if (strncmp(line, begin, strlen(begin)))
			continue;
		at = strstr(line, end);
		if (at && at < strchr(line, '\n'))
			return strtod(at + strlen(end), NULL);
	}
	cr_assert(false, "no %s{%s}", name, labels);
	return -1;
}

static void commit(struct rig *rig)
{
	accepted(rig_commit(rig, KEY_MHP, CONTEXT(1), 0));
	fake_complete(&rig->fake, SIZE_MAX);
	rig_expect(rig, CONTEXT(1), RIG_WRITTEN);
}

Test(metrics, have_all_domains_also_those_that_are_closed)
{
	struct rig *one = rig_open(NULL), *other = rig_open(NULL);

	commit(one);
	commit(one);
	commit(other);
	look();
	cr_expect_eq(value("domains", ""), 2);
	cr_expect_eq(value("endpoints", ""), 2);
	cr_expect_eq(value("commits_total", ",method=\"read\""), 3);
	cr_expect_eq(value("commits_total", ",method=\"agent\""), 0);
	rig_close(one);
	look();
	cr_expect_eq(value("domains", ""), 1);
	cr_expect_eq(value("endpoints", ""), 1);
	cr_expect_eq(value("commits_total", ",method=\"read\""), 3);
	rig_close(other);
	look();
	cr_expect_eq(value("domains", ""), 0);
	cr_expect_eq(value("commits_total", ",method=\"read\""), 3);
}

/* A call that finds no room is counted, and then no more.  Prometheus takes less for a restart. */
Test(metrics, never_fall_when_a_commit_is_refused_after_all)
{
	struct rig *rig = rig_open(NULL);
	struct pmv_initiator *ini;

	commit(rig);
	ini = &pmv_to_ep(rig->ep)->initiator;
	pmv_initiator_count(ini, PMV_METHOD_READ);
	look();
	cr_expect_eq(value("commits_total", ",method=\"read\""), 2);
	pmv_initiator_uncount(ini, PMV_METHOD_READ);
	look();
	cr_expect_eq(value("commits_total", ",method=\"read\""), 2);
	commit(rig);
	commit(rig);
	look();
	cr_expect_eq(value("commits_total", ",method=\"read\""), 3);
	rig_close(rig);
	look();
	cr_expect_eq(value("endpoints", ""), 0);
}

/* What its endpoints have left to the agent is never served. */
Test(metrics, have_nothing_pending_of_a_domain_that_is_closed)
{
	struct rig *rig = rig_open(NULL);

	pmv_to_domain(rig->domain)->agent.batch->count = 1;
	look();
	cr_expect_eq(value("agent_requests_pending", ""), 1);
	rig_close(rig);
	look();
	cr_expect_eq(value("agent_requests_pending", ""), 0);
}

Test(metrics, have_histograms_whose_buckets_add_up)
{
	struct rig *rig = rig_open(NULL);

	commit(rig);
	look();
	cr_expect_eq(value("commit_size_bytes_count", ",method=\"read\""), 1);
	cr_expect_eq(value("commit_size_bytes_sum", ",method=\"read\""), LEN);
	cr_expect_eq(value("commit_size_bytes_bucket", ",method=\"read\",le=\"128\""), 0);
	cr_expect_eq(value("commit_size_bytes_bucket", ",method=\"read\",le=\"256\""), 1);
	cr_expect_eq(value("commit_size_bytes_bucket", ",method=\"read\",le=\"512\""), 1);
	cr_expect_eq(value("commit_size_bytes_bucket", ",method=\"read\",le=\"+Inf\""), 1);
	cr_expect_eq(value("commit_seconds_count", ",method=\"read\""), 1);
	cr_expect_gt(value("commit_seconds_sum", ",method=\"read\""), 0);
	cr_expect_eq(value("commit_seconds_bucket", ",method=\"read\",le=\"+Inf\""), 1);
	/* The application's locale may have a comma: no number is written as a double. */
	cr_expect(strstr(text, "le=\"0.000001024\"} "));
	cr_expect(strstr(text, "le=\"17.179869184\"} "));
	cr_expect_eq(value("commit_seconds_count", ",method=\"write\""), 0);
	rig_close(rig);
}

Test(metrics, have_syncs_and_how_long_they_took)
{
	struct pair *pair = pair_open(NULL);

	accepted(pair_put(pair, PAGE, 0, 100, CONTEXT(1), FI_COMMIT));
	pair_round(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	look();
	cr_expect_eq(value("agent_syncs_total", ""), 1);
	cr_expect_eq(value("agent_synced_bytes_total", ""), 100);
	cr_expect_eq(value("agent_sync_seconds_count", ""), 1);
	cr_expect_gt(value("agent_sync_seconds_sum", ""), 0);
	pair_close(pair);
}
