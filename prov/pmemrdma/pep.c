/* SPDX-License-Identifier: BSD-2-Clause */
/* pep.c -- passive endpoints */
#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "address.h"
#include "eq.h"
#include "provider.h"

#define DEFAULT_BACKLOG 1024

struct pmr_pep {
	struct fid_pep pep_fid;
	struct pmr_fabric *fabric;
	struct pmr_eq *eq;
	struct fi_info *info;
	struct rdma_cm_id *id;
	struct pmr_cm_owner owner;
	int backlog;
};

static struct pmr_pep *to_pep(struct fid *fid)
{
	return pmv_container_of(fid, struct pmr_pep, pep_fid.fid);
}

static int pep_close(struct fid *fid)
{
	struct pmr_pep *pep = to_pep(fid);
	int ret = 0;

	if (pep->eq)
		pthread_mutex_lock(&pep->eq->lock);
	if (pep->id && rdma_destroy_id(pep->id))
		ret = -errno;
	if (pep->eq) {
		if (!ret)
			pmr_eq_forget(pep->eq, fid);
		pthread_mutex_unlock(&pep->eq->lock);
	}
	/* It is still there, and can be closed again. */
	if (ret)
		return ret;
	if (pep->eq)
		atomic_fetch_sub(&pep->eq->users, 1);
	fi_freeinfo(pep->info);
	atomic_fetch_sub(&pep->fabric->users, 1);
	free(pep);
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmr_pep *pep = to_pep(fid);
	int ret;

	if (bfid->fclass != FI_CLASS_EQ || flags || pep->eq)
		return -FI_EINVAL;
	ret = pmr_eq_adopt(pmr_to_eq(bfid), pep->id);
	if (ret)
		return ret;
	pep->eq = pmr_to_eq(bfid);
	atomic_fetch_add(&pep->eq->users, 1);
	return 0;
}

static int pep_control(struct fid *fid, int command, void *arg)
{
	if (command != FI_BACKLOG)
		return -FI_ENOSYS;
	if (!arg)
		return -FI_EINVAL;
	to_pep(fid)->backlog = *(int *) arg;
	return 0;
}

static struct fi_ops pep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
	.control = pep_control,
	.ops_open = pmr_no_ops_open,
};

static int pep_listen(struct fid_pep *fid)
{
	struct pmr_pep *pep = to_pep(&fid->fid);

	if (!pep->eq)
		return -FI_ENOEQ;
	return rdma_listen(pep->id, pep->backlog) ? -errno : 0;
}

static int pep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	return pmr_address_copy_out(rdma_get_local_addr(to_pep(fid)->id), addr, addrlen);
}

static int make_id(const union pmr_address *addr, void *context, struct rdma_cm_id **id)
{
	union pmr_address bound = *addr;
	int ret;

	if (rdma_create_id(NULL, id, context, RDMA_PS_TCP))
		return -errno;
	if (!rdma_bind_addr(*id, &bound.any))
		return 0;
	ret = -errno;
	rdma_destroy_id(*id);
	*id = NULL;
	return ret;
}

static int pep_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct pmr_pep *pep = to_pep(fid);
	union pmr_address wanted;
	struct rdma_cm_id *id;
	int ret;

	if (!pmr_address_take(&wanted, addr, addrlen))
		return -FI_EINVAL;
	if (pep->eq)
		return -FI_EOPBADSTATE;
	ret = make_id(&wanted, &pep->owner, &id);
	if (ret)
		return ret;
	if (rdma_destroy_id(pep->id)) {
		ret = -errno;
		rdma_destroy_id(id);
		return ret;
	}
	pep->id = id;
	return 0;
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *param, size_t paramlen)
{
	struct pmr_cm_data data;
	int len = pmr_cm_data_pack(&data, param, paramlen);

	(void) fid;
	if (len < 0)
		return len;
	if (!handle || handle->fclass != FI_CLASS_CONNREQ)
		return -FI_EINVAL;
	return pmr_connreq_reject(pmv_container_of(handle, struct pmr_connreq, handle), &data, len);
}

static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = pep_setname,
	.getname = pep_getname,
	.getpeer = pmr_no_getpeer,
	.connect = pmr_no_connect,
	.listen = pep_listen,
	.accept = pmr_no_accept,
	.reject = pep_reject,
	.shutdown = pmr_no_shutdown,
	.join = pmr_no_join,
};

static struct fi_ops_ep pep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = pmr_no_cancel,
	.getopt = pmr_cm_data_getopt,
	.setopt = pmr_no_setopt,
	.tx_ctx = pmr_no_tx_ctx,
	.rx_ctx = pmr_no_rx_ctx,
	.rx_size_left = pmr_no_size_left,
	.tx_size_left = pmr_no_size_left,
};

int pmr_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep_fid,
		 void *context)
{
	union pmr_address addr;
	struct pmr_pep *pep;
	int ret = -FI_ENOMEM;

	if (!pmr_address_take(&addr, info->src_addr, info->src_addrlen))
		addr.in = (struct sockaddr_in){.sin_family = AF_INET};
	pep = calloc(1, sizeof(*pep));
	if (!pep)
		return -FI_ENOMEM;
	pep->fabric = pmr_to_fabric(fabric);
	atomic_fetch_add(&pep->fabric->users, 1);
	pep->info = fi_dupinfo(info);
	pep->backlog = DEFAULT_BACKLOG;
	pep->pep_fid.fid = (struct fid){FI_CLASS_PEP, context, &pep_fi_ops};
	pep->pep_fid.ops = &pep_ops;
	pep->pep_fid.cm = &pep_cm_ops;
	pep->owner = (struct pmr_cm_owner){.fid = &pep->pep_fid.fid, .info = pep->info};
	if (pep->info)
		ret = make_id(&addr, &pep->owner, &pep->id);
	if (ret) {
		pep_close(&pep->pep_fid.fid);
		return ret;
	}
	*pep_fid = &pep->pep_fid;
	return 0;
}
