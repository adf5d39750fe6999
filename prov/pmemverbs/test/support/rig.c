/* SPDX-License-Identifier: BSD-2-Clause */
/* rig.c -- the provider mounted on the fake core; rig.h says how it is used */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static char buffer[LEN];

uint64_t rig_key(uint32_t core_key, enum pmv_persist persist, bool ddio)
{
	return pmv_key_pack(core_key, &(struct pmv_attr){
					      .persist = persist,
					      .pmem = persist != PMV_NONE,
					      .ddio = ddio,
					      .readable = true,
					      .writable = true,
				      });
}

static struct fi_info *make_info(const struct rig_options *options)
{
	struct fi_info *info = fi_allocinfo();

	cr_assert_not_null(info);
	info->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_FENCE |
		     (options->volatile_only ? 0 : FI_PMEM) | (options->events ? FI_RMA_EVENT : 0);
	info->tx_attr->op_flags = options->tx_op_flags;
	info->tx_attr->size = options->tx_size;
	info->rx_attr->size = options->rx_size;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->protocol = options->local ? FI_PROTO_SOCK_TCP : FI_PROTO_RDMA_CM_IB_RC;
	info->domain_attr->mr_mode = (options->unkeyed ? 0 : FI_MR_PROV_KEY) |
				     (options->mr_local ? FI_MR_LOCAL : 0) |
				     (options->virt_addr ? FI_MR_VIRT_ADDR : 0);
	info->fabric_attr->api_version = FI_VERSION(1, 17);
	return info;
}

struct fid_cq *rig_cq(struct rig *rig)
{
	struct fi_cq_attr attr = {
		.size = rig->options.cq_size,
		.format = rig->options.format ? rig->options.format : FI_CQ_FORMAT_TAGGED,
		.wait_obj = rig->options.wait_obj,
		.wait_cond = rig->options.wait_cond,
	};
	struct fid_cq *cq;

	accepted(fi_cq_open(rig->domain, &attr, &cq, NULL));
	return cq;
}

struct fid_ep *rig_ep(struct rig *rig, struct fid_cq *cq)
{
	uint64_t selective = rig->options.selective ? FI_SELECTIVE_COMPLETION : 0;
	struct fid_cq *rx_cq = rig->options.own_rx_cq ? rig->rx_cq : cq;
	struct fid_ep *ep;

	accepted(fi_endpoint(rig->domain, rig->info, &ep, NULL));
	if (!rig->options.no_cq) {
		accepted(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | selective));
		accepted(fi_ep_bind(ep, &rx_cq->fid, FI_RECV | selective));
	}
	if (!rig->options.not_enabled)
		accepted(fi_enable(ep));
	return ep;
}

struct fid_cntr *rig_cntr(struct rig *rig)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;

	accepted(fi_cntr_open(rig->domain, &attr, &cntr, NULL));
	return cntr;
}

struct fid_cntr *rig_count(struct rig *rig, uint64_t what)
{
	struct fid_cntr *cntr = rig_cntr(rig);

	accepted(fi_ep_bind(rig->ep, &cntr->fid, what));
	accepted(fi_enable(rig->ep));
	return cntr;
}

struct rig *rig_open(const struct rig_options *options)
{
	static const struct rig_options none;
	struct rig *rig = calloc(1, sizeof(*rig));

	cr_assert_not_null(rig);
	rig->options = options ? *options : none;
	fake_init(&rig->fake);
	rig->fake.virt_addr = rig->options.virt_addr;
	rig->fake.imm_receives = rig->options.imm_receives;
	rig->core = (struct pmv_core){
		.name = "fake",
		.ops = rig->options.engine ? rig->options.engine : &pmv_engine_libfabric,
		.caps = (rig->options.no_fence ? 0 : PMV_ENGINE_FENCE) |
			(rig->options.quiet ? PMV_ENGINE_QUIET : 0) |
			(rig->options.delivers ? PMV_ENGINE_DELIVER : 0),
		.needs_cqs = rig->options.needs_cqs,
		.uses_sockets = rig->options.sockets,
		.imm_receives = rig->options.imm_receives,
		.proves = !rig->options.tickets,
		.takes_keys = !rig->options.tickets,
		.values_until = rig->options.values_until,
	};
	rig->fabric = (struct pmv_fabric){
		.fabric_fid = {.api_version = FI_VERSION(1, 17)},
		.core_fid = &rig->fake.fabric,
		.core = &rig->core,
	};
	rig->info = make_info(&rig->options);
	accepted(pmv_domain_open(&rig->fabric.fabric_fid, rig->info, &rig->domain, NULL));
	/* The keys that tests make are of this life. */
	pmv_to_domain(rig->domain)->life = 0;
	rig->cq = rig_cq(rig);
	rig->rx_cq = rig->options.own_rx_cq ? rig_cq(rig) : rig->cq;
	rig->ep = rig_ep(rig, rig->cq);
	return rig;
}

void rig_close_ep(struct rig *rig)
{
	accepted(fi_close(&rig->ep->fid));
	rig->ep = NULL;
}

