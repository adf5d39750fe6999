/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem_rpma_lat.c -- the reference for fi_pmem_lat on librpma
 *
 * flush: rpma_write, and rpma_flush behind it, which is a READ; the target's
 * processor does nothing ("appliance persistency method").
 *
 * write-send: rpma_write, and rpma_send behind it; the target writes its caches back and
 * answers ("general purpose server persistency method").
 *
 * message: the data are in the message; the target copies them to their place,
 * writes its caches back and answers.
 *
 * The target of the latter two looks for messages without pause, which costs it a core.
 * Whether its memory needs that is not looked at: all can be measured everywhere.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <librpma.h>

#include "agent/flush.h"
#include "../common/memory.h"
#include "../common/options.h"
#include "../common/stats.h"
#include "stream.h"

static const struct program program = {
	.name = "pmem_rpma_lat",
	.summary = "Latency of durable remote writes with librpma, to hold fi_pmem_lat against.",
	.letters = "sBPMSIwWiTxvoh",
	.lists = true,
	.operations = "flush: write and flush (default); write-send: the target flushes its caches "
		      "and answers; message: the data are sent, the target copies, flushes and "
		      "answers",
};

enum { OP_FLUSH, OP_WRITE_SEND, OP_MESSAGE };

static const char *const operations[] = {"flush", "write-send", "message", NULL};

#define MAX_MESSAGES ((size_t) 256 << 20)
#define SPINS_PER_CLOCK 4096
#define CONNECT_NS 5000000000ULL

/* What the client tells with its request, and the server with its answer. */
struct ask {
	uint64_t len;
	uint32_t op;
	uint32_t window;
};

struct offer {
	uint8_t mr_size;
	uint8_t cfg_size;
	uint8_t bytes[54]; /* the memory's descriptor, then the configuration's */
};

/* What is sent; in a message the data follow. */
struct note {
	uint64_t offset;
	uint64_t len;
	uint64_t slot;
};

struct side {
	const struct options *opts;
	struct rpma_peer *peer;
	struct rpma_conn_cfg *cfg;
	struct rpma_ep *ep;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	struct rpma_mr_local *mr;
	struct rpma_mr_remote *remote;
	struct memory memory;
	char *messages; /* to receive into: one for each of the window; then to send from */
	size_t stride;  /* from one to the next */
	struct rpma_mr_local *messages_mr;
	struct ask ask;
};

/* check -- librpma's result: 0, or -1 and it is printed */
static int check(const char *call, int ret)
{
	if (ret)
		fprintf(stderr, "%s: %s\n", call, rpma_err_2str(ret));
	return ret ? -1 : 0;
}

static bool sends(const struct side *side)
{
	return side->ask.op != OP_FLUSH;
}

/* message_of -- the place number: those to send from come second */
static struct note *message_of(const struct side *side, uint32_t number)
{
	return (struct note *) (side->messages + number * side->stride);
}

static size_t offset_of(const struct side *side, uint32_t number)
{
	return number * side->stride;
}

/* open_device -- the one with the route to this address, or with the address itself */
static int open_device(struct side *side, const char *address, bool local)
{
	struct ibv_context *context;

	if (check("rpma_utils_get_ibv_context",
		  rpma_utils_get_ibv_context(address,
					     local ? RPMA_UTIL_IBV_CONTEXT_LOCAL
						   : RPMA_UTIL_IBV_CONTEXT_REMOTE,
					     &context)))
		return -1;
	return check("rpma_peer_new", rpma_peer_new(context, &side->peer));
}

/* configure -- queues that hold the window */
static int configure(struct side *side)
{
	uint32_t window = side->ask.window;
	int ret = rpma_conn_cfg_new(&side->cfg);

	if (!ret)
		ret = rpma_conn_cfg_set_sq_size(side->cfg, 2 * window + 2);
	if (!ret)
		ret = rpma_conn_cfg_set_rq_size(side->cfg, window);
	if (!ret)
		ret = rpma_conn_cfg_set_cq_size(side->cfg, 4 * window + 4);
	if (!ret)
		ret = rpma_conn_cfg_set_timeout(side->cfg, 5000);
	return check("rpma_conn_cfg", ret);
}

