/* SPDX-License-Identifier: BSD-2-Clause */
/* pmemsim.c -- a core provider over the model; pmemsim.h says what it is like */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "pmemsim.h"

#define sim_of(ptr, type, member) ((type *) ((char *) (ptr) -offsetof(type, member)))

struct sim_region {
	struct fid_mr fid;
	struct sim *sim;
	struct sim_region *next;
	uint64_t access;
	char *base;
	size_t len;
};

struct sim_fabric {
	struct fid_fabric fid;
	struct sim *sim;
};

struct sim_domain {
	struct fid_domain fid;
	struct sim *sim;
	unsigned int device;
};

struct sim_entry {
	int err;
	struct fi_cq_tagged_entry ok;
};

struct sim_cq {
	struct fid_cq fid;
	size_t entry_size;
	size_t count;
	size_t room;
	struct sim_entry *entries; /* the oldest first */
};

struct sim_ep {
	struct fid_ep fid;
	struct sim *sim;
	struct hw_port *port;
	struct sim_cq *tx_cq;
	struct sim_cq *rx_cq;
	bool tx_selective;
	uint64_t op_flags;
};

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* Completion queues */

static void cq_add(struct sim_cq *cq, const struct sim_entry *entry)
{
	if (cq->count == cq->room) {
		cq->room = cq->room ? 2 * cq->room : 8;
		cq->entries = need(realloc(cq->entries, cq->room * sizeof(*entry)));
	}
	cq->entries[cq->count++] = *entry;
}

static void cq_drop(struct sim_cq *cq, size_t n)
{
	cq->count -= n;
	memmove(cq->entries, cq->entries + n, cq->count * sizeof(cq->entries[0]));
	memset(cq->entries + cq->count, 0, n * sizeof(cq->entries[0]));
}

static void complete(struct hw_port *port, const struct hw_event *event)
{
	const struct sim_ep *ep = port->owner;
	struct sim_cq *cq = event->receive ? ep->rx_cq : ep->tx_cq;
	uint64_t data = event->receive && (event->what & FI_REMOTE_CQ_DATA) ? event->imm : 0;
	struct sim_entry entry = {
		.err = event->err,
		.ok = {.op_context = event->context,
		       .flags = event->what,
		       .len = event->len,
		       .data = data},
	};

	if (event->receive)
		entry.ok.flags = event->what & FI_RMA
					 ? FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA
					 : FI_MSG | FI_RECV | (event->what & FI_REMOTE_CQ_DATA);
	else
		entry.ok.flags &= ~FI_REMOTE_CQ_DATA;
	if (cq)
		cq_add(cq, &entry);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct sim_cq *cq = sim_of(fid, struct sim_cq, fid);
	size_t got = 0;

	while (got < count && got < cq->count && !cq->entries[got].err) {
		memcpy((char *) buf + got * cq->entry_size, &cq->entries[got].ok, cq->entry_size);
		got++;
	}
	cq_drop(cq, got);
	if (got)
		return (ssize_t) got;
	return count && cq->count ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct sim_cq *cq = sim_of(fid, struct sim_cq, fid);
	const struct sim_entry *entry = cq->entries;

	(void) flags;
	if (!cq->count || !entry->err)
		return -FI_EAGAIN;
	buf->op_context = entry->ok.op_context;
	buf->flags = entry->ok.flags;
	buf->err = entry->err;
	buf->prov_errno = entry->err;
	buf->err_data_size = 0;
	cq_drop(cq, 1);
	return 1;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readerr = cq_readerr,
};

static int cq_close(struct fid *fid)
{
	struct sim_cq *cq = sim_of(fid, struct sim_cq, fid.fid);

	free(cq->entries);
	free(cq);
	return 0;
}

static struct fi_ops cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
};

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
			  void *context)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	struct sim_cq *cq;

	(void) domain;
	/* Nothing ever happens while somebody sleeps. */
	if (attr->wait_obj != FI_WAIT_NONE || attr->format == FI_CQ_FORMAT_UNSPEC)
		return -FI_ENOSYS;
	cq = need(calloc(1, sizeof(*cq)));
	cq->entry_size = sizes[attr->format];
	cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fi_ops};
	cq->fid.ops = &cq_ops;
	*fid = &cq->fid;
	return 0;
}

/* Posting */

/* target -- where a remote range is; NULL: nowhere, or not for that */
static char *target(struct sim *sim, uint64_t key, uint64_t addr, size_t len, uint64_t access)
{
	struct sim_region *region = sim->regions;

	/* The NIC looks neither at key nor address if there is nothing to move. */
	while (region && region->fid.key != key)
		region = region->next;
	if (!region || (region->access & access) != access ||
	    addr - (uintptr_t) region->base > region->len ||
	    len > region->len - (addr - (uintptr_t) region->base))
		return NULL;
	return (char *) (uintptr_t) addr;
}

