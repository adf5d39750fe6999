/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_calls.c -- one kind of call again and again, for counting instructions
 *
 * tools/count-instructions runs this under callgrind, which counts inside
 * count_here() only.  Everything happens in one thread: where agents work, they
 * do so inside the application's calls.  So each run executes the same instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/service.h"
#include "bench_rdm.h"
#include "test/support/pair.h"

#define WARM_UP 100 /* memory that is reused later is allocated in these */
#define SIZE 64

static struct pair *pair;
static struct rig *rig; /* without a peer, and so without an agent */
static bool warm;
static uint64_t mhp; /* the key of memory of its peer, where a READ is enough */

/* count_here -- callgrind finds it by its name: the compiler must leave it one function */
__attribute__((noinline, noclone)) void count_here(void (*call)(int i), int times);

void count_here(void (*call)(int i), int times)
{
	for (int i = 0; i < times; i++)
		call(i);
}

static void expect_completion(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;

	if (fi_cq_read(cq, &entry, 1) != 1) {
		fprintf(stderr, "bench_calls: a completion is missing\n");
		exit(1);
	}
}

static void expect_accepted(ssize_t ret)
{
	if (ret) {
		fprintf(stderr, "bench_calls: a call failed: %s\n", fi_strerror((int) -ret));
		exit(1);
	}
}

/* A commit to memory where a READ is enough. */
static void commit(int i)
{
	expect_accepted(rig_commit(rig, mhp, CONTEXT(i), 0));
	fake_complete(&rig->fake, SIZE_MAX);
	expect_completion(rig->cq);
}

/* ... that is fenced behind a write. */
static void fenced(int i)
{
	expect_accepted(rig_write(rig, mhp, CONTEXT(i)));
	expect_accepted(rig_commit(rig, mhp, CONTEXT(i), FI_FENCE));
	fake_complete(&rig->fake, SIZE_MAX);
	expect_completion(rig->cq);
	expect_completion(rig->cq);
}

/* One write of which nobody knows that it is a commit, and the flush that its reader posts. */
static void group(int i)
{
	struct fi_cq_tagged_entry entry;

	expect_accepted(rig_write(rig, mhp, CONTEXT(i)));
	fake_complete(&rig->fake, SIZE_MAX);
	if (fi_cq_read(rig->cq, &entry, 1) != -FI_EAGAIN)
		exit(1);
	fake_complete(&rig->fake, SIZE_MAX);
	expect_completion(rig->cq);
}

/* The agent works when the application at the target polls. */
static void let_agent_work(void)
{
	struct fi_cq_tagged_entry entry;

	fake_complete(&pair->home->fake, SIZE_MAX);
	if (fi_cq_read(pair->away->cq, &entry, 1) != -FI_EAGAIN)
		exit(1);
	fake_complete(&pair->away->fake, SIZE_MAX);
}

static void agent_commit(int i, size_t size, uint64_t flags)
{
	expect_accepted(pair_put(pair, DMP, 0, size, CONTEXT(i), FI_COMMIT | flags));
	let_agent_work();
	expect_completion(pair->home->cq);
}

/* A commit by the agent. */
static void agent(int i)
{
	agent_commit(i, SIZE, 0);
}

/* ... of data that fit no request. */
static void agent_large(int i)
{
	agent_commit(i, PAIR_LARGE, 0);
}

/* ... that is fenced behind a write that needs the agent, too. */
static void agent_fenced(int i)
{
	expect_accepted(pair_put(pair, DMP, 4096, SIZE, CONTEXT(i), 0));
	fake_complete(&pair->home->fake, SIZE_MAX);
	expect_completion(pair->home->cq);
	agent_commit(i, SIZE, FI_FENCE);
}

/* The round in which the agent's thread serves one request, with a flush that does nothing. */
static void serve_round(int i)
{
	(void) i;
	if (!pmv_service_round(&pair->to->domain->agent, PMV_WHOLE_SLICE)) {
		fprintf(stderr, "bench_calls: the agent has found no request\n");
		exit(1);
	}
}

static void count_served(int i, size_t size)
{
	expect_accepted(pair_put(pair, DMP, 0, size, CONTEXT(i), FI_COMMIT));
	fake_complete(&pair->home->fake, SIZE_MAX);
	if (warm)
		count_here(serve_round, 1);
	else
		serve_round(i);
	fake_complete(&pair->away->fake, SIZE_MAX);
	pmv_queue_progress(pair->to->initiator.owner.tx_queue, false);
	expect_completion(pair->home->cq);
}

/* The target's part alone, of small data in the request ... */
static void serve(int i)
{
	count_served(i, SIZE);
}

/* ... and of data that were written before it. */
static void serve_flush(int i)
{
	count_served(i, PAIR_LARGE);
}

/* A write that nobody has to remember. */
static void uncommitted(int i)
{
	expect_accepted(rig_write(rig, mhp, CONTEXT(i)));
	fake_complete(&rig->fake, SIZE_MAX);
	expect_completion(rig->cq);
}

