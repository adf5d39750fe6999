/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * comeback.c -- a client comes back to a server that has recovered
 *
 * It is a copy of the client as it was when the power failed: connect.c decides what it sends again
 * and which replies it asks for, client.c does that.  Nothing is lost or late on the new
 * connection: what is written is in the image at once, durable, and a message comes into the cell
 * that the server has posted for it.  The server executes as many calls as it was told of, and
 * sends the replies that it was asked for, as session.c does.
 */
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include "stage.h"

/* More than a client that is right ever needs. */
#define MOST_ROUNDS 100

struct comeback {
	struct fid_ep ep;
	struct fid_cq cq;
	struct rpc_store *store;
	struct rpc_executor *executor;
	struct pmemrpc_client client;
	struct pmemrpc_call calls[MAX_CALLS + 1];
	struct answer answers[MAX_CALLS + 1];
	struct rpc_posted *posted[MAX_CALLS]; /* whose commits have completed, and not been read */
	unsigned int num_posted;
	struct rpc_buffers receives;
	struct rpc_buffer buffer; /* of the one reply that is on its way */
	struct {
		struct rpc_reply_message head;
		struct answer answer;
	} message;
	uint64_t old_reply, reply; /* the next one, of the old connection, and of this one */
	uint64_t old_end;          /* the last one that was sent on the old connection */
	uint64_t told;             /* calls of which the server knows that they are durable */
	uint64_t received;         /* where the next message comes, if calls are sent */
};

/* The connection */

static ssize_t write_now(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct comeback *back = (struct comeback *) ep;
	const struct iovec *iov = msg->msg_iov;
	struct rpc_ring ring = rpc_store_ring(back->store, 0);

	memcpy(ring.base + (msg->rma_iov->addr - back->client.ring_addr), iov->iov_base,
	       iov->iov_len);
	if (flags & FI_REMOTE_CQ_DATA) {
		back->told += msg->data;
		if (flags & FI_COMPLETION)
			back->posted[back->num_posted++] = msg->context;
	}
	return 0;
}

static ssize_t send_now(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct comeback *back = (struct comeback *) ep;
	struct rpc_ring ring = rpc_store_ring(back->store, 0);

	memcpy(ring.base + back->received % ring.size, msg->msg_iov->iov_base,
	       msg->msg_iov->iov_len);
	back->received += ring.cell;
	back->told++;
	if (flags & FI_COMPLETION)
		back->posted[back->num_posted++] = msg->context;
	return 0;
}

static ssize_t receive(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		       void *context)
{
	(void) ep, (void) buf, (void) len, (void) desc, (void) from, (void) context;
	return 0;
}

/* reply_to -- as session.c makes it of what the store has */
static ssize_t reply_to(struct comeback *back, uint64_t sequence, struct fi_cq_data_entry *entry)
{
	const struct rpc_reply *reply = rpc_store_reply(back->store, 0, sequence);
	bool kept = sequence <= rpc_store_kept(back->store, 0);

	if (!reply)
		return -FI_EAGAIN;
	back->message.head =
		(struct rpc_reply_message){.type = htole32(kept ? RPC_MSG_REPLY : RPC_MSG_READ),
					   .status = (int32_t) htole32(STATUS),
					   .sequence = htole64(sequence),
					   .len = htole32(reply->len)};
	memcpy(&back->message.answer, reply + 1, sizeof(back->message.answer));
	*entry = (struct fi_cq_data_entry){
		.op_context = &back->buffer, .flags = FI_RECV, .len = sizeof(back->message)};
	return 1;
}

static ssize_t read_one(struct fid_cq *cq, void *entries, size_t count)
{
	struct comeback *back = (struct comeback *) ((char *) cq - offsetof(struct comeback, cq));
	struct fi_cq_data_entry *entry = entries;

	(void) count;
	/* They were sent on the connection that is closed: nobody reads them any more. */
	if (mutant == OLD_REPLIES && back->old_reply <= back->old_end)
		return reply_to(back, back->old_reply++, entry);
	if (back->num_posted) {
		*entry = (struct fi_cq_data_entry){.op_context = back->posted[0]};
		memmove(&back->posted[0], &back->posted[1],
			--back->num_posted * sizeof(back->posted[0]));
		return 1;
	}
	if (back->reply > rpc_store_slot(back->store, 0)->executed)
		return -FI_EAGAIN;
	return reply_to(back, back->reply++, entry);
}

