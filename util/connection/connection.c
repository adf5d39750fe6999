/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connection.c -- endpoints, their queues, and memory; connection.h says what for
 *
 * Making a connection is event driven: whoever waits for an event waits in fi_eq_sread with a
 * deadline, so that a silent peer ends in an error, in no case in a hang.
 */
#include "connection.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PAUSE_NS 50000000

/* ---- queues and endpoints ---- */

int cq_create(struct node *node, const struct conn_attr *attr, size_t size, struct fid_cq **cq)
{
	struct fi_cq_attr cq_attr = {
		.size = size,
		.format = attr->format,
		.wait_obj = attr->wait,
	};

	return fi_cq_open(node->domain, &cq_attr, cq, NULL);
}

static int create_queues(struct conn *conn, const struct fi_info *info,
			 const struct conn_attr *attr)
{
	size_t size = attr->cq_size;
	int ret;

	if (attr->cq) {
		conn->txcq = conn->rxcq = attr->cq;
		return 0;
	}
	/* Room for everything that the endpoint or its peer can have under way. */
	if (!size)
		size = info->tx_attr->size + info->rx_attr->size;
	conn->own_cq = true;
	ret = cq_create(conn->node, attr, size, &conn->txcq);
	if (ret)
		return explain_call(conn->node->error, "fi_cq_open", ret);
	conn->rxcq = conn->txcq;
	if (!attr->separate)
		return 0;
	ret = cq_create(conn->node, attr, size, &conn->rxcq);
	return ret ? explain_call(conn->node->error, "fi_cq_open", ret) : 0;
}

static int bind_all(struct conn *conn, const struct conn_attr *attr)
{
	uint64_t tx = FI_TRANSMIT | (attr->selective ? FI_SELECTIVE_COMPLETION : 0);
	int ret;

	ret = fi_ep_bind(conn->ep, &conn->node->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(conn->ep, &conn->txcq->fid, tx);
	if (!ret)
		ret = fi_ep_bind(conn->ep, &conn->rxcq->fid, FI_RECV);
	if (!ret && attr->av)
		ret = fi_ep_bind(conn->ep, &attr->av->fid, 0);
	if (!ret && attr->srx)
		ret = fi_ep_bind(conn->ep, &attr->srx->fid, 0);
	if (!ret && attr->write_cntr)
		ret = fi_ep_bind(conn->ep, &attr->write_cntr->fid, FI_WRITE);
	if (!ret && attr->read_cntr)
		ret = fi_ep_bind(conn->ep, &attr->read_cntr->fid, FI_READ);
	if (!ret && attr->remote_write_cntr)
		ret = fi_ep_bind(conn->ep, &attr->remote_write_cntr->fid, FI_REMOTE_WRITE);
	return ret ? explain_call(conn->node->error, "fi_ep_bind", ret) : 0;
}

int conn_create(struct conn *conn, struct node *node, struct fi_info *info,
		const struct conn_attr *attr)
{
	int ret;

	*conn = (struct conn){.node = node};
	ret = fi_endpoint(node->domain, info, &conn->ep, NULL);
	if (ret)
		return explain_call(node->error, "fi_endpoint", ret);
	/* The request is the endpoint's now, and may be gone with it: nobody rejects it any more.
	 */
	info->handle = NULL;
	ret = create_queues(conn, info, attr);
	if (!ret)
		ret = bind_all(conn, attr);
	if (!ret) {
		ret = fi_enable(conn->ep);
		if (ret)
			explain_call(node->error, "fi_enable", ret);
	}
	if (ret)
		conn_close(conn);
	return ret;
}

void conn_end(struct conn *conn)
{
	if (conn->ep) {
		fi_shutdown(conn->ep, 0);
		close_fid(&conn->ep->fid, "the endpoint");
	}
	conn->ep = NULL;
}

void conn_close(struct conn *conn)
{
	if (conn->ep)
		close_fid(&conn->ep->fid, "the endpoint");
	if (conn->own_cq && conn->rxcq && conn->rxcq != conn->txcq)
		close_fid(&conn->rxcq->fid, "the receive completion queue");
	if (conn->own_cq && conn->txcq)
		close_fid(&conn->txcq->fid, "the completion queue");
	*conn = (struct conn){0};
}

/* ---- making a connection ---- */

/* next_event -- before the deadline */
static int next_event(struct node *node, struct cm_event *event, int64_t deadline)
{
	int64_t left;
	int ret;

	do {
		left = deadline - connection_now_ms();
		ret = node_event(node, event, left > 0 ? (int) left : 0);
	} while (!ret && left > 0);
	return ret ? ret : explain(node->error, -FI_ETIMEDOUT, "no connection event in time");
}

/* is_text -- a peer may have sent anything as its reason */
static bool is_text(const struct cm_event *event)
{
	size_t len = strnlen((const char *) event->entry.data, event->len);

	for (size_t i = 0; i < len; i++) {
		if (!isprint(event->entry.data[i]))
			return false;
	}
	return len;
}

static int tell_failure(const struct node *node, const struct cm_event *event)
{
	if (is_text(event))
		return explain(node->error, -event->err, "the target refuses: %.*s",
			       (int) event->len, (const char *) event->entry.data);
	/* Callers may try again where nobody listens yet, and tell it otherwise. */
	if (node->error || event->err != FI_ECONNREFUSED)
		explain_call(node->error, "connection", -event->err);
	return -event->err;
}

int conn_await(struct conn *conn, struct cm_event *event)
{
	int64_t deadline = connection_now_ms() + (int64_t) conn->node->timeout_ms;
	struct cm_event unused;
	int ret;

	if (!event)
		event = &unused;
	/* Events of other, older connections may come in between. */
	do {
		ret = next_event(conn->node, event, deadline);
		if (ret < 0)
			return ret;
	} while (event->entry.fid && event->entry.fid != &conn->ep->fid);
	if (event->err)
		return tell_failure(conn->node, event);
	if (event->event == FI_CONNECTED)
		return 0;
	return explain(conn->node->error, -FI_ECONNABORTED,
		       "connection event %u instead of FI_CONNECTED", event->event);
}

int conn_connect(struct conn *conn, const void *data, size_t len, struct cm_event *event)
{
	int ret = fi_connect(conn->ep, conn->node->info->dest_addr, data, len);

	return ret ? explain_call(conn->node->error, "fi_connect", ret) : conn_await(conn, event);
}

bool conn_again(struct conn *conn, int ret, int64_t deadline_ms)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const struct node *node = conn->node;

	if (ret == -FI_ECONNABORTED || ret == -FI_ECONNRESET)
		explain_connection(node->error, node->host, node->port, ret);
	if (ret != -FI_ECONNREFUSED)
		return false;
	if (connection_now_ms() > deadline_ms) {
		explain_connection(node->error, node->host, node->port, ret);
		return false;
	}
	conn_close(conn);
	nanosleep(&pause, NULL);
	return true;
}

