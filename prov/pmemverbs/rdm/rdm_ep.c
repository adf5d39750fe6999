/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_ep.c -- endpoints of FI_EP_RDM: writes and messages
 *
 * RxM keeps what a commit relies on: all writes to a peer go through one MSG endpoint, in
 * order, with the application's flags and 64-bit keys, and complete when they complete
 * there.  What RxM does not do is done here and in rdm_atomic.c, in functions that replace
 * RxM's:
 *
 *   writes   RxM refuses FI_COMMIT_COMPLETE in op_flags.  So calls without flags become
 *            calls with flags.  An injected write without a completion loses its flags in
 *            RxM, unless RxM has to copy the data.  It copies the data of two pieces.
 *   messages RxM drops the flag.  So messages with it are refused.
 *   loss     RxM connects again without telling anybody.  So the endpoint remembers what
 *            was written to each peer: see lost_writes.h.  RxM does not say which of its
 *            connections leads to which peer.  A connection's peer is found out when the
 *            connection is given what the application has just posted to that peer.
 */
#include "rdm/rdm_ep.h"

#include <netinet/in.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "base/log.h"
#include "engine/length.h"
#include "memory/guard.h"
#include "rdm/rdm_calls.h"
#include "rdm/rdm_cq.h"

/* The write that is being posted.  RxM calls back and can't say on whose behalf. */
static _Thread_local struct {
	struct pmv_rdm_ep *ep;
	fi_addr_t dest;
	const struct fi_rma_iov *to;
	size_t changed;  /* how many bytes an atomic has changed there ... */
	uint64_t losses; /* ... and how many connections were lost before it was sent */
	bool probes;     /* nothing is written: RxM only chooses its endpoint */
	bool found;      /* it has chosen one */
} posting;

/* Lost writes */

/* RxM tells peers apart by address and port only, not by the rest of a sockaddr. */
struct pmv_lost_writes *pmv_rdm_ep_tracker(struct pmv_rdm_ep *rdm, fi_addr_t dest)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		unsigned char room[PMV_LOST_WRITES_ADDR_SIZE];
	} addr = {.room = {0}}, plain = {.room = {0}};
	size_t len = sizeof(addr);

	if (fi_av_lookup(rdm->av, dest, &addr, &len))
		len = 0;
	plain.any.sa_family = addr.any.sa_family;
	switch (addr.any.sa_family) {
	case AF_INET:
		plain.in.sin_port = addr.in.sin_port;
		plain.in.sin_addr = addr.in.sin_addr;
		break;
	case AF_INET6:
		plain.in6.sin6_port = addr.in6.sin6_port;
		plain.in6.sin6_addr = addr.in6.sin6_addr;
		break;
	default:
		plain = addr;
	}
	return pmv_lost_writes_list_get(&rdm->lost_writes, &plain, len);
}

static bool is_applications(const struct fi_rma_iov *to)
{
	return posting.ep && posting.to && posting.to->addr == to->addr &&
	       posting.to->len == to->len && posting.to->key == to->key;
}

static struct pmv_lost_writes *tracker_of_write(void)
{
	return pmv_rdm_ep_tracker(posting.ep, posting.dest);
}

static size_t changed(const struct fi_rma_iov *to)
{
	return is_applications(to) ? posting.changed : 0;
}

static bool probes(const struct fi_rma_iov *to, struct pmv_lost_writes *tracker)
{
	if (!is_applications(to) || !posting.probes)
		return false;
	posting.losses = pmv_lost_writes_losses(tracker);
	posting.found = true;
	return true;
}

static ssize_t may_commit_changed(struct pmv_lost_writes *tracker)
{
	if (posting.losses == pmv_lost_writes_losses(tracker))
		return 0;
	PMV_WARN(EP_DATA, "an atomic was executed, but the connection was lost before it was "
			  "committed: its result may be lost\n");
	return -FI_ECONNRESET;
}

