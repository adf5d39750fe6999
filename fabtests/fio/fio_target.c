/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fio_target.c -- the target's end; fio_link.h says what for
 *
 * All clients share one domain, so each may read and write all that is lent.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fio_link.h"
#include "fio_proto.h"

#include "../../util/connection/connection.h"
#include "../common/memory.h"

#define TIMEOUT_MS 30000

struct guest {
	struct conn conn;
	struct guest *next;
};

struct fio_target {
	struct node node;
	struct memory memory;
	struct region region;
	struct guest *guests;
	unsigned int clients; /* so many come before it is over */
	unsigned int served;
};

int fio_target_open(struct fio_target **target, const struct fio_place *place, const char *path,
		    size_t size, unsigned int clients)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.domain = place->domain,
		.source = place->server,
		.port = place->port,
		.timeout_ms = TIMEOUT_MS,
	};
	struct fio_target *made = calloc(1, sizeof(*made));
	int ret;

	if (!made)
		return explain_call(NULL, "memory", -FI_ENOMEM);
	made->clients = clients;
	/* With its cache verbs gives each region all rights, whatever was asked for. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
	ret = memory_map(&made->memory, path, size) ? -FI_EIO : node_listen(&made->node, &attr);
	if (ret) {
		fio_target_close(made);
		return ret;
	}
	fprintf(stderr, "waiting on port %s\n", place->port);
	*target = made;
	return 0;
}

/* lend -- the memory is registered when the first comes, by whom the domain is known */
static int lend(struct fio_target *target, struct fi_info *info)
{
	struct memory *memory = &target->memory;
	int ret = node_domain(&target->node, info);

	if (ret || target->region.mr)
		return ret;
	return region_register(&target->node, &target->region, memory->base, memory->len,
			       FI_REMOTE_READ | FI_REMOTE_WRITE, FI_RMA_PMEM);
}

static int accept_guest(struct fio_target *target, struct guest *guest)
{
	struct fio_lease lease = {
		.addr = htole64(target->region.addr),
		.key = htole64(target->region.key),
		.size = htole64(target->region.len),
	};
	int ret;

	memcpy(lease.hello, FIO_HELLO, FIO_HELLO_LEN);
	ret = fi_accept(guest->conn.ep, &lease, FIO_LEASE_LEN);
	return ret ? explain_call(NULL, "fi_accept", ret) : 0;
}

/* welcome -- one client that can't be let in is no reason not to serve others */
static int welcome(struct fio_target *target, const struct cm_event *event)
{
	struct conn_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait = FI_WAIT_UNSPEC};
	struct fi_info *info = event->entry.info;
	struct guest *guest;
	int ret;

	if (event->len < FIO_HELLO_LEN || memcmp(event->entry.data, FIO_HELLO, FIO_HELLO_LEN)) {
		fprintf(stderr, "somebody else's client was refused\n");
		node_reject(&target->node, info, NULL);
		return 0;
	}
	ret = lend(target, info);
	guest = ret ? NULL : calloc(1, sizeof(*guest));
	if (!guest) {
		node_reject(&target->node, info, NULL);
		return ret ? ret : explain_call(NULL, "memory", -FI_ENOMEM);
	}
	if (conn_create(&guest->conn, &target->node, info, &attr)) {
		node_reject(&target->node, info, NULL);
		free(guest);
		return 0;
	}
	fi_freeinfo(info);
	guest->next = target->guests;
	target->guests = guest;
	if (!accept_guest(target, guest))
		return 0;
	target->guests = guest->next;
	conn_close(&guest->conn);
	free(guest);
	return 0;
}

/* part -- with the guest of this endpoint */
static void part(struct fio_target *target, const struct fid *fid)
{
	struct guest **at = &target->guests, *guest;

	while (*at && &(*at)->conn.ep->fid != fid)
		at = &(*at)->next;
	guest = *at;
	if (!guest)
		return;
	*at = guest->next;
	target->served++;
	conn_close(&guest->conn);
	free(guest);
}

static int take_event(struct fio_target *target, const struct cm_event *event)
{
	if (event->event == FI_CONNREQ)
		return welcome(target, event);
	/*
	 * Whoever was accepted has been served, also if FI_CONNECTED never came: the core may see
	 * the end of a connection of a client that leaves at once before it says that there was
	 * one.
	 */
	if (event->event == FI_SHUTDOWN)
		part(target, event->entry.fid);
	return 0;
}

int fio_target_serve(struct fio_target *target, int timeout_ms)
{
	struct cm_event event;
	/* A connection that was not made, or that broke, comes as FI_SHUTDOWN, too. */
	int ret = node_event(&target->node, &event, timeout_ms);

	if (ret > 0)
		ret = take_event(target, &event);
	if (ret < 0)
		return ret;
	return target->clients && target->served >= target->clients && !target->guests;
}

void fio_target_close(struct fio_target *target)
{
	while (target->guests)
		part(target, &target->guests->conn.ep->fid);
	region_close(&target->region);
	node_close(&target->node);
	memory_unmap(&target->memory);
	free(target);
}
