/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * getinfo.c -- what is offered to whom
 *
 * Nothing is offered unless the application asks for it: by name, through FI_PROVIDER,
 * or with FI_RMA_PMEM in the hints.  The cores are asked with a flag that makes them
 * answer even if FI_PROVIDER=pmemverbs hides them.
 */
#include "objects/fabric.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "auth/admission.h"
#include "base/log.h"
#include "base/setting.h"
#include "engine/engine.h"
#include "engine/info.h"
#include "objects/tickets.h"

/*
 * The fabrics that were offered.  fi_fabric is given only a name, and has to know whose
 * fabric it is.  Names of fabrics of different cores do not collide.
 */
struct offer {
	SLIST_ENTRY(offer) next;
	const struct pmv_core *core;
	char name[];
};

static SLIST_HEAD(, offer) offers = SLIST_HEAD_INITIALIZER(offers);
static pthread_mutex_t offers_lock = PTHREAD_MUTEX_INITIALIZER;

static struct offer *find_offer(const char *name)
{
	struct offer *offer;

	SLIST_FOREACH(offer, &offers, next) {
		if (!strcmp(offer->name, name))
			return offer;
	}
	return NULL;
}

const struct pmv_core *pmv_getinfo_core_of(const char *fabric_name)
{
	struct offer *offer;

	pthread_mutex_lock(&offers_lock);
	offer = find_offer(fabric_name);
	pthread_mutex_unlock(&offers_lock);
	return offer ? offer->core : NULL;
}

static void remember(const struct pmv_core *core, const char *name)
{
	struct offer *offer;

	pthread_mutex_lock(&offers_lock);
	if (!find_offer(name) && (offer = malloc(sizeof(*offer) + strlen(name) + 1))) {
		strcpy(offer->name, name);
		offer->core = core;
		SLIST_INSERT_HEAD(&offers, offer, next);
	}
	pthread_mutex_unlock(&offers_lock);
}

/* Is this provider asked for? */

/* names_us -- does a list of providers, from FI_PROVIDER or prov_name, name this one? */
static bool names_us(const char *list)
{
	static const char separators[] = ",;";

	/* A list that begins with ^ names the unwanted ones. */
	if (!list || *list == '^')
		return false;
	for (;;) {
		size_t len = strcspn(list, separators);

		if (len == strlen(PMV_NAME) && !strncasecmp(list, PMV_NAME, len))
			return true;
		list += len;
		if (!*list++)
			return false;
	}
}

static bool is_asked_for(const struct fi_info *hints)
{
	return (hints->fabric_attr->prov_name && names_us(hints->fabric_attr->prov_name)) ||
	       names_us(pmv_setting_other("provider")) || pmv_info_is_pmem(hints);
}

/*
 * warn_unasked -- the program does not ask for this provider and does without it; warn if
 * the environment shows that somebody relies on it
 */
static void warn_unasked(uint64_t flags, const struct fi_info *hints)
{
	if (hints->fabric_attr->prov_name || (flags & (PMV_INFO_CORE_ONLY | PMV_INFO_HIDDEN)))
		return;
	if (pmv_setting.bad)
		PMV_ALERT(FABRIC, "%s\n", pmv_setting.bad);
	else if (pmv_admission_is_on())
		PMV_ALERT(FABRIC, "FI_PMEMVERBS_KEYS keeps nobody out of a program that does not "
				  "ask for pmemverbs: set FI_PROVIDER=pmemverbs\n");
	else if (pmv_setting.commit_all)
		PMV_ALERT(FABRIC, "FI_PMEMVERBS_COMMIT=all makes nothing durable in a program that "
				  "does not ask for pmemverbs: set FI_PROVIDER=pmemverbs\n");
}

/* What is refused */

static int refuse(const char *why)
{
	PMV_INFO(FABRIC, "not offered: %s\n", why);
	return -FI_ENODATA;
}

/* is_keyed -- would the provider choose the keys?  Without hints for that it does. */
static bool is_keyed(uint32_t version, int mr_mode)
{
	return mr_mode != PMV_MR_SCALABLE &&
	       (FI_VERSION_LT(version, FI_VERSION(1, 5)) || pmv_info_is_keyed(mr_mode));
}

