/* SPDX-License-Identifier: BSD-2-Clause */
/* domain.c -- a domain of the core, wrapped; queries on keys */
#include "objects/domain.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "auth/admission.h"
#include "base/log.h"
#include "base/setting.h"
#include "commit/ordering.h"
#include "commit/run.h"
#include "objects/ep.h"
#include "engine/info.h"
#include "rdm/rdm.h"
#include "objects/unwrap.h"

/* Queries */

static const enum fi_pmemverbs_method methods[] = {
	[PMV_METHOD_REFUSED] = FI_PMEMVERBS_REFUSED, [PMV_METHOD_WRITE] = FI_PMEMVERBS_WRITE,
	[PMV_METHOD_READ] = FI_PMEMVERBS_READ,       [PMV_METHOD_FLUSH] = FI_PMEMVERBS_FLUSH,
	[PMV_METHOD_AGENT] = FI_PMEMVERBS_AGENT,
};

static int query_key(struct fid_ep *ep_fid, uint64_t key, struct fi_pmemverbs_region *region)
{
	struct pmv_ep *ep = pmv_to_ep(ep_fid);
	struct pmv_attr attr;
	struct pmv_choice choice;

	if (!pmv_ordering_attr(&ep->initiator, key, &attr))
		return -FI_ENOKEY;
	/* A target may ask of its own keys what its peers find in them. */
	if (!pmv_initiator_fits(&ep->initiator, key) &&
	    !pmv_key_fits(key, pmv_key_start(ep->domain->life)))
		return -FI_EKEYREJECTED;
	choice = pmv_method_choose(&attr, ep->domain->engine.transport, NULL);
	if (choice.method == PMV_METHOD_AGENT && !ep->mailbox.link.peer.agent)
		choice.method = PMV_METHOD_REFUSED;
	*region = (struct fi_pmemverbs_region){
		.domain = (enum fi_pmemverbs_domain) attr.persist,
		.method = attr.writable ? methods[choice.method] : FI_PMEMVERBS_REFUSED,
		.pmem = attr.pmem,
		.ddio = attr.ddio,
		.uncached = attr.uncached,
		.relaxed = attr.relaxed,
	};
	return 0;
}

static int query_messages(struct fid_ep *ep_fid, struct fi_pmemverbs_region *region)
{
	struct pmv_ep *ep = pmv_to_ep(ep_fid);
	const struct pmv_handshake *peer = &ep->mailbox.link.peer;
	const struct pmv_attr *received = peer->one_kind ? &peer->received : NULL;
	bool relaxed = pmv_setting.relaxed || peer->relaxed;
	struct pmv_choice choice =
		pmv_method_choose_message(received, ep->domain->engine.transport, relaxed, NULL);

	if (choice.method == PMV_METHOD_AGENT && !peer->messages)
		choice.method = PMV_METHOD_REFUSED;
	*region = (struct fi_pmemverbs_region){
		.domain =
			received ? (enum fi_pmemverbs_domain) received->persist : FI_PMEMVERBS_PAGE,
		.method = methods[choice.method],
		.pmem = peer->one_kind,
		.ddio = received && received->ddio,
		.relaxed = relaxed,
	};
	return 0;
}

static const char *core_name(struct fid_domain *fid)
{
	return pmv_to_domain(fid)->fabric->core->name;
}

static struct fi_pmemverbs_ops queries = {
	.size = sizeof(struct fi_pmemverbs_ops),
	.query_key = query_key,
	.core_name = core_name,
	.query_messages = query_messages,
};

/*
 * A core's private ops take the core's fids, so they are not handed through: callers have
 * to work without them.
 */
static int domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
			   void *context)
{
	static const struct {
		const char *name;
		void *ops;
	} tables[] = {
		{FI_PMEMVERBS_OPS, &queries},
		{FI_PMEMVERBS_COUNTERS_OPS, &pmv_tally_ops},
		{FI_PMEMVERBS_FILE_OPS, &pmv_file_ops},
	};

	(void) context;
	if (!strcmp(name, FI_PMEMVERBS_CHAIN_OPS))
		return pmv_chain_ops_open(pmv_container_of(fid, struct pmv_domain, domain_fid.fid),
					  flags, ops);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (strcmp(name, tables[i].name))
			continue;
		if (flags)
			return -FI_EBADFLAGS;
		*ops = tables[i].ops;
		return 0;
	}
	return -FI_ENOSYS;
}

