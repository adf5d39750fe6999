/* SPDX-License-Identifier: BSD-2-Clause */
/* pmemsim.c -- a core provider over the model; pmemsim.h says what it is like */
#include "pmemsim.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "hw_impl.h"
#include "pmemrdma/pmemrdma_post.h"
#include "testcore/ep.h"
#include "testcore/fid.h"

struct sim_fabric {
	struct fid_fabric fid;
	struct sim *sim;
};

struct sim_domain {
	struct fid_domain fid;
	struct sim *sim;
	unsigned int device;
};

struct sim_ep {
	struct testcore_ep core;
	struct sim *sim;
	struct hw_port *port;
};

static struct sim_ep *to_ep(struct fid_ep *fid)
{
	return testcore_of(fid, struct sim_ep, core.fid);
}

/* Completion queues */

static void complete(struct hw_port *port, const struct hw_event *event)
{
	const struct sim_ep *ep = port->owner;
	struct testcore_cq *cq = event->receive ? ep->core.rx_cq : ep->core.tx_cq;
	uint64_t data = event->receive && (event->what & FI_REMOTE_CQ_DATA) ? event->imm : 0;
	struct testcore_entry entry = {
		.err = event->err,
		.prov_errno = event->err,
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
	if (!cq)
		return;
	testcore_cq_add(cq, &entry);
	if (ep->sim->hw->changed) {
		ep->sim->hw->changed(cq, sizeof(*cq));
		ep->sim->hw->changed(cq->entries, cq->room * sizeof(cq->entries[0]));
	}
}

static int cq_close(struct fid *fid)
{
	struct testcore_cq *cq = testcore_of(fid, struct testcore_cq, fid.fid);

	testcore_cq_destroy(cq);
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
	struct testcore_cq *cq;

	(void) domain;
	/* Nothing ever happens while somebody sleeps. */
	if (attr->wait_obj != FI_WAIT_NONE || attr->format == FI_CQ_FORMAT_UNSPEC)
		return -FI_ENOSYS;
	cq = testcore_need(malloc(sizeof(*cq)));
	testcore_cq_init(cq, attr, &cq_fi_ops, context);
	*fid = &cq->fid;
	return 0;
}

/* Posting */

/* target -- where a request's remote range is; NULL: nowhere, or not for that */
static char *target(const struct sim *sim, const struct testcore_request *request, size_t len)
{
	uint64_t access = request->call <= TESTCORE_READMSG ? FI_REMOTE_READ : FI_REMOTE_WRITE;
	const struct testcore_mr *mr = testcore_mr_find(&sim->mrs, request->key);

	if (!mr || !(mr->access & access))
		return NULL;
	return testcore_mr_at(mr, request->addr - (uintptr_t) mr->iov[0].iov_base, len);
}

static int make_rma(struct hw_request *hw, const struct testcore_request *request)
{
	if (request->rma_count != 1 || request->rma_len != request->len)
		return -FI_EINVAL;
	if (request->what & FI_WRITE) {
		hw->kind = HW_WRITE;
		return 0;
	}
	if (request->iov_count > 1)
		return -FI_EINVAL;
	hw->kind = HW_READ;
	hw->result = request->len ? (char *) request->buf : NULL;
	return 0;
}

/* Atomics are of one 64-bit integer. */
static int make_atomic(struct hw_request *hw, const struct testcore_request *request)
{
	if (request->rma_count != 1 || request->rma_len != sizeof(uint64_t) ||
	    !testcore_update_of(request, &hw->update))
		return -FI_EOPNOTSUPP;
	hw->kind = HW_ATOMIC;
	hw->result = request->result;
	if (request->compare)
		memcpy(&hw->compare, request->compare, sizeof(hw->compare));
	return 0;
}

static int make(const struct sim *sim, struct hw_request *hw,
		const struct testcore_request *request)
{
	bool notifies = request->flags & FI_REMOTE_CQ_DATA;
	int ret;

	*hw = (struct hw_request){
		.kind = HW_SEND,
		.what = request->what | (notifies ? FI_REMOTE_CQ_DATA : 0),
		.context = request->context,
		.imm = request->data,
		.len = request->len,
		.quiet = request->injected,
		.fence = request->flags & FI_FENCE,
		.delivered = request->flags & FI_DELIVERY_COMPLETE,
		.reported = request->reported,
		.notifies = notifies || (request->what & FI_MSG),
		.note = sim->note,
	};
	if (request->what & FI_MSG)
		return 0;
	ret = request->what & FI_RMA ? make_rma(hw, request) : make_atomic(hw, request);
	if (ret)
		return ret;
	hw->target = target(sim, request, request->len);
	if (!hw->target)
		hw->err = FI_EACCES;
	return 0;
}

/* gather -- what a request sends, to be freed; a single number is taken from where it is */
static char *gather(const struct testcore_request *request)
{
	char *payload;

	if (!request->len || !(request->what & (FI_WRITE | FI_SEND)) || (request->what & FI_ATOMIC))
		return NULL;
	payload = testcore_need(malloc(request->len));
	testcore_gather(request, payload);
	return payload;
}

/* lacks_slots -- for so many more that the target has to keep, some of which may be FLUSHes */
static bool lacks_slots(const struct sim_ep *ep, unsigned int kept, bool flushes)
{
	const struct hw_port *port = ep->port;
	unsigned int under_way = 0;

	for (unsigned int i = port->completed; i < port->count; i++) {
		under_way += !hw_is_posted(port->queue[i]);
		flushes |= hw_is_extended(port->queue[i]);
	}
	return ep->sim->slots && kept && flushes && under_way + kept > ep->sim->slots;
}

static ssize_t transmit(struct sim_ep *ep, const struct testcore_request *request)
{
	struct sim *sim = ep->sim;
	struct hw_request hw;
	char *gathered;
	bool posted;
	int ret = make(sim, &hw, request);

	if (ret)
		return ret;
	if (ep->port->dead)
		return -FI_ENOTCONN;
	if (lacks_slots(ep, !hw_is_posted(&hw), false))
		return -FI_EAGAIN;
	gathered = gather(request);
	if (sim->filter)
		sim->filter(&hw, sim->filter_arg);
	posted = hw_post(ep->sim->hw, ep->port, &hw,
			 request->what & FI_ATOMIC ? request->buf : gathered);
	free(gathered);
	return posted ? 0 : -FI_EAGAIN;
}

static ssize_t receive(struct sim_ep *ep, const struct testcore_request *request)
{
	struct hw_receive buffer = {
		.buf = (char *) request->buf,
		.len = request->len,
		.context = request->context,
		.quiet = !request->reported,
	};

	if (request->iov_count > 1)
		return -FI_EINVAL;
	return hw_receive(ep->sim->hw, ep->port, &buffer) ? 0 : -FI_EAGAIN;
}

static ssize_t post(struct testcore_ep *core, const struct testcore_request *request)
{
	struct sim_ep *ep = testcore_of(core, struct sim_ep, core);

	return request->what & FI_RECV ? receive(ep, request) : transmit(ep, request);
}

/* Lists */

/* post_write -- of a list, whatever the queue is bound with: its success may be told to nobody */
static ssize_t post_write(struct fid_ep *fid, const struct pmemrdma_request *from)
{
	struct hw_port *port = to_ep(fid)->port;
	const struct fi_rma_iov to = {
		.addr = from->addr, .len = from->iov->iov_len, .key = from->key};
	const struct fi_msg_rma msg = {
		.msg_iov = from->iov,
		.desc = from->desc,
		.iov_count = from->iov_count,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = from->context,
	};

	ssize_t ret = fi_writemsg(fid, &msg, from->flags);

	if (!ret && port->count)
		port->queue[port->count - 1]->reported = from->flags & FI_COMPLETION;
	return ret;
}

/* post_extended -- what libfabric has no call for */
static ssize_t post_extended(struct sim_ep *ep, const struct pmemrdma_request *from,
			     struct hw_request hw)
{
	const struct testcore_mr *mr = testcore_mr_find(&ep->sim->mrs, from->key);

	hw.context = from->context;
	hw.reported = from->flags & FI_COMPLETION;
	hw.what = FI_RMA | (hw.reported ? FI_READ : FI_WRITE);
	hw.note = ep->sim->note;
	if (mr)
		hw.target =
			testcore_mr_at(mr, from->addr - (uintptr_t) mr->iov[0].iov_base, hw.len);
	if (!hw.target)
		hw.err = FI_EACCES;
	if (ep->port->dead)
		return -FI_ENOTCONN;
	if (ep->sim->filter)
		ep->sim->filter(&hw, ep->sim->filter_arg);
	return hw_post(ep->sim->hw, ep->port, &hw, from->iov ? from->iov->iov_base : NULL)
		       ? 0
		       : -FI_EAGAIN;
}

static ssize_t post_flush(struct sim_ep *ep, const struct pmemrdma_request *from)
{
	return post_extended(ep, from,
			     (struct hw_request){
				     .kind = HW_FLUSH,
				     .len = (size_t) from->len,
				     .persists = from->flush & PMEMRDMA_FLUSH_PERSISTENT,
			     });
}

/* post_atomic_write -- of others than 8 aligned bytes it is only a WRITE */
static ssize_t post_atomic_write(struct sim_ep *ep, const struct pmemrdma_request *from)
{
	size_t len = from->iov->iov_len;
	bool atomic = len == sizeof(uint64_t) && from->addr % sizeof(uint64_t) == 0;

	return post_extended(ep, from,
			     (struct hw_request){
				     .kind = atomic ? HW_ATOMIC_WRITE : HW_WRITE,
				     .fence = from->flags & FI_FENCE,
				     .len = len,
			     });
}

static ssize_t post_of_list(struct fid_ep *fid, const struct pmemrdma_request *from)
{
	switch (from->kind) {
	case PMEMRDMA_FLUSH:
		return post_flush(to_ep(fid), from);
	case PMEMRDMA_ATOMIC_WRITE:
		return post_atomic_write(to_ep(fid), from);
	default:
		return post_write(fid, from);
	}
}

static ssize_t post_list(struct fid_ep *fid, const struct pmemrdma_request *requests, size_t count)
{
	struct sim_ep *ep = to_ep(fid);
	unsigned int kept = 0;
	size_t n = 0;

	if (!count)
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++)
		kept += requests[i].kind >= PMEMRDMA_FLUSH;
	if (lacks_slots(ep, kept, true) || ep->port->posted + count > ep->port->room ||
	    ep->port->count + count > HW_MAX_QUEUE)
		return -FI_EAGAIN;
	for (; n < count; n++) {
		ssize_t ret = post_of_list(fid, &requests[n]);

		if (ret)
			return n ? (ssize_t) n : ret;
	}
	return (ssize_t) n;
}

