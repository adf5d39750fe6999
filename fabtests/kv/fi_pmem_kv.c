/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_kv.c -- a durable key-value store on chains; kv.h says how it works
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_client.h"
#include "kv_run.h"
#include "kv_store.h"
#include "kv_target.h"

static const struct program program = {
	.name = "fi_pmem_kv",
	.summary = "A durable key-value store, of which the target's program does nothing.",
	.letters = "fdsbBPMNVSIwxoh",
	.operations =
		"what to do (no default), separated by commas: put:KEY:TEXT, get:KEY, delete:KEY "
		"(a KEY is a "
		"number); alone: ycsb-a, ycsb-c (measure), ycsb-a:PORT (also PUTs by libpmemrpc, "
		"to the "
		"fi_pmem_rpc_kv on that port of the host), soak:NUMBER (random operations until "
		"SIGTERM, and their history), look (read all their keys)",
};

/* A part of "put:KEY:TEXT" */
struct words {
	const char *verb;
	uint64_t key;
	const char *text; /* behind the key, or NULL */
};

/* split -- takes the operation apart in place: false if it is wrong */
static bool split(const char *op, struct words *words)
{
	char *copy = (char *) (uintptr_t) op, *colon = strchr(copy, ':'), *end;

	*words = (struct words){.verb = op};
	if (!colon)
		return true;
	*colon = '\0';
	words->key = strtoull(colon + 1, &end, 10);
	if (end == colon + 1 || (*end && *end != ':'))
		return false;
	words->text = *end ? end + 1 : NULL;
	return true;
}

static int show(struct kv_client *client, uint64_t key)
{
	const struct kv_record *got = &client->buffers->got;
	int ret = kv_get(client, key);

	if (!ret)
		printf("%" PRIu64 ": version %" PRIu64 ".%" PRIu64 ": %.*s\n", key,
		       got->version >> 32, got->version & UINT32_MAX, (int) got->len,
		       (const char *) got->value);
	return ret;
}

static int put(struct kv_client *client, const struct words *words)
{
	size_t len = strlen(words->text);

	if (len > KV_VALUE_MAX)
		return explain(&client->error, -FI_EMSGSIZE, "a value has %u bytes at most",
			       KV_VALUE_MAX);
	memcpy(client->buffers->put.value, words->text, len);
	return kv_put(client, words->key, len);
}

static bool is_verb(const struct words *words, const char *verb, bool has_text)
{
	return !strcmp(words->verb, verb) && !words->text == !has_text;
}

static int operate(struct kv_client *client, const char *op)
{
	struct words words;
	int ret;

	split(op, &words);
	if (words.text)
		ret = put(client, &words);
	else if (!strcmp(words.verb, "get"))
		ret = show(client, words.key);
	else
		ret = kv_delete(client, words.key);
	if (ret == -FI_ENOENT)
		fprintf(stderr, "there is no key %" PRIu64 "\n", words.key);
	else if (ret == -FI_ENOSPC)
		fprintf(stderr, "the store is full\n");
	else if (ret)
		fprintf(stderr, "%s\n", client->error.text);
	return ret;
}

static int operate_all(const struct options *opts)
{
	struct kv_client client = {0};
	int ret = kv_connect(&client, opts);

	if (ret)
		fprintf(stderr, "%s\n", client.error.text);
	for (unsigned int i = 0; !ret && i < opts->nops; i++)
		ret = operate(&client, opts->ops[i]);
	kv_disconnect(&client);
	return ret;
}

static bool is_operation(const char *op)
{
	char *copy = strdup(op);
	struct words words;
	bool good = copy && strchr(op, ':') && split(copy, &words) &&
		    (is_verb(&words, "put", true) || is_verb(&words, "get", false) ||
		     is_verb(&words, "delete", false));

	free(copy);
	return good;
}

/* run_all -- single operations, if all of them are some */
static int run_all(const struct options *opts, bool *wrong)
{
	const char *op = "";

	*wrong = !opts->nops;
	for (unsigned int i = 0; i < opts->nops && !*wrong; i++) {
		op = opts->ops[i];
		*wrong = !is_operation(op);
	}
	if (!*wrong)
		return operate_all(opts);
	fprintf(stderr, "%s: unknown operation '%s'; --help tells them\n", program.name, op);
	return -FI_EINVAL;
}

/* is_workload -- "ycsb-a", or "ycsb-a:PORT" */
static bool is_workload(const char *op)
{
	return !strncmp(op, "ycsb-", 5) && (op[5] == 'a' || op[5] == 'c') &&
	       (!op[6] || (op[6] == ':' && op[7]));
}

/* run_client -- one of the larger operations alone, or single ones */
static int run_client(const struct options *opts, bool *wrong)
{
	const char *op = opts->nops == 1 ? opts->ops[0] : "";
	unsigned int number;
	int end = 0;

	if (!strcmp(op, "look"))
		return kv_look(opts);
	if (is_workload(op))
		return kv_bench(opts, op[5], op[6] ? op + 7 : NULL);
	if (sscanf(op, "soak:%u%n", &number, &end) == 1 && end && !op[end])
		return kv_soak(opts, number);
	return run_all(opts, wrong);
}

int main(int argc, char **argv)
{
	struct options opts = {
		.iterations = 1000,
		.warmup = 100,
		.sizes = {KV_VALUE_MAX},
		.nsizes = 1,
		.records = 1024,
	};
	bool wrong = false;
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.sizes[0] > KV_VALUE_MAX || opts.records > UINT32_MAX) {
		fprintf(stderr, "%s: -S is at most %u, and -N at most %u\n", program.name,
			KV_VALUE_MAX, UINT32_MAX);
		return EXIT_USAGE;
	}
	ret = opts.dst_addr ? run_client(&opts, &wrong) : kv_serve(&opts, &kv_layout);
	return wrong ? EXIT_USAGE : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
