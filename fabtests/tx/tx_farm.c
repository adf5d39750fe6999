/* SPDX-License-Identifier: BSD-2-Clause */
/* tx_farm.c -- a client of FaRM's protocol: read, lock, validate, update */
#include "tx_farm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "pmemrpc.h"
#include "../common/stats.h"
#include "../kv/kv_chain.h"

struct tx_rpc {
	struct pmemrpc_client *client;
	struct tx_farm_argument argument;
};

uint64_t tx_farm_check(const struct tx_record *record)
{
	struct tx_record copy = *record;

	copy.stamp = (struct rs_tag){.number = record->stamp.number & ~TX_FARM_LOCK};
	return tx_check(&copy);
}

static uint64_t place(const struct tx_client *client, uint64_t key)
{
	return client->link.buffers->lease.index + key * sizeof(struct tx_record);
}

/* call -- 0, -FI_EAGAIN if the server says so, or an error */
static int call(struct tx_client *client, uint32_t op, uint64_t count)
{
	struct tx_rpc *rpc = client->rpc;
	struct pmemrpc_call call = {
		.op = op,
		.argument = &rpc->argument,
		.argument_len = offsetof(struct tx_farm_argument, records) +
				count * sizeof(rpc->argument.records[0]),
		.reply_only = 1,
	};
	int ret;

	rpc->argument.count = count;
	ret = pmemrpc_post(rpc->client, &call);
	if (!ret)
		ret = pmemrpc_wait(rpc->client, &call, PMEMRPC_EXECUTED,
				   (int) client->link.opts->timeout * 1000);
	if (!ret)
		ret = call.status;
	return !ret || ret == -FI_EAGAIN ? ret : explain_call(&client->link.error, "a call", ret);
}

static int read_key(struct tx_client *client, struct tx_access *access)
{
	uint64_t deadline = deadline_in(client->link.opts->timeout);
	const struct tx_record *got = &tx_buffers(client)->got;
	unsigned int tries = 0;
	int ret;

	for (;;) {
		ret = kv_read(&client->link, &tx_buffers(client)->got, sizeof(*got),
			      place(client, access->key), client->link.buffers->lease.key);
		if (ret)
			return ret;
		if (!(got->stamp.number & TX_FARM_LOCK) && got->key == access->key &&
		    got->check == tx_farm_check(got))
			break;
		if (now_ns() > deadline)
			return explain(&client->link.error, -FI_ETIMEDOUT, "key %llu is locked",
				       (unsigned long long) access->key);
		tx_pause(tries++);
	}
	access->record = *got;
	return 0;
}

/* gather -- what is to be written, into the argument */
static uint64_t gather(struct tx_client *client)
{
	struct tx_record *records = client->rpc->argument.records;
	uint64_t count = 0;

	for (unsigned int i = 0; i < client->count; i++) {
		if (client->accesses[i].writes)
			records[count++] = client->accesses[i].record;
	}
	return count;
}

/* validate -- what was only read: the word of version and lock is the same */
static int validate(struct tx_client *client)
{
	struct tx_record *got = &tx_buffers(client)->got;
	int ret = 0;

	for (unsigned int i = 0; i < client->count && !ret; i++) {
		const struct tx_access *access = &client->accesses[i];

		if (access->writes)
			continue;
		ret = kv_read(&client->link, got, sizeof(got->stamp), place(client, access->key),
			      client->link.buffers->lease.key);
		if (!ret && got->stamp.number != access->record.stamp.number)
			ret = -FI_EAGAIN;
	}
	return ret;
}

static int commit(struct tx_client *client)
{
	struct tx_record *records = client->rpc->argument.records;
	uint64_t count = gather(client);
	int ret = count ? call(client, TX_FARM_LOCK_ALL, count) : 0;

	if (ret)
		return ret;
	/* A single READ is as if everything were read at that time. */
	ret = client->count > 1 ? validate(client) : 0;
	if (ret == -FI_EAGAIN && count)
		call(client, TX_FARM_UNLOCK_ALL, count);
	if (ret || !count)
		return ret;
	for (uint64_t i = 0; i < count; i++) {
		records[i].stamp = (struct rs_tag){.number = records[i].stamp.number + 1};
		records[i].check = tx_farm_check(&records[i]);
	}
	return call(client,
		    client->link.opts->is_volatile ? TX_FARM_UPDATE_VOLATILE : TX_FARM_UPDATE_ALL,
		    count);
}

/* open_rpc -- to the port behind that of the READs */
static int open_rpc(struct tx_client *client)
{
	const struct options *opts = client->link.opts;
	char port[16], error[1024];
	struct pmemrpc_client_attr attr = {
		.node = opts->dst_addr,
		.service = port,
		.timeout_ms = (int) opts->timeout * 1000,
		.spin_us = client->link.spins ? PMEMRPC_ALWAYS : 0,
	};
	int ret;

	snprintf(port, sizeof(port), "%d", atoi(opts->dst_port) + 1);
	client->rpc = calloc(1, sizeof(*client->rpc));
	if (!client->rpc || getrandom(attr.id, sizeof(attr.id), 0) != sizeof(attr.id))
		return explain_call(&client->link.error, "getrandom", -FI_ENOMEM);
	/* Nobody else has the same bytes. */
	memcpy(&client->rpc->argument.owner, attr.id, sizeof(client->rpc->argument.owner));
	client->rpc->argument.owner |= 1;
	ret = pmemrpc_connect(&attr, &client->rpc->client, error, sizeof(error));
	return ret ? explain(&client->link.error, ret, "%s", error) : 0;
}

static int open_farm(struct tx_client *client)
{
	const struct kv_dialect dialect = {TX_FARM_HELLO, TX_FARM_MAGIC, sizeof(struct tx_buffers)};
	int ret = kv_connect_to(&client->link, client->link.opts, &dialect);

	return ret ? ret : open_rpc(client);
}

/* close_rpc -- the identity of this client makes no other call */
static void close_rpc(const struct tx_client *client)
{
	int timeout_ms = (int) client->link.opts->timeout * 1000;

	if (pmemrpc_forget(client->rpc->client, timeout_ms) == -FI_EBUSY)
		pmemrpc_close(client->rpc->client);
}

static void close_farm(struct tx_client *client)
{
	if (client->rpc && client->rpc->client)
		close_rpc(client);
	free(client->rpc);
	client->rpc = NULL;
	kv_disconnect(&client->link);
}

const struct tx_protocol tx_farm = {
	.name = "farm",
	.open = open_farm,
	.read = read_key,
	.commit = commit,
	.close = close_farm,
};
