/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_messages.c -- every call over FI_EP_RDM that sends, receives or reads
 *
 * The provider stands before each of them with a function that has the same many arguments.
 */
#include <string.h>

#include <rdma/fi_tagged.h>

#include "rdm_functional.h"

#define LEN 64
#define HALF 24
#define AT 8192 /* where it is received, and read to */
#define TAG 0x17
#define OTHER_TAG 0x27
#define ANY_TAG 0x10 /* with IGNORED it is TAG, but not OTHER_TAG */
#define IGNORED 0x0f
#define DATA 99

enum { RECEIVED, SENT };

static struct iovec pieces[2];
static void *descs[2];

static void cut(struct client *client, size_t at)
{
	pieces[0] = (struct iovec){client->buf + at, HALF};
	pieces[1] = (struct iovec){client->buf + at + HALF, LEN - HALF};
	descs[0] = descs[1] = client->desc;
}

static ssize_t by_send(struct client *client)
{
	return fi_send(client->side.ep, client->buf, LEN, client->desc, client->server,
		       &client->contexts[SENT]);
}

static ssize_t by_sendv(struct client *client)
{
	return fi_sendv(client->side.ep, pieces, descs, 2, client->server, &client->contexts[SENT]);
}

static ssize_t by_sendmsg(struct client *client)
{
	const struct fi_msg msg = {pieces, descs, 2, client->server, &client->contexts[SENT], DATA};

	return fi_sendmsg(client->side.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA);
}

static ssize_t by_inject(struct client *client)
{
	return fi_inject(client->side.ep, client->buf, LEN, client->server);
}

static ssize_t by_senddata(struct client *client)
{
	return fi_senddata(client->side.ep, client->buf, LEN, client->desc, DATA, client->server,
			   &client->contexts[SENT]);
}

static ssize_t by_injectdata(struct client *client)
{
	return fi_injectdata(client->side.ep, client->buf, LEN, DATA, client->server);
}

static ssize_t by_tsend(struct client *client)
{
	return fi_tsend(client->side.ep, client->buf, LEN, client->desc, client->server, TAG,
			&client->contexts[SENT]);
}

static ssize_t by_tsendv(struct client *client)
{
	return fi_tsendv(client->side.ep, pieces, descs, 2, client->server, TAG,
			 &client->contexts[SENT]);
}

static ssize_t by_tsendmsg(struct client *client)
{
	const struct fi_msg_tagged msg = {
		pieces, descs, 2, client->server, TAG, 0, &client->contexts[SENT], DATA};

	return fi_tsendmsg(client->side.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA);
}

static ssize_t by_tinject(struct client *client)
{
	return fi_tinject(client->side.ep, client->buf, LEN, client->server, TAG);
}

static ssize_t by_tsenddata(struct client *client)
{
	return fi_tsenddata(client->side.ep, client->buf, LEN, client->desc, DATA, client->server,
			    TAG, &client->contexts[SENT]);
}

static ssize_t by_tinjectdata(struct client *client)
{
	return fi_tinjectdata(client->side.ep, client->buf, LEN, DATA, client->server, TAG);
}

static ssize_t by_recv(struct client *client)
{
	return fi_recv(client->side.ep, client->buf + AT, LEN, client->desc, FI_ADDR_UNSPEC,
		       &client->contexts[RECEIVED]);
}

static ssize_t by_recvv(struct client *client)
{
	return fi_recvv(client->side.ep, pieces, descs, 2, FI_ADDR_UNSPEC,
			&client->contexts[RECEIVED]);
}

static ssize_t by_recvmsg(struct client *client)
{
	const struct fi_msg msg = {pieces, descs, 2, FI_ADDR_UNSPEC, &client->contexts[RECEIVED],
				   0};

	return fi_recvmsg(client->side.ep, &msg, FI_COMPLETION);
}

static ssize_t by_trecv(struct client *client)
{
	return fi_trecv(client->side.ep, client->buf + AT, LEN, client->desc, FI_ADDR_UNSPEC,
			ANY_TAG, IGNORED, &client->contexts[RECEIVED]);
}

