/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workload_ycsb.c -- YCSB's workloads A to F on the key-value store
 *
 * Keys have 8 bytes, as in the paper; a record's number is hashed, so that records that come after
 * one another are not beside each other.  New records belong to the client that inserts them.  What
 * YCSB calls the latest records are a client's own: their Zipf ranks count from the last one that
 * was acknowledged.
 */
#include <stdlib.h>
#include <string.h>

#include "handler.h"
#include "programs/kv.h"
#include "load.h"

#define SCAN_MAX 100U

/* In percent; the rest are read-modify-writes. */
struct mix {
	unsigned int reads, updates, inserts, scans;
	bool latest;
};

static const struct mix mixes[] = {
	{.reads = 50, .updates = 50},
	{.reads = 95, .updates = 5},
	{.reads = 100},
	{.reads = 95, .inserts = 5, .latest = true},
	{.scans = 95, .inserts = 5},
	{.reads = 50},
};

/* A record that was read, and is written next: one operation. */
struct rewrite {
	uint64_t item;
	int64_t began;
};

struct ycsb {
	const struct mix *mix;
	uint64_t filled, checked;
	uint64_t inserted;     /* by this client */
	uint64_t acknowledged; /* of them */
	struct rewrite *rewrites;
	unsigned int num_rewrites, room;
};

static const struct mix *mix_of(const struct settings *settings)
{
	return &mixes[settings->workload - workload_ycsb];
}

static void sizes(struct settings *settings)
{
	size_t entry = sizeof(struct kv_entry) + settings->size;
	size_t scan = mix_of(settings)->scans ? SCAN_MAX * entry : settings->size;

	settings->request_max = sizeof(struct kv_scan) + settings->size;
	settings->reply_max = scan < 1U << 20 ? scan : 1U << 20;
	settings->effects_max = kv_effects_max(settings->size);
	/* Room for as many new ones. */
	settings->memory_len =
		sizeof(struct memory_header) + kv_memory_len(2 * settings->objects, settings->size);
}

static uint64_t items(const struct settings *settings)
{
	return 2 * settings->objects;
}

static int open_client(struct client *client)
{
	const struct settings *settings = client->settings;
	struct ycsb *ycsb = calloc(1, sizeof(*ycsb));

	client->state = ycsb;
	if (!ycsb)
		return bench_fail("no memory");
	ycsb->mix = mix_of(settings);
	ycsb->room = settings->in_flight * settings->batch;
	ycsb->rewrites = calloc(ycsb->room, sizeof(*ycsb->rewrites));
	return ycsb->rewrites ? 0 : bench_fail("no memory");
}

static void close_client(struct client *client)
{
	struct ycsb *ycsb = client->state;

	free(ycsb->rewrites);
	free(ycsb);
}

/* ---- calls ---- */

static struct kv_key key_of(uint64_t item)
{
	struct kv_key key = {.len = sizeof(item)};
	/* An odd factor: each record has its own key. */
	uint64_t hashed = item * 0x9e3779b97f4a7c15;

	memcpy(key.bytes, &hashed, sizeof(hashed));
	return key;
}

static void fill_in(struct client *client, struct call *call, enum kv_operation operation,
		    uint64_t item)
{
	const struct kv_key key = key_of(item);

	memcpy(client->argument, &key, sizeof(key));
	call->op = OP_KEY + operation;
	call->argument_len = sizeof(key);
	call->index = item;
	call->kind = KIND_READ;
}

static void fill_put(struct client *client, struct call *call, uint64_t item)
{
	fill_in(client, call, KV_PUT, item);
	mark_fill(client, call, client->argument + sizeof(struct kv_key), item);
	call->argument_len += client->settings->size;
}

static void fill_scan(struct client *client, struct call *call, uint64_t item)
{
	uint32_t count = 1 + (uint32_t) random_below(&client->random, SCAN_MAX);

	fill_in(client, call, KV_SCAN, item);
	memcpy(client->argument + sizeof(struct kv_key), &count, sizeof(count));
	call->argument_len = sizeof(struct kv_scan);
}

/* mine -- the record that this client has inserted as number n */
static uint64_t mine(const struct client *client, uint64_t n)
{
	return client->settings->objects + n * client->settings->clients + client->id;
}

static uint64_t choose(struct client *client)
{
	const struct ycsb *ycsb = client->state;
	uint64_t rank;

	if (!ycsb->mix->latest)
		return zipf_item(&client->load->zipf, &client->random);
	rank = zipf_rank(&client->load->zipf, &client->random);
	if (rank < ycsb->acknowledged)
		return mine(client, ycsb->acknowledged - 1 - rank);
	rank -= ycsb->acknowledged;
	return client->settings->objects - 1 - rank % client->settings->objects;
}

