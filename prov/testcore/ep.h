/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ep.h -- the endpoint of a test core
 *
 * All calls that post something come to the core as one: the shorter ones as the
 * message that they stand for.
 */
#ifndef TESTCORE_EP_H
#define TESTCORE_EP_H

#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "testcore/cq.h"

/* In this order tests go through all of a kind. */
enum testcore_call {
	TESTCORE_READ,
	TESTCORE_READV,
	TESTCORE_READMSG,
	TESTCORE_WRITE,
	TESTCORE_WRITEV,
	TESTCORE_WRITEMSG,
	TESTCORE_WRITEDATA,
	TESTCORE_INJECT_WRITE,
	TESTCORE_INJECT_WRITEDATA,
	TESTCORE_SEND,
	TESTCORE_SENDV,
	TESTCORE_SENDMSG,
	TESTCORE_SENDDATA,
	TESTCORE_INJECT,
	TESTCORE_INJECTDATA,
	TESTCORE_RECV,
	TESTCORE_RECVV,
	TESTCORE_RECVMSG,
	TESTCORE_ATOMIC,
	TESTCORE_ATOMICV,
	TESTCORE_ATOMICMSG,
	TESTCORE_INJECT_ATOMIC,
	TESTCORE_FETCH_ATOMIC,
	TESTCORE_FETCH_ATOMICV,
	TESTCORE_FETCH_ATOMICMSG,
	TESTCORE_COMPARE_ATOMIC,
	TESTCORE_COMPARE_ATOMICV,
	TESTCORE_COMPARE_ATOMICMSG,
};

/* testcore_injects -- does such a call never complete? */
bool testcore_injects(enum testcore_call call);

#define TESTCORE_MAX_IOV 8

struct testcore_request {
	enum testcore_call call;
	uint64_t what;  /* FI_RMA | FI_READ, ... as in a completion */
	uint64_t flags; /* of the call; a shorter one has the endpoint's */
	bool injected;  /* see testcore_injects; not even an error makes an entry */
	bool reported;  /* success makes an entry in the CQ */
	void *context;
	size_t iov_count;
	struct iovec iov[TESTCORE_MAX_IOV];
	const void *buf; /* the first of these, and its descriptor */
	void *desc;
	size_t len; /* of all local buffers */
	size_t rma_count;
	uint64_t addr; /* of the first remote range */
	uint64_t key;
	size_t rma_len; /* of all */
	uint64_t data;
	fi_addr_t dest; /* some cores take an atomic's operand from there */
	enum fi_datatype datatype;
	enum fi_op op;
	const void *compare;
	void *result;
};

struct testcore_ep {
	struct fid_ep fid;
	struct testcore_cq *tx_cq;
	struct testcore_cq *rx_cq;
	bool tx_selective;
	bool rx_selective;
	uint64_t op_flags;
	ssize_t (*post)(struct testcore_ep *ep, const struct testcore_request *request);
};

/* testcore_ep_init -- the core says how it posts, and brings the tables that it has its own of */
void testcore_ep_init(struct testcore_ep *ep, const struct fi_info *info, struct fi_ops *ops,
		      void *context,
		      ssize_t (*post)(struct testcore_ep *ep,
				      const struct testcore_request *request));

/* Two functions for the core's struct fi_ops. */
int testcore_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int testcore_ep_control(struct fid *fid, int command, void *arg);

/* testcore_gather -- what all local buffers hold, in one piece */
void testcore_gather(const struct testcore_request *request, char *to);

/* testcore_scatter -- so much into the local buffers, as far as there is room */
void testcore_scatter(const struct testcore_request *request, const char *from, size_t len);

/* What an atomic does to 64 bits; NULL: it stores the operand. */
typedef uint64_t (*testcore_update)(uint64_t old, uint64_t operand, uint64_t compare);

/* testcore_update_of -- false: no test core can do that */
bool testcore_update_of(const struct testcore_request *request, testcore_update *update);

#endif /* TESTCORE_EP_H */
