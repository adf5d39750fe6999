/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target.c -- the target of the functional program: does what it is told over
 * its control connection, and tells what it sees
 *
 * Between commands it reads its completion queues, so that providers which need
 * that make progress, keeps its receives posted, and writes down what arrives.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "../common/common.h"
#include "../common/control.h"
#include "../common/memory.h"
#include "target.h"
#include "../common/stats.h"

static bool expectation_met(struct target *target, uint64_t data)
{
	const struct expectation *e = &target->armed;
	const struct region *region = &target->regions[e->region];
	const char *base = region->buf;
	size_t offset = data * e->stride;

	if (e->len > region->len || offset > region->len - e->len)
		return false;
	return pattern_check(base + offset, e->len, e->seed + data, offset) == e->len;
}

static ssize_t post_receive(struct tconn *tc, unsigned int i)
{
	return fi_recv(tc->srx ? tc->srx : tc->conn.ep, tc->messages[i], MESSAGE,
		       tc->message_region.desc, 0, &tc->receives[i]);
}

/* receive_index -- which receive a completion has used; -1: none */
static int receive_index(const struct tconn *tc, const void *context)
{
	const struct receive *receive = context;

	if (receive < tc->receives || receive >= tc->receives + RECEIVES)
		return -1;
	return (int) (receive - tc->receives);
}

static void log_completion(struct target *target, struct tconn *tc,
			   const struct fi_cq_data_entry *entry)
{
	struct log_entry *log = &tc->log[tc->logged % LOG];
	int i = receive_index(tc, entry->op_context);

	*log = (struct log_entry){.flags = entry->flags, .data = entry->data, .len = entry->len};
	/* Events have no data: the n-th one is of the n-th write. */
	if (entry->flags & FI_REMOTE_WRITE && tc->cntr)
		log->visible = target->is_armed && expectation_met(target, tc->events++);
	else if (entry->flags & FI_REMOTE_CQ_DATA)
		log->visible = target->is_armed && expectation_met(target, entry->data);
	else if (i >= 0)
		memcpy(log->head, tc->messages[i], sizeof(log->head));
	tc->logged++;
	if (i >= 0)
		post_receive(tc, i);
}

static void log_error(struct tconn *tc, struct fid_cq *cq)
{
	struct fi_cq_err_entry entry;

	if (!cq_error(cq, &entry))
		return;
	/* receives that are flushed at the end of a connection are no news */
	if (entry.err == FI_ECANCELED)
		return;
	tc->log[tc->logged++ % LOG] = (struct log_entry){.flags = entry.flags, .err = entry.err};
}

static void progress_conn(struct target *target, struct tconn *tc)
{
	struct fi_cq_data_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(tc->conn.rxcq, &entry, 1)) != -FI_EAGAIN) {
		if (ret == 1)
			log_completion(target, tc, &entry);
		else if (ret == -FI_EAVAIL)
			log_error(tc, tc->conn.rxcq);
		else
			return;
	}
	if (tc->conn.txcq != tc->conn.rxcq && fi_cq_read(tc->conn.txcq, &entry, 1) == -FI_EAVAIL)
		log_error(tc, tc->conn.txcq);
}

/*
 * target_progress -- the event queue is left alone: the next connection request may be
 * in it, whose turn is when the initiator says so
 */
void target_progress(struct target *target)
{
	int i;

	for (i = 0; i < CONNS; i++) {
		if (target->conns[i] && !target->conns[i]->is_unread)
			progress_conn(target, target->conns[i]);
	}
}

static struct tconn *find_conn(struct target *target, uint64_t id)
{
	return id < CONNS ? target->conns[id] : NULL;
}

