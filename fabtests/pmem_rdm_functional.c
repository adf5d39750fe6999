/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem_rdm_functional.c -- checks of durable remote writes over FI_EP_RDM
 *
 * The server owns the memory and does what the client says over a connection of
 * their own.  A write is not taken to be committed because its data are there: the
 * server is stopped for a while, and what completes meanwhile has not asked it.
 * Where a NIC can commit by itself, it has to do so meanwhile.
 *
 * With FI_PMEMVERBS_COMMIT=all both know nothing of persistent memory: no
 * capability, no flag.  Every write has to wait for the server all the same.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netdb.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_ext_pmemverbs.h>
#include <rdma/fi_tagged.h>

#include "common.h"
#include "control.h"
#include "key.h"
#include "memory.h"
#include "stats.h"

#define SIZE 262144
#define INJECT 32
#define MAX_NOTICES 64
#define MAX_EARLY 64
#define STOP_MS 400
#define PATIENCE_NS UINT64_C(20000000000)

static const struct program program = {
	.name = "fi_pmem_rdm_functional",
	.summary = "Checks durable remote writes over FI_EP_RDM.\n"
		   "Anonymous memory has to be declared: FI_PMEMVERBS_DOMAIN=mhp, say.",
	.letters = "fdBPMoh",
	.operations = "run this case (may be repeated, or a comma list); list: tell the names",
};

enum {
	ASK_NAME,    /* -> struct offer */
	ASK_BYTES,   /* offset, len -> payload */
	ASK_NOTICES, /* number to wait for -> their struct notice */
	ASK_STOP,    /* milliseconds: stop soon, and go on after these */
	ASK_REOPEN,  /* the endpoint, at the same address, as a program does that starts again */
	ASK_RECV,    /* length: of a message, into the memory */
	ASK_BYE,
};

struct notice {
	uint64_t data;
	uint64_t seen; /* the first bytes of the memory when it came */
};

struct offer {
	uint64_t key, addr;
	uint64_t volatile_key, volatile_addr;
	size_t name_len;
	char name[128];
};

/* What both sides open. */
struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	uint64_t next_key;
};

struct settings {
	enum fi_av_type av_type;
	uint64_t op_flags;
	bool selective;
	bool counter;
	bool waits;
};

static bool commit_all; /* FI_PMEMVERBS_COMMIT=all */
static bool no_agent;   /* FI_PMEMVERBS_AGENT=off, for the one case that goes without */

/* ---- both sides ---- */

static struct fi_info *make_hints(const struct options *opts, const struct settings *settings)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | (commit_all ? 0 : FI_RMA_PMEM);
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->av_type = settings->av_type;
	hints->tx_attr->op_flags = settings->op_flags;
	hints->fabric_attr->prov_name = strdup("pmemverbs");
	if (opts->fabric)
		hints->fabric_attr->name = strdup(opts->fabric);
	if (opts->domain)
		hints->domain_attr->name = strdup(opts->domain);
	return hints;
}

static int open_ep(struct side *side, const struct settings *settings)
{
	uint64_t selective = settings->selective ? FI_SELECTIVE_COMPLETION : 0;

	DO(fi_endpoint(side->domain, side->info, &side->ep, NULL));
	DO(fi_ep_bind(side->ep, &side->av->fid, 0));
	DO(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | selective));
	DO(fi_ep_bind(side->ep, &side->cq->fid, FI_RECV));
	if (side->cntr)
		DO(fi_ep_bind(side->ep, &side->cntr->fid, FI_WRITE));
	DO(fi_enable(side->ep));
	return 0;
}

static int open_side(struct side *side, const struct options *opts, const struct settings *settings,
		     const char *node, uint64_t flags)
{
	struct fi_info *hints = make_hints(opts, settings);
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = settings->waits ? FI_WAIT_FD : FI_WAIT_NONE,
	};
	struct fi_av_attr av_attr = {.type = settings->av_type};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	int ret;

	*side = (struct side){.next_key = 1};
	if (!hints)
		return report("fi_allocinfo", -FI_ENOMEM);
	ret = fi_getinfo(FI_VERSION(1, 17), node, NULL, flags, hints, &side->info);
	fi_freeinfo(hints);
	if (ret)
		return report("fi_getinfo", ret);
	DO(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
	DO(fi_domain(side->fabric, side->info, &side->domain, NULL));
	DO(fi_av_open(side->domain, &av_attr, &side->av, NULL));
	DO(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL));
	if (settings->counter)
		DO(fi_cntr_open(side->domain, &cntr_attr, &side->cntr, NULL));
	return open_ep(side, settings);
}

static int close_side(struct side *side)
{
	int ret = CLOSE(side->ep) | CLOSE(side->cntr) | CLOSE(side->cq) | CLOSE(side->av) |
		  CLOSE(side->domain) | CLOSE(side->fabric);

	if (side->info)
		fi_freeinfo(side->info);
	*side = (struct side){0};
	return ret;
}

static int reg(struct side *side, void *buf, size_t len, uint64_t access, uint64_t flags,
	       struct fid_mr **mr)
{
	int ret = fi_mr_reg(side->domain, buf, len, access, 0, side->next_key++, flags, mr, NULL);

	return ret ? report("fi_mr_reg", ret) : 0;
}

/* ---- the server ---- */

struct server {
	struct side side;
	struct memory memory;
	struct fid_mr *mr;
	void *scratch; /* volatile memory */
	struct fid_mr *scratch_mr;
	struct notice notices[MAX_NOTICES];
	unsigned int num_notices;
};

/* progress -- RxM's targets move nothing unless they look */
static int progress(struct server *server)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;
	ssize_t ret;

	while ((ret = fi_cq_read(server->side.cq, &entry, 1)) == 1) {
		struct notice *notice = &server->notices[server->num_notices];

		if (!(entry.flags & FI_REMOTE_CQ_DATA) || server->num_notices == MAX_NOTICES)
			continue;
		notice->data = entry.data;
		memcpy(&notice->seen, server->memory.base, sizeof(notice->seen));
		server->num_notices++;
	}
	if (ret != -FI_EAVAIL)
		return ret == -FI_EAGAIN ? 0 : report("fi_cq_read", ret);
	cq_error(server->side.cq, &error);
	return 0;
}

