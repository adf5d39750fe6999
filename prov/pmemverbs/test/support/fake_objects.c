/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_objects.c -- the fake core's queues, endpoints, regions, domain and fabric */
#include "fake_core.h"

#include <errno.h>
#include <stdatomic.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "fake_impl.h"
#include "signal_pair.h"
#include "testcore/fid.h"

/* Completion queues */

struct fake_cq *fake_to_cq(struct fid *fid)
{
	return testcore_of(fid, struct fake_cq, core.fid.fid);
}

void fake_cq_add(struct testcore_cq *core, const struct testcore_entry *entry)
{
	const struct fake_cq *cq = fake_to_cq(&core->fid.fid);
	const uint64_t one = 1;

	testcore_cq_add(core, entry);
	if (cq->fd >= 0 && write(cq->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct fake *fake = fake_to_cq(&fid->fid)->fake;
	ssize_t ret;

	pthread_mutex_lock(&fake->lock);
	fake->cq_reads++;
	ret = testcore_cq_read(fid, buf, count);
	pthread_mutex_unlock(&fake->lock);
	return ret;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct fake *fake = fake_to_cq(&fid->fid)->fake;
	ssize_t ret;

	pthread_mutex_lock(&fake->lock);
	ret = testcore_cq_readerr(fid, buf, flags);
	pthread_mutex_unlock(&fake->lock);
	return ret;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	(void) fid, (void) prov_errno, (void) err_data, (void) buf, (void) len;
	return "fake";
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readerr = cq_readerr,
	.strerror = cq_strerror,
};

/* close_fails -- is it this one's turn? */
static bool close_fails(struct fake *fake)
{
	return fake->close_fails_in && !--fake->close_fails_in;
}

static int cq_close(struct fid *fid)
{
	struct fake_cq *cq = fake_to_cq(fid);

	if (close_fails(cq->fake))
		return -FI_EIO;
	if (cq->fd >= 0)
		close(cq->fd);
	if (cq->pair[1]) {
		close(cq->pair[0]);
		close(cq->pair[1]);
	}
	cq->fake->open_objects--;
	testcore_cq_destroy(&cq->core);
	free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	const struct fake_cq *cq = fake_to_cq(fid);

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

/* open_pair -- a descriptor as libfabric's tcp has */
static int open_pair(struct fake_cq *cq)
{
	struct signal_pair pair;

	signal_pair_open(&pair);
	cq->pair[0] = pair.fds[0];
	cq->pair[1] = pair.fds[1];
	return pair.epoll_fd;
}

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
			  void *context)
{
	struct fake *fake = testcore_of(domain, struct fake, domain);
	struct fake_cq *cq;
	int ret = fake_may_open(fake);

	if (ret)
		return ret;
	if (fake->max_cq_size && attr->size > fake->max_cq_size)
		return -FI_EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	testcore_cq_init(&cq->core, attr, &cq_fi_ops, context);
	cq->core.fid.ops = &cq_ops;
	cq->fake = fake;
	cq->fd = attr->wait_obj == FI_WAIT_NONE ? -1
		 : fake->paired                 ? open_pair(cq)
						: eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fake->cq_size = attr->size;
	fake->open_objects++;
	*fid = &cq->core.fid;
	return 0;
}

/* Endpoints */

struct fake_ep *fake_to_ep(struct fid *fid)
{
	return testcore_of(fid, struct fake_ep, core.fid.fid);
}

static ssize_t ep_cancel(struct fid *fid, void *context)
{
	struct fake_ep *ep = fake_to_ep(fid);
	struct fake *fake = ep->fake;
	ssize_t ret = -FI_ENOENT;

	pthread_mutex_lock(&fake->lock);
	for (size_t i = fake->first_open; ret && i < fake->num_posts; i++) {
		struct fake_post *post = &fake->posts[i];

		if (post->ep != ep || post->state != FAKE_UNDER_WAY || !(post->op.what & FI_RECV) ||
		    post->op.context != context)
			continue;
		fake_end(post, FI_ECANCELED, FI_ECANCELED);
		ret = 0;
	}
	pthread_mutex_unlock(&fake->lock);
	return ret;
}

static int ep_getopt(struct fid *fid, int level, int optname, void *optval, size_t *optlen)
{
	const size_t room = sizeof(((struct fake *) NULL)->sent);

	(void) fid;
	if (level != FI_OPT_ENDPOINT || optname != FI_OPT_CM_DATA_SIZE || *optlen < sizeof(room))
		return -FI_ENOPROTOOPT;
	memcpy(optval, &room, sizeof(room));
	*optlen = sizeof(room);
	return 0;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
};

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	(void) flags;
	fake_to_ep(&fid->fid)->fake->shutdowns++;
	return 0;
}

/* All peers are on this machine. */
static int ep_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	const struct sockaddr_in here = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void) fid;
	memcpy(addr, &here, *addrlen < sizeof(here) ? *addrlen : sizeof(here));
	*addrlen = sizeof(here);
	return 0;
}

