/* SPDX-License-Identifier: BSD-2-Clause */
/* cases_flush.c -- commits by RDMA FLUSH, counted: no request goes to the target's agent */
#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"

#define ACCESS (FI_REMOTE_WRITE | FI_REMOTE_READ)
#define MANY 200

static int read_counters(struct fx *fx, struct link *link, struct fi_pmemverbs_counters *counters)
{
	struct fid_domain *domain = link->target->node.domain;
	struct fi_pmemverbs_counters_ops *ops;
	int ret = fi_open_ops(&domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops, NULL);

	if (!ret)
		ret = ops->read(domain, counters, sizeof(*counters));
	return ret ? failed_call(fx, "the query of counters", ret) : 0;
}

/* flushable -- a region that is committed to so; agent: of the target */
static struct remote *flushable(struct fx *fx, const char *agent, struct link **link)
{
	const char *const environment[] = {"FI_PMEMVERBS_DDIO=on", agent, NULL};
	struct target_attr attr = {.environment = environment};
	struct fi_pmemverbs_region region;
	struct target_proc *target;
	struct remote *remote;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "RDMA FLUSH is used by pmemverbs");
		return NULL;
	}
	target = fx_target(fx, &attr);
	*link = target ? fx_link(fx, target, NULL) : NULL;
	remote = *link ? fx_remote(fx, target, 1 << 20, ACCESS, FI_RMA_PMEM) : NULL;
	if (!remote || query_key(fx, *link, remote->key, &region))
		return NULL;
	if (region.method == FI_PMEMVERBS_FLUSH)
		return remote;
	skipped(fx, "no RDMA FLUSH with this device, library, core or memory");
	return NULL;
}

/* expect_by_flush -- so many commits were, and none was the agent's */
static int expect_by_flush(struct fx *fx, struct link *link, uint64_t commits)
{
	struct fi_pmemverbs_counters counters;

	return read_counters(fx, link, &counters) ||
			       expect(fx, counters.commits_flush == commits,
				      "%llu commits by RDMA FLUSH, not %llu",
				      (unsigned long long) counters.commits_flush,
				      (unsigned long long) commits) ||
			       expect(fx, !counters.commits_agent && !counters.requests_sent,
				      "%llu requests to the agent",
				      (unsigned long long) counters.requests_sent)
		       ? -1
		       : 0;
}

static int commit_all(struct fx *fx, struct link *link, struct remote *remote)
{
	static const size_t sizes[] = {1, 8, 64, 65, 4096, 10000, 200000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		/* What was written before is covered, and a fence finds nothing left. */
		if (plain_at(link, PLAIN_WRITE, remote, 300000, 100, NULL) ||
		    commit(link, remote, 300500, sizes[i], 0) ||
		    commit(link, remote, i * 16 + 1, sizes[i], FI_FENCE) ||
		    commit(link, remote, i * 16 + 1, sizes[i], 0) || remote_same(fx, remote))
			return -1;
	}
	return expect_by_flush(fx, link, 3 * sizeof(sizes) / sizeof(sizes[0]));
}

static int flush_commits(struct fx *fx)
{
	struct link *link;
	struct remote *remote = flushable(fx, "FI_PMEMVERBS_AGENT=thread", &link);

	return remote ? commit_all(fx, link, remote) : -1;
}

static int flush_agent_off(struct fx *fx)
{
	struct link *link;
	struct remote *remote = flushable(fx, "FI_PMEMVERBS_AGENT=off", &link);

	return remote ? commit_all(fx, link, remote) : -1;
}