static struct fi_ops_rma rma_ops = {.size = sizeof(struct fi_ops_rma), .writemsg = write_now};
static struct fi_ops_msg msg_ops = {
	.size = sizeof(struct fi_ops_msg), .sendmsg = send_now, .recv = receive};
static struct fi_ops_cq cq_ops = {.size = sizeof(struct fi_ops_cq), .read = read_one};

/* Both ends */

static void copy_client(struct comeback *back, const struct stage *stage)
{
	struct pmemrpc_client *client = &back->client;

	*client = *stage->client;
	memcpy(back->calls, stage->calls, sizeof(stage->calls));
	memcpy(back->answers, stage->answers, sizeof(stage->answers));
	client->calls = g_memdup2(client->calls, client->window * sizeof(*client->calls));
	client->ring.base = g_memdup2(client->ring.base, 2 * client->ring.size);
	for (unsigned int i = 0; i < stage->posted; i++) {
		uint64_t sequence = back->calls[i].sequence;

		back->calls[i].reply = &back->answers[i];
		if (sequence > client->freed)
			client->calls[sequence % client->window].call = &back->calls[i];
	}
	back->old_reply = client->executed + 1;
	back->old_end = stage->session.reply - 1;
}

/* connect_again -- as attempt and settle in connect.c do, when there was a connection before */
static const char *connect_again(struct comeback *back)
{
	struct pmemrpc_client *client = &back->client;
	const struct rpc_slot *slot = rpc_store_slot(back->store, 0);

	back->ep.msg = &msg_ops;
	back->ep.rma = &rma_ops;
	back->cq.ops = &cq_ops;
	back->receives = (struct rpc_buffers){
		.link = &client->link, .mr = client->mirror_mr, .buffers = &back->buffer};
	back->buffer = (struct rpc_buffer){
		.kind = RPC_RECEIVE, .set = &back->receives, .data = &back->message};
	back->received = slot->position;
	rpc_client_unsent(client);
	client->link.ep = &back->ep;
	client->link.cq = &back->cq;
	client->ring.key = slot->key;
	if (rpc_client_resume(client, slot->executed, slot->position, &back->reply))
		return "a client that comes back finds that calls are lost";
	client->connected = true;
	rpc_client_durable(client, slot->executed);
	return NULL;
}

/* execute -- all that the server was told of */
static const char *execute(struct comeback *back)
{
	for (; back->told; back->told--) {
		if (rpc_server_execute(back->executor, 0) != 1)
			return "a client that has come back tells of calls that are none";
	}
	return NULL;
}

/* go_on -- until its calls are executed, and one more */
static const char *go_on(struct comeback *back, unsigned int calls)
{
	struct pmemrpc_client *client = &back->client;
	struct pmemrpc_call *next = &back->calls[calls];
	unsigned char argument[1024];
	const char *wrong = NULL;

	*next = (struct pmemrpc_call){.op = (uint32_t) client->posted + 1,
				      .argument = argument,
				      .reply = &back->answers[calls],
				      .reply_size = sizeof(struct answer)};
	next->argument_len = stage_fill(back->client.attr.context, client->posted + 1, argument);
	for (unsigned int i = 0; !wrong && i < MOST_ROUNDS; i++) {
		if (next->state == PMEMRPC_IDLE)
			pmemrpc_post(client, next);
		if (pmemrpc_progress(client))
			return "a client that has come back loses its connection";
		wrong = execute(back);
	}
	if (wrong)
		return wrong;
	for (unsigned int i = 0; i <= calls; i++) {
		if (back->calls[i].state != PMEMRPC_EXECUTED ||
		    back->answers[i].count !=
			    stage_ledger_of(client->attr.context, back->calls[i].sequence).count)
			return "a client that has come back does not get its replies";
	}
	return NULL;
}

const char *comeback(const struct stage *stage, struct rpc_store *store,
		     struct rpc_executor *executor)
{
	struct comeback *back = g_new0(struct comeback, 1);
	const char *wrong;

	back->store = store;
	back->executor = executor;
	copy_client(back, stage);
	back->client.attr.context = (void *) (uintptr_t) stage->scene;
	wrong = connect_again(back);
	if (!wrong)
		wrong = go_on(back, stage->posted);
	g_free(back->client.calls);
	g_free(back->client.ring.base);
	g_free(back);
	return wrong;
}
