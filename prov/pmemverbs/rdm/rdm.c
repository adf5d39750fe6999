/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm.c -- what is offered as FI_EP_RDM, and RxM's domains; rdm.h says how
 *
 * A replaced table is a copy of RxM's: see table.h.
 */
#include "rdm/rdm.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/container.h"
#include "base/log.h"
#include "base/setting.h"
#include "engine/core.h"
#include "engine/info.h"
#include "memory/guard.h"
#include "rdm/rdm_calls.h"
#include "rdm/rdm_cq.h"
#include "rdm/rdm_ep.h"
#include "rdm/rdm_posting.h"
#include "base/table.h"

#define RXM_OVER_US PMV_NAME ";ofi_rxm"

/* Before anything is offered */

/*
 * stand_alone -- keep RxM from offering itself over this provider
 *
 * FI_EP_RDM is offered here, so RxM may stand on this provider only for those who name
 * both.  libfabric does the same with some core providers of its own.  It marks them in
 * fi_provider::context; the layout is the same in all versions from 1.11 to 2.6.
 */
static void stand_alone(void)
{
	const struct {
		int type;
		bool disable_logging;
		bool disable_layering;
	} mark = {.disable_layering = true};
	const char *names = pmv_setting_other("provider");

	static_assert(sizeof(mark) <= sizeof(pmv_prov.context), "no room");
	if (FI_VERSION_GE(fi_version(), FI_VERSION(2, 7)) || (names && strstr(names, ";ofi_")))
		return;
	memcpy(&pmv_prov.context, &mark, sizeof(mark));
}

void pmv_rdm_start(void)
{
	/* RxM's own definition serves RxM alone; this one reads the same variable. */
	fi_param_define(NULL, "ofi_rxm_num_msg_eps", FI_PARAM_STRING,
			"of ofi_rxm; pmemverbs offers no FI_EP_RDM if it is above 1");
	stand_alone();
}

/* What is offered */

/* For RxM, which calls this provider while it is called here, and can't say on whose behalf. */
static _Thread_local struct {
	bool rxm;                  /* RxM is being called */
	bool pmem;                 /* for somebody who wants FI_RMA_PMEM */
	struct fid_domain *opened; /* the last one for RxM */
} inside;

static void enter_rxm(bool pmem)
{
	inside.rxm = true;
	inside.pmem = pmem;
}

static void leave_rxm(void)
{
	inside.rxm = false;
	inside.pmem = false;
}

bool pmv_rdm_may_layer(void)
{
	if (!pmv_setting.commit_all || inside.rxm)
		return true;
	PMV_ALERT(FABRIC, "FI_PMEMVERBS_COMMIT=all: another provider on top, such as "
			  "pmemverbs;ofi_rxm, executes atomics by itself, which makes "
			  "nothing durable; use FI_EP_RDM of pmemverbs alone\n");
	return false;
}

bool pmv_rdm_wants_pmem(void)
{
	return inside.pmem;
}

const struct pmv_hooks *pmv_rdm_hooks(struct fid_domain *domain)
{
	if (!inside.rxm)
		return NULL;
	inside.opened = domain;
	return &pmv_rdm_posting_hooks;
}

/* is_spread -- is RxM to use several connections to a peer?  Nothing orders these. */
static bool is_spread(void)
{
	const char *setting = pmv_setting_other("ofi_rxm_num_msg_eps");

	if (!setting || strtoul(setting, NULL, 0) <= 1)
		return false;
	PMV_ALERT(FABRIC,
		  "FI_EP_RDM is not offered with FI_OFI_RXM_NUM_MSG_EPS=%s: a commit has to "
		  "follow the writes on their connection; unset it or set it to 1\n",
		  setting);
	return true;
}

static bool is_same(const struct fi_info *a, const struct fi_info *b)
{
	return a->caps == b->caps && a->src_addrlen == b->src_addrlen &&
	       !strcmp(a->fabric_attr->name, b->fabric_attr->name) &&
	       !strcmp(a->domain_attr->name, b->domain_attr->name) &&
	       (!a->src_addrlen || !memcmp(a->src_addr, b->src_addr, a->src_addrlen));
}