/* A device with RDMA FLUSH gives these rights to persistent memory only. */
#define FLUSHED (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

/* get_memory -- the target's (FLUSHED), or what is written from (0); and messages */
static int get_memory(struct side *side, const char *path, int usage)
{
	size_t len = side->ask.len, room = sizeof(struct note), total;

	usage |= RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
		 RPMA_MR_USAGE_READ_DST;
	if (side->ask.op == OP_MESSAGE)
		room += len;
	side->stride = (room + 63) / 64 * 64;
	total = 2 * side->stride * side->ask.window;
	if (total > MAX_MESSAGES) {
		fprintf(stderr, "so many messages of this size do not fit\n");
		return -1;
	}
	if (memory_map(&side->memory, path, len))
		return -1;
	side->messages = aligned_alloc(64, total);
	if (!side->messages)
		return check("aligned_alloc", RPMA_E_NOMEM);
	memset(side->messages, 0, total);
	if (check("rpma_mr_reg", rpma_mr_reg(side->peer, side->memory.base, len, usage, &side->mr)))
		return -1;
	return check("rpma_mr_reg",
		     rpma_mr_reg(side->peer, side->messages, total,
				 RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &side->messages_mr));
}

static void close_side(struct side *side)
{
	if (side->conn)
		rpma_conn_delete(&side->conn);
	if (side->remote)
		rpma_mr_remote_delete(&side->remote);
	if (side->messages_mr)
		rpma_mr_dereg(&side->messages_mr);
	if (side->mr)
		rpma_mr_dereg(&side->mr);
	if (side->ep)
		rpma_ep_shutdown(&side->ep);
	if (side->cfg)
		rpma_conn_cfg_delete(&side->cfg);
	if (side->peer)
		rpma_peer_delete(&side->peer);
	memory_unmap(&side->memory);
	free(side->messages);
}

static const void *context_of(uint32_t number)
{
	return (const void *) (uintptr_t) number;
}

/* receive -- before the connection is there, or on it */
static int receive(struct side *side, struct rpma_conn_req *req, uint32_t number)
{
	size_t offset = offset_of(side, number);
	int ret;

	if (req)
		ret = rpma_conn_req_recv(req, side->messages_mr, offset, side->stride,
					 context_of(number));
	else
		ret = rpma_recv(side->conn, side->messages_mr, offset, side->stride,
				context_of(number));
	return check("rpma_recv", ret);
}

/* establish -- takes the request; 1: it was refused */
static int establish(struct side *side, struct rpma_conn_req *req,
		     const struct rpma_conn_private_data *pdata)
{
	enum rpma_conn_event event;
	uint32_t i;

	for (i = 0; sends(side) && i < side->ask.window; i++) {
		if (receive(side, req, i)) {
			rpma_conn_req_delete(&req);
			return -1;
		}
	}
	if (check("rpma_conn_req_connect", rpma_conn_req_connect(&req, pdata, &side->conn)) ||
	    check("rpma_conn_next_event", rpma_conn_next_event(side->conn, &event)))
		return -1;
	if (event == RPMA_CONN_REJECTED)
		return 1;
	if (event != RPMA_CONN_ESTABLISHED) {
		fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
		return -1;
	}
	return check("rpma_conn_get_cq", rpma_conn_get_cq(side->conn, &side->cq));
}

/* take_completion -- 1: there was one, 0: there was none, -1: it failed */
static int take_completion(struct side *side, struct ibv_wc *wc)
{
	int ret = rpma_cq_get_wc(side->cq, 1, wc, NULL);

	if (ret == RPMA_E_NO_COMPLETION)
		return 0;
	if (check("rpma_cq_get_wc", ret))
		return -1;
	if (wc->status == IBV_WC_SUCCESS)
		return 1;
	fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc->status));
	return -1;
}