/* is_basic -- as it is without hints for that, too, before libfabric 1.5 */
static bool is_basic(uint32_t version, int mr_mode)
{
	return mr_mode == PMV_MR_BASIC ||
	       (mr_mode != PMV_MR_SCALABLE && FI_VERSION_LT(version, FI_VERSION(1, 5)));
}

/* check_events -- FI_RMA_EVENT is offered where the agent can tell of all writes */
static int check_events(uint32_t version, const struct fi_info *hints)
{
	const uint64_t directions = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

	if (!pmv_info_has_events(hints))
		return 0;
	if (pmv_setting.agent == PMV_AGENT_OFF)
		return refuse("caps: FI_RMA_EVENT needs the agent (FI_PMEMVERBS_AGENT=off)");
	if (hints->ep_attr->type == FI_EP_RDM)
		return refuse("caps: FI_RMA_EVENT is for FI_EP_MSG only");
	if (hints->caps && !(hints->caps & (FI_RMA | FI_ATOMIC)))
		return refuse("caps: FI_RMA_EVENT needs FI_RMA or FI_ATOMIC");
	if ((hints->caps & directions) && !(hints->caps & FI_REMOTE_WRITE))
		return refuse("caps: FI_RMA_EVENT needs FI_REMOTE_WRITE, as there are no events "
			      "of reads");
	if (!is_keyed(version, hints->domain_attr->mr_mode))
		return refuse("domain_attr->mr_mode: FI_RMA_EVENT needs FI_MR_PROV_KEY, since the "
			      "keys tell peers of it");
	return 0;
}

/* check_setting -- what is set wrongly is refused as a whole */
static int check_setting(void)
{
	char why[PMV_KEYS_WHY];

	if (pmv_setting.bad) {
		PMV_ALERT(FABRIC, "%s\n", pmv_setting.bad);
		return -FI_EINVAL;
	}
	if (pmv_admission_is_on() && pmv_admission_check(why)) {
		PMV_ALERT(FABRIC, "FI_PMEMVERBS_KEYS can't be used: %s\n", why);
		return -FI_EINVAL;
	}
	return 0;
}

static int check_hints(uint32_t version, uint64_t flags, const struct fi_info *hints)
{
	enum fi_ep_type type = hints->ep_attr->type;
	int ret = check_setting();

	if (ret)
		return ret;
	if (type != FI_EP_UNSPEC && type != FI_EP_MSG && type != FI_EP_RDM)
		return refuse("ep_attr->type: only FI_EP_MSG and FI_EP_RDM");
	if ((flags & PMV_INFO_CORE_ONLY) && !pmv_rdm_may_layer())
		return -FI_ENODATA;
	if ((hints->caps & FI_PMEM) && !(hints->caps & FI_RMA))
		return refuse("caps: FI_RMA_PMEM needs FI_RMA");
	if ((hints->caps | hints->tx_attr->caps | hints->rx_attr->caps) & FI_HMEM)
		return refuse("caps: FI_HMEM, since the processor copies the data of small and of "
			      "injected commits");
	if (pmv_info_is_pmem(hints) && (hints->tx_attr->comp_order & PMV_INFO_STRICT_ORDER))
		return refuse("tx_attr->comp_order: FI_ORDER_STRICT, since a commit completes when "
			      "it is durable, also behind later operations");
	if (pmv_admission_is_on() && is_basic(version, hints->domain_attr->mr_mode)) {
		PMV_ALERT(FABRIC, "FI_PMEMVERBS_KEYS is not for programs with FI_MR_BASIC, whose "
				  "keys can be guessed\n");
		return -FI_ENODATA;
	}
	if (pmv_info_is_pmem(hints) && !is_keyed(version, hints->domain_attr->mr_mode)) {
		if (pmv_setting.commit_all)
			PMV_ALERT(FABRIC,
				  "FI_PMEMVERBS_COMMIT=all can't make this program durable: "
				  "it does not let the provider choose the keys "
				  "(FI_MR_PROV_KEY in mr_mode)\n");
		return refuse("domain_attr->mr_mode: FI_RMA_PMEM needs FI_MR_PROV_KEY, since the "
			      "keys describe the memory");
	}
	return check_events(version, hints);
}

struct question {
	const struct pmv_core *core;
	const struct fi_info *hints;
};

/*
 * is_usable -- utility providers on top of the core answer, too; XRC leaves no room for
 * our CM data; and tcp answers whatever fabric and domain are asked for.  iWARP uses up the TCP
 * port at which tickets are given out (tickets.h).
 */
