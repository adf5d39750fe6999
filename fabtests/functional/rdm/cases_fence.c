/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_fence.c -- operations with FI_FENCE, of an endpoint that has the capability
 *
 * The server stops, and something is begun that can't end meanwhile.  What is fenced behind it is
 * not accepted before the server goes on.
 */
#include <string.h>

#include <rdma/fi_tagged.h>

#include "rdm_functional.h"

#define LONG 65536 /* the server has to take part in a message of this length */
#define TRIES 200
#define TAG 0x17
#define RESULT 4096 /* where something is read to */

enum { FIRST = 1, FENCED };

typedef ssize_t (*post_fn)(struct client *client);

/* What is fenced */

static ssize_t fenced_write(struct client *client, uint64_t flags)
{
	struct iovec iov = {client->buf, 8};
	struct fi_rma_iov to = {client->offer.addr, 8, client->offer.key};
	struct fi_msg_rma msg = {
		&iov, &client->desc, 1, client->server, &to, 1, &client->contexts[FENCED], 0};

	return fi_writemsg(client->side.ep, &msg, flags | FI_FENCE | FI_COMPLETION);
}

static ssize_t by_write(struct client *client)
{
	return fenced_write(client, FI_DELIVERY_COMPLETE);
}

static ssize_t by_commit(struct client *client)
{
	return fenced_write(client, FI_COMMIT_COMPLETE);
}

static ssize_t by_injected_write(struct client *client)
{
	return fenced_write(client, FI_INJECT | FI_DELIVERY_COMPLETE);
}

static ssize_t by_read(struct client *client)
{
	struct iovec iov = {client->buf + RESULT, 8};
	struct fi_rma_iov from = {client->offer.addr, 8, client->offer.key};
	struct fi_msg_rma msg = {
		&iov, &client->desc, 1, client->server, &from, 1, &client->contexts[FENCED], 0};

	return fi_readmsg(client->side.ep, &msg, FI_FENCE | FI_COMPLETION);
}

static ssize_t by_atomic(struct client *client)
{
	struct fi_ioc ioc = {client->buf, 1};
	struct fi_rma_ioc to = {client->offer.addr, 1, client->offer.key};
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.desc = &client->desc,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = &client->contexts[FENCED],
	};

	return fi_atomicmsg(client->side.ep, &msg, FI_FENCE | FI_COMPLETION);
}

static ssize_t by_message(struct client *client)
{
	struct iovec iov = {client->buf, 8};
	struct fi_msg msg = {&iov, &client->desc, 1, client->server, &client->contexts[FENCED], 0};

	return fi_sendmsg(client->side.ep, &msg, FI_FENCE | FI_COMPLETION);
}

static ssize_t by_tagged(struct client *client)
{
	struct iovec iov = {client->buf, 8};
	struct fi_msg_tagged msg = {
		&iov, &client->desc, 1, client->server, TAG, 0, &client->contexts[FENCED], 0};

	return fi_tsendmsg(client->side.ep, &msg, FI_FENCE | FI_COMPLETION);
}

/* What it follows */

static int begin_atomic(struct client *client)
{
	return connect_first(client) || stop_server(client) ||
	       check(client, sum(client, FIRST, FI_COMPLETION), 0, "fi_atomicmsg");
}

/* begin_silent -- nobody is told of its end */
static int begin_silent(struct client *client)
{
	ssize_t ret;

	if (connect_first(client) || stop_server(client))
		return -1;
	POST(client, ret,
	     fi_inject_atomic(client->side.ep, client->buf, 1, client->server, client->offer.addr,
			      client->offer.key, FI_UINT64, FI_SUM));
	return check(client, ret, 0, "fi_inject_atomic");
}

static int begin_message(struct client *client)
{
	ssize_t ret;

	if (connect_first(client) || ask(client, ASK_RECV, LONG, 0, NULL, 0) || stop_server(client))
		return -1;
	POST(client, ret,
	     fi_send(client->side.ep, client->buf, LONG, client->desc, client->server,
		     &client->contexts[FIRST]));
	return check(client, ret, 0, "fi_send");
}