static int answer(int fd, const void *payload, size_t len)
{
	struct control_msg msg = {.len = len};

	return control_send(fd, &msg, payload);
}

static int register_memory(struct server *server, struct offer *offer)
{
	struct side *side = &server->side;
	bool virt_addr = side->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	int ret;

	server->scratch = calloc(1, SIZE);
	if (!server->scratch)
		return -1;
	ret = reg(side, server->memory.base, SIZE, FI_REMOTE_WRITE | FI_REMOTE_READ,
		  commit_all ? 0 : FI_RMA_PMEM, &server->mr);
	if (!ret)
		ret = reg(side, server->scratch, SIZE, FI_REMOTE_WRITE, 0, &server->scratch_mr);
	if (ret)
		return ret;
	offer->key = fi_mr_key(server->mr);
	offer->addr = virt_addr ? (uintptr_t) server->memory.base : 0;
	offer->volatile_key = fi_mr_key(server->scratch_mr);
	offer->volatile_addr = virt_addr ? (uintptr_t) server->scratch : 0;
	offer->name_len = sizeof(offer->name);
	DO(fi_getname(&side->ep->fid, offer->name, &offer->name_len));
	return 0;
}

static int reopen(struct server *server, const struct offer *offer)
{
	const struct settings settings = {.av_type = FI_AV_MAP};
	struct fi_info *info = server->side.info;
	int ret = CLOSE(server->side.ep);

	server->side.ep = NULL;
	free(info->src_addr);
	info->src_addr = malloc(offer->name_len);
	if (ret || !info->src_addr)
		return -1;
	memcpy(info->src_addr, offer->name, offer->name_len);
	info->src_addrlen = offer->name_len;
	return open_ep(&server->side, &settings);
}

static int obey(struct server *server, int fd, const struct control_msg *ask, struct offer *offer)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	int ret;

	switch (ask->command) {
	case ASK_NAME:
		server->num_notices = 0;
		memset(server->memory.base, 0, SIZE);
		return answer(fd, offer, sizeof(*offer));
	case ASK_BYTES:
		return answer(fd, (char *) server->memory.base + ask->arg[0], ask->arg[1]);
	case ASK_NOTICES:
		while (server->num_notices < ask->arg[0] && now_ns() < end) {
			ret = progress(server);
			if (ret)
				return ret;
		}
		return answer(fd, server->notices, server->num_notices * sizeof(struct notice));
	case ASK_STOP:
		return control_stop(fd, ask->arg[0]);
	case ASK_RECV:
		ret = (int) fi_recv(server->side.ep, server->memory.base, ask->arg[0],
				    fi_mr_desc(server->mr), FI_ADDR_UNSPEC, NULL);
		return ret ? report("fi_recv", ret) : answer(fd, NULL, 0);
	case ASK_REOPEN:
		return reopen(server, offer) ? -1 : answer(fd, NULL, 0);
	default:
		return -1;
	}
}

/* serve -- 0: the client says that all is well */
static int serve(const struct options *opts, int fd)
{
	struct settings settings = {.av_type = FI_AV_MAP};
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	struct server server = {0};
	struct offer offer = {0};
	struct control_msg ask;
	char node[NI_MAXHOST];
	int ret = -1;

	if (control_address(fd, node, sizeof(node)) ||
	    memory_map(&server.memory, opts->memory, SIZE))
		return -1;
	ret = open_side(&server.side, opts, &settings, node, FI_SOURCE);
	if (!ret)
		ret = register_memory(&server, &offer);
	while (!ret) {
		ret = progress(&server);
		if (ret || poll(&pfd, 1, 0) <= 0)
			continue;
		ret = control_receive(fd, &ask, NULL, 0, opts->timeout);
		if (!ret && ask.command == ASK_BYE) {
			answer(fd, NULL, 0);
			ret = ask.arg[0] ? -1 : 0;
			break;
		}
		if (!ret)
			ret = obey(&server, fd, &ask, &offer);
	}
	ret |= CLOSE(server.mr) | CLOSE(server.scratch_mr) | close_side(&server.side);
	memory_unmap(&server.memory);
	free(server.scratch);
	return ret;
}

/* ---- the client ---- */

struct client {
	const struct options *opts;
	int control;
	struct side side;
	struct settings settings;
	struct offer offer;
	struct pmv_attr attr; /* what the key says */
	fi_addr_t server;
	char *buf;
	struct fid_mr *mr;
	void *desc;
	struct fi_context2 contexts[64];          /* of operations, by their number */
	struct fi_cq_data_entry early[MAX_EARLY]; /* came while something was posted */
	unsigned int num_early;
	char reason[200];
};

#define FAIL(client, ...) (snprintf((client)->reason, sizeof((client)->reason), __VA_ARGS__), -1)

static int ask(struct client *client, uint32_t command, uint64_t a, uint64_t b, void *payload,
	       size_t room, size_t *got)
{
	struct control_msg msg = {.command = command, .arg = {a, b}};

	if (control_send(client->control, &msg, NULL) ||
	    control_receive(client->control, &msg, payload, room, client->opts->timeout))
		return FAIL(client, "the server has gone");
	if (got)
		*got = msg.len;
	return 0;
}

static int open_client(struct client *client, const struct settings *settings)
{
	int ret;

	client->settings = *settings;
	client->num_early = 0;
	if (ask(client, ASK_NAME, 0, 0, &client->offer, sizeof(client->offer), NULL))
		return -1;
	if (!pmv_key_unpack(client->offer.key, &client->attr))
		return FAIL(client, "the key says nothing");
	if (!client->attr.pmem)
		return FAIL(client, "the key says that the memory is not persistent");
	ret = open_side(&client->side, client->opts, settings, client->opts->dst_addr, 0);
	if (ret)
		return FAIL(client, "opening failed");
	ret = reg(&client->side, client->buf, SIZE, FI_READ | FI_WRITE, 0, &client->mr);
	if (ret)
		return FAIL(client, "registering failed");
	client->desc = fi_mr_desc(client->mr);
	if (fi_av_insert(client->side.av, client->offer.name, 1, &client->server, 0, NULL) != 1)
		return FAIL(client, "fi_av_insert failed");
	return 0;
}

