/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c -- connecting endpoints: the core's calls */
#include <rdma/fi_errno.h>

#include "ep.h"

static struct fid_ep *core_of(struct fid *fid)
{
	return pmv_container_of(fid, struct pmv_ep, ep_fid.fid)->core_fid;
}

static int cm_setname(struct fid *fid, void *addr, size_t addrlen)
{
	return fi_setname(&core_of(fid)->fid, addr, addrlen);
}

static int cm_getname(struct fid *fid, void *addr, size_t *addrlen)
{
	return fi_getname(&core_of(fid)->fid, addr, addrlen);
}

static int cm_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	return fi_getpeer(core_of(&fid->fid), addr, addrlen);
}

static int cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	return fi_connect(core_of(&fid->fid), addr, param, paramlen);
}

static int cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	return fi_accept(core_of(&fid->fid), param, paramlen);
}

static int cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
	return fi_shutdown(core_of(&fid->fid), flags);
}

static int cm_listen(struct fid_pep *fid)
{
	(void) fid;
	return -FI_ENOSYS;
}

static int cm_reject(struct fid_pep *fid, struct fid *handle, const void *param, size_t paramlen)
{
	(void) fid, (void) handle, (void) param, (void) paramlen;
	return -FI_ENOSYS;
}

struct fi_ops_cm pmv_ep_cm_ops = {
	.size = offsetof(struct fi_ops_cm, join),
	.setname = cm_setname,
	.getname = cm_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = cm_listen,
	.accept = cm_accept,
	.reject = cm_reject,
	.shutdown = cm_shutdown,
};
