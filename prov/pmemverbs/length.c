/* SPDX-License-Identifier: BSD-2-Clause */
/* length.c -- how much an operation writes; length.h says which of two answers counts */
#include <rdma/fi_errno.h>

#include "ep.h"
#include "length.h"
#include "prov.h"

static void warn(void)
{
	PMV_WARN(EP_DATA,
		 "an operation on several places of the target is refused: their lengths "
		 "have to add up to what is written, and there may be %d\n",
		 PMV_MAX_RMA);
}

const struct fi_msg_rma *pmv_write_lengths(const struct fi_msg_rma *msg, struct pmv_rma_msg *copy)
{
	size_t written = pmv_iov_len(msg->msg_iov, msg->iov_count), named = 0;

	for (size_t i = 0; i < msg->rma_iov_count && i < PMV_MAX_RMA; i++)
		named += msg->rma_iov[i].len;
	if (msg->rma_iov_count <= PMV_MAX_RMA && (named == written || !msg->rma_iov_count))
		return msg;
	if (msg->rma_iov_count > 1) {
		warn();
		return NULL;
	}
	copy->msg = *msg;
	copy->rma_iov[0] = msg->rma_iov[0];
	copy->rma_iov[0].len = written;
	copy->msg.rma_iov = copy->rma_iov;
	return &copy->msg;
}

const struct fi_msg_atomic *pmv_atomic_lengths(const struct fi_msg_atomic *msg, size_t count,
					       struct pmv_atomic_msg *copy)
{
	size_t named = 0;

	for (size_t i = 0; i < msg->rma_iov_count && i < PMV_MAX_RMA; i++)
		named += msg->rma_iov[i].count;
	if (msg->rma_iov_count <= PMV_MAX_RMA && (named == count || !msg->rma_iov_count))
		return msg;
	if (msg->rma_iov_count > 1) {
		warn();
		return NULL;
	}
	copy->msg = *msg;
	copy->rma_iov[0] = msg->rma_iov[0];
	copy->rma_iov[0].count = count;
	copy->msg.rma_iov = copy->rma_iov;
	return &copy->msg;
}