static int close_client(struct client *client)
{
	int ret = CLOSE(client->mr) | close_side(&client->side);

	client->mr = NULL;
	return ret ? FAIL(client, "closing failed") : 0;
}

/* take -- 1: an entry, 0: none, negative: an error entry or worse */
static int take(struct client *client, struct fi_cq_data_entry *entry)
{
	struct fi_cq_err_entry error;
	ssize_t ret = fi_cq_read(client->side.cq, entry, 1);

	if (ret == 1)
		return 1;
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL && cq_error(client->side.cq, &error))
		return FAIL(client, "an operation failed: %s", fi_strerror(error.err));
	return FAIL(client, "fi_cq_read: %s", fi_strerror((int) -ret));
}

/* next -- like take, and those that came early; it may sleep */
static int next(struct client *client, struct fi_cq_data_entry *entry)
{
	if (client->num_early) {
		*entry = client->early[0];
		memmove(client->early, client->early + 1, --client->num_early * sizeof(*entry));
		return 1;
	}
	if (client->settings.waits && fi_cq_sread(client->side.cq, entry, 1, NULL, 1000) == 1)
		return 1;
	return take(client, entry);
}

/* await -- the completion of an operation, next of all */
static int await(struct client *client, int n, uint64_t flags)
{
	struct fi_cq_data_entry entry;
	uint64_t end = now_ns() + PATIENCE_NS;
	int ret;

	do
		ret = next(client, &entry);
	while (!ret && now_ns() < end);
	if (ret < 0)
		return ret;
	if (!ret)
		return FAIL(client, "operation %d does not complete", n);
	if (entry.op_context != &client->contexts[n])
		return FAIL(client, "another operation than %d completed", n);
	if ((entry.flags & flags) != flags)
		return FAIL(client, "operation %d: flags %#llx", n,
			    (unsigned long long) entry.flags);
	return 0;
}

static int expect_none(struct client *client)
{
	struct fi_cq_data_entry entry;
	int ret = client->num_early ? 1 : take(client, &entry);

	return ret <= 0 ? ret : FAIL(client, "something completed that should not");
}

/* expect_error -- the entry that fi_cq_read has announced is of this operation */
static int expect_error(struct client *client, int n, int err)
{
	struct fi_cq_err_entry error;

	if (!cq_error(client->side.cq, &error))
		return FAIL(client, "fi_cq_readerr has no error for operation %d", n);
	if (error.op_context != &client->contexts[n])
		return FAIL(client, "another operation than %d failed", n);
	if (error.err != err)
		return FAIL(client, "operation %d: %s", n, fi_strerror(error.err));
	return 0;
}

#define WRITTEN (FI_RMA | FI_WRITE)

/* busy -- a call is to be made again; what completes meanwhile is kept */
static bool busy(struct client *client, ssize_t ret, uint64_t end)
{
	struct fi_cq_data_entry entry;

	if (ret != -FI_EAGAIN || now_ns() > end || client->num_early == MAX_EARLY)
		return false;
	ret = take(client, &entry);
	if (ret > 0)
		client->early[client->num_early++] = entry;
	return ret >= 0;
}

#define POST(client, result, call)                                                                 \
	do {                                                                                       \
		uint64_t end_ = now_ns() + PATIENCE_NS;                                            \
		do                                                                                 \
			(result) = (call);                                                         \
		while (busy(client, result, end_));                                                \
	} while (0)

static ssize_t writemsg(struct client *client, size_t offset, size_t len, int n, uint64_t flags)
{
	struct iovec iov = {client->buf + offset, len};
	struct fi_rma_iov rma_iov = {client->offer.addr + offset, len, client->offer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &client->desc,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = &client->contexts[n],
		.data = 100 + (uint64_t) n,
	};
	ssize_t ret;

	POST(client, ret, fi_writemsg(client->side.ep, &msg, flags));
	return ret;
}

static ssize_t write_plain(struct client *client, size_t offset, size_t len, int n)
{
	ssize_t ret;

	POST(client, ret,
	     fi_write(client->side.ep, client->buf + offset, len, client->desc, client->server,
		      client->offer.addr + offset, client->offer.key, &client->contexts[n]));
	return ret;
}

/* A commit, or with FI_PMEMVERBS_COMMIT=all a write that should be as good. */
static ssize_t commit(struct client *client, size_t offset, size_t len, int n, uint64_t flags)
{
	if (commit_all && !flags)
		return write_plain(client, offset, len, n);
	return writemsg(client, offset, len, n, (commit_all ? 0 : FI_COMMIT_COMPLETE) | flags);
}

static int expect_data(struct client *client, size_t offset, size_t len, const char *what)
{
	char *image = malloc(len);
	size_t right = 0;
	int ret = -1;

	if (image && !ask(client, ASK_BYTES, offset, len, image, len, NULL)) {
		while (right < len && image[right] == client->buf[offset + right])
			right++;
		ret = right == len ? 0 : FAIL(client, "%s: byte %zu is wrong", what, right);
	}
	free(image);
	return ret;
}

/* connect_first -- so that a stopped server has nothing to do but to be asked */
static int connect_first(struct client *client)
{
	ssize_t ret = commit(client, 0, 8, 0, FI_COMPLETION);

	return ret ? FAIL(client, "first write: %s", fi_strerror((int) -ret)) : await(client, 0, 0);
}

static int stop_server(struct client *client)
{
	return ask(client, ASK_STOP, STOP_MS, 0, NULL, 0, NULL);
}

/* name_volatile -- what comes goes to the server's memory that is not persistent */
static void name_volatile(struct client *client)
{
	client->offer.key = client->offer.volatile_key;
	client->offer.addr = client->offer.volatile_addr;
}

/* is_one_sided -- are commits made by the target's NIC alone?  tcp, which is none, has offsets. */
static bool is_one_sided(const struct client *client)
{
	const struct pmv_attr *attr = &client->attr;

	return (client->side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) &&
	       attr->persist != PMV_PAGE && (attr->persist != PMV_DMP || !attr->ddio);
}

/* expect_waited -- has what was begun then waited for the server to go on, if it has to? */
static int expect_waited(struct client *client, uint64_t start, const char *what)
{
	uint64_t ms = (now_ns() - start) / 1000000;

	if (is_one_sided(client) ? ms < STOP_MS : ms >= STOP_MS / 2)
		return 0;
	return FAIL(client, "%s completed after %llu ms, while the target was stopped", what,
		    (unsigned long long) ms);
}

