/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator.c -- what the cases of the functional program are made with: see
 * functional.h
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"
#include "../common/stats.h"

#define LOCAL_SIZE ((size_t) 4 << 20)
#define MAX_IOVS 8

/* keep -- the reason, unless there is that of a failure already */
static void keep(struct fx *fx, bool *flag, const char *format, va_list args)
{
	pthread_mutex_lock(&fx->lock);
	if (!fx->has_failed)
		vsnprintf(fx->reason, sizeof(fx->reason), format, args);
	*flag = true;
	pthread_mutex_unlock(&fx->lock);
}

int failed(struct fx *fx, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	keep(fx, &fx->has_failed, format, args);
	va_end(args);
	return -1;
}

int skipped(struct fx *fx, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	keep(fx, &fx->has_skipped, format, args);
	va_end(args);
	return -1;
}

int expect(struct fx *fx, bool is_true, const char *format, ...)
{
	va_list args;

	if (is_true)
		return 0;
	va_start(args, format);
	keep(fx, &fx->has_failed, format, args);
	va_end(args);
	return -1;
}

void note_failed_call(struct fx *fx, const char *call, ssize_t ret)
{
	failed(fx, "%s: %s (%zd)", call, fi_strerror((int) -ret), ret);
}

bool is_late(const struct fx *fx)
{
	return now_ns() > fx->deadline;
}

