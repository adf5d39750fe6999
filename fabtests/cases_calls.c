/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_calls.c -- calls that connected endpoints have no use for, and objects that are not the
 * provider's
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>

#include "functional.h"

/* expect_refused -- a call with nothing behind it */
static int expect_refused(struct fx *fx, const char *call, int ret, int err)
{
	return expect(fx, ret == -err, "%s: %s instead of %s", call, fi_strerror(-ret),
		      fi_strerror(err));
}

static int calls_refused(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct fi_poll_attr poll_attr = {0};
	struct fi_av_attr av_attr = {0};
	struct fid_poll *pollset;
	struct fid_domain *domain;
	struct fid_stx *stx;
	struct fid_av *av;
	struct fid_ep *ep;

	if (!link)
		return -1;
	domain = link->conn.node->domain;
	return expect_refused(fx, "fi_av_open", fi_av_open(domain, &av_attr, &av, NULL),
			      FI_ENOSYS) ||
			       expect_refused(
				       fx, "fi_scalable_ep",
				       fi_scalable_ep(domain, link->conn.node->info, &ep, NULL),
				       FI_ENOSYS) ||
			       expect_refused(fx, "fi_poll_open",
					      domain->ops->poll_open(domain, &poll_attr, &pollset),
					      FI_ENOSYS) ||
			       expect_refused(fx, "fi_stx_context",
					      fi_stx_context(domain, NULL, &stx, NULL),
					      FI_ENOSYS) ||
			       expect_refused(fx, "fi_tx_context",
					      fi_tx_context(link->conn.ep, 0, NULL, &ep, NULL),
					      FI_ENOSYS) ||
			       expect_refused(fx, "fi_rx_context",
					      fi_rx_context(link->conn.ep, 0, NULL, &ep, NULL),
					      FI_ENOSYS)
		       ? -1
		       : 0;
}

/* The calls and fi_query_atomic have to agree: libraries ask either. */
static int calls_atomics_valid(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	int ret = 0;

	for (int op = FI_MIN; link && !ret && op <= FI_CSWAP_GT; op++) {
		bool compares = op >= FI_CSWAP;
		struct fi_atomic_attr attr;
		size_t count;
		int query = fi_query_atomic(link->conn.node->domain, FI_UINT64, (enum fi_op) op,
					    &attr, compares ? FI_COMPARE_ATOMIC : FI_FETCH_ATOMIC);
		int valid = compares ? fi_compare_atomicvalid(link->conn.ep, FI_UINT64,
							      (enum fi_op) op, &count)
				     : fi_fetch_atomicvalid(link->conn.ep, FI_UINT64,
							    (enum fi_op) op, &count);

		ret = expect(fx, !query == !valid, "%s: fi_query_atomic says %s, the endpoint %s",
			     fi_tostr(&op, FI_TYPE_ATOMIC_OP), fi_strerror(-query),
			     fi_strerror(-valid));
		if (!ret && !query)
			ret = expect(fx, attr.count == count, "so many at once: %zu and %zu",
				     attr.count, count);
	}
	return link ? ret : -1;
}

/* A core without atomics has nothing to call. */
static int calls_atomics_refused(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct fi_ioc ioc = {.count = 1};
	struct fi_rma_ioc to = {.count = 1};
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
	};
	struct fi_atomic_attr attr;
	uint64_t operand = 1, result;

	if (!link)
		return -1;
	if (!fi_query_atomic(link->conn.node->domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC))
		return skipped(fx, "the core has atomics");
	ioc.addr = &operand;
	return expect_refused(fx, "fi_atomicmsg", (int) fi_atomicmsg(link->conn.ep, &msg, 0),
			      FI_ENOSYS) ||
			       expect_refused(fx, "fi_inject_atomic",
					      (int) fi_inject_atomic(link->conn.ep, &operand, 1, 0,
								     0, 0, FI_UINT64, FI_SUM),
					      FI_ENOSYS) ||
			       expect_refused(fx, "fi_fetch_atomic",
					      (int) fi_fetch_atomic(link->conn.ep, &operand, 1,
								    NULL, &result, NULL, 0, 0, 0,
								    FI_UINT64, FI_SUM, NULL),
					      FI_ENOSYS)
		       ? -1
		       : 0;
}

static int no_close(struct fid *fid)
{
	(void) fid;
	return 0;
}

/* foreign_objects -- of another provider, as the endpoint sees them */
static int foreign_objects(struct fx *fx)
{
	static struct fi_ops ops = {.size = sizeof(ops), .close = no_close};
	struct fid_cq cq = {.fid = {.fclass = FI_CLASS_CQ, .ops = &ops}};
	struct fid_cntr cntr = {.fid = {.fclass = FI_CLASS_CNTR, .ops = &ops}};
	struct fid_eq eq = {.fid = {.fclass = FI_CLASS_EQ, .ops = &ops}};
	struct fid *objects[] = {&cq.fid, &cntr.fid, &eq.fid};
	static const char *const names[] = {"a queue", "a counter", "an event queue"};
	struct link *link;
	int ret = 0;

	if (!is_pmemverbs(fx))
		return skipped(fx, "other providers don't look");
	link = fx_unconnected(fx, NULL, NULL);
	for (size_t i = 0; link && !ret && i < ARRAY_SIZE(objects); i++)
		ret = expect_refused(fx, names[i], fi_ep_bind(link->conn.ep, objects[i], FI_WRITE),
				     FI_EINVAL);
	return link ? ret : -1;
}

const struct test_case call_cases[] = {
	{"calls_refused", calls_refused},
	{"calls_atomics_valid", calls_atomics_valid},
	{"calls_atomics_refused", calls_atomics_refused},
	{"foreign_objects", foreign_objects},
	{NULL, NULL},
};