/* insert -- a new record, or, when there is no more room, an old one again */
static void insert(struct client *client, struct call *call)
{
	struct ycsb *ycsb = client->state;
	uint64_t item = mine(client, ycsb->inserted);

	if (item >= items(client->settings)) {
		fill_put(client, call, choose(client));
		return;
	}
	ycsb->inserted++;
	fill_put(client, call, item);
}

/* finish_rewrite -- of what was read; false: there is none */
static bool finish_rewrite(struct client *client, struct call *call)
{
	struct ycsb *ycsb = client->state;
	struct rewrite *rewrite;

	if (!ycsb->num_rewrites)
		return false;
	rewrite = &ycsb->rewrites[--ycsb->num_rewrites];
	fill_put(client, call, rewrite->item);
	/* Its latency is that of both. */
	call->began = rewrite->began;
	return true;
}

static bool next(struct client *client, struct call *call)
{
	const struct ycsb *ycsb = client->state;
	const struct mix *mix = ycsb->mix;
	unsigned int draw;

	if (finish_rewrite(client, call))
		return true;
	if (!client_goes_on(client))
		return false;
	draw = (unsigned int) random_below(&client->random, 100);
	if (draw < mix->reads) {
		fill_in(client, call, KV_GET, choose(client));
	} else if (draw < mix->reads + mix->updates) {
		fill_put(client, call, choose(client));
	} else if (draw < mix->reads + mix->updates + mix->inserts) {
		insert(client, call);
	} else if (draw < mix->reads + mix->updates + mix->inserts + mix->scans) {
		fill_scan(client, call, choose(client));
	} else {
		fill_in(client, call, KV_GET, choose(client));
		call->kind = KIND_OTHER;
	}
	return true;
}

static bool fill(struct client *client, struct call *call)
{
	struct ycsb *ycsb = client->state;
	uint64_t item = ycsb->filled * client->settings->clients + client->id;

	if (item >= client->settings->objects)
		return false;
	ycsb->filled++;
	fill_put(client, call, item);
	return true;
}

static bool check(struct client *client, struct call *call)
{
	struct ycsb *ycsb = client->state;
	const struct settings *settings = client->settings;
	uint64_t item;

	while ((item = ycsb->checked * settings->clients + client->id) < items(settings)) {
		ycsb->checked++;
		if (!was_written(client->load, item))
			continue;
		fill_in(client, call, KV_GET, item);
		return true;
	}
	return false;
}

/* check_scan -- keys in their order, from the one that was asked for, with their values */
static void check_scan(const struct client *client, const struct call *call)
{
	struct kv_key from = key_of(call->index);
	const struct kv_entry *entry = NULL;
	const void *last = &from.bytes;
	bool first = true;

	while ((entry = kv_next(call->reply, call->reply_len, entry))) {
		int order = memcmp(entry->key.bytes, last, from.len);
		uint64_t item;

		if (order < 0 || (order == 0 && !first)) {
			bench_fail("a scan's keys are not in their order");
			bench_end();
		}
		memcpy(&item, entry->key.bytes, sizeof(item));
		/* The inverse of the factor that has hashed it. */
		mark_check(client->settings, entry + 1, entry->len, item * 0xf1de83e19937733d);
		last = entry->key.bytes;
		first = false;
	}
}

static void done(struct client *client, struct call *call)
{
	struct ycsb *ycsb = client->state;

	if (call->op == OP_HANDLED)
		return;
	if (client->checks) {
		mark_check_last(client, call->reply, call->reply_len, call->index);
	} else if (call->op == OP_KEY + KV_SCAN) {
		check_scan(client, call);
	} else if (call->op == OP_KEY + KV_GET) {
		mark_check(client->settings, call->reply, call->reply_len, call->index);
		if (call->kind == KIND_OTHER)
			ycsb->rewrites[ycsb->num_rewrites++] =
				(struct rewrite){call->index, call->began};
	} else if (call->op == OP_KEY + KV_PUT && call->index == mine(client, ycsb->acknowledged)) {
		/* Calls are executed in their order. */
		ycsb->acknowledged++;
	}
}

#define YCSB(letter)                                                                               \
	{                                                                                          \
		.name = "ycsb-" letter, .sizes = sizes, .items = items, .open = open_client,       \
		.close = close_client, .fill = fill, .next = next, .done = done, .check = check    \
	}

const struct workload workload_ycsb[6] = {YCSB("a"), YCSB("b"), YCSB("c"),
					  YCSB("d"), YCSB("e"), YCSB("f")};
