/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c -- a connection by libfabric; link.h says what for */
#include "link.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#define ENTRIES 16

int64_t cp_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static int fail(struct cp_link *link, const char *call, ssize_t ret)
{
	snprintf(link->error, sizeof(link->error), "%s: %s", call, fi_strerror((int) -ret));
	return (int) ret;
}

/* explain -- fi_getinfo says "No data available" of everything: what to look at */
static void explain(const char *node, int ret, char *error, size_t len)
{
	const char *path = getenv("FI_PROVIDER_PATH");
	struct addrinfo *found;
	int unknown = node ? getaddrinfo(node, NULL, NULL, &found) : 0;

	if (unknown) {
		snprintf(error, len, "there is no host '%s': %s", node, gai_strerror(unknown));
		return;
	}
	if (node)
		freeaddrinfo(found);
	snprintf(error, len,
		 "fi_getinfo: %s\nIs the provider found? fi_info -l has to list pmemverbs. "
		 "FI_PROVIDER_PATH names the\ndirectory of libpmemverbs-fi.so; it is %s.\n"
		 "If it is found, FI_LOG_LEVEL=info says why it can't be used.",
		 fi_strerror(-ret), path ? path : "not set");
}

int cp_find_provider(const char *node, const char *port, struct fi_info **info, char *error,
		     size_t len)
{
	struct fi_info *hints = fi_allocinfo();
	int ret = -FI_ENOMEM;

	if (hints) {
		/* By name: other providers offer FI_PMEM, too, and make nothing durable. */
		hints->fabric_attr->prov_name = strdup("pmemverbs");
		hints->caps = FI_MSG | FI_RMA | FI_PMEM | FI_FENCE;
		hints->mode = FI_RX_CQ_DATA;
		hints->ep_attr->type = FI_EP_MSG;
		hints->domain_attr->mr_mode =
			FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
		ret = fi_getinfo(FI_VERSION(1, 17), node, port, node ? 0 : FI_SOURCE, hints, info);
		fi_freeinfo(hints);
	}
	if (ret)
		explain(node, ret, error, len);
	return ret;
}

static int post_receive(struct cp_link *link, unsigned int i)
{
	ssize_t ret;

	link->received[i].done = false;
	ret = fi_recv(link->ep, &link->memory[1 + i], sizeof(struct cp_message),
		      fi_mr_desc(link->mr), FI_ADDR_UNSPEC, &link->received[i]);
	return ret ? fail(link, "fi_recv", ret) : 0;
}

/* get_memory -- all that this side sends, receives, writes from and reads into */
static int get_memory(struct cp_link *link, size_t data_len)
{
	const size_t messages = (1 + CP_RECEIVES) * sizeof(struct cp_message);
	int ret;

	link->memory_len = messages + data_len;
	link->memory = mmap(NULL, link->memory_len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->memory == MAP_FAILED) {
		link->memory = NULL;
		return fail(link, "memory for data", -FI_ENOMEM);
	}
	link->data = (char *) link->memory + messages;
	ret = fi_mr_reg(link->domain, link->memory, link->memory_len,
			FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0, 0, &link->mr, NULL);
	return ret ? fail(link, "fi_mr_reg", ret) : 0;
}

static int open_endpoint(struct cp_link *link, struct fid_fabric *fabric, struct fi_info *info)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	/* Room for everything that the endpoint or its peer can have under way. */
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG,
				     .wait_obj = FI_WAIT_UNSPEC,
				     .size = info->tx_attr->size + info->rx_attr->size};
	int ret = fi_domain(fabric, info, &link->domain, NULL);

	if (ret)
		return fail(link, "fi_domain", ret);
	ret = fi_eq_open(fabric, &eq_attr, &link->eq, NULL);
	if (!ret)
		ret = fi_cq_open(link->domain, &cq_attr, &link->cq, NULL);
	if (ret)
		return fail(link, "opening a queue", ret);
	ret = fi_endpoint(link->domain, info, &link->ep, NULL);
	if (ret)
		return fail(link, "fi_endpoint", ret);
	ret = fi_ep_bind(link->ep, &link->eq->fid, 0);
	/* Only what asks for it has a completion: most writes don't. */
	if (!ret)
		ret = fi_ep_bind(link->ep, &link->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
	if (!ret)
		ret = fi_ep_bind(link->ep, &link->cq->fid, FI_RECV);
	if (!ret)
		ret = fi_enable(link->ep);
	return ret ? fail(link, "fi_enable", ret) : 0;
}

int cp_link_open(struct cp_link *link, struct fid_fabric *fabric, struct fi_info *info,
		 size_t data_len)
{
	int ret;

	*link = (struct cp_link){.sent = {.done = true}};
	ret = open_endpoint(link, fabric, info);
	if (!ret)
		ret = get_memory(link, data_len);
	/* Before there is a connection: no message finds no receive. */
	for (unsigned int i = 0; !ret && i < CP_RECEIVES; i++)
		ret = post_receive(link, i);
	return ret;
}

