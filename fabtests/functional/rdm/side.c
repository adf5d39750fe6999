/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * side.c -- what both sides of a case over FI_EP_RDM open
 */
#include <string.h>

#include "rdm_functional.h"

struct fi_info *make_hints(const struct options *opts, const struct settings *settings)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | (commit_all ? 0 : FI_RMA_PMEM);
	if (settings->fences)
		hints->caps |= FI_FENCE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->av_type = settings->av_type;
	hints->tx_attr->op_flags = settings->op_flags;
	hints->fabric_attr->prov_name = strdup("pmemverbs");
	if (opts->fabric)
		hints->fabric_attr->name = strdup(opts->fabric);
	if (opts->domain)
		hints->domain_attr->name = strdup(opts->domain);
	return hints;
}

int open_ep(struct side *side, const struct settings *settings)
{
	uint64_t selective = settings->selective ? FI_SELECTIVE_COMPLETION : 0;

	DO(fi_endpoint(side->domain, side->info, &side->ep, NULL));
	DO(fi_ep_bind(side->ep, &side->av->fid, 0));
	DO(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | selective));
	DO(fi_ep_bind(side->ep, &side->cq->fid, FI_RECV));
	if (side->cntr)
		DO(fi_ep_bind(side->ep, &side->cntr->fid, FI_WRITE));
	DO(fi_enable(side->ep));
	return 0;
}

int open_side(struct side *side, const struct options *opts, const struct settings *settings,
	      const char *node, uint64_t flags)
{
	struct fi_info *hints;
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = settings->waits ? FI_WAIT_FD : FI_WAIT_NONE,
	};
	struct fi_av_attr av_attr = {.type = settings->av_type};
	struct fi_cntr_attr cntr_attr = {
		.events = FI_CNTR_EVENTS_COMP,
		.wait_obj = settings->waits ? FI_WAIT_UNSPEC : FI_WAIT_NONE,
	};
	int ret;

	*side = (struct side){.next_key = 1};
	if (settings->library)
		return open_library(side, opts, settings->library, node, flags);
	hints = make_hints(opts, settings);
	if (!hints)
		return report("fi_allocinfo", -FI_ENOMEM);
	ret = fi_getinfo(FI_VERSION(1, 17), node, NULL, flags, hints, &side->info);
	fi_freeinfo(hints);
	if (ret)
		return explain_offer(NULL, opts->provider, opts->dst_addr, ret);
	DO(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
	DO(fi_domain(side->fabric, side->info, &side->domain, NULL));
	DO(fi_av_open(side->domain, &av_attr, &side->av, NULL));
	DO(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL));
	if (settings->counter)
		DO(fi_cntr_open(side->domain, &cntr_attr, &side->cntr, NULL));
	return open_ep(side, settings);
}

int close_side(struct side *side)
{
	int ret = CLOSE(side->ep) | CLOSE(side->target_ep) | CLOSE(side->cntr) |
		  CLOSE(side->get_cntr) | CLOSE(side->cq) | CLOSE(side->recv_cq) |
		  CLOSE(side->target_cq) | CLOSE(side->av) | CLOSE(side->domain) | CLOSE(side->eq) |
		  CLOSE(side->fabric);

	if (side->info)
		fi_freeinfo(side->info);
	*side = (struct side){0};
	return ret;
}

int side_register(struct side *side, void *buf, size_t len, uint64_t access, uint64_t flags,
		  struct fid_mr **mr)
{
	int ret = fi_mr_reg(side->domain, buf, len, access, 0, side->next_key++, flags, mr, NULL);

	return ret ? explain_memory(NULL, ret) : 0;
}
