/* SPDX-License-Identifier: BSD-2-Clause */
/* info.c -- what a device offers for an application's hints */
#include "info.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "address.h"
#include "pmemrdma_post.h"
#include "provider.h"

#define DIRECTIONS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define KINDS (FI_MSG | FI_RMA | FI_ATOMIC)
#define NEAR_AND_FAR (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define ALL_CAPS (KINDS | DIRECTIONS | NEAR_AND_FAR)
#define TX_CAPS (KINDS | FI_SEND | FI_READ | FI_WRITE)
#define RX_CAPS (KINDS | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)

#define TX_OP_FLAGS (FI_INJECT | FI_INJECT_COMPLETE | FI_COMPLETION | FI_TRANSMIT_COMPLETE)

/* Completions are in the calls' order. libfabric 2.1 has no names for that any more. */
#define TX_COMP_ORDER 0x1FFULL                     /* FI_ORDER_STRICT */
#define RX_COMP_ORDER (TX_COMP_ORDER | 1ULL << 16) /* and FI_ORDER_DATA: of the bytes, too */

/* The device's order: all but that of a write behind a read, and of a send behind one. */
#define ORDER                                                                                      \
	(FI_ORDER_RAR | FI_ORDER_RMA_RAR | FI_ORDER_ATOMIC_RAR | FI_ORDER_RAW | FI_ORDER_RMA_RAW | \
	 FI_ORDER_ATOMIC_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_RMA_WAW |                    \
	 FI_ORDER_ATOMIC_WAW | FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS)

static size_t most_requests(const struct pmr_device *device)
{
	return (size_t) device->attr.max_qp_wr;
}

static size_t most_receives(const struct pmr_device *device)
{
	size_t most = most_requests(device);

	return device->attr.max_srq_wr > 0 && (size_t) device->attr.max_srq_wr < most
		       ? (size_t) device->attr.max_srq_wr
		       : most;
}

static bool tx_fits(const struct pmr_device *device, const struct fi_tx_attr *tx)
{
	return !tx ||
	       (!(tx->caps & ~(TX_CAPS | NEAR_AND_FAR)) && !(tx->op_flags & ~TX_OP_FLAGS) &&
		!(tx->msg_order & ~ORDER) && !(tx->comp_order & ~TX_COMP_ORDER) &&
		tx->inject_size <= device->inject_size && tx->size <= most_requests(device) &&
		tx->iov_limit <= device->max_iov && tx->rma_iov_limit <= 1);
}

static bool rx_fits(const struct pmr_device *device, const struct fi_rx_attr *rx)
{
	return !rx || (!(rx->caps & ~(RX_CAPS | NEAR_AND_FAR)) &&
		       !(rx->op_flags & ~FI_COMPLETION) && !(rx->msg_order & ~ORDER) &&
		       !(rx->comp_order & ~RX_COMP_ORDER) && !rx->total_buffered_recv &&
		       rx->size <= most_receives(device) && rx->iov_limit <= device->max_iov);
}

static bool ep_fits(const struct pmr_device *device, const struct fi_ep_attr *ep)
{
	return !ep ||
	       ((ep->type == FI_EP_UNSPEC || ep->type == FI_EP_MSG) &&
		(ep->protocol == FI_PROTO_UNSPEC || ep->protocol == FI_PROTO_RDMA_CM_IB_RC) &&
		ep->protocol_version <= 1 && ep->max_msg_size <= device->max_msg_size &&
		ep->max_order_raw_size <= device->max_msg_size && !ep->max_order_war_size &&
		ep->max_order_waw_size <= device->max_msg_size && ep->tx_ctx_cnt <= 1 &&
		(ep->rx_ctx_cnt <= 1 || ep->rx_ctx_cnt == FI_SHARED_CONTEXT) && !ep->auth_key_size);
}

/* keys_fit -- addresses, keys and local buffers are the device's */
static bool keys_fit(uint32_t version, int mr_mode)
{
	if (mr_mode & PMR_MR_BASIC)
		return true;
	if (FI_VERSION_LT(version, FI_VERSION(1, 5)))
		return !mr_mode;
	return (mr_mode & PMR_MR_MODE) == PMR_MR_MODE;
}

static bool domain_fits(const struct pmr_device *device, uint32_t version,
			const struct fi_domain_attr *domain)
{
	if (!domain)
		return true;
	return (!domain->name || !strcmp(domain->name, pmr_device_name(device))) &&
	       !(domain->caps & ~NEAR_AND_FAR) && keys_fit(version, domain->mr_mode) &&
	       domain->mr_key_size <= sizeof(uint64_t) &&
	       domain->cq_data_size <= sizeof(uint32_t) && domain->mr_iov_limit <= 1 &&
	       !domain->auth_key_size;
}