int cp_link_connected(struct cp_link *link, bool greeted, int timeout_ms)
{
	struct fi_eq_err_entry err = {0};
	struct cp_event event;
	ssize_t ret =
		fi_eq_sread(link->eq, &event.type, event.room, sizeof(event.room), timeout_ms, 0);

	if (ret == -FI_EAVAIL && fi_eq_readerr(link->eq, &err, 0) > 0) {
		/* tcp says FI_EINPROGRESS of a peer that goes away instead of accepting. */
		ret = err.err == FI_EINPROGRESS ? -FI_ECONNREFUSED : -err.err;
		if (err.err_data_size && err.err_data_size <= CP_REASON) {
			snprintf(link->error, sizeof(link->error), "the target refuses: %.*s",
				 (int) err.err_data_size, (const char *) err.err_data);
			return (int) ret;
		}
		return fail(link, "connection", ret);
	}
	if (ret == -FI_EAGAIN)
		ret = -FI_ETIMEDOUT;
	if (ret < 0 || event.type != FI_CONNECTED)
		return fail(link, "connection", ret < 0 ? ret : -FI_ECONNABORTED);
	ret -= (ssize_t) sizeof(event.cm);
	if (greeted &&
	    (ret < (ssize_t) CP_HELLO_LEN || memcmp(event.cm.data, CP_HELLO, CP_HELLO_LEN)))
		return fail(link, "this is no fi_pmem_target", -EPROTO);
	return 0;
}

/* look_for_end -- once the end of a connection has been read, what was under way fails */
static int look_for_end(struct cp_link *link)
{
	struct fi_eq_err_entry err = {0};
	struct cp_event event;
	ssize_t ret = fi_eq_read(link->eq, &event.type, event.room, sizeof(event.room), 0);

	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		fi_eq_readerr(link->eq, &err, 0);
	/* What has arrived before is in the queue: read that first. */
	if (!link->lost) {
		link->lost = true;
		return 0;
	}
	return fail(link, "connection", -FI_ENOTCONN);
}

int cp_link_poll(struct cp_link *link, int timeout_ms)
{
	struct fi_cq_msg_entry entries[ENTRIES];
	struct fi_cq_err_entry err = {0};
	ssize_t ret;

	if (timeout_ms && !link->lost)
		ret = fi_cq_sread(link->cq, entries, ENTRIES, NULL, timeout_ms);
	else
		ret = fi_cq_read(link->cq, entries, ENTRIES);
	if (ret == -FI_EAVAIL && fi_cq_readerr(link->cq, &err, 0) > 0) {
		/* What was under way when the connection was lost is cancelled. */
		return err.err == FI_ECANCELED ? fail(link, "connection", -FI_ENOTCONN)
					       : fail(link, "an operation failed", -err.err);
	}
	if (ret == -FI_EAGAIN || ret == -FI_EINTR) {
		if (link->lost)
			return fail(link, "connection", -FI_ENOTCONN);
		return look_for_end(link);
	}
	if (ret < 0)
		return fail(link, "fi_cq_sread", ret);
	for (ssize_t i = 0; i < ret; i++) {
		struct cp_op *op = entries[i].op_context;

		/* Nobody here sends immediate data; over tcp they have no context. */
		if (!op || (entries[i].flags & FI_REMOTE_CQ_DATA))
			return fail(link, "the peer's message", -EPROTO);
		op->len = entries[i].len;
		op->done = true;
	}
	return 0;
}

/* wait_for -- until an operation is done */
static int wait_for(struct cp_link *link, const struct cp_op *op, int64_t end)
{
	int ret = 0;

	while (!ret && !op->done) {
		int64_t left = end - cp_now_ms();

		if (left <= 0)
			return fail(link, "the peer does not answer", -FI_ETIMEDOUT);
		ret = cp_link_poll(link, left < 500 ? (int) left : 500);
	}
	return ret;
}

int cp_link_send(struct cp_link *link, const struct cp_message *message, int timeout_ms)
{
	struct iovec iov = {.iov_base = link->memory, .iov_len = sizeof(*message)};
	void *desc = fi_mr_desc(link->mr);
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .context = &link->sent};
	int64_t end = cp_now_ms() + timeout_ms;
	ssize_t ret = wait_for(link, &link->sent, end);

	if (ret)
		return (int) ret;
	*link->memory = *message;
	cp_message_swap(link->memory);
	link->sent.done = false;
	while ((ret = fi_sendmsg(link->ep, &msg, FI_COMPLETION)) == -FI_EAGAIN) {
		ret = cp_link_poll(link, 1);
		if (ret)
			return (int) ret;
		if (cp_now_ms() > end)
			return fail(link, "the peer does not answer", -FI_ETIMEDOUT);
	}
	return ret ? fail(link, "fi_sendmsg", ret) : 0;
}

int cp_link_receive(struct cp_link *link, struct cp_message *message, int timeout_ms)
{
	struct cp_op *op = &link->received[link->next];
	int ret = op->done ? 0 : cp_link_poll(link, timeout_ms);

	if (ret || !op->done)
		return ret;
	if (op->len != sizeof(*message))
		return fail(link, "the peer's message", -EPROTO);
	*message = link->memory[1 + link->next];
	cp_message_swap(message);
	message->text[CP_TEXT - 1] = 0;
	ret = post_receive(link, link->next);
	link->next = (link->next + 1) % CP_RECEIVES;
	return ret ? ret : 1;
}

void cp_link_close(struct cp_link *link)
{
	struct fid *fids[] = {
		link->ep ? &link->ep->fid : NULL,         link->mr ? &link->mr->fid : NULL,
		link->cq ? &link->cq->fid : NULL,         link->eq ? &link->eq->fid : NULL,
		link->domain ? &link->domain->fid : NULL,
	};

	if (link->ep)
		fi_shutdown(link->ep, 0);
	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		if (fids[i])
			fi_close(fids[i]);
	}
	if (link->memory)
		munmap(link->memory, link->memory_len);
	*link = (struct cp_link){0};
}
