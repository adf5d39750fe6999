/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm.c -- what is offered as FI_EP_RDM, and RxM's domains; rdm.h says how
 *
 * A replaced table is a copy of RxM's: see table.h.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "objects/getinfo.h"
#include "rdm/deferred.h"
#include "objects/info.h"
#include "base/setting.h"
#include "rdm/rdm.h"
#include "rdm/rdm_ep.h"
#include "rdm/rdm_guard.h"
#include "rdm/table.h"

#define RXM_OVER_US PMV_NAME ";ofi_rxm"

/* What RxM is told */

/*
 * RxM copies messages of up to 128 KiB piece by piece, unless it is on libfabric's
 * own tcp and finds there what only the two of them know (until 1.19).  Over tcp
 * that costs more than to have the receiver read the message, from somewhat more
 * than 24 KiB on: at 64 KiB by half.
 *
 * RxM listens to what the whole process hears, so it is told just where no other
 * RxM is there: in a process that uses this provider alone, and without RDMA, where
 * copying may well be better.  Only the sender's limit counts.
 */
void pmv_rdm_tune(void)
{
	const char *names = pmv_other_setting("provider");

	if (names && !strcasecmp(names, PMV_NAME) && !pmv_core_may_be_rdma() &&
	    !pmv_other_setting("ofi_rxm_sar_limit"))
		setenv("FI_OFI_RXM_SAR_LIMIT", "24576", 0);
}

/* What is offered */

/* RxM calls back within the calls made here, and can't say on whose behalf. */
static _Thread_local struct {
	bool calls_rxm;
	bool pmem;
} front;

static void enter_rxm(bool pmem)
{
	front.calls_rxm = true;
	front.pmem = pmem;
}

static void leave_rxm(void)
{
	front.calls_rxm = false;
	front.pmem = false;
}

bool pmv_rdm_calls_rxm(void)
{
	return front.calls_rxm;
}

bool pmv_rdm_wants_pmem(void)
{
	return front.pmem;
}

const struct pmv_hooks *pmv_rdm_hooks(void)
{
	return front.calls_rxm ? &pmv_rdm_ep_hooks : NULL;
}

/* is_spread -- is RxM told to use several connections to a peer, which nothing orders? */
static bool is_spread(void)
{
	const char *setting = pmv_other_setting("ofi_rxm_num_msg_eps");

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

/* is_usable -- RxM answers several times over, and not all that it answers is asked for */
static bool is_usable(const struct fi_info *info, const struct fi_info *before,
		      const struct fi_info *hints)
{
	if (!info->fabric_attr->prov_name || strcmp(info->fabric_attr->prov_name, RXM_OVER_US) ||
	    info->ep_attr->type != FI_EP_RDM || info->ep_attr->protocol != FI_PROTO_RXM ||
	    (info->caps & FI_COLLECTIVE) ||
	    !pmv_is_named(hints->fabric_attr->name, info->fabric_attr->name) ||
	    !pmv_is_named(hints->domain_attr->name, info->domain_attr->name))
		return false;
	for (; before != info; before = before->next) {
		if (is_same(before, info))
			return false;
	}
	return true;
}

/* to_rxm -- a copy of an application's info that RxM accepts; NULL: no memory */
static struct fi_info *to_rxm(const struct fi_info *info)
{
	struct fi_info *copy = pmv_info_complete(info);

	if (!copy)
		return NULL;
	pmv_info_strip_own(copy);
	copy->ep_attr->type = FI_EP_RDM;
	free(copy->fabric_attr->prov_name);
	copy->fabric_attr->prov_name = strdup(RXM_OVER_US);
	copy->fabric_attr->prov_version = 0;
	copy->fabric_attr->api_version = pmv_core_version(copy->fabric_attr->api_version);
	copy->fabric_attr->fabric = NULL;
	copy->domain_attr->domain = NULL;
	if (copy->fabric_attr->prov_name)
		return copy;
	fi_freeinfo(copy);
	return NULL;
}

struct fi_info *pmv_rdm_ask(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints)
{
	struct fi_info *list = NULL;
	struct fi_info **at = &list;
	struct fi_info *rxm_hints;
	int ret;

	if (flags & PMV_CORE_PROV_ONLY)
		return NULL;
	if (hints->caps & FI_FENCE) {
		PMV_INFO(FABRIC, "FI_EP_RDM is not offered with FI_FENCE: RxM does not fence "
				 "messages; fi_writemsg takes the flag all the same\n");
		return NULL;
	}
	/* libfabric 1.17 writes there without looking whether there is one. */
	if (hints->caps & FI_COLLECTIVE) {
		PMV_INFO(FABRIC,
			 "FI_EP_RDM is not offered with FI_COLLECTIVE: who joins is told so "
			 "by an event queue of RxM's own; use pmemverbs;ofi_rxm\n");
		return NULL;
	}
	if (is_spread())
		return NULL;
	rxm_hints = to_rxm(hints);
	if (!rxm_hints)
		return NULL;
	rxm_hints->domain_attr->mr_key_size = 0;
	enter_rxm(pmv_info_is_pmem(hints));
	ret = fi_getinfo(pmv_core_version(version), node, service, flags | PMV_GETINFO_HIDDEN,
			 rxm_hints, &list);
	leave_rxm();
	fi_freeinfo(rxm_hints);
	if (ret) {
		PMV_INFO(FABRIC,
			 "FI_EP_RDM is not offered: ofi_rxm can't serve the hints, or there "
			 "is none\n");
		return NULL;
	}

	while (*at) {
		struct fi_info *info = *at;

		if (is_usable(info, list, hints)) {
			at = &info->next;
			continue;
		}
		*at = info->next;
		info->next = NULL;
		fi_freeinfo(info);
	}
	for (struct fi_info *info = list; info; info = info->next) {
		pmv_info_from_rxm(info, hints);
		/* libfabric sets the name, and would append ours to what is there. */
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = NULL;
	}
	return list;
}

/* Domains */

struct rdm_domain {
	TABLE(fi_ops) fid_ops;
	TABLE(fi_ops_domain) ops;
	const struct fi_ops *rxm_fid_ops;
	const struct fi_ops_domain *rxm_ops;
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
				      info->tx_attr ? info->tx_attr->op_flags : 0);
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
	pmv_rdm_guard_cq(*cq);
	if (!pmv_setting.commit_all)
		return 0;
	ret = pmv_deferred_wrap(*cq, attr);
	if (ret)
		fi_close(&(*cq)->fid);
	return ret;
}

