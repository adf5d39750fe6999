/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libraries.c -- what libraries that others wrote ask of libfabric, and how they open it
 *
 * The hints, objects and order of calls are those of Sandia OpenSHMEM (its OFI transport,
 * configured with --enable-ofi-mr=basic and --enable-hard-polling) and of OpenFAM (with the
 * provider treated as it treats verbs;ofi_rxm).  docs/clients.md says what follows for users.
 */
#include <stdlib.h>
#include <string.h>

#include "rdm_functional.h"

/* Both name addresses, and take the provider's keys.  None asks for FI_MR_LOCAL. */
#define MR_MODE (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* The least that it has to be able to inject: a long double. */
#define SOS_INJECT 16

/* ---- fi_getinfo ---- */

static void sos_hints(struct fi_info *hints)
{
	hints->caps = FI_RMA | FI_ATOMIC;
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	hints->domain_attr->mr_key_size = 1;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->tx_attr->inject_size = SOS_INJECT;
}

static void openfam_hints(struct fi_info *hints)
{
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->threading = FI_THREAD_SAFE;
}

struct fi_info *library_hints(const struct options *opts, enum library library)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->domain_attr->mr_mode = MR_MODE;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->fabric_attr->prov_name = strdup("pmemverbs");
	if (opts->fabric)
		hints->fabric_attr->name = strdup(opts->fabric);
	if (opts->domain)
		hints->domain_attr->name = strdup(opts->domain);
	if (library == OPENFAM)
		openfam_hints(hints);
	else
		sos_hints(hints);
	return hints;
}

static int get_info(struct side *side, const struct options *opts, enum library library,
		    const char *node, uint64_t flags)
{
	uint32_t version = library == OPENFAM ? fi_version() : FI_VERSION(1, 5);
	struct fi_info *hints = library_hints(opts, library);
	int ret;

	if (!hints)
		return report("fi_allocinfo", -FI_ENOMEM);
	ret = fi_getinfo(version, node, NULL, flags, hints, &side->info);
	fi_freeinfo(hints);
	return ret ? explain_offer(NULL, opts->provider, opts->dst_addr, ret) : 0;
}

/* ---- objects ---- */

static int open_counters(struct side *side)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};

	DO(fi_cntr_open(side->domain, &attr, &side->cntr, NULL));
	DO(fi_cntr_open(side->domain, &attr, &side->get_cntr, NULL));
	return 0;
}

/* No mode is left, whatever the provider said. */
static void clear_mode(struct fi_info *info)
{
	info->mode = 0;
	info->tx_attr->mode = 0;
	info->rx_attr->mode = 0;
}

static int sos_endpoint(struct side *side, struct fid_cq **cq, const struct fi_cq_attr *attr,
			struct fid_ep **ep)
{
	clear_mode(side->info);
	side->info->ep_attr->tx_ctx_cnt = 0;
	DO(fi_cq_open(side->domain, (struct fi_cq_attr *) attr, cq, NULL));
	DO(fi_endpoint(side->domain, side->info, ep, NULL));
	DO(fi_ep_bind(*ep, &(*cq)->fid, FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV));
	DO(fi_ep_bind(*ep, &side->av->fid, 0));
	return 0;
}

/* The endpoint that peers write to comes first.  It has no default flags. */
static int sos_target(struct side *side, bool single, struct fid_cq **cq, struct fid_ep **ep)
{
	const struct fi_cq_attr attr = {0};
	struct fi_info *info = side->info;

	info->caps = FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE;
	if (single)
		info->caps |= FI_WRITE | FI_READ | FI_RECV;
	info->tx_attr->op_flags = 0;
	info->tx_attr->caps = FI_RMA | FI_ATOMIC;
	info->rx_attr->caps = info->caps;
	DO(sos_endpoint(side, cq, &attr, ep));
	DO(fi_enable(*ep));
	return 0;
}

static int sos_context(struct side *side)
{
	const struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_info *info = side->info;

	info->caps = FI_RMA | FI_WRITE | FI_READ | FI_ATOMIC | FI_RECV;
	info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	info->tx_attr->caps = info->caps;
	info->rx_attr->caps = FI_RECV;
	return sos_endpoint(side, &side->cq, &attr, &side->ep);
}

static int open_sos(struct side *side, bool single)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

	if (side->info->tx_attr->inject_size < SOS_INJECT || !side->info->ep_attr->max_msg_size)
		return report("the limits of fi_getinfo", -FI_EOTHER);
	/* It finds two regions' keys in a byte, and says so to the provider. */
	side->info->domain_attr->mr_key_size = 1;
	DO(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
	DO(fi_domain(side->fabric, side->info, &side->domain, NULL));
	DO(fi_av_open(side->domain, &av_attr, &side->av, NULL));
	if (single)
		DO(sos_target(side, true, &side->cq, &side->ep));
	else
		DO(sos_target(side, false, &side->target_cq, &side->target_ep));
	DO(open_counters(side));
	if (!single)
		DO(sos_context(side));
	/* With a single endpoint that is enabled by now. */
	DO(fi_ep_bind(side->ep, &side->cntr->fid, FI_WRITE));
	DO(fi_ep_bind(side->ep, &side->get_cntr->fid, FI_READ));
	if (!single)
		DO(fi_enable(side->ep));
	return 0;
}

static int open_openfam(struct side *side)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr av_attr = {.type = side->info->domain_attr->av_type};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_info *info = side->info;

	DO(fi_fabric(info->fabric_attr, &side->fabric, NULL));
	DO(fi_eq_open(side->fabric, &eq_attr, &side->eq, NULL));
	DO(fi_domain(side->fabric, info, &side->domain, NULL));
	DO(fi_av_open(side->domain, &av_attr, &side->av, NULL));
	info->caps = FI_RMA | FI_WRITE | FI_READ | FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_READ;
	info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	clear_mode(info);
	DO(fi_endpoint(side->domain, info, &side->ep, NULL));
	cq_attr.size = info->tx_attr->size;
	DO(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL));
	cq_attr.size = info->rx_attr->size;
	DO(fi_cq_open(side->domain, &cq_attr, &side->recv_cq, NULL));
	DO(open_counters(side));
	DO(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
	DO(fi_ep_bind(side->ep, &side->cntr->fid, FI_WRITE | FI_SEND | FI_REMOTE_WRITE));
	DO(fi_ep_bind(side->ep, &side->recv_cq->fid, FI_RECV));
	DO(fi_ep_bind(side->ep, &side->get_cntr->fid, FI_READ | FI_RECV | FI_REMOTE_READ));
	DO(fi_ep_bind(side->ep, &side->av->fid, 0));
	DO(fi_enable(side->ep));
	return 0;
}

int open_library(struct side *side, const struct options *opts, enum library library,
		 const char *node, uint64_t flags)
{
	int ret = get_info(side, opts, library, node, flags);

	if (ret)
		return ret;
	return library == OPENFAM ? open_openfam(side) : open_sos(side, library == SOS);
}
