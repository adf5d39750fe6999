/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * turns.h -- several clients measure designs in turns
 *
 * Each client is a thread.  All of them do a few operations with the first design, then as many
 * with the next one, and so on: all designs meet the same disturbances.  Each turn is timed from
 * the first client's begin to the last one's end.
 */
#ifndef PMEM_TURNS_H
#define PMEM_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define TURNS_CLIENTS 32U
#define TURNS_DESIGNS 2U

struct turns;

struct turns_worker {
	struct turns *turns;
	unsigned int number;
	pthread_t thread;
	int ret; /* a negative fi_errno: operate has failed, and no more is done */
};

/* The caller sets what stands in front of `workers`. */
struct turns {
	unsigned int clients, designs, rounds;
	unsigned long warmup, iterations; /* operations of each client, in each round */
	/* operate -- as that client, in its thread */
	int (*operate)(void *arg, unsigned int client, unsigned int design, unsigned int round);
	/* tell -- a round has ended: turns_print and turns_ratio */
	void (*tell)(void *arg, unsigned int round);
	void *arg;
	struct turns_worker workers[TURNS_CLIENTS];
	pthread_barrier_t barrier;
	bool failed; /* looked at behind a barrier */
	/* What the first worker writes between barriers. */
	uint64_t begun, elapsed[TURNS_DESIGNS];
	/* Each worker has a part of these. */
	uint64_t *samples[TURNS_DESIGNS];
};

/* turns_run -- all rounds: 0, or a negative fi_errno, which is also in the worker that has failed
 */
int turns_run(struct turns *turns);

void turns_print_header(void);

/* turns_print -- the rest of a row: clients, operations, median and p99 in microseconds, and how
 * many a second; returns the median */
double turns_print(struct turns *turns, unsigned int design);

/* turns_ratio -- of the first two designs' throughputs */
double turns_ratio(const struct turns *turns);

#endif /* PMEM_TURNS_H */