static ssize_t by_trecvv(struct client *client)
{
	return fi_trecvv(client->side.ep, pieces, descs, 2, FI_ADDR_UNSPEC, ANY_TAG, IGNORED,
			 &client->contexts[RECEIVED]);
}

static ssize_t by_trecvmsg(struct client *client)
{
	const struct fi_msg_tagged msg = {
		pieces, descs, 2, FI_ADDR_UNSPEC, ANY_TAG, IGNORED, &client->contexts[RECEIVED], 0};

	return fi_trecvmsg(client->side.ep, &msg, FI_COMPLETION);
}

struct call {
	ssize_t (*post)(struct client *client);
	bool data;     /* it has immediate data */
	bool injected; /* it does not complete */
};

/* expect_both -- the message has arrived, and has been sent */
static int expect_both(struct client *client, const struct call *call, uint64_t kind)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	bool sent = call->injected, received = false;

	while (!sent || !received) {
		struct fi_cq_data_entry entry;
		ssize_t ret = fi_cq_read(client->side.cq, &entry, 1);

		if (ret != -FI_EAGAIN && ret != 1)
			return check(client, ret, 1, "fi_cq_read");
		if (ret == 1 && entry.op_context == &client->contexts[SENT] && !sent) {
			sent = true;
		} else if (ret == 1 && entry.op_context == &client->contexts[RECEIVED]) {
			received = true;
			if (!(entry.flags & FI_RECV) || !(entry.flags & kind) || entry.len != LEN)
				return FAIL(client, "%zu bytes received, flags %llx", entry.len,
					    (unsigned long long) entry.flags);
			if (call->data &&
			    (!(entry.flags & FI_REMOTE_CQ_DATA) || entry.data != DATA))
				return FAIL(client, "its immediate data are missing");
		} else if (ret == 1) {
			return FAIL(client, "a completion of nothing");
		}
		if (now_ns() > end)
			return FAIL(client, "the message was not %s", sent ? "received" : "sent");
	}
	if (memcmp(client->buf, client->buf + AT, LEN))
		return FAIL(client, "another message was received");
	return 0;
}

static int exchange(struct client *client, const struct call *call,
		    ssize_t (*receive)(struct client *client), uint64_t kind, int seed)
{
	ssize_t ret;

	pattern_fill(client->buf, SIZE, seed, 0);
	cut(client, AT);
	POST(client, ret, receive(client));
	if (check(client, ret, 0, "a receive"))
		return -1;
	cut(client, 0);
	POST(client, ret, call->post(client));
	return check(client, ret, 0, "a message") || expect_both(client, call, kind);
}

/* Each with each. */
static int run_messages(struct client *client)
{
	static const struct call calls[] = {
		{by_send, false, false},  {by_sendv, false, false},   {by_sendmsg, true, false},
		{by_inject, false, true}, {by_senddata, true, false}, {by_injectdata, true, true},
	};
	static ssize_t (*const receives[])(struct client *) = {by_recv, by_recvv, by_recvmsg};
	int ret = write_to_itself(client);

	for (int i = 0; !ret && i < 6; i++) {
		for (int j = 0; !ret && j < 3; j++)
			ret = exchange(client, &calls[i], receives[j], FI_MSG, 3 * i + j);
	}
	return ret || expect_none(client) ? -1 : 0;
}

static int run_tagged(struct client *client)
{
	static const struct call calls[] = {
		{by_tsend, false, false},    {by_tsendv, false, false},
		{by_tsendmsg, true, false},  {by_tinject, false, true},
		{by_tsenddata, true, false}, {by_tinjectdata, true, true},
	};
	static ssize_t (*const receives[])(struct client *) = {by_trecv, by_trecvv, by_trecvmsg};
	ssize_t sent;
	int ret = write_to_itself(client);

	/* Nobody receives that one. */
	POST(client, sent, fi_tinject(client->side.ep, client->buf, 8, client->server, OTHER_TAG));
	ret = ret || check(client, sent, 0, "fi_tinject");
	for (int i = 0; !ret && i < 6; i++) {
		for (int j = 0; !ret && j < 3; j++)
			ret = exchange(client, &calls[i], receives[j], FI_TAGGED, 3 * i + j);
	}
	return ret || expect_none(client) ? -1 : 0;
}

