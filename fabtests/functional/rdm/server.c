/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.c -- the side that owns the memory, and does what the client says
 */
#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rdm_functional.h"
#include "../../common/memory_direct.h"

/* Volatile memory, where OpenSHMEM libraries let peers write, too: the program's data. */
static char scratch[SIZE] = {1};

struct server {
	const struct options *opts;
	char node[NI_MAXHOST];
	enum library library; /* as which it was opened */
	struct side side;
	struct memory memory;
	struct memory other; /* for a restart ... */
	char other_path[PATH_MAX];
	bool has_other_file;
	struct fid_mr *mr;
	struct fid_mr *scratch_mr;
	struct notice notices[MAX_NOTICES];
	unsigned int num_notices;
};

/* progress -- RxM's targets move nothing unless they look */
static int progress(struct server *server)
{
	struct fid_cq *target_cq = server->side.target_cq;
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;
	ssize_t ret;

	/* A library's endpoint for its peers, to which nothing is reported. */
	if (target_cq && (ret = fi_cq_read(target_cq, &entry, 1)) != -FI_EAGAIN)
		return report("fi_cq_read of the target's queue", ret < 0 ? ret : -FI_EOTHER);
	while ((ret = fi_cq_read(server->side.cq, &entry, 1)) == 1) {
		struct notice *notice = &server->notices[server->num_notices];

		if (!(entry.flags & FI_REMOTE_CQ_DATA) || server->num_notices == MAX_NOTICES)
			continue;
		notice->data = entry.data;
		memcpy(&notice->seen, server->memory.base, sizeof(notice->seen));
		server->num_notices++;
		rest(true);
	}
	if (ret == -FI_EAGAIN) {
		rest(false);
		return 0;
	}
	if (ret != -FI_EAVAIL)
		return report("fi_cq_read", ret);
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
	struct fid_ep *ep = side->target_ep ? side->target_ep : side->ep;
	uint64_t access = FI_REMOTE_WRITE | FI_REMOTE_READ;
	int ret;

	if (server->library == OPENFAM)
		access |= FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	/* Memory with a file behind it, which is a new one after a restart. */
	if (!server->memory.base &&
	    memory_open(&server->memory, side->domain,
			server->other.base ? server->other_path : server->opts->memory, SIZE))
		return -FI_ENOMEM;
	ret = side_register(side, server->memory.base, SIZE, access, commit_all ? 0 : FI_RMA_PMEM,
			    &server->mr);
	if (!ret)
		ret = side_register(side, scratch, SIZE, FI_REMOTE_WRITE, 0, &server->scratch_mr);
	if (ret)
		return ret;
	offer->key = fi_mr_key(server->mr);
	offer->addr = virt_addr ? (uintptr_t) server->memory.base : 0;
	offer->volatile_key = fi_mr_key(server->scratch_mr);
	offer->volatile_addr = virt_addr ? (uintptr_t) scratch : 0;
	offer->name_len = sizeof(offer->name);
	DO(fi_getname(&ep->fid, offer->name, &offer->name_len));
	return 0;
}

static int open_as(struct server *server, enum library library, struct offer *offer)
{
	const struct settings settings = {.library = library, .av_type = FI_AV_MAP};
	int ret = open_side(&server->side, server->opts, &settings, server->node, FI_SOURCE);

	server->library = library;
	return ret ? ret : register_memory(server, offer);
}

static int close_server(struct server *server)
{
	int ret = CLOSE(server->mr) | CLOSE(server->scratch_mr) | close_side(&server->side);

	server->mr = server->scratch_mr = NULL;
	return ret;
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

/*
 * restart -- as a program does that is started again under the same address with another file, and
 * knows nothing of before.  The core counts its keys from the start.
 */
static int restart(struct server *server, struct offer *offer)
{
	struct memory memory = server->memory;
	const struct offer before = *offer;
	int ret = close_server(server);

	server->memory = server->other;
	server->other = memory;
	if (!server->memory.base && !memory_direct_path(server->opts->memory))
		ret |= memory_map(&server->memory, server->opts->memory ? server->other_path : NULL,
				  SIZE);
	if (ret)
		return -1;
	if (server->memory.base)
		memset(server->memory.base, 0, SIZE);
	ret = open_as(server, server->library, offer);
	memcpy(offer->name, before.name, sizeof(offer->name));
	offer->name_len = before.name_len;
	return ret ? ret : reopen(server, offer);
}

static int obey(struct server *server, int fd, const struct control_msg *ask, struct offer *offer)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	int ret;

	switch (ask->command) {
	case ASK_NAME:
		if (ask->arg[0] != server->library &&
		    (close_server(server) || open_as(server, (enum library) ask->arg[0], offer)))
			return -1;
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
	case ASK_AWAY:
		ret = answer(fd, NULL, 0);
		while (!ret && !control_waits(fd, 1000))
			;
		return ret;
	case ASK_RECV:
		ret = (int) fi_recv(server->side.ep, server->memory.base, ask->arg[0],
				    fi_mr_desc(server->mr), FI_ADDR_UNSPEC, NULL);
		return ret ? report("fi_recv", ret) : answer(fd, NULL, 0);
	case ASK_RESTART:
		return restart(server, offer) ? -1 : answer(fd, offer, sizeof(*offer));
	case ASK_REOPEN:
		return reopen(server, offer) ? -1 : answer(fd, NULL, 0);
	default:
		return -1;
	}
}

/* name_other -- a file beside the first one; a device is used again, and emptied */
static int name_other(struct server *server)
{
	const char *path = server->opts->memory;
	struct stat st;

	if (!path)
		return 0;
	if (!memory_direct_path(path) && stat(path, &st))
		return -1;
	server->has_other_file = memory_direct_path(path) || S_ISREG(st.st_mode);
	snprintf(server->other_path, sizeof(server->other_path), "%s%s", path,
		 server->has_other_file ? ".again" : "");
	return 0;
}

int serve(const struct options *opts, int fd)
{
	static struct server server;
	struct offer offer = {0};
	struct control_msg ask;
	const char *direct;
	int ret;

	server.opts = opts;
	if (control_address(fd, server.node, sizeof(server.node)) ||
	    (!memory_direct_path(opts->memory) && memory_map(&server.memory, opts->memory, SIZE)) ||
	    name_other(&server))
		return -1;
	ret = open_as(&server, NO_LIBRARY, &offer);
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
	ret |= close_server(&server);
	memory_unmap(&server.memory);
	if (server.other.base)
		memory_unmap(&server.other);
	direct = memory_direct_path(server.other_path);
	if (server.has_other_file)
		unlink(direct ? direct : server.other_path);
	return ret;
}
