/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem_verbs_lat.c -- the reference for fi_pmem_lat on bare verbs
 *
 * What a program can do at best that writes to libibverbs itself: a WRITE and a
 * READ of one byte behind it, which flushes it, posted as one list; only the
 * READ's completion is awaited.  A layer above libfabric's calls has to post them
 * one after the other: -o two-posts tells what that costs by itself.
 *
 * Where the target's processor has to write the data back, the same in the way
 * that every program does it that has no provider for it: -o write-send posts the
 * WRITE and a SEND behind it, the target flushes when it has received that, and
 * answers by a SEND.  It looks for that without pause, which costs it a core.
 *
 * Where the target's NIC has RDMA FLUSH, -o write-flush posts a FLUSH in the READ's place, and -o
 * append a WRITE, a FLUSH, an ATOMIC WRITE of 8 bytes and a FLUSH of that.
 *
 * With -W more than one of these is outstanding at a time.  Small
 * writes are inline, as they are in libfabric's verbs provider, so that the
 * difference to fi_pmem_lat is the cost of the layers in between.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/flush.h"
#include "base/relax.h"
#include "../common/stats.h"
#include "stream.h"
#include "verbs_flush.h"

static const struct program program = {
	.name = "pmem_verbs_lat",
	.summary = "Latency of flushed remote writes on bare verbs, to hold fi_pmem_lat against.",
	.letters = "dsBPMSIwWiTxvoh",
	.lists = true,
	.operations = "write-read: both posted as one list (default); "
		      "two-posts: both outstanding, posted one after the other; "
		      "write-send: the target flushes its caches and answers; "
		      "write: plain; write-then-read: the write awaited first; "
		      "write-flush: an RDMA FLUSH in the place of the read; "
		      "append: write, FLUSH, ATOMIC WRITE and FLUSH as one list",
};

enum {
	OP_WRITE_READ,
	OP_TWO_POSTS,
	OP_WRITE_SEND,
	OP_WRITE,
	OP_WRITE_THEN_READ,
	OP_WRITE_FLUSH,
	OP_APPEND
};

static const char *const operations[] = {"write-read",      "two-posts",   "write-send", "write",
					 "write-then-read", "write-flush", "append",     NULL};

#define SPINS_PER_CLOCK 4096
#define NOT_COUNTED UINT64_MAX /* wr_id of what is no operation's end */

struct client {
	struct link *link;
	int op;
};

/* send_note -- a list, behind first; signaled, so that its place in the queue comes back */
static int send_note(struct link *link, struct ibv_send_wr *first, const struct note *note)
{
	struct ibv_sge sge = {(uintptr_t) note, sizeof(*note), link->notes_mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = NOT_COUNTED,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      (sizeof(*note) <= link->max_inline ? IBV_SEND_INLINE : 0),
	};
	struct ibv_send_wr *bad;

	/* analyse autoVariables: until the list has been posted. */
	if (first)
		first->next = &wr;
	errno = ibv_post_send(link->id->qp, first ? first : &wr, &bad);
	if (first)
		first->next = NULL;
	return errno ? link_complain("ibv_post_send") : 0;
}

/* take_completion -- 1: there was one, 0: there was none, -1: it failed */
static int take_completion(struct link *link, struct ibv_wc *wc)
{
	int ret = ibv_poll_cq(link->cq, 1, wc);

	if (ret < 0)
		return link_complain("ibv_poll_cq");
	if (!ret)
		pmv_relax();
	if (!ret || wc->status == IBV_WC_SUCCESS)
		return ret;
	fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc->status));
	return -1;
}

/* answer -- flush what was written, and say so */
static int answer(struct link *link, uint64_t number)
{
	struct note *note = &link->notes[number], *out = &link->notes[link->window + number];

	if (note->offset > link->memory.len || note->len > link->memory.len - note->offset)
		return -1;
	pmv_flush->flush((char *) link->memory.base + note->offset, note->len);
	pmv_flush->drain();
	*out = *note;
	return link_receive(link, number) || send_note(link, NULL, out) ? -1 : 0;
}

/* echo -- answer until the client disconnects */
static int echo(struct link *link)
{
	unsigned long spins = 0;
	struct ibv_wc wc;
	int ret;

	while (spins++ % SPINS_PER_CLOCK || !link_is_over(link)) {
		ret = take_completion(link, &wc);
		/* What was under way when the client went is flushed with an error. */
		if (ret < 0)
			return link_is_over(link) ? 0 : ret;
		if (ret && wc.opcode & IBV_WC_RECV && answer(link, wc.wr_id))
			return -1;
	}
	return 0;
}

static int server(struct link *link)
{
	int ret = link_accept(link);

	if (!ret && link->peer.echo)
		ret = pmv_flush_init() || echo(link) ? -1 : 0;
	return ret ? ret : link_await_end(link);
}

static int await_completion(struct link *link, struct ibv_wc *wc)
{
	unsigned long spins = 0;
	uint64_t deadline = 0;
	int ret;

	while ((ret = take_completion(link, wc)) == 0) {
		if (++spins % SPINS_PER_CLOCK)
			continue;
		if (!deadline)
			deadline = now_ns() + link->opts->timeout * 1000000000ULL;
		if (now_ns() > deadline) {
			fprintf(stderr, "no completion in time\n");
			return -1;
		}
	}
	return ret < 0 ? -1 : 0;
}