static ssize_t by_read(struct client *client)
{
	return fi_read(client->side.ep, client->buf + AT, LEN, client->desc, client->server,
		       client->offer.addr, client->offer.key, &client->contexts[1]);
}

static ssize_t by_readv(struct client *client)
{
	return fi_readv(client->side.ep, pieces, descs, 2, client->server, client->offer.addr,
			client->offer.key, &client->contexts[1]);
}

static ssize_t by_readmsg(struct client *client)
{
	const struct fi_rma_iov from = {client->offer.addr, LEN, client->offer.key};
	const struct fi_msg_rma msg = {
		pieces, descs, 2, client->server, &from, 1, &client->contexts[1], 0};

	return fi_readmsg(client->side.ep, &msg, FI_COMPLETION);
}

static int run_reads(struct client *client)
{
	static ssize_t (*const reads[])(struct client *) = {by_read, by_readv, by_readmsg};

	for (int i = 0; i < 3; i++) {
		ssize_t ret;

		pattern_fill(client->buf, SIZE, 30 + i, 0);
		if (check(client, commit(client, 0, LEN, 0, FI_COMPLETION), 0, "a write") ||
		    await(client, 0, WRITTEN))
			return -1;
		cut(client, AT);
		POST(client, ret, reads[i](client));
		if (check(client, ret, 0, "a read") || await(client, 1, FI_RMA | FI_READ))
			return -1;
		if (memcmp(client->buf, client->buf + AT, LEN))
			return FAIL(client, "something else was read");
	}
	return expect_none(client);
}

#define FEW 20   /* for which RxM has receives there */
#define MANY 400 /* for which it has none before the server reads */

static int send_few(struct client *client)
{
	ssize_t ret = 0;

	for (int i = 0; !ret && i < FEW; i++)
		POST(client, ret, by_inject(client));
	return check(client, ret, 0, "fi_inject");
}

/* send_many -- as many as there is room for; how many those are, or -1 */
static int send_many(struct client *client)
{
	ssize_t ret = 0;
	int sent = 0;

	while (sent < MANY && !(ret = by_inject(client)))
		sent++;
	return ret == -FI_EAGAIN || !check(client, ret, 0, "fi_inject") ? sent : -1;
}

/* take_back -- what was sent would be received by other cases */
static int take_back(struct client *client, int sent)
{
	int ret = 0;

	for (int i = 0; !ret && i < sent; i++)
		ret = ask(client, ASK_RECV, LEN, 0, NULL, 0);
	return ret;
}

/*
 * The server's application reads nothing.  Messages that RxM has a receive for keep nobody waiting.
 * What is sent behind more of them waits until it reads, and then goes on.
 */
static int run_unread(struct client *client)
{
	int sent;

	pattern_fill(client->buf, SIZE, 40, 0);
	if (connect_first(client) || ask(client, ASK_AWAY, 0, 0, NULL, 0) || send_few(client) ||
	    check(client, commit(client, 0, LEN, 1, FI_COMPLETION), 0, "a commit") ||
	    await(client, 1, WRITTEN))
		return -1;
	sent = send_many(client);
	return sent < 0 || expect_data(client, 0, LEN, "the first commit") ||
	       check(client, commit(client, LEN, LEN, 2, FI_COMPLETION), 0, "another commit") ||
	       await(client, 2, WRITTEN) || expect_data(client, LEN, LEN, "the second commit") ||
	       take_back(client, FEW + sent) || expect_none(client);
}

const struct test rdm_message_cases[] = {
	{"rdm_unread", run_unread, {MAP}, ALWAYS},
	{"rdm_message_calls", run_messages, {MAP}, ALWAYS},
	{"rdm_message_calls_tracked", run_messages, {MAP, .fences = true}, ALWAYS},
	{"rdm_tagged_calls", run_tagged, {MAP}, ALWAYS},
	{"rdm_tagged_calls_tracked", run_tagged, {MAP, .fences = true}, ALWAYS},
	{"rdm_read_calls", run_reads, {MAP}, ALWAYS},
	{"rdm_read_calls_tracked", run_reads, {MAP, .fences = true}, ALWAYS},
	{0},
};
