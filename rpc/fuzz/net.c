/* SPDX-License-Identifier: BSD-2-Clause */
/* net.c -- a libfabric without a network; net.h says what it does */
#include "net_objects.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "testcore/fid.h"

#define SIZE 16

struct net net;

int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info);
int __wrap_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

static struct net_ep *to_ep(struct fid_ep *fid)
{
	return testcore_of(fid, struct net_ep, core.fid);
}

int net_get_wait(int fd, int command, void *arg)
{
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	*(int *) arg = fd;
	return 0;
}

/* Completion queues */

static struct net_cq *to_cq(struct fid *fid)
{
	return testcore_of(fid, struct net_cq, core.fid.fid);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	ssize_t ret = testcore_cq_read(fid, buf, count);

	if (ret == -FI_EAGAIN && net.on_idle)
		net.on_idle(0);
	return ret;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	ssize_t ret = testcore_cq_read(fid, buf, count);

	(void) cond;
	if (ret != -FI_EAGAIN)
		return ret;
	if (net.on_idle)
		net.on_idle(timeout);
	return testcore_cq_read(fid, buf, count);
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readerr = testcore_cq_readerr,
	.sread = cq_sread,
};

static int cq_close(struct fid *fid)
{
	struct net_cq *cq = to_cq(fid);

	close(cq->fd);
	testcore_cq_destroy(&cq->core);
	free(cq);
	net.objects--;
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	return net_get_wait(to_cq(fid)->fd, command, arg);
}

static struct fi_ops cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.control = cq_control,
};

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
			  void *context)
{
	struct net_cq *cq = testcore_need(calloc(1, sizeof(*cq)));

	(void) domain;
	testcore_cq_init(&cq->core, attr, &cq_fi_ops, context);
	cq->core.fid.ops = &cq_ops;
	cq->fd = eventfd(0, EFD_CLOEXEC);
	*fid = &cq->core.fid;
	net.objects++;
	return 0;
}

/* Requests */

static void add(struct testcore_request **list, size_t *count,
		const struct testcore_request *request)
{
	*list = testcore_need(realloc(*list, (*count + 1) * sizeof(**list)));
	(*list)[(*count)++] = *request;
}

static struct testcore_request take(struct testcore_request *list, size_t *count)
{
	struct testcore_request first = list[0];

	--*count;
	memmove(list, list + 1, *count * sizeof(*list));
	return first;
}

static ssize_t post(struct testcore_ep *core, const struct testcore_request *request)
{
	struct net_ep *ep = testcore_of(core, struct net_ep, core);

	if (request->what & FI_RECV) {
		add(&ep->receives, &ep->num_receives, request);
		return 0;
	}
	if (net.no_commit && (request->flags & FI_COMMIT_COMPLETE))
		return net.no_commit;
	if (ep->num_transmits >= net.room)
		return -FI_EAGAIN;
	if (net.on_transmit)
		net.on_transmit(ep, request);
	add(&ep->transmits, &ep->num_transmits, request);
	return 0;
}

static void report(struct testcore_cq *cq, const struct testcore_request *request, uint64_t flags,
		   size_t len, uint64_t data, int err)
{
	struct testcore_entry entry = {.err = err, .prov_errno = err};

	entry.ok.op_context = request ? request->context : NULL;
	entry.ok.flags = flags;
	entry.ok.len = len;
	entry.ok.data = data;
	testcore_cq_add(cq, &entry);
}

bool net_deliver(struct net_ep *ep, const void *data, size_t len)
{
	struct testcore_request receive;

	if (!ep->num_receives)
		return false;
	receive = take(ep->receives, &ep->num_receives);
	if (len > receive.len)
		len = receive.len;
	testcore_scatter(&receive, data, len);
	report(ep->core.rx_cq, &receive, FI_MSG | FI_RECV, len, 0, 0);
	return true;
}

bool net_notice(struct net_ep *ep, uint64_t data, bool uses)
{
	uint64_t flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
	struct testcore_request receive;

	if (!uses) {
		report(ep->core.rx_cq, NULL, flags, 0, data, 0);
		return true;
	}
	if (!ep->num_receives)
		return false;
	receive = take(ep->receives, &ep->num_receives);
	report(ep->core.rx_cq, &receive, flags, 0, data, 0);
	return true;
}

bool net_complete(struct net_ep *ep, int err)
{
	struct testcore_request request;

	if (!ep->num_transmits)
		return false;
	request = take(ep->transmits, &ep->num_transmits);
	if (err || request.reported)
		report(ep->core.tx_cq, &request, request.what, 0, 0, err);
	return true;
}

/* Endpoints */

static int ep_close(struct fid *fid)
{
	struct net_ep *ep = testcore_of(fid, struct net_ep, core.fid.fid), **at = &net.eps;

	while (*at != ep)
		at = &(*at)->next;
	*at = ep->next;
	free(ep->transmits);
	free(ep->receives);
	free(ep);
	net.objects--;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct net_ep *ep = testcore_of(fid, struct net_ep, core.fid.fid);

	if (bfid->fclass == FI_CLASS_EQ)
		ep->eq = testcore_of(bfid, struct fid_eq, fid);
	return testcore_ep_bind(fid, bfid, flags);
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = testcore_ep_control,
};