ssize_t pmv_rdm_ep_may_commit(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count,
			      bool all)
{
	if (pmv_lost_writes_may_commit(tracker, keys, count, all))
		return 0;
	PMV_WARN(EP_DATA,
		 "not committed: a connection to the peer was lost, and with it perhaps writes "
		 "that this commit would cover; write again what was written to this memory "
		 "since the last commit there\n");
	return -FI_ECONNRESET;
}

const struct pmv_hooks pmv_rdm_ep_hooks = {
	.is_applications = is_applications,
	.tracker = tracker_of_write,
	.may_commit = pmv_rdm_ep_may_commit,
	.changed = changed,
	.may_commit_changed = may_commit_changed,
	.probes = probes,
	.may_send = pmv_rdm_atomic_may_send,
};

/* Messages */

static ssize_t refuse_message(uint64_t flags)
{
	PMV_WARN(EP_DATA, "a message of FI_EP_RDM can't be committed; write the data instead\n");
	return flags & FI_COMMIT ? -FI_EOPNOTSUPP : -FI_EINVAL;
}

static ssize_t rdm_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	ssize_t ret;

	if (flags & (FI_COMMIT | FI_IMMED))
		return refuse_message(flags);
	pmv_guard_enter_sending(msg->msg_iov, msg->iov_count);
	ret = PMV_RDM_OF(fid, msg)->rxm_msg->sendmsg(fid, msg, flags);
	pmv_guard_leave_sending();
	return ret;
}

static ssize_t rdm_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	ssize_t ret;

	if (flags & (FI_COMMIT | FI_IMMED))
		return refuse_message(flags);
	pmv_guard_enter_sending(msg->msg_iov, msg->iov_count);
	ret = PMV_RDM_OF(fid, tagged)->rxm_tagged->sendmsg(fid, msg, flags);
	pmv_guard_leave_sending();
	return ret;
}

/* With FI_COMMIT_COMPLETE in op_flags, calls without a flags argument are refused, too. */

static ssize_t no_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
		       fi_addr_t dest_addr, void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) dest_addr, (void) context;
	return refuse_message(FI_COMMIT);
}

static ssize_t no_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t dest_addr, void *context)
{
	(void) fid, (void) iov, (void) desc, (void) count, (void) dest_addr, (void) context;
	return refuse_message(FI_COMMIT);
}

static ssize_t no_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			   uint64_t data, fi_addr_t dest_addr, void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) data, (void) dest_addr;
	(void) context;
	return refuse_message(FI_COMMIT);
}

static ssize_t no_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, uint64_t tag, void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) dest_addr, (void) tag;
	(void) context;
	return refuse_message(FI_COMMIT);
}

static ssize_t no_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, uint64_t tag, void *context)
{
	(void) fid, (void) iov, (void) desc, (void) count, (void) dest_addr, (void) tag;
	(void) context;
	return refuse_message(FI_COMMIT);
}

static ssize_t no_tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
	(void) fid, (void) buf, (void) len, (void) desc, (void) data, (void) dest_addr;
	(void) tag, (void) context;
	return refuse_message(FI_COMMIT);
}

/* Writes */

/* inject_in_pieces -- add an empty piece: see the top of this file */
static ssize_t inject_in_pieces(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	struct iovec iov[2] = {{0}};
	void *desc[2] = {NULL};
	struct fi_msg_rma pieces = *msg;

	for (size_t i = 0; i < msg->iov_count; i++) {
		iov[i] = msg->msg_iov[i];
		desc[i] = msg->desc ? msg->desc[i] : NULL;
	}
	if (iov[0].iov_len > rdm->inject_size)
		return -FI_EINVAL;
	pieces.msg_iov = iov;
	pieces.desc = desc;
	pieces.iov_count = 2;
	return rdm->rxm_rma->writemsg(fid, &pieces, flags);
}

/* begin_write -- `to` and `iov` stay valid until end_write; under guard: rdm_calls.h */
static struct pmv_rdm_ep *begin_write(struct fid_ep *fid, fi_addr_t dest,
				      const struct fi_rma_iov *to, const struct iovec *iov,
				      size_t count)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);

	posting.ep = rdm;
	posting.dest = dest;
	posting.to = to;
	pmv_guard_enter_sending(iov, count);
	return rdm;
}