/* expect_held_up -- however often it is tried, and whoever reads the queue */
static int expect_held_up(struct client *client, post_fn post)
{
	for (int i = 0; i < TRIES; i++) {
		if (check(client, post(client), -FI_EAGAIN, "a fenced call") ||
		    (i % 2 && expect_none(client)))
			return -1;
	}
	return 0;
}

static int finish(struct client *client, post_fn post, bool told)
{
	ssize_t ret;

	if (go_on(client))
		return -1;
	POST(client, ret, post(client));
	return check(client, ret, 0, "a fenced call") || (told && await(client, FIRST, 0)) ||
	       await(client, FENCED, 0) || expect_none(client);
}

/* An atomic that came after the write would add to what was written. */
static int run_behind_atomic(struct client *client, post_fn post,
			     int (*begin)(struct client *client), bool told)
{
	uint64_t *word = (uint64_t *) client->buf;

	memset(client->buf, 0, SIZE);
	*word = 5;
	if (begin(client))
		return -1;
	*word = 77;
	return expect_held_up(client, post) || finish(client, post, told);
}

static int run_fenced_write(struct client *client, post_fn post,
			    int (*begin)(struct client *client), bool told)
{
	return run_behind_atomic(client, post, begin, told) ||
	       expect_data(client, 0, 8, "what was written last");
}

static int run_write(struct client *client)
{
	return run_fenced_write(client, by_write, begin_atomic, true);
}

static int run_commit(struct client *client)
{
	return run_fenced_write(client, by_commit, begin_atomic, true);
}

static int run_silent(struct client *client)
{
	return run_fenced_write(client, by_write, begin_silent, false);
}

static int run_injected(struct client *client)
{
	return run_fenced_write(client, by_injected_write, begin_silent, false);
}

static int run_read(struct client *client)
{
	uint64_t read;

	/* connect_first has written the first word. */
	if (run_behind_atomic(client, by_read, begin_atomic, true))
		return -1;
	memcpy(&read, client->buf + RESULT, sizeof(read));
	return read == 10 ? 0 : FAIL(client, "it read %llu", (unsigned long long) read);
}

static int run_message(struct client *client)
{
	/* Or a later case's receive would be for it. */
	return ask(client, ASK_RECV, 8, 0, NULL, 0) ||
	       run_behind_atomic(client, by_message, begin_atomic, true);
}

static int run_tagged(struct client *client)
{
	return run_behind_atomic(client, by_tagged, begin_atomic, true);
}

static int run_atomic(struct client *client)
{
	return begin_message(client) || expect_held_up(client, by_atomic) ||
	       finish(client, by_atomic, true);
}

static int run_write_behind_message(struct client *client)
{
	return begin_message(client) || expect_held_up(client, by_write) ||
	       finish(client, by_write, true);
}

static int run_counter(struct client *client)
{
	return begin_message(client) || expect_held_up(client, by_write) ||
	       finish(client, by_write, false);
}

/* Nobody reads the queue meanwhile.  What came is there afterwards, in order. */
static int run_retries(struct client *client)
{
	uint64_t end;
	ssize_t ret;

	if (begin_atomic(client) || expect_held_up(client, by_write) || go_on(client))
		return -1;
	end = now_ns() + PATIENCE_NS;
	do
		ret = by_write(client);
	while (ret == -FI_EAGAIN && now_ns() < end);
	return check(client, ret, 0, "a fenced write that is tried again") ||
	       await(client, FIRST, FI_ATOMIC) || await(client, FENCED, WRITTEN) ||
	       expect_none(client);
}

/* What is waited for may need another operation to end: that is accepted, if not at once. */
static int run_dependent(struct client *client)
{
	ssize_t ret;

	if (begin_atomic(client) || check(client, by_write(client), -FI_EAGAIN, "a fenced write"))
		return -1;
	POST(client, ret,
	     fi_inject_write(client->side.ep, client->buf + 64, 8, client->server,
			     client->offer.addr + 64, client->offer.key));
	return check(client, ret, 0, "a write while a fenced one waits") ||
	       expect_held_up(client, by_write) || finish(client, by_write, true);
}