void rig_close(struct rig *rig)
{
	if (rig->ep)
		rig_close_ep(rig);
	if (rig->rx_cq != rig->cq)
		accepted(fi_close(&rig->rx_cq->fid));
	accepted(fi_close(&rig->cq->fid));
	accepted(fi_close(&rig->domain->fid));
	cr_assert_eq(rig->fake.open_objects, 0, "%d objects of the core were not closed",
		     rig->fake.open_objects);
	cr_assert_eq(rig->fake.posted_to_closed, 0);
	fi_freeinfo(rig->info);
	fake_destroy(&rig->fake);
	free(rig);
}

static ssize_t rma_msg(struct rig *rig,
		       ssize_t (*call)(struct fid_ep *, const struct fi_msg_rma *, uint64_t),
		       uint64_t key, void *context, uint64_t flags)
{
	struct iovec iov = {buffer, LEN};
	struct fi_rma_iov rma_iov = {ADDR, LEN, key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = context,
		.data = DATA,
	};

	return call(rig->ep, &msg, flags);
}

ssize_t rig_writemsg(struct rig *rig, uint64_t key, void *context, uint64_t flags)
{
	return rma_msg(rig, fi_writemsg, key, context, flags);
}

ssize_t rig_commit(struct rig *rig, uint64_t key, void *context, uint64_t flags)
{
	return rig_writemsg(rig, key, context, FI_COMMIT | flags);
}

ssize_t rig_write(struct rig *rig, uint64_t key, void *context)
{
	return fi_write(rig->ep, buffer, LEN, NULL, 0, ADDR, key, context);
}

ssize_t rig_read(struct rig *rig, uint64_t key, void *context)
{
	return fi_read(rig->ep, buffer, LEN, NULL, 0, ADDR, key, context);
}

ssize_t rig_readmsg(struct rig *rig, uint64_t key, void *context, uint64_t flags)
{
	return rma_msg(rig, fi_readmsg, key, context, flags);
}

ssize_t rig_send(struct rig *rig, void *context)
{
	return fi_send(rig->ep, buffer, LEN, NULL, 0, context);
}

ssize_t rig_sendmsg(struct rig *rig, void *context, uint64_t flags)
{
	struct iovec iov = {buffer, LEN};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = context, .data = DATA};

	return fi_sendmsg(rig->ep, &msg, flags);
}

ssize_t rig_fetch(struct rig *rig, uint64_t key, void *context, uint64_t flags)
{
	static uint64_t operand = 1, old;
	struct fi_ioc ioc = {&operand, 1}, result = {&old, 1};
	struct fi_rma_ioc rma_ioc = {ADDR, 1, key};
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.iov_count = 1,
		.rma_iov = &rma_ioc,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = context,
		.data = DATA,
	};

	return fi_fetch_atomicmsg(rig->ep, &msg, &result, NULL, 1, flags);
}

ssize_t rig_call(struct rig *rig, enum testcore_call call, void *buf, uint64_t key, void *context)
{
	struct fid_ep *ep = rig->ep;
	struct iovec iov = {buf, CALL_LEN};
	struct fi_rma_iov rma_iov = {ADDR, CALL_LEN, key};
	void *desc = NULL;
	struct fi_msg msg = {&iov, &desc, 1, 0, context, DATA};
	struct fi_msg_rma rma = {&iov, &desc, 1, 0, &rma_iov, 1, context, DATA};

	switch (call) {
	case TESTCORE_READ:
		return fi_read(ep, buf, CALL_LEN, NULL, 0, ADDR, key, context);
	case TESTCORE_READV:
		return fi_readv(ep, &iov, &desc, 1, 0, ADDR, key, context);
	case TESTCORE_READMSG:
		return fi_readmsg(ep, &rma, 0);
	case TESTCORE_WRITE:
		return fi_write(ep, buf, CALL_LEN, NULL, 0, ADDR, key, context);
	case TESTCORE_WRITEV:
		return fi_writev(ep, &iov, &desc, 1, 0, ADDR, key, context);
	case TESTCORE_WRITEMSG:
		return fi_writemsg(ep, &rma, 0);
	case TESTCORE_WRITEDATA:
		return fi_writedata(ep, buf, CALL_LEN, NULL, DATA, 0, ADDR, key, context);
	case TESTCORE_INJECT_WRITE:
		return fi_inject_write(ep, buf, CALL_LEN, 0, ADDR, key);
	case TESTCORE_INJECT_WRITEDATA:
		return fi_inject_writedata(ep, buf, CALL_LEN, DATA, 0, ADDR, key);
	case TESTCORE_SEND:
		return fi_send(ep, buf, CALL_LEN, NULL, 0, context);
	case TESTCORE_SENDV:
		return fi_sendv(ep, &iov, &desc, 1, 0, context);
	case TESTCORE_SENDMSG:
		return fi_sendmsg(ep, &msg, 0);
	case TESTCORE_SENDDATA:
		return fi_senddata(ep, buf, CALL_LEN, NULL, DATA, 0, context);
	case TESTCORE_INJECT:
		return fi_inject(ep, buf, CALL_LEN, 0);
	case TESTCORE_INJECTDATA:
		return fi_injectdata(ep, buf, CALL_LEN, DATA, 0);
	case TESTCORE_RECV:
		return fi_recv(ep, buf, CALL_LEN, NULL, 0, context);
	case TESTCORE_RECVV:
		return fi_recvv(ep, &iov, &desc, 1, 0, context);
	case TESTCORE_RECVMSG:
		return fi_recvmsg(ep, &msg, 0);
	case TESTCORE_ATOMICMSG:
		return fi_atomic(ep, buf, 1, NULL, 0, ADDR, key, FI_UINT64, FI_ATOMIC_WRITE,
				 context);
	case TESTCORE_FETCH_ATOMICMSG:
		return rig_fetch(rig, key, context, 0);
	default:
		cr_assert_fail("call %d is not for this", call);
		return -FI_ENOSYS;
	}
}