static bool fabric_fits(const struct pmr_device *device, const struct fi_fabric_attr *fabric)
{
	return !fabric || !fabric->name || !strcmp(fabric->name, device->fabric);
}

/* takes_receives -- a write with immediate data uses up a receive: who writes has to know that */
static bool takes_receives(const struct fi_info *hints)
{
	uint64_t mode = hints->rx_attr && hints->rx_attr->mode ? hints->rx_attr->mode : hints->mode;

	return mode & FI_RX_CQ_DATA;
}

bool pmr_info_may_serve(const struct pmr_device *device, uint32_t version,
			const struct fi_info *hints)
{
	if (!hints)
		return true;
	if ((hints->caps & PMEMRDMA_FLUSHES) && !(device->flush_ways & PMEMRDMA_FLUSH_PERSISTENT))
		return false;
	return !(hints->caps & ~(ALL_CAPS | PMEMRDMA_FLUSHES)) &&
	       pmr_address_family(hints->addr_format) >= 0 &&
	       (!(hints->caps & FI_RMA) || takes_receives(hints)) &&
	       tx_fits(device, hints->tx_attr) && rx_fits(device, hints->rx_attr) &&
	       ep_fits(device, hints->ep_attr) &&
	       domain_fits(device, version, hints->domain_attr) &&
	       fabric_fits(device, hints->fabric_attr);
}

/* complete -- each kind of operation in all directions, if none is named */
static uint64_t complete(uint64_t caps)
{
	if (!caps)
		return ALL_CAPS;
	if ((caps & FI_MSG) && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if ((caps & (FI_RMA | FI_ATOMIC)) &&
	    !(caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)))
		caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	return caps | NEAR_AND_FAR;
}

static size_t choose(size_t asked, size_t usual, size_t most)
{
	if (asked)
		return asked;
	return usual < most ? usual : most;
}

static void set_tx(struct fi_tx_attr *tx, const struct pmr_device *device, uint64_t caps,
		   const struct fi_tx_attr *asked)
{
	static const struct fi_tx_attr none;

	if (!asked)
		asked = &none;
	*tx = (struct fi_tx_attr){
		.caps = (asked->caps ? complete(asked->caps) & caps : caps) & TX_CAPS,
		.op_flags = asked->op_flags,
		.msg_order = asked->msg_order ? asked->msg_order : ORDER,
		.comp_order = TX_COMP_ORDER,
		.inject_size = asked->inject_size ? asked->inject_size : device->inject_size,
		.size = choose(asked->size, PMR_DEFAULT_SIZE, most_requests(device)),
		.iov_limit = choose(asked->iov_limit, device->max_iov, device->max_iov),
		.rma_iov_limit = 1,
	};
}

static void set_rx(struct fi_rx_attr *rx, const struct pmr_device *device, uint64_t caps,
		   const struct fi_rx_attr *asked)
{
	static const struct fi_rx_attr none;

	if (!asked)
		asked = &none;
	*rx = (struct fi_rx_attr){
		.caps = (asked->caps ? complete(asked->caps) & caps : caps) & RX_CAPS,
		.mode = caps & FI_RMA ? FI_RX_CQ_DATA : 0,
		.op_flags = asked->op_flags,
		.msg_order = asked->msg_order ? asked->msg_order : ORDER,
		.comp_order = RX_COMP_ORDER,
		.size = choose(asked->size, PMR_DEFAULT_SIZE, most_receives(device)),
		.iov_limit = choose(asked->iov_limit, device->max_iov, device->max_iov),
	};
}

static void set_ep(struct fi_ep_attr *ep, const struct pmr_device *device,
		   const struct fi_ep_attr *asked)
{
	*ep = (struct fi_ep_attr){
		.type = FI_EP_MSG,
		.protocol = FI_PROTO_RDMA_CM_IB_RC,
		.protocol_version = 1,
		.max_msg_size = device->max_msg_size,
		.max_order_raw_size = device->max_msg_size,
		.max_order_waw_size = device->max_msg_size,
		.tx_ctx_cnt = 1,
		.rx_ctx_cnt = asked && asked->rx_ctx_cnt ? asked->rx_ctx_cnt : 1,
	};
}