/* ---- server ---- */

/* fill_offer -- what the client needs to write here: flushes make data durable, it is told */
static int fill_offer(struct side *side, struct offer *offer)
{
	struct rpma_peer_cfg *cfg = NULL;
	size_t mr_size = 0, cfg_size = 0;
	int ret;

	ret = rpma_peer_cfg_new(&cfg);
	if (!ret)
		ret = rpma_peer_cfg_set_direct_write_to_pmem(cfg, true);
	if (!ret)
		ret = rpma_peer_cfg_get_descriptor_size(cfg, &cfg_size);
	if (!ret)
		ret = rpma_mr_get_descriptor_size(side->mr, &mr_size);
	if (!ret && mr_size + cfg_size > sizeof(offer->bytes))
		ret = RPMA_E_NOSUPP;
	if (!ret)
		ret = rpma_mr_get_descriptor(side->mr, offer->bytes);
	if (!ret)
		ret = rpma_peer_cfg_get_descriptor(cfg, offer->bytes + mr_size);
	offer->mr_size = mr_size;
	offer->cfg_size = cfg_size;
	if (cfg)
		rpma_peer_cfg_delete(&cfg);
	return check("a descriptor", ret);
}

/* next_request -- of a client that asks for what can be given; it is answered by establish */
static struct rpma_conn_req *next_request(struct side *side)
{
	struct rpma_conn_private_data pdata = {0};
	struct rpma_conn_req *req = NULL;

	/* The request comes with its queues: they have to hold any window. */
	side->ask.window = STREAM_MAX_WINDOW;
	if (configure(side) ||
	    check("rpma_ep_next_conn_req", rpma_ep_next_conn_req(side->ep, side->cfg, &req)))
		return NULL;
	if (check("rpma_conn_req_get_private_data", rpma_conn_req_get_private_data(req, &pdata)) ||
	    pdata.len < sizeof(side->ask)) {
		rpma_conn_req_delete(&req);
		return NULL;
	}
	memcpy(&side->ask, pdata.ptr, sizeof(side->ask));
	if (side->ask.op <= OP_MESSAGE && side->ask.window &&
	    side->ask.window <= STREAM_MAX_WINDOW &&
	    side->ask.len <= SIZE_MAX / 4 / STREAM_MAX_WINDOW &&
	    !get_memory(side, side->opts->memory, FLUSHED))
		return req;
	rpma_conn_req_delete(&req);
	return NULL;
}

static int accept_one(struct side *side)
{
	const char *address = side->opts->src_addr;
	struct offer offer = {0};
	struct rpma_conn_private_data pdata = {.ptr = &offer, .len = sizeof(offer)};
	struct rpma_conn_req *req;

	if (open_device(side, address, true) ||
	    check("rpma_ep_listen",
		  rpma_ep_listen(side->peer, address, side->opts->src_port, &side->ep)))
		return -1;
	options_ready(side->opts->src_port);
	req = next_request(side);
	if (!req)
		return -1;
	if (fill_offer(side, &offer)) {
		rpma_conn_req_delete(&req);
		return -1;
	}
	return establish(side, req, &pdata) ? -1 : 0;
}

/* answer -- make durable what was written or sent, and say so */
static int answer(struct side *side, uint32_t number)
{
	const struct note *note = message_of(side, number);
	uint32_t out = side->ask.window + number;
	char *base = side->memory.base;

	if (note->offset > side->memory.len || note->len > side->memory.len - note->offset)
		return -1;
	if (side->ask.op == OP_MESSAGE)
		memcpy(base + note->offset, note + 1, note->len);
	pmv_flush->flush(base + note->offset, note->len);
	pmv_flush->drain();
	*message_of(side, out) = *note;
	if (receive(side, NULL, number))
		return -1;
	return check("rpma_send", rpma_send(side->conn, side->messages_mr, offset_of(side, out),
					    sizeof(*note), RPMA_F_COMPLETION_ON_ERROR, NULL));
}

