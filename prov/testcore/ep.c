/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.c -- the endpoint of a test core, and what becomes of the buffers of a request */
#include "testcore/ep.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "testcore/fid.h"
#include "testcore/request.h"

void testcore_ep_init(struct testcore_ep *ep, const struct fi_info *info, struct fi_ops *ops,
		      void *context,
		      ssize_t (*post)(struct testcore_ep *ep,
				      const struct testcore_request *request))
{
	*ep = (struct testcore_ep){
		.fid = {.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = ops},
			.msg = &testcore_msg_ops,
			.rma = &testcore_rma_ops,
			.atomic = &testcore_atomic_ops},
		.op_flags = info->tx_attr->op_flags,
		.post = post,
	};
}

int testcore_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct testcore_ep *ep = testcore_of(fid, struct testcore_ep, fid.fid);
	struct testcore_cq *cq;

	if (bfid->fclass == FI_CLASS_EQ)
		return 0;
	if (bfid->fclass != FI_CLASS_CQ)
		return -FI_EINVAL;
	cq = testcore_of(bfid, struct testcore_cq, fid.fid);
	if (((flags & FI_TRANSMIT) && ep->tx_cq) || ((flags & FI_RECV) && ep->rx_cq))
		return -FI_EINVAL;
	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EBADFLAGS;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return 0;
}

int testcore_ep_control(struct fid *fid, int command, void *arg)
{
	(void) fid, (void) arg;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

bool testcore_injects(enum testcore_call call)
{
	return call == TESTCORE_INJECT_WRITE || call == TESTCORE_INJECT_WRITEDATA ||
	       call == TESTCORE_INJECT || call == TESTCORE_INJECTDATA ||
	       call == TESTCORE_INJECT_ATOMIC;
}

ssize_t testcore_ep_post(struct fid_ep *fid, struct testcore_request *request,
			 const struct iovec *iov, void **desc)
{
	struct testcore_ep *ep = testcore_of(fid, struct testcore_ep, fid);
	bool selective = request->what & FI_RECV ? ep->rx_selective : ep->tx_selective;
	uint64_t flags = request->flags;

	/* verbs and tcp of 1.17 add the endpoint's, whatever the call. */
	if (!(request->what & FI_RECV))
		flags |= ep->op_flags & FI_COMPLETION;

	if (request->iov_count > TESTCORE_MAX_IOV)
		return -FI_EINVAL;
	for (size_t i = 0; i < request->iov_count; i++) {
		request->iov[i] = iov[i];
		request->len += iov[i].iov_len;
	}
	if (request->iov_count) {
		request->buf = request->iov[0].iov_base;
		request->desc = desc ? desc[0] : NULL;
	}
	request->injected = testcore_injects(request->call);
	request->reported = !request->injected && (!selective || (flags & FI_COMPLETION));
	return ep->post(ep, request);
}

void testcore_gather(const struct testcore_request *request, char *to)
{
	for (size_t i = 0; i < request->iov_count; i++) {
		if (request->iov[i].iov_len)
			memcpy(to, request->iov[i].iov_base, request->iov[i].iov_len);
		to += request->iov[i].iov_len;
	}
}

void testcore_scatter(const struct testcore_request *request, const char *from, size_t len)
{
	for (size_t i = 0; len && i < request->iov_count; i++) {
		size_t room = request->iov[i].iov_len;
		size_t piece = len < room ? len : room;

		if (piece)
			memcpy(request->iov[i].iov_base, from, piece);
		from += piece;
		len -= piece;
	}
}

static uint64_t sum(uint64_t old, uint64_t operand, uint64_t compare)
{
	(void) compare;
	return old + operand;
}

static uint64_t swap_if_equal(uint64_t old, uint64_t operand, uint64_t compare)
{
	return old == compare ? operand : old;
}

bool testcore_update_of(const struct testcore_request *request, testcore_update *update)
{
	if (request->datatype != FI_UINT64 || request->iov_count != 1 ||
	    request->len != sizeof(uint64_t))
		return false;
	switch (request->op) {
	case FI_ATOMIC_WRITE:
		*update = NULL;
		return true;
	case FI_SUM:
		*update = sum;
		return true;
	case FI_CSWAP:
		*update = swap_if_equal;
		return true;
	default:
		return false;
	}
}
