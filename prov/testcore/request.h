/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h -- libfabric's calls that post something, each made one request */
#ifndef TESTCORE_REQUEST_H
#define TESTCORE_REQUEST_H

#include "testcore/ep.h"

/* testcore_ep_post -- a request as far as its call tells; its local buffers are added to it */
ssize_t testcore_ep_post(struct fid_ep *fid, struct testcore_request *request,
			 const struct iovec *iov, void **desc);

extern struct fi_ops_rma testcore_rma_ops;
extern struct fi_ops_msg testcore_msg_ops;
extern struct fi_ops_atomic testcore_atomic_ops;

#endif /* TESTCORE_REQUEST_H */