/* send_cm -- the room that tcp has */
static int send_cm(struct fake *fake, const void *param, size_t len)
{
	if (len > sizeof(fake->sent))
		return -FI_EINVAL;
	fake->sent_len = len;
	if (len)
		memcpy(fake->sent, param, len);
	return 0;
}

/* ep_getname -- of a port that is somebody else's */
static int ep_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	const struct sockaddr_in name = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
					 .sin_port = htons(FAKE_PORT)};

	(void) fid;
	memcpy(addr, &name, *addrlen < sizeof(name) ? *addrlen : sizeof(name));
	*addrlen = sizeof(name);
	return 0;
}

static int ep_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	struct fake *fake = fake_to_ep(&fid->fid)->fake;

	(void) addr;
	fake->connects++;
	return send_cm(fake, param, paramlen);
}

static int ep_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct fake *fake = fake_to_ep(&fid->fid)->fake;

	fake->accepts++;
	return send_cm(fake, param, paramlen);
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.getpeer = ep_getpeer,
	.getname = ep_getname,
	.connect = ep_connect,
	.accept = ep_accept,
	.shutdown = ep_shutdown,
};

static int ep_close(struct fid *fid)
{
	struct fake_ep *ep = fake_to_ep(fid);
	struct fake *fake = ep->fake;

	if (fake->on_close == FAKE_CLOSE_IS_BUSY)
		return -FI_EBUSY;
	pthread_mutex_lock(&fake->lock);
	for (size_t i = fake->first_open; i < fake->num_posts; i++) {
		struct fake_post *post = &fake->posts[i];

		if (post->ep != ep || post->state != FAKE_UNDER_WAY)
			continue;
		if (fake->on_close == FAKE_CLOSE_CANCELS)
			fake_end(post, FI_ECANCELED, FI_ECANCELED);
		else
			post->state = FAKE_FORGOTTEN;
	}
	ep->closed = true;
	pthread_mutex_lock(&fake_network);
	if (ep->peer)
		ep->peer->peer = NULL;
	ep->peer = NULL;
	pthread_mutex_unlock(&fake_network);
	fake->open_objects--;
	pthread_mutex_unlock(&fake->lock);
	return 0;
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = testcore_ep_bind,
	.control = testcore_ep_control,
};

/* fits_domain -- verbs, too, wants no more for an endpoint than for its domain */
static bool fits_domain(const struct fi_info *info, const struct fi_info *domain)
{
	return !(info->tx_attr->caps & ~(domain->caps | domain->tx_attr->caps)) &&
	       !(info->rx_attr->caps & ~(domain->caps | domain->rx_attr->caps)) &&
	       info->tx_attr->size <= domain->tx_attr->size;
}

static int domain_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
			  void *context)
{
	struct fake *fake = testcore_of(domain, struct fake, domain);
	int ret = fake_may_open(fake);
	struct fake_ep *ep;

	if (ret)
		return ret;
	if (!fits_domain(info, fake->domain_info))
		return -FI_ENODATA;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	testcore_ep_init(&ep->core, info, &ep_fi_ops, context, fake_post_request);
	ep->core.fid.ops = &ep_ops;
	ep->core.fid.cm = &cm_ops;
	fi_freeinfo(fake->ep_info);
	fake->ep_info = fi_dupinfo(info);
	fake->open_objects++;
	ep->fake = fake;
	ep->next = fake->eps;
	fake->eps = ep;
	*fid = &ep->core.fid;
	return 0;
}

