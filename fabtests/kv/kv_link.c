/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_link.c -- a client's connection: chains, reads and writes, each of which is waited for */
#include <stdlib.h>
#include <string.h>

#include "kv_chain.h"
#include "../common/stats.h"

#define SLEEP_MS 100

bool kv_lost(int ret)
{
	return ret == -FI_ENOTCONN || ret == -FI_ESHUTDOWN || ret == -FI_ECONNRESET ||
	       ret == -FI_ECONNABORTED || ret == -FI_ECONNREFUSED || ret == -FI_ETIMEDOUT;
}

/* ---- waiting ---- */

/* kv_poll -- 1: what was posted has ended; 0: not yet */
static int kv_poll(struct kv_client *client, bool sleeps)
{
	struct fi_cq_data_entry entry;

	return (int) conn_poll(&client->conn, &entry, 1, sleeps && !client->spins ? SLEEP_MS : 0);
}

int kv_await(struct kv_client *client)
{
	uint64_t deadline = deadline_in(client->opts->timeout);
	int ret;

	while (!(ret = kv_poll(client, true))) {
		if (now_ns() > deadline)
			return explain_call(&client->error, "the target", -FI_ETIMEDOUT);
	}
	return ret < 0 ? ret : 0;
}

/* posted -- again, once there is room; true: `ret` is what came of it */
static bool posted(struct kv_client *client, ssize_t *ret)
{
	int polled;

	if (*ret != -FI_EAGAIN) {
		if (*ret)
			explain_call(&client->error, "posting", *ret);
		return true;
	}
	polled = kv_poll(client, false);
	if (polled > 0)
		polled = explain_call(&client->error, "an unexpected completion", -FI_EOTHER);
	*ret = polled;
	return polled;
}

int kv_run(struct kv_client *client, size_t count)
{
	ssize_t ret;

	do {
		ret = client->ops->post(client->conn.ep, client->steps, count, client,
					FI_COMPLETION);
	} while (!posted(client, &ret));
	return ret ? (int) ret : kv_await(client);
}

/* transfer -- fi_writemsg or fi_readmsg, tried until there is room */
static ssize_t transfer(struct kv_client *client,
			ssize_t (*call)(struct fid_ep *, const struct fi_msg_rma *, uint64_t),
			void *buf, size_t len, uint64_t addr, uint64_t key, uint64_t flags)
{
	struct iovec iov = {buf, len};
	struct fi_rma_iov rma_iov = {addr, len, key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &client->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = client,
	};
	ssize_t ret;

	do {
		ret = call(client->conn.ep, &msg, flags);
	} while (!posted(client, &ret));
	return ret;
}

int kv_post_write(struct kv_client *client, void *from, size_t len, uint64_t addr, uint64_t key,
		  uint64_t flags)
{
	return (int) transfer(client, fi_writemsg, from, len, addr, key, flags);
}

int kv_read(struct kv_client *client, void *to, size_t len, uint64_t addr, uint64_t key)
{
	ssize_t ret = transfer(client, fi_readmsg, to, len, addr, key, FI_COMPLETION);

	return ret ? (int) ret : kv_await(client);
}

/* ---- connections ---- */

static int take_lease(struct kv_client *client, const struct kv_dialect *dialect,
		      const struct cm_event *event)
{
	const struct kv_lease *lease = &client->buffers->lease;
	struct kv_welcome *welcome = &client->welcome;
	int ret;

	if (event->len < KV_WELCOME_LEN)
		return explain(&client->error, -FI_EOTHER, "that is no target of this program");
	memcpy(welcome, event->entry.data, KV_WELCOME_LEN);
	if (memcmp(welcome->hello, dialect->hello, KV_HELLO_LEN))
		return explain(&client->error, -FI_EOTHER, "that is no target of this program");
	ret = kv_read(client, &client->buffers->lease, sizeof(*lease), welcome->addr, welcome->key);
	if (ret)
		return ret;
	if (lease->magic != dialect->magic || !lease->slots)
		return explain(&client->error, -FI_EOTHER, "the target's store is no store");
	return 0;
}

static int make_connection(struct kv_client *client, const struct kv_dialect *dialect)
{
	const struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA, .selective = true, .wait = FI_WAIT_UNSPEC};
	int64_t deadline = connection_now_ms() + CONNECT_SECONDS * 1000;
	struct cm_event event;
	int ret;

	do {
		ret = conn_create(&client->conn, &client->node, client->node.info, &attr);
		if (!ret)
			ret = conn_connect(&client->conn, dialect->hello, KV_HELLO_LEN, &event);
	} while (ret && conn_again(&client->conn, ret, deadline));
	if (!ret)
		ret = fi_open_ops(&client->conn.ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0,
				  (void **) &client->ops, NULL);
	return ret ? ret : take_lease(client, dialect, &event);
}

int kv_connect_to(struct kv_client *client, const struct options *opts,
		  const struct kv_dialect *dialect)
{
	const struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.port = opts->dst_port,
		.error = &client->error,
	};
	bool spins = client->spins;
	int ret;

	*client = (struct kv_client){.opts = opts, .spins = spins};
	client->buffers = calloc(1, dialect->buffers);
	if (!client->buffers)
		return explain_call(&client->error, "calloc", -FI_ENOMEM);
	ret = fabric_open(&client->node, opts, &attr);
	if (!ret)
		ret = region_register(&client->node, &client->region, client->buffers,
				      dialect->buffers, FI_READ | FI_WRITE, 0);
	return ret ? ret : make_connection(client, dialect);
}

void kv_disconnect(struct kv_client *client)
{
	conn_close(&client->conn);
	region_close(&client->region);
	node_close(&client->node);
	free(client->buffers);
	client->buffers = NULL;
}