static int check(struct client *client, ssize_t ret, ssize_t wanted, const char *call)
{
	if (ret == wanted)
		return 0;
	return FAIL(client, "%s: %s", call, ret ? fi_strerror((int) -ret) : "accepted");
}

/* ---- the cases ---- */

static int run_offer(struct client *client)
{
	const struct fi_info *info = client->side.info;

	if (strcmp(info->fabric_attr->prov_name, "pmemverbs"))
		return FAIL(client, "provider %s", info->fabric_attr->prov_name);
	if (info->ep_attr->type != FI_EP_RDM || info->domain_attr->mr_key_size != 8)
		return FAIL(client, "not an RDM endpoint with keys of 8 bytes");
	if (!(info->caps & FI_RMA_PMEM) || !(info->tx_attr->caps & FI_RMA_PMEM))
		return FAIL(client, "FI_RMA_PMEM is not offered");
	return 0;
}

static int run_data(struct client *client)
{
	static const size_t sizes[] = {1, 8, 63, 64, 65, 4096, 16385, 100000};
	size_t offset = 3;

	pattern_fill(client->buf, SIZE, 7, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (check(client, commit(client, offset, sizes[i], (int) i, 0), 0, "commit") ||
		    await(client, (int) i, WRITTEN) ||
		    expect_data(client, offset, sizes[i], "committed data"))
			return -1;
		offset += sizes[i];
	}
	return expect_none(client);
}

static int run_burst(struct client *client)
{
	pattern_fill(client->buf, SIZE, 8, 0);
	for (int round = 0; round < 20; round++) {
		for (int n = 0; n < 64; n++) {
			if (check(client, commit(client, (size_t) n * 256, 200, n, 0), 0, "commit"))
				return -1;
		}
		for (int n = 0; n < 64; n++) {
			if (await(client, n, WRITTEN))
				return -1;
		}
	}
	return expect_data(client, 63 * 256, 200, "the last write") || expect_none(client);
}

static int run_waits(struct client *client)
{
	uint64_t start;

	if (connect_first(client) || stop_server(client))
		return -1;
	start = now_ns();
	return check(client, commit(client, 512, 64, 1, 0), 0, "commit") ||
	       await(client, 1, WRITTEN) || expect_waited(client, start, "a commit");
}

/* await_answer -- and progress meanwhile: what was begun may go on in calls only */
static int await_answer(struct client *client)
{
	struct pollfd pfd = {.fd = client->control, .events = POLLIN};
	uint64_t end = now_ns() + 2 * PATIENCE_NS;
	int ret = 0;

	while (!ret && poll(&pfd, 1, 1) == 0 && now_ns() < end)
		ret = expect_none(client);
	return ret;
}

static int expect_notice(struct client *client, unsigned int count, uint64_t data)
{
	struct control_msg msg = {.command = ASK_NOTICES, .arg = {count}};
	struct notice notices[MAX_NOTICES];
	uint64_t first;
	size_t got;

	memcpy(&first, client->buf, sizeof(first));
	if (control_send(client->control, &msg, NULL) || await_answer(client) ||
	    control_receive(client->control, &msg, notices, sizeof(notices), client->opts->timeout))
		return client->reason[0] ? -1 : FAIL(client, "the server has gone");
	got = msg.len;
	got /= sizeof(notices[0]);
	if (got != count)
		return FAIL(client, "%zu notices instead of %u", got, count);
	if (notices[count - 1].data != data)
		return FAIL(client, "notice %llu instead of %llu",
			    (unsigned long long) notices[count - 1].data,
			    (unsigned long long) data);
	if (notices[count - 1].seen != first)
		return FAIL(client, "the notice came before the data");
	return 0;
}

/* The calls without flags, on an endpoint whose op_flags have FI_COMMIT_COMPLETE. */
static int run_calls(struct client *client)
{
	struct fid_ep *ep = client->side.ep;
	struct iovec iov = {client->buf, 64};
	uint64_t start;
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 9, 0);
	if (connect_first(client) || stop_server(client))
		return -1;
	start = now_ns();
	if (check(client, write_plain(client, 0, 64, 1), 0, "fi_write") ||
	    await(client, 1, WRITTEN) || expect_waited(client, start, "fi_write") ||
	    stop_server(client))
		return -1;
	start = now_ns();
	POST(client, ret,
	     fi_writev(ep, &iov, &client->desc, 1, client->server, client->offer.addr,
		       client->offer.key, &client->contexts[2]));
	if (check(client, ret, 0, "fi_writev") || await(client, 2, WRITTEN) ||
	    expect_waited(client, start, "fi_writev") || stop_server(client))
		return -1;
	start = now_ns();
	POST(client, ret,
	     fi_writedata(ep, client->buf, 64, client->desc, 77, client->server, client->offer.addr,
			  client->offer.key, &client->contexts[3]));
	return check(client, ret, 0, "fi_writedata") || await(client, 3, WRITTEN) ||
	       expect_waited(client, start, "fi_writedata") || expect_notice(client, 1, 77);
}

static int run_notice(struct client *client)
{
	uint64_t flags = commit_all ? FI_REMOTE_CQ_DATA : FI_COMMIT | FI_IMMED;

	for (int n = 0; n < 20; n++) {
		pattern_fill(client->buf, SIZE, (uint64_t) n, 0);
		if (check(client, writemsg(client, 0, 4096, n, flags), 0, "fi_writemsg") ||
		    await(client, n, WRITTEN) ||
		    expect_notice(client, (unsigned int) n + 1, 100 + (uint64_t) n))
			return -1;
	}
	return 0;
}