/* A write that the agent would be asked to write back. */
static void tracked(int i)
{
	size_t offset = (size_t) (i % 4) * 4096;

	expect_accepted(fi_write(pair->home->ep, pair->source + offset, SIZE, NULL, 0,
				 pair_addr(pair, DMP, offset), pair_key(pair, DMP), CONTEXT(i)));
	fake_complete(&pair->home->fake, SIZE_MAX);
	expect_completion(pair->home->cq);
}

static void poll_nothing(int i)
{
	struct fi_cq_tagged_entry entry;

	(void) i;
	if (fi_cq_read(rig->cq, &entry, 1) != -FI_EAGAIN)
		exit(1);
}

/* A message to a peer that has an agent. */
static void send_message(int i)
{
	expect_accepted(fi_send(pair->home->ep, pair->source, SIZE, NULL, 0, CONTEXT(i)));
	fake_complete(&pair->home->fake, SIZE_MAX);
	expect_completion(pair->home->cq);
}

enum how {
	WHOLE,     /* the call is counted as it is */
	PROGRESS,  /* the same; agents work inside the application's calls */
	GROUP,     /* the same as WHOLE, and every write is a commit */
	TIMED,     /* the same as WHOLE, and some commits are timed */
	PART,      /* it counts a part of itself */
	RDM,       /* the same, over FI_EP_RDM; the peer's memory is MHP ... */
	RDM_AGENT, /* ... or DMP */
};

static const struct operation {
	const char *name;
	void (*call)(int i);
	enum how how;
	const char *what;
} operations[] = {
	{"commit", commit, WHOLE, "one-sided commit"},
	{"commit_timed", commit, TIMED, "the same with FI_PMEMVERBS_METRICS"},
	{"fenced", fenced, WHOLE, "write, and one-sided commit that is fenced behind it"},
	{"group", group, GROUP, "write with FI_PMEMVERBS_COMMIT=all, one-sided"},
	{"agent", agent, PROGRESS, "commit by the agent, both sides"},
	{"agent_large", agent_large, PROGRESS, "the same of data that fit no request"},
	{"agent_fenced", agent_fenced, PROGRESS,
	 "write, and commit by the agent that is fenced behind it"},
	{"serve", serve, PART, "the agent's part of that"},
	{"flush", serve_flush, PART, "the same of data that were written before"},
	{"write", uncommitted, WHOLE, "uncommitted write"},
	{"tracked", tracked, WHOLE, "uncommitted write that is remembered"},
	{"poll", poll_nothing, WHOLE, "poll that finds nothing"},
	{"send", send_message, WHOLE, "uncommitted message"},
	{"rdm", bench_rdm_commit, RDM, "one-sided commit over RxM and tcp: the call"},
	{"rdm_agent", bench_rdm_commit, RDM_AGENT,
	 "commit by the agent over RxM and tcp: the call"},
};

#define NUM_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static int usage(void)
{
	fprintf(stderr, "usage: bench_calls OPERATION [TIMES]\nOperations:\n");
	for (size_t i = 0; i < NUM_OPERATIONS; i++)
		fprintf(stderr, "  %-12s %s\n", operations[i].name, operations[i].what);
	return 2;
}

static bool counts_part(const struct operation *operation)
{
	return operation->how == PART || operation->how == RDM || operation->how == RDM_AGENT;
}

static void run(const struct operation *operation, int times)
{
	for (int i = 0; i < WARM_UP; i++)
		operation->call(i);
	warm = true;
	if (!counts_part(operation))
		count_here(operation->call, times);
	for (int i = 0; counts_part(operation) && i < times; i++)
		operation->call(i);
}

static int run_over_fake_core(const struct operation *operation, int times)
{
	pair = pair_open(&(struct pair_options){.stores = true});
	pair->forgets_events = true;
	pmv_setting.commit_all = operation->how == GROUP;
	/* There is no such directory, and no socket. */
	pmv_setting.metrics = operation->how == TIMED ? "/nonexistent" : NULL;
	rig = rig_open(NULL);
	mhp = KEY_MHP;
	/* As by default, though no thread runs: nothing is asked of it. */
	if (operation->how != PROGRESS)
		pmv_setting.agent = PMV_AGENT_THREAD;
	run(operation, times);
	rig_close(rig);
	pair_close(pair);
	return 0;
}

static int run_over_rxm(const struct operation *operation, int times)
{
	if (!bench_rdm_open(operation->how == RDM ? "mhp" : "dmp", count_here))
		return 1;
	run(operation, times);
	bench_rdm_close();
	return 0;
}

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 1000;
	const struct operation *operation = NULL;

	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (size_t i = 0; i < NUM_OPERATIONS; i++)
			printf("%s\t%s\n", operations[i].name, operations[i].what);
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < NUM_OPERATIONS; i++) {
		if (!strcmp(argv[1], operations[i].name))
			operation = &operations[i];
	}
	if (!operation || times <= 0)
		return usage();
	if (operation->how == RDM || operation->how == RDM_AGENT)
		return run_over_rxm(operation, times);
	return run_over_fake_core(operation, times);
}
