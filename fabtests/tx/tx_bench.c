/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_bench.c -- YCSB-T: each transaction reads a key, changes its value, and commits
 *
 * The skew grows from 0 (all keys are equally frequent) to 1.6.  All clients do a few transactions
 * with chains, then as many by FaRM's protocol, and so on: both meet the same disturbances.  Each
 * turn is timed from the first client's begin to the last one's end.  A transaction is repeated
 * until it is made, and its time has all attempts.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/random.h"
#include "../common/stats.h"
#include "tx_run.h"

#define TURN 25UL
#define SKEWS 5U /* in steps of 0.4 */
#define CLIENTS_MAX 32U

enum design { CHAINS, FARM, DESIGNS };

struct bench;

struct worker {
	struct bench *bench;
	pthread_t thread;
	struct tx_client clients[DESIGNS];
	struct random random;
	unsigned long aborts[DESIGNS];
	int ret;
};

struct bench {
	const struct options *opts;
	unsigned int clients, designs;
	struct options farm; /* with the other server's port */
	struct worker workers[CLIENTS_MAX];
	struct zipf zipfs[SKEWS];
	pthread_barrier_t barrier;
	bool failed; /* looked at behind a barrier */
	/* What the first worker writes between barriers. */
	uint64_t begun, elapsed[DESIGNS];
	/* Each worker has a part of these. */
	uint64_t *samples[DESIGNS];
};

static int transact(struct worker *worker, enum design design, uint64_t key)
{
	struct tx_client *client = &worker->clients[design];
	struct tx_access *access;
	unsigned int tries = 0;
	int ret;

	for (;;) {
		tx_begin(client);
		ret = tx_read(client, key, &access);
		if (ret)
			return ret;
		access->writes = true;
		access->record.value[0]++;
		ret = tx_commit(client);
		if (ret != -FI_EAGAIN)
			return ret;
		worker->aborts[design]++;
		tx_pause(tries++);
	}
}

/* meet -- all workers; true: one of them has failed */
static bool meet(struct worker *worker)
{
	if (worker->ret)
		__atomic_store_n(&worker->bench->failed, true, __ATOMIC_RELAXED);
	pthread_barrier_wait(&worker->bench->barrier);
	return __atomic_load_n(&worker->bench->failed, __ATOMIC_RELAXED);
}

/* take_turn -- sample: where the time of each transaction goes to, or NULL */
static void take_turn(struct worker *worker, enum design design, const struct zipf *zipf,
		      unsigned long count, uint64_t *sample)
{
	struct bench *bench = worker->bench;
	bool is_first = worker == bench->workers;
	uint64_t start;

	meet(worker);
	if (is_first)
		bench->begun = now_ns();
	for (unsigned long i = 0; !worker->ret && i < count; i++) {
		start = now_ns();
		worker->ret = transact(worker, design, zipf_item(zipf, &worker->random));
		if (sample)
			sample[i] = now_ns() - start;
	}
	meet(worker);
	if (is_first && sample)
		bench->elapsed[design] += now_ns() - bench->begun;
}

/* take_turns -- so many transactions of each design */
static void take_turns(struct worker *worker, const struct zipf *zipf, unsigned long transactions,
		       bool measured)
{
	const struct bench *bench = worker->bench;
	size_t at = (size_t) (worker - bench->workers) * bench->opts->iterations;
	unsigned long count;

	for (unsigned long done = 0; done < transactions; done += count) {
		count = transactions - done < TURN ? transactions - done : TURN;
		for (enum design design = CHAINS; design < bench->designs; design++)
			take_turn(worker, design, zipf, count,
				  measured ? bench->samples[design] + at + done : NULL);
		if (meet(worker))
			return;
	}
}

/* ---- the table ---- */

/* print_row -- and begin anew; returns the median */
static double print_row(struct bench *bench, enum design design, unsigned int skew)
{
	size_t count = bench->clients * bench->opts->iterations;
	uint64_t *samples = bench->samples[design];
	unsigned long aborts = 0;

	for (unsigned int i = 0; i < bench->clients; i++) {
		aborts += bench->workers[i].aborts[design];
		bench->workers[i].aborts[design] = 0;
	}
	sort_samples(samples, count);
	printf("%u.%u  %-8s %8u %12zu %8lu %12.2f %12.2f %12.2f\n", skew * 4 / 10, skew * 4 % 10,
	       bench->workers[0].clients[design].protocol->name, bench->clients, count, aborts,
	       samples[count / 2] / 1e3, samples[count * 99 / 100] / 1e3,
	       (double) count * 1e9 / (double) bench->elapsed[design]);
	return (double) samples[count / 2];
}

