/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_bench.c -- YCSB's workloads A (half of it updates) and C (none), beside designs without chains
 *
 * One operation is under way at a time.  The designs take turns with the same operations on the
 * same keys, so that all meet the same disturbances:
 * - chains: GET and PUT of this program;
 * - reads: a GET by two READs and a checksum, as Pilaf has it; and a commit of as many bytes to
 *   a buffer that nobody else knows, which is less than any PUT has to do;
 * - swing: the shortest chain that makes a value and the pointer to it durable, in this order, if
 *   the value is small enough for it;
 * - rpc: a PUT by libpmemrpc, if there is a server of fi_pmem_rpc_kv.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_client.h"
#include "kv_rpc.h"
#include "kv_run.h"
#include "../common/random.h"
#include "../common/stats.h"

#define TURN 25U
#define THETA 0.99

enum design { CHAINS, READS, SWING, RPC, DESIGNS };
enum what { GET, PUT, WHATS };

struct operation {
	enum what what;
	uint64_t key;
};

struct bench {
	const struct options *opts;
	struct kv_client client;
	struct kv_rpc *rpc; /* or NULL */
	uint64_t keys;
	uint64_t reserved;    /* address of a buffer */
	uint64_t swung;       /* another one, or 0 */
	unsigned int updates; /* in percent */
	struct random random;
	struct zipf zipf;
	bool uniform;
	uint64_t *samples[DESIGNS][WHATS];
	size_t counts[DESIGNS][WHATS];
};

static const char *const names[DESIGNS][WHATS] = {
	{"get", "put"}, {"get-two-reads", "commit"}, {NULL, "swing"}, {NULL, "put-rpc"}};

/* key_of -- of the record of that number: keys are not beside each other */
static uint64_t key_of(uint64_t item)
{
	return item * 0x9e3779b97f4a7c15;
}

static bool has(const struct bench *bench, enum design design, enum what what)
{
	return names[design][what] && (design != RPC || bench->rpc) &&
	       (design != SWING || bench->opts->sizes[0] <= KV_SWING_MAX);
}

static int carry_out(struct bench *bench, enum design design, const struct operation *op)
{
	struct kv_client *client = &bench->client;
	const uint8_t *value = client->buffers->put.value;
	size_t len = bench->opts->sizes[0];

	if (op->what == GET)
		return design == CHAINS ? kv_get(client, op->key) : kv_get_twice(client, op->key);
	if (design == CHAINS)
		return kv_put(client, op->key, len);
	if (design == READS)
		return kv_write(client, bench->reserved, op->key, len);
	if (design == SWING)
		return kv_swing(client, bench->reserved, len, &bench->swung);
	return kv_rpc_put(bench->rpc, op->key, value, len);
}

/* clear_up -- what an operation leaves */
static int clear_up(struct bench *bench)
{
	uint64_t swung = bench->swung;

	bench->swung = 0;
	return swung ? kv_release(&bench->client, swung) : 0;
}

static void draw(struct bench *bench, struct operation *op)
{
	uint64_t item = bench->uniform ? random_below(&bench->random, bench->keys)
				       : zipf_item(&bench->zipf, &bench->random);

	op->key = key_of(item);
	op->what = random_below(&bench->random, 100) < bench->updates ? PUT : GET;
}

static int take_turn(struct bench *bench, const struct operation *ops, size_t count, bool measured)
{
	uint64_t start;
	int ret = 0;

	for (enum design design = CHAINS; design < DESIGNS; design++) {
		for (size_t i = 0; !ret && i < count; i++) {
			enum what what = ops[i].what;

			if (!has(bench, design, what))
				continue;
			start = now_ns();
			ret = carry_out(bench, design, &ops[i]);
			if (measured)
				bench->samples[design][what][bench->counts[design][what]++] =
					now_ns() - start;
			if (!ret)
				ret = clear_up(bench);
		}
	}
	return ret;
}

static int take_turns(struct bench *bench, size_t operations, bool measured)
{
	struct operation ops[TURN];
	size_t count;
	int ret = 0;

	for (size_t done = 0; !ret && done < operations; done += count) {
		count = operations - done < TURN ? operations - done : TURN;
		for (size_t i = 0; i < count; i++)
			draw(bench, &ops[i]);
		ret = take_turn(bench, ops, count, measured);
	}
	return ret;
}

/* ---- the table ---- */

