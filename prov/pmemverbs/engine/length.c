/* SPDX-License-Identifier: BSD-2-Clause */
/* length.c -- how much an operation writes; length.h says which of two answers counts */
#include "engine/length.h"

#include <stdbool.h>

#include "base/log.h"

/* add -- up the lengths of places; false: the sum is more than `most` */
static bool add(size_t *sum, size_t len, size_t most)
{
	if (len > most - *sum)
		return false;
	*sum += len;
	return true;
}

/* may_correct -- of a single place it is known which length is wrong */
static bool may_correct(size_t places)
{
	if (places == 1)
		return true;
	PMV_WARN(EP_DATA,
		 "an operation on several places of the target is refused: their lengths have to "
		 "add up to that of the buffers, and at most %d places are allowed\n",
		 PMV_MAX_RMA);
	return false;
}

const struct fi_msg_rma *pmv_write_lengths(const struct fi_msg_rma *msg, struct pmv_rma_msg *copy)
{
	size_t written = pmv_iov_len(msg->msg_iov, msg->iov_count), named = 0;
	bool fits = msg->rma_iov_count <= PMV_MAX_RMA;

	for (size_t i = 0; fits && i < msg->rma_iov_count; i++)
		fits = add(&named, msg->rma_iov[i].len, written);
	if (fits && (named == written || !msg->rma_iov_count))
		return msg;
	if (!may_correct(msg->rma_iov_count))
		return NULL;
	*copy = (struct pmv_rma_msg){.msg = *msg, .place = *msg->rma_iov};
	copy->place.len = written;
	copy->msg.rma_iov = &copy->place;
	return &copy->msg;
}

const struct fi_msg_atomic *pmv_atomic_lengths(const struct fi_msg_atomic *msg, size_t count,
					       struct pmv_atomic_msg *copy)
{
	bool fits = msg->rma_iov_count <= PMV_MAX_RMA;
	size_t named = 0;

	for (size_t i = 0; fits && i < msg->rma_iov_count; i++)
		fits = add(&named, msg->rma_iov[i].count, count);
	if (fits && (named == count || !msg->rma_iov_count))
		return msg;
	if (!may_correct(msg->rma_iov_count))
		return NULL;
	*copy = (struct pmv_atomic_msg){.msg = *msg, .place = *msg->rma_iov};
	copy->place.count = count;
	copy->msg.rma_iov = &copy->place;
	return &copy->msg;
}
