/* SPDX-License-Identifier: BSD-2-Clause */
/* post.h -- work requests on their way to the device */
#ifndef PMR_POST_H
#define PMR_POST_H

#include <string.h>

#include <arpa/inet.h>

#include <rdma/fi_errno.h>

#include "ep.h"

/* The most buffers of one request. */
#define PMR_MAX_IOV PMR_DEFAULT_IOV

/* A request to send; all but the first two are filled in here. */
struct pmr_request {
	void *context;
	uint64_t flags; /* of its completion */
	bool wanted;    /* somebody wants to hear that it succeeded */
	/* enum pmemrdma_flush: it is a FLUSH, of this range or, whole, of the region. */
	unsigned flush;
	bool flush_whole;
	size_t flush_len;
	struct ibv_send_wr wr;
	struct ibv_sge sge[PMR_MAX_IOV];
};

/*
 * pmr_post -- in this order, with one doorbell.  Returns how many, which may be fewer than all; or
 * -FI_EAGAIN without room for all, or another negative fi_errno: none was posted.
 */
ssize_t pmr_post(struct pmr_ep *ep, struct pmr_request *requests, unsigned count);

/* pmr_is_extended -- only the calls of flush.h post it */
static inline bool pmr_is_extended(const struct pmr_request *request)
{
	return request->flush || request->wr.opcode == IBV_WR_ATOMIC_WRITE;
}

/*
 * pmr_post_write -- a write or a message with these flags: 0 or a negative fi_errno.  With FI_MORE
 * it may wait for the next request, and be posted with that, by one doorbell.  Whoever reads the
 * completion queue, or begins to sleep for it, posts what waits; who sleeps already does not.  Data
 * that are the caller's again behind the call (FI_INJECT) do not wait.
 */
ssize_t pmr_post_write(struct pmr_ep *ep, struct pmr_request *request, uint64_t flags);

/* pmr_post_batch -- what waits; pmr_drop_batch -- it waits no more: the endpoint has ended */
void pmr_post_batch(struct pmr_ep *ep);
void pmr_drop_batch(struct pmr_ep *ep);

/* pmr_post_batches -- of all endpoints of the queue, whose lock is held */
void pmr_post_batches(struct pmr_cq *cq);

/* pmr_post_one -- 0 or a negative fi_errno */
static inline ssize_t pmr_post_one(struct pmr_ep *ep, struct pmr_request *request)
{
	ssize_t ret = pmr_post(ep, request, 1);

	return ret < 0 ? ret : 0;
}

/* pmr_post_receive -- with or without an endpoint of its own */
ssize_t pmr_post_receive(struct pmr_ep *ep, const struct fi_msg *msg);
ssize_t pmr_post_shared(struct pmr_srx *srx, const struct fi_msg *msg);

/* pmr_recv, pmr_recvv -- fi_recv and fi_recvv of both, by their own fi_recvmsg */
ssize_t pmr_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
		  fi_addr_t src, void *context);
ssize_t pmr_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
		 void *context);

/*
 * pmr_fill_sge -- returns how many buffers there are: those without a byte are left out, as 0 means
 * 2 GiB to some devices.  -FI_EINVAL: there are too many.
 */
static inline int pmr_fill_sge(struct ibv_sge *sge, const struct iovec *iov, void **desc,
			       size_t count, size_t *len)
{
	int used = 0;

	*len = 0;
	if (count > PMR_MAX_IOV)
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (!iov[i].iov_len)
			continue;
		if (iov[i].iov_len > UINT32_MAX)
			return -FI_EINVAL;
		sge[used].addr = (uintptr_t) iov[i].iov_base;
		sge[used].length = (uint32_t) iov[i].iov_len;
		sge[used].lkey = desc ? (uint32_t) (uintptr_t) desc[i] : 0;
		*len += iov[i].iov_len;
		used++;
	}
	return used;
}

/*
 * pmr_fill -- the opcode and what is sent, or read into.  Data that fit travel in the request, and
 * those that have to may not be longer: -FI_EINVAL.  FI_COMMIT_COMPLETE is a promise that
 * no request here can keep: -FI_EOPNOTSUPP.
 */
static inline int pmr_fill(const struct pmr_ep *ep, struct pmr_request *request,
			   enum ibv_wr_opcode opcode, const struct iovec *iov, void **desc,
			   size_t count, uint64_t flags)
{
	bool sends = opcode != IBV_WR_RDMA_READ;
	struct ibv_send_wr *wr = &request->wr;
	size_t len;

	if (flags & FI_COMMIT_COMPLETE)
		return -FI_EOPNOTSUPP;
	wr->next = NULL;
	wr->num_sge = pmr_fill_sge(request->sge, iov, desc, count, &len);
	if (wr->num_sge < 0 || len > ep->info->ep_attr->max_msg_size)
		return -FI_EINVAL;
	if (sends && (flags & FI_INJECT) && len > ep->inject_size)
		return -FI_EINVAL;
	wr->sg_list = request->sge;
	wr->opcode = opcode;
	wr->send_flags = (sends && len <= ep->inject_size ? IBV_SEND_INLINE : 0) |
			 (flags & FI_FENCE ? IBV_SEND_FENCE : 0);
	return 0;
}

/* pmr_fill_place -- at the target */
static inline void pmr_fill_place(struct pmr_request *request, uint64_t addr, uint64_t key)
{
	request->wr.wr.rdma.remote_addr = addr;
	request->wr.wr.rdma.rkey = (uint32_t) key;
}

static inline uint32_t pmr_immediate(uint64_t data)
{
	return htonl((uint32_t) data);
}

#endif /* PMR_POST_H */
