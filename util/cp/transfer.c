/* SPDX-License-Identifier: BSD-2-Clause */
/* transfer.c -- what copies do with their connection; transfer.h says what for */
#include "transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define WAIT_MS 200
#define ALIVE_MS 1000
#define PAUSE_US 50000

static void say(const char *what, const char *where, const char *why)
{
	char *text = NULL;

	if (asprintf(&text, "%s%s: %s", what, where, why) < 0)
		return;
	cp_printable(text);
	fprintf(stderr, "fi_pmem_cp: %s\n", text);
	free(text);
}

int cp_fail(const char *what, const char *why)
{
	say(what, "", why);
	return -1;
}

int cp_fail_there(const char *what, const char *why)
{
	say(what, " at the target", *why ? why : "refused");
	return -1;
}

void cp_note(const struct cp_copy *copy, const char *text)
{
	if (!copy->quiet)
		say(copy->name, "", text);
}

int cp_interrupted(struct cp_copy *copy, const char *why)
{
	copy->lost = true;
	cp_fail(copy->name, why);
	if (copy->done || copy->many)
		fputs(cp_goes_on(copy), stderr);
	return -1;
}

int cp_fail_link(struct cp_copy *copy)
{
	return cp_interrupted(copy, copy->link.error.text);
}

int cp_breathe(struct cp_copy *copy, int timeout_ms)
{
	int64_t now = connection_now_ms();

	copy->progress(copy, false);
	if (now - copy->said > ALIVE_MS) {
		copy->said = now;
		if (cp_link_send(&copy->link, &(struct cp_message){.type = CP_ALIVE},
				 copy->timeout_ms))
			return cp_fail_link(copy);
	}
	if (cp_link_poll(&copy->link, timeout_ms))
		return cp_fail_link(copy);
	return 0;
}

int cp_wait(struct cp_copy *copy, const struct cp_op *op)
{
	copy->heard = connection_now_ms();
	while (!op->done) {
		if (cp_breathe(copy, WAIT_MS))
			return -1;
		if (connection_now_ms() - copy->heard > copy->timeout_ms)
			return cp_interrupted(copy,
					      "nothing was completed for too long (--timeout)");
	}
	return 0;
}

int cp_await_answer(struct cp_copy *copy, struct cp_message *answer)
{
	uint64_t progress = 0;
	int ret;

	copy->heard = connection_now_ms();
	do {
		ret = cp_link_receive(&copy->link, answer, WAIT_MS);
		copy->progress(copy, false);
		if (ret < 0)
			return cp_fail_link(copy);
		if (ret && answer->type != CP_ALIVE)
			return 0;
		if (ret && answer->committed > progress) {
			progress = answer->committed;
			copy->heard = connection_now_ms();
		}
	} while (connection_now_ms() - copy->heard <= copy->timeout_ms);
	return cp_interrupted(copy, "the target does not answer (--timeout)");
}

int cp_request(struct cp_copy *copy, const struct cp_message *request)
{
	copy->said = connection_now_ms();
	return cp_link_send(&copy->link, request, copy->timeout_ms) ? cp_fail_link(copy) : 0;
}

int cp_ask(struct cp_copy *copy, const struct cp_message *request, struct cp_message *answer)
{
	if (cp_request(copy, request) || cp_await_answer(copy, answer))
		return -1;
	if (answer->type != CP_ANSWER)
		return cp_interrupted(copy, "the target's answer makes no sense");
	if (!answer->status)
		return 0;
	return cp_fail_there(copy->name, answer->text);
}

/* keep_rate -- wait until so many bytes may be moved.  A pause gives no right to be faster later.
 */