static ssize_t end_write(ssize_t ret)
{
	pmv_guard_leave_sending();
	posting.ep = NULL;
	return ret;
}

static ssize_t rdm_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_rma_msg copy;
	struct pmv_rdm_ep *rdm;

	/* RxM passes it on through one of several calls; all must see the same lengths. */
	msg = pmv_write_lengths(msg, &copy);
	if (!msg)
		return -FI_EINVAL;
	rdm = begin_write(fid, msg->addr, msg->rma_iov, msg->msg_iov, msg->iov_count);
	if ((flags & FI_INJECT) && (flags & (FI_COMMIT | FI_IMMED | FI_FENCE)) &&
	    msg->iov_count <= 1)
		return end_write(inject_in_pieces(fid, msg, flags));
	return end_write(rdm->rxm_rma->writemsg(fid, msg, flags));
}

static ssize_t rdm_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	const struct fi_rma_iov to = {addr, pmv_iov_len(iov, count), key};
	const struct fi_msg_rma msg = {iov, desc, count, dest_addr, &to, 1, context, 0};

	return rdm_writemsg(fid, &msg, PMV_RDM_OF(fid, rma)->tx_op_flags);
}

static ssize_t rdm_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};

	return rdm_writev(fid, &iov, &desc, 1, dest_addr, addr, key, context);
}

static ssize_t rdm_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	const struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_rma_iov to = {addr, len, key};
	const struct fi_msg_rma msg = {&iov, &desc, 1, dest_addr, &to, 1, context, data};

	return rdm_writemsg(fid, &msg, PMV_RDM_OF(fid, rma)->tx_op_flags | FI_REMOTE_CQ_DATA);
}

static ssize_t rdm_inject_write(struct fid_ep *fid, const void *buf, size_t len,
				fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm = begin_write(fid, dest_addr, &to, &iov, 1);

	return end_write(rdm->rxm_rma->inject(fid, buf, len, dest_addr, addr, key));
}

static ssize_t rdm_inject_writedata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				    fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm = begin_write(fid, dest_addr, &to, &iov, 1);

	return end_write(rdm->rxm_rma->injectdata(fid, buf, len, data, dest_addr, addr, key));
}

/* Writes for deferred atomics */

/* RxM gives an injected write of nothing to the peer's endpoint, which does not post it. */
ssize_t pmv_rdm_ep_find_connection(struct fid_ep *fid, struct pmv_deferred *deferred)
{
	const struct fi_rma_iov to = {.addr = deferred->addr, .len = 0, .key = deferred->key};
	struct pmv_rdm_ep *rdm = begin_write(fid, deferred->dest, &to, NULL, 0);
	ssize_t ret;

	posting.probes = true;
	posting.found = false;
	ret = end_write(
		rdm->rxm_rma->inject(fid, NULL, 0, deferred->dest, deferred->addr, deferred->key));
	posting.probes = false;
	if (ret)
		return ret;
	deferred->losses = posting.losses;
	return posting.found ? 0 : -FI_EOPNOTSUPP;
}

ssize_t pmv_rdm_ep_commit(struct pmv_deferred *deferred)
{
	const struct fi_rma_iov to = {.addr = deferred->addr, .len = 0, .key = deferred->key};
	struct fi_msg_rma msg = {
		.addr = deferred->dest,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = deferred,
	};
	struct pmv_rdm_ep *rdm = begin_write(deferred->ep, deferred->dest, &to, NULL, 0);
	ssize_t ret;

	posting.changed = deferred->len;
	posting.losses = deferred->losses;
	/* If the peer can't be reached any more, fail at once instead of waiting for it. */
	ret = may_commit_changed(tracker_of_write());
	if (!ret)
		ret = rdm->rxm_rma->writemsg(deferred->ep, &msg, FI_COMMIT | FI_COMPLETION);
	posting.changed = 0;
	return end_write(ret);
}