/* Opening and closing */

static int domain_close(struct fid *fid)
{
	struct pmv_domain *domain = pmv_container_of(fid, struct pmv_domain, domain_fid.fid);
	int ret;

	/* The core would refuse, too, but only after the scratch region is closed. */
	if (atomic_load(&domain->users))
		return -FI_EBUSY;
	ret = pmv_engine_close(&domain->engine);
	if (ret)
		return ret;
	ret = fi_close(&domain->engine.domain_fid->fid);
	if (ret)
		return ret;
	pthread_mutex_lock(&domain->fabric->domains_lock);
	LIST_REMOVE(domain, next);
	pthread_mutex_unlock(&domain->fabric->domains_lock);
	pmv_metrics_leave(domain);
	pthread_mutex_destroy(&domain->tally.lock);
	pmv_agent_destroy(&domain->agent);
	pmv_op_pool_destroy(&domain->ops);
	free(domain);
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmv_domain *domain = pmv_container_of(fid, struct pmv_domain, domain_fid.fid);
	struct fid *core_fid = pmv_unwrap_fid(bfid);

	if (!core_fid)
		return -FI_EINVAL;
	/* The core's events would name its regions, whose keys say nothing. */
	if (flags & PMV_REG_MR)
		return -FI_ENOSYS;
	return fi_domain_bind(domain->engine.domain_fid, core_fid, flags);
}

struct fi_ops pmv_domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = pmv_unwrap_control,
	.ops_open = domain_ops_open,
};

/* Connected endpoints have no use for these, and no core offers them. */

static int no_av(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
	(void) fid, (void) attr, (void) av, (void) context;
	return -FI_ENOSYS;
}

static int no_scalable_ep(struct fid_domain *fid, struct fi_info *info, struct fid_ep **sep,
			  void *context)
{
	(void) fid, (void) info, (void) sep, (void) context;
	return -FI_ENOSYS;
}

static int no_poll(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **pollset)
{
	(void) fid, (void) attr, (void) pollset;
	return -FI_ENOSYS;
}

static int no_stx(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **stx,
		  void *context)
{
	(void) fid, (void) attr, (void) stx, (void) context;
	return -FI_ENOSYS;
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
			       struct fi_atomic_attr *attr, uint64_t flags)
{
	return fi_query_atomic(pmv_to_domain(fid)->engine.domain_fid, datatype, op, attr, flags);
}

static struct fi_ops_domain domain_ops = {
	.size = offsetof(struct fi_ops_domain, query_collective),
	.av_open = no_av,
	.cq_open = pmv_cq_open,
	.endpoint = pmv_ep_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = pmv_cntr_open,
	.poll_open = no_poll,
	.stx_ctx = no_stx,
	.srx_ctx = pmv_srx_open,
	.query_atomic = domain_query_atomic,
};

