/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_bench.c -- YCSB's workloads A (half of it writes) and C (none), with chains and with locks
 *
 * All clients do a few operations with chains, then as many on other blocks with locks, and so on:
 * both meet the same disturbances.  Each turn is timed from the first client's begin to the last
 * one's end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/random.h"
#include "rs_lock.h"
#include "rs_run.h"
#include "../common/stats.h"

#define TURN 25UL
#define THETA 0.99
#define CLIENTS_MAX 32U

enum design { CHAINS, LOCKS, DESIGNS };
enum what { GET, PUT, WHATS };

static const char *const names[DESIGNS] = {"chains", "locks"};

struct bench;

struct worker {
	struct bench *bench;
	pthread_t thread;
	struct rs_client client;
	struct random random;
	int ret;
};

struct bench {
	const struct options *opts;
	unsigned int updates; /* in percent */
	unsigned int clients;
	struct worker workers[CLIENTS_MAX];
	uint64_t blocks; /* of each design */
	struct zipf zipf;
	pthread_barrier_t barrier;
	bool failed; /* looked at behind a barrier */
	/* What the first worker writes between barriers. */
	uint64_t begun, elapsed[2][DESIGNS];
	/* Each worker has a part of these. */
	uint64_t *samples[DESIGNS];
};

static int operate(struct worker *worker, enum design design, bool uniform)
{
	struct bench *bench = worker->bench;
	struct rs_client *client = &worker->client;
	uint64_t item = uniform ? random_below(&worker->random, bench->blocks)
				: zipf_item(&bench->zipf, &worker->random);
	bool is_put = random_below(&worker->random, 100) < bench->updates;
	uint64_t block = design * bench->blocks + item;

	if (design == CHAINS)
		return is_put ? rs_put(client, block) : rs_get(client, block);
	return is_put ? rs_lock_put(client, block) : rs_lock_get(client, block);
}

/* meet -- all workers; true: one of them has failed */
static bool meet(struct worker *worker)
{
	if (worker->ret)
		__atomic_store_n(&worker->bench->failed, true, __ATOMIC_RELAXED);
	pthread_barrier_wait(&worker->bench->barrier);
	return __atomic_load_n(&worker->bench->failed, __ATOMIC_RELAXED);
}

/* take_turn -- sample: where the time of each operation goes to, or NULL */
static void take_turn(struct worker *worker, enum design design, bool uniform, unsigned long count,
		      uint64_t *sample)
{
	struct bench *bench = worker->bench;
	bool is_first = worker == bench->workers;
	uint64_t start;

	meet(worker);
	if (is_first)
		bench->begun = now_ns();
	for (unsigned long i = 0; !worker->ret && i < count; i++) {
		start = now_ns();
		worker->ret = operate(worker, design, uniform);
		if (sample)
			sample[i] = now_ns() - start;
	}
	meet(worker);
	if (is_first && sample)
		bench->elapsed[uniform][design] += now_ns() - bench->begun;
}

/* take_turns -- so many operations of each design */
static void take_turns(struct worker *worker, bool uniform, unsigned long operations, bool measured)
{
	const struct bench *bench = worker->bench;
	size_t at = (size_t) (worker - bench->workers) * bench->opts->iterations;
	unsigned long count;

	for (unsigned long done = 0; done < operations; done += count) {
		count = operations - done < TURN ? operations - done : TURN;
		for (enum design design = CHAINS; design < DESIGNS; design++)
			take_turn(worker, design, uniform, count,
				  measured ? bench->samples[design] + at + done : NULL);
		if (meet(worker))
			return;
	}
}

/* ---- the table ---- */

static void print_row(const struct bench *bench, enum design design, bool uniform)
{
	size_t count = bench->clients * bench->opts->iterations;
	uint64_t *samples = bench->samples[design];

	sort_samples(samples, count);
	printf("%-8s %-8s %8u %10zu %12.2f %12.2f %12.2f\n", uniform ? "uniform" : "zipf",
	       names[design], bench->clients, count, samples[count / 2] / 1e3,
	       samples[count * 99 / 100] / 1e3,
	       (double) count * 1e9 / (double) bench->elapsed[uniform][design]);
}