static bool is_over(struct side *side)
{
	struct pollfd pfd = {.events = POLLIN};

	return rpma_conn_get_event_fd(side->conn, &pfd.fd) || poll(&pfd, 1, 0) > 0;
}

/* serve -- answer until the client disconnects */
static int serve(struct side *side)
{
	unsigned long spins = 0;
	struct ibv_wc wc;
	int ret;

	while (sends(side) && (spins++ % SPINS_PER_CLOCK || !is_over(side))) {
		ret = take_completion(side, &wc);
		/* What was under way when the client went is flushed with an error. */
		if (ret < 0)
			return is_over(side) ? 0 : ret;
		if (ret && wc.opcode & IBV_WC_RECV && answer(side, wc.wr_id))
			return -1;
	}
	return 0;
}

static int server(struct side *side)
{
	enum rpma_conn_event event;
	int ret;

	if (pmv_flush_init() || accept_one(side))
		return -1;
	ret = serve(side);
	if (check("rpma_conn_next_event", rpma_conn_next_event(side->conn, &event)))
		return -1;
	rpma_conn_disconnect(side->conn);
	return ret;
}

/* ---- client ---- */

/* take_offer -- the server's memory */
static int take_offer(struct side *side)
{
	struct rpma_conn_private_data pdata = {0};
	struct rpma_peer_cfg *cfg = NULL;
	struct offer offer;
	int ret = rpma_conn_get_private_data(side->conn, &pdata);

	if (!ret && pdata.len < sizeof(offer))
		ret = RPMA_E_INVAL;
	if (check("the server's private data", ret))
		return -1;
	memcpy(&offer, pdata.ptr, sizeof(offer));
	if (offer.mr_size + offer.cfg_size > (int) sizeof(offer.bytes))
		return check("the server's private data", RPMA_E_INVAL);
	ret = rpma_mr_remote_from_descriptor(offer.bytes, offer.mr_size, &side->remote);
	if (!ret)
		ret = rpma_peer_cfg_from_descriptor(offer.bytes + offer.mr_size, offer.cfg_size,
						    &cfg);
	if (!ret)
		ret = rpma_conn_apply_remote_peer_cfg(side->conn, cfg);
	if (cfg)
		rpma_peer_cfg_delete(&cfg);
	return check("the server's descriptors", ret);
}

static int connect_once(struct side *side)
{
	const struct options *opts = side->opts;
	struct rpma_conn_private_data pdata = {.ptr = &side->ask, .len = sizeof(side->ask)};
	struct rpma_conn_req *req;

	if (check("rpma_conn_req_new",
		  rpma_conn_req_new(side->peer, opts->dst_addr, opts->dst_port, side->cfg, &req)))
		return -1;
	return establish(side, req, &pdata);
}

static int connect_to_server(struct side *side)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	uint64_t deadline = now_ns() + CONNECT_NS;
	int ret;

	if (open_device(side, side->opts->dst_addr, false) || configure(side) ||
	    get_memory(side, NULL, 0))
		return -1;
	/* Scripts start both programs at a time: nobody may listen yet. */
	while ((ret = connect_once(side)) == 1 && now_ns() < deadline) {
		rpma_conn_delete(&side->conn);
		nanosleep(&pause, NULL);
	}
	if (ret == 1)
		fprintf(stderr,
			"nobody accepts connections at %s, port %s: start the server first\n",
			side->opts->dst_addr, side->opts->dst_port);
	return ret ? -1 : take_offer(side);
}

