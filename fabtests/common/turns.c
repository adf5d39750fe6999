/* SPDX-License-Identifier: BSD-2-Clause */
/* turns.c -- several clients measure designs in turns */
#include "turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "stats.h"

#define TURN 25UL

/* meet -- all workers; true: one of them has failed */
static bool meet(struct turns_worker *worker)
{
	struct turns *turns = worker->turns;

	if (worker->ret)
		__atomic_store_n(&turns->failed, true, __ATOMIC_RELAXED);
	pthread_barrier_wait(&turns->barrier);
	return __atomic_load_n(&turns->failed, __ATOMIC_RELAXED);
}

/* take_turn -- sample: where the time of each operation goes to, or NULL */
static void take_turn(struct turns_worker *worker, unsigned int design, unsigned int round,
		      unsigned long count, uint64_t *sample)
{
	struct turns *turns = worker->turns;
	uint64_t start;

	meet(worker);
	if (!worker->number)
		turns->begun = now_ns();
	for (unsigned long i = 0; !worker->ret && i < count; i++) {
		start = now_ns();
		worker->ret = turns->operate(turns->arg, worker->number, design, round);
		if (sample)
			sample[i] = now_ns() - start;
	}
	meet(worker);
	if (!worker->number && sample)
		turns->elapsed[design] += now_ns() - turns->begun;
}

/* take_turns -- so many operations of each design */
static void take_turns(struct turns_worker *worker, unsigned int round, unsigned long operations,
		       bool measured)
{
	const struct turns *turns = worker->turns;
	size_t at = worker->number * turns->iterations;
	unsigned long count;

	for (unsigned long done = 0; done < operations; done += count) {
		count = operations - done < TURN ? operations - done : TURN;
		for (unsigned int design = 0; design < turns->designs; design++)
			take_turn(worker, design, round, count,
				  measured ? turns->samples[design] + at + done : NULL);
		if (meet(worker))
			return;
	}
}

static void *work(void *arg)
{
	struct turns_worker *worker = arg;
	struct turns *turns = worker->turns;

	for (unsigned int round = 0; round < turns->rounds; round++) {
		take_turns(worker, round, turns->warmup, false);
		take_turns(worker, round, turns->iterations, true);
		if (meet(worker))
			break;
		if (!worker->number) {
			turns->tell(turns->arg, round);
			fflush(stdout);
			memset(turns->elapsed, 0, sizeof(turns->elapsed));
		}
		meet(worker);
	}
	return NULL;
}

static int allocate(struct turns *turns)
{
	for (unsigned int design = 0; design < turns->designs; design++) {
		turns->samples[design] =
			calloc(turns->clients * turns->iterations, sizeof(*turns->samples[design]));
		if (!turns->samples[design])
			return report("calloc", -FI_ENOMEM);
	}
	return 0;
}

int turns_run(struct turns *turns)
{
	int ret = allocate(turns);

	/* Without all of them nobody would come through the barrier. */
	if (!ret)
		pthread_barrier_init(&turns->barrier, NULL, turns->clients);
	for (unsigned int i = 0; !ret && i < turns->clients; i++) {
		struct turns_worker *worker = &turns->workers[i];

		worker->turns = turns;
		worker->number = i;
		if (pthread_create(&worker->thread, NULL, work, worker))
			abort();
	}
	for (unsigned int i = 0; i < turns->clients && turns->workers[i].turns; i++) {
		pthread_join(turns->workers[i].thread, NULL);
		ret = ret ? ret : turns->workers[i].ret;
	}
	for (unsigned int design = 0; design < turns->designs; design++)
		free(turns->samples[design]);
	return ret;
}

void turns_print_header(void)
{
	printf("%8s %10s %12s %12s %12s\n", "clients", "operations", "median us", "p99 us",
	       "per second");
}

double turns_print(struct turns *turns, unsigned int design)
{
	size_t count = turns->clients * turns->iterations;
	uint64_t *samples = turns->samples[design];

	sort_samples(samples, count);
	printf("%8u %10zu %12.2f %12.2f %12.2f\n", turns->clients, count, samples[count / 2] / 1e3,
	       samples[count * 99 / 100] / 1e3,
	       (double) count * 1e9 / (double) turns->elapsed[design]);
	return (double) samples[count / 2];
}

double turns_ratio(const struct turns *turns)
{
	return (double) turns->elapsed[1] / (double) turns->elapsed[0];
}
