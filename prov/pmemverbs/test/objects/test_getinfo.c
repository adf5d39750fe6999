/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_getinfo.c -- what is offered, by settings of others and by hints
 *
 * The linker puts what is here in front of libfabric's settings and fi_getinfo.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "objects/fabric.h"
#include "engine/engine.h"
#include "engine/info.h"
#include "base/log.h"
#include "base/setting.h"
#include "rdm/rdm.h"
#include "pmemrdma/pmemrdma_post.h"
#include "test/support/key_dirs.h"

/* As libfabric.conf has them, of which the environment knows nothing. */
static const char *provider, *num_msg_eps;
static const char *own_name, *own_value; /* a setting of this provider's */
static int asked;                        /* cores and RxM */
static uint32_t formats[4];              /* ... and for addresses of which */
static char names[4][16];
static uint64_t asked_caps[4];
static uint32_t protocol; /* of the one info that a core has; 0: it has none */

int __wrap_fi_param_get(struct fi_provider *prov, const char *name, void *value);
int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info);

int __wrap_fi_param_get(struct fi_provider *prov, const char *name, void *value)
{
	const struct {
		const char *name, *value;
	} all[] = {
		{"provider", provider},
		{"ofi_rxm_num_msg_eps", num_msg_eps},
	};

	if (prov && own_name && !strcmp(name, own_name)) {
		*(const char **) value = own_value;
		return 0;
	}
	for (size_t i = 0; !prov && i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(name, all[i].name) || !all[i].value)
			continue;
		*(const char **) value = all[i].value;
		return 0;
	}
	return -FI_ENODATA;
}

/* Devices that cores have: a core, and the device's domain. */
static const char *const (*found)[2];

static struct fi_info *found_by(const struct fi_info *hints)
{
	const char *core = hints->fabric_attr->prov_name;
	struct fi_info *list = NULL, **tail = &list;

	for (size_t i = 0; found && found[i][0]; i++) {
		if (strcmp(found[i][0], core) != 0)
			continue;
		*tail = fi_dupinfo(hints);
		(*tail)->fabric_attr->name = strdup(core);
		(*tail)->domain_attr->name = strdup(found[i][1]);
		tail = &(*tail)->next;
	}
	return list;
}

int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info)
{
	(void) version, (void) node, (void) service, (void) flags;
	*info = NULL;
	formats[asked % 4] = hints->addr_format;
	asked_caps[asked % 4] = hints->caps;
	snprintf(names[asked % 4], sizeof(names[0]), "%s", hints->fabric_attr->prov_name);
	asked++;
	*info = found_by(hints);
	if (*info)
		return 0;
	if (!protocol || hints->ep_attr->type != FI_EP_MSG)
		return -FI_ENODATA;
	*info = fi_dupinfo(hints);
	(*info)->ep_attr->protocol = protocol;
	(*info)->fabric_attr->name = strdup("fabric");
	(*info)->domain_attr->name = strdup("domain");
	return 0;
}

static struct fi_info *new_hints(const char *name)
{
	struct fi_info *hints = fi_allocinfo();

	cr_assert_not_null(hints);
	if (name)
		hints->fabric_attr->prov_name = strdup(name);
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_LOCAL;
	pmv_setting.core = "verbs,tcp";
	return hints;
}

static int how_many_with(uint64_t flags, struct fi_info *hints)
{
	struct fi_info *info;

	asked = 0;
	cr_assert_eq(pmv_getinfo(FI_VERSION(1, 17), NULL, NULL, flags, hints, &info), -FI_ENODATA);
	cr_assert_null(info);
	fi_freeinfo(hints);
	return asked;
}

/* how_many_are_asked -- cores and RxM, by a getinfo with hints, which are freed */
static int how_many_are_asked(struct fi_info *hints)
{
	return how_many_with(0, hints);
}

Test(settings, of_libfabric_are_those_that_it_has_itself)
{
	static const struct {
		const char *provider;
		bool asked_for;
	} cases[] = {
		{NULL, false},    {"tcp", false},          {"^pmemverbs", false},
		{PMV_NAME, true}, {"tcp,pmemverbs", true}, {"pmemverbs;ofi_rxm", true},
		{"verbs", false},
	};

	/* What is not what libfabric takes counts for nothing. */
	unsetenv("FI_PROVIDER");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		provider = cases[i].provider;
		cr_expect_eq(how_many_are_asked(new_hints(NULL)) > 0, cases[i].asked_for,
			     "case %zu", i);
	}
	provider = NULL;
	setenv("FI_PROVIDER", PMV_NAME, 1);
	cr_expect_eq(how_many_are_asked(new_hints(NULL)), 0);
}