/* Injected, without a completion: RxM would forget the flags of that. */
static int run_inject(struct client *client)
{
	uint64_t key = client->offer.key;
	ssize_t ret;

	/* A key that says nothing can't be committed to: was it a commit that was asked for? */
	client->offer.key = pmv_key_core(key);
	ret = writemsg(client, 0, INJECT, 0, FI_INJECT | FI_COMMIT_COMPLETE);
	client->offer.key = key;
	if (check(client, ret, -FI_EOPNOTSUPP, "an injected commit to a plain key"))
		return -1;
	for (int n = 0; n < 20; n++) {
		pattern_fill(client->buf, SIZE, (uint64_t) n, 0);
		if (check(client,
			  writemsg(client, 0, INJECT, n,
				   FI_INJECT | FI_REMOTE_CQ_DATA | FI_COMMIT_COMPLETE),
			  0, "fi_writemsg"))
			return -1;
		if (expect_none(client) ||
		    expect_notice(client, (unsigned int) n + 1, 100 + (uint64_t) n))
			return -1;
	}
	/* What a later commit covers is there with it. */
	pattern_fill(client->buf, SIZE, 99, 0);
	return check(client, writemsg(client, 64, INJECT, 0, FI_INJECT), 0, "inject") ||
	       check(client, commit(client, 128, 8, 1, FI_COMPLETION), 0, "commit") ||
	       await(client, 1, WRITTEN) || expect_data(client, 64, INJECT, "what was injected") ||
	       expect_none(client);
}

static int run_fence(struct client *client)
{
	pattern_fill(client->buf, SIZE, 11, 0);
	for (int n = 0; n < 40; n += 2) {
		if (check(client, writemsg(client, (size_t) n * 1024, 1024, n, 0), 0, "write") ||
		    check(client,
			  writemsg(client, (size_t) n * 1024 + 1024, 8, n + 1,
				   FI_COMMIT_COMPLETE | FI_FENCE),
			  0, "fenced commit") ||
		    await(client, n, WRITTEN) || await(client, n + 1, WRITTEN) ||
		    expect_data(client, (size_t) n * 1024, 1024 + 8, "both"))
			return -1;
	}
	return expect_none(client);
}

static int expect_count(struct client *client, uint64_t count)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (fi_cntr_read(client->side.cntr) < count) {
		if (fi_cntr_readerr(client->side.cntr))
			return FAIL(client, "an operation failed");
		if (now_ns() > end)
			return FAIL(client, "the counter stays at %llu",
				    (unsigned long long) fi_cntr_read(client->side.cntr));
	}
	return fi_cntr_read(client->side.cntr) == count ? 0 : FAIL(client, "counted too much");
}

static int run_counter(struct client *client)
{
	uint64_t start;
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 12, 0);
	if (check(client, commit(client, 0, 8, 0, 0), 0, "commit") || expect_count(client, 1) ||
	    stop_server(client))
		return -1;
	start = now_ns();
	if (check(client, commit(client, 8, 8, 0, 0), 0, "commit") || expect_count(client, 2) ||
	    expect_waited(client, start, "counting a commit"))
		return -1;
	for (int n = 0; n < 32; n++) {
		POST(client, ret,
		     fi_inject_write(client->side.ep, client->buf + 64 * n, INJECT, client->server,
				     client->offer.addr + 64 * (uint64_t) n, client->offer.key));
		if (check(client, ret, 0, "fi_inject_write"))
			return -1;
	}
	if (expect_count(client, 34) || expect_none(client))
		return -1;
	if (!commit_all)
		return 0;
	if (expect_data(client, 31 * 64, INJECT, "what was injected") || stop_server(client))
		return -1;
	start = now_ns();
	POST(client, ret,
	     fi_inject_write(client->side.ep, client->buf, INJECT, client->server,
			     client->offer.addr, client->offer.key));
	return check(client, ret, 0, "fi_inject_write") || expect_count(client, 35) ||
	       expect_waited(client, start, "counting an injected write");
}

/* is_safe -- is memory there durable as soon as the target's processor has written to it? */
static bool is_safe(const struct client *client)
{
	return client->attr.persist != PMV_DMP && client->attr.persist != PMV_PAGE;
}

/* fetch_sum -- the word at the region's begin grows by that of the buffer; result NULL: sum */
static ssize_t fetch_sum(struct client *client, uint64_t *result, int n, uint64_t flags)
{
	struct fi_ioc ioc = {client->buf, 1}, result_ioc = {result, 1};
	struct fi_rma_ioc rma_ioc = {client->offer.addr, 1, client->offer.key};
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.desc = &client->desc,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &rma_ioc,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = &client->contexts[n],
	};
	struct fid_ep *ep = client->side.ep;
	ssize_t ret;

	if (result)
		POST(client, ret,
		     fi_fetch_atomicmsg(ep, &msg, &result_ioc, &client->desc, 1, flags));
	else
		POST(client, ret, fi_atomicmsg(ep, &msg, flags));
	return ret;
}

/* Such as are over RxM: the target's processor executes it, and answers. */
static ssize_t sum(struct client *client, int n, uint64_t flags)
{
	return fetch_sum(client, NULL, n, flags);
}

static int run_atomic(struct client *client)
{
	bool safe = is_safe(client) || commit_all;
	uint64_t *operand = (uint64_t *) client->buf, *result = operand + 1;
	uint64_t flags = commit_all ? 0 : FI_COMMIT_COMPLETE;
	uint64_t before = 0;

	*operand = 5;
	/* Where nobody promises anything, all of them work. */
	if (!commit_all) {
		if (check(client, sum(client, 1, 0), 0, "fi_atomicmsg") ||
		    await(client, 1, FI_ATOMIC))
			return -1;
		before += 5;
	}
	if (check(client, fetch_sum(client, result, 1, flags), safe ? 0 : -FI_EOPNOTSUPP,
		  "a committed fi_fetch_atomicmsg"))
		return -1;
	if (safe && await(client, 1, FI_ATOMIC))
		return -1;
	if (safe && *result != before)
		return FAIL(client, "it fetched %llu", (unsigned long long) *result);
	if (safe && check(client, sum(client, 1, flags | FI_FENCE), -FI_EOPNOTSUPP,
			  "a fenced fi_atomicmsg"))
		return -1;
	/* Memory that is not persistent has nothing to do with it. */
	name_volatile(client);
	return check(client, sum(client, 1, 0), 0, "fi_atomicmsg") || await(client, 1, FI_ATOMIC);
}

/* A new connection, as RxM makes it after one was lost: it forgets both with the address. */
static int lose_connection(struct client *client)
{
	int ret = fi_av_remove(client->side.av, &client->server, 1, 0);

	if (ret ||
	    fi_av_insert(client->side.av, client->offer.name, 1, &client->server, 0, NULL) != 1)
		return FAIL(client, "removing and inserting the server failed");
	return 0;
}