/* is_usable -- RxM offers things several times, and not all of them were asked for */
static bool is_usable(const struct fi_info *info, const struct fi_info *kept, const void *arg)
{
	const struct fi_info *hints = arg;

	if (!info->fabric_attr->prov_name || strcmp(info->fabric_attr->prov_name, RXM_OVER_US) ||
	    info->ep_attr->type != FI_EP_RDM || info->ep_attr->protocol != FI_PROTO_RXM ||
	    (info->caps & FI_COLLECTIVE) ||
	    !pmv_info_is_named(hints->fabric_attr->name, info->fabric_attr->name) ||
	    !pmv_info_is_named(hints->domain_attr->name, info->domain_attr->name))
		return false;
	for (; kept != info; kept = kept->next) {
		if (is_same(kept, info))
			return false;
	}
	return true;
}

/* to_rxm -- a copy of an application's info that RxM accepts; NULL: no memory */
static struct fi_info *to_rxm(const struct fi_info *info)
{
	struct fi_info *copy = pmv_info_for(RXM_OVER_US, info);

	if (copy) {
		pmv_info_strip_own(copy);
		copy->ep_attr->type = FI_EP_RDM;
	}
	return copy;
}

static struct fi_info *ask_rxm(uint32_t version, const char *node, const char *service,
			       uint64_t flags, const struct fi_info *hints)
{
	struct fi_info *rxm_hints = to_rxm(hints);
	struct fi_info *list = NULL;
	int ret;

	if (!rxm_hints)
		return NULL;
	rxm_hints->domain_attr->mr_key_size = 0;
	enter_rxm(pmv_info_is_pmem(hints));
	ret = fi_getinfo(pmv_info_api_version(version), node, service, flags | PMV_INFO_HIDDEN,
			 rxm_hints, &list);
	leave_rxm();
	fi_freeinfo(rxm_hints);
	if (!ret)
		return pmv_info_filter(list, is_usable, hints);
	PMV_INFO(FABRIC,
		 "FI_EP_RDM is not offered: ofi_rxm can't serve the hints, or there is none\n");
	return NULL;
}

struct fi_info *pmv_rdm_ask(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints)
{
	struct fi_info *list;

	if (flags & PMV_INFO_CORE_ONLY)
		return NULL;
	/* libfabric 1.17 writes to that event queue without checking that there is one. */
	if (hints->caps & FI_COLLECTIVE) {
		PMV_INFO(FABRIC,
			 "FI_EP_RDM is not offered with FI_COLLECTIVE: a join is reported by an "
			 "event queue of RxM's own; use pmemverbs;ofi_rxm\n");
		return NULL;
	}
	if (is_spread())
		return NULL;
	list = ask_rxm(version, node, service, flags, hints);
	for (struct fi_info *info = list; info; info = info->next) {
		pmv_info_from_layer(info, hints);
		/* libfabric sets the name, and would append ours to what is there. */
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = NULL;
	}
	return list;
}

/* Domains */

struct rdm_domain {
	PMV_TABLE(fi_ops) fid_ops;
	PMV_TABLE(fi_ops_domain) ops;
	const struct fi_ops *rxm_fid_ops;
	const struct fi_ops_domain *rxm_ops;
	struct fid_domain *under; /* this provider's, which RxM has opened */
};

static const struct rdm_domain *to_rdm_domain(struct fid_domain *fid)
{
	return pmv_container_of((const char *) fid->ops, struct rdm_domain, ops);
}