const struct fake_post *rig_post(struct rig *rig, size_t n)
{
	cr_assert_lt(n, rig->fake.num_posts);
	return &rig->fake.posts[n];
}

static char letter(const struct fake_post *post)
{
	if (post->op.what & FI_ATOMIC)
		return 'A';
	if (post->op.what & FI_MSG)
		return post->op.what & FI_SEND ? 'S' : 'X';
	return post->op.what & FI_READ ? 'R' : 'W';
}

const char *rig_posted(struct rig *rig)
{
	size_t len = 0;

	rig->posted[0] = '\0';
	for (; rig->shown < rig->fake.num_posts; rig->shown++) {
		const struct fake_post *post = rig_post(rig, rig->shown);

		len += snprintf(rig->posted + len, sizeof(rig->posted) - len, "%s%s%c%s%s",
				len ? " " : "", post->op.flags & FI_FENCE ? "f" : "", letter(post),
				post->op.len ? "" : "0",
				post->op.flags & FI_REMOTE_CQ_DATA ? "i" : "");
		cr_assert_lt(len, sizeof(rig->posted));
	}
	return rig->posted;
}

void rig_expect(struct rig *rig, const void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry entry = {0};
	ssize_t ret = fi_cq_read(rig->cq, &entry, 1);

	cr_assert_eq(ret, 1, "the completion of %p is missing: %zd", context, ret);
	cr_assert_eq(entry.op_context, context, "%p completed instead of %p", entry.op_context,
		     context);
	if (rig->options.format != FI_CQ_FORMAT_CONTEXT)
		cr_assert_eq(entry.flags, flags, "%#llx", (unsigned long long) entry.flags);
}

void rig_expect_error(struct rig *rig, const void *context, uint64_t flags, int err)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	ssize_t ret = fi_cq_read(rig->cq, &entry, 1);

	cr_assert_eq(ret, -FI_EAVAIL, "the error of %p is missing: %zd", context, ret);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_assert_eq(error.op_context, context, "%p failed instead of %p", error.op_context,
		     context);
	cr_assert_eq(error.flags, flags, "%#llx", (unsigned long long) error.flags);
	cr_assert_eq(error.err, err, "%s instead of %s", fi_strerror(error.err), fi_strerror(err));
}

void rig_expect_nothing(struct rig *rig)
{
	struct fi_cq_tagged_entry entry = {0};
	struct fi_cq_err_entry error = {0};
	ssize_t ret = fi_cq_read(rig->cq, &entry, 1);

	cr_assert_neq(ret, 1, "%p completed, nothing should", entry.op_context);
	if (ret == -FI_EAVAIL) {
		fi_cq_readerr(rig->cq, &error, 0);
		cr_assert_fail("%p failed (%s), nothing should", error.op_context,
			       fi_strerror(error.err));
	}
	cr_assert_eq(ret, -FI_EAGAIN);
}

void rig_expect_each(struct rig *rig, int first, int last, uint64_t flags)
{
	for (int i = first; i <= last; i++)
		rig_expect(rig, CONTEXT(i), flags);
	rig_expect_nothing(rig);
}

void rig_expect_parts(struct rig *rig, int parts, const void *context, uint64_t flags)
{
	for (int part = 0; part < parts; part++) {
		rig_expect_nothing(rig);
		cr_assert_eq(fake_complete(&rig->fake, 1), 1, "there are only %d parts", part);
	}
	rig_expect(rig, context, flags);
	rig_expect_nothing(rig);
}

void rig_end_part(struct rig *rig, int err)
{
	if (err)
		cr_assert(fake_fail(&rig->fake, err, 100 + err));
	else
		cr_assert_eq(fake_complete(&rig->fake, 1), 1);
}

void rig_expect_one_error(struct rig *rig, int err)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};

	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	/* It stays until it is read. */
	cr_assert_eq(fi_cq_read(rig->cq, &entry, 1), -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), 1);
	cr_assert_eq(error.op_context, CONTEXT(1));
	cr_assert_eq(error.flags, RIG_WRITTEN);
	cr_assert_eq(error.err, err);
	cr_assert_eq(error.prov_errno, 100 + err);
	cr_assert_eq(fi_cq_readerr(rig->cq, &error, 0), -FI_EAGAIN);
	rig_expect_nothing(rig);
}
