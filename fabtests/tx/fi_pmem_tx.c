/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_tx.c -- durable transactions by chains; tx.h says how they work
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/stats.h"
#include "../kv/kv_target.h"
#include "tx_farm.h"
#include "tx_run.h"

static const struct program program = {
	.name = "fi_pmem_tx",
	.summary = "Durable transactions, of which the target's program does nothing.",
	.letters = "fdsbBPMNVIwoh",
	.operations =
		"what to do (no default), separated by commas: put:KEY:TEXT, get:KEY (a KEY is a "
		"number below -N), all of them in one transaction of at most 3 keys; alone: "
		"ycsb-t:CLIENTS or ycsb-t:CLIENTS:PORT (measure, also FaRM's protocol with the "
		"server on that port of the host), soak (random transactions until SIGTERM, and "
		"their history), look (read all keys of soak), soak-farm and look-farm (by FaRM's "
		"protocol); server: farm (serve FaRM's protocol instead, also on the next port)",
};

/* A part of "put:KEY:TEXT" */
struct words {
	uint64_t key;
	const char *text; /* NULL: it is a get */
};

static bool split(const char *op, struct words *words)
{
	bool is_put = !strncmp(op, "put:", 4);
	char *end;

	if (!is_put && strncmp(op, "get:", 4) != 0)
		return false;
	words->key = strtoull(op + 4, &end, 10);
	if (end == op + 4 || *end != (is_put ? ':' : '\0'))
		return false;
	words->text = is_put ? end + 1 : NULL;
	return !words->text || strlen(words->text) <= TX_VALUE;
}

/* attempt -- all operations in one transaction */
static int attempt(struct tx_client *client, const struct words *words, unsigned int count)
{
	struct tx_access *access;
	int ret = 0;

	tx_begin(client);
	for (unsigned int i = 0; !ret && i < count; i++) {
		ret = tx_read(client, words[i].key, &access);
		if (ret || !words[i].text)
			continue;
		access->writes = true;
		memset(access->record.value, 0, TX_VALUE);
		memcpy(access->record.value, words[i].text, strlen(words[i].text));
	}
	return ret ? ret : tx_commit(client);
}

static int transact(const struct options *opts, const struct words *words)
{
	uint64_t deadline = deadline_in(opts->timeout);
	struct tx_client client = {0};
	unsigned int tries = 0;
	int ret = tx_connect(&client, opts, &tx_chains);

	while (!ret && (ret = attempt(&client, words, opts->nops)) == -FI_EAGAIN &&
	       now_ns() < deadline) {
		tx_pause(tries++);
		ret = 0;
	}
	if (ret == -FI_EAGAIN)
		explain(&client.link.error, ret,
			"others change these keys all the time (--timeout)");
	for (unsigned int i = 0; !ret && i < client.count; i++) {
		const struct tx_access *access = &client.accesses[i];

		if (!access->writes)
			printf("%" PRIu64 ": %.*s\n", access->key, (int) TX_VALUE,
			       (const char *) access->record.value);
	}
	if (ret)
		fprintf(stderr, "%s\n", client.link.error.text);
	tx_disconnect(&client);
	return ret;
}

/* run_operations -- if all of them are some, of different keys */
static int run_operations(const struct options *opts, bool *wrong)
{
	struct words words[TX_KEYS];

	*wrong = !opts->nops || opts->nops > TX_KEYS;
	for (unsigned int i = 0; i < opts->nops && !*wrong; i++) {
		*wrong = !split(opts->ops[i], &words[i]);
		for (unsigned int j = 0; j < i; j++)
			*wrong |= words[i].key == words[j].key;
	}
	if (!*wrong)
		return transact(opts, words);
	fprintf(stderr, "%s: unknown operation, or too many, or one key twice; --help tells them\n",
		program.name);
	return -FI_EINVAL;
}

/* run_client -- one of the larger operations alone, or single ones */
static int run_client(const struct options *opts, bool *wrong)
{
	const char *op = opts->nops == 1 ? opts->ops[0] : "";
	unsigned int clients;
	int end = 0;

	if (!strcmp(op, "soak") || !strcmp(op, "soak-farm"))
		return tx_soak(opts, op[4] ? &tx_farm : &tx_chains);
	if (!strcmp(op, "look") || !strcmp(op, "look-farm"))
		return tx_look_all(opts, op[4] ? &tx_farm : &tx_chains);
	if (sscanf(op, "ycsb-t:%2u%n", &clients, &end) == 1 && clients &&
	    (!op[end] || (op[end] == ':' && op[end + 1])))
		return tx_bench(opts, clients, op[end] ? op + end + 1 : NULL);
	return run_operations(opts, wrong);
}

/* run_server -- of chains, or of FaRM's protocol */
static int run_server(const struct options *opts, bool *wrong)
{
	if (!opts->nops)
		return kv_serve(opts, &tx_layout);
	*wrong = opts->nops > 1 || strcmp(opts->ops[0], "farm") != 0;
	if (!*wrong)
		return tx_farm_serve(opts);
	fprintf(stderr, "%s: a server's only operation is farm\n", program.name);
	return -FI_EINVAL;
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100, .records = 1024};
	bool wrong = false;
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.records > UINT32_MAX) {
		fprintf(stderr, "%s: -N is at most %u\n", program.name, UINT32_MAX);
		return EXIT_USAGE;
	}
	ret = opts.dst_addr ? run_client(&opts, &wrong) : run_server(&opts, &wrong);
	return wrong ? EXIT_USAGE : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
