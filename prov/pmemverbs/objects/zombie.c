/* SPDX-License-Identifier: BSD-2-Clause */
/* zombie.c -- endpoints that were closed, and may still be called; zombie.h says by whom */
#include "objects/zombie.h"

#include <stdlib.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "objects/ep.h"

static ssize_t no_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t addr,
		       void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) addr, (void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t addr, void *context)
{
	(void) fid, (void) iov, (void) desc, (void) count, (void) addr, (void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	(void) fid, (void) msg, (void) flags;
	return -FI_ESHUTDOWN;
}

static ssize_t no_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t addr,
		       void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) addr, (void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t addr, void *context)
{
	(void) fid, (void) iov, (void) desc, (void) count, (void) addr, (void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	(void) fid, (void) msg, (void) flags;
	return -FI_ESHUTDOWN;
}

static ssize_t no_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t addr)
{
	(void) fid, (void) buf, (void) len, (void) addr;
	return -FI_ESHUTDOWN;
}

static ssize_t no_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			   uint64_t data, fi_addr_t addr, void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) data, (void) addr, (void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			     fi_addr_t addr)
{
	(void) fid, (void) buf, (void) len, (void) data, (void) addr;
	return -FI_ESHUTDOWN;
}

static ssize_t no_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
		       uint64_t addr, uint64_t key, void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) src, (void) addr, (void) key,
		(void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	(void) fid, (void) iov, (void) desc, (void) count, (void) src, (void) addr, (void) key,
		(void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	(void) fid, (void) msg, (void) flags;
	return -FI_ESHUTDOWN;
}

static ssize_t no_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
			uint64_t addr, uint64_t key, void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) dest, (void) addr, (void) key,
		(void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	(void) fid, (void) iov, (void) desc, (void) count, (void) dest, (void) addr, (void) key,
		(void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	(void) fid, (void) msg, (void) flags;
	return -FI_ESHUTDOWN;
}

static ssize_t no_write_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			       uint64_t addr, uint64_t key)
{
	(void) fid, (void) buf, (void) len, (void) dest, (void) addr, (void) key;
	return -FI_ESHUTDOWN;
}

static ssize_t no_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			    void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) data, (void) dest, (void) addr,
		(void) key, (void) context;
	return -FI_ESHUTDOWN;
}

static ssize_t no_write_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				   fi_addr_t dest, uint64_t addr, uint64_t key)
{
	(void) fid, (void) buf, (void) len, (void) data, (void) dest, (void) addr, (void) key;
	return -FI_ESHUTDOWN;
}

static struct fi_ops_msg msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = no_recv,
	.recvv = no_recvv,
	.recvmsg = no_recvmsg,
	.send = no_send,
	.sendv = no_sendv,
	.sendmsg = no_sendmsg,
	.inject = no_inject,
	.senddata = no_senddata,
	.injectdata = no_injectdata,
};

static struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = no_read,
	.readv = no_readv,
	.readmsg = no_readmsg,
	.write = no_write,
	.writev = no_writev,
	.writemsg = no_writemsg,
	.inject = no_write_inject,
	.writedata = no_writedata,
	.injectdata = no_write_injectdata,
};

void pmv_zombies_add(struct pmv_zombies *zombies, struct pmv_ep *ep)
{
	struct pmv_ep *oldest;

	ep->ep_fid.msg = &msg_ops;
	ep->ep_fid.rma = &rma_ops;
	pthread_mutex_lock(&zombies->lock);
	oldest = zombies->eps[zombies->count % PMV_ZOMBIES];
	zombies->eps[zombies->count++ % PMV_ZOMBIES] = ep;
	pthread_mutex_unlock(&zombies->lock);
	free(oldest);
}

void pmv_zombies_init(struct pmv_zombies *zombies)
{
	pthread_mutex_init(&zombies->lock, NULL);
}

void pmv_zombies_destroy(struct pmv_zombies *zombies)
{
	for (size_t i = 0; i < PMV_ZOMBIES; i++)
		free(zombies->eps[i]);
	pthread_mutex_destroy(&zombies->lock);
}
