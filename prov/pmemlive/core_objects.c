/* SPDX-License-Identifier: BSD-2-Clause */
/* core_objects.c -- the simulated core's objects and their calls */
#include "core.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "scheduler.h"
#include "testcore/fid.h"

/* Completion queues */

static struct core_cq *to_cq(struct fid *fid)
{
	return testcore_of(fid, struct core_cq, core.fid.fid);
}

static bool has_ep(const struct core_cq *cq, const struct core_ep *ep)
{
	return core_rules.moves_all || ep->core.tx_cq == &cq->core || ep->core.rx_cq == &cq->core;
}

static bool cq_is_ready(void *arg)
{
	const struct core_cq *cq = arg;
	const struct core_ep *ep;

	if (cq->signalled)
		return true;
	if (core_rules.nic)
		return false;
	TAILQ_FOREACH(ep, &cq->domain->eps, next)
	{
		if (has_ep(cq, ep) && core_is_ready(ep))
			return true;
	}
	return false;
}

static uint64_t cq_edges(void *arg)
{
	const struct core_cq *cq = arg;
	uint64_t edges = cq->signals + cq->domain->past_edges;
	const struct core_ep *ep;

	if (core_rules.nic)
		return edges;
	TAILQ_FOREACH(ep, &cq->domain->eps, next)
	{
		if (has_ep(cq, ep))
			edges += core_edges(ep);
	}
	return edges;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct core_cq *cq = to_cq(&fid->fid);
	ssize_t ret;

	sched_step();
	core_move(cq->domain, cq);
	ret = testcore_cq_read(fid, buf, count);
	sched_step();
	return ret;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	(void) fid, (void) prov_errno, (void) err_data, (void) buf, (void) len;
	return "simulated";
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readerr = testcore_cq_readerr,
	.strerror = cq_strerror,
};

static int cq_close(struct fid *fid)
{
	struct core_cq *cq = to_cq(fid);

	if (cq->fd >= 0)
		close(cq->fd);
	cq->domain->open_objects--;
	testcore_cq_destroy(&cq->core);
	free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	const struct core_cq *cq = to_cq(fid);

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *) arg = cq->fd < 0 ? FI_WAIT_NONE : FI_WAIT_FD;
		return 0;
	}
	if (command != FI_GETWAIT || cq->fd < 0)
		return -FI_ENOSYS;
	*(int *) arg = cq->fd;
	return 0;
}

static struct fi_ops cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.control = cq_control,
};

static struct core_domain *to_domain(struct fid_domain *domain)
{
	return testcore_of(domain, struct core_domain, domain);
}

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
		   void *context)
{
	struct core_cq *cq = testcore_need(calloc(1, sizeof(*cq)));

	testcore_cq_init(&cq->core, attr, &cq_fi_ops, context);
	cq->core.fid.ops = &cq_ops;
	cq->domain = to_domain(domain);
	cq->domain->open_objects++;
	cq->descriptor = (struct descriptor_core){cq_is_ready, cq_edges, NULL, cq};
	cq->fd = attr->wait_obj == FI_WAIT_NONE ? -1 : descriptors_add(&cq->descriptor);
	*fid = &cq->core.fid;
	return 0;
}

/* trywait_cq -- in tcp 1.17 it moves data; in 2.1 it does not, and leaves the signal of an entry */
static int trywait_cq(struct core_cq *cq)
{
	if (core_rules.moves_all && cq->core.count)
		return -FI_EAGAIN;
	cq->signalled = false;
	cq->armed = true;
	if (!core_rules.moves_all)
		core_move(cq->domain, cq);
	return cq->core.count ? -FI_EAGAIN : 0;
}

/* Endpoints */

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct core_ep *ep = core_to_ep(&fid->fid);

	(void) flags;
	sched_step();
	core_cut(fid, false);
	core_end(ep, true);
	return 0;
}

/* name -- all are on this machine, and have a port each, where they are sockets */
static int name(const struct core_ep *ep, void *addr, size_t *addrlen)
{
	const struct sockaddr_in here = {
		.sin_family = AF_INET,
		.sin_port = htons(ep ? (uint16_t) ep->socket.cookie : 0),
		.sin_addr.s_addr = htonl(ep && ep->domain->ip ? ep->domain->ip : INADDR_LOOPBACK)};

	memcpy(addr, &here, *addrlen < sizeof(here) ? *addrlen : sizeof(here));
	*addrlen = sizeof(here);
	return 0;
}

static int ep_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	return name(core_to_ep(fid), addr, addrlen);
}

static int ep_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	const struct core_ep *ep = core_to_ep(&fid->fid);

	if (!ep->called.sin_port)
		return name(ep->peer, addr, addrlen);
	memcpy(addr, &ep->called, *addrlen < sizeof(ep->called) ? *addrlen : sizeof(ep->called));
	*addrlen = sizeof(ep->called);
	return 0;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.getname = ep_getname,
	.getpeer = ep_getpeer,
	.connect = core_cm_connect,
	.accept = core_accept,
	.shutdown = ep_shutdown,
};