static int print_row(struct bench *bench, enum design design, enum what what)
{
	struct measured row = {
		.provider = bench->opts->provider,
		.operation = names[design][what],
		.bytes = bench->opts->sizes[0],
		.in_flight = 1,
		.threads = 1,
		.samples = bench->samples[design][what],
		.count = bench->counts[design][what],
	};

	if (!row.count)
		return 0;
	printf("%-8s %-14s ", bench->uniform ? "uniform" : "zipf", names[design][what]);
	print_latency(&row);
	return append_csv(bench->opts->csv, bench->opts->prog, &row) ? -FI_EIO : 0;
}

/* sample -- of a design, whose samples are sorted; at: of so many parts of them */
static double sample(const struct bench *bench, enum design design, enum what what, double at)
{
	return (double)
		bench->samples[design][what][(size_t) ((double) bench->counts[design][what] * at)];
}

static void print_ratio(const struct bench *bench, enum design one, enum design other,
			enum what what)
{
	if (bench->counts[one][what] && bench->counts[other][what])
		printf("%-8s %s / %s: median %.2f, shortest %.2f\n",
		       bench->uniform ? "uniform" : "zipf", names[one][what], names[other][what],
		       sample(bench, one, what, 0.5) / sample(bench, other, what, 0.5),
		       sample(bench, one, what, 0) / sample(bench, other, what, 0));
}

static int run_keys(struct bench *bench, bool uniform)
{
	int ret;

	bench->uniform = uniform;
	memset(bench->counts, 0, sizeof(bench->counts));
	ret = take_turns(bench, bench->opts->warmup, false);
	if (!ret)
		ret = take_turns(bench, bench->opts->iterations, true);
	for (enum what what = GET; what < WHATS; what++) {
		for (enum design design = CHAINS; !ret && design < DESIGNS; design++)
			ret = print_row(bench, design, what);
	}
	/* The rows have been printed, so that their samples are sorted. */
	for (enum what what = GET; !ret && what < WHATS; what++) {
		for (enum design design = READS; design < DESIGNS; design++)
			print_ratio(bench, CHAINS, design, what);
		print_ratio(bench, SWING, READS, what);
	}
	return ret;
}

/* ---- the program ---- */

/* load -- half of the store has a key then */
static int load(struct bench *bench)
{
	struct kv_client *client = &bench->client;
	size_t len = bench->opts->sizes[0];
	int ret = 0;

	bench->keys = client->buffers->lease.slots / KV_SLOTS_A_BUFFER / 2;
	if (!bench->keys)
		bench->keys = 1;
	memset(client->buffers->put.value, 'v', len);
	for (uint64_t item = 0; !ret && item < bench->keys; item++) {
		ret = kv_put(client, key_of(item), len);
		if (!ret && bench->rpc)
			ret = kv_rpc_put(bench->rpc, key_of(item), client->buffers->put.value, len);
	}
	return ret ? ret : kv_reserve(client, &bench->reserved);
}

static int allocate(struct bench *bench)
{
	for (unsigned int i = 0; i < DESIGNS * WHATS; i++) {
		uint64_t **samples = &bench->samples[i / WHATS][i % WHATS];

		*samples = calloc(bench->opts->iterations, sizeof(**samples));
		if (!*samples)
			return report("calloc", -FI_ENOMEM);
	}
	return zipf_make(&bench->zipf, bench->keys, THETA) ? report("calloc", -FI_ENOMEM) : 0;
}

static int run(struct bench *bench, const char *rpc_port)
{
	const struct options *opts = bench->opts;
	int ret = rpc_port ? kv_rpc_open(&bench->rpc, opts->dst_addr, rpc_port,
					 (int) opts->timeout * 1000)
			   : 0;

	bench->client.spins = true;
	if (!ret)
		ret = kv_connect(&bench->client, opts);
	if (!ret)
		ret = load(bench);
	if (!ret)
		ret = allocate(bench);
	if (ret)
		return ret;
	random_seed(&bench->random, (unsigned int) opts->seed, 0);
	printf("%-8s %-14s ", "keys", "operation");
	print_latency_header();
	ret = run_keys(bench, true);
	if (!ret)
		ret = run_keys(bench, false);
	return ret ? ret : kv_release(&bench->client, bench->reserved);
}

int kv_bench(const struct options *opts, char workload, const char *rpc_port)
{
	struct bench bench = {.opts = opts, .updates = workload == 'a' ? 50 : 0};
	int ret = run(&bench, rpc_port);

	if (ret)
		fprintf(stderr, "the measurement has failed: %s\n",
			bench.client.error.text[0] ? bench.client.error.text : strerror(-ret));
	kv_disconnect(&bench.client);
	kv_rpc_close(bench.rpc);
	zipf_free(&bench.zipf);
	for (unsigned int i = 0; i < DESIGNS * WHATS; i++)
		free(bench.samples[i / WHATS][i % WHATS]);
	return ret;
}