void pause_ms(unsigned int ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

bool is_pmemverbs(const struct fx *fx)
{
	return !is_core(fx->opts);
}

int target_begin(struct target_proc *target, struct control_msg *msg, const void *payload)
{
	if (control_send(target->control, msg, payload))
		return failed(target->fx, "the target has gone");
	return 0;
}

int target_finish(struct target_proc *target, struct control_msg *msg, void *payload, size_t room)
{
	unsigned long timeout = target->fx->opts->timeout + 5;

	if (control_receive(target->control, msg, payload, room, timeout))
		return failed(target->fx, "the target has gone");
	return msg->status;
}

int target_call(struct target_proc *target, struct control_msg *msg, void *payload, size_t room)
{
	if (target_begin(target, msg, payload))
		return -1;
	return target_finish(target, msg, payload, room);
}

/* must_call -- a command that has no reason to fail */
static int must_call(struct target_proc *target, struct control_msg *msg, void *payload,
		     size_t room, const char *what)
{
	int ret = target_call(target, msg, payload, room);

	return ret ? failed(target->fx, "the target can't %s: %s (%d)", what, fi_strerror(-ret),
			    ret)
		   : 0;
}

/* pack_environment -- the strings one after the other, each with its NUL */
static size_t pack_environment(const char *const *environment, char *out, size_t room)
{
	size_t used = 0, len;

	for (; environment && *environment; environment++) {
		len = strlen(*environment) + 1;
		if (len > room - used)
			break;
		memcpy(out + used, *environment, len);
		used += len;
	}
	return used;
}

static int spawn(struct target_proc *target, const char *const *environment)
{
	const struct options *opts = target->fx->opts;
	struct control_msg msg = {.command = CTL_TARGET};
	char payload[512];

	target->control = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (target->control < 0)
		return failed(target->fx, "no connection to the server");
	target->is_open = true;
	msg.len = pack_environment(environment, payload, sizeof(payload));
	if (must_call(target, &msg, payload, sizeof(payload), "start"))
		return -1;
	target->pid = (pid_t) msg.arg[0];
	return 0;
}

static int open_both_sides(struct target_proc *target, const struct target_attr *target_attr)
{
	uint64_t usual = target->fx->caps;
	struct control_msg msg = {.command = CTL_OPEN};
	struct node_attr attr = {.threading = FI_THREAD_SAFE};
	char port[16];
	int ret;

	msg.arg[0] = target_attr->caps ? target_attr->caps : usual;
	attr.caps = target_attr->our_caps ? target_attr->our_caps : usual;
	if (must_call(target, &msg, NULL, 0, "listen"))
		return -1;
	target->has_file = msg.arg[1];
	target->can_sync = msg.arg[2];
	target->port = (unsigned int) msg.arg[0];
	snprintf(port, sizeof(port), "%u", target->port);
	attr.port = port;
	ret = fabric_open(&target->node, target->fx->opts, &attr);
	return ret ? failed_call(target->fx, "opening the provider", ret) : 0;
}

struct target_proc *target_start(struct fx *fx, struct target_proc *target,
				 const struct target_attr *attr)
{
	static const struct target_attr usual;

	if (!attr)
		attr = &usual;
	memset(target, 0, sizeof(*target));
	target->fx = fx;
	if (spawn(target, attr->environment) || open_both_sides(target, attr))
		return NULL;
	return target;
}

struct target_proc *fx_target(struct fx *fx, const struct target_attr *attr)
{
	int i;

	for (i = 0; i < MAX_TARGETS; i++) {
		if (!fx->own[i].is_open)
			return target_start(fx, &fx->own[i], attr);
	}
	failed(fx, "too many targets in one case");
	return NULL;
}

void target_end(struct target_proc *target)
{
	if (!target->is_open)
		return;
	if (target->node.fabric)
		node_close(&target->node);
	close(target->control);
	target->is_open = false;
}

int target_signal(struct target_proc *target, int signo)
{
	struct control_msg msg = {.command = CTL_SIGNAL, .arg = {target->pid, signo}};
	struct fx *fx = target->fx;

	if (control_send(fx->session, &msg, NULL) ||
	    control_receive(fx->session, &msg, NULL, 0, fx->opts->timeout) || msg.status)
		return failed(fx, "the server can't send signal %d to the target", signo);
	return 0;
}

/* remote_init -- what the target has answered */
static int remote_init(struct target_proc *target, struct remote *remote,
		       const struct control_msg *answer, size_t len, uint64_t seed)
{
	*remote = (struct remote){
		.target = target,
		.id = answer->arg[0],
		.addr = answer->arg[1],
		.key = answer->arg[2],
		.seed = seed,
		.len = len,
		.shadow = malloc(len),
		.image = malloc(len),
	};
	if (!remote->shadow || !remote->image)
		return -FI_ENOMEM;
	pattern_fill(remote->shadow, len, seed, 0);
	return 0;
}

int remote_try(struct target_proc *target, struct remote *remote, size_t len, uint64_t access,
	       uint64_t flags, size_t skew, uint64_t seed)
{
	struct control_msg msg = {
		.command = CTL_REG,
		.arg = {len, access, flags, seed, skew},
	};
	int ret = target_call(target, &msg, NULL, 0);

	return ret ? ret : remote_init(target, remote, &msg, len, seed);
}

/* new_remote -- NULL: it failed */
static struct remote *new_remote(struct fx *fx, struct target_proc *target)
{
	if (fx->nremotes == MAX_REMOTES) {
		failed(fx, "too many regions in one case");
		return NULL;
	}
	if (!target->has_domain && !fx_link(fx, target, NULL))
		return NULL;
	return &fx->remotes[fx->nremotes++];
}

struct remote *fx_remote_file(struct fx *fx, struct target_proc *target, size_t len,
			      const char *path)
{
	uint64_t seed = path ? 0 : atomic_fetch_add(&fx->seed, 1);
	struct control_msg msg = {
		.command = CTL_FILE,
		.arg = {len, seed},
		.len = path ? strlen(path) + 1 : 0,
	};
	struct remote *remote = new_remote(fx, target);
	int ret;

	if (!remote)
		return NULL;
	ret = target_begin(target, &msg, path);
	if (!ret)
		ret = target_finish(target, &msg, NULL, 0);
	if (!ret)
		ret = remote_init(target, remote, &msg, len, seed);
	if (!ret)
		return remote;
	failed_call(fx, "fi_mr_reg of a file at the target", ret);
	return NULL;
}

struct remote *fx_remote_skewed(struct fx *fx, struct target_proc *target, size_t len,
				uint64_t access, uint64_t flags, size_t skew)
{
	struct remote *remote = new_remote(fx, target);
	int ret;

	if (!remote)
		return NULL;
	ret = remote_try(target, remote, len, access, flags, skew, atomic_fetch_add(&fx->seed, 1));
	if (!ret)
		return remote;
	failed_call(fx, "fi_mr_reg at the target", ret);
	return NULL;
}

struct remote *fx_remote(struct fx *fx, struct target_proc *target, size_t len, uint64_t access,
			 uint64_t flags)
{
	return fx_remote_skewed(fx, target, len, access, flags, 0);
}

struct remote *pmem_region(struct fx *fx, size_t len)
{
	return fx_remote(fx, fx->target, len, FI_REMOTE_WRITE, FI_RMA_PMEM);
}

int remote_fetch(struct fx *fx, struct remote *remote)
{
	struct control_msg msg = {.command = CTL_READ, .arg = {remote->id}};

	if (must_call(remote->target, &msg, remote->image, remote->len, "read its memory"))
		return -1;
	return expect(fx, msg.arg[0], "bytes outside of the region have changed");
}

int remote_same(struct fx *fx, struct remote *remote)
{
	size_t i;

	if (remote_fetch(fx, remote))
		return -1;
	if (!memcmp(remote->shadow, remote->image, remote->len))
		return 0;
	for (i = 0; remote->shadow[i] == remote->image[i]; i++)
		;
	return failed(fx, "wrong data at the target from offset %zu of %zu on: %02x, not %02x", i,
		      remote->len, remote->image[i], remote->shadow[i]);
}

void remote_expect(struct remote *remote, size_t offset, size_t len, uint64_t seed)
{
	pattern_fill(remote->shadow + offset, len, seed, offset);
}

static int create_local(struct link *link, const struct link_attr *attr)
{
	size_t size = attr->local_size ? attr->local_size : LOCAL_SIZE;
	int ret;

	if (memory_map(&link->memory, NULL, size))
		return failed(link->fx, "no memory");
	ret = region_register(&link->target->node, &link->local, link->memory.base, size,
			      FI_READ | FI_WRITE | FI_SEND | FI_RECV, 0);
	return ret ? failed_call(link->fx, "fi_mr_reg", ret) : 0;
}

static int create_conn(struct link *link, const struct link_attr *attr)
{
	struct node *node = &link->target->node;
	struct fi_info *info = fi_dupinfo(node->info);
	int ret;

	if (!info)
		return failed(link->fx, "no memory");
	info->tx_attr->op_flags = attr->op_flags;
	ret = conn_create(&link->conn, node, info, &attr->conn);
	fi_freeinfo(info);
	return ret ? failed_call(link->fx, "creating an endpoint", ret) : 0;
}

/* connect_link -- the target accepts meanwhile */
static int connect_link(struct link *link, const struct link_attr *attr)
{
	struct control_msg msg = {
		.command = CTL_ACCEPT,
		.arg = {attr->accept, attr->kind ? attr->kind->id : 0},
	};
	char data[CM_DATA_MAX];
	int mine, theirs;

	if (target_begin(link->target, &msg, NULL))
		return -1;
	mine = conn_connect(&link->conn, NULL, 0, NULL);
	theirs = target_finish(link->target, &msg, data, sizeof(data));
	if (theirs == -FI_ENOSYS && attr->accept & ACCEPT_SRX)
		return skipped(link->fx, "no shared receive contexts");
	if (theirs)
		return failed_call(link->fx, "accepting at the target", theirs);
	if (mine)
		return failed_call(link->fx, "connecting", mine);
	link->id = msg.arg[0];
	link->target->has_domain = true;
	return 0;
}

static const struct link_attr usual_link = {
	.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
};

struct link *fx_unconnected(struct fx *fx, struct target_proc *target, const struct link_attr *attr)
{
	struct link *link;

	if (fx->nlinks == MAX_LINKS) {
		failed(fx, "too many connections in one case");
		return NULL;
	}
	if (!attr)
		attr = &usual_link;
	link = &fx->links[fx->nlinks++];
	*link = (struct link){
		.fx = fx,
		.target = target ? target : fx->target,
		.format = attr->conn.format,
	};
	return create_conn(link, attr) || create_local(link, attr) ? NULL : link;
}

struct link *fx_link(struct fx *fx, struct target_proc *target, const struct link_attr *attr)
{
	struct link *link = fx_unconnected(fx, target, attr);

	return link && !connect_link(link, attr ? attr : &usual_link) ? link : NULL;
}

void link_close(struct link *link)
{
	if (link->conn.ep)
		fi_shutdown(link->conn.ep, 0);
	conn_close(&link->conn);
	region_close(&link->local);
	memory_unmap(&link->memory);
}

int query_key(struct fx *fx, struct link *link, uint64_t key, struct fi_pmemverbs_region *region)
{
	struct fid_domain *domain = link->target->node.domain;
	struct fi_pmemverbs_ops *ops;
	int ret;

	ret = fi_open_ops(&domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL);
	if (ret)
		return failed_call(fx, "fi_open_ops", ret);
	ret = ops->query_key(link->conn.ep, key, region);
	return ret ? failed_call(fx, "query_key", ret) : 0;
}

int query_messages(struct fx *fx, struct link *link, struct fi_pmemverbs_region *region)
{
	struct fid_domain *domain = link->target->node.domain;
	struct fi_pmemverbs_ops *ops;
	int ret = fi_open_ops(&domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL);

	if (ret)
		return failed_call(fx, "fi_open_ops", ret);
	ret = ops->query_messages(link->conn.ep, region);
	return ret ? failed_call(fx, "query_messages", ret) : 0;
}

bool by_agent(struct link *link, const struct remote *remote)
{
	struct fi_pmemverbs_region region;

	return is_pmemverbs(link->fx) && !query_key(link->fx, link, remote->key, &region) &&
	       region.method == FI_PMEMVERBS_AGENT;
}

/* served_environment -- files are synced where the run is about them, else lines are flushed */
static const char *const *served_environment(void)
{
	static const char *const page[] = {"FI_PMEMVERBS_DOMAIN=page", "FI_PMEMVERBS_AGENT=thread",
					   NULL};
	static const char *const dmp[] = {"FI_PMEMVERBS_DOMAIN=dmp", "FI_PMEMVERBS_DDIO=on",
					  "FI_PMEMVERBS_AGENT=thread", NULL};
	const char *domain = getenv("FI_PMEMVERBS_DOMAIN");

	return domain && !strcmp(domain, "page") ? page : dmp;
}

struct link *served_link(struct fx *fx, const struct link_attr *attr)
{
	struct target_attr target_attr = {.environment = served_environment()};
	struct target_proc *target;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "the agent is pmemverbs' own");
		return NULL;
	}
	target = fx_target(fx, &target_attr);
	return target ? fx_link(fx, target, attr) : NULL;
}