/* leave -- others know it no more */
static void leave(struct core_ep *ep)
{
	core_hang_up_call(ep);
	core_cm_forget(ep);
	core_end(ep, false);
	tcp_close(ep);
	if (ep->peer)
		ep->peer->peer = NULL;
	TAILQ_REMOVE(&ep->domain->eps, ep, next);
}

static int ep_close(struct fid *fid)
{
	struct core_ep *ep = core_to_ep(fid);

	sched_step();
	if (!ep->dead)
		core_cut(&ep->core.fid, false);
	leave(ep);
	if (ep->eq)
		core_eq_forget(ep->eq, fid);
	ep->domain->past_edges += core_edges(ep);
	ep->domain->open_objects--;
	free(ep);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	if (bfid->fclass == FI_CLASS_EQ)
		core_to_ep(fid)->eq = testcore_of(bfid, struct core_eq, fid.fid);
	if (bfid->fclass == FI_CLASS_SRX_CTX) {
		core_to_ep(fid)->srx = core_to_ep(bfid);
		return 0;
	}
	return testcore_ep_bind(fid, bfid, flags);
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = testcore_ep_control,
};

static int ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
		   void *context)
{
	struct core_ep *ep = testcore_need(calloc(1, sizeof(*ep)));

	testcore_ep_init(&ep->core, info, &ep_fi_ops, context, core_post);
	ep->core.fid.cm = &cm_ops;
	ep->core.fid.ops = &core_ep_ops;
	/* tcp has none. */
	if (!core_rules.nic)
		ep->core.fid.atomic = NULL;
	ep->domain = to_domain(domain);
	ep->domain->open_objects++;
	core_take_request(ep, info);
	ep->unanswered_ns = SCHED_NEVER;
	STAILQ_INIT(&ep->receives);
	STAILQ_INIT(&ep->sent);
	STAILQ_INIT(&ep->answers);
	STAILQ_INIT(&ep->out);
	STAILQ_INIT(&ep->in);
	TAILQ_INSERT_TAIL(&ep->domain->eps, ep, next);
	*fid = &ep->core.fid;
	return 0;
}

/* Memory regions */

struct core_mr {
	struct testcore_mr core;
	struct core_domain *domain;
};

static int mr_close(struct fid *fid)
{
	struct core_mr *mr = testcore_of(fid, struct core_mr, core.fid.fid);

	sched_step();
	testcore_mr_destroy(&mr->core);
	mr->domain->open_objects--;
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
	static uint64_t last_key = 0x1000;
	struct core_mr *mr = testcore_need(malloc(sizeof(*mr)));

	(void) flags;
	mr->domain = testcore_of(fid, struct core_domain, domain.fid);
	mr->domain->open_objects++;
	testcore_mr_init(&mr->core, &mr->domain->mrs, attr, ++last_key, &mr_fi_ops);
	*mr_fid = &mr->core.fid;
	return 0;
}

static struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = testcore_mr_reg,
	.regattr = mr_regattr,
};

/* The domain, the fabric */

static int domain_close(struct fid *fid)
{
	testcore_of(fid, struct core_domain, domain.fid)->open_objects--;
	return 0;
}

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.cq_open = cq_open,
	.endpoint = ep_open,
	.srx_ctx = core_srx_open,
};

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **fid,
			 void *context)
{
	struct core_domain *core = testcore_of(fabric, struct core_domain, fabric);

	(void) info;
	core->open_objects++;
	core->domain = (struct fid_domain){
		.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fi_ops},
		.ops = &domain_ops,
		.mr = &mr_ops,
	};
	*fid = &core->domain;
	return 0;
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	int ret = 0;

	(void) fabric;
	sched_step();
	for (int i = 0; i < count && !ret; i++) {
		if (fids[i]->fclass == FI_CLASS_CQ)
			ret = trywait_cq(to_cq(fids[i]));
		else
			ret = core_eq_trywait(fids[i]);
	}
	sched_step();
	return ret;
}

static int fabric_close(struct fid *fid)
{
	(void) fid;
	return 0;
}

static struct fi_ops fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = fabric_domain,
	.passive_ep = core_pep_open,
	.eq_open = core_eq_open,
	.trywait = fabric_trywait,
};

void core_open(struct core_domain *core)
{
	*core = (struct core_domain){
		.fabric = {.fid = {.fclass = FI_CLASS_FABRIC, .ops = &fabric_fi_ops},
			   .ops = &fabric_ops},
	};
	TAILQ_INIT(&core->eps);
	core_register(core);
}

void core_kill(struct core_domain *core)
{
	struct core_ep *ep;

	core_pep_kill(core);
	while ((ep = TAILQ_FIRST(&core->eps))) {
		core_hang_up(ep->peer, sched_one_in(2));
		leave(ep);
	}
}

void core_close(struct core_domain *core)
{
	if (core->open_objects)
		sched_fail("%d objects of the core were not closed", core->open_objects);
}