static void make_request(struct link *link, struct ibv_send_wr *wr, struct ibv_sge *sge,
			 enum ibv_wr_opcode opcode, size_t len)
{
	*sge = (struct ibv_sge){(uintptr_t) link->memory.base, len, link->mr->lkey};
	*wr = (struct ibv_send_wr){
		.wr_id = NOT_COUNTED, .sg_list = sge, .num_sge = 1, .opcode = opcode};
	wr->wr.rdma.remote_addr = link->peer.addr;
	wr->wr.rdma.rkey = link->peer.rkey;
}

static int post(struct link *link, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = ibv_post_send(link->id->qp, wr, &bad);
	return errno ? link_complain("ibv_post_send") : 0;
}

/* start -- one operation; its last work request has the slot as its number */
static int start(struct stream *stream, uint32_t slot)
{
	struct client *client = stream->owner;
	struct link *link = client->link;
	struct note *note = &link->notes[link->window + slot];
	struct ibv_send_wr write, read;
	struct ibv_sge data, byte;
	struct ibv_wc wc;

	make_request(link, &write, &data, IBV_WR_RDMA_WRITE, stream->size);
	make_request(link, &read, &byte, IBV_WR_RDMA_READ, 1);
	/* The READ lands behind the data that are written from. */
	byte.addr += link->memory.len - 1;
	read.send_flags = IBV_SEND_SIGNALED;
	read.wr_id = slot;
	if (stream->size <= link->max_inline)
		write.send_flags = IBV_SEND_INLINE;

	switch (client->op) {
	case OP_WRITE_READ:
		write.next = &read;
		return post(link, &write);
	case OP_TWO_POSTS:
		return post(link, &write) || post(link, &read) ? -1 : 0;
	case OP_WRITE_SEND:
		*note = (struct note){.len = stream->size, .slot = slot};
		return send_note(link, &write, note);
	case OP_WRITE:
		write.send_flags |= IBV_SEND_SIGNALED;
		write.wr_id = slot;
		return post(link, &write);
	case OP_WRITE_FLUSH:
	case OP_APPEND:
		return flush_post(link, &write, slot, client->op == OP_APPEND);
	default:
		write.send_flags |= IBV_SEND_SIGNALED;
		return post(link, &write) || await_completion(link, &wc) || post(link, &read) ? -1
											      : 0;
	}
}

/* end_one -- wait until an operation ends; its slot */
static int end_one(struct stream *stream, uint32_t *slot)
{
	struct link *link = ((struct client *) stream->owner)->link;
	struct ibv_wc wc;

	do {
		if (await_completion(link, &wc))
			return -1;
	} while (wc.wr_id == NOT_COUNTED);
	*slot = wc.wr_id;
	if (!(wc.opcode & IBV_WC_RECV))
		return 0;
	*slot = link->notes[wc.wr_id].slot % stream->window;
	return link_receive(link, wc.wr_id);
}

/* verify -- read back what was written */
static int verify(struct stream *stream)
{
	struct link *link = ((struct client *) stream->owner)->link;
	size_t size = stream->size;
	struct ibv_send_wr read;
	struct ibv_sge sge;
	struct ibv_wc wc;
	size_t right;

	make_request(link, &read, &sge, IBV_WR_RDMA_READ, size);
	read.send_flags = IBV_SEND_SIGNALED;
	memset(link->memory.base, 0, size);
	/* Behind it may be the completion of the last SEND. */
	read.wr_id = 0;
	if (post(link, &read))
		return -1;
	do {
		if (await_completion(link, &wc))
			return -1;
	} while (wc.wr_id == NOT_COUNTED);
	right = pattern_check(link->memory.base, size, size, 0);
	if (right == size)
		return 0;
	fprintf(stderr, "the target's data are wrong from byte %zu on\n", right);
	return -1;
}

static int run_client(struct link *link)
{
	struct client client = {.link = link, .op = options_op(link->opts, operations)};
	struct handshake wanted = {
		/* Behind the data a READ's byte, or the aligned tail of an append. */
		.len = options_largest(link->opts) + (client.op == OP_APPEND ? 16 : 1),
		.echo = client.op == OP_WRITE_SEND,
		.window = stream_widest(link->opts),
		.flush = client.op == OP_APPEND        ? LINK_APPEND
			 : client.op == OP_WRITE_FLUSH ? LINK_FLUSH
						       : LINK_NO_FLUSH,
	};
	struct stream stream = {
		.opts = link->opts,
		.provider = "ibverbs",
		.operation = operations[client.op],
		.owner = &client,
		.start = start,
		.end_one = end_one,
		.verify = verify,
	};
	int ret;

	if (link_connect(link, &wanted))
		return -1;
	stream.source = link->memory.base;
	ret = stream_run(&stream);
	rdma_disconnect(link->id);
	return ret;
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100, .window = 1};
	struct link link = {.opts = &opts};
	int op, ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	op = options_op(&opts, operations);
	if (op < 0 || !stream_fits(&opts))
		return EXIT_USAGE;
	if (op == OP_WRITE_THEN_READ && stream_widest(&opts) > 1) {
		fprintf(stderr, "write-then-read waits for each: -W 1 only\n");
		return EXIT_USAGE;
	}
	ret = opts.dst_addr ? run_client(&link) : server(&link);
	link_close(&link);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
