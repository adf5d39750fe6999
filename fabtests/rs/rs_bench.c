/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_bench.c -- YCSB's workloads A (half of it writes) and C (none), with chains and with locks, in
 * turns, each on blocks of its own
 */
#include <stdio.h>
#include <stdlib.h>

#include "rs_lock.h"
#include "rs_run.h"
#include "../common/random.h"
#include "../common/turns.h"

#define THETA 0.99

enum design { CHAINS, LOCKS, DESIGNS };

static const char *const names[DESIGNS] = {"chains", "locks"};
static const char *const rounds[] = {"uniform", "zipf"};

struct bench {
	const struct options *opts;
	unsigned int updates; /* in percent */
	struct rs_client clients[TURNS_CLIENTS];
	struct random randoms[TURNS_CLIENTS];
	uint64_t blocks; /* of each design */
	struct zipf zipf;
	struct turns turns;
};

static int operate(void *arg, unsigned int number, unsigned int design, unsigned int round)
{
	struct bench *bench = arg;
	struct rs_client *client = &bench->clients[number];
	struct random *random = &bench->randoms[number];
	uint64_t item =
		round ? zipf_item(&bench->zipf, random) : random_below(random, bench->blocks);
	bool is_put = random_below(random, 100) < bench->updates;
	uint64_t block = design * bench->blocks + item;

	if (design == CHAINS)
		return is_put ? rs_put(client, block) : rs_get(client, block);
	return is_put ? rs_lock_put(client, block) : rs_lock_get(client, block);
}

static void tell(void *arg, unsigned int round)
{
	struct bench *bench = arg;

	for (enum design design = CHAINS; design < DESIGNS; design++) {
		printf("%-8s %-8s ", rounds[round], names[design]);
		turns_print(&bench->turns, design);
	}
	printf("%-8s chains / locks: throughput %.2f\n", rounds[round], turns_ratio(&bench->turns));
}

/* connect_all -- each client, to all targets, before anything is measured */
static int connect_all(struct bench *bench)
{
	int ret = 0;

	for (unsigned int i = 0; i < bench->turns.clients && !ret; i++) {
		struct rs_client *client = &bench->clients[i];

		client->spins = true;
		random_seed(&bench->randoms[i], (unsigned int) bench->opts->seed, i);
		ret = rs_open(client, bench->opts);
		if (!ret)
			ret = rs_ask(client, RS_TAG, 0, client->count, false);
		if (rs_failed(client, ret))
			return ret;
	}
	bench->blocks = rs_blocks(&bench->clients[0]) / DESIGNS;
	if (!bench->blocks)
		return report("the number of blocks", -FI_EINVAL);
	return zipf_make(&bench->zipf, bench->blocks, THETA) ? report("calloc", -FI_ENOMEM) : ret;
}

static int run(struct bench *bench)
{
	int ret = connect_all(bench);

	if (ret)
		return ret;
	printf("%-8s %-8s ", "blocks", "design");
	turns_print_header();
	ret = turns_run(&bench->turns);
	for (unsigned int i = 0; i < bench->turns.clients; i++)
		rs_failed(&bench->clients[i], bench->turns.workers[i].ret);
	return ret;
}

int rs_bench(const struct options *opts, char workload, unsigned int clients)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	int ret;

	if (!bench || clients > TURNS_CLIENTS) {
		free(bench);
		return report("the number of clients", -FI_EINVAL);
	}
	bench->opts = opts;
	bench->updates = workload == 'a' ? 50 : 0;
	bench->turns = (struct turns){
		.clients = clients,
		.designs = DESIGNS,
		.rounds = sizeof(rounds) / sizeof(rounds[0]),
		.warmup = opts->warmup,
		.iterations = opts->iterations,
		.operate = operate,
		.tell = tell,
		.arg = bench,
	};
	ret = run(bench);
	for (unsigned int i = 0; i < clients; i++)
		rs_close(&bench->clients[i]);
	zipf_free(&bench->zipf);
	free(bench);
	return ret;
}
