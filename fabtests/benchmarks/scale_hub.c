/* SPDX-License-Identifier: BSD-2-Clause */
/* scale_hub.c -- connections that share a completion queue, and what they cost; see scale.h */
#include "scale.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../common/stats.h"

#define CQ_ROOM 4096 /* for a receive of each endpoint, whether or not it is posted */

static uint64_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	uint64_t count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

void hub_get_usage(struct usage *usage, size_t connections)
{
	struct mallinfo2 heap = mallinfo2();
	unsigned long long mapped = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file && fscanf(file, "%llu %llu", &mapped, &resident) != 2)
		mapped = resident = 0;
	if (file)
		fclose(file);
	*usage = (struct usage){
		.connections = connections,
		.heap = heap.uordblks + heap.hblkhd,
		.resident = resident * (uint64_t) sysconf(_SC_PAGESIZE),
		.mapped = mapped * (uint64_t) sysconf(_SC_PAGESIZE),
		.fds = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
	};
}

struct node_attr hub_node_attr(const struct options *opts, const char *port)
{
	return (struct node_attr){
		.caps = FI_MSG | FI_RMA | (is_core(opts) ? 0 : FI_RMA_PMEM),
		.threading = FI_THREAD_SAFE,
		.port = port,
	};
}

int hub_open_cq(struct hub *hub, const struct fi_info *info, enum fi_wait_obj wait)
{
	struct conn_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait = wait};
	int ret = cq_create(&hub->node, &attr, info->tx_attr->size + CQ_ROOM, &hub->cq);

	return ret ? report("fi_cq_open", ret) : 0;
}

/* hub_add -- an endpoint that is not connected yet; NULL: that has been reported */
struct conn *hub_add(struct hub *hub, struct fi_info *info)
{
	struct conn_attr attr = {.cq = hub->cq, .selective = true};
	struct conn *conn = calloc(1, sizeof(*conn));

	if (hub->count == hub->room) {
		size_t room = hub->room ? 2 * hub->room : 64;
		struct conn **conns = realloc(hub->conns, room * sizeof(*conns));

		if (!conns) {
			free(conn);
			return NULL;
		}
		hub->conns = conns;
		hub->room = room;
	}
	/* verbs takes room for all that could be received from the queue. */
	info->rx_attr->size = 1;
	if (!conn || conn_create(conn, &hub->node, info, &attr)) {
		free(conn);
		return NULL;
	}
	hub->conns[hub->count++] = conn;
	return conn;
}

/* hub_reap -- nothing is awaited: what the ends of connections leave in the queue is no news */
int hub_reap(struct hub *hub)
{
	struct fi_cq_err_entry error;
	struct fi_cq_entry entry;
	ssize_t ret;

	if (!hub->cq)
		return 0;
	while ((ret = fi_cq_read(hub->cq, &entry, 1)) != -FI_EAGAIN) {
		if (ret == -FI_EAVAIL)
			cq_error(hub->cq, &error);
		else if (ret < 0)
			return report("fi_cq_read", ret);
	}
	return 0;
}

void hub_remove(struct hub *hub, size_t i)
{
	conn_close(hub->conns[i]);
	free(hub->conns[i]);
	hub->conns[i] = hub->conns[--hub->count];
}

void hub_close(struct hub *hub)
{
	while (hub->count)
		hub_remove(hub, hub->count - 1);
	region_close(&hub->region);
	for (size_t i = 0; hub->own && i < SCALE_CLIENTS; i++) {
		region_close(&hub->own[i].region);
		memory_unmap(&hub->own[i].memory);
	}
	free(hub->own);
	if (hub->cq)
		close_fid(&hub->cq->fid, "the completion queue");
	node_close(&hub->node);
	memory_unmap(&hub->memory);
	free(hub->conns);
}
