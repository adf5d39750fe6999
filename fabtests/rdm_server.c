/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_server.c -- the side that owns the memory, and does what the client says
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdm_functional.h"

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
	ret = side_register(side, server->memory.base, SIZE, FI_REMOTE_WRITE | FI_REMOTE_READ,
			    commit_all ? 0 : FI_RMA_PMEM, &server->mr);
	if (!ret)
		ret = side_register(side, server->scratch, SIZE, FI_REMOTE_WRITE, 0,
				    &server->scratch_mr);
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
		return control_stop(fd);
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

int serve(const struct options *opts, int fd)
{
	struct settings settings = {.av_type = FI_AV_MAP};
	struct server server = {0};
	struct offer offer = {0};
	struct control_msg ask;
	char node[NI_MAXHOST];
	int ret;

	if (control_address(fd, node, sizeof(node)) ||
	    memory_map(&server.memory, opts->memory, SIZE))
		return -1;
	ret = open_side(&server.side, opts, &settings, node, FI_SOURCE);
	if (!ret)
		ret = register_memory(&server, &offer);
	while (!ret) {
		ret = progress(&server);
		if (ret || !control_waits(fd, 0))
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