static int ep_connect(struct fid_ep *fid, const void *addr, const void *param, size_t len)
{
	(void) addr, (void) param, (void) len;
	if (net.refusals) {
		net.refusals--;
		net_fail(to_ep(fid)->eq, &fid->fid, net.refusal, strlen(net.refusal) + 1);
		return 0;
	}
	/* Who waits for the answer is idle: it may be another one. */
	net_raise(to_ep(fid)->eq, FI_CONNECTED, &fid->fid, NULL, NULL, 0);
	return 0;
}

static int ep_accept(struct fid_ep *fid, const void *param, size_t len)
{
	(void) fid, (void) param, (void) len;
	return 0;
}

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	(void) fid, (void) flags;
	return 0;
}

static int ep_setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
	(void) fid, (void) level, (void) name, (void) value, (void) len;
	return 0;
}

static int ep_getopt(struct fid *fid, int level, int name, void *value, size_t *len)
{
	struct fi_pmemverbs_peer peer = {0};

	(void) fid;
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_PMEMVERBS_PEER || *len < sizeof(peer))
		return -FI_ENOPROTOOPT;
	if (!net.rights)
		return -FI_ENODATA;
	strcpy(peer.name, net.name ? net.name : "somebody");
	strcpy(peer.rights, net.rights);
	memcpy(value, &peer, sizeof(peer));
	return 0;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.getopt = ep_getopt,
	.setopt = ep_setopt,
};

static struct fi_ops_cm ep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.connect = ep_connect,
	.accept = ep_accept,
	.shutdown = ep_shutdown,
};

static int domain_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
			   void *context)
{
	struct net_ep *ep = testcore_need(calloc(1, sizeof(*ep)));

	testcore_ep_init(&ep->core, info, &ep_fi_ops, context, post);
	ep->core.fid.cm = &ep_cm_ops;
	ep->core.fid.ops = &ep_ops;
	ep->domain = testcore_of(domain, struct net_domain, fid);
	ep->number = net.opened++;
	ep->next = net.eps;
	net.eps = ep;
	*fid = &ep->core.fid;
	net.objects++;
	return 0;
}

/* Domains */

static int mr_close(struct fid *fid)
{
	struct testcore_mr *mr = testcore_of(fid, struct testcore_mr, fid.fid);

	testcore_mr_destroy(mr);
	free(mr);
	net.objects--;
	return 0;
}

static struct fi_ops mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	struct net_domain *domain = testcore_of(fid, struct net_domain, fid.fid);
	struct testcore_mr *mr = testcore_need(malloc(sizeof(*mr)));
	static uint64_t last_key;

	(void) flags;
	testcore_mr_init(mr, &domain->mrs, attr, ++last_key, &mr_fi_ops);
	*mr_fid = &mr->fid;
	net.objects++;
	return 0;
}

static struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = testcore_mr_reg,
	.regattr = mr_regattr,
};

static int domain_close(struct fid *fid)
{
	free(testcore_of(fid, struct net_domain, fid.fid));
	net.objects--;
	return 0;
}

/* What pmemverbs says of memory: here all of it is the same. */

static int query(struct fid_ep *fid, struct fi_pmemverbs_region *region)
{
	(void) fid;
	*region = (struct fi_pmemverbs_region){
		.domain = FI_PMEMVERBS_MHP, .method = net.method, .relaxed = net.relaxed};
	return 0;
}

static int query_key(struct fid_ep *fid, uint64_t key, struct fi_pmemverbs_region *region)
{
	(void) key;
	return net.no_key ? net.no_key : query(fid, region);
}

static int domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
			   void *context)
{
	static struct fi_pmemverbs_ops own = {.query_key = query_key, .query_messages = query};

	(void) fid, (void) flags, (void) context;
	if (strcmp(name, FI_PMEMVERBS_OPS))
		return -FI_ENOSYS;
	own.size = net.ops_len ? net.ops_len : sizeof(own);
	*ops = &own;
	return 0;
}

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.ops_open = domain_ops_open,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.cq_open = domain_cq_open,
	.endpoint = domain_endpoint,
};

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **fid,
			 void *context)
{
	struct net_domain *domain = testcore_need(calloc(1, sizeof(*domain)));

	(void) fabric, (void) info;
	LIST_INIT(&domain->mrs);
	domain->fid = (struct fid_domain){
		.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fi_ops},
		.ops = &domain_ops,
		.mr = &mr_ops,
	};
	*fid = &domain->fid;
	net.objects++;
	return 0;
}

/* The fabric */

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void) fabric, (void) fids, (void) count;
	return 0;
}

static int fabric_close(struct fid *fid)
{
	(void) fid;
	net.objects--;
	return 0;
}

static struct fi_ops fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = fabric_domain,
	.passive_ep = net_passive_ep,
	.eq_open = net_eq_open,
	.trywait = fabric_trywait,
};

int __wrap_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fid, void *context)
{
	static struct fid_fabric fabric = {
		.fid = {.fclass = FI_CLASS_FABRIC, .ops = &fabric_fi_ops},
		.ops = &fabric_ops,
	};

	(void) attr;
	fabric.fid.context = context;
	fabric.api_version = FI_VERSION(1, 17);
	*fid = &fabric;
	net.objects++;
	return 0;
}

struct fi_info *net_info(void)
{
	struct fi_info *info = testcore_need(fi_allocinfo());

	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	info->tx_attr->size = SIZE;
	info->rx_attr->size = SIZE;
	return info;
}

int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info)
{
	(void) version, (void) node, (void) service, (void) flags, (void) hints;
	*info = net_info();
	return 0;
}
