/* SPDX-License-Identifier: BSD-2-Clause */
/* length.c -- how much an operation writes; length.h says which of two answers counts */
#include "engine/length.h"

#include <stdbool.h>

#include "base/log.h"

enum answer {
	AGREES,
	DIFFERS, /* there is one place: its length can be corrected */
	MALFORMED,
};

/* take -- subtract a place's length from what is left; false: it is longer */
static bool take(size_t *left, size_t len)
{
	if (len > *left)
		return false;
	*left -= len;
	return true;
}

static enum answer compare(bool fits, size_t left, size_t places)
{
	if (fits && (!left || !places))
		return AGREES;
	if (places == 1)
		return DIFFERS;
	PMV_WARN(EP_DATA,
		 "an operation on several places of the target is refused: their lengths have to "
		 "add up to that of the buffers, and at most %d places are allowed\n",
		 PMV_MAX_RMA);
	return MALFORMED;
}

const struct fi_msg_rma *pmv_write_lengths(const struct fi_msg_rma *msg, struct pmv_rma_msg *copy)
{
	size_t written = pmv_iov_len(msg->msg_iov, msg->iov_count), left = written;
	bool fits = msg->rma_iov_count <= PMV_MAX_RMA;

	for (size_t i = 0; fits && i < msg->rma_iov_count; i++)
		fits = take(&left, msg->rma_iov[i].len);
	switch (compare(fits, left, msg->rma_iov_count)) {
	case AGREES:
		return msg;
	case DIFFERS:
		copy->msg = *msg;
		copy->rma_iov[0] = msg->rma_iov[0];
		copy->rma_iov[0].len = written;
		copy->msg.rma_iov = copy->rma_iov;
		return &copy->msg;
	default:
		return NULL;
	}
}

const struct fi_msg_atomic *pmv_atomic_lengths(const struct fi_msg_atomic *msg, size_t count,
					       struct pmv_atomic_msg *copy)
{
	bool fits = msg->rma_iov_count <= PMV_MAX_RMA;
	size_t left = count;

	for (size_t i = 0; fits && i < msg->rma_iov_count; i++)
		fits = take(&left, msg->rma_iov[i].count);
	switch (compare(fits, left, msg->rma_iov_count)) {
	case AGREES:
		return msg;
	case DIFFERS:
		copy->msg = *msg;
		copy->rma_iov[0] = msg->rma_iov[0];
		copy->rma_iov[0].count = count;
		copy->msg.rma_iov = copy->rma_iov;
		return &copy->msg;
	default:
		return NULL;
	}
}
