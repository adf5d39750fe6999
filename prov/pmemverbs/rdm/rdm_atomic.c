/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_atomic.c -- atomics of FI_EP_RDM
 *
 * RxM sends a message, and the target's processor executes the atomic and answers.
 * By then it is in the caches there, and so is all that came before on the
 * connection: durable if caches persist, else not.  With FI_PMEMVERBS_COMMIT=all
 * the agent then makes it so: see held.h.
 */
#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "engine/atomic.h"
#include "rdm/deferred.h"
#include "engine/length.h"
#include "base/setting.h"
#include "rdm/rdm_atomic.h"
#include "rdm/rdm_ep.h"
#include "progress/op.h"

/* What commits */

/* caches_lose -- what a processor has written there */
static bool caches_lose(const struct pmv_attr *attr)
{
	return attr->persist == PMV_DMP || attr->persist == PMV_PAGE;
}

/* why_unordered -- with what came before it; NULL: it is */
static const char *why_unordered(const struct pmv_attr *attr, uint64_t flags)
{
	if (flags & FI_FENCE)
		return "RxM executes atomics without a fence";
	if (attr->relaxed || pmv_setting.relaxed)
		return "the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed)";
	return NULL;
}

/* is_committed -- also because it is to be durable though the call does not say so */
static bool is_committed(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;

	return (flags & FI_COMMIT) ||
	       (pmv_setting.commit_all && pmv_key_unpack(key, &attr) && attr.pmem);
}

const char *pmv_rdm_check_atomic(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;
	const char *why;

	if (!is_committed(key, flags))
		return NULL;
	if (!pmv_key_unpack(key, &attr))
		return "the key says nothing of the memory behind it";
	why = why_unordered(&attr, flags);
	if (!why && caches_lose(&attr))
		why = "the target's processor executes it, and its caches do not persist";
	return why;
}

bool pmv_rdm_holds_atomic(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;

	return pmv_setting.commit_all && pmv_key_unpack(key, &attr) && attr.pmem &&
	       caches_lose(&attr) && !why_unordered(&attr, flags);
}

/* What the atomic that is being posted commits; RxM calls back, and can't say for whom. */
static _Thread_local struct {
	struct pmv_lost_writes *peer; /* NULL: nothing */
	uint32_t regions[PMV_OP_REGIONS];
	size_t count;
} committing;

/* begin_commit -- an atomic commits what was written before it, too, and on its connection */
static ssize_t begin_commit(struct pmv_rdm_ep *rdm, fi_addr_t dest, uint64_t key)
{
	if (!committing.peer) {
		committing.peer = pmv_rdm_peer_at(rdm, dest);
		committing.count = 0;
	}
	if (committing.count == PMV_OP_REGIONS)
		return -FI_EINVAL;
	committing.regions[committing.count] = (uint32_t) pmv_key_core(key);
	return pmv_rdm_may_commit(committing.peer, &committing.regions[committing.count++], 1,
				  false);
}

ssize_t pmv_rdm_may_send(const struct pmv_lost_writes *peer)
{
	/* A new connection has nobody yet. */
	if (!committing.peer || (peer && peer != committing.peer))
		return 0;
	/* It may be another message that RxM sends meanwhile: the atomic's caller is to hear it. */
	return pmv_lost_writes_has_lost(committing.peer, committing.regions, committing.count)
		       ? -FI_ECONNRESET
		       : 0;
}

/* Posting */

/* One atomic, whatever the call was. */
struct atomic {
	const struct fi_msg_atomic *msg;
	struct fi_ioc *result; /* NULL: it fetches nothing */
	void **result_desc;
	size_t result_count;
	const struct fi_ioc *compare; /* NULL: it compares nothing */
	void **compare_desc;
	size_t compare_count;
};

/* is_held -- is it to complete when the agent has made it durable, and can it? */
static bool is_held(const struct pmv_rdm_ep *rdm, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return rdm->tx_cq && !rdm->counts && msg->rma_iov_count == 1 &&
	       pmv_rdm_holds_atomic(msg->rma_iov->key, flags);
}

/* check_atomic -- 0: hand it to RxM */
static ssize_t check_atomic(struct pmv_rdm_ep *rdm, const struct fi_msg_atomic *msg, uint64_t flags)
{
	ssize_t ret = 0;

	for (size_t i = 0; !ret && i < msg->rma_iov_count; i++) {
		uint64_t key = msg->rma_iov[i].key;
		const char *why = pmv_rdm_check_atomic(key, flags);

		if (why && pmv_rdm_holds_atomic(key, flags))
			why = "that takes one region, a completion queue, and no counter of it";
		if (why) {
			PMV_WARN(EP_DATA, "an atomic of FI_EP_RDM can't be committed: %s\n", why);
			return -FI_EOPNOTSUPP;
		}
		if (is_committed(key, flags))
			ret = begin_commit(rdm, msg->addr, key);
	}
	return ret;
}

/* hold -- a context for it, until it is durable; NULL: none is left */
static struct pmv_deferred *hold(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				 uint64_t flags)
{
	const struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, atomic);
	struct pmv_deferred *held = pmv_deferred_get(rdm->tx_cq, fid);

	if (!held)
		return NULL;
	held->dest = msg->addr;
	held->addr = msg->rma_iov->addr;
	held->key = msg->rma_iov->key;
	held->len = msg->rma_iov->count * pmv_operand_size(msg->datatype);
	held->context = msg->context;
	/* Those that are injected RxM does not report. */
	held->report = !(flags & FI_INJECT) && ((flags & FI_COMPLETION) || !rdm->selective);
	return held;
}