struct remote *served_region(struct link *link, size_t len)
{
	return fx_remote(link->fx, link->target, len, FI_REMOTE_WRITE, FI_RMA_PMEM);
}

void *source(struct link *link, size_t len, uint64_t seed, size_t offset)
{
	unsigned char *buf;

	if (len > link->local.len - link->used)
		link->used = 0;
	buf = (unsigned char *) link->local.buf + link->used;
	link->used += len;
	pattern_fill(buf, len, seed, offset);
	return buf;
}

struct op *op_new(struct fx *fx)
{
	unsigned int i = atomic_fetch_add(&fx->nops, 1);

	assert(i < MAX_POSTED);
	return &fx->ops[i];
}

/* cut -- one buffer as several pieces of about the same size */
static void cut(struct iovec *iov, unsigned int n, unsigned char *buf, size_t len)
{
	size_t piece;

	for (; n; n--, iov++, buf += piece, len -= piece) {
		piece = len / n;
		*iov = (struct iovec){buf, piece};
	}
}

/* Everything that one fi_writemsg needs, to be able to call it again. */
struct request {
	struct link *link;
	struct op *op;
	uint64_t flags;
	struct fi_rma_iov rma_iov;
	struct iovec iov[MAX_IOVS];
	void *desc[MAX_IOVS];
	unsigned char *buf;
	struct fi_msg_rma msg;
};

