/* SPDX-License-Identifier: BSD-2-Clause */
/* post_ops.c -- lists of requests */
#include "post_ops.h"

#include "post.h"

/* fill_flush -- no flag but FI_COMPLETION has a meaning, and a fence does not hold one back */
static int fill_flush(struct pmr_ep *ep, struct pmr_request *to,
		      const struct pmemrdma_request *from)
{
	if (!ep->extended || !(from->flush & ep->domain->device->flush_ways) || !pmr_ep_depth(ep))
		return -FI_EOPNOTSUPP;
	if ((from->flush & (from->flush - 1)) || (from->flags & ~FI_COMPLETION) ||
	    from->len > UINT32_MAX || (!from->len && !from->whole))
		return -FI_EINVAL;
	*to = (struct pmr_request){
		.context = from->context,
		.flags = FI_RMA | FI_READ,
		.wanted = from->flags & FI_COMPLETION,
		.flush = from->flush,
		.flush_whole = from->whole,
		.flush_len = (size_t) from->len,
	};
	pmr_fill_place(to, from->addr, from->key);
	return 0;
}

static int fill(const struct pmr_ep *ep, struct pmr_request *to,
		const struct pmemrdma_request *from)
{
	static const struct {
		enum ibv_wr_opcode bare, immediate;
		uint64_t flags;
	} kinds[] = {
		[PMEMRDMA_WRITE] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
				    FI_RMA | FI_WRITE},
		[PMEMRDMA_READ] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, FI_RMA | FI_READ},
		[PMEMRDMA_SEND] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, FI_MSG | FI_SEND},
	};
	bool immediate = from->flags & FI_REMOTE_CQ_DATA;
	int ret;

	if ((unsigned) from->kind > PMEMRDMA_SEND)
		return -FI_EINVAL;
	ret = pmr_fill(ep, to, immediate ? kinds[from->kind].immediate : kinds[from->kind].bare,
		       from->iov, from->desc, from->iov_count, from->flags);
	if (ret)
		return ret;
	to->flush = 0;
	to->context = from->context;
	to->flags = kinds[from->kind].flags;
	to->wanted = from->flags & FI_COMPLETION;
	if (immediate)
		to->wr.imm_data = pmr_immediate(from->data);
	if (from->kind != PMEMRDMA_SEND)
		pmr_fill_place(to, from->addr, from->key);
	return 0;
}

static ssize_t post_list(struct fid_ep *fid, const struct pmemrdma_request *requests, size_t count)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	struct pmr_request list[PMEMRDMA_MAX_LIST];

	/* libfabric's hooks (FI_HOOK) hand out this table with endpoints of their own. */
	if (fid->fid.ops != &pmr_ep_fi_ops)
		return -FI_EOPNOTSUPP;
	if (!count || count > PMEMRDMA_MAX_LIST)
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		int ret = requests[i].kind == PMEMRDMA_FLUSH
				  ? fill_flush(ep, &list[i], &requests[i])
				  : fill(ep, &list[i], &requests[i]);

		if (ret)
			return ret;
	}
	return pmr_post(ep, list, (unsigned) count);
}

static unsigned flushes(struct fid_ep *fid)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);

	if (fid->fid.ops != &pmr_ep_fi_ops || !ep->extended || !pmr_ep_depth(ep))
		return 0;
	return ep->domain->device->flush_ways;
}

static void hold(struct fid_ep *fid)
{
	if (fid->fid.ops == &pmr_ep_fi_ops)
		pmr_to_ep(&fid->fid)->owner.holds = true;
}

static int establish(struct fid_ep *fid)
{
	return fid->fid.ops == &pmr_ep_fi_ops ? pmr_ep_establish(pmr_to_ep(&fid->fid)) : 0;
}

const struct pmemrdma_post_ops pmr_post_ops = {
	.size = sizeof(struct pmemrdma_post_ops),
	.post = post_list,
	.flushes = flushes,
	.hold = hold,
	.establish = establish,
};
