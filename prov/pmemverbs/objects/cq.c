/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c -- completion queues: the application's calls; progress/queue.h says how entries flow */
#include "objects/cq.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "engine/info.h"
#include "base/log.h"
#include "objects/unwrap.h"
#include "progress/op.h"

/* The application's calls */

__attribute__((noinline)) static ssize_t serve_and_read(struct pmv_cq *cq, void *buf, size_t count)
{
	struct pmv_agent *agent = &cq->domain->agent;
	bool woken = atomic_load_explicit(&cq->let_sleep_ns, memory_order_relaxed) &&
		     pmv_cq_is_woken(cq);
	ssize_t ret;

	pmv_agent_progress(agent);
	ret = pmv_queue_read(&cq->queue, buf, count);
	pmv_agent_nudge(agent);
	if (ret == -FI_EAGAIN) {
		pmv_agent_has_read(agent, &cq->queue);
		if (woken)
			atomic_store(&cq->moved, true);
	}
	return ret;
}

ssize_t pmv_cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct pmv_cq *cq = pmv_to_cq(fid);

	if (pmv_agent_has_use_for_calls(&cq->domain->agent))
		return serve_and_read(cq, buf, count);
	return pmv_queue_read(&cq->queue, buf, count);
}

/* no_source -- a connected endpoint has one peer: the core gives no address either */
static ssize_t no_source(fi_addr_t *src_addr, ssize_t count)
{
	for (ssize_t i = 0; src_addr && i < count; i++)
		src_addr[i] = FI_ADDR_NOTAVAIL;
	return count;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr)
{
	return no_source(src_addr, pmv_cq_read(fid, buf, count));
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	uint32_t api_version = cq->domain->fabric->fabric_fid.api_version;
	struct pmv_comp *comp = pmv_queue_take(&cq->queue, true);

	(void) flags;
	if (!comp)
		return -FI_EAGAIN;
	if (FI_VERSION_GE(api_version, FI_VERSION(1, 5))) {
		size_t room = buf->err_data ? buf->err_data_size : 0;
		void *data = buf->err_data;

		if (room > comp->err.err_data_size)
			room = comp->err.err_data_size;
		if (room)
			memcpy(data, comp->err_data, room);
		/*
		 * Since 1.20 there is a source address behind, for which older
		 * applications have no room; fi_cq_readerr sets it for the others.
		 */
		memcpy(buf, &comp->err, offsetof(struct fi_cq_err_entry, err_data));
		buf->err_data = room ? data : NULL;
		buf->err_data_size = room;
	} else {
		memcpy(buf, &comp->err, offsetof(struct fi_cq_err_entry, err_data_size));
	}
	pmv_queue_free(&cq->queue, comp);
	return 1;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	return no_source(src_addr, pmv_cq_sread(fid, buf, count, cond, timeout));
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return fi_cq_strerror(pmv_to_cq(fid)->queue.core_fid, prov_errno, err_data, buf, len);
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = pmv_cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = pmv_cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = pmv_cq_signal,
	.strerror = cq_strerror,
};

static int cq_getwait(struct pmv_cq *cq, void *arg)
{
	struct fi_wait_pollfd *pollfd = arg;
	size_t room;

	if (cq->queue.epoll_fd < 0 || cq->wait_obj == FI_WAIT_YIELD)
		return -FI_ENODATA;
	if (cq->wait_obj == FI_WAIT_FD) {
		*(int *) arg = cq->queue.epoll_fd;
		return 0;
	}
	room = pollfd->nfds;
	pollfd->nfds = 1;
	if (!room)
		return -FI_ETOOSMALL;
	pollfd->fd[0] = (struct pollfd){.fd = cq->queue.epoll_fd, .events = POLLIN};
	pollfd->change_index = 0;
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct pmv_cq *cq = pmv_container_of(fid, struct pmv_cq, cq_fid.fid);

	switch (command) {
	case FI_GETWAIT:
		return cq_getwait(cq, arg);
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *) arg = cq->wait_obj;
		return 0;
	default:
		return pmv_unwrap_control(fid, command, arg);
	}
}

static int cq_close(struct fid *fid)
{
	struct pmv_cq *cq = pmv_container_of(fid, struct pmv_cq, cq_fid.fid);
	int ret;

	pmv_agent_leave(&cq->domain->agent, &cq->queue);
	ret = fi_close(&cq->queue.core_fid->fid);
	if (ret) {
		pmv_agent_join(&cq->domain->agent, &cq->queue);
		return ret;
	}
	pmv_queue_close(&cq->queue);
	atomic_fetch_sub(&cq->domain->users, 1);
	free(cq->closed_ep);
	free(cq);
	return 0;
}