static void print_all(struct bench *bench, unsigned int skew)
{
	double medians[DESIGNS];

	for (enum design design = CHAINS; design < bench->designs; design++)
		medians[design] = print_row(bench, design, skew);
	if (bench->designs > FARM)
		printf("%u.%u  chains / farm: throughput %.2f, median %.2f\n", skew * 4 / 10,
		       skew * 4 % 10,
		       (double) bench->elapsed[FARM] / (double) bench->elapsed[CHAINS],
		       medians[CHAINS] / medians[FARM]);
	memset(bench->elapsed, 0, sizeof(bench->elapsed));
	fflush(stdout);
}

/* ---- the program ---- */

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct bench *bench = worker->bench;

	for (unsigned int skew = 0; skew < SKEWS; skew++) {
		take_turns(worker, &bench->zipfs[skew], bench->opts->warmup, false);
		/* What was counted until now is not part of a row. */
		memset(worker->aborts, 0, sizeof(worker->aborts));
		take_turns(worker, &bench->zipfs[skew], bench->opts->iterations, true);
		if (meet(worker))
			break;
		if (worker == bench->workers)
			print_all(bench, skew);
		meet(worker);
	}
	return NULL;
}

static int fail(const struct tx_client *client, int ret)
{
	if (ret)
		fprintf(stderr, "%s\n",
			client->link.error.text[0] ? client->link.error.text : strerror(-ret));
	return ret;
}

/* connect_all -- each client, before anything is measured */
static int connect_all(struct bench *bench)
{
	const struct tx_protocol *const protocols[] = {&tx_chains, &tx_farm};
	uint64_t keys = UINT64_MAX;

	for (unsigned int i = 0; i < bench->clients * bench->designs; i++) {
		struct worker *worker = &bench->workers[i / bench->designs];
		enum design design = i % bench->designs;
		struct tx_client *client = &worker->clients[design];

		worker->bench = bench;
		random_seed(&worker->random, (unsigned int) bench->opts->seed, i);
		client->link.spins = true;
		worker->ret = tx_connect(client, design == FARM ? &bench->farm : bench->opts,
					 protocols[design]);
		if (fail(client, worker->ret))
			return worker->ret;
		if (client->link.buffers->lease.slots < keys)
			keys = client->link.buffers->lease.slots;
	}
	for (unsigned int skew = 0; skew < SKEWS; skew++) {
		if (zipf_make(&bench->zipfs[skew], keys, 0.4 * skew))
			return report("calloc", -FI_ENOMEM);
	}
	return 0;
}

static int allocate(struct bench *bench)
{
	for (enum design design = CHAINS; design < bench->designs; design++) {
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

	printf("skew %-8s %8s %12s %8s %12s %12s %12s\n", "protocol", "clients", "transactions",
	       "aborts", "median us", "p99 us", "per second");
	/* Without all of them nobody would come through the barrier. */
	pthread_barrier_init(&bench->barrier, NULL, bench->clients);
	for (unsigned int i = 0; i < bench->clients; i++) {
		if (pthread_create(&bench->workers[i].thread, NULL, work, &bench->workers[i]))
			abort();
	}
	for (unsigned int i = 0; i < bench->clients; i++) {
		struct worker *worker = &bench->workers[i];

		pthread_join(worker->thread, NULL);
		for (enum design design = CHAINS; worker->ret && design < bench->designs; design++)
			fail(&worker->clients[design], worker->ret);
		ret = ret ? ret : worker->ret;
	}
	pthread_barrier_destroy(&bench->barrier);
	return ret;
}

int tx_bench(const struct options *opts, unsigned int clients, const char *farm_port)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	int ret;

	if (!bench || clients > CLIENTS_MAX) {
		free(bench);
		return report("the number of clients", -FI_EINVAL);
	}
	bench->opts = opts;
	bench->farm = *opts;
	bench->farm.dst_port = farm_port;
	bench->clients = clients;
	bench->designs = farm_port ? DESIGNS : FARM;
	ret = allocate(bench);
	if (!ret)
		ret = connect_all(bench);
	if (!ret)
		ret = run(bench);
	for (unsigned int i = 0; i < clients * DESIGNS; i++)
		tx_disconnect(&bench->workers[i / DESIGNS].clients[i % DESIGNS]);
	for (enum design design = CHAINS; design < DESIGNS; design++)
		free(bench->samples[design]);
	for (unsigned int skew = 0; skew < SKEWS; skew++)
		zipf_free(&bench->zipfs[skew]);
	free(bench);
	return ret;
}