/* write_to_lose -- and nothing commits it; where every write commits, only injected ones don't */
static int write_to_lose(struct client *client, size_t offset, int n)
{
	ssize_t ret;

	if (!commit_all)
		return check(client, writemsg(client, offset, INJECT, n, FI_COMPLETION), 0,
			     "write") ||
		       await(client, n, WRITTEN);
	POST(client, ret,
	     fi_inject_write(client->side.ep, client->buf + offset, INJECT, client->server,
			     client->offer.addr + offset, client->offer.key));
	return check(client, ret, 0, "fi_inject_write");
}

/* is_proven -- does the completion of a write say that it is durable? */
static bool is_proven(const struct client *client)
{
	return client->attr.persist == PMV_WSP && is_one_sided(client) && !commit_all;
}

/* The calls for atomics: each has its completion, or none, and the target what it should. */
static int run_atomics(struct client *client)
{
	uint64_t *word = (uint64_t *) client->buf, sum = 0;
	uint64_t addr = client->offer.addr, key = client->offer.key;
	fi_addr_t to = client->server;
	struct fid_ep *ep = client->side.ep;
	void *desc = client->desc;
	struct fi_ioc ioc = {word, 1};
	ssize_t ret;

	memset(word, 0, 64);
	for (int n = 0; n < 30; n += 3, sum += 4 * 7) {
		word[0] = 7;
		word[3] = sum + 21;
		POST(client, ret,
		     fi_atomic(ep, word, 1, desc, to, addr, key, FI_UINT64, FI_SUM,
			       &client->contexts[n]));
		if (check(client, ret, 0, "fi_atomic") || await(client, n, FI_ATOMIC | FI_WRITE))
			return -1;
		POST(client, ret, fi_inject_atomic(ep, word, 1, to, addr, key, FI_UINT64, FI_SUM));
		if (check(client, ret, 0, "fi_inject_atomic"))
			return -1;
		POST(client, ret,
		     fi_fetch_atomicv(ep, &ioc, &desc, 1, &(struct fi_ioc){word + 1, 1}, &desc, 1,
				      to, addr, key, FI_UINT64, FI_SUM, &client->contexts[n + 1]));
		if (check(client, ret, 0, "fi_fetch_atomicv") ||
		    await(client, n + 1, FI_ATOMIC | FI_READ))
			return -1;
		if (word[1] != sum + 14)
			return FAIL(client, "it fetched %llu", (unsigned long long) word[1]);
		word[0] = sum + 28;
		POST(client, ret,
		     fi_compare_atomic(ep, word, 1, desc, word + 3, desc, word + 2, desc, to, addr,
				       key, FI_UINT64, FI_CSWAP, &client->contexts[n + 2]));
		if (check(client, ret, 0, "fi_compare_atomic") ||
		    await(client, n + 2, FI_ATOMIC | FI_READ))
			return -1;
		if (word[2] != word[3])
			return FAIL(client, "it was %llu", (unsigned long long) word[2]);
		if (expect_data(client, 0, 8, "the atomics' word"))
			return -1;
	}
	word[0] = 1;
	for (int n = 0; n < 50; n++) {
		POST(client, ret,
		     fi_atomic(ep, word, 1, desc, to, addr, key, FI_UINT64, FI_SUM,
			       &client->contexts[n]));
		if (check(client, ret, 0, "fi_atomic"))
			return -1;
	}
	for (int n = 0; n < 50; n++) {
		if (await(client, n, FI_ATOMIC))
			return -1;
	}
	word[0] = sum + 50;
	return expect_data(client, 0, 8, "the sum") || expect_none(client);
}

/* Without an agent nothing says that an atomic is durable, and it does not complete as if. */
static int run_no_agent(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	ssize_t ret;

	if (is_safe(client))
		return FAIL(client, "memory of that kind needs none");
	POST(client, ret,
	     fi_atomic(client->side.ep, client->buf, 1, client->desc, client->server,
		       client->offer.addr, client->offer.key, FI_UINT64, FI_SUM,
		       &client->contexts[1]));
	if (check(client, ret, 0, "fi_atomic"))
		return -1;
	do
		ret = fi_cq_read(client->side.cq, &entry, 1);
	while (ret == -FI_EAGAIN && now_ns() < end);
	if (check(client, ret, -FI_EAVAIL, "its completion") ||
	    expect_error(client, 1, FI_EOPNOTSUPP))
		return -1;
	/* What needs no agent goes on without one. */
	if (client->attr.persist == PMV_DMP && !client->attr.ddio &&
	    (check(client,
		   writemsg(client, 64, 8, 2, FI_COMMIT_COMPLETE | FI_FENCE | FI_COMPLETION), 0,
		   "a fenced commit") ||
	     await(client, 2, WRITTEN)))
		return -1;
	return expect_none(client);
}

/* Completions only where they are asked for; at the region's end, beyond which nothing may be
 * named. */
static int run_atomics_selective(struct client *client)
{
	uint64_t *word = (uint64_t *) client->buf;

	client->offer.addr += SIZE - sizeof(*word);
	*word = 3;
	for (int n = 0; n < 20; n += 5) {
		for (int i = 0; i < 4; i++) {
			if (check(client, sum(client, n + i, 0), 0, "fi_atomicmsg"))
				return -1;
		}
		if (check(client, sum(client, n + 4, FI_COMPLETION), 0, "fi_atomicmsg") ||
		    await(client, n + 4, FI_ATOMIC))
			return -1;
	}
	word[SIZE / sizeof(*word) - 1] = 20 * 3;
	return expect_data(client, SIZE - sizeof(*word), sizeof(*word), "the sum") ||
	       expect_none(client);
}

