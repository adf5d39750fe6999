/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.c -- memory regions */
#include "domain.h"

#include <errno.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "flush.h"
#include "pmemrdma_post.h"
#include "provider.h"

struct pmr_mr {
	struct fid_mr mr_fid;
	struct pmr_domain *domain;
	struct ibv_mr *mr;
};

static int mr_close(struct fid *fid)
{
	struct pmr_mr *mr = pmv_container_of(fid, struct pmr_mr, mr_fid.fid);
	int ret = pmr_device_freed(mr->domain->device, ibv_dereg_mr(mr->mr));

	if (ret)
		return ret;
	atomic_fetch_sub(&mr->domain->users, 1);
	free(mr);
	return 0;
}

static struct fi_ops mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = pmr_no_bind,
	.control = pmr_no_control,
	.ops_open = pmr_no_ops_open,
};

/* device_access -- a device that writes a buffer needs the right to, whoever asks it to */
static int device_access(uint64_t access)
{
	int to = 0;

	if (access & (FI_RECV | FI_READ))
		to |= IBV_ACCESS_LOCAL_WRITE;
	if (access & FI_REMOTE_READ)
		to |= IBV_ACCESS_REMOTE_READ;
	if (access & FI_REMOTE_WRITE)
		to |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	return to;
}

/* wants_odp -- FI_PMEMRDMA_USE_ODP */
static int wants_odp(const struct pmr_domain *domain)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	int wanted = 0;

	fi_param_get_bool(&pmr_prov, "use_odp", &wanted);
	if (!wanted)
		return 0;
	if (domain->device->odp)
		return IBV_ACCESS_ON_DEMAND;
	if (!atomic_flag_test_and_set(&warned))
		PMR_WARN(MR,
			 "%s pins memory whatever FI_PMEMRDMA_USE_ODP says: it can't do without\n",
			 pmr_device_name(domain->device));
	return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	struct pmr_domain *domain = pmv_container_of(fid, struct pmr_domain, domain_fid.fid);
	int access = device_access(attr->access) | wants_odp(domain);
	struct pmr_mr *mr;

	if (flags & PMEMRDMA_MR_FLUSH) {
		/* No device is known that flushes what is not pinned. */
		if (!domain->device->flush_ways || (access & IBV_ACCESS_ON_DEMAND))
			return -FI_EOPNOTSUPP;
		access |= pmr_flush_access(domain->device->flush_ways);
	}
	if ((flags & PMEMRDMA_MR_ATOMIC_WRITE) &&
	    !(domain->device->flush_ways & PMEMRDMA_ATOMIC_WRITES))
		return -FI_EOPNOTSUPP;
	if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count != 1)
		return -FI_EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->mr = ibv_reg_mr(domain->pd, attr->mr_iov->iov_base, attr->mr_iov->iov_len, access);
	if (!mr->mr) {
		int ret = errno ? -errno : -FI_ENOMEM;

		free(mr);
		return ret;
	}
	mr->domain = domain;
	atomic_fetch_add(&domain->users, 1);
	mr->mr_fid.fid = (struct fid){FI_CLASS_MR, attr->context, &mr_fi_ops};
	/* A descriptor is the device's key itself. */
	mr->mr_fid.mem_desc = (void *) (uintptr_t) mr->mr->lkey;
	mr->mr_fid.key = mr->mr->rkey;
	*mr_fid = &mr->mr_fid;
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		   void *context)
{
	const struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr pmr_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
