/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_rpc.c -- PUT by a durable call: the server's handler finds the key, and stores the value */
#include "kv_rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "pmemrpc.h"
#include "programs/kv.h"

#define VALUE_MAX 512

struct kv_rpc {
	struct pmemrpc_client *client;
	int timeout_ms;
	struct {
		struct kv_key key;
		uint8_t value[VALUE_MAX];
	} argument;
};

int kv_rpc_open(struct kv_rpc **rpc, const char *host, const char *port, int timeout_ms)
{
	struct pmemrpc_client_attr attr = {
		.node = host,
		.service = port,
		.timeout_ms = timeout_ms,
		.spin_us = PMEMRPC_ALWAYS,
	};
	struct kv_rpc *made = calloc(1, sizeof(*made));
	char error[1024] = "no memory";
	int ret = -FI_ENOMEM;

	if (made && getrandom(attr.id, sizeof(attr.id), 0) == sizeof(attr.id))
		ret = pmemrpc_connect(&attr, &made->client, error, sizeof(error));
	if (ret) {
		fprintf(stderr, "%s\n", error);
		free(made);
		return ret;
	}
	made->timeout_ms = timeout_ms;
	*rpc = made;
	return 0;
}

int kv_rpc_put(struct kv_rpc *rpc, uint64_t key, const void *value, size_t len)
{
	struct pmemrpc_call call = {
		.op = KV_PUT,
		.argument = &rpc->argument,
		.argument_len = sizeof(rpc->argument.key) + len,
		.reply_only = 1,
	};
	int ret;

	rpc->argument.key.len = sizeof(key);
	memcpy(rpc->argument.key.bytes, &key, sizeof(key));
	memcpy(rpc->argument.value, value, len);
	ret = pmemrpc_post(rpc->client, &call);
	if (!ret)
		ret = pmemrpc_wait(rpc->client, &call, PMEMRPC_EXECUTED, rpc->timeout_ms);
	if (!ret)
		ret = call.status;
	if (ret)
		fprintf(stderr, "the call of the server: %s\n", strerror(-ret));
	return ret;
}

void kv_rpc_close(struct kv_rpc *rpc)
{
	if (rpc)
		pmemrpc_close(rpc->client);
	free(rpc);
}