static int cmd_open(struct target *target, struct control_msg *msg)
{
	struct node_attr attr = {
		.caps = msg->arg[0],
		.threading = FI_THREAD_SAFE,
		.port = "0",
	};
	int ret;

	/* Memory with a file behind it needs the domain. */
	if (!memory_direct_path(target->opts->memory) &&
	    memory_map(&target->arena, target->opts->memory, ARENA_SIZE))
		return -FI_ENOMEM;
	ret = fabric_listen(&target->node, target->opts, &attr);
	msg->arg[0] = ret ? 0 : node_port(&target->node);
	msg->arg[1] = target->opts->memory != NULL;
	/* a device DAX can't */
	msg->arg[2] = !target->arena.base || !msync(target->arena.base, PAGE, MS_SYNC);
	return ret;
}

static int open_srx(struct target *target, struct tconn *tc, struct fi_info *info, bool share)
{
	struct fid_ep **srx = share ? &target->srx : &tc->srx;
	int ret = *srx ? 0 : fi_srx_context(target->node.domain, info->rx_attr, srx, NULL);

	if (ret)
		*srx = NULL;
	tc->srx = *srx;
	tc->shares_srx = share;
	return ret;
}

static int open_cntr(struct target *target, struct fid_cntr **cntr)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	int ret = fi_cntr_open(target->node.domain, &attr, cntr, NULL);

	if (ret)
		*cntr = NULL;
	return ret;
}

/* open_unread -- the queue that all connections share whose completions nobody reads */
static int open_unread(struct target *target)
{
	struct conn_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait = FI_WAIT_UNSPEC};

	return target->unread ? 0 : cq_create(&target->node, &attr, 1024, &target->unread);
}

static int post_receives(struct tconn *tc)
{
	unsigned int i;
	ssize_t ret;

	for (i = 0; i < tc->nreceives; i++) {
		ret = post_receive(tc, i);
		if (ret)
			return report("fi_recv", ret);
	}
	return 0;
}

/* promise_kind -- before the connection is accepted */
static int promise_kind(struct target *target, struct tconn *tc, uint64_t id)
{
	struct region *region = find_region(target, id);
	int ret = region ? fi_setopt(&tc->conn.ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_RECV_MR,
				     &region->mr, sizeof(region->mr))
			 : -FI_EINVAL;

	return ret ? report("fi_setopt", ret) : 0;
}

static int create_tconn(struct target *target, struct tconn *tc, struct fi_info *info,
			uint64_t flags, uint64_t kind)
{
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.selective = true,
		.separate = flags & ACCEPT_SEPARATE,
		.wait = flags & ACCEPT_WAIT ? FI_WAIT_UNSPEC : FI_WAIT_NONE,
	};
	int ret;

	ret = region_register(&target->node, &tc->message_region, tc->messages,
			      sizeof(tc->messages), FI_SEND | FI_RECV, 0);
	if (!ret && flags & ACCEPT_SRX)
		ret = open_srx(target, tc, info, flags & ACCEPT_ONE_SRX);
	if (!ret && flags & ACCEPT_COUNT)
		ret = open_cntr(target, &tc->cntr);
	if (!ret && flags & ACCEPT_UNREAD) {
		ret = open_unread(target);
		attr.cq = target->unread;
		tc->is_unread = true;
	}
	attr.remote_write_cntr = tc->cntr;
	attr.srx = tc->srx;
	if (!(flags & ACCEPT_BARE))
		tc->nreceives = info->rx_attr->size < RECEIVES ? info->rx_attr->size : RECEIVES;
	if (!ret)
		ret = conn_create(&tc->conn, &target->node, info, &attr);
	if (!ret && flags & ACCEPT_KIND)
		ret = promise_kind(target, tc, kind);
	return ret ? ret : post_receives(tc);
}

static void destroy_tconn(struct tconn *tc)
{
	if (tc->conn.ep)
		fi_shutdown(tc->conn.ep, 0);
	conn_close(&tc->conn);
	if (tc->srx && !tc->shares_srx)
		close_fid(&tc->srx->fid, "the shared receive context");
	CLOSE(tc->cntr);
	region_close(&tc->message_region);
	free(tc);
}