static int rdm_ep_open(struct fid_domain *domain_fid, struct fi_info *info, struct fid_ep **ep_fid,
		       void *context)
{
	struct fi_info *rxm_info = to_rxm(info);
	struct fid_ep *ep;
	int ret;

	if (!rxm_info)
		return -FI_ENOMEM;
	enter_rxm(pmv_info_is_pmem(info));
	ret = to_rdm_domain(domain_fid)->rxm_ops->endpoint(domain_fid, rxm_info, &ep, context);
	leave_rxm();
	if (!ret) {
		ret = pmv_rdm_ep_wrap(ep, rxm_info->tx_attr->inject_size,
				      info->tx_attr ? info->tx_attr->op_flags : 0,
				      pmv_info_has_fence(info), pmv_info_is_pmem(info));
		if (ret)
			fi_close(&ep->fid);
		else
			*ep_fid = ep;
	}
	fi_freeinfo(rxm_info);
	return ret;
}

static int rdm_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
		       void *context)
{
	int ret = to_rdm_domain(fid)->rxm_ops->cq_open(fid, attr, cq, context);

	if (ret)
		return ret;
	ret = pmv_rdm_cq_wrap(*cq, attr, to_rdm_domain(fid)->under);
	if (ret)
		fi_close(&(*cq)->fid);
	return ret;
}

static int rdm_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
			 void *context)
{
	int ret = to_rdm_domain(fid)->rxm_ops->cntr_open(fid, attr, cntr, context);

	if (ret)
		return ret;
	ret = pmv_rdm_calls_guard_cntr(*cntr);
	if (ret)
		fi_close(&(*cntr)->fid);
	return ret;
}

/*
 * sets_are_refused -- a set looks at RxM's queue alone.  A commit behind an atomic that waits for
 * room there would wait for ever, as nobody reads the queue.
 */
static int sets_are_refused(const char *kind)
{
	if (!pmv_setting.commit_all)
		return 0;
	PMV_WARN(FABRIC,
		 "a %s set is not available with FI_PMEMVERBS_COMMIT=all: read the queues\n", kind);
	return -FI_ENOSYS;
}

static int rdm_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr,
			 struct fid_poll **pollset)
{
	int ret = sets_are_refused("poll");

	return ret ? ret : to_rdm_domain(fid)->rxm_ops->poll_open(fid, attr, pollset);
}

static int rdm_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
		       void *context)
{
	if (attr->flags & FI_EVENT) {
		PMV_WARN(AV, "address vectors are synchronous only: open it without FI_EVENT\n");
		return -FI_ENOSYS;
	}
	return to_rdm_domain(fid)->rxm_ops->av_open(fid, attr, av, context);
}

static int rdm_counters_read(struct fid_domain *fid, struct fi_pmemverbs_counters *counters,
			     size_t len)
{
	struct fid_domain *under = to_rdm_domain(fid)->under;
	struct fi_pmemverbs_counters_ops *ops;
	int ret = fi_open_ops(&under->fid, FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops, NULL);

	return ret ? ret : ops->read(under, counters, len);
}

static struct fi_pmemverbs_counters_ops counters_ops = {
	.size = sizeof(struct fi_pmemverbs_counters_ops),
	.read = rdm_counters_read,
};

static int rdm_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
			void *context)
{
	struct rdm_domain *rdm =
		pmv_container_of((const char *) fid->ops, struct rdm_domain, fid_ops);

	/* They need nothing of RxM's domain. */
	if (!strcmp(name, FI_PMEMVERBS_FILE_OPS) && rdm->under)
		return fi_open_ops(&rdm->under->fid, name, flags, ops, context);
	if (strcmp(name, FI_PMEMVERBS_COUNTERS_OPS) || !rdm->under)
		return rdm->rxm_fid_ops->ops_open
			       ? rdm->rxm_fid_ops->ops_open(fid, name, flags, ops, context)
			       : -FI_ENOSYS;
	if (flags)
		return -FI_EBADFLAGS;
	*ops = &counters_ops;
	return 0;
}

static int rdm_domain_close(struct fid *fid)
{
	struct rdm_domain *rdm =
		pmv_container_of((const char *) fid->ops, struct rdm_domain, fid_ops);
	int ret = rdm->rxm_fid_ops->close(fid);

	if (!ret)
		free(rdm);
	return ret;
}