static int await_many(struct link *link, struct op **ops)
{
	for (size_t i = 0; i < MANY; i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return 0;
}

/* expect_many -- so many commits by FLUSH, and what they wrote */
static int expect_many(struct fx *fx, struct link *link, struct remote *remote)
{
	return remote_same(fx, remote) || expect_by_flush(fx, link, MANY) ? -1 : 0;
}

/* More than a peer keeps at a time (pmemrdma). */
static int flush_many(struct fx *fx)
{
	struct link *link;
	struct remote *remote = flushable(fx, "FI_PMEMVERBS_AGENT=thread", &link);
	struct op *ops[MANY];

	if (!remote)
		return -1;
	for (size_t i = 0; i < MANY; i++) {
		struct write write = {
			.remote = remote, .offset = i * 256, .len = 64, .flags = COMMIT};

		if (write_at(link, &write, &ops[i]))
			return -1;
	}
	return await_many(link, ops) || expect_many(fx, link, remote) ? -1 : 0;
}

/* append -- a record, and the log's tail behind it, which is an ATOMIC WRITE */
static int append(struct link *link, struct remote *remote, size_t at, struct op **op)
{
	struct write tail = {.remote = remote, .len = 8, .flags = COMMIT | FI_FENCE};

	return plain_at(link, PLAIN_WRITE, remote, 4096 + at, 100, NULL) ||
			       write_at(link, &tail, op)
		       ? -1
		       : 0;
}

/* appends -- one at a time, or as many as find room */
static int appends(struct fx *fx, bool together)
{
	struct link *link;
	struct remote *remote = flushable(fx, "FI_PMEMVERBS_AGENT=off", &link);
	struct op *ops[MANY];

	if (!remote)
		return -1;
	for (size_t i = 0; i < MANY; i++) {
		if (append(link, remote, i * 256, &ops[i]) || (!together && await(link, ops[i])))
			return -1;
	}
	return (together && await_many(link, ops)) || expect_many(fx, link, remote) ? -1 : 0;
}

static int flush_append(struct fx *fx)
{
	return appends(fx, false);
}

static int flush_append_many(struct fx *fx)
{
	return appends(fx, true);
}

/* Fenced commits that wait for nothing: behind those by RDMA FLUSH, and each other */
static int flush_tails(struct fx *fx)
{
	struct link *link;
	struct remote *remote = flushable(fx, "FI_PMEMVERBS_AGENT=off", &link);
	struct op *ops[MANY];

	if (!remote)
		return -1;
	for (size_t i = 0; i < MANY; i++) {
		struct write tail = {.remote = remote,
				     .offset = i % 3 * 8,
				     .len = 8,
				     .flags = COMMIT | FI_FENCE};

		if (write_at(link, &tail, &ops[i]))
			return -1;
	}
	return await_many(link, ops) || expect_many(fx, link, remote) ? -1 : 0;
}

/* A record that fails: the tail, which is posted behind it at once, is never written. */
static int flush_tail_not_written(struct fx *fx)
{
	struct link *link;
	struct remote *remote = flushable(fx, "FI_PMEMVERBS_AGENT=off", &link);
	struct write bad = {.remote = remote, .offset = (1 << 20) - 8, .len = 64};
	struct write tail = {.remote = remote, .len = 8, .flags = COMMIT | FI_FENCE};
	struct op *silent, *op;
	ssize_t ret;

	if (!remote || commit(link, remote, 0, 8, 0))
		return -1;
	ret = post_write(link, &bad, &silent);
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	ret = post_write(link, &tail, &op);
	if (ret && ret != -FI_ECANCELED)
		return failed_call(fx, "fi_writemsg", ret);
	if (!ret && await_error(link, op))
		return -1;
	/* What both were to write is not there. */
	return remote_same(fx, remote);
}

/* What is not a FLUSH's: each finds its way, and what was written before is covered. */
static int flush_mixed(struct fx *fx)
{
	struct fi_pmemverbs_counters counters;
	struct link *link;
	struct remote *remote = flushable(fx, "FI_PMEMVERBS_AGENT=thread", &link);

	if (!remote)
		return -1;
	for (size_t i = 0; i < 20; i++) {
		if (plain_at(link, PLAIN_WRITE, remote, i * 100, 100, NULL) ||
		    commit(link, remote, 500000 + i * 1000, 999, i % 2 ? FI_FENCE : 0) ||
		    commit(link, remote, i * 1000, 999, 0) ||
		    commit(link, remote, i * 1000, 10, i % 3 ? 0 : FI_FENCE) ||
		    remote_same(fx, remote))
			return -1;
	}
	if (read_counters(fx, link, &counters))
		return -1;
	return expect(fx, counters.commits_flush >= 20 && counters.commits_agent >= 10,
		      "%llu commits by RDMA FLUSH, %llu by the agent",
		      (unsigned long long) counters.commits_flush,
		      (unsigned long long) counters.commits_agent);
}

const struct test_case flush_cases[] = {
	{"flush_commits", flush_commits},
	{"flush_agent_off", flush_agent_off},
	{"flush_many", flush_many},
	{"flush_append", flush_append},
	{"flush_append_many", flush_append_many},
	{"flush_tails", flush_tails},
	{"flush_tail_not_written", flush_tail_not_written},
	{"flush_mixed", flush_mixed},
	{NULL, NULL},
};
