/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target.c -- the side that has the log
 *
 * It has a connection of its own for each strategy.  Where data arrive without calls (verbs)
 * it sleeps until it is told of something, so that it takes no processor from
 * the measurement; elsewhere it polls.  It also polls where it is this program that makes
 * the records durable, as the programs of the paper do.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "agent/flush.h"
#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"
#include "remotelog.h"
#include "../common/stats.h"

#define RECEIVES 64
#define SPINS 4096
#define SLEEP_MS 100

struct target {
	const struct options *opts;
	int control;
	struct node node;
	struct conn conn;
	struct memory memory;
	struct region region;
	enum fi_pmemverbs_domain domain;
	/* where messages and immediate data are received that do not go into the log at once */
	char *messages;
	struct region message_region;
	/* the strategy */
	struct remotelog_layout layout;
	enum remotelog_update update;
	enum remotelog_operation operation;
	uint64_t received; /* places that receives were posted for */
	uint64_t notices;  /* messages and immediate data that have come */
	uint64_t expected;
	char contexts[RECEIVES];
};

static bool is_pair(const struct target *target)
{
	return target->update != REMOTELOG_SINGLE;
}

static bool polls(const struct target *target)
{
	return !node_is_passive(&target->node) || target->operation == REMOTELOG_COPY;
}

static char *place(const struct target *target, uint64_t number)
{
	return (char *) target->memory.base + remotelog_offset(&target->layout, number);
}

/* post_receive -- the next one, of which i is the context: in order of the log's places */
static int post_receive(struct target *target, size_t i)
{
	size_t len = target->layout.size + REMOTELOG_TAIL_SIZE;
	bool log = target->operation == REMOTELOG_SEND;
	char *buf = log ? place(target, target->received + 1)
			: target->messages + i * remotelog_stride(&target->layout);
	ssize_t ret;

	if (log && target->received == target->layout.records)
		return 0;
	target->received++;
	ret = fi_recv(target->conn.ep, buf, len,
		      log ? target->region.desc : target->message_region.desc, 0,
		      &target->contexts[i]);
	return ret ? report("fi_recv", ret) : 0;
}

/* store -- durable and, with 8 bytes, whole or not at all; in order of the calls */
static int store(struct target *target, void *to, const void *from, size_t len)
{
	if (target->domain == FI_PMEMVERBS_DMP)
		pmv_flush->store(to, from, len);
	else
		memcpy(to, from, len);
	if (target->domain == FI_PMEMVERBS_PAGE)
		return pmv_flush->sync(to, len);
	pmv_flush->drain();
	return 0;
}

/* append -- what an agent of the application's own does: copy, make durable, answer */
static int append(struct target *target, const char *message)
{
	const char *tail = message + target->layout.size;
	uint64_t number = target->notices;
	int ret;

	if (number > target->layout.records) {
		fprintf(stderr, "more messages came than records were announced\n");
		return -FI_EINVAL;
	}
	ret = store(target, place(target, number), message, target->layout.size);
	if (!ret && is_pair(target))
		ret = store(target, target->memory.base, tail, REMOTELOG_TAIL_SIZE);
	if (ret)
		return report("making a record durable", ret);
	ret = (int) fi_inject(target->conn.ep, &number, sizeof(number), 0);
	return ret ? report("fi_inject", ret) : 0;
}

/* take -- one completion */
static int take(struct target *target, const struct fi_cq_data_entry *entry)
{
	const char *context = entry->op_context;
	size_t i;
	int ret = 0;

	target->notices++;
	/* The agent's notices use no receive. */
	if (context < target->contexts || context >= target->contexts + RECEIVES)
		return 0;
	i = (size_t) (context - target->contexts);
	if (target->operation == REMOTELOG_COPY)
		ret = append(target, target->messages + i * remotelog_stride(&target->layout));
	return ret ? ret : post_receive(target, i);
}