/* send_note -- behind what was written, or with the data */
static int send_note(struct stream *stream, uint32_t slot)
{
	struct side *side = stream->owner;
	uint32_t number = side->ask.window + slot;
	struct note *note = message_of(side, number);
	size_t len = sizeof(*note);

	*note = (struct note){.len = stream->size, .slot = slot};
	if (side->ask.op == OP_MESSAGE) {
		memcpy(note + 1, side->memory.base, stream->size);
		len += stream->size;
	}
	return check("rpma_send", rpma_send(side->conn, side->messages_mr, offset_of(side, number),
					    len, RPMA_F_COMPLETION_ON_ERROR, NULL));
}

/* start -- one operation; the completion of its last part tells the slot */
static int start(struct stream *stream, uint32_t slot)
{
	struct side *side = stream->owner;

	if (side->ask.op != OP_MESSAGE &&
	    check("rpma_write", rpma_write(side->conn, side->remote, 0, side->mr, 0, stream->size,
					   RPMA_F_COMPLETION_ON_ERROR, NULL)))
		return -1;
	if (sends(side))
		return send_note(stream, slot);
	return check("rpma_flush", rpma_flush(side->conn, side->remote, 0, stream->size,
					      RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS,
					      context_of(slot)));
}

/* end_one -- wait until an operation ends; its slot */
static int end_one(struct stream *stream, uint32_t *slot)
{
	struct side *side = stream->owner;
	unsigned long spins = 0;
	uint64_t deadline = 0;
	struct ibv_wc wc;
	int ret;

	while ((ret = take_completion(side, &wc)) == 0) {
		if (++spins % SPINS_PER_CLOCK)
			continue;
		if (!deadline)
			deadline = now_ns() + side->opts->timeout * 1000000000ULL;
		if (now_ns() > deadline) {
			fprintf(stderr, "no completion in time\n");
			return -1;
		}
	}
	if (ret < 0)
		return -1;
	*slot = wc.wr_id;
	if (!(wc.opcode & IBV_WC_RECV))
		return 0;
	*slot = message_of(side, wc.wr_id)->slot % stream->window;
	return receive(side, NULL, wc.wr_id);
}

/* verify -- read back what was written */
static int verify(struct stream *stream)
{
	struct side *side = stream->owner;
	size_t size = stream->size;
	struct ibv_wc wc;
	size_t right;
	int ret;

	memset(side->memory.base, 0, size);
	if (check("rpma_read", rpma_read(side->conn, side->mr, 0, side->remote, 0, size,
					 RPMA_F_COMPLETION_ALWAYS, NULL)))
		return -1;
	while ((ret = take_completion(side, &wc)) == 0)
		;
	right = ret < 0 ? 0 : pattern_check(side->memory.base, size, size, 0);
	if (right == size)
		return 0;
	fprintf(stderr, "the target's data are wrong from byte %zu on\n", right);
	return -1;
}

static int client(struct side *side)
{
	const struct options *opts = side->opts;
	int op = options_op(opts, operations);
	struct stream stream = {
		.opts = opts,
		.provider = "librpma",
		.operation = operations[op],
		.owner = side,
		.start = start,
		.end_one = end_one,
		.verify = verify,
	};
	enum rpma_conn_event event;
	int ret;

	side->ask =
		(struct ask){.len = options_largest(opts), .op = op, .window = stream_widest(opts)};
	if (connect_to_server(side))
		return -1;
	stream.source = side->memory.base;
	ret = stream_run(&stream);
	if (!rpma_conn_disconnect(side->conn))
		rpma_conn_next_event(side->conn, &event);
	return ret;
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100, .window = 1};
	struct side side = {.opts = &opts};
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (options_op(&opts, operations) < 0 || !stream_fits(&opts))
		return EXIT_USAGE;
	if (!opts.dst_addr && !opts.src_addr) {
		fprintf(stderr, "librpma needs the server's address: -s\n");
		return EXIT_USAGE;
	}
	ret = opts.dst_addr ? client(&side) : server(&side);
	close_side(&side);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
