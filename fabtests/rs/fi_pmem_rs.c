/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_rs.c -- durable blocks on several targets, by chains; rs.h says how it works
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kv/kv_target.h"
#include "rs_client.h"
#include "rs_run.h"

static const struct program program = {
	.name = "fi_pmem_rs",
	.summary = "Durable blocks, of which a majority of the targets has the newest value.",
	.letters = "fdsbBPMNVIwoh",
	.hosts = true,
	.operations =
		"what to do (no default), separated by commas: put:BLOCK:TEXT, get:BLOCK (a BLOCK "
		"is a number below -N); alone: ycsb-a:CLIENTS, ycsb-c:CLIENTS (measure), soak "
		"(random operations until SIGTERM, and their history), soak-locks (the same with "
		"locks), look (read all blocks of soak)",
};

/* A part of "put:BLOCK:TEXT" */
struct words {
	uint64_t block;
	const char *text; /* NULL: it is a get */
};

static bool split(const char *op, struct words *words)
{
	bool is_put = !strncmp(op, "put:", 4);
	char *end;

	if (!is_put && strncmp(op, "get:", 4) != 0)
		return false;
	words->block = strtoull(op + 4, &end, 10);
	if (end == op + 4 || *end != (is_put ? ':' : '\0'))
		return false;
	words->text = is_put ? end + 1 : NULL;
	return true;
}

static int operate(struct rs_client *client, const struct words *words)
{
	struct rs_record *record = &client->record;
	size_t len = words->text ? strlen(words->text) : 0;
	int ret;

	if (len > RS_BLOCK)
		return explain(&client->error, -FI_EMSGSIZE, "a block has %u bytes", RS_BLOCK);
	if (words->text) {
		memset(record->value, 0, RS_BLOCK);
		memcpy(record->value, words->text, len);
		return rs_put(client, words->block);
	}
	ret = rs_get(client, words->block);
	if (!ret)
		printf("%" PRIu64 ": tag %" PRIu64 ": %.*s\n", words->block, record->tag.number,
		       (int) RS_BLOCK, (const char *) record->value);
	return ret;
}

static int operate_all(const struct options *opts, bool *wrong)
{
	struct rs_client client = {0};
	struct words words;
	int ret = 0;

	*wrong = !opts->nops;
	for (unsigned int i = 0; i < opts->nops && !*wrong; i++)
		*wrong = !split(opts->ops[i], &words);
	if (*wrong) {
		fprintf(stderr, "%s: unknown operation; --help tells them\n", program.name);
		return -FI_EINVAL;
	}
	ret = rs_open(&client, opts);
	for (unsigned int i = 0; !ret && i < opts->nops; i++) {
		split(opts->ops[i], &words);
		ret = operate(&client, &words);
	}
	rs_failed(&client, ret);
	rs_close(&client);
	return ret;
}

/* run_client -- one of the larger operations alone, or single ones */
static int run_client(const struct options *opts, bool *wrong)
{
	const char *op = opts->nops == 1 ? opts->ops[0] : "";
	unsigned int clients;
	char workload;
	int end = 0;

	if (!strcmp(op, "look"))
		return rs_look(opts);
	if (!strcmp(op, "soak") || !strcmp(op, "soak-locks"))
		return rs_soak(opts, op[4]);
	if (sscanf(op, "ycsb-%1[ac]:%2u%n", (char[2]){0}, &clients, &end) == 2 && !op[end] &&
	    clients) {
		workload = op[5];
		return rs_bench(opts, workload, clients);
	}
	return operate_all(opts, wrong);
}

/* named_twice -- a target that counts twice makes no majority; the same text is noticed, at least
 */
static bool named_twice(const struct options *opts)
{
	for (unsigned int i = 0; i < opts->nhosts; i++) {
		for (unsigned int j = 0; j < i; j++) {
			const char *one = opts->ports[i], *other = opts->ports[j];

			if (!strcmp(opts->hosts[i], opts->hosts[j]) &&
			    (one && other ? !strcmp(one, other) : one == other))
				return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100, .records = 1024};
	bool wrong = false;
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.records > UINT32_MAX || (opts.nhosts && opts.nhosts % 2 == 0)) {
		fprintf(stderr, "%s: -N is at most %u, and the number of targets is odd\n",
			program.name, UINT32_MAX);
		return EXIT_USAGE;
	}
	if (named_twice(&opts)) {
		fprintf(stderr, "%s: a target is named twice\n", program.name);
		return EXIT_USAGE;
	}
	ret = opts.nhosts ? run_client(&opts, &wrong) : kv_serve(&opts, &rs_layout);
	return wrong ? EXIT_USAGE : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