static ssize_t post(struct sim_ep *ep, struct hw_request *request, const char *payload,
		    uint64_t flags)
{
	struct sim *sim = ep->sim;

	if (ep->port->dead)
		return -FI_ENOTCONN;
	request->fence = flags & FI_FENCE;
	request->reported = !request->quiet && ((flags & FI_COMPLETION) || !ep->tx_selective);
	request->notifies = request->kind == HW_SEND || (flags & FI_REMOTE_CQ_DATA);
	request->what |= flags & FI_REMOTE_CQ_DATA;
	request->note = sim->note;
	if (sim->filter)
		sim->filter(request, sim->filter_arg);
	return hw_post(ep->port, request, payload) ? 0 : -FI_EAGAIN;
}

static size_t gather(const struct iovec *iov, size_t count, char *to)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		if (to && iov[i].iov_len)
			memcpy(to + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	return len;
}

static ssize_t post_gathered(struct sim_ep *ep, struct hw_request *request, const struct iovec *iov,
			     size_t count, uint64_t flags)
{
	char *payload = NULL;
	ssize_t ret;

	if (request->len) {
		payload = need(malloc(request->len));
		gather(iov, count, payload);
	}
	ret = post(ep, request, payload, flags);
	free(payload);
	return ret;
}

static ssize_t post_rma(struct fid_ep *fid, const struct fi_msg_rma *msg, enum hw_kind kind,
			uint64_t flags, bool quiet)
{
	struct sim_ep *ep = sim_of(fid, struct sim_ep, fid);
	size_t len = gather(msg->msg_iov, msg->iov_count, NULL);
	uint64_t access = kind == HW_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
	struct hw_request request = {
		.kind = kind,
		.what = FI_RMA | (kind == HW_READ ? FI_READ : FI_WRITE),
		.context = msg->context,
		.imm = msg->data,
		.len = len,
		.quiet = quiet,
	};

	if (msg->rma_iov_count != 1 || msg->rma_iov[0].len != len ||
	    (kind == HW_READ && msg->iov_count > 1))
		return -FI_EINVAL;
	request.target = target(ep->sim, msg->rma_iov[0].key, msg->rma_iov[0].addr, len, access);
	if (!request.target)
		request.err = FI_EACCES;
	if (kind != HW_READ)
		return post_gathered(ep, &request, msg->msg_iov, msg->iov_count, flags);
	request.result = len ? msg->msg_iov[0].iov_base : NULL;
	return post(ep, &request, NULL, flags);
}

static uint64_t op_flags(struct fid_ep *fid)
{
	return sim_of(fid, struct sim_ep, fid)->op_flags;
}

static ssize_t rma_vector(struct fid_ep *fid, const struct iovec *iov, size_t count, uint64_t addr,
			  uint64_t key, uint64_t data, void *context, enum hw_kind kind,
			  uint64_t flags, bool quiet)
{
	struct fi_rma_iov rma_iov = {addr, gather(iov, count, NULL), key};
	struct fi_msg_rma msg = {iov, NULL, count, 0, &rma_iov, 1, context, data};

	return post_rma(fid, &msg, kind, flags, quiet);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t addr, uint64_t key, void *context)
{
	(void) src, (void) desc;
	return rma_vector(fid, &(struct iovec){buf, len}, 1, addr, key, 0, context, HW_READ,
			  op_flags(fid), false);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post_rma(fid, msg, HW_READ, flags & ~FI_FENCE, false);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	(void) dest, (void) desc;
	return rma_vector(fid, &(struct iovec){(void *) buf, len}, 1, addr, key, 0, context,
			  HW_WRITE, op_flags(fid), false);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	(void) dest, (void) desc;
	return rma_vector(fid, iov, count, addr, key, 0, context, HW_WRITE, op_flags(fid), false);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post_rma(fid, msg, HW_WRITE, flags, false);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	(void) dest, (void) desc;
	return rma_vector(fid, &(struct iovec){(void *) buf, len}, 1, addr, key, data, context,
			  HW_WRITE, op_flags(fid) | FI_REMOTE_CQ_DATA, false);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	(void) dest;
	return rma_vector(fid, &(struct iovec){(void *) buf, len}, 1, addr, key, 0, NULL, HW_WRITE,
			  0, true);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t addr, uint64_t key)
{
	(void) dest;
	return rma_vector(fid, &(struct iovec){(void *) buf, len}, 1, addr, key, data, NULL,
			  HW_WRITE, FI_REMOTE_CQ_DATA, true);
}

static struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};

/* Messages */