struct fi_ops pmv_cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.control = cq_control,
};

/* The smallest queue that a layer above can work with. */
#define LEAST_LAYER_SIZE 1024

/*
 * open_core -- every commit takes several entries of the core's queue, which overruns
 * silently on some cores.  Where the core has no queue that long, the length that was
 * asked for has to do.  A layer between the application and this domain asks for more
 * than it needs, and more than some devices have: it gets what there is.
 */
static int open_core(struct pmv_cq *cq, const struct fi_cq_attr *attr, size_t size,
		     struct fid_cq **core_fid)
{
	struct pmv_domain *domain = cq->domain;
	struct fi_cq_attr core_attr = *attr;
	int ret;

	/* The agent's thread sleeps on it, too, where the core needs calls. */
	core_attr.wait_obj = cq->wait_obj == FI_WAIT_NONE && !domain->engine.core->manual_progress
				     ? FI_WAIT_NONE
				     : FI_WAIT_FD;
	core_attr.wait_cond = FI_CQ_COND_NONE;
	core_attr.format = cq->format;
	core_attr.size = size * PMV_INFO_MAX_REQUESTS;
	ret = fi_cq_open(domain->engine.domain_fid, &core_attr, core_fid, cq);
	if (!ret)
		return 0;
	core_attr.size = attr->size;
	ret = fi_cq_open(domain->engine.domain_fid, &core_attr, core_fid, cq);
	/* Devices' limits are powers of two, or one less. */
	while (ret && domain->hooks && core_attr.size > LEAST_LAYER_SIZE) {
		core_attr.size = (core_attr.size - 1) / 2;
		ret = fi_cq_open(domain->engine.domain_fid, &core_attr, core_fid, cq);
	}
	if (!ret && domain->pmem)
		PMV_WARN(CQ,
			 "the core has no CQ of %zu entries: keep at most %zu commits under way on "
			 "this one\n",
			 size * PMV_INFO_MAX_REQUESTS,
			 (core_attr.size ? core_attr.size : size) / PMV_INFO_MAX_REQUESTS);
	return ret;
}

/* kick -- there is room in the queue that the agent waited for */
static void kick(void *arg)
{
	pmv_agent_kick(arg);
}

static int open_queue(struct pmv_cq *cq, const struct fi_cq_attr *attr)
{
	static const size_t default_size = 1024;
	struct pmv_domain *domain = cq->domain;
	struct pmv_queue *queue = &cq->queue;
	int ret;

	*queue = (struct pmv_queue){
		.engine = &domain->engine,
		.pool = &domain->ops,
		.entry_size = pmv_queue_entry_size(cq->format),
		.size = attr->size ? attr->size : default_size,
		.contexts = domain->hooks,
		.has_room = kick,
		.has_room_arg = &domain->agent,
	};
	ret = open_core(cq, attr, queue->size, &queue->core_fid);
	if (ret)
		return ret;
	ret = pmv_queue_open(queue,
			     cq->wait_obj != FI_WAIT_NONE || domain->engine.core->manual_progress,
			     cq->wait_obj != FI_WAIT_NONE);
	if (ret)
		fi_close(&queue->core_fid->fid);
	return ret;
}

int pmv_cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
		void *context)
{
	struct fi_cq_attr none = {0};
	struct pmv_cq *cq;
	int ret;

	if (!attr)
		attr = &none;
	if (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND ||
	    attr->wait_obj > FI_WAIT_POLLFD)
		return -FI_ENOSYS;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = pmv_to_domain(domain_fid);
	cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
	cq->wait_obj = attr->wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : attr->wait_obj;
	cq->wait_cond = attr->wait_cond;
	atomic_init(&cq->patience, PMV_IDLE_MOST_PATIENCE);
	ret = open_queue(cq, attr);
	if (ret) {
		free(cq);
		return ret;
	}
	cq->cq_fid = (struct fid_cq){
		.fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &pmv_cq_fi_ops},
		.ops = &cq_ops,
	};
	pmv_agent_join(&cq->domain->agent, &cq->queue);
	atomic_fetch_add(&cq->domain->users, 1);
	*cq_fid = &cq->cq_fid;
	return 0;
}