static void prepare(struct request *req, struct link *link, const struct write *write)
{
	const struct remote *remote = write->remote;
	unsigned int i, n = write->iovs ? write->iovs : 1;
	uint64_t seed = atomic_fetch_add(&link->fx->seed, 1);

	req->link = link;
	req->op = op_new(link->fx);
	req->op->offset = write->offset;
	req->op->len = write->len;
	req->op->seed = seed;
	req->flags = write->flags;
	req->buf = source(link, write->len, seed, write->offset);
	cut(req->iov, n, req->buf, write->len);
	for (i = 0; i < n; i++)
		req->desc[i] = link->local.desc;
	req->rma_iov = (struct fi_rma_iov){
		.addr = remote->addr + write->offset,
		.len = write->len,
		.key = write->key ? write->key : remote->key,
	};
	req->msg = (struct fi_msg_rma){
		.msg_iov = req->iov,
		.desc = req->desc,
		.iov_count = n,
		.rma_iov = &req->rma_iov,
		.rma_iov_count = 1,
		.context = req->op,
		.data = write->data,
	};
}

static ssize_t submit(struct request *req)
{
	ssize_t ret = fi_writemsg(req->link->conn.ep, &req->msg, req->flags);

	/* injected means that the buffer is ours again */
	if (!ret && req->flags & FI_INJECT)
		memset(req->buf, 0xee, req->op->len);
	return ret;
}