static ssize_t send_vector(struct fid_ep *fid, const struct iovec *iov, size_t count, uint64_t data,
			   void *context, uint64_t flags, bool quiet)
{
	struct hw_request request = {
		.kind = HW_SEND,
		.what = FI_MSG | FI_SEND,
		.context = context,
		.imm = data,
		.len = gather(iov, count, NULL),
		.quiet = quiet,
	};

	return post_gathered(sim_of(fid, struct sim_ep, fid), &request, iov, count, flags);
}

static ssize_t receive(struct fid_ep *fid, const struct iovec *iov, size_t count, void *context)
{
	struct sim_ep *ep = sim_of(fid, struct sim_ep, fid);
	struct hw_receive buffer = {.context = context};

	if (count > 1)
		return -FI_EINVAL;
	if (count) {
		buffer.buf = iov[0].iov_base;
		buffer.len = iov[0].iov_len;
	}
	return hw_receive(ep->port, &buffer) ? 0 : -FI_EAGAIN;
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			void *context)
{
	(void) src, (void) desc;
	return receive(fid, &(struct iovec){buf, len}, 1, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	(void) flags;
	return receive(fid, msg->msg_iov, msg->iov_count, msg->context);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
			void *context)
{
	(void) dest, (void) desc;
	return send_vector(fid, &(struct iovec){(void *) buf, len}, 1, 0, context, op_flags(fid),
			   false);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, void *context)
{
	(void) dest, (void) desc;
	return send_vector(fid, iov, count, 0, context, op_flags(fid), false);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return send_vector(fid, msg->msg_iov, msg->iov_count, msg->data, msg->context, flags,
			   false);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	(void) dest;
	return send_vector(fid, &(struct iovec){(void *) buf, len}, 1, 0, NULL, 0, true);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, void *context)
{
	(void) dest, (void) desc;
	return send_vector(fid, &(struct iovec){(void *) buf, len}, 1, data, context,
			   op_flags(fid) | FI_REMOTE_CQ_DATA, false);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest)
{
	(void) dest;
	return send_vector(fid, &(struct iovec){(void *) buf, len}, 1, data, NULL,
			   FI_REMOTE_CQ_DATA, true);
}

static struct fi_ops_msg msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

/* Atomics of 64-bit integers */

static uint64_t sum(uint64_t old, uint64_t operand, uint64_t compare)
{
	(void) compare;
	return old + operand;
}

static uint64_t swap_if_equal(uint64_t old, uint64_t operand, uint64_t compare)
{
	return old == compare ? operand : old;
}

static ssize_t post_atomic(struct fid_ep *fid, const struct fi_msg_atomic *msg,
			   const struct fi_ioc *compare, const struct fi_ioc *result,
			   uint64_t flags)
{
	struct sim_ep *ep = sim_of(fid, struct sim_ep, fid);
	struct hw_request request = {
		.kind = HW_ATOMIC,
		.what = FI_ATOMIC | (result ? FI_READ : FI_WRITE),
		.context = msg->context,
		.len = sizeof(uint64_t),
		.result = result ? result->addr : NULL,
	};

	if (msg->datatype != FI_UINT64 || msg->msg_iov[0].count != 1)
		return -FI_EOPNOTSUPP;
	switch (msg->op) {
	case FI_ATOMIC_WRITE:
		break;
	case FI_SUM:
		request.update = sum;
		break;
	case FI_CSWAP:
		request.update = swap_if_equal;
		memcpy(&request.compare, compare->addr, sizeof(request.compare));
		break;
	default:
		return -FI_EOPNOTSUPP;
	}
	request.target = target(ep->sim, msg->rma_iov[0].key, msg->rma_iov[0].addr,
				sizeof(uint64_t), FI_REMOTE_WRITE);
	if (!request.target)
		request.err = FI_EACCES;
	return post(ep, &request, msg->msg_iov[0].addr, flags);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return post_atomic(fid, msg, NULL, NULL, flags);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *result, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	(void) result_desc, (void) result_count;
	return post_atomic(fid, msg, NULL, result, flags);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *compare, void **compare_desc,
				   size_t compare_count, struct fi_ioc *result, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	(void) compare_desc, (void) compare_count, (void) result_desc, (void) result_count;
	return post_atomic(fid, msg, compare, result, flags);
}

static struct fi_ops_atomic atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.writemsg = atomic_writemsg,
	.readwritemsg = atomic_readwritemsg,
	.compwritemsg = atomic_compwritemsg,
};

/* Endpoints */