static bool is_usable(const struct fi_info *info, const struct fi_info *kept, const void *arg)
{
	const struct question *question = arg;

	(void) kept;
	return info->ep_attr->type == FI_EP_MSG && info->fabric_attr->prov_name &&
	       !strcmp(info->fabric_attr->prov_name, question->core->name) &&
	       info->ep_attr->protocol != FI_PROTO_RDMA_CM_IB_XRC &&
	       !(info->ep_attr->protocol == FI_PROTO_IWARP &&
		 pmv_tickets_are_used(question->core)) &&
	       pmv_info_is_named(question->hints->fabric_attr->name, info->fabric_attr->name) &&
	       pmv_info_is_named(question->hints->domain_attr->name, info->domain_attr->name);
}

/* ask_core -- what the core offers that can be used; hints are an application's, complete */
static struct fi_info *ask_core(const struct pmv_core *core, uint32_t version, const char *node,
				const char *service, uint64_t flags, const struct fi_info *hints)
{
	struct fi_info *core_hints = pmv_info_to_core(core, hints);
	struct fi_info *list = NULL;

	if (!core_hints)
		return NULL;
	core_hints->ep_attr->type = FI_EP_MSG;
	core_hints->caps |= pmv_core_wants(core);
	/* The key size is this provider's promise, not the core's. */
	core_hints->domain_attr->mr_key_size = 0;
	version = pmv_info_api_version(version);
	flags |= PMV_INFO_HIDDEN;
	if (fi_getinfo(version, node, service, flags, core_hints, &list))
		list = NULL;
	if (!list && core->means_ipv4 && core_hints->addr_format == FI_FORMAT_UNSPEC &&
	    (node || core_hints->src_addr || core_hints->dest_addr)) {
		core_hints->addr_format = FI_SOCKADDR_IN6;
		if (fi_getinfo(version, node, service, flags, core_hints, &list))
			list = NULL;
	}
	fi_freeinfo(core_hints);
	return pmv_info_filter(list, is_usable, &(struct question){core, hints});
}

/* adopt -- turn the core's infos into ours */
static void adopt(const struct pmv_core *core, struct fi_info *info, const struct fi_info *hints)
{
	for (; info; info = info->next) {
		remember(core, info->fabric_attr->name);
		pmv_info_from_core(info, hints);
		/* The core was given its own handle; the application gets the one that it passed.
		 */
		info->handle = hints->handle;
		/* libfabric sets the name, and would append ours to what is there. */
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = NULL;
	}
}

/* put -- those of `from` that are of this domain in front of *at; returns where the list goes on */
static struct fi_info **put(struct fi_info **at, struct fi_info **from, const char *domain)
{
	while (*from) {
		struct fi_info *info = *from;

		if (strcmp(info->domain_attr->name, domain) != 0) {
			from = &info->next;
			continue;
		}
		*from = info->next;
		info->next = *at;
		*at = info;
		at = &info->next;
	}
	return at;
}

/*
 * merge -- each device that FLUSHes in front of itself over the next core, so that devices keep
 * their order; those that it does not have are behind.  Returns the end of the list.
 */
static struct fi_info **merge(struct fi_info **at, struct fi_info **flushing)
{
	for (; *at; at = &(*at)->next)
		at = put(at, flushing, (*at)->domain_attr->name);
	*at = *flushing;
	*flushing = NULL;
	while (*at)
		at = &(*at)->next;
	return at;
}

static void leave_mode(struct fi_info *hints)
{
	hints->mode = ~0ULL;
	hints->domain_attr->mode = ~0ULL;
}

static void leave_mr_mode(struct fi_info *hints)
{
	hints->domain_attr->mr_mode = ~(PMV_MR_BASIC | PMV_MR_SCALABLE);
}

static void leave_address(struct fi_info *hints)
{
	hints->addr_format = FI_FORMAT_UNSPEC;
	free(hints->src_addr);
	free(hints->dest_addr);
	hints->src_addr = hints->dest_addr = NULL;
	hints->src_addrlen = hints->dest_addrlen = 0;
}

#define GROUPS 10