ssize_t post_write(struct link *link, const struct write *write, struct op **op)
{
	struct request req;
	ssize_t ret;

	prepare(&req, link, write);
	ret = submit(&req);
	*op = ret ? NULL : req.op;
	return ret;
}

int write_at(struct link *link, const struct write *write, struct op **op)
{
	struct fx *fx = link->fx;
	struct request req;
	ssize_t ret;

	prepare(&req, link, write);
	while ((ret = submit(&req)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	remote_expect(write->remote, write->offset, write->len, req.op->seed);
	if (op)
		*op = req.op;
	return 0;
}

int write_from(struct link *link, const struct remote *remote, size_t offset, void *buf, size_t len,
	       uint64_t flags, uint64_t data, struct op *op)
{
	struct iovec iov = {buf, len};
	struct fi_rma_iov rma_iov = {remote->addr + offset, len, remote->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &link->local.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = op,
		.data = data,
	};
	ssize_t ret;

	while ((ret = fi_writemsg(link->conn.ep, &msg, flags)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	return ret ? failed_call(link->fx, "fi_writemsg", ret) : 0;
}

bool plain_has_context(enum plain kind)
{
	return kind != PLAIN_INJECT && kind != PLAIN_INJECTDATA;
}

static ssize_t call_plain(struct request *req, enum plain kind)
{
	struct fid_ep *ep = req->link->conn.ep;
	uint64_t addr = req->rma_iov.addr, key = req->rma_iov.key;
	void *buf = req->buf, *desc = req->desc[0];
	size_t len = req->op->len;

	switch (kind) {
	case PLAIN_WRITE:
		return fi_write(ep, buf, len, desc, 0, addr, key, req->op);
	case PLAIN_WRITEV:
		return fi_writev(ep, req->iov, req->desc, req->msg.iov_count, 0, addr, key,
				 req->op);
	case PLAIN_WRITEDATA:
		return fi_writedata(ep, buf, len, desc, req->msg.data, 0, addr, key, req->op);
	case PLAIN_INJECT:
		return fi_inject_write(ep, buf, len, 0, addr, key);
	case PLAIN_INJECTDATA:
		return fi_inject_writedata(ep, buf, len, req->msg.data, 0, addr, key);
	default:
		return fi_writemsg(ep, &req->msg, 0);
	}
}

static ssize_t submit_plain(struct request *req, enum plain kind)
{
	ssize_t ret = call_plain(req, kind);

	if (!ret && !plain_has_context(kind))
		memset(req->buf, 0xee, req->op->len);
	return ret;
}

ssize_t plain_post(struct link *link, enum plain kind, const struct write *write, struct op **op)
{
	struct request req;
	ssize_t ret;

	prepare(&req, link, write);
	ret = submit_plain(&req, kind);
	*op = ret ? NULL : req.op;
	return ret;
}

int plain_at(struct link *link, enum plain kind, struct remote *remote, size_t offset, size_t len,
	     struct op **op)
{
	struct write write = {.remote = remote, .offset = offset, .len = len};
	struct fx *fx = link->fx;
	struct request req;
	ssize_t ret;

	if (kind == PLAIN_WRITEV)
		write.iovs = 2;
	prepare(&req, link, &write);
	while ((ret = submit_plain(&req, kind)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	if (ret)
		return failed_call(fx, "a plain write", ret);
	remote_expect(remote, offset, len, req.op->seed);
	if (op)
		*op = req.op;
	return 0;
}

int read_at(struct link *link, const struct remote *remote, size_t offset, size_t len, void *buf,
	    struct op **op)
{
	struct fi_rma_iov rma_iov = {remote->addr + offset, len, remote->key};
	struct iovec iov = {buf, len};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &link->local.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = *op = op_new(link->fx),
	};
	ssize_t ret;

	while ((ret = fi_readmsg(link->conn.ep, &msg, FI_COMPLETION)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	return ret ? failed_call(link->fx, "fi_readmsg", ret) : 0;
}

int commit(struct link *link, struct remote *remote, size_t offset, size_t len, uint64_t flags)
{
	struct write write = {
		.remote = remote,
		.offset = offset,
		.len = len,
		.flags = COMMIT | flags,
	};
	struct op *op;

	return write_at(link, &write, &op) || await(link, op) ? -1 : 0;
}

bool op_done(const struct op *op)
{
	return op->completions + op->errors;
}

/* find_op -- the operation that a context belongs to; NULL: none */
static struct op *find_op(struct fx *fx, void *context)
{
	size_t distance = (char *) context - (char *) fx->ops;

	if ((char *) context < (char *) fx->ops || distance % sizeof(struct op) ||
	    distance / sizeof(struct op) >= fx->nops)
		return NULL;
	return context;
}

/* count -- one more completion or error of an operation: has to be the only one */
static int count(struct fx *fx, struct op *op, atomic_uint *counter)
{
	atomic_fetch_add(counter, 1);
	if (op->completions + op->errors == 1)
		return 0;
	return failed(fx, "an operation has completed twice: %u completions, %u errors",
		      op->completions, op->errors);
}

static int take_error(struct fx *fx, struct fid_cq *cq)
{
	struct fi_cq_err_entry entry;
	struct op *op;

	/* another thread may have taken it */
	if (!cq_error(cq, &entry))
		return 0;
	op = find_op(fx, entry.op_context);
	if (!op)
		return failed(fx, "an error (%s) with a context that is of no operation",
			      fi_strerror(entry.err));
	op->err = entry.err;
	op->flags = entry.flags;
	return count(fx, op, &op->errors);
}

/* take_entry -- formats are prefixes of each other; fields that one lacks are zero */
static int take_entry(struct fx *fx, struct fid_cq *cq, bool *taken)
{
	struct fi_cq_tagged_entry entry = {0};
	ssize_t ret = fi_cq_read(cq, &entry, 1);
	struct op *op;

	*taken = ret == 1 || ret == -FI_EAVAIL;
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		return take_error(fx, cq);
	if (ret != 1)
		return failed_call(fx, "fi_cq_read", ret);
	op = find_op(fx, entry.op_context);
	if (!op)
		return failed(fx, "a completion with a context that is of no operation");
	op->flags = entry.flags;
	op->data = entry.data;
	return count(fx, op, &op->completions);
}

static int reap_cq(struct fx *fx, struct fid_cq *cq)
{
	bool taken;

	do {
		if (take_entry(fx, cq, &taken))
			return -1;
	} while (taken);
	return 0;
}

/* drop_events -- the ends of connections are seen from the operations' errors */
static void drop_events(struct link *link)
{
	struct cm_event event;

	node_event(&link->target->node, &event, 0);
}

int reap(struct link *link)
{
	if (reap_cq(link->fx, link->conn.txcq))
		return -1;
	if (link->conn.rxcq != link->conn.txcq && reap_cq(link->fx, link->conn.rxcq))
		return -1;
	drop_events(link);
	return 0;
}

int await_room(struct link *link)
{
	if (reap(link))
		return -1;
	return is_late(link->fx) ? failed(link->fx, "the queue stays full") : 0;
}

int await_any(struct link *link, struct op *op)
{
	while (!op_done(op)) {
		if (reap(link))
			return -1;
		if (is_late(link->fx))
			return failed(link->fx, "an operation does not complete");
	}
	return 0;
}

int await(struct link *link, struct op *op)
{
	if (await_any(link, op))
		return -1;
	return expect(link->fx, op->completions, "an operation has failed: %s (%d)",
		      fi_strerror(op->err), op->err);
}

int await_error(struct link *link, struct op *op)
{
	if (await_any(link, op))
		return -1;
	return expect(link->fx, op->errors, "an operation that must fail has succeeded");
}

int all_done(struct link *link, struct op *const *ops, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (await_any(link, ops[i]))
			return -1;
	}
	return 0;
}

int successes_landed(struct fx *fx, struct remote *remote, struct op *const *ops, unsigned int n)
{
	const struct op *op;
	unsigned int i;

	if (remote_fetch(fx, remote))
		return -1;
	for (i = 0; i < n; i++) {
		op = ops[i];
		if (op->completions && pattern_check(remote->image + op->offset, op->len, op->seed,
						     op->offset) != op->len)
			return failed(fx, "a commit has succeeded whose data are not there");
	}
	return 0;
}

int linger(struct link *link, unsigned int ms)
{
	uint64_t end = now_ns() + ms * 1000000ULL;

	do {
		if (reap(link))
			return -1;
	} while (now_ns() < end);
	return 0;
}

int get_log(struct link *link, struct log_entry *log, size_t room, size_t wait_for, unsigned int ms)
{
	struct control_msg msg = {.command = CTL_LOG, .arg = {link->id, wait_for, ms}};

	if (must_call(link->target, &msg, log, room * sizeof(*log), "tell what it got"))
		return -1;
	return (int) msg.arg[0];
}
