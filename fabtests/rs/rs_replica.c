/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_replica.c -- how a client connects to a target, again and again, and asks it */
#include "rs_replica.h"

#include <stdlib.h>
#include <string.h>

#include "rs_chain.h"

#define RETRY_MS 20

/* ---- connections ---- */

/* leave -- the target can't be reached, or has failed */
static void leave(struct rs_replica *replica)
{
	conn_close(&replica->conn);
	replica->state = RS_AWAY;
	replica->busy = false;
	replica->staged = false;
	replica->locked = false;
	replica->retry_at = connection_now_ms() + RETRY_MS;
}

static int start_connecting(struct rs_replica *replica)
{
	const struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA, .selective = true, .wait = FI_WAIT_UNSPEC};
	int ret = conn_create(&replica->conn, &replica->node, replica->node.info, &attr);

	if (ret)
		return ret;
	replica->state = RS_CONNECTING;
	ret = fi_connect(replica->conn.ep, replica->node.info->dest_addr, RS_HELLO, KV_HELLO_LEN);
	return ret ? explain_call(&replica->error, "fi_connect", ret) : 0;
}

static int transfer(struct rs_replica *replica,
		    ssize_t (*call)(struct fid_ep *, const struct fi_msg_rma *, uint64_t),
		    void *buf, size_t len, uint64_t addr, uint64_t key, uint64_t flags)
{
	struct iovec iov = {buf, len};
	struct fi_rma_iov rma_iov = {addr, len, key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &replica->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = replica,
	};

	return (int) call(replica->conn.ep, &msg, flags);
}

/* meet -- it is connected, and has said where this client's stage is */
static int meet(struct rs_replica *replica, const struct cm_event *event)
{
	struct kv_welcome *welcome = &replica->welcome;
	int ret;

	if (event->len < KV_WELCOME_LEN)
		return explain(&replica->error, -FI_EOTHER, "that is no target of this program");
	memcpy(welcome, event->entry.data, KV_WELCOME_LEN);
	if (memcmp(welcome->hello, RS_HELLO, KV_HELLO_LEN))
		return explain(&replica->error, -FI_EOTHER, "that is no target of this program");
	ret = fi_open_ops(&replica->conn.ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0,
			  (void **) &replica->ops, NULL);
	if (ret)
		return explain_call(&replica->error, "fi_open_ops", ret);
	replica->state = RS_MEETING;
	return 0;
}

static int look_for_event(struct rs_replica *replica, bool *changed)
{
	struct cm_event event;
	int ret = node_event(&replica->node, &event, 0);

	*changed = ret > 0;
	/* Of older connections, too. */
	if (ret <= 0 || (event.entry.fid && event.entry.fid != &replica->conn.ep->fid))
		return ret < 0 ? ret : 0;
	if (event.err || event.event != FI_CONNECTED)
		return explain(&replica->error, -FI_ECONNREFUSED, "no target at %s, port %s",
			       replica->opts.dst_addr, replica->opts.dst_port);
	return meet(replica, &event);
}

/* take_lease -- 0, or an error */
static int take_lease(struct rs_replica *replica)
{
	const struct kv_lease *lease = &replica->buffers->lease;

	if (lease->magic != RS_MAGIC || !lease->slots)
		return explain(&replica->error, -FI_EOTHER, "the target has no blocks");
	replica->state = RS_READY;
	return 0;
}

static int read_lease(struct rs_replica *replica)
{
	return transfer(replica, fi_readmsg, &replica->buffers->lease, sizeof(struct kv_lease),
			replica->welcome.addr, replica->welcome.key, FI_COMPLETION);
}

/* ---- requests ---- */

static int post_write(struct rs_replica *replica, const struct rs_record *record)
{
	struct rs_buffers *buffers = replica->buffers;
	size_t len = sizeof(buffers->claim) + sizeof(*record);
	int ret;

	if (!replica->staged) {
		buffers->record = *record;
		ret = transfer(replica, fi_writemsg, &buffers->claim, len,
			       replica->welcome.addr + offsetof(struct rs_stage, claim),
			       replica->welcome.key, 0);
		if (ret)
			return ret;
	}
	replica->staged = true;
	return (int) replica->ops->post(replica->conn.ep, replica->steps, rs_make(replica), replica,
					FI_COMPLETION);
}