/* leave_out -- one of the groups of hints; returns its name */
static const char *leave_out(struct fi_info *hints, size_t group)
{
	struct fi_domain_attr *domain = hints->domain_attr;

	switch (group) {
	case 0:
		hints->caps = 0;
		return "caps";
	case 1:
		leave_mode(hints);
		return "mode";
	case 2:
		leave_address(hints);
		return "addr_format, src_addr or dest_addr";
	case 3:
		memset(hints->tx_attr, 0, sizeof(*hints->tx_attr));
		return "tx_attr";
	case 4:
		memset(hints->rx_attr, 0, sizeof(*hints->rx_attr));
		return "rx_attr";
	case 5:
		free(hints->ep_attr->auth_key);
		memset(hints->ep_attr, 0, sizeof(*hints->ep_attr));
		return "ep_attr";
	case 6:
		leave_mr_mode(hints);
		return "domain_attr->mr_mode";
	case 7:
		free(domain->name);
		domain->name = NULL;
		return "domain_attr->name";
	case 8:
		free(domain->auth_key);
		*domain = (struct fi_domain_attr){
			.name = domain->name, .mr_mode = domain->mr_mode, .mode = domain->mode};
		return "domain_attr";
	default:
		free(hints->fabric_attr->name);
		hints->fabric_attr->name = NULL;
		return "fabric_attr";
	}
}

/* explain -- log which group of hints no core can serve: it can without them */
static void explain(uint32_t version, uint64_t flags, const struct fi_info *hints)
{
	const struct pmv_core *core;

	if (!fi_log_enabled(&pmv_prov, FI_LOG_INFO, FI_LOG_FABRIC))
		return;
	for (size_t group = 0; group < GROUPS; group++) {
		for (size_t n = 0; (core = pmv_core_next(n)); n++) {
			struct fi_info *less = pmv_info_complete(hints), *info;
			const char *left;

			if (!less)
				return;
			left = leave_out(less, group);
			info = ask_core(core, version, NULL, NULL, flags & FI_SOURCE, less);
			fi_freeinfo(less);
			if (!info)
				continue;
			fi_freeinfo(info);
			PMV_INFO(FABRIC, "not offered: the core %s can't serve the hints' %s\n",
				 core->name, left);
			return;
		}
	}
	PMV_INFO(FABRIC,
		 "not offered: no core of FI_PMEMVERBS_CORE=%s answers for this node and service; "
		 "is there an RDMA device or a network interface?\n",
		 pmv_setting.core);
}

int pmv_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *complete = pmv_info_complete(hints), *list, *flushing = NULL;
	struct fi_info **tail = info;
	const struct pmv_core *core;
	enum fi_ep_type type;
	int ret;

	*info = NULL;
	if (!complete)
		return -FI_ENOMEM;
	if (!hints) {
		/* No hints: any mode will do. */
		leave_mode(complete);
		if (FI_VERSION_GE(version, FI_VERSION(1, 5)))
			leave_mr_mode(complete);
	}
	type = complete->ep_attr->type;
	ret = is_asked_for(complete) ? 0 : -FI_ENODATA;
	if (ret)
		warn_unasked(flags, complete);
	/*
	 * The RDM layer does not know the capability.  Programs that COMMIT=all makes durable
	 * do not ask for it.
	 */
	if (pmv_rdm_wants_pmem() || (pmv_setting.commit_all && (complete->caps & FI_RMA)))
		complete->caps |= FI_PMEM;
	if (!ret)
		ret = check_hints(version, flags, complete);
	if (ret)
		goto free;

	for (size_t n = 0; type != FI_EP_RDM && (core = pmv_core_next(n)); n++) {
		/* Whoever layers over this makes no commits by RDMA FLUSH. */
		if ((flags & PMV_INFO_CORE_ONLY) && pmv_core_wants(core))
			continue;
		list = ask_core(core, version, node, service, flags, complete);
		adopt(core, list, complete);
		if (pmv_core_wants(core)) {
			flushing = list;
			continue;
		}
		*tail = list;
		tail = merge(tail, &flushing);
	}
	if (type != FI_EP_MSG && !pmv_info_has_events(complete))
		*tail = pmv_rdm_ask(version, node, service, flags, complete);
	if (!*info) {
		if (type != FI_EP_RDM)
			explain(version, flags, complete);
		ret = -FI_ENODATA;
	}
free:
	fi_freeinfo(complete);
	return ret;
}