/* What is under way to one peer does not hold up what goes to another. */
static int run_other_peer(struct client *client)
{
	fi_addr_t server = client->server;
	ssize_t ret;

	if (begin_atomic(client) || write_to_itself(client))
		return -1;
	POST(client, ret, by_tagged(client));
	if (check(client, ret, 0, "a fenced message to another peer") ||
	    await(client, FENCED, FI_SEND))
		return -1;
	client->server = server;
	return expect_held_up(client, by_write) || finish(client, by_write, true);
}

/* expect_lost -- the atomic that was under way fails; the fence may tell of it first */
static int expect_lost(struct client *client)
{
	ssize_t ret;

	POST(client, ret, by_write(client));
	if (ret != -FI_ECONNRESET && check(client, ret, -FI_EAGAIN, "a fenced write after a loss"))
		return -1;
	return await_error(client, FIRST, FI_ECANCELED);
}

static int lose_atomic(struct client *client)
{
	ssize_t ret;

	if (stop_server(client) ||
	    check(client, sum(client, FIRST, FI_COMPLETION), 0, "fi_atomicmsg") ||
	    expect_stuck(client, "an atomic") ||
	    fi_av_remove(client->side.av, &client->server, 1, 0) ||
	    fi_av_insert(client->side.av, client->offer.name, 1, &client->server, 0, NULL) != 1 ||
	    expect_lost(client) || go_on(client))
		return -1;
	POST(client, ret, by_write(client));
	return check(client, ret, 0, "a fenced write, once it was told") ||
	       await(client, FENCED, WRITTEN) || expect_none(client);
}

/* RxM forgets what was under way on a connection that is lost: it fails, and the fence ends. */
static int run_loss(struct client *client)
{
	return connect_first(client) || lose_atomic(client);
}

/* Nothing was ever written on that connection, whose keys RxM has checked. */
static int run_loss_unwritten(struct client *client)
{
	/* A counter would count it too early. */
	if (commit_all && !is_safe(client))
		return 0;
	return check(client, sum(client, 0, FI_COMPLETION), 0, "fi_atomicmsg") ||
	       await(client, 0, FI_ATOMIC) || lose_atomic(client);
}

#define FENCES MAP, .fences = true

const struct test rdm_fence_cases[] = {
	{"rdm_fence_write", run_write, {FENCES}, ALWAYS},
	{"rdm_fence_commit", run_commit, {FENCES}, ALWAYS},
	{"rdm_fence_silent", run_silent, {FENCES, .selective = true}, ALWAYS},
	{"rdm_fence_counter", run_counter, {FENCES, .selective = true, .counter = true}, ALWAYS},
	{"rdm_fence_injected", run_injected, {FENCES, .selective = true}, ALWAYS},
	{"rdm_fence_read", run_read, {FENCES}, ALWAYS},
	{"rdm_fence_message", run_message, {FENCES}, ALWAYS},
	{"rdm_fence_tagged", run_tagged, {FENCES}, ALWAYS},
	{"rdm_fence_atomic", run_atomic, {FENCES}, ALWAYS},
	{"rdm_fence_behind_message", run_write_behind_message, {FENCES}, ALWAYS},
	{"rdm_fence_retries", run_retries, {FENCES}, ALWAYS},
	{"rdm_fence_retries_sread", run_retries, {FENCES, .waits = true}, ALWAYS},
	{"rdm_fence_dependent", run_dependent, {FENCES}, ALWAYS},
	{"rdm_fence_other_peer", run_other_peer, {FENCES}, ALWAYS},
	{"rdm_fence_loss", run_loss, {FENCES}, ALWAYS},
	{"rdm_fence_loss_unwritten", run_loss_unwritten, {FENCES, .counter = true}, ALWAYS},
	{0},
};
