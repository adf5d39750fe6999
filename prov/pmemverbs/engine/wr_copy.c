/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_copy.c -- copies of work requests */
#include "engine/wr_copy.h"

#include <stdlib.h>
#include <string.h>

#include "engine/atomic.h"

/* A block that is filled from its start.  Without one, what it takes is counted. */
struct block {
	char *base;
	size_t used;
};

/* put -- a copy in the block; NULL if there is no block yet, or nothing to copy */
static void *put(struct block *block, const void *from, size_t size)
{
	void *to = block->base ? block->base + block->used : NULL;

	if (!from)
		return NULL;
	if (to && size)
		memcpy(to, from, size);
	block->used += (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	return to;
}

static struct iovec *put_iovs(struct block *block, const struct iovec *iov, size_t count,
			      bool data_too)
{
	struct iovec *copy = put(block, iov, count * sizeof(*iov));

	for (size_t i = 0; data_too && i < count; i++) {
		void *data = put(block, iov[i].iov_base, iov[i].iov_len);

		if (copy)
			copy[i].iov_base = data;
	}
	return copy;
}

static struct fi_ioc *put_iocs(struct block *block, const struct fi_ioc *ioc, size_t count,
			       size_t size, bool data_too)
{
	struct fi_ioc *copy = put(block, ioc, count * sizeof(*ioc));

	for (size_t i = 0; data_too && i < count; i++) {
		void *data = put(block, ioc[i].addr, ioc[i].count * size);

		if (copy)
			copy[i].addr = data;
	}
	return copy;
}

static void *put_descs(struct block *block, void **desc, size_t count)
{
	return put(block, desc, count * sizeof(*desc));
}

static struct fi_msg_rma *put_rma(struct block *block, const struct fi_msg_rma *msg, bool data_too)
{
	struct fi_msg_rma *copy = put(block, msg, sizeof(*msg));
	struct iovec *iov = put_iovs(block, msg->msg_iov, msg->iov_count, data_too);
	void **desc = put_descs(block, msg->desc, msg->iov_count);
	void *to = put(block, msg->rma_iov, msg->rma_iov_count * sizeof(*msg->rma_iov));

	if (copy) {
		copy->msg_iov = iov;
		copy->desc = desc;
		copy->rma_iov = to;
	}
	return copy;
}

static struct fi_msg *put_msg(struct block *block, const struct fi_msg *msg, bool data_too)
{
	struct fi_msg *copy = put(block, msg, sizeof(*msg));
	struct iovec *iov = put_iovs(block, msg->msg_iov, msg->iov_count, data_too);
	void **desc = put_descs(block, msg->desc, msg->iov_count);

	if (copy) {
		copy->msg_iov = iov;
		copy->desc = desc;
	}
	return copy;
}

static const struct pmv_atomic *put_atomic(struct block *block, const struct pmv_atomic *op,
					   bool data_too)
{
	const struct fi_msg_atomic *msg = op->msg;
	size_t size = pmv_operand_size(msg->datatype);
	struct pmv_atomic *copy = put(block, op, sizeof(*op));
	struct fi_msg_atomic *msg_copy = put(block, msg, sizeof(*msg));
	void *iov = put_iocs(block, msg->msg_iov, msg->iov_count, size, data_too);
	void **desc = put_descs(block, msg->desc, msg->iov_count);
	void *to = put(block, msg->rma_iov, msg->rma_iov_count * sizeof(*msg->rma_iov));
	void *result = put_iocs(block, op->result, op->result_count, size, false);
	void **result_desc = put_descs(block, op->result_desc, op->result_count);
	void *operand = put_iocs(block, op->operand, op->operand_count, size, data_too);
	void **operand_desc = put_descs(block, op->operand_desc, op->operand_count);

	if (!copy)
		return NULL;
	msg_copy->msg_iov = iov;
	msg_copy->desc = desc;
	msg_copy->rma_iov = to;
	copy->msg = msg_copy;
	copy->result = result;
	copy->result_desc = result_desc;
	copy->operand = operand;
	copy->operand_desc = operand_desc;
	return copy;
}

static struct pmv_wr *put_wr(struct block *block, const struct pmv_wr *wr, bool data_too)
{
	struct pmv_wr *copy = put(block, wr, sizeof(*wr));
	struct pmv_wr unused;
	struct pmv_wr *to = copy ? copy : &unused;

	switch (wr->kind) {
	case PMV_WR_WRITE:
	case PMV_WR_READ:
		to->rma = put_rma(block, wr->rma, data_too);
		break;
	case PMV_WR_SEND:
	case PMV_WR_RECV:
		to->msg = put_msg(block, wr->msg, data_too);
		break;
	case PMV_WR_ATOMIC:
		to->atomic = put_atomic(block, wr->atomic, data_too);
		break;
	}
	return copy;
}

struct pmv_wr *pmv_wr_copy(const struct pmv_wr *wr, bool data_too)
{
	struct block block = {0};

	put_wr(&block, wr, data_too);
	block.base = malloc(block.used);
	block.used = 0;
	return block.base ? put_wr(&block, wr, data_too) : NULL;
}