/* The endpoint itself */

static int rdm_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, ops);

	/* RxM raises no events for an endpoint, and could not read our event queue. */
	if (bfid->fclass == FI_CLASS_EQ)
		return 0;
	if (pmv_rdm_calls_is_foreign(bfid)) {
		PMV_WARN(EP_CTRL, "another provider's object, or one of FI_EP_MSG, can't be bound "
				  "to an endpoint of FI_EP_RDM\n");
		return -FI_EINVAL;
	}
	if (bfid->fclass == FI_CLASS_AV)
		rdm->av = pmv_container_of(bfid, struct fid_av, fid);
	if (bfid->fclass == FI_CLASS_CNTR && (flags & (FI_READ | FI_WRITE)))
		rdm->counts = true;
	if (pmv_rdm_cq_pool(bfid) && (flags & FI_TRANSMIT) && !rdm->tx_cq) {
		int ret = pmv_op_owner_open(&rdm->deferred, pmv_rdm_cq_pool(bfid));

		if (ret)
			return ret;
		rdm->tx_cq = pmv_container_of(bfid, struct fid_cq, fid);
		rdm->selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return rdm->rxm_ops->bind(fid, bfid, flags);
}

static int rdm_ep_close(struct fid *fid)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, ops);
	int ret;

	/* A thread that reads the CQ must not post to an endpoint that is being closed. */
	if (rdm->tx_cq)
		pmv_rdm_cq_drop(rdm->tx_cq, &rdm->deferred);
	ret = rdm->rxm_ops->close(fid);
	if (ret)
		return ret;
	if (rdm->tx_cq)
		pmv_op_owner_close(&rdm->deferred);
	pmv_lost_writes_list_destroy(&rdm->lost_writes);
	free(rdm);
	return 0;
}

/* replace_tables -- replace the functions of RxM's that would not keep what is promised */
static void replace_tables(struct fid_ep *ep, struct pmv_rdm_ep *rdm)
{
	PMV_TABLE_REPLACE(ep->fid.ops, rdm->rxm_ops, rdm->ops);
	rdm->ops.fn.close = rdm_ep_close;
	rdm->ops.fn.bind = rdm_ep_bind;

	PMV_TABLE_REPLACE(ep->msg, rdm->rxm_msg, rdm->msg);
	PMV_TABLE_REPLACE(ep->tagged, rdm->rxm_tagged, rdm->tagged);
	PMV_TABLE_REPLACE(ep->rma, rdm->rxm_rma, rdm->rma);
	pmv_rdm_calls_guard(rdm);
	rdm->msg.fn.sendmsg = rdm_sendmsg;
	rdm->tagged.fn.sendmsg = rdm_tsendmsg;
	if (rdm->tx_op_flags & FI_COMMIT) {
		rdm->msg.fn.send = no_send;
		rdm->msg.fn.sendv = no_sendv;
		rdm->msg.fn.senddata = no_senddata;
		rdm->tagged.fn.send = no_tsend;
		rdm->tagged.fn.sendv = no_tsendv;
		rdm->tagged.fn.senddata = no_tsenddata;
	}
	rdm->rma.fn.writemsg = rdm_writemsg;
	rdm->rma.fn.write = rdm_write;
	rdm->rma.fn.writev = rdm_writev;
	rdm->rma.fn.writedata = rdm_writedata;
	rdm->rma.fn.inject = rdm_inject_write;
	rdm->rma.fn.injectdata = rdm_inject_writedata;

	/* Only if atomics were asked for. */
	if (ep->atomic)
		pmv_rdm_atomic_replace(ep, rdm);
}

int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags)
{
	struct pmv_rdm_ep *rdm = calloc(1, sizeof(*rdm));

	if (!rdm)
		return -FI_ENOMEM;
	rdm->inject_size = inject_size;
	rdm->tx_op_flags = op_flags;
	pmv_lost_writes_list_init(&rdm->lost_writes);
	replace_tables(ep, rdm);
	return 0;
}