/* cmd_accept -- the payload is the private data to accept with; answers with the request's */
static int cmd_accept(struct target *target, struct control_msg *msg, void *payload)
{
	struct cm_event event;
	struct tconn *tc;
	int i, ret;

	for (i = 0; i < CONNS && target->conns[i]; i++)
		;
	tc = i < CONNS ? calloc(1, sizeof(*tc)) : NULL;
	if (!tc)
		return -FI_ENOMEM;
	ret = conn_request(&target->node, &event);
	if (ret) {
		free(tc);
		return ret;
	}

	ret = create_tconn(target, tc, event.entry.info, msg->arg[0], msg->arg[1]);
	if (ret)
		node_reject(&target->node, event.entry.info, NULL);
	else
		fi_freeinfo(event.entry.info);
	if (!ret)
		ret = conn_accept(&tc->conn, payload, msg->len);
	if (ret) {
		destroy_tconn(tc);
		return ret;
	}
	target->conns[i] = tc;
	msg->arg[0] = i;
	msg->len = event.len;
	memcpy(payload, event.entry.data, msg->len);
	return 0;
}

static int cmd_reject(struct target *target, struct control_msg *msg, const void *payload)
{
	struct cm_event event;
	int ret = conn_request(&target->node, &event);

	if (ret)
		return ret;
	ret = fi_reject(target->node.pep, event.entry.info->handle, payload, msg->len);
	fi_freeinfo(event.entry.info);
	msg->len = 0;
	return ret;
}

static int cmd_close(struct target *target, uint64_t id, bool shutdown_only)
{
	struct tconn *tc = find_conn(target, id);

	if (!tc)
		return -FI_EINVAL;
	if (shutdown_only)
		return (int) fi_shutdown(tc->conn.ep, 0);
	target->conns[id] = NULL;
	destroy_tconn(tc);
	return 0;
}

static int cmd_arm(struct target *target, const void *payload)
{
	memcpy(&target->armed, payload, sizeof(target->armed));
	target->is_armed = find_region(target, target->armed.region);
	return target->is_armed ? 0 : -FI_EINVAL;
}

static int cmd_log(struct target *target, struct control_msg *msg, const void **reply)
{
	uint64_t deadline = now_ns() + msg->arg[2] * 1000000;
	struct tconn *tc = find_conn(target, msg->arg[0]);

	if (!tc)
		return -FI_EINVAL;
	do
		target_progress(target);
	while (tc->logged < msg->arg[1] && now_ns() < deadline);

	msg->arg[0] = tc->logged;
	msg->len = (tc->logged < LOG ? tc->logged : LOG) * sizeof(*tc->log);
	*reply = tc->log;
	tc->logged = 0;
	return 0;
}

static int cmd_send(struct target *target, struct control_msg *msg, void *payload)
{
	struct tconn *tc = find_conn(target, msg->arg[0]);
	uint64_t deadline = deadline_in(target->opts->timeout);
	ssize_t ret;

	if (!tc)
		return -FI_EINVAL;
	do {
		target_progress(target);
		ret = fi_inject(tc->conn.ep, payload, msg->len, 0);
	} while (ret == -FI_EAGAIN && now_ns() < deadline);
	msg->len = 0;
	return (int) ret;
}

/* cmd_receive -- messages are received in a region, one after the other */
static int cmd_receive(struct target *target, const struct control_msg *msg)
{
	struct tconn *tc = find_conn(target, msg->arg[0]);
	struct region *region = find_region(target, msg->arg[1]);
	size_t offset = msg->arg[2], len = msg->arg[3];
	ssize_t ret = 0;
	uint64_t i;

	for (i = 0; tc && region && !ret && i < msg->arg[5]; i++, offset += msg->arg[4]) {
		if (len > region->len || offset > region->len - len)
			return -FI_EINVAL;
		ret = fi_recv(tc->srx ? tc->srx : tc->conn.ep, (char *) region->buf + offset, len,
			      region->desc, 0, NULL);
	}
	return tc && region ? (int) ret : -FI_EINVAL;
}

