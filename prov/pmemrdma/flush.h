/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flush.h -- RDMA FLUSH and ATOMIC WRITE, where libibverbs has them (flush.c) and where not
 * (flush_none.c)
 */
#ifndef PMR_FLUSH_H
#define PMR_FLUSH_H

#include "post.h"

/* pmr_flush_ways -- of a device: enum pmemrdma_flush */
unsigned pmr_flush_ways(const struct ibv_device_attr_ex *attr);

/* pmr_flush_access -- the rights that a region needs for them */
int pmr_flush_access(unsigned ways);

/* pmr_flush_make_qp -- one that can: 0; -FI_EOPNOTSUPP: there are none, or another negative
 * fi_errno */
int pmr_flush_make_qp(struct pmr_ep *ep, const struct ibv_qp_init_attr *attr);

/*
 * pmr_flush_takes -- can pmr_flush_post post it?  pmr_flush_post -- all of these, chained, with one
 * doorbell: 0, or what the device says, and then none was.
 */
bool pmr_flush_takes(const struct pmr_request *request);
int pmr_flush_post(struct pmr_ep *ep, struct pmr_request *requests, unsigned count);

#endif /* PMR_FLUSH_H */
