/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_none.c -- this libibverbs has no RDMA FLUSH */
#include "flush.h"

#include <errno.h>

unsigned pmr_flush_ways(const struct ibv_device_attr_ex *attr)
{
	(void) attr;
	return 0;
}

int pmr_flush_access(unsigned ways)
{
	(void) ways;
	return 0;
}

int pmr_flush_make_qp(struct pmr_ep *ep, const struct ibv_qp_init_attr *attr)
{
	(void) ep;
	(void) attr;
	return -FI_EOPNOTSUPP;
}

bool pmr_flush_takes(const struct pmr_request *request)
{
	(void) request;
	return false;
}

int pmr_flush_post(struct pmr_ep *ep, struct pmr_request *requests, unsigned count)
{
	(void) ep;
	(void) requests;
	(void) count;
	return EOPNOTSUPP;
}