Test(settings, of_rxm_for_several_connections_are_those_that_it_has_itself)
{
	static const struct {
		const char *num_msg_eps;
		bool offered;
	} cases[] = {
		{NULL, true}, {"1", true},   {"0", true},     {"0x1", true}, {"2", false},
		{"3", false}, {"-1", false}, {"0x10", false}, {"16", false},
	};

	unsetenv("FI_OFI_RXM_NUM_MSG_EPS");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_info *hints = new_hints(PMV_NAME);

		num_msg_eps = cases[i].num_msg_eps;
		hints->ep_attr->type = FI_EP_RDM;
		cr_expect_eq(how_many_are_asked(hints), cases[i].offered ? 1 : 0, "case %zu", i);
	}
}

Test(settings, of_rxm_are_left_alone)
{
	static const char *const providers[] = {NULL, "pmemverbs,tcp", PMV_NAME};

	unsetenv("FI_OFI_RXM_SAR_LIMIT");
	/* No RDMA device is in question. */
	pmv_setting.core = "tcp";
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
		provider = providers[i];
		pmv_rdm_start();
		cr_expect_null(getenv("FI_OFI_RXM_SAR_LIMIT"));
	}
}

/* Which cores are offered, if nobody has chosen any */

/* by_default -- MSG endpoints over all cores, with this setting, or none */
static int by_default(const char *name, const char *value, uint64_t flags)
{
	struct fi_info *hints = new_hints(PMV_NAME);

	hints->ep_attr->type = FI_EP_MSG;
	own_name = name;
	own_value = value;
	pmv_setting = (struct pmv_setting){0};
	pmv_setting_read();
	return how_many_with(flags, hints);
}

Test(default_core, is_native_where_the_device_flushes)
{
	cr_assert_eq(by_default(NULL, NULL, 0), 3);
	cr_expect_str_eq(names[0], "pmemrdma");
	cr_expect(asked_caps[0] & PMEMRDMA_FLUSHES);
	cr_expect_str_eq(names[1], "verbs");
	cr_expect_not(asked_caps[1] & PMEMRDMA_FLUSHES);
	cr_expect_str_eq(names[2], "tcp");
	cr_expect_not(asked_caps[2] & PMEMRDMA_FLUSHES);
}

Test(default_core, of_who_has_chosen_is_the_choice)
{
	cr_assert_eq(by_default("CORE", "native", 0), 1);
	cr_expect_str_eq(names[0], "pmemrdma");
	cr_expect_not(asked_caps[0] & PMEMRDMA_FLUSHES);
	cr_assert_eq(by_default("CORE", "verbs,native", 0), 2);
	cr_expect_str_eq(names[0], "verbs");
}