/* describe -- what it is opened for; 0, or a negative fi_errno after a warning */
static int describe(struct pmv_domain *domain, struct pmv_fabric *fabric,
		    const struct fi_info *info)
{
	int mr_mode = info->domain_attr->mr_mode;

	domain->fabric = fabric;
	domain->engine.core = fabric->core;
	domain->engine.fabric_fid = fabric->core_fid;
	domain->engine.transport = pmv_core_transport(fabric->core, info);
	domain->engine.caps =
		pmv_core_caps(fabric->core, domain->engine.transport, info->domain_attr->name);
	domain->engine.virt_addr = mr_mode & (FI_MR_VIRT_ADDR | PMV_MR_BASIC);
	domain->keyed = pmv_info_is_keyed(mr_mode);
	domain->hooks = pmv_rdm_hooks(&domain->domain_fid);
	domain->pmem = pmv_info_is_pmem(info) || (pmv_setting.commit_all && domain->keyed);
	domain->events = pmv_info_has_events(info);
	domain->cpu_placed = pmv_core_places_by_cpu(fabric->core, info->domain_attr->name);
	if (getrandom(&domain->life, sizeof(domain->life), 0) != sizeof(domain->life))
		return -FI_EOTHER;
	/* The core would choose the keys then, and count them. */
	if (pmv_admission_is_on() && mr_mode == PMV_MR_BASIC) {
		PMV_WARN(DOMAIN, "a domain with FI_MR_BASIC can't be opened with "
				 "FI_PMEMVERBS_KEYS: it needs FI_MR_PROV_KEY in its place\n");
		return -FI_EOPNOTSUPP;
	}
	if (!domain->events || (domain->keyed && pmv_setting.agent != PMV_AGENT_OFF))
		return 0;
	PMV_WARN(DOMAIN, "FI_RMA_EVENT needs %s\n",
		 domain->keyed ? "an agent (FI_PMEMVERBS_AGENT)" : "FI_MR_PROV_KEY in mr_mode");
	return -FI_EINVAL;
}

/*
 * core_info_of -- what the core's domain is opened with.  verbs compares an endpoint's attributes
 * with those of its domain, and in a domain for no persistent memory an endpoint may still commit
 * to its peer's.
 */
static struct fi_info *core_info_of(const struct pmv_core *core, const struct fi_info *info)
{
	struct fi_info *widest = fi_dupinfo(info);
	struct fi_info *core_info;

	if (!widest)
		return NULL;
	widest->caps |= FI_PMEM;
	core_info = pmv_unwrap_info(core, widest);
	fi_freeinfo(widest);
	return core_info;
}

int pmv_domain_open(struct fid_fabric *fabric_fid, struct fi_info *info,
		    struct fid_domain **domain_fid, void *context)
{
	struct pmv_fabric *fabric = pmv_to_fabric(fabric_fid);
	struct fi_info *core_info;
	struct pmv_domain *domain;
	int ret = -FI_ENOMEM;

	if (info->ep_attr && info->ep_attr->type == FI_EP_RDM)
		return pmv_rdm_domain_open(&fabric->rdm, info, domain_fid, context);
	core_info = core_info_of(fabric->core, info);
	domain = calloc(1, sizeof(*domain));
	if (!core_info || !domain)
		goto free;
	ret = describe(domain, fabric, info);
	if (!ret)
		ret = pmv_op_pool_init(&domain->ops, sizeof(struct pmv_run));
	if (ret)
		goto free;
	/* Whoever answers in a target's place can try keys until the answer was looked at. */
	domain->engine.draws_keys =
		domain->keyed && pmv_admission_is_on() && fabric->core->takes_keys;
	if (domain->engine.draws_keys)
		core_info->domain_attr->mr_mode &= ~FI_MR_PROV_KEY;
	ret = fi_domain(fabric->core_fid, core_info, &domain->engine.domain_fid, domain);
	if (ret)
		goto pool;
	ret = pmv_engine_open(&domain->engine, core_info->domain_attr->mr_mode);
	if (ret)
		goto close;
	ret = pmv_agent_init(&domain->agent, &domain->engine);
	if (ret)
		goto scratch;

	domain->domain_fid = (struct fid_domain){
		.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &pmv_domain_fi_ops},
		.ops = &domain_ops,
		.mr = &pmv_mr_ops,
	};
	pthread_mutex_init(&domain->tally.lock, NULL);
	pthread_mutex_lock(&fabric->domains_lock);
	LIST_INSERT_HEAD(&fabric->domains, domain, next);
	pthread_mutex_unlock(&fabric->domains_lock);
	pmv_metrics_join(domain);
	*domain_fid = &domain->domain_fid;
	fi_freeinfo(core_info);
	return 0;

scratch:
	pmv_engine_close(&domain->engine);
close:
	fi_close(&domain->engine.domain_fid->fid);
pool:
	pmv_op_pool_destroy(&domain->ops);
free:
	free(domain);
	if (core_info)
		fi_freeinfo(core_info);
	return ret;
}
