/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_bench.c -- YCSB-T by chains and by FaRM's protocol, in turns: each transaction reads a key,
 * changes its value, and commits
 *
 * The skew grows from 0 (all keys are equally frequent) to 1.6.  A transaction is repeated until it
 * is made, and its time has all attempts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/random.h"
#include "../common/turns.h"
#include "tx_run.h"

#define SKEWS 5U
#define SKEW(round) (0.4 * (round))

static const struct tx_protocol *const protocols[] = {&tx_chains, &tx_farm};

enum { FARM = 1, DESIGNS };

struct bench {
	const struct options *opts;
	struct options farm; /* with the other server's port */
	struct tx_client clients[TURNS_CLIENTS][DESIGNS];
	struct random randoms[TURNS_CLIENTS];
	struct zipf zipfs[SKEWS];
	struct turns turns;
};

static int operate(void *arg, unsigned int number, unsigned int design, unsigned int round)
{
	struct bench *bench = arg;
	struct tx_client *client = &bench->clients[number][design];
	uint64_t key = zipf_item(&bench->zipfs[round], &bench->randoms[number]);
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
		tx_pause(tries++);
	}
}

static void tell(void *arg, unsigned int round)
{
	struct bench *bench = arg;
	double medians[DESIGNS];

	for (unsigned int design = 0; design < bench->turns.designs; design++) {
		printf("%.1f  %-8s ", SKEW(round), protocols[design]->name);
		medians[design] = turns_print(&bench->turns, design);
	}
	if (bench->turns.designs > FARM)
		printf("%.1f  chains / farm: throughput %.2f, median %.2f\n", SKEW(round),
		       turns_ratio(&bench->turns), medians[0] / medians[FARM]);
}

static int failed(const struct tx_client *client, int ret)
{
	if (ret)
		fprintf(stderr, "%s\n",
			client->link.error.text[0] ? client->link.error.text : strerror(-ret));
	return ret;
}

/* connect_all -- each client, before anything is measured */
static int connect_all(struct bench *bench)
{
	uint64_t keys = UINT64_MAX;

	for (unsigned int i = 0; i < bench->turns.clients * bench->turns.designs; i++) {
		unsigned int number = i / bench->turns.designs, design = i % bench->turns.designs;
		struct tx_client *client = &bench->clients[number][design];
		int ret;

		random_seed(&bench->randoms[number], (unsigned int) bench->opts->seed, number);
		client->link.spins = true;
		ret = tx_connect(client, design == FARM ? &bench->farm : bench->opts,
				 protocols[design]);
		if (failed(client, ret))
			return ret;
		if (client->link.buffers->lease.slots < keys)
			keys = client->link.buffers->lease.slots;
	}
	for (unsigned int round = 0; round < SKEWS; round++) {
		if (zipf_make(&bench->zipfs[round], keys, SKEW(round)))
			return report("calloc", -FI_ENOMEM);
	}
	return 0;
}

static int run(struct bench *bench)
{
	int ret = connect_all(bench);

	if (ret)
		return ret;
	printf("skew %-8s ", "protocol");
	turns_print_header();
	ret = turns_run(&bench->turns);
	for (unsigned int i = 0; i < bench->turns.clients * DESIGNS; i++) {
		const struct tx_client *client = &bench->clients[i / DESIGNS][i % DESIGNS];

		if (client->link.error.text[0])
			failed(client, bench->turns.workers[i / DESIGNS].ret);
	}
	return ret;
}

int tx_bench(const struct options *opts, unsigned int clients, const char *farm_port)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	int ret;

	if (!bench || clients > TURNS_CLIENTS) {
		free(bench);
		return report("the number of clients", -FI_EINVAL);
	}
	bench->opts = opts;
	bench->farm = *opts;
	bench->farm.dst_port = farm_port;
	bench->turns = (struct turns){
		.clients = clients,
		.designs = farm_port ? DESIGNS : FARM,
		.rounds = SKEWS,
		.warmup = opts->warmup,
		.iterations = opts->iterations,
		.operate = operate,
		.tell = tell,
		.arg = bench,
	};
	ret = run(bench);
	for (unsigned int i = 0; i < clients * DESIGNS; i++)
		tx_disconnect(&bench->clients[i / DESIGNS][i % DESIGNS]);
	for (unsigned int round = 0; round < SKEWS; round++)
		zipf_free(&bench->zipfs[round]);
	free(bench);
	return ret;
}