static void print_all(const struct bench *bench, bool uniform)
{
	const uint64_t *elapsed = bench->elapsed[uniform];

	for (enum design design = CHAINS; design < DESIGNS; design++)
		print_row(bench, design, uniform);
	printf("%-8s chains / locks: throughput %.2f\n", uniform ? "uniform" : "zipf",
	       (double) elapsed[LOCKS] / (double) elapsed[CHAINS]);
	fflush(stdout);
}

/* ---- the program ---- */

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct bench *bench = worker->bench;

	for (int uniform = 1; uniform >= 0; uniform--) {
		take_turns(worker, uniform, bench->opts->warmup, false);
		take_turns(worker, uniform, bench->opts->iterations, true);
		if (meet(worker))
			break;
		if (worker == bench->workers)
			print_all(bench, uniform);
		meet(worker);
	}
	rs_failed(&worker->client, worker->ret);
	return NULL;
}

/* connect_all -- each client, to all targets, before anything is measured */
static int connect_all(struct bench *bench)
{
	int ret = 0;

	for (unsigned int i = 0; i < bench->clients && !ret; i++) {
		struct worker *worker = &bench->workers[i];

		worker->bench = bench;
		worker->client.spins = true;
		random_seed(&worker->random, (unsigned int) bench->opts->seed, i);
		ret = rs_open(&worker->client, bench->opts);
		if (!ret)
			ret = rs_ask(&worker->client, RS_TAG, 0, worker->client.count, false);
		if (rs_failed(&worker->client, ret))
			return ret;
	}
	bench->blocks = rs_blocks(&bench->workers[0].client) / DESIGNS;
	if (!bench->blocks)
		return report("the number of blocks", -FI_EINVAL);
	return zipf_make(&bench->zipf, bench->blocks, THETA) ? report("calloc", -FI_ENOMEM) : ret;
}

static int allocate(struct bench *bench)
{
	for (enum design design = CHAINS; design < DESIGNS; design++) {
		bench->samples[design] = calloc(bench->clients * bench->opts->iterations,
						sizeof(*bench->samples[design]));
		if (!bench->samples[design])
			return report("calloc", -FI_ENOMEM);
	}
	return 0;
}

static int run(struct bench *bench)
{
	int ret = 0;

	printf("%-8s %-8s %8s %10s %12s %12s %12s\n", "blocks", "design", "clients", "operations",
	       "median us", "p99 us", "per second");
	/* Without all of them nobody would come through the barrier. */
	pthread_barrier_init(&bench->barrier, NULL, bench->clients);
	for (unsigned int i = 0; i < bench->clients; i++) {
		if (pthread_create(&bench->workers[i].thread, NULL, work, &bench->workers[i]))
			abort();
	}
	for (unsigned int i = 0; i < bench->clients; i++) {
		pthread_join(bench->workers[i].thread, NULL);
		ret = ret ? ret : bench->workers[i].ret;
	}
	pthread_barrier_destroy(&bench->barrier);
	return ret;
}

int rs_bench(const struct options *opts, char workload, unsigned int clients)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	int ret;

	if (!bench || clients > CLIENTS_MAX) {
		free(bench);
		return report("the number of clients", -FI_EINVAL);
	}
	bench->opts = opts;
	bench->clients = clients;
	bench->updates = workload == 'a' ? 50 : 0;
	ret = allocate(bench);
	if (!ret)
		ret = connect_all(bench);
	if (!ret)
		ret = run(bench);
	for (unsigned int i = 0; i < clients; i++)
		rs_close(&bench->workers[i].client);
	for (enum design design = CHAINS; design < DESIGNS; design++)
		free(bench->samples[design]);
	zipf_free(&bench->zipf);
	free(bench);
	return ret;
}