/* The first device is not another one because a later one FLUSHes. */
Test(default_core, keeps_the_order_of_devices)
{
	static const char *const all[][2] = {
		{"verbs", "mlx5_0"},  {"verbs", "rxe0"},    {"verbs", "rxe0"},
		{"verbs", "mlx5_1"},  {"pmemrdma", "rxe1"}, {"pmemrdma", "rxe0"},
		{"pmemrdma", "rxe0"}, {"tcp", "eth0"},      {NULL, NULL}};
	static const char *const wanted[][2] = {
		{"verbs", "mlx5_0"}, {"pmemrdma", "rxe0"}, {"pmemrdma", "rxe0"}, {"verbs", "rxe0"},
		{"verbs", "rxe0"},   {"verbs", "mlx5_1"},  {"pmemrdma", "rxe1"}, {"tcp", "eth0"}};
	struct fi_info *hints = new_hints(PMV_NAME), *info, *at;
	size_t n = 0;

	hints->ep_attr->type = FI_EP_MSG;
	pmv_setting = (struct pmv_setting){0};
	pmv_setting_read();
	found = all;
	cr_assert_eq(pmv_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
	for (at = info; at; at = at->next, n++) {
		cr_assert_lt(n, sizeof(wanted) / sizeof(wanted[0]));
		cr_expect_str_eq(at->fabric_attr->name, wanted[n][0], "info %zu", n);
		cr_expect_str_eq(at->domain_attr->name, wanted[n][1], "info %zu", n);
	}
	cr_expect_eq(n, sizeof(wanted) / sizeof(wanted[0]));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* There is no other core for RDMA: libfabric may be built without verbs. */
Test(default_core, is_native_where_there_is_no_verbs)
{
	static const char *const all[][2] = {{"pmemrdma", "rxe0"}, {"tcp", "eth0"}, {NULL, NULL}};
	struct fi_info *hints = new_hints(PMV_NAME), *info;

	hints->ep_attr->type = FI_EP_MSG;
	pmv_setting = (struct pmv_setting){0};
	pmv_setting_read();
	found = all;
	cr_assert_eq(pmv_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), 0);
	cr_expect_str_eq(info->fabric_attr->name, "pmemrdma");
	cr_expect_str_eq(info->next->fabric_attr->name, "tcp");
	cr_expect_null(info->next->next);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* RxM has FLUSHes of nobody. */
Test(default_core, below_rxm_is_verbs)
{
	cr_assert_eq(by_default(NULL, NULL, PMV_INFO_CORE_ONLY), 2);
	cr_expect_str_eq(names[0], "verbs");
}

Test(default_core, is_verbs_where_nobody_flushes)
{
	static const char *const settings[][2] = {
		{"FLUSH", "off"}, {"COMMIT", "all"}, {"ORDERING", "relaxed"}};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		cr_assert_eq(by_default(settings[i][0], settings[i][1], 0), 2, "%s",
			     settings[i][0]);
		cr_expect_str_eq(names[0], "verbs");
	}
	/* Or where somebody has set it up. */
	setenv("FI_VERBS_USE_ODP", "1", 1);
	cr_assert_eq(by_default(NULL, NULL, 0), 2);
	cr_expect_str_eq(names[0], "verbs");
}

Test(default_core, of_who_knows_his_peers_is_not_native)
{
	own_name = "KEYS";
	own_value = "/nowhere";
	pmv_setting_read();
	cr_expect_str_eq(pmv_setting.core, "verbs,tcp");
	cr_expect_not(pmv_setting.native_flushes);
}

/* Memory of other devices, which the processor can't copy. */

Test(hmem, is_not_served)
{
	for (int where = 0; where < 4; where++) {
		for (int type = 0; type < 3; type++) {
			static const enum fi_ep_type types[] = {FI_EP_UNSPEC, FI_EP_MSG, FI_EP_RDM};
			struct fi_info *hints = new_hints(PMV_NAME);

			hints->caps = FI_RMA | (where == 0 ? FI_HMEM : 0);
			hints->tx_attr->caps = where == 1 ? FI_RMA | FI_HMEM : 0;
			hints->rx_attr->caps = where == 2 ? FI_RMA | FI_HMEM : 0;
			hints->ep_attr->type = types[type];
			cr_expect_eq(how_many_are_asked(hints) > 0, where == 3, "%d %d", where,
				     type);
		}
	}
}

/* A later write may complete before a commit by the agent. */
Test(order, of_completions_is_not_promised_for_commits)
{
	for (int i = 0; i < 4; i++) {
		struct fi_info *hints = new_hints(PMV_NAME);

		hints->caps = FI_RMA | (i & 1 ? FI_PMEM : 0);
		hints->ep_attr->type = FI_EP_MSG;
		hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_LOCAL;
		hints->tx_attr->comp_order = i & 2 ? PMV_INFO_STRICT_ORDER : 0;
		cr_expect_eq(how_many_are_asked(hints) > 0, i != 3, "%d", i);
	}
}

/* Events of what peers write */

static int how_many_are_asked_for_events(uint64_t caps, enum fi_ep_type type)
{
	struct fi_info *hints = new_hints(PMV_NAME);

	hints->caps = caps;
	hints->ep_attr->type = type;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_LOCAL;
	return how_many_are_asked(hints);
}

Test(rma_event, is_served_where_peers_write_and_the_agent_can_tell)
{
	static const struct {
		uint64_t caps;
		bool served;
	} cases[] = {
		{FI_RMA, true},
		{FI_ATOMIC, true},
		{FI_RMA | FI_REMOTE_WRITE, true},
		{FI_RMA | FI_REMOTE_READ, false},
		{FI_RMA | FI_WRITE, false},
		{FI_MSG, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t caps = cases[i].caps | FI_RMA_EVENT;

		cr_expect_eq(how_many_are_asked_for_events(caps, FI_EP_MSG) > 0, cases[i].served,
			     "case %zu", i);
	}
	cr_expect_eq(how_many_are_asked_for_events(FI_RMA | FI_RMA_EVENT, FI_EP_RDM), 0);
	pmv_setting.agent = PMV_AGENT_OFF;
	cr_expect_eq(how_many_are_asked_for_events(FI_RMA | FI_RMA_EVENT, FI_EP_MSG), 0);
	cr_expect_gt(how_many_are_asked_for_events(FI_RMA, FI_EP_MSG), 0);
}

/* RxM knows nothing of them. */
Test(rma_event, is_not_asked_of_rxm)
{
	int both = how_many_are_asked_for_events(FI_RMA, FI_EP_UNSPEC);
	int events = how_many_are_asked_for_events(FI_RMA | FI_RMA_EVENT, FI_EP_UNSPEC);

	cr_expect_eq(events, how_many_are_asked_for_events(FI_RMA, FI_EP_MSG));
	cr_expect_lt(events, both);
}

/* hmem_offer -- of a core that can use it, to who has no hints of it */
static struct fi_info *hmem_offer(void (*take)(struct fi_info *, const struct fi_info *))
{
	struct fi_info *info = fi_allocinfo(), *hints = new_hints(NULL);

	cr_assert_not_null(info);
	info->caps = info->tx_attr->caps = info->rx_attr->caps = FI_MSG | FI_RMA | FI_HMEM;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_HMEM;
	info->tx_attr->comp_order = PMV_INFO_STRICT_ORDER;
	take(info, hints);
	fi_freeinfo(hints);
	return info;
}

Test(hmem, is_not_offered_either)
{
	for (int rxm = 0; rxm < 2; rxm++) {
		struct fi_info *info = hmem_offer(rxm ? pmv_info_from_layer : pmv_info_from_core);

		cr_expect_not((info->caps | info->tx_attr->caps | info->rx_attr->caps) & FI_HMEM);
		cr_expect_not(info->domain_attr->mr_mode & FI_MR_HMEM);
		cr_expect(info->caps & FI_PMEM);
		cr_expect(rxm || !info->tx_attr->comp_order);
		fi_freeinfo(info);
	}
}

/* verbs looks for no address of IPv6 unless it is told to; tcp looks for any. */
Test(addresses, of_ipv6_are_looked_for_where_there_are_none_of_ipv4)
{
	struct fi_info *hints = new_hints(PMV_NAME), *info;

	hints->ep_attr->type = FI_EP_MSG;
	asked = 0;
	cr_assert_eq(pmv_getinfo(FI_VERSION(1, 17), "fd00::1", NULL, 0, hints, &info), -FI_ENODATA);
	cr_assert_eq(asked, 3);
	cr_expect_eq(formats[0], FI_FORMAT_UNSPEC);
	cr_expect_eq(formats[1], FI_SOCKADDR_IN6);
	cr_expect_eq(formats[2], FI_FORMAT_UNSPEC);
	/* Whoever asks for a format gets no other. */
	hints->addr_format = FI_SOCKADDR_IN;
	asked = 0;
	cr_assert_eq(pmv_getinfo(FI_VERSION(1, 17), "fd00::1", NULL, 0, hints, &info), -FI_ENODATA);
	cr_assert_eq(asked, 2);
	cr_expect_eq(formats[0], FI_SOCKADDR_IN);
	fi_freeinfo(hints);
}

/* Cores count the keys of such programs. */
Test(getinfo, refuses_programs_with_basic_keys_if_peers_have_to_prove_theirs, .init = key_dirs_make,
     .fini = key_dirs_remove)
{
	struct fi_info *info, *hints;

	for (int end = CLIENT; end <= ENDS; end += ENDS - CLIENT) {
		key_dirs_be(end);
		cr_expect_eq(how_many_are_asked(new_hints(PMV_NAME)) > 0, true);
		hints = new_hints(PMV_NAME);
		hints->domain_attr->mr_mode = PMV_MR_BASIC;
		cr_expect_eq(how_many_are_asked(hints) > 0, end == ENDS);
		/* So it was with libfabric 1.4, without hints for that. */
		hints = new_hints(PMV_NAME);
		hints->domain_attr->mr_mode = 0;
		asked = 0;
		cr_expect_eq(pmv_getinfo(FI_VERSION(1, 4), NULL, NULL, 0, hints, &info),
			     -FI_ENODATA);
		cr_expect_eq(asked > 0, end == ENDS);
		fi_freeinfo(hints);
	}
}

/* iWARP uses up the TCP port of that number. */
Test(getinfo, offers_no_iwarp_if_peers_need_tickets, .init = key_dirs_make, .fini = key_dirs_remove)
{
	static const struct {
		const char *core;
		uint32_t protocol;
		int end, ret;
	} cases[] = {
		{"verbs", FI_PROTO_IWARP, ENDS, 0},
		{"verbs", FI_PROTO_IWARP, CLIENT, -FI_ENODATA},
		{"verbs", FI_PROTO_RDMA_CM_IB_RC, CLIENT, 0},
		{"native", FI_PROTO_RDMA_CM_IB_RC, CLIENT, 0},
		{"tcp", FI_PROTO_SOCK_TCP, CLIENT, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_info *hints = new_hints(PMV_NAME), *info;

		key_dirs_be(cases[i].end);
		hints->ep_attr->type = FI_EP_MSG;
		pmv_setting.core = cases[i].core;
		protocol = cases[i].protocol;
		cr_expect_eq(pmv_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info),
			     cases[i].ret, "case %zu", i);
		if (!cases[i].ret)
			fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}