static int rdm_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
			 void *context)
{
	int ret = to_rdm_domain(fid)->rxm_ops->cntr_open(fid, attr, cntr, context);

	if (!ret)
		pmv_rdm_guard_cntr(*cntr);
	return ret;
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

static int rdm_domain_close(struct fid *fid)
{
	struct rdm_domain *rdm =
		pmv_container_of((const char *) fid->ops, struct rdm_domain, fid_ops);
	int ret = rdm->rxm_fid_ops->close(fid);

	if (!ret)
		free(rdm);
	return ret;
}

/* need_rxm -- RxM's fabric is opened by who needs it first, and stays */
static int need_rxm(struct pmv_fabric *fabric)
{
	struct fi_fabric_attr attr = {
		.name = fabric->name,
		.prov_name = (char *) RXM_OVER_US,
		.api_version = pmv_core_version(fabric->fabric_fid.api_version),
	};
	int ret = 0;

	pthread_mutex_lock(&fabric->rxm_lock);
	enter_rxm(false);
	if (!fabric->rxm_fid)
		ret = fi_fabric(&attr, &fabric->rxm_fid, NULL);
	leave_rxm();
	pthread_mutex_unlock(&fabric->rxm_lock);
	return ret;
}

int pmv_rdm_domain_open(struct pmv_fabric *fabric, struct fi_info *info,
			struct fid_domain **domain_fid, void *context)
{
	struct fi_info *rxm_info = to_rxm(info);
	struct rdm_domain *rdm = calloc(1, sizeof(*rdm));
	int ret = rxm_info && rdm ? need_rxm(fabric) : -FI_ENOMEM;

	if (ret)
		goto free;
	enter_rxm(pmv_info_is_pmem(info));
	ret = fi_domain(fabric->rxm_fid, rxm_info, domain_fid, context);
	leave_rxm();
	if (ret)
		goto free;
	rdm->rxm_fid_ops = (*domain_fid)->fid.ops;
	COPY_TABLE(rdm->fid_ops, rdm->rxm_fid_ops);
	rdm->fid_ops.fn.close = rdm_domain_close;
	(*domain_fid)->fid.ops = &rdm->fid_ops.fn;
	rdm->rxm_ops = (*domain_fid)->ops;
	COPY_TABLE(rdm->ops, rdm->rxm_ops);
	rdm->ops.fn.endpoint = rdm_ep_open;
	rdm->ops.fn.av_open = rdm_av_open;
	rdm->ops.fn.cq_open = rdm_cq_open;
	rdm->ops.fn.cntr_open = rdm_cntr_open;
	(*domain_fid)->ops = &rdm->ops.fn;
	fi_freeinfo(rxm_info);
	return 0;

free:
	free(rdm);
	if (rxm_info)
		fi_freeinfo(rxm_info);
	return ret;
}

int pmv_rdm_wait_open(struct pmv_fabric *fabric, struct fi_wait_attr *attr,
		      struct fid_wait **waitset)
{
	int ret = need_rxm(fabric);

	/* The function around it warns, since 2.0, that wait sets are old. */
	return ret ? -FI_ENOSYS : fabric->rxm_fid->ops->wait_open(fabric->rxm_fid, attr, waitset);
}

int pmv_rdm_trywait(struct pmv_fabric *fabric, struct fid *fid)
{
	int ret = pmv_deferred_is_cq(fid)
			  ? pmv_deferred_trywait(pmv_container_of(fid, struct fid_cq, fid))
			  : 0;

	if (ret)
		return ret;
	return fabric->rxm_fid ? fi_trywait(fabric->rxm_fid, &fid, 1) : -FI_ENOSYS;
}

int pmv_rdm_fabric_close(struct pmv_fabric *fabric)
{
	int ret = fabric->rxm_fid ? fi_close(&fabric->rxm_fid->fid) : 0;

	if (!ret)
		fabric->rxm_fid = NULL;
	return ret;
}