/* cmd_count -- bind a counter to a region */
static int cmd_count(struct target *target, uint64_t id)
{
	struct region *region = find_region(target, id);
	int ret = region && !target->cntrs[id] ? open_cntr(target, &target->cntrs[id]) : -FI_EINVAL;

	if (ret)
		return ret;
	ret = fi_mr_bind(region->mr, &target->cntrs[id]->fid, FI_REMOTE_WRITE);
	return ret ? report("fi_mr_bind", ret) : 0;
}

/* cmd_counts -- perhaps after a sleep in fi_cntr_wait, and no other call */
static int cmd_counts(struct target *target, struct control_msg *msg)
{
	struct tconn *tc = find_conn(target, msg->arg[0]);
	uint64_t id = msg->arg[1], threshold = msg->arg[2];
	int ret;

	if (!tc || !tc->cntr || !find_region(target, id) || !target->cntrs[id])
		return -FI_EINVAL;
	if (threshold) {
		ret = fi_cntr_wait(tc->cntr, threshold, (int) target->opts->timeout * 1000);
		if (ret)
			return report("fi_cntr_wait", ret);
	}
	msg->arg[0] = fi_cntr_read(tc->cntr);
	msg->arg[1] = fi_cntr_read(target->cntrs[id]);
	msg->arg[2] = fi_cntr_readerr(tc->cntr);
	return 0;
}

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ULL +
	       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

/* cmd_idle -- the application has something better to do than to call the library */
static int cmd_idle(struct target *target, struct control_msg *msg)
{
	uint64_t before = cpu_us();

	control_waits(target->opts->target_fd, (int) msg->arg[0]);
	msg->arg[0] = cpu_us() - before;
	return 0;
}

/* cmd_sread -- the application waits for completions, and does nothing else */
static int cmd_sread(struct target *target, const struct control_msg *msg)
{
	struct tconn *tc = find_conn(target, msg->arg[0]);
	/* longer than a case may take: what is not woken up is found out */
	int ms = (int) target->opts->timeout * 2000;
	struct fi_cq_data_entry entry;
	ssize_t ret;

	if (!tc)
		return -FI_EINVAL;
	while (!control_waits(target->opts->target_fd, 0)) {
		ret = fi_cq_sread(tc->conn.rxcq, &entry, 1, NULL, ms);
		if (ret == 1)
			log_completion(target, tc, &entry);
		else if (ret == -FI_EAVAIL)
			log_error(tc, tc->conn.rxcq);
		else if (ret != -FI_EAGAIN && ret != -FI_EINTR)
			return (int) ret;
	}
	return 0;
}

static struct tconn *conn_of(struct target *target, const struct fid *ep, int *id)
{
	for (*id = 0; *id < CONNS; ++*id) {
		if (target->conns[*id] && &target->conns[*id]->conn.ep->fid == ep)
			return target->conns[*id];
	}
	return NULL;
}

/* cmd_eq -- the application waits for connections to end, and does nothing else */
static int cmd_eq(struct target *target, const struct control_msg *msg)
{
	uint64_t deadline = deadline_in(target->opts->timeout), ended = 0;
	struct cm_event event;
	struct tconn *tc;
	int id, ret;

	while (ended < msg->arg[0]) {
		ret = node_event(&target->node, &event, 1000);
		if (ret < 0)
			return ret;
		if (!ret && now_ns() > deadline)
			return -FI_ETIMEDOUT;
		tc = ret && event.event == FI_SHUTDOWN ? conn_of(target, event.entry.fid, &id)
						       : NULL;
		if (!tc)
			continue;
		target->conns[id] = NULL;
		destroy_tconn(tc);
		ended++;
	}
	return 0;
}

