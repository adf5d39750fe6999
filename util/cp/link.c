/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c -- a connection with messages; link.h says what for */
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ENTRIES 16

static int fail(struct cp_link *link, const char *call, ssize_t ret)
{
	return explain_call(&link->error, call, ret);
}

int cp_prepare(struct node *node, const char *host, const char *port, int timeout_ms,
	       struct connection_error *error)
{
	const struct node_attr attr = {
		.host = host,
		.port = port,
		.caps = FI_MSG | FI_RMA | FI_PMEM | FI_FENCE,
		.timeout_ms = (unsigned long) timeout_ms,
		.error = error,
	};

	return host ? node_prepare(node, &attr) : node_listen(node, &attr);
}

static int post_receive(struct cp_link *link, unsigned int i)
{
	ssize_t ret;

	link->received[i].done = false;
	ret = fi_recv(link->conn.ep, &link->memory[1 + i], sizeof(struct cp_message),
		      link->region.desc, FI_ADDR_UNSPEC, &link->received[i]);
	return ret ? fail(link, "fi_recv", ret) : 0;
}

/* get_memory -- all that this side sends, receives, writes from and reads into */
static int get_memory(struct cp_link *link, size_t data_len)
{
	const size_t messages = (1 + CP_RECEIVES) * sizeof(struct cp_message);

	link->memory_len = messages + data_len;
	link->memory = mmap(NULL, link->memory_len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->memory == MAP_FAILED) {
		link->memory = NULL;
		return fail(link, "memory for data", -FI_ENOMEM);
	}
	link->data = (char *) link->memory + messages;
	return region_register(&link->node, &link->region, link->memory, link->memory_len,
			       FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0);
}

int cp_link_open(struct cp_link *link, const struct node *parent, struct fi_info *info,
		 size_t data_len)
{
	/* Only what asks for it has a completion: most writes don't. */
	const struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA, .wait = FI_WAIT_UNSPEC, .selective = true};
	int ret;

	*link = (struct cp_link){.sent = {.done = true}};
	ret = node_branch(&link->node, parent, info, true, &link->error);
	if (!ret)
		ret = conn_create(&link->conn, &link->node, info, &attr);
	if (!ret)
		ret = get_memory(link, data_len);
	/* Before there is a connection: no message finds no receive. */
	for (unsigned int i = 0; !ret && i < CP_RECEIVES; i++)
		ret = post_receive(link, i);
	return ret;
}

int cp_link_greeted(struct cp_link *link)
{
	struct cm_event event;
	int ret = conn_await(&link->conn, &event);

	if (ret)
		return ret;
	switch (cp_peer_of(event.entry.data, event.len)) {
	case CP_PEER_OURS:
		return 0;
	case CP_PEER_OTHER:
		return fail(link, "this fi_pmem_target is of another version", -EPROTO);
	default:
		return fail(link, "this is no fi_pmem_target", -EPROTO);
	}
}

int cp_link_connect(struct cp_link *link)
{
	int ret =
		fi_connect(link->conn.ep, link->node.info->dest_addr, &cp_hello, sizeof(cp_hello));

	return ret ? fail(link, "fi_connect", ret) : cp_link_greeted(link);
}

int cp_link_poll(struct cp_link *link, int timeout_ms)
{
	struct fi_cq_data_entry entries[ENTRIES];
	ssize_t ret = conn_poll(&link->conn, entries, ENTRIES, timeout_ms);

	for (ssize_t i = 0; i < ret; i++) {
		struct cp_op *op = entries[i].op_context;

		/* Nobody here sends immediate data; over tcp they have no context. */
		if (!op || (entries[i].flags & FI_REMOTE_CQ_DATA))
			return fail(link, "the peer's message", -EPROTO);
		op->len = entries[i].len;
		op->done = true;
	}
	return ret < 0 ? (int) ret : 0;
}

/* wait_for -- until an operation is done */
static int wait_for(struct cp_link *link, const struct cp_op *op, int64_t end)
{
	int ret = 0;

	while (!ret && !op->done) {
		int64_t left = end - connection_now_ms();

		if (left <= 0)
			return fail(link, "the peer does not answer", -FI_ETIMEDOUT);
		ret = cp_link_poll(link, left < 500 ? (int) left : 500);
	}
	return ret;
}

int cp_link_send(struct cp_link *link, const struct cp_message *message, int timeout_ms)
{
	struct iovec iov = {.iov_base = link->memory, .iov_len = sizeof(*message)};
	struct fi_msg msg = {.msg_iov = &iov,
			     .desc = &link->region.desc,
			     .iov_count = 1,
			     .context = &link->sent};
	int64_t end = connection_now_ms() + timeout_ms;
	ssize_t ret = wait_for(link, &link->sent, end);

	if (ret)
		return (int) ret;
	*link->memory = *message;
	cp_message_swap(link->memory);
	link->sent.done = false;
	while ((ret = fi_sendmsg(link->conn.ep, &msg, FI_COMPLETION)) == -FI_EAGAIN) {
		ret = cp_link_poll(link, 1);
		if (ret)
			return (int) ret;
		if (connection_now_ms() > end)
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
	conn_end(&link->conn);
	region_close(&link->region);
	conn_close(&link->conn);
	node_close(&link->node);
	if (link->memory)
		munmap(link->memory, link->memory_len);
	*link = (struct cp_link){0};
}