int conn_request(struct node *node, struct cm_event *event)
{
	int64_t deadline = connection_now_ms() + (int64_t) node->timeout_ms;
	int ret;

	do {
		ret = next_event(node, event, deadline);
		if (ret < 0)
			return ret;
		if (event->err)
			return tell_failure(node, event);
	} while (event->event != FI_CONNREQ);
	if (!node_domain(node, event->entry.info))
		return 0;
	node_reject(node, event->entry.info, NULL);
	return -FI_EOTHER;
}

int conn_accept(struct conn *conn, const void *data, size_t len)
{
	int ret = fi_accept(conn->ep, data, len);

	return ret ? explain_call(conn->node->error, "fi_accept", ret) : conn_await(conn, NULL);
}

/* ---- completions ---- */

static int tell_lost(const struct conn *conn)
{
	return explain(conn->node->error, -FI_ENOTCONN, "the connection is lost");
}

/* look_for_end -- once the end of a connection has been read, what was under way fails */
static int look_for_end(struct conn *conn)
{
	struct cm_event event;
	int ret = node_event(conn->node, &event, 0);

	if (ret <= 0)
		return ret;
	/* What has arrived before is in the queue: that is read first. */
	if (!conn->lost) {
		conn->lost = true;
		return 0;
	}
	return tell_lost(conn);
}

ssize_t conn_poll(struct conn *conn, struct fi_cq_data_entry *entries, size_t max, int timeout_ms)
{
	struct connection_error *error = conn->node->error;
	struct fi_cq_err_entry entry;
	ssize_t ret;

	if (timeout_ms && !conn->lost)
		ret = fi_cq_sread(conn->txcq, entries, max, NULL, timeout_ms);
	else
		ret = fi_cq_read(conn->txcq, entries, max);
	if (ret == -FI_EAVAIL && cq_error(conn->txcq, &entry)) {
		return conn_lost(entry.err)
			       ? tell_lost(conn)
			       : explain_call(error, "an operation failed", -entry.err);
	}
	if (ret != -FI_EAGAIN && ret != -FI_EINTR)
		return ret < 0 ? explain_call(error, "reading the completion queue", ret) : ret;
	return conn->lost ? tell_lost(conn) : look_for_end(conn);
}

bool cq_error(struct fid_cq *cq, struct fi_cq_err_entry *entry)
{
	*entry = (struct fi_cq_err_entry){0};
	return fi_cq_readerr(cq, entry, 0) == 1;
}

int cq_report(struct fid_cq *cq)
{
	struct fi_cq_err_entry entry;

	if (!cq_error(cq, &entry)) {
		fprintf(stderr, "fi_cq_readerr: no error entry\n");
		return -FI_EOTHER;
	}
	fprintf(stderr, "completion: %s (%d), provider says: %s (%d)\n", fi_strerror(entry.err),
		entry.err, fi_cq_strerror(cq, entry.prov_errno, entry.err_data, NULL, 0),
		entry.prov_errno);
	return entry.err ? -entry.err : -FI_EOTHER;
}

/* ---- memory ---- */

int region_try(struct node *node, struct region *region, void *buf, size_t len, uint64_t access,
	       uint64_t flags)
{
	uint64_t key = node->mr_mode & FI_MR_PROV_KEY ? 0 : node->next_key++;
	int ret;

	*region = (struct region){0};
	ret = fi_mr_reg(node->domain, buf, len, access, 0, key, flags, &region->mr, NULL);
	if (ret)
		return ret;
	region->buf = buf;
	region->len = len;
	region->desc = fi_mr_desc(region->mr);
	region->key = fi_mr_key(region->mr);
	region->addr = node->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) buf : 0;
	return 0;
}

int region_register(struct node *node, struct region *region, void *buf, size_t len,
		    uint64_t access, uint64_t flags)
{
	int ret = region_try(node, region, buf, len, access, flags);

	return ret ? explain_memory(node->error, ret) : 0;
}

int region_close(struct region *region)
{
	int ret = 0;

	if (region->mr)
		ret = close_fid(&region->mr->fid, "the memory region");
	*region = (struct region){0};
	return ret;
}
