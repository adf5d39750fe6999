/* SPDX-License-Identifier: BSD-2-Clause */
/* post_ops.c -- lists of requests */
#include "post_ops.h"

#include "post.h"

/* How many an ATOMIC WRITE and the FLUSHes beside it are. */
#define BETWEEN_FLUSHES 3

static unsigned flushes(struct fid_ep *fid)
{
	struct pmr_ep *ep = pmr_to_ep(&fid->fid);
	unsigned depth;

	if (fid->fid.ops != &pmr_ep_fi_ops || !ep->extended || !(depth = pmr_ep_depth(ep)))
		return 0;
	return ep->domain->device->flush_ways &
	       ~(depth < BETWEEN_FLUSHES ? PMEMRDMA_ATOMIC_WRITES : 0U);
}

/* fill_flush -- no flag but FI_COMPLETION has a meaning, and a fence does not hold one back */
static int fill_flush(struct pmr_ep *ep, struct pmr_request *to,
		      const struct pmemrdma_request *from)
{
	const unsigned types = PMEMRDMA_FLUSH_GLOBAL | PMEMRDMA_FLUSH_PERSISTENT;

	if (!(from->flush & types & flushes(&ep->ep_fid)))
		return -FI_EOPNOTSUPP;
	if ((from->flush & (from->flush - 1)) || (from->flags & ~FI_COMPLETION) ||
	    from->len > UINT32_MAX || (!from->len && !from->whole))
		return -FI_EINVAL;
	*to = (struct pmr_request){
		.context = from->context,
		.flags = FI_RMA | (from->flags & FI_COMPLETION ? FI_READ : FI_WRITE),
		.wanted = from->flags & FI_COMPLETION,
		.flush = from->flush,
		.flush_whole = from->whole,
		.flush_len = (size_t) from->len,
	};
	pmr_fill_place(to, from->addr, from->key);
	return 0;
}

static int check_atomic_write(struct pmr_ep *ep, const struct pmemrdma_request *from)
{
	if (!(flushes(&ep->ep_fid) & PMEMRDMA_ATOMIC_WRITES))
		return -FI_EOPNOTSUPP;
	return from->iov_count != 1 || from->iov->iov_len != sizeof(uint64_t) ||
			       from->addr % sizeof(uint64_t) || (from->flags & FI_REMOTE_CQ_DATA)
		       ? -FI_EINVAL
		       : 0;
}

static int fill(struct pmr_ep *ep, struct pmr_request *to, const struct pmemrdma_request *from)
{
	static const struct {
		enum ibv_wr_opcode bare, immediate;
		uint64_t flags;
	} kinds[] = {
		[PMEMRDMA_WRITE] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
				    FI_RMA | FI_WRITE},
		[PMEMRDMA_READ] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, FI_RMA | FI_READ},
		[PMEMRDMA_SEND] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, FI_MSG | FI_SEND},
		/* Immediate data it has none. */
		[PMEMRDMA_ATOMIC_WRITE] = {IBV_WR_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE,
					   FI_RMA | FI_WRITE},
	};
	bool immediate = from->flags & FI_REMOTE_CQ_DATA;
	int ret;

	if ((unsigned) from->kind > PMEMRDMA_ATOMIC_WRITE)
		return -FI_EINVAL;
	if (from->kind == PMEMRDMA_ATOMIC_WRITE && (ret = check_atomic_write(ep, from)))
		return ret;
	ret = pmr_fill(ep, to, immediate ? kinds[from->kind].immediate : kinds[from->kind].bare,
		       from->iov, from->desc, from->iov_count, from->flags);
	if (ret)
		return ret;
	/* Its data are in no buffer that the device reads. */
	if (from->kind == PMEMRDMA_ATOMIC_WRITE)
		to->wr.send_flags &= ~(unsigned) IBV_SEND_INLINE;
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