/* Fabrics */

int pmv_rdm_fabric_init(struct pmv_rdm_fabric *fabric, const struct fi_fabric_attr *attr)
{
	fabric->name = strdup(attr->name);
	if (!fabric->name)
		return -FI_ENOMEM;
	fabric->api_version = pmv_info_api_version(attr->api_version);
	return 0;
}

int pmv_rdm_fabric_close(struct pmv_rdm_fabric *fabric)
{
	int ret = fabric->fid ? fi_close(&fabric->fid->fid) : 0;

	if (!ret)
		fabric->fid = NULL;
	return ret;
}

void pmv_rdm_fabric_free(struct pmv_rdm_fabric *fabric)
{
	free(fabric->name);
}

/* open_rxm -- RxM's fabric, which stays open */
static int open_rxm(struct pmv_rdm_fabric *fabric)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct fi_fabric_attr attr = {
		.name = fabric->name,
		.prov_name = (char *) RXM_OVER_US,
		.api_version = fabric->api_version,
	};
	int ret = 0;

	pthread_mutex_lock(&lock);
	enter_rxm(false);
	if (!fabric->fid)
		ret = fi_fabric(&attr, &fabric->fid, NULL);
	leave_rxm();
	pthread_mutex_unlock(&lock);
	return ret;
}

int pmv_rdm_domain_open(struct pmv_rdm_fabric *fabric, struct fi_info *info,
			struct fid_domain **domain_fid, void *context)
{
	struct fi_info *rxm_info = to_rxm(info);
	struct rdm_domain *rdm = calloc(1, sizeof(*rdm));
	int ret = rxm_info && rdm ? open_rxm(fabric) : -FI_ENOMEM;

	if (ret)
		goto free;
	enter_rxm(pmv_info_is_pmem(info));
	inside.opened = NULL;
	ret = fi_domain(fabric->fid, rxm_info, domain_fid, context);
	leave_rxm();
	if (ret)
		goto free;
	rdm->under = inside.opened;
	PMV_TABLE_REPLACE((*domain_fid)->fid.ops, rdm->rxm_fid_ops, rdm->fid_ops);
	rdm->fid_ops.fn.close = rdm_domain_close;
	rdm->fid_ops.fn.ops_open = rdm_ops_open;
	PMV_TABLE_REPLACE((*domain_fid)->ops, rdm->rxm_ops, rdm->ops);
	rdm->ops.fn.endpoint = rdm_ep_open;
	rdm->ops.fn.av_open = rdm_av_open;
	rdm->ops.fn.cq_open = rdm_cq_open;
	rdm->ops.fn.cntr_open = rdm_cntr_open;
	rdm->ops.fn.poll_open = rdm_poll_open;
	fi_freeinfo(rxm_info);
	return 0;

free:
	free(rdm);
	fi_freeinfo(rxm_info);
	return ret;
}

int pmv_rdm_wait_open(struct pmv_rdm_fabric *fabric, struct fi_wait_attr *attr,
		      struct fid_wait **waitset)
{
	int ret = sets_are_refused("wait");

	if (!ret && open_rxm(fabric))
		ret = -FI_ENOSYS;
	/* fi_wait_open itself warns, since 2.0, that wait sets are deprecated. */
	return ret ? ret : fabric->fid->ops->wait_open(fabric->fid, attr, waitset);
}

int pmv_rdm_trywait(struct pmv_rdm_fabric *fabric, struct fid *fid)
{
	int ret;

	/* Counters of FI_EP_MSG have nothing that can be waited on. */
	if (!fabric->fid || pmv_rdm_calls_is_foreign(fid))
		return -FI_ENOSYS;
	pmv_guard_enter();
	ret = fi_trywait(fabric->fid, &fid, 1);
	pmv_guard_leave();
	/* RxM has reset the descriptor: only what is lost from now on makes it ready. */
	return ret ? ret : pmv_rdm_cq_trywait(fid);
}
