/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rxm.c -- who answers fi_getinfo and fi_fabric: libfabric's RxM, the provider, the simulated core
 *
 * RxM is that of the installed libfabric.  What it asks for below comes to the provider, and what
 * the provider asks for below comes to the core that the process has.
 */
#include "rxm.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "core.h"
#include "scheduler.h"
#include "testcore/fid.h"

/* provider.c: what libfabric calls when it loads it */
struct fi_provider *fi_prov_ini(void);

#define CORE_NAME "tcp"
#define LAYER ";ofi_rxm"

static struct fi_provider *provider; /* NULL: none of this is used */
static struct core_domain *(*core_of)(const struct sched_process *process);

static __typeof__(fi_getinfo) *real_getinfo;
static __typeof__(fi_fabric) *real_fabric;

void rxm_load(void)
{
	struct fi_info *hints = testcore_need(fi_allocinfo()), *info;

	/* RxM's buffers are registered for each endpoint. */
	setenv("FI_OFI_RXM_BUFFER_SIZE", "1024", 1);
	setenv("FI_OFI_RXM_MSG_TX_SIZE", "16", 1);
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 1);
	setenv("FI_UNIVERSE_SIZE", "4", 1);
	setenv("FI_PROVIDER", "ofi_rxm", 1);
	/* Its warnings ask the simulated core for what that does not have. */
	unsetenv("FI_LOG_LEVEL");
	*(void **) &real_getinfo = dlsym(RTLD_NEXT, "fi_getinfo");
	*(void **) &real_fabric = dlsym(RTLD_NEXT, "fi_fabric");
	hints->fabric_attr->prov_name = strdup("ofi_rxm");
	if (!real_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info))
		fi_freeinfo(info);
	fi_freeinfo(hints);
}

void rxm_start(struct core_domain *(*find_core)(const struct sched_process *process))
{
	setenv("FI_PMEMVERBS_CORE", CORE_NAME, 1);
	core_of = find_core;
	provider = fi_prov_ini();
}

static void copy_addr(void **to, size_t *to_len, const void *from, size_t len)
{
	*to = from ? testcore_need(malloc(len)) : NULL;
	*to_len = from ? len : 0;
	if (from)
		memcpy(*to, from, len);
}

static void describe_limits(struct fi_info *info)
{
	info->tx_attr->size = info->tx_attr->size ? info->tx_attr->size : 64;
	info->rx_attr->size = info->rx_attr->size ? info->rx_attr->size : 64;
	info->tx_attr->inject_size = 128;
	info->tx_attr->iov_limit = info->rx_attr->iov_limit = 4;
	info->tx_attr->rma_iov_limit = 1;
	info->tx_attr->op_flags = 0;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->protocol = FI_PROTO_SOCK_TCP;
	info->ep_attr->max_msg_size = SIZE_MAX;
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->control_progress = info->domain_attr->data_progress = FI_PROGRESS_AUTO;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
	info->domain_attr->mr_key_size = sizeof(uint64_t);
	info->domain_attr->cq_data_size = sizeof(uint64_t);
	info->domain_attr->mr_iov_limit = 1;
	info->domain_attr->cq_cnt = info->domain_attr->ep_cnt = 64;
}

/* offer -- what the core can do, at the address of the process that asks */
static struct fi_info *offer(const struct fi_info *hints)
{
	struct fi_info *info = testcore_need(fi_dupinfo(hints));
	const struct core_domain *core = core_of(sched_process());
	const struct sockaddr_in here = {.sin_family = AF_INET,
					 .sin_port = htons(core->port),
					 .sin_addr.s_addr = htonl(core->ip)};

	info->next = NULL;
	info->mode = 0;
	info->caps &= FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
		      FI_REMOTE_WRITE;
	info->tx_attr->caps = info->rx_attr->caps = info->caps;
	info->addr_format = FI_SOCKADDR_IN;
	free(info->src_addr);
	copy_addr(&info->src_addr, &info->src_addrlen, &here, sizeof(here));
	describe_limits(info);
	free(info->fabric_attr->name);
	free(info->domain_attr->name);
	info->fabric_attr->name = strdup("simulated");
	info->domain_attr->name = strdup("simulated");
	return info;
}

/* name -- as libfabric does: whose it is */
static void name(struct fi_info *info)
{
	for (; info; info = info->next) {
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = strdup(provider->name);
		info->fabric_attr->prov_version = provider->version;
		info->fabric_attr->api_version = FI_VERSION(1, 17);
	}
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info)
{
	const char *wanted = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	int ret = 0;

	if (!provider)
		return -FI_ENODATA;
	if (wanted && strstr(wanted, LAYER))
		return real_getinfo(version, node, service, flags, hints, info);
	if (wanted && !strcmp(wanted, CORE_NAME)) {
		*info = offer(hints);
	} else {
		ret = provider->getinfo(version, node, service, flags, hints, info);
		if (!ret && !(*info)->fabric_attr->prov_name)
			name(*info);
	}
	return ret;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	if (strstr(attr->prov_name, LAYER))
		return real_fabric(attr, fabric, context);
	if (!strcmp(attr->prov_name, CORE_NAME)) {
		*fabric = &core_of(sched_process())->fabric;
		return 0;
	}
	return provider->fabric(attr, fabric, context);
}