static int ep_close(struct fid *fid)
{
	struct sim_ep *ep = sim_of(fid, struct sim_ep, fid.fid);

	hw_port_close(ep->sim->hw, ep->port);
	ep->port->owner = NULL;
	free(ep);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct sim_ep *ep = sim_of(fid, struct sim_ep, fid.fid);

	if (bfid->fclass != FI_CLASS_CQ)
		return -FI_ENOSYS;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = sim_of(bfid, struct sim_cq, fid.fid);
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	if (flags & FI_RECV)
		ep->rx_cq = sim_of(bfid, struct sim_cq, fid.fid);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	(void) fid, (void) arg;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
};

static struct fi_ops_ep ep_ops = {.size = sizeof(struct fi_ops_ep)};

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct sim_ep *ep = sim_of(fid, struct sim_ep, fid);

	(void) flags;
	hw_port_close(ep->sim->hw, ep->port);
	return 0;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.shutdown = ep_shutdown,
};

static int domain_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep_fid,
			  void *context)
{
	struct sim_domain *domain = sim_of(fid, struct sim_domain, fid);
	struct sim_ep *ep = need(calloc(1, sizeof(*ep)));

	ep->sim = domain->sim;
	ep->port = hw_port(domain->sim->hw, domain->device, domain->sim->room);
	ep->port->owner = ep;
	ep->op_flags = info->tx_attr->op_flags;
	ep->fid = (struct fid_ep){
		.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fi_ops},
		.ops = &ep_ops,
		.cm = &cm_ops,
		.msg = &msg_ops,
		.rma = &rma_ops,
		.atomic = &atomic_ops,
	};
	*ep_fid = &ep->fid;
	return 0;
}

void sim_connect(struct fid_ep *one, struct fid_ep *other)
{
	hw_connect(sim_port(one), sim_port(other));
}

struct hw_port *sim_port(struct fid_ep *ep)
{
	return sim_of(ep, struct sim_ep, fid)->port;
}

/* Regions */

static int mr_close(struct fid *fid)
{
	struct sim_region *region = sim_of(fid, struct sim_region, fid.fid);
	struct sim_region **at = &region->sim->regions;

	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	free(region);
	return 0;
}

static struct fi_ops mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	struct sim *sim = sim_of(fid, struct sim_domain, fid.fid)->sim;
	struct sim_region *region;

	(void) flags;
	if (attr->iov_count != 1)
		return -FI_EINVAL;
	region = need(calloc(1, sizeof(*region)));
	region->sim = sim;
	region->access = attr->access;
	region->base = attr->mr_iov[0].iov_base;
	region->len = attr->mr_iov[0].iov_len;
	region->next = sim->regions;
	sim->regions = region;
	region->fid = (struct fid_mr){
		.fid = {.fclass = FI_CLASS_MR, .context = attr->context, .ops = &mr_fi_ops},
		.mem_desc = region,
		.key = ++sim->last_key,
	};
	*mr_fid = &region->fid;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr_fid, void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return mr_regattr(fid, &attr, flags, mr_fid);
}

static struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regattr = mr_regattr,
};

/* Domains and fabrics */

static int domain_close(struct fid *fid)
{
	free(sim_of(fid, struct sim_domain, fid.fid));
	return 0;
}

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.cq_open = domain_cq_open,
	.endpoint = domain_ep_open,
};

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info,
			 struct fid_domain **domain_fid, void *context)
{
	struct sim *sim = sim_of(fid, struct sim_fabric, fid)->sim;
	struct sim_domain *domain = need(calloc(1, sizeof(*domain)));

	(void) info;
	domain->sim = sim;
	domain->device = sim->devices++;
	domain->fid = (struct fid_domain){
		.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fi_ops},
		.ops = &domain_ops,
		.mr = &mr_ops,
	};
	*domain_fid = &domain->fid;
	return 0;
}

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = fabric_domain,
};

static int fabric_close(struct fid *fid)
{
	free(sim_of(fid, struct sim_fabric, fid.fid));
	return 0;
}

static struct fi_ops fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
};

int sim_fabric(struct sim *sim, struct fid_fabric **fid)
{
	struct sim_fabric *fabric = need(calloc(1, sizeof(*fabric)));

	fabric->sim = sim;
	fabric->fid = (struct fid_fabric){
		.fid = {.fclass = FI_CLASS_FABRIC, .ops = &fabric_fi_ops},
		.ops = &fabric_ops,
		.api_version = FI_VERSION(1, 17),
	};
	*fid = &fabric->fid;
	return 0;
}

struct sim *sim_new(const struct hw_rules *rules, unsigned int room)
{
	struct sim *sim = need(calloc(1, sizeof(*sim)));

	sim->hw = hw_new(rules);
	sim->hw->complete = complete;
	sim->room = room;
	return sim;
}

void sim_free(struct sim *sim)
{
	hw_free(sim->hw);
	free(sim);
}
