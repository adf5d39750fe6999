/* SPDX-License-Identifier: BSD-2-Clause */
/* submission.c -- a copy of a submission, which outlives the application's call */
#include "commit/submission.h"

#include <stdlib.h>

#include "engine/atomic.h"

/* A block that is filled from its start.  Without one, what it takes is counted. */
struct block {
	char *base;
	size_t used;
};

/* take -- have the pointer at this address point to a copy, in the block, of what it points to */
static void take(struct block *block, const void *pointer, size_t size)
{
	void *from, *to;

	memcpy(&from, pointer, sizeof(from));
	if (!from)
		return;
	if (block->base) {
		to = memcpy(block->base + block->used, from, size);
		/* All but the first of these pointers lie in the block themselves. */
		memcpy((void *) pointer, &to, sizeof(to));
	}
	block->used += (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
}

static void take_iovs(struct block *block, const struct iovec *const *iov, size_t count,
		      bool data_too)
{
	take(block, iov, count * sizeof(**iov));
	for (size_t i = 0; data_too && i < count; i++)
		take(block, &(*iov)[i].iov_base, (*iov)[i].iov_len);
}

static void take_iocs(struct block *block, const struct fi_ioc *const *ioc, size_t count,
		      size_t size, bool data_too)
{
	take(block, ioc, count * sizeof(**ioc));
	for (size_t i = 0; data_too && i < count; i++)
		take(block, &(*ioc)[i].addr, (*ioc)[i].count * size);
}

static void take_atomic(struct block *block, const struct pmv_atomic *op, bool data_too)
{
	size_t size = pmv_operand_size(op->msg->datatype);

	take(block, &op->msg, sizeof(*op->msg));
	take_iocs(block, &op->msg->msg_iov, op->msg->iov_count, size, data_too);
	take(block, &op->msg->desc, op->msg->iov_count * sizeof(void *));
	take(block, &op->msg->rma_iov, op->msg->rma_iov_count * sizeof(*op->msg->rma_iov));
	take(block, &op->result, op->result_count * sizeof(*op->result));
	take(block, &op->result_desc, op->result_count * sizeof(void *));
	take_iocs(block, &op->operand, op->operand_count, size, data_too);
	take(block, &op->operand_desc, op->operand_count * sizeof(void *));
}

static void take_rma(struct block *block, const struct fi_msg_rma *const *msg, bool data_too)
{
	take(block, msg, sizeof(**msg));
	take_iovs(block, &(*msg)->msg_iov, (*msg)->iov_count, data_too);
	take(block, &(*msg)->desc, (*msg)->iov_count * sizeof(void *));
	take(block, &(*msg)->rma_iov, (*msg)->rma_iov_count * sizeof(*(*msg)->rma_iov));
}

static void take_msg(struct block *block, const struct fi_msg *const *msg, bool data_too)
{
	take(block, msg, sizeof(**msg));
	take_iovs(block, &(*msg)->msg_iov, (*msg)->iov_count, data_too);
	take(block, &(*msg)->desc, (*msg)->iov_count * sizeof(void *));
}

static void take_call(struct block *block, const struct pmv_submission *copy, bool data_too)
{
	if (copy->what & FI_ATOMIC) {
		take(block, &copy->atomic, sizeof(*copy->atomic));
		take_atomic(block, copy->atomic, data_too);
	} else if (copy->what & FI_MSG) {
		take_msg(block, &copy->msg, data_too);
	} else {
		take_rma(block, &copy->rma, data_too);
	}
}

struct pmv_submission *pmv_submission_copy(const struct pmv_submission *submission)
{
	struct block block = {0};

	for (;;) {
		struct pmv_submission *copy = (struct pmv_submission *) submission;

		take(&block, &copy, sizeof(*copy));
		take(&block, &copy->to, copy->num_to * sizeof(*copy->to));
		take_call(&block, copy, copy->flags & FI_INJECT);
		if (block.base)
			return copy;
		block.base = malloc(block.used);
		if (!block.base)
			return NULL;
		block.used = 0;
	}
}

size_t pmv_submission_len(const struct pmv_submission *submission)
{
	bool is_message = submission->what & FI_MSG;
	size_t count = is_message ? submission->msg->iov_count : submission->num_to, len = 0;

	for (size_t i = 0; i < count; i++)
		len += is_message ? submission->msg->msg_iov[i].iov_len : submission->to[i].len;
	return len;
}
