/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plug_target.c -- the target of fi_pmem_plug: it lends each client a log, and leaves all the rest
 * to the provider
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plug.h"
#include "../common/common.h"
#include "../common/memory_direct.h"

#define RUN_SECONDS (24 * 3600)
#define PROGRESS_MS 100
#define QUEUE_SIZE 1024 /* clients only write: hardly anything completes here */

enum { OP_SLEEP, OP_PROGRESS };

static const char *const operations[] = {"sleep", "progress", NULL};

static const struct conn_attr conn_attr = {
	.format = FI_CQ_FORMAT_DATA,
	.wait = FI_WAIT_UNSPEC,
	.selective = true,
};

struct client {
	struct region region;
	struct conn conn;
};

struct target {
	const struct options *opts;
	int op;
	struct layout layout;
	struct node node;
	struct fid_cq *cq; /* of all clients: who makes progress has one place to wait at */
	struct memory files[MAX_LOGS / LOGS_OF_FILE];
	struct client clients[MAX_LOGS];
	size_t accepted;
	size_t gone;
};

/* prepare -- once there is a domain */
static int prepare(struct target *target)
{
	const struct options *opts = target->opts;
	char room[PATH_MAX];
	size_t log;

	for (log = 0; log < opts->connections; log += LOGS_OF_FILE) {
		if (memory_open(&target->files[log / LOGS_OF_FILE], target->node.domain,
				log_file(opts, log, room),
				log_file_size(&target->layout, opts, log)))
			return -FI_EINVAL;
	}
	/* A power failure may take what is in the files, but not the files. */
	sync();
	DO(cq_create(&target->node, &conn_attr, QUEUE_SIZE, &target->cq));
	return 0;
}

/* lend -- the next log */
static int lend(struct target *target, struct client *client, struct lease *lease)
{
	size_t log = target->accepted;
	char *file = target->files[log / LOGS_OF_FILE].base;
	int ret = region_register(&target->node, &client->region,
				  file + log_offset(&target->layout, log),
				  log_size(&target->layout), FI_REMOTE_WRITE, FI_RMA_PMEM);

	*lease = (struct lease){
		.addr = client->region.addr,
		.key = client->region.key,
		.slots = target->layout.slots,
		.size = target->layout.size,
		.log = log,
	};
	return ret;
}

/* accept_client -- without waiting for it: the next one may come before it is connected */
static int accept_client(struct target *target, struct fi_info *info)
{
	struct client *client = &target->clients[target->accepted];
	struct conn_attr attr = conn_attr;
	struct lease lease;
	int ret = target->cq ? 0 : prepare(target);

	if (!ret)
		ret = lend(target, client, &lease);
	if (ret) {
		fi_reject(target->node.pep, info->handle, NULL, 0);
		return ret;
	}
	target->accepted++;
	attr.cq = target->cq;
	ret = conn_create(&client->conn, &target->node, info, &attr);
	if (ret)
		return ret;
	DO(fi_accept(client->conn.ep, &lease, sizeof(lease)));
	return 0;
}

static int next_event(struct target *target, struct cm_event *event)
{
	struct fi_cq_data_entry entry;
	int ret = 0;

	if (target->op == OP_SLEEP)
		return node_event(&target->node, event, RUN_SECONDS * 1000);
	while (!ret) {
		fi_cq_sread(target->cq, &entry, 1, NULL, PROGRESS_MS);
		ret = node_event(&target->node, event, 0);
	}
	return ret;
}

static int handle(struct target *target, const struct cm_event *event)
{
	int ret = 0;

	if (event->event == FI_CONNREQ && target->accepted < target->opts->connections) {
		ret = accept_client(target, event->entry.info);
		fi_freeinfo(event->entry.info);
	} else if (event->event == FI_CONNREQ) {
		node_reject(&target->node, event->entry.info, NULL);
	} else if (event->err) {
		ret = report("a connection", -event->err);
	} else if (event->event == FI_SHUTDOWN) {
		target->gone++;
	}
	return ret;
}

/* serve -- until all clients have come and gone */
static int serve(struct target *target)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM,
		.threading = FI_THREAD_DOMAIN,
		.port = target->opts->src_port,
	};
	struct cm_event event;
	int ret = fabric_listen(&target->node, target->opts, &attr);

	if (!ret)
		ret = conn_request(&target->node, &event);
	if (ret)
		return ret;
	ret = handle(target, &event);
	while (!ret && target->gone < target->opts->connections) {
		ret = next_event(target, &event);
		if (!ret)
			return report("the clients' end", -FI_ETIMEDOUT);
		ret = ret < 0 ? ret : handle(target, &event);
	}
	return ret;
}

int be_target(const struct options *opts)
{
	struct target target = {
		.opts = opts,
		.op = options_op(opts, operations),
		.layout = {.slots = opts->records, .size = opts->sizes[0], .window = 1},
	};
	size_t i;
	int ret;

	if (target.op < 0 || !layout_is_sane(&target.layout))
		return -FI_EINVAL;
	ret = serve(&target);
	for (i = 0; i < opts->connections; i++)
		conn_close(&target.clients[i].conn);
	CLOSE(target.cq);
	for (i = 0; i < opts->connections; i++)
		region_close(&target.clients[i].region);
	for (i = 0; i < MAX_LOGS / LOGS_OF_FILE; i++)
		memory_unmap(&target.files[i]);
	node_close(&target.node);
	return ret;
}