/* What went down with a connection is covered by no commit on another one, and that is told. */
static int run_loss(struct client *client)
{
	ssize_t lost = is_proven(client) ? 0 : -FI_ECONNRESET;
	struct offer offer = client->offer;

	pattern_fill(client->buf, SIZE, 13, 0);
	if (connect_first(client) || write_to_lose(client, 64, 1) || lose_connection(client) ||
	    check(client, commit(client, 128, INJECT, 2, FI_COMPLETION), lost,
		  "a commit after a loss") ||
	    (!lost && await(client, 2, WRITTEN)))
		return -1;
	/* Once: what is written again, and committed, is safe from the next loss. */
	for (int n = 3; n < 9; n += 2) {
		if (write_to_lose(client, 64, n) ||
		    check(client, commit(client, 128, INJECT, n + 1, FI_COMPLETION), 0,
			  "a commit after it was told") ||
		    await(client, n + 1, WRITTEN) || lose_connection(client))
			return -1;
	}
	/* Other memory of the peer has lost nothing, but a fence covers it all. */
	if (write_to_lose(client, 64, 9) || lose_connection(client))
		return -1;
	name_volatile(client);
	if (check(client, commit(client, 0, INJECT, 10, FI_COMPLETION), 0, "a commit elsewhere") ||
	    await(client, 10, WRITTEN) ||
	    check(client, writemsg(client, 0, INJECT, 11, FI_COMMIT_COMPLETE | FI_FENCE), lost,
		  "a fenced commit elsewhere") ||
	    (!lost && await(client, 11, WRITTEN)))
		return -1;
	client->offer = offer;
	if (is_safe(client) &&
	    (write_to_lose(client, 64, 13) || lose_connection(client) ||
	     check(client, sum(client, 14, FI_COMMIT_COMPLETE), lost, "a committed atomic") ||
	     (!lost && await(client, 14, FI_ATOMIC)) ||
	     check(client, sum(client, 15, FI_COMMIT_COMPLETE), 0, "another one") ||
	     await(client, 15, FI_ATOMIC)))
		return -1;
	return check(client, commit(client, 64, INJECT, 12, FI_COMPLETION), 0, "a last commit") ||
	       await(client, 12, WRITTEN) || expect_data(client, 64, INJECT, "the last commit") ||
	       expect_none(client);
}

/*
 * An atomic was executed, but is not durable yet, when the connection is lost.  Who answers
 * on the next one may have started without it: nobody may say there that it is durable.
 */
static int run_atomic_loss(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	ssize_t ret;

	if (is_safe(client))
		return 0;
	for (int n = 1; n < 9; n += 2) {
		if (check(client, sum(client, n, FI_COMPLETION), 0, "fi_atomicmsg"))
			return -1;
		/* RxM has its completion then, which nobody has asked for yet. */
		while ((ret = fi_cq_read(client->side.cq, NULL, 0)) == -FI_EAGAIN && now_ns() < end)
			;
		if (check(client, ret, 0, "waiting for RxM") || lose_connection(client))
			return -1;
		/* At once: there may be nobody to connect to. */
		ret = fi_cq_read(client->side.cq, &entry, 1);
		if (ret != -FI_EAVAIL)
			return FAIL(client, "an atomic of before a loss: fi_cq_read: %zd", ret);
		if (expect_error(client, n, FI_ECONNRESET))
			return -1;
		/* On the new connection all is well. */
		if (check(client, sum(client, n + 1, FI_COMPLETION), 0, "another one") ||
		    await(client, n + 1, FI_ATOMIC))
			return -1;
	}
	return expect_none(client);
}

/* The same when the target starts again: RxM hears of it some time. */
static int run_restart(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 14, 0);
	if (connect_first(client) || write_to_lose(client, 64, 1) ||
	    ask(client, ASK_REOPEN, 0, 0, NULL, 0, NULL))
		return -1;
	if (is_proven(client))
		return 0;
	/* What is posted to the old connection fails by itself. */
	do {
		ret = commit(client, 128, INJECT, 2, FI_COMPLETION);
		if (!ret && !await(client, 2, WRITTEN))
			return FAIL(client, "a commit to the restarted target was accepted");
	} while (!ret && now_ns() < end);
	return check(client, ret, -FI_ECONNRESET, "a commit to the restarted target") ||
	       check(client, commit(client, 64, INJECT, 3, FI_COMPLETION), 0, "a last commit") ||
	       await(client, 3, WRITTEN) || expect_data(client, 64, INJECT, "the last commit") ||
	       expect_none(client);
}

static int run_messages(struct client *client)
{
	struct iovec iov = {client->buf, 8};
	struct fi_msg msg = {&iov, &client->desc, 1, client->server, &client->contexts[1], 0};
	struct fi_msg_tagged tagged = {&iov, &client->desc,        1, client->server, 1,
				       0,    &client->contexts[1], 0};

	return check(client, fi_sendmsg(client->side.ep, &msg, FI_COMMIT_COMPLETE), -FI_EOPNOTSUPP,
		     "fi_sendmsg with a commit") ||
	       check(client, fi_tsendmsg(client->side.ep, &tagged, FI_COMMIT_COMPLETE),
		     -FI_EOPNOTSUPP, "fi_tsendmsg with a commit") ||
	       expect_none(client);
}

/* A message that RxM makes writes of: they are its own, and what was lost is none of theirs. */
static int run_rendezvous(struct client *client)
{
	const size_t len = 100000;
	ssize_t ret;

	for (int n = 1; n < 9; n += 4) {
		pattern_fill(client->buf, SIZE, (uint64_t) n, 0);
		if (write_to_lose(client, 0, n) || lose_connection(client) ||
		    ask(client, ASK_RECV, len, 0, NULL, 0, NULL))
			return -1;
		POST(client, ret,
		     fi_send(client->side.ep, client->buf, len, client->desc, client->server,
			     &client->contexts[n + 1]));
		if (check(client, ret, 0, "fi_send") || await(client, n + 1, FI_SEND))
			return -1;
		if (!is_proven(client) && check(client, commit(client, 0, 8, n + 2, 0),
						-FI_ECONNRESET, "a commit after a loss"))
			return -1;
		if (check(client, commit(client, 0, 8, n + 3, 0), 0, "a commit") ||
		    await(client, n + 3, WRITTEN))
			return -1;
	}
	return expect_none(client);
}

static int run_volatile(struct client *client)
{
	name_volatile(client);
	return check(client, writemsg(client, 0, 64, 1, commit_all ? 0 : FI_COMMIT_COMPLETE), 0,
		     "commit") ||
	       await(client, 1, WRITTEN) || expect_none(client);
}

