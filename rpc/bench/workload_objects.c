/* SPDX-License-Identifier: BSD-2-Clause */
/* workload_objects.c -- objects of one size are read and written: the paper's micro-benchmark */
#include <string.h>

#include "handler.h"
#include "load.h"

static void sizes(struct settings *settings)
{
	settings->request_max = sizeof(uint64_t) + settings->size;
	settings->reply_max = settings->size;
	settings->effects_max = settings->size + 64;
	settings->memory_len = sizeof(struct memory_header) + settings->objects * settings->size;
}

static uint64_t items(const struct settings *settings)
{
	return settings->objects;
}

static void fill_in(struct client *client, struct call *call, bool write, uint64_t index)
{
	memcpy(client->argument, &index, sizeof(index));
	call->op = write ? OP_WRITE : OP_READ;
	call->argument_len = sizeof(index);
	call->index = index;
	call->kind = KIND_READ;
	if (!write)
		return;
	mark_fill(client, call, client->argument + sizeof(index), index);
	call->argument_len += client->settings->size;
}

static bool next(struct client *client, struct call *call)
{
	bool write;

	if (!client_goes_on(client))
		return false;
	write = random_below(&client->random, 100) >= client->settings->read_percent;
	fill_in(client, call, write, zipf_item(&client->load->zipf, &client->random));
	return true;
}

static bool check(struct client *client, struct call *call)
{
	const struct settings *settings = client->settings;
	uint64_t item;

	while ((item = client->cursor * settings->clients + client->id) < settings->objects) {
		client->cursor++;
		if (!was_written(client->load, item))
			continue;
		fill_in(client, call, false, item);
		return true;
	}
	return false;
}

static void done(struct client *client, struct call *call)
{
	if (call->kind != KIND_READ)
		return;
	if (client->checks)
		mark_check_last(client, call->reply, call->reply_len, call->index);
	else
		mark_check(client->settings, call->reply, call->reply_len, call->index);
}

const struct workload workload_objects = {
	.name = "objects",
	.sizes = sizes,
	.items = items,
	.next = next,
	.done = done,
	.check = check,
};