static int reap(struct target *target)
{
	struct fi_cq_data_entry entry;
	ssize_t ret = 0;

	if (!target->conn.ep)
		return 0;
	while (!ret && (ret = fi_cq_read(target->conn.rxcq, &entry, 1)) == 1)
		ret = take(target, &entry);
	if (ret == -FI_EAVAIL)
		return cq_report(target->conn.rxcq);
	return ret == -FI_EAGAIN ? 0 : (int) ret;
}

/* open_memory -- the log and the receives, of the size that the first strategy needs */
static int open_memory(struct target *target)
{
	size_t size = RECEIVES * remotelog_stride(&target->layout);
	int ret;

	if (target->region.mr)
		return 0;
	target->messages = calloc(1, size);
	if (!target->messages ||
	    memory_map(&target->memory, target->opts->memory, remotelog_len(&target->layout)))
		return report("the log's memory", -FI_ENOMEM);
	ret = region_register(&target->node, &target->region, target->memory.base,
			      target->memory.len, FI_REMOTE_WRITE | FI_RECV, FI_RMA_PMEM);
	return ret ? ret
		   : region_register(&target->node, &target->message_region, target->messages, size,
				     FI_RECV, 0);
}

/* find_domain -- what survives, as the initiator sees it */
static int find_domain(struct target *target)
{
	struct fi_pmemverbs_region region;
	struct fi_pmemverbs_ops *ops;
	int ret = fi_open_ops(&target->node.domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL);

	if (!ret)
		ret = ops->query_key(target->conn.ep, target->region.key, &region);
	if (ret)
		return report("the query of the key", ret);
	target->domain = region.domain;
	return 0;
}

static int create_conn(struct target *target, struct fi_info *info)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait = polls(target) ? FI_WAIT_NONE : FI_WAIT_FD,
		.selective = true,
	};
	int ret = conn_create(&target->conn, &target->node, info, &attr);

	if (!ret)
		ret = find_domain(target);
	if (!ret && target->operation == REMOTELOG_SEND) {
		ret = fi_setopt(&target->conn.ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
				&target->region.mr, sizeof(target->region.mr));
		if (ret)
			return report("fi_setopt", ret);
	}
	for (size_t i = 0; !ret && i < RECEIVES; i++)
		ret = post_receive(target, i);
	return ret;
}

static int accept_initiator(struct target *target)
{
	struct cm_event event;
	int ret = conn_request(&target->node, &event);

	if (ret)
		return ret;
	ret = open_memory(target);
	if (!ret) {
		memset(target->memory.base, 0, remotelog_len(&target->layout));
		ret = create_conn(target, event.entry.info);
	}
	if (ret)
		node_reject(&target->node, event.entry.info, NULL);
	else
		fi_freeinfo(event.entry.info);
	return ret ? ret : conn_accept(&target->conn, NULL, 0);
}

static int begin(struct target *target, struct control_msg *msg)
{
	struct remotelog_layout layout = {.records = msg->arg[0], .size = msg->arg[1]};
	int ret;

	if (!remotelog_is_sane(&layout) || msg->arg[2] >= REMOTELOG_UPDATES ||
	    msg->arg[3] >= REMOTELOG_OPERATIONS || target->conn.ep ||
	    (target->region.mr &&
	     (layout.size != target->layout.size || layout.records != target->layout.records)))
		return report("the initiator's request", -FI_EINVAL);
	target->layout = layout;
	target->update = (enum remotelog_update) msg->arg[2];
	target->operation = (enum remotelog_operation) msg->arg[3];
	target->expected = msg->arg[4];
	target->received = target->notices = 0;
	ret = accept_initiator(target);
	msg->arg[0] = target->region.addr;
	msg->arg[1] = target->region.key;
	return ret;
}