/* Memory regions */

static int mr_close(struct fid *fid)
{
	struct fake_mr *mr = testcore_of(fid, struct fake_mr, core.fid.fid);
	struct fake *fake = mr->fake;

	if (close_fails(fake))
		return -FI_EIO;
	if (fake->on_mr_close)
		fake->on_mr_close(fake, mr->core.fid.key, fake->on_mr_close_arg);
	pthread_mutex_lock(&fake_network);
	testcore_mr_destroy(&mr->core);
	pthread_mutex_unlock(&fake_network);
	fake->open_objects--;
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
	/* No two regions of any core have the same key, nor one of those that tests make up. */
	static atomic_uint last_key = 0x1000;
	struct fake *fake = testcore_of(fid, struct fake, domain.fid);
	int ret = fake_may_open(fake);
	bool chosen =
		!(fake->domain_info->domain_attr->mr_mode & FI_MR_PROV_KEY) && attr->requested_key;
	uint64_t key = chosen ? attr->requested_key : ++last_key;
	struct fake_mr *mr;

	(void) flags;
	if (ret)
		return ret;
	mr = testcore_need(malloc(sizeof(*mr)));
	mr->fake = fake;
	mr->fake->open_objects++;
	pthread_mutex_lock(&fake_network);
	if (fake->remote && !(attr->access & fake->remote))
		key = FI_KEY_NOTAVAIL;
	testcore_mr_init(&mr->core, &mr->fake->mrs, attr, key, &mr_fi_ops);
	pthread_mutex_unlock(&fake_network);
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
	struct fake *fake = testcore_of(fid, struct fake, domain.fid);

	if (fake->domain_is_busy)
		return -FI_EBUSY;
	fake->open_objects--;
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

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **fid,
			 void *context)
{
	struct fake *fake = testcore_of(fabric, struct fake, fabric);
	int ret = fake_may_open(fake);

	if (ret)
		return ret;
	fi_freeinfo(fake->domain_info);
	fake->domain_info = fi_dupinfo(info);
	fake->open_objects++;
	fake->domain = (struct fid_domain){
		.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fi_ops},
		.ops = &domain_ops,
		.mr = &mr_ops,
	};
	*fid = &fake->domain;
	return 0;
}

static int trywait_cq(struct fake_cq *cq)
{
	uint64_t raised;
	int ret;

	pthread_mutex_lock(&cq->fake->lock);
	if (read(cq->fd, &raised, sizeof(raised)) < 0 && errno != EAGAIN)
		abort();
	ret = cq->core.count || cq->fake->holds_message ? -FI_EAGAIN : 0;
	pthread_mutex_unlock(&cq->fake->lock);
	return ret;
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void) fabric;
	for (int i = 0; i < count; i++) {
		int ret = 0;

		if (fids[i]->fclass == FI_CLASS_CQ)
			ret = trywait_cq(fake_to_cq(fids[i]));
		else if (!fake_eq_is_empty(fids[i]))
			ret = -FI_EAGAIN;
		if (ret)
			return ret;
	}
	return 0;
}

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = fabric_domain,
	.passive_ep = fake_pep_open,
	.eq_open = fake_eq_open,
	.trywait = fabric_trywait,
};

void fake_init(struct fake *fake)
{
	*fake = (struct fake){
		.fabric = {.fid = {.fclass = FI_CLASS_FABRIC}, .ops = &fabric_ops},
		.room = -1,
	};
	pthread_mutex_init(&fake->lock, NULL);
}

void fake_destroy(struct fake *fake)
{
	struct fake_ep *ep;

	while ((ep = fake->eps)) {
		fake->eps = ep->next;
		free(ep);
	}
	fi_freeinfo(fake->domain_info);
	fi_freeinfo(fake->ep_info);
	for (size_t i = 0; i < fake->num_posts; i++)
		free(fake->posts[i].inlined);
	free(fake->posts);
	pthread_mutex_destroy(&fake->lock);
}