static int post_place(struct rs_replica *replica, const struct rs_record *record)
{
	uint64_t flags = replica->opts.is_volatile ? FI_DELIVERY_COMPLETE : FI_COMMIT_COMPLETE;
	struct rs_buffers *buffers = replica->buffers;
	uint64_t key = buffers->lease.key;

	if (replica->request.what == RS_READ_PLACE)
		return transfer(replica, fi_readmsg, &buffers->got, sizeof(*record),
				buffers->place[0], key, FI_COMPLETION);
	buffers->record = *record;
	return transfer(replica, fi_writemsg, &buffers->record, sizeof(*record), buffers->place[0],
			key, FI_COMPLETION | flags);
}

/* post -- what replica->request says: 0, -FI_EAGAIN, or an error */
static int post(struct rs_replica *replica, const struct rs_record *record)
{
	size_t count;

	if (replica->state == RS_MEETING)
		return read_lease(replica);
	if (replica->request.what == RS_WRITE)
		return post_write(replica, record);
	count = rs_make(replica);
	if (!count)
		return post_place(replica, record);
	return (int) replica->ops->post(replica->conn.ep, replica->steps, count, replica,
					FI_COMPLETION);
}

/* end -- of what has been posted last */
static int end(struct rs_replica *replica)
{
	replica->busy = false;
	replica->staged = false;
	if (replica->state == RS_MEETING)
		return take_lease(replica);
	/* If it has found no buffer it is posted again. */
	if (rs_judge(replica))
		replica->answered = replica->request.number;
	return 0;
}

bool rs_replica_concerns(const struct rs_replica *replica, enum rs_what what)
{
	return (what != RS_READ_PLACE && what != RS_WRITE_PLACE) || replica->locked;
}

/* begin -- the next request, if there is one: 1 if it was posted */
static int begin(struct rs_replica *replica, const struct rs_request *request,
		 const struct rs_record *record)
{
	int ret;

	if (replica->state == RS_READY) {
		if (!request->number || request->number == replica->answered ||
		    !rs_replica_concerns(replica, request->what))
			return 0;
		if (request->number != replica->request.number)
			replica->staged = false;
		replica->request = *request;
	}
	ret = post(replica, record);
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret)
		return explain_call(&replica->error, "posting", ret);
	replica->busy = true;
	return 1;
}

/* advance -- of a connection: 1 if something has changed */
static int advance(struct rs_replica *replica, const struct rs_request *request,
		   const struct rs_record *record)
{
	struct fi_cq_data_entry entry;
	int ret = (int) conn_poll(&replica->conn, &entry, 1, 0);

	if (ret > 0 && replica->busy) {
		ret = end(replica);
		return ret ? ret : 1;
	}
	if (ret > 0)
		return explain_call(&replica->error, "an unexpected completion", -FI_EOTHER);
	return ret || replica->busy ? ret : begin(replica, request, record);
}

bool rs_replica_poll(struct rs_replica *replica, const struct rs_request *request,
		     const struct rs_record *record)
{
	bool changed = false;
	int ret = 0;

	switch (replica->state) {
	case RS_AWAY:
		if (connection_now_ms() < replica->retry_at)
			return false;
		ret = start_connecting(replica);
		break;
	case RS_CONNECTING:
		ret = look_for_event(replica, &changed);
		break;
	default:
		ret = advance(replica, request, record);
		changed = ret;
	}
	if (ret < 0)
		leave(replica);
	return changed;
}

/* ---- opening ---- */

int rs_replica_open(struct rs_replica *replica, const struct options *opts, unsigned int number)
{
	struct node_attr attr = {.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
				 .error = &replica->error};
	int ret;

	replica->opts = *opts;
	replica->opts.dst_addr = opts->hosts[number];
	if (opts->ports[number])
		replica->opts.dst_port = opts->ports[number];
	attr.port = replica->opts.dst_port;
	replica->buffers = calloc(1, sizeof(*replica->buffers));
	if (!replica->buffers)
		return explain_call(&replica->error, "calloc", -FI_ENOMEM);
	ret = fabric_open(&replica->node, &replica->opts, &attr);
	return ret ? ret
		   : region_register(&replica->node, &replica->region, replica->buffers,
				     sizeof(*replica->buffers), FI_READ | FI_WRITE, 0);
}

void rs_replica_close(struct rs_replica *replica)
{
	conn_close(&replica->conn);
	region_close(&replica->region);
	node_close(&replica->node);
	free(replica->buffers);
	*replica = (struct rs_replica){0};
}
