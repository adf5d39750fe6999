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

#include "../common/common.h"
#include "../common/memory.h"

#define TIMEOUT_S 30

struct guest {
	struct conn conn;
	struct guest *next;
	bool connected;
};

struct fio_target {
	struct options opts;
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
		.port = place->port,
	};
	struct fio_target *made = calloc(1, sizeof(*made));
	int ret;

	if (!made)
		return report("memory", -FI_ENOMEM);
	made->clients = clients;
	made->opts = (struct options){
		.provider = "pmemverbs",
		.domain = place->domain,
		.src_addr = place->server,
		.timeout = TIMEOUT_S,
	};
	/* With its cache verbs gives each region all rights, whatever was asked for. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
	ret = memory_map(&made->memory, path, size) ? -FI_EIO
						    : node_listen(&made->node, &made->opts, &attr);
	if (ret)
		fio_target_close(made);
	else
		*target = made;
	return ret;
}

static void refuse(struct fio_target *target, struct fi_info *info)
{
	fi_reject(target->node.pep, info->handle, NULL, 0);
	fi_freeinfo(info);
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
	return ret ? report("fi_accept", ret) : 0;
}

/* welcome -- one client that can't be let in is no reason not to serve others */
static int welcome(struct fio_target *target, const struct cm_event *event, ssize_t len)
{
	struct conn_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait = FI_WAIT_UNSPEC};
	struct fi_info *info = event->entry.info;
	struct guest *guest;
	int ret;

	len -= (ssize_t) sizeof(event->entry);
	if (len < FIO_HELLO_LEN || memcmp(event->entry.data, FIO_HELLO, FIO_HELLO_LEN)) {
		fprintf(stderr, "somebody else's client was refused\n");
		refuse(target, info);
		return 0;
	}
	ret = lend(target, info);
	guest = ret ? NULL : calloc(1, sizeof(*guest));
	if (!guest) {
		refuse(target, info);
		return ret ? ret : report("memory", -FI_ENOMEM);
	}
	if (conn_create(&guest->conn, &target->node, info, &attr)) {
		refuse(target, info);
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
	target->served += guest->connected;
	conn_close(&guest->conn);
	free(guest);
}

static int take_event(struct fio_target *target, const struct cm_event *event, ssize_t len)
{
	struct guest *guest = target->guests;

	switch (event->event) {
	case FI_CONNREQ:
		return welcome(target, event, len);
	case FI_CONNECTED:
		while (guest && &guest->conn.ep->fid != event->entry.fid)
			guest = guest->next;
		if (guest)
			guest->connected = true;
		return 0;
	case FI_SHUTDOWN:
		part(target, event->entry.fid);
		return 0;
	default:
		return 0;
	}
}

int fio_target_serve(struct fio_target *target, int timeout_ms)
{
	struct fi_eq_err_entry err = {0};
	struct cm_event event;
	ssize_t ret;

	ret = fi_eq_sread(target->node.eq, &event.event, event.room, sizeof(event.room), timeout_ms,
			  0);
	/* A connection that was not made, or that broke */
	if (ret == -FI_EAVAIL && fi_eq_readerr(target->node.eq, &err, 0) > 0)
		part(target, err.fid);
	else if (ret < 0 && ret != -FI_EAGAIN && ret != -FI_EINTR)
		return report("fi_eq_sread", ret);
	else if (ret >= 0)
		ret = take_event(target, &event, ret);
	if (ret < 0 && ret != -FI_EAGAIN && ret != -FI_EINTR && ret != -FI_EAVAIL)
		return (int) ret;
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