static int keep_rate(struct cp_copy *copy, size_t len)
{
	int64_t now = 1000 * connection_now_ms();

	if (!copy->rate)
		return 0;
	if (copy->due < now)
		copy->due = now;
	for (; now < copy->due; now = 1000 * connection_now_ms()) {
		int64_t left_ms = (copy->due - now + 999) / 1000;

		if (cp_breathe(copy, left_ms < WAIT_MS ? (int) left_ms : WAIT_MS))
			return -1;
	}
	copy->due += (int64_t) ((double) len * 1e6 / (double) copy->rate);
	return 0;
}

int cp_post(struct cp_copy *copy, bool writing, void *buf, size_t len, uint64_t offset,
	    uint64_t flags, struct cp_op *op)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct fi_rma_iov rma_iov = {
		.addr = copy->lease.addr + offset, .len = len, .key = copy->lease.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &copy->link.region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = op,
	};
	ssize_t ret;
	bool again;

	if (keep_rate(copy, len))
		return -1;
	copy->moving = true;
	copy->heard = connection_now_ms();
	do {
		ret = writing ? fi_writemsg(copy->link.conn.ep, &msg, flags)
			      : fi_readmsg(copy->link.conn.ep, &msg, flags);
		/* The queue is full, or the agent is at work: what ends makes room.  Or what a
		 * fence follows has failed: the queue says how. */
		again = ret == -FI_EAGAIN || ret == -FI_ECANCELED;
		if (again && cp_breathe(copy, 1))
			return -1;
		if (connection_now_ms() - copy->heard > copy->timeout_ms)
			return cp_interrupted(copy,
					      "nothing was completed for too long (--timeout)");
	} while (again);
	return ret ? cp_fail(writing ? "fi_writemsg" : "fi_readmsg", fi_strerror((int) -ret)) : 0;
}

static int connect_once(struct cp_copy *copy)
{
	struct cp_link *link = &copy->link;
	size_t max = copy->node->info->ep_attr->max_msg_size;
	int ret = cp_link_open(link, copy->node, copy->node->info, CP_DATA_ROOM);

	copy->chunk = max < CP_CHUNK ? max : CP_CHUNK;
	/* Pieces take a fraction of a second, so that they share the network with others. */
	while (copy->rate && copy->chunk > CP_LEAST_CHUNK && copy->chunk > copy->rate / 8)
		copy->chunk /= 2;
	copy->lost = copy->moving = false;
	copy->opens = 0;
	copy->said = connection_now_ms();
	return ret ? ret : cp_link_connect(link);
}

int cp_connect(struct cp_copy *copy)
{
	int ret = connect_once(copy);

	char *where = NULL;

	if (!ret)
		return 0;
	if (asprintf(&where, "%s, port %s", copy->node->host, copy->node->port) < 0)
		return cp_fail(copy->name, strerror(ENOMEM));
	cp_fail(where, copy->link.error.text);
	free(where);
	/* A target that refuses has said why, but for one that does not know this client. */
	if (ret == -FI_EACCES)
		fputs("No line of the file peers of FI_PMEMVERBS_KEYS is for a target there; "
		      "FI_LOG_LEVEL=warn says more.\n",
		      stderr);
	else if (ret == -FI_ECONNABORTED || ret == -FI_ECONNRESET)
		fputs("Something else than fi_pmem_target listens there, or it has just ended.\n",
		      stderr);
	else if (ret == -FI_ECONNREFUSED && strstr(copy->link.error.text, fi_strerror(-ret)))
		fputs("Is fi_pmem_target running, on that host and port? With FI_PMEMVERBS_KEYS it "
		      "refuses whom it\ndoes not know: FI_LOG_LEVEL=warn names the keys, here and "
		      "there.\n",
		      stderr);
	return -1;
}

int cp_connect_again(struct cp_copy *copy)
{
	int64_t end = connection_now_ms() + copy->timeout_ms;

	cp_link_close(&copy->link);
	/* The target frees the place when it has seen the end of the old connection. */
	while (connect_once(copy)) {
		if (connection_now_ms() > end)
			return cp_fail_link(copy);
		cp_link_close(&copy->link);
		usleep(PAUSE_US);
	}
	return 0;
}
