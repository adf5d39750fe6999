/* SPDX-License-Identifier: BSD-2-Clause */
/* provider.h -- the provider's name, its log, and the functions of calls that it does not have */
#ifndef PMR_PROVIDER_H
#define PMR_PROVIDER_H

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#define PMR_NAME "pmemrdma"

/* What libfabric knows of this provider; provider.c fills in the functions. */
extern struct fi_provider pmr_prov;

#define PMR_WARN(subsys, ...) FI_WARN(&pmr_prov, FI_LOG_##subsys, __VA_ARGS__)
#define PMR_INFO(subsys, ...) FI_INFO(&pmr_prov, FI_LOG_##subsys, __VA_ARGS__)

/* FI_MR_BASIC (libfabric before 1.5): since 2.0 the headers warn of it. */
#define PMR_MR_BASIC (1 << 0)
/* The same, one by one; and local buffers are registered, too. */
#define PMR_MR_MODE (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL)

/* What libfabric's inline functions call without a look. */
int pmr_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int pmr_no_control(struct fid *fid, int command, void *arg);
int pmr_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int pmr_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len);
int pmr_no_listen(struct fid_pep *pep);
int pmr_no_accept(struct fid_ep *ep, const void *param, size_t len);
int pmr_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len);
int pmr_no_shutdown(struct fid_ep *ep, uint64_t flags);
int pmr_no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		void *context);
int pmr_no_setname(fid_t fid, void *addr, size_t addrlen);
int pmr_no_getname(fid_t fid, void *addr, size_t *addrlen);
int pmr_no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
ssize_t pmr_no_cancel(fid_t fid, void *context);
int pmr_no_getopt(fid_t fid, int level, int name, void *value, size_t *len);
int pmr_no_setopt(fid_t fid, int level, int name, const void *value, size_t len);
int pmr_no_tx_ctx(struct fid_ep *ep, int index, struct fi_tx_attr *attr, struct fid_ep **tx,
		  void *context);
int pmr_no_rx_ctx(struct fid_ep *ep, int index, struct fi_rx_attr *attr, struct fid_ep **rx,
		  void *context);
ssize_t pmr_no_size_left(struct fid_ep *ep);

#endif /* PMR_PROVIDER_H */
