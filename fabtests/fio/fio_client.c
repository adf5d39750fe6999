/* SPDX-License-Identifier: BSD-2-Clause */
/* fio_client.c -- the client's end; fio_link.h says what for */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fio_link.h"
#include "fio_proto.h"

#include "../../util/connection/connection.h"

#define TIMEOUT_MS 30000
#define ENTRIES 32

struct fio_client {
	struct node node;
	struct conn conn;
	struct region region; /* what is written from, and read into */
	struct fio_lease lease;
};

int fio_errno(ssize_t ret)
{
	int err = (int) -ret;

	/* All others have the values of errno. */
	if (err < FI_ERRNO_OFFSET)
		return err;
	switch (err) {
	case FI_ETOOSMALL:
	case FI_ETRUNC:
		return EMSGSIZE;
	case FI_ENOKEY:
	case FI_EDOMAIN:
		return EACCES;
	case FI_ENOCQ:
	case FI_ENOEQ:
	case FI_EOPBADSTATE:
	case FI_EBADFLAGS:
	case FI_ENOAV:
		return EINVAL;
	default:
		return EIO;
	}
}

/* read_lease -- whoever answers at that port need not be a target of ours */
static int read_lease(struct fio_client *client, const struct cm_event *event)
{
	struct fio_lease *lease = &client->lease;

	memcpy(lease, event->entry.data, FIO_LEASE_LEN);
	lease->addr = le64toh(lease->addr);
	lease->key = le64toh(lease->key);
	lease->size = le64toh(lease->size);
	if (!memcmp(lease->hello, FIO_HELLO, FIO_HELLO_LEN) && lease->size &&
	    lease->addr + lease->size > lease->addr)
		return 0;
	fprintf(stderr, "%s, port %s: this is no target of libfabric-pmem\n", client->node.host,
		client->node.port);
	return -EPROTO;
}

static int connect_client(struct fio_client *client)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_CONTEXT,
		.wait = FI_WAIT_UNSPEC,
		.selective = true,
	};
	int64_t deadline = connection_now_ms() + CONNECT_SECONDS * 1000;
	/* What is not answered is no hello. */
	struct cm_event event = {0};
	int ret;

	do {
		ret = conn_create(&client->conn, &client->node, client->node.info, &attr);
		if (ret)
			return ret;
		ret = conn_connect(&client->conn, FIO_HELLO, FIO_HELLO_LEN, &event);
	} while (ret && conn_again(&client->conn, ret, deadline));
	return ret ? ret : read_lease(client, &event);
}

int fio_client_open(struct fio_client **client, const struct fio_place *place)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.threading = FI_THREAD_DOMAIN,
		.domain = place->domain,
		.host = place->server,
		.port = place->port,
		.timeout_ms = TIMEOUT_MS,
	};
	struct fio_client *made = calloc(1, sizeof(*made));
	int ret;

	if (!made)
		return explain_call(NULL, "memory", -FI_ENOMEM);
	ret = node_open(&made->node, &attr);
	if (!ret)
		ret = connect_client(made);
	if (ret)
		fio_client_close(made);
	else
		*client = made;
	return ret;
}

void fio_client_close(struct fio_client *client)
{
	conn_end(&client->conn);
	conn_close(&client->conn);
	region_close(&client->region);
	node_close(&client->node);
	free(client);
}

uint64_t fio_client_size(const struct fio_client *client)
{
	return client->lease.size;
}

size_t fio_client_limit(const struct fio_client *client)
{
	return client->node.info->ep_attr->max_msg_size;
}

int fio_client_memory(struct fio_client *client, void *buf, size_t len)
{
	return region_register(&client->node, &client->region, buf, len, FI_READ | FI_WRITE, 0);
}

ssize_t fio_client_post(struct fio_client *client, enum fio_kind kind, void *context, void *buf,
			size_t len, uint64_t offset)
{
	static const uint64_t flags[] = {
		[FIO_KIND_READ] = FI_COMPLETION,
		[FIO_KIND_WRITE] = FI_COMPLETION | FI_DELIVERY_COMPLETE,
		[FIO_KIND_DURABLE] = FI_COMPLETION | FI_COMMIT_COMPLETE,
		[FIO_KIND_COMMIT] = FI_COMPLETION | FI_COMMIT_COMPLETE,
	};
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct fi_rma_iov there = {
		.addr = client->lease.addr + offset, .len = len, .key = client->lease.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &client->region.desc,
		.iov_count = 1,
		.rma_iov = &there,
		.rma_iov_count = 1,
		.context = context,
	};

	if (kind == FIO_KIND_READ)
		return fi_readmsg(client->conn.ep, &msg, flags[kind]);
	return fi_writemsg(client->conn.ep, &msg, flags[kind]);
}

int fio_client_poll(struct fio_client *client, struct fio_done *done, int max, int timeout_ms)
{
	struct fid_cq *cq = client->conn.txcq;
	struct fi_cq_entry entries[ENTRIES];
	struct fi_cq_err_entry err;
	int room = max < ENTRIES ? max : ENTRIES;
	ssize_t ret;

	ret = timeout_ms ? fi_cq_sread(cq, entries, room, NULL, timeout_ms)
			 : fi_cq_read(cq, entries, room);
	if (ret == -FI_EAGAIN || ret == -FI_EINTR)
		return 0;
	if (ret == -FI_EAVAIL && cq_error(cq, &err)) {
		*done = (struct fio_done){err.op_context,
					  conn_lost(err.err) ? ENOTCONN : fio_errno(-err.err)};
		return 1;
	}
	if (ret < 0)
		return explain_call(NULL, "fi_cq_read", ret);
	for (ssize_t i = 0; i < ret; i++)
		done[i] = (struct fio_done){entries[i].op_context, 0};
	return (int) ret;
}