static unsigned flushes(struct fid_ep *fid)
{
	return PMEMRDMA_FLUSH_GLOBAL | PMEMRDMA_FLUSH_PERSISTENT |
	       (to_ep(fid)->sim->atomic_writes ? PMEMRDMA_ATOMIC_WRITES : 0U);
}

static const struct pmemrdma_post_ops lists = {
	.size = sizeof(lists), .post = post_list, .flushes = flushes};

static int ep_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void) fid;
	(void) flags;
	(void) context;
	if (strcmp(name, PMEMRDMA_POST_OPS_V3) != 0)
		return -FI_ENOSYS;
	*ops = (void *) &lists;
	return 0;
}

/* Endpoints */

static int ep_close(struct fid *fid)
{
	struct sim_ep *ep = testcore_of(fid, struct sim_ep, core.fid.fid);

	hw_port_close(ep->sim->hw, ep->port);
	ep->port->owner = NULL;
	free(ep);
	return 0;
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = testcore_ep_bind,
	.control = testcore_ep_control,
	.ops_open = ep_ops_open,
};

static struct fi_ops_ep ep_ops = {.size = sizeof(struct fi_ops_ep)};

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct sim_ep *ep = to_ep(fid);

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
	struct sim_domain *domain = testcore_of(fid, struct sim_domain, fid);
	struct sim_ep *ep = testcore_need(calloc(1, sizeof(*ep)));

	ep->sim = domain->sim;
	ep->port = hw_port(domain->sim->hw, domain->device, domain->sim->room);
	ep->port->owner = ep;
	testcore_ep_init(&ep->core, info, &ep_fi_ops, context, post);
	ep->core.fid.ops = &ep_ops;
	ep->core.fid.cm = &cm_ops;
	*ep_fid = &ep->core.fid;
	return 0;
}