static void set_domain(struct fi_domain_attr *domain, const struct pmr_device *device,
		       const struct fi_domain_attr *asked)
{
	const struct ibv_device_attr *attr = &device->attr;
	bool basic = asked && ((asked->mr_mode & PMR_MR_BASIC) || !asked->mr_mode);

	domain->threading = asked && asked->threading ? asked->threading : FI_THREAD_SAFE;
	domain->control_progress =
		asked && asked->control_progress ? asked->control_progress : FI_PROGRESS_AUTO;
	domain->data_progress =
		asked && asked->data_progress ? asked->data_progress : FI_PROGRESS_AUTO;
	domain->resource_mgmt =
		asked && asked->resource_mgmt ? asked->resource_mgmt : FI_RM_ENABLED;
	domain->av_type = asked ? asked->av_type : FI_AV_UNSPEC;
	domain->mr_mode = basic ? PMR_MR_BASIC : PMR_MR_MODE;
	domain->mr_key_size = sizeof(uint32_t);
	domain->cq_data_size = sizeof(uint32_t);
	domain->cq_cnt = (size_t) attr->max_cq;
	domain->ep_cnt = (size_t) attr->max_qp;
	domain->tx_ctx_cnt = domain->rx_ctx_cnt = (size_t) attr->max_qp;
	domain->max_ep_tx_ctx = domain->max_ep_rx_ctx = 1;
	domain->max_ep_srx_ctx = (size_t) attr->max_srq;
	domain->mr_iov_limit = 1;
	domain->mr_cnt = (size_t) attr->max_mr;
	domain->caps = NEAR_AND_FAR;
}

struct fi_info *pmr_info_of(const struct pmr_device *device, uint32_t version,
			    const struct fi_info *hints)
{
	static const struct fi_info nothing;
	struct fi_info *info = fi_allocinfo();
	uint64_t caps = hints ? hints->caps & ~PMEMRDMA_FLUSHES : 0;
	bool rma = !hints || caps || takes_receives(hints);

	if (!info)
		return NULL;
	info->domain_attr->name = strdup(pmr_device_name(device));
	info->fabric_attr->name = strdup(device->fabric);
	if (!info->domain_attr->name || !info->fabric_attr->name) {
		fi_freeinfo(info);
		return NULL;
	}
	/* No hints: any mode will do. */
	set_domain(info->domain_attr, device, hints ? hints->domain_attr : NULL);
	if (!hints)
		hints = &nothing;
	info->caps = complete(caps) & ~(rma ? 0 : FI_RMA);
	info->mode = info->caps & FI_RMA ? FI_RX_CQ_DATA : 0;
	set_tx(info->tx_attr, device, info->caps, hints->tx_attr);
	set_rx(info->rx_attr, device, info->caps, hints->rx_attr);
	set_ep(info->ep_attr, device, hints->ep_attr);
	info->fabric_attr->api_version = version;
	info->fabric_attr->prov_version = pmr_prov.version;
	return info;
}

static bool set_address(void **to, size_t *len, const struct sockaddr *from)
{
	free(*to);
	*to = NULL;
	*len = 0;
	if (!from)
		return true;
	*to = malloc(pmr_address_len(from));
	if (!*to)
		return false;
	*len = pmr_address_len(from);
	memcpy(*to, from, *len);
	return true;
}

bool pmr_info_set_addresses(struct fi_info *info, const struct sockaddr *src,
			    const struct sockaddr *dest)
{
	const struct sockaddr *any = src ? src : dest;

	info->addr_format = any ? pmr_address_format(any) : FI_FORMAT_UNSPEC;
	return set_address(&info->src_addr, &info->src_addrlen, src) &&
	       set_address(&info->dest_addr, &info->dest_addrlen, dest);
}

struct fi_info *pmr_info_of_request(const struct fi_info *passive, const struct pmr_device *device,
				    const struct sockaddr *src, const struct sockaddr *dest)
{
	struct fi_info *info, hints = *passive;
	char *prov_name;

	/* Whoever listens at all devices has asked for what this one has, too, as far as it goes.
	 */
	if (!tx_fits(device, hints.tx_attr))
		hints.tx_attr = NULL;
	if (!rx_fits(device, hints.rx_attr))
		hints.rx_attr = NULL;
	if (strcmp(passive->domain_attr->name, pmr_device_name(device)) != 0)
		info = pmr_info_of(device, passive->fabric_attr->api_version, &hints);
	else
		info = fi_dupinfo(passive);
	prov_name = strdup(PMR_NAME);
	if (!info || !prov_name || !pmr_info_set_addresses(info, src, dest)) {
		fi_freeinfo(info);
		free(prov_name);
		return NULL;
	}
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = prov_name;
	info->handle = NULL;
	return info;
}
