/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_calls.c -- calls that connected endpoints have no use for, and objects that are not the
 * provider's
 */
#include <string.h>
#include <sys/socket.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"

#define REG_MR (UINT64_C(1) << 59) /* FI_REG_MR, which is deprecated since 2.0 */

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

/* foreign_queue_of_pep -- what fi_pep_bind returns */
static int foreign_queue_of_pep(struct fx *fx, struct fid *eq)
{
	const struct node *node = &fx->target->node;
	struct fid_pep *pep;
	int ret = fi_passive_ep(node->fabric, node->info, &pep, NULL);

	if (ret)
		return ret;
	ret = fi_pep_bind(pep, eq, 0);
	return fi_close(&pep->fid) ? -FI_EOTHER : ret;
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
	if (link && !ret)
		ret = expect_refused(fx, "an event queue of a passive endpoint",
				     foreign_queue_of_pep(fx, &eq.fid), FI_EINVAL);
	return link ? ret : -1;
}

/* calls_names -- the core's, of this end and of the peer's */
static int calls_names(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct sockaddr_storage name, peer;
	size_t name_len = sizeof(name), peer_len = sizeof(peer), none = 0;
	struct fid_ep *ep;
	int ret;

	if (!link)
		return -1;
	ep = link->conn.ep;
	ret = fi_getname(&ep->fid, &name, &name_len);
	if (ret)
		return failed_call(fx, "fi_getname", ret);
	ret = fi_getpeer(ep, &peer, &peer_len);
	if (ret)
		return failed_call(fx, "fi_getpeer", ret);
	return expect(fx, name.ss_family == peer.ss_family,
		      "the names are of different families") ||
			       expect(fx, name_len != peer_len || memcmp(&name, &peer, name_len),
				      "both ends have one name") ||
			       expect_refused(fx, "fi_getname without room",
					      fi_getname(&ep->fid, NULL, &none), FI_ETOOSMALL) ||
			       expect_refused(fx, "fi_listen of an endpoint",
					      ep->cm->listen((struct fid_pep *) ep), FI_ENOSYS) ||
			       expect_refused(
				       fx, "fi_reject of an endpoint",
				       ep->cm->reject((struct fid_pep *) ep, &ep->fid, NULL, 0),
				       FI_ENOSYS)
		       ? -1
		       : 0;
}

/* The provider needs a part of the core's room for itself. */
static int calls_long_cm_data(struct fx *fx)
{
	struct link *link = fx_unconnected(fx, NULL, NULL);
	static const char data[4096];
	size_t room, len = sizeof(room);
	int ret;

	if (!link)
		return -1;
	ret = fi_getopt(&link->conn.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &room, &len);
	if (ret)
		return failed_call(fx, "fi_getopt", ret);
	if (!is_pmemverbs(fx) || room >= sizeof(data))
		return skipped(fx, "the core has room for whatever is passed");
	return expect_refused(
		fx, "fi_connect",
		fi_connect(link->conn.ep, link->conn.node->info->dest_addr, data, room + 1),
		FI_EINVAL);
}

static int calls_domain(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct fi_cq_attr wait_set = {.wait_obj = FI_WAIT_SET};
	struct fid_domain *domain;
	struct fi_info *rdm;
	struct fid_cq *cq;
	struct fid_ep *ep;
	void *ops;
	int ret;

	if (!link || !is_pmemverbs(fx))
		return link ? skipped(fx, "other providers answer otherwise") : -1;
	domain = link->conn.node->domain;
	rdm = fi_dupinfo(link->conn.node->info);
	if (!rdm)
		return failed(fx, "no memory");
	rdm->ep_attr->type = FI_EP_RDM;
	ret = expect_refused(fx, "fi_endpoint with FI_EP_RDM", fi_endpoint(domain, rdm, &ep, NULL),
			     FI_EINVAL) ||
	      expect_refused(fx, "fi_cq_open with a wait set",
			     fi_cq_open(domain, &wait_set, &cq, NULL), FI_ENOSYS) ||
	      expect_refused(fx, "fi_domain_bind with FI_REG_MR",
			     fi_domain_bind(domain, &link->conn.node->eq->fid, REG_MR),
			     FI_ENOSYS) ||
	      expect_refused(fx, "fi_open_ops of others",
			     fi_open_ops(&domain->fid, "nosuch_ops", 0, &ops, NULL), FI_ENOSYS) ||
	      expect_refused(fx, "fi_open_ops with flags",
			     fi_open_ops(&domain->fid, FI_PMEMVERBS_OPS, 1, &ops, NULL),
			     FI_EBADFLAGS);
	fi_freeinfo(rdm);
	return ret ? -1 : 0;
}

/* Receives of a shared context are nobody's, and can't be counted for an endpoint. */
static int calls_shared_receives(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct fid_ep *srx = NULL, *ep = NULL;
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr = NULL;
	struct fi_info *info;
	struct fid_domain *domain;
	int ret;

	if (!link || !is_pmemverbs(fx))
		return link ? skipped(fx, "other providers answer otherwise") : -1;
	domain = link->conn.node->domain;
	info = link->conn.node->info;
	ret = fi_srx_context(domain, info->rx_attr, &srx, NULL);
	if (ret)
		return skipped(fx, "the core has no shared receive contexts: %s",
			       fi_strerror(-ret));
	ret = fi_cntr_open(domain, &attr, &cntr, NULL);
	if (!ret)
		ret = fi_endpoint(domain, info, &ep, NULL);
	if (!ret)
		ret = fi_ep_bind(ep, &link->conn.node->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(ep, &link->conn.txcq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(ep, &srx->fid, 0);
	if (!ret)
		ret = fi_ep_bind(ep, &cntr->fid, FI_RECV);
	if (ret)
		ret = failed_call(fx, "opening an endpoint", ret);
	else
		ret = expect_refused(fx, "fi_enable", fi_enable(ep), FI_ENOSYS) ||
		      expect_refused(fx, "fi_ep_bind of a counter to a shared context",
				     srx->fid.ops->bind(&srx->fid, &cntr->fid, FI_RECV), FI_EINVAL);
	/* In this order: the endpoint uses both. */
	if (ep && fi_close(&ep->fid))
		ret = failed(fx, "the endpoint can't be closed");
	if (cntr && fi_close(&cntr->fid))
		ret = failed(fx, "the counter can't be closed");
	if (fi_close(&srx->fid))
		ret = failed(fx, "the shared context can't be closed");
	return ret ? -1 : 0;
}

/* Errors of the core's are the core's to explain. */
static int calls_strerror(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	char text[128];

	if (!link)
		return -1;
	text[0] = '\0';
	return expect(fx,
		      *fi_cq_strerror(link->conn.txcq, 5, NULL, text, sizeof(text)) &&
			      *fi_eq_strerror(link->conn.node->eq, 5, NULL, text, sizeof(text)),
		      "a queue has no words for an error");
}

const struct test_case call_cases[] = {
	{"calls_refused", calls_refused},
	{"calls_atomics_valid", calls_atomics_valid},
	{"calls_atomics_refused", calls_atomics_refused},
	{"calls_names", calls_names},
	{"calls_long_cm_data", calls_long_cm_data},
	{"calls_domain", calls_domain},
	{"calls_shared_receives", calls_shared_receives},
	{"calls_strerror", calls_strerror},
	{"foreign_objects", foreign_objects},
	{NULL, NULL},
};