void sim_connect(struct fid_ep *one, struct fid_ep *other)
{
	hw_connect(sim_port(one), sim_port(other));
}

struct hw_port *sim_port(struct fid_ep *ep)
{
	return to_ep(ep)->port;
}

/* Regions */

static int mr_close(struct fid *fid)
{
	struct testcore_mr *mr = testcore_of(fid, struct testcore_mr, fid.fid);

	testcore_mr_destroy(mr);
	free(mr);
	return 0;
}

static struct fi_ops mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	struct sim *sim = testcore_of(fid, struct sim_domain, fid.fid)->sim;
	struct testcore_mr *mr;

	(void) flags;
	if (attr->iov_count != 1)
		return -FI_EINVAL;
	mr = testcore_need(malloc(sizeof(*mr)));
	testcore_mr_init(mr, &sim->mrs, attr, ++sim->last_key, &mr_fi_ops);
	*mr_fid = &mr->fid;
	return 0;
}

static struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = testcore_mr_reg,
	.regattr = mr_regattr,
};

/* Domains and fabrics */

static int domain_close(struct fid *fid)
{
	free(testcore_of(fid, struct sim_domain, fid.fid));
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
	struct sim *sim = testcore_of(fid, struct sim_fabric, fid)->sim;
	struct sim_domain *domain = testcore_need(calloc(1, sizeof(*domain)));

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
	free(testcore_of(fid, struct sim_fabric, fid.fid));
	return 0;
}

static struct fi_ops fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
};

int sim_fabric(struct sim *sim, struct fid_fabric **fid)
{
	struct sim_fabric *fabric = testcore_need(calloc(1, sizeof(*fabric)));

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
	struct sim *sim = testcore_need(calloc(1, sizeof(*sim)));

	LIST_INIT(&sim->mrs);
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