static ssize_t post_atomic(struct fid_ep *fid, const struct atomic *atomic,
			   const struct fi_msg_atomic *msg, uint64_t flags)
{
	const struct fi_ops_atomic *rxm = PMV_RDM_OF(fid, atomic)->rxm_atomic;

	if (atomic->compare)
		return rxm->compwritemsg(fid, msg, atomic->compare, atomic->compare_desc,
					 atomic->compare_count, atomic->result, atomic->result_desc,
					 atomic->result_count, flags);
	if (atomic->result)
		return rxm->readwritemsg(fid, msg, atomic->result, atomic->result_desc,
					 atomic->result_count, flags);
	return rxm->writemsg(fid, msg, flags);
}

static ssize_t do_atomic(struct fid_ep *fid, const struct atomic *atomic, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, atomic);
	size_t count = pmv_atomic_count(atomic->msg, atomic->result, atomic->result_count);
	struct pmv_deferred *held = NULL;
	const struct fi_msg_atomic *given;
	struct pmv_atomic_msg copy;
	struct fi_msg_atomic msg;
	ssize_t ret = 0;

	given = pmv_atomic_lengths(atomic->msg, count, &copy);
	if (!given || (flags & FI_IMMED))
		return -FI_EINVAL;
	msg = *given;
	if (msg.op == FI_ATOMIC_READ && !(flags & FI_COMMIT))
		return post_atomic(fid, atomic, &msg, flags);
	if (is_held(rdm, &msg, flags)) {
		held = hold(fid, &msg, flags);
		if (!held)
			return -FI_EAGAIN;
		msg.context = held;
		flags = (flags & ~FI_INJECT) | FI_COMPLETION;
		ret = pmv_rdm_find_connection(fid, held);
	} else {
		ret = check_atomic(rdm, &msg, flags);
	}
	if (!ret) {
		ret = post_atomic(fid, atomic, &msg, flags & ~FI_COMMIT);
		/* RxM has connected again meanwhile: with this it is told. */
		if (ret == -FI_ECONNRESET && committing.peer)
			pmv_rdm_may_commit(committing.peer, committing.regions, committing.count,
					   false);
	}
	committing.peer = NULL;
	if (ret && held)
		pmv_deferred_put(rdm->tx_cq, held);
	return ret;
}

/* The calls */

static ssize_t rdm_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return do_atomic(fid, &(struct atomic){.msg = msg}, flags);
}

static ssize_t rdm_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
			   fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			   enum fi_datatype datatype, enum fi_op op, void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);

	return rdm_atomicmsg(fid, &msg, PMV_RDM_OF(fid, atomic)->tx_op_flags);
}

static ssize_t rdm_inject_atomic(struct fid_ep *fid, const void *buf, size_t count,
				 fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc ioc = {(void *) buf, count};
	void *context = NULL;
	PMV_ATOMIC_MSG(&ioc, NULL, 1);

	return rdm_atomicmsg(fid, &msg, FI_INJECT);
}

static ssize_t rdm_fetch_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	const struct atomic atomic = {
		.msg = msg,
		.result = resultv,
		.result_desc = result_desc,
		.result_count = result_count,
	};

	return do_atomic(fid, &atomic, flags);
}

static ssize_t rdm_fetch_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);

	return rdm_fetch_atomicmsg(fid, &msg, resultv, result_desc, result_count,
				   PMV_RDM_OF(fid, atomic)->tx_op_flags);
}

static ssize_t rdm_compare_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				     const struct fi_ioc *comparev, void **compare_desc,
				     size_t compare_count, struct fi_ioc *resultv,
				     void **result_desc, size_t result_count, uint64_t flags)
{
	const struct atomic atomic = {
		.msg = msg,
		.result = resultv,
		.result_desc = result_desc,
		.result_count = result_count,
		.compare = comparev,
		.compare_desc = compare_desc,
		.compare_count = compare_count,
	};

	return do_atomic(fid, &atomic, flags);
}

static ssize_t rdm_compare_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				   size_t count, const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				   uint64_t key, enum fi_datatype datatype, enum fi_op op,
				   void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);

	return rdm_compare_atomicmsg(fid, &msg, comparev, compare_desc, compare_count, resultv,
				     result_desc, result_count,
				     PMV_RDM_OF(fid, atomic)->tx_op_flags);
}

void pmv_rdm_replace_atomics(struct fid_ep *ep, struct pmv_rdm_ep *rdm)
{
	rdm->rxm_atomic = ep->atomic;
	COPY_TABLE(rdm->atomic, ep->atomic);
	rdm->atomic.fn.write = pmv_atomic_write;
	rdm->atomic.fn.writev = rdm_atomicv;
	rdm->atomic.fn.writemsg = rdm_atomicmsg;
	rdm->atomic.fn.inject = rdm_inject_atomic;
	rdm->atomic.fn.readwrite = pmv_atomic_readwrite;
	rdm->atomic.fn.readwritev = rdm_fetch_atomicv;
	rdm->atomic.fn.readwritemsg = rdm_fetch_atomicmsg;
	rdm->atomic.fn.compwrite = pmv_atomic_compwrite;
	rdm->atomic.fn.compwritev = rdm_compare_atomicv;
	rdm->atomic.fn.compwritemsg = rdm_compare_atomicmsg;
	ep->atomic = &rdm->atomic.fn;
}