static int cmd_reset(struct target *target)
{
	int i, ret = 0;

	for (i = 0; i < CONNS; i++)
		cmd_close(target, i, false);
	for (i = 0; i < REGIONS; i++)
		ret |= close_region(target, i);
	CLOSE(target->unread);
	CLOSE(target->srx);
	target->unread = NULL;
	target->srx = NULL;
	target->used = 0;
	target->is_armed = false;
	return ret;
}

/* execute -- do one command; the answer goes into msg, and the payload or *reply */
static int execute(struct target *target, struct control_msg *msg, void *payload,
		   const void **reply)
{
	switch (msg->command) {
	case CTL_OPEN:
		return cmd_open(target, msg);
	case CTL_ACCEPT:
		return cmd_accept(target, msg, payload);
	case CTL_REJECT:
		return cmd_reject(target, msg, payload);
	case CTL_CLOSE:
		return cmd_close(target, msg->arg[0], msg->arg[1]);
	case CTL_REG:
		return cmd_reg(target, msg);
	case CTL_DEREG:
		return cmd_dereg(target, msg->arg[0]);
	case CTL_FILE:
		return cmd_file(target, msg, payload);
	case CTL_SPOIL:
		return cmd_spoil(target, msg->arg[0], (enum spoil) msg->arg[1]);
	case CTL_READ:
		return cmd_read(target, msg, reply);
	case CTL_ARM:
		msg->len = 0;
		return cmd_arm(target, payload);
	case CTL_LOG:
		return cmd_log(target, msg, reply);
	case CTL_SEND:
		return cmd_send(target, msg, payload);
	case CTL_RECV:
		return cmd_receive(target, msg);
	case CTL_WATCH:
		return cmd_watch(target, msg, payload);
	case CTL_PAIRS:
		return cmd_pairs(target, msg, payload);
	case CTL_COUNT:
		return cmd_count(target, msg->arg[0]);
	case CTL_LIST:
		return cmd_list(target, msg);
	case CTL_COUNTS:
		return cmd_counts(target, msg);
	case CTL_IDLE:
		return cmd_idle(target, msg);
	case CTL_SREAD:
		return cmd_sread(target, msg);
	case CTL_EQ:
		return cmd_eq(target, msg);
	case CTL_ON:
		return 0;
	case CTL_RESET:
		return cmd_reset(target);
	default:
		return -FI_ENOSYS;
	}
}

static int serve_command(struct target *target)
{
	int fd = target->opts->target_fd;
	char payload[1024];
	const void *reply = payload;
	struct control_msg msg;

	if (control_receive(fd, &msg, payload, sizeof(payload), target->opts->timeout))
		return -1;
	msg.status = execute(target, &msg, payload, &reply);
	if (msg.status)
		msg.len = 0;
	return control_send(fd, &msg, reply);
}

/* needs_calls -- commits wait for this process to call the library */
static bool needs_calls(void)
{
	const char *agent = getenv("FI_PMEMVERBS_AGENT");

	return agent && !strcmp(agent, "progress");
}

/*
 * pause_between -- for so many ms, between calls, commands are waited for.  Data come without our
 * help over RDMA hardware, and the agent serves what comes over tcp: leave them the processor.
 */
static int pause_between(const struct target *target)
{
	if (needs_calls() || getenv("PMEM_TARGET_POLLS"))
		return 0;
	return target->node.info && node_is_passive(&target->node) ? 10 : 1;
}

int target_run(const struct options *opts)
{
	struct target *target = calloc(1, sizeof(*target));

	if (!target)
		return report("calloc", -FI_ENOMEM);
	target->opts = opts;
	do {
		target_progress(target);
	} while (!control_waits(opts->target_fd, pause_between(target)) || !serve_command(target));

	cmd_reset(target);
	node_close(&target->node);
	close_arena(target);
	free(target);
	return 0;
}