/* What has arrived on a connection, and nobody has asked for, when it is closed. */
static int run_close_unread(struct client *client)
{
	const struct timespec arrival = {.tv_nsec = 200000000};

	if (connect_first(client))
		return -1;
	for (int n = 1; n < 31; n++) {
		if (check(client, sum(client, n, 0), 0, "fi_atomicmsg"))
			return -1;
	}
	nanosleep(&arrival, NULL);
	return 0;
}

static int run_fence_hint(struct client *client)
{
	struct fi_info *hints = make_hints(client->opts, &client->settings);
	struct fi_info *info = NULL;
	int ret;

	hints->caps |= FI_FENCE;
	ret = fi_getinfo(FI_VERSION(1, 17), client->opts->dst_addr, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (info)
		fi_freeinfo(info);
	return check(client, ret, -FI_ENODATA, "fi_getinfo with FI_FENCE");
}

#define MAP .av_type = FI_AV_MAP

/* The environment that a case is for. */
enum when {
	ALWAYS,     /* with an agent */
	COMMIT_ALL, /* with FI_PMEMVERBS_COMMIT=all only */
	NO_AGENT,   /* and with FI_PMEMVERBS_AGENT=off, where no other can be run */
};

static const struct test {
	const char *name;
	int (*run)(struct client *client);
	struct settings settings;
	enum when when;
} tests[] = {
	{"rdm_offer", run_offer, {MAP}, ALWAYS},
	{"rdm_fence_hint", run_fence_hint, {MAP}, ALWAYS},
	{"rdm_data", run_data, {MAP}, ALWAYS},
	{"rdm_data_table", run_data, {.av_type = FI_AV_TABLE}, ALWAYS},
	{"rdm_data_sread", run_data, {MAP, .waits = true}, ALWAYS},
	{"rdm_burst", run_burst, {MAP}, ALWAYS},
	{"rdm_commit_waits", run_waits, {MAP}, ALWAYS},
	{"rdm_commit_waits_sread", run_waits, {MAP, .waits = true}, ALWAYS},
	{"rdm_op_flags", run_calls, {MAP, .op_flags = FI_COMMIT_COMPLETE}, ALWAYS},
	{"rdm_no_flags", run_calls, {MAP}, COMMIT_ALL},
	{"rdm_notice", run_notice, {MAP}, ALWAYS},
	{"rdm_inject", run_inject, {MAP, .selective = true}, ALWAYS},
	{"rdm_fence", run_fence, {MAP}, ALWAYS},
	{"rdm_counter", run_counter, {MAP, .counter = true, .selective = true}, ALWAYS},
	{"rdm_atomic", run_atomic, {MAP}, ALWAYS},
	{"rdm_atomics", run_atomics, {MAP}, ALWAYS},
	{"rdm_atomics_sread", run_atomics, {MAP, .waits = true}, ALWAYS},
	{"rdm_atomics_selective", run_atomics_selective, {MAP, .selective = true}, ALWAYS},
	{"rdm_no_agent", run_no_agent, {MAP}, NO_AGENT},
	{"rdm_close_unread", run_close_unread, {MAP}, ALWAYS},
	{"rdm_loss", run_loss, {MAP}, ALWAYS},
	{"rdm_atomic_loss", run_atomic_loss, {MAP}, COMMIT_ALL},
	{"rdm_restart", run_restart, {MAP}, ALWAYS},
	{"rdm_messages", run_messages, {MAP}, ALWAYS},
	{"rdm_rendezvous", run_rendezvous, {MAP}, ALWAYS},
	{"rdm_volatile", run_volatile, {MAP}, ALWAYS},
};

#define NUM_TESTS (sizeof(tests) / sizeof(tests[0]))

static bool fits(const struct test *test)
{
	if (no_agent)
		return test->when == NO_AGENT && commit_all;
	return test->when == ALWAYS || (test->when == COMMIT_ALL && commit_all);
}

static int run_one(struct client *client, const struct test *test)
{
	int ret;

	client->reason[0] = '\0';
	ret = open_client(client, &test->settings) || test->run(client) ? -1 : 0;
	if (close_client(client))
		ret = -1;
	printf("%s %s%s%s\n", ret ? "not ok" : "ok", test->name, ret ? " - " : "",
	       ret ? client->reason : "");
	fflush(stdout);
	return ret;
}

static int run_client(const struct options *opts)
{
	struct client client = {.opts = opts};
	int failed = 0, run = 0;

	client.buf = calloc(1, SIZE);
	client.control = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (!client.buf || client.control < 0)
		return -1;
	for (size_t i = 0; i < NUM_TESTS; i++) {
		if (!options_select(opts, tests[i].name) || !fits(&tests[i]))
			continue;
		run++;
		if (run_one(&client, &tests[i]))
			failed++;
	}
	printf("%d cases, %d failed\n", run, failed);
	ask(&client, ASK_BYE, failed, 0, NULL, 0, NULL);
	close(client.control);
	free(client.buf);
	return failed || !run ? -1 : 0;
}

static int run_server(const struct options *opts)
{
	int fd = control_accept(opts->src_addr, opts->src_port);
	int ret;

	if (fd < 0)
		return -1;
	ret = serve(opts, fd);
	close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	struct options opts = {0};
	const char *setting = getenv("FI_PMEMVERBS_COMMIT"), *agent = getenv("FI_PMEMVERBS_AGENT");
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.help ? EXIT_SUCCESS : EXIT_FAILURE;
	if (opts.nops == 1 && !strcmp(opts.ops[0], "list")) {
		for (size_t i = 0; i < NUM_TESTS; i++)
			printf("%s\n", tests[i].name);
		return EXIT_SUCCESS;
	}
	commit_all = setting && !strcmp(setting, "all");
	no_agent = agent && !strcmp(agent, "off");
	/* verbs' registration cache would grant peers every access to every region. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
	/* Of long messages RxM is to make writes. */
	setenv("FI_OFI_RXM_SAR_LIMIT", "1", 1);
	setenv("FI_OFI_RXM_USE_RNDV_WRITE", "1", 1);
	/* RxM is to close a connection when the address is forgotten. */
	setenv("FI_AV_REMOVE_CLEANUP", "1", 1);
	signal(SIGPIPE, SIG_IGN);
	ret = opts.dst_addr ? run_client(&opts) : run_server(&opts);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