/* end -- notices of what is durable may come behind the initiator's completion */
static int end(struct target *target, struct control_msg *msg)
{
	uint64_t deadline = deadline_in(target->opts->timeout);
	bool tails = target->operation == REMOTELOG_SEND;
	int ret = target->conn.ep ? 0 : -FI_EINVAL;

	while (!ret && target->notices < target->expected && now_ns() < deadline)
		ret = reap(target);
	if (ret)
		return ret;
	msg->arg[0] = remotelog_scan(target->memory.base, &target->layout, tails, &msg->arg[1]);
	msg->arg[2] = target->notices;
	fi_shutdown(target->conn.ep, 0);
	conn_close(&target->conn);
	return 0;
}

static int execute(struct target *target, struct control_msg *msg)
{
	switch (msg->command) {
	case REMOTELOG_BEGIN:
		return begin(target, msg);
	case REMOTELOG_END:
		return end(target, msg);
	case REMOTELOG_BYE:
		return 0;
	default:
		return report("a command of unknown kind", -FI_ENOSYS);
	}
}

static int serve_command(struct target *target, bool *bye)
{
	struct control_msg msg;

	if (control_receive(target->control, &msg, NULL, 0, target->opts->timeout)) {
		fprintf(stderr, "the initiator has gone\n");
		return -FI_ECONNRESET;
	}
	*bye = msg.command == REMOTELOG_BYE;
	msg.status = execute(target, &msg);
	msg.len = 0;
	if (control_send(target->control, &msg, NULL))
		return -FI_ECONNRESET;
	return msg.status;
}

/* sleep_until_needed -- until there is a completion, or a command; true: a command */
static bool sleep_until_needed(struct target *target)
{
	struct pollfd pfds[2] = {{.fd = target->control, .events = POLLIN}, {.events = POLLIN}};
	struct fid *fid = target->conn.ep ? &target->conn.rxcq->fid : NULL;

	if (!fid)
		return control_waits(target->control, SLEEP_MS);
	if (!fi_control(fid, FI_GETWAIT, &pfds[1].fd) &&
	    !fi_trywait(target->node.fabric, &fid, 1) && poll(pfds, 2, SLEEP_MS) < 0)
		return false;
	return pfds[0].revents || control_waits(target->control, 0);
}

static bool spin(struct target *target, int *ret)
{
	for (int i = 0; !*ret && i < SPINS; i++)
		*ret = reap(target);
	return control_waits(target->control, 0);
}

static int serve(struct target *target)
{
	bool bye = false, command;
	int ret = 0;

	while (!ret && !bye) {
		ret = reap(target);
		command = target->conn.ep && polls(target) ? spin(target, &ret)
							   : sleep_until_needed(target);
		if (!ret && command)
			ret = serve_command(target, &bye);
	}
	return ret;
}

static int listen_for_one(struct target *target)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM,
		.threading = FI_THREAD_DOMAIN,
		.port = "0",
	};
	struct control_msg hello = {0};
	int ret = fabric_listen(&target->node, target->opts, &attr);

	hello.status = ret;
	if (!ret)
		hello.arg[0] = node_port(&target->node);
	if (control_send(target->control, &hello, NULL))
		return -FI_ECONNRESET;
	return ret;
}

/* accept_control -- whoever is started from afar must not wait for ever */
static int accept_control(const struct options *opts)
{
	int listener = control_listen(opts->src_addr, opts->src_port);
	int fd = -1;

	if (listener < 0)
		return -1;
	if (control_waits(listener, (int) opts->timeout * 1000))
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		fprintf(stderr, "no initiator has come\n");
	close(listener);
	return fd;
}

int remotelog_serve(const struct options *opts)
{
	struct target target = {.opts = opts};
	int ret;

	if (!provider_is_there(NULL, opts->provider))
		return -FI_ENODATA;
	ret = pmv_flush_init();
	if (ret)
		return report("libpmem2's instructions for this processor", ret);
	target.control = accept_control(opts);
	if (target.control < 0)
		return -FI_EOTHER;
	ret = listen_for_one(&target);
	if (!ret)
		ret = serve(&target);
	conn_close(&target.conn);
	region_close(&target.region);
	region_close(&target.message_region);
	node_close(&target.node);
	memory_unmap(&target.memory);
	free(target.messages);
	close(target.control);
	return ret;
}
