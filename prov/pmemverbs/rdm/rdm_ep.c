/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_ep.c -- endpoints of FI_EP_RDM: writes and messages
 *
 * RxM keeps what a commit rests on: all writes to a peer go through one MSG
 * endpoint, in order, with the application's flags and 64-bit keys, and complete
 * when they complete there.  What it does not do is done here and in rdm_atomic.c,
 * in functions that replace its own:
 *
 *   writes   RxM refuses FI_COMMIT_COMPLETE in op_flags: the calls that take none
 *            become calls with flags.  An injected write without a completion
 *            loses its flags in RxM, unless RxM has to copy it itself, as it does
 *            with one of two pieces.
 *   messages RxM drops the flag, so it is refused.
 *   loss     RxM connects again without a word.  So the endpoint keeps what was
 *            written to each peer: see peer.h.  RxM says nowhere which of its
 *            endpoints is connected to whom; it is found out when one is given
 *            what the application has just posted to a peer.
 */
#include <stdlib.h>
#include <netinet/in.h>

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "objects/ep.h"
#include "objects/eq.h"
#include "rdm/deferred.h"
#include "engine/length.h"
#include "base/setting.h"
#include "rdm/rdm_atomic.h"
#include "rdm/rdm_ep.h"

/* The write that is being posted; RxM calls back, and can't say on whose behalf. */
static _Thread_local struct {
	struct pmv_rdm_ep *ep;
	fi_addr_t dest;
	const struct fi_rma_iov *to;
	size_t changed;  /* so many bytes there, by an atomic ... */
	uint64_t losses; /* ... that was sent after so many connections were lost */
	bool looks;      /* nothing is written: RxM shows its endpoint */
	bool found;      /* it did */
} front;

/* commits -- do the calls without a flags argument, too? */
static bool commits(const struct pmv_rdm_ep *rdm)
{
	return rdm->tx_op_flags & FI_COMMIT;
}

/* Peers */

/* RxM tells peers apart by these, and not by what else a sockaddr has room for */
struct pmv_lost_writes *pmv_rdm_peer_at(struct pmv_rdm_ep *rdm, fi_addr_t dest)
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
	return pmv_lost_writes_list_get(&rdm->peers, &plain, len);
}

static bool is_applications(const struct fi_rma_iov *to)
{
	return front.ep && front.to && front.to->addr == to->addr && front.to->len == to->len &&
	       front.to->key == to->key;
}

static struct pmv_lost_writes *peer_of_write(void)
{
	return pmv_rdm_peer_at(front.ep, front.dest);
}

static size_t changed(const struct fi_rma_iov *to)
{
	return is_applications(to) ? front.changed : 0;
}

static bool probes(const struct fi_rma_iov *to, struct pmv_lost_writes *peer)
{
	if (!is_applications(to) || !front.looks)
		return false;
	front.losses = pmv_lost_writes_losses(peer);
	front.found = true;
	return true;
}

static ssize_t may_commit_changed(struct pmv_lost_writes *peer)
{
	if (front.losses == pmv_lost_writes_losses(peer))
		return 0;
	PMV_WARN(EP_DATA, "an atomic was executed, but the connection lost before it was "
			  "committed: it may be lost with it\n");
	return -FI_ECONNRESET;
}

ssize_t pmv_rdm_may_commit(struct pmv_lost_writes *peer, const uint32_t *keys, size_t count,
			   bool all)
{
	if (pmv_lost_writes_may_commit(peer, keys, count, all))
		return 0;
	PMV_WARN(EP_DATA,
		 "not committed: a connection to the peer was lost with writes that this commit "
		 "would cover, and they may be lost with it; write again what was written "
		 "to this memory since the last commit there\n");
	return -FI_ECONNRESET;
}

const struct pmv_hooks pmv_rdm_ep_hooks = {
	.is_applications = is_applications,
	.peer = peer_of_write,
	.may_commit = pmv_rdm_may_commit,
	.changed = changed,
	.may_commit_changed = may_commit_changed,
	.probes = probes,
	.may_send = pmv_rdm_may_send,
};

/* Messages */

static ssize_t refuse_message(uint64_t flags)
{
	PMV_WARN(EP_DATA, "a message of FI_EP_RDM can't be committed; write the data instead\n");
	return flags & FI_COMMIT ? -FI_EOPNOTSUPP : -FI_EINVAL;
}

static ssize_t rdm_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	if (flags & (FI_COMMIT | FI_IMMED))
		return refuse_message(flags);
	return PMV_RDM_OF(fid, msg)->rxm_msg->sendmsg(fid, msg, flags);
}

static ssize_t rdm_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	if (flags & (FI_COMMIT | FI_IMMED))
		return refuse_message(flags);
	return PMV_RDM_OF(fid, tagged)->rxm_tagged->sendmsg(fid, msg, flags);
}

/* With FI_COMMIT_COMPLETE in op_flags those without a flags argument are no better. */

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

/* inject_in_pieces -- one empty piece more: see the top of this file */
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

/* begin_write -- to is there until end_write */
static struct pmv_rdm_ep *begin_write(struct fid_ep *fid, fi_addr_t dest,
				      const struct fi_rma_iov *to)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);

	front.ep = rdm;
	front.dest = dest;
	front.to = to;
	return rdm;
}

static ssize_t end_write(ssize_t ret)
{
	front.ep = NULL;
	return ret;
}

static ssize_t rdm_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_rma_msg copy;
	struct pmv_rdm_ep *rdm;

	/* RxM passes it on in one of several calls, which are to name the same. */
	msg = pmv_write_lengths(msg, &copy);
	if (!msg)
		return -FI_EINVAL;
	rdm = begin_write(fid, msg->addr, msg->rma_iov);
	if ((flags & FI_INJECT) && (flags & (FI_COMMIT | FI_IMMED | FI_FENCE)) &&
	    msg->iov_count <= 1)
		return end_write(inject_in_pieces(fid, msg, flags));
	return end_write(rdm->rxm_rma->writemsg(fid, msg, flags));
}

static ssize_t write_with_flags(struct fid_ep *fid, const struct iovec *iov, void **desc,
				size_t count, uint64_t data, fi_addr_t dest_addr, uint64_t addr,
				uint64_t key, void *context, uint64_t more_flags)
{
	struct fi_rma_iov rma_iov = {addr, pmv_iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, dest_addr, &rma_iov, 1, context, data};

	return rdm_writemsg(fid, &msg, PMV_RDM_OF(fid, rma)->tx_op_flags | more_flags);
}

static ssize_t rdm_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm;

	if (commits(PMV_RDM_OF(fid, rma)))
		return write_with_flags(fid, &iov, &desc, 1, 0, dest_addr, addr, key, context, 0);
	rdm = begin_write(fid, dest_addr, &to);
	return end_write(rdm->rxm_rma->write(fid, buf, len, desc, dest_addr, addr, key, context));
}

static ssize_t rdm_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	const struct fi_rma_iov to = {addr, pmv_iov_len(iov, count), key};
	struct pmv_rdm_ep *rdm;

	if (commits(PMV_RDM_OF(fid, rma)))
		return write_with_flags(fid, iov, desc, count, 0, dest_addr, addr, key, context, 0);
	rdm = begin_write(fid, dest_addr, &to);
	return end_write(
		rdm->rxm_rma->writev(fid, iov, desc, count, dest_addr, addr, key, context));
}

static ssize_t rdm_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm;

	if (commits(PMV_RDM_OF(fid, rma)))
		return write_with_flags(fid, &iov, &desc, 1, data, dest_addr, addr, key, context,
					FI_REMOTE_CQ_DATA);
	rdm = begin_write(fid, dest_addr, &to);
	return end_write(
		rdm->rxm_rma->writedata(fid, buf, len, desc, data, dest_addr, addr, key, context));
}

static ssize_t rdm_inject_write(struct fid_ep *fid, const void *buf, size_t len,
				fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm = begin_write(fid, dest_addr, &to);

	return end_write(rdm->rxm_rma->inject(fid, buf, len, dest_addr, addr, key));
}

static ssize_t rdm_inject_writedata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				    fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};
	struct pmv_rdm_ep *rdm = begin_write(fid, dest_addr, &to);

	return end_write(rdm->rxm_rma->injectdata(fid, buf, len, data, dest_addr, addr, key));
}

/* Writes for atomics that are held */

/* An injected write of nothing makes RxM show its endpoint, which is all that becomes of it. */
ssize_t pmv_rdm_find_connection(struct fid_ep *fid, struct pmv_deferred *held)
{
	const struct fi_rma_iov to = {.addr = held->addr, .len = 0, .key = held->key};
	struct pmv_rdm_ep *rdm = begin_write(fid, held->dest, &to);
	ssize_t ret;

	front.looks = true;
	front.found = false;
	ret = end_write(rdm->rxm_rma->inject(fid, NULL, 0, held->dest, held->addr, held->key));
	front.looks = false;
	if (ret)
		return ret;
	held->losses = front.losses;
	return front.found ? 0 : -FI_EOPNOTSUPP;
}

ssize_t pmv_rdm_commit_held(struct pmv_deferred *held)
{
	const struct fi_rma_iov to = {.addr = held->addr, .len = 0, .key = held->key};
	struct fi_msg_rma msg = {
		.addr = held->dest,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = held,
	};
	struct pmv_rdm_ep *rdm = begin_write(held->ep, held->dest, &to);
	ssize_t ret;

	front.changed = held->len;
	front.losses = held->losses;
	/* Whoever can't be reached any more is not to be waited for. */
	ret = may_commit_changed(peer_of_write());
	if (!ret)
		ret = rdm->rxm_rma->writemsg(held->ep, &msg, FI_COMMIT | FI_COMPLETION);
	front.changed = 0;
	return end_write(ret);
}

/* The endpoint itself */

static int rdm_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, ops);

	/* RxM raises no events for an endpoint, and could not read an event queue of ours. */
	if (bfid->ops == &pmv_eq_fi_ops)
		return 0;
	if (bfid->fclass == FI_CLASS_AV)
		rdm->av = pmv_container_of(bfid, struct fid_av, fid);
	if (bfid->fclass == FI_CLASS_CNTR && (flags & (FI_READ | FI_WRITE)))
		rdm->counts = true;
	if (pmv_deferred_is_cq(bfid) && (flags & FI_TRANSMIT)) {
		rdm->tx_cq = pmv_container_of(bfid, struct fid_cq, fid);
		rdm->selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return rdm->rxm_ops->bind(fid, bfid, flags);
}

static int rdm_ep_close(struct fid *fid)
{
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, ops);
	int ret;

	/* Whoever reads the CQ must not post to what is being closed. */
	if (rdm->tx_cq)
		pmv_deferred_drop(rdm->tx_cq, pmv_container_of(fid, struct fid_ep, fid));
	ret = rdm->rxm_ops->close(fid);
	if (ret)
		return ret;
	pmv_lost_writes_list_destroy(&rdm->peers);
	free(rdm);
	return 0;
}

/* replace_tables -- those of RxM's functions that would not keep what is promised */
static void replace_tables(struct fid_ep *ep, struct pmv_rdm_ep *rdm)
{
	rdm->rxm_ops = ep->fid.ops;
	COPY_TABLE(rdm->ops, ep->fid.ops);
	rdm->ops.fn.close = rdm_ep_close;
	rdm->ops.fn.bind = rdm_ep_bind;
	ep->fid.ops = &rdm->ops.fn;

	rdm->rxm_msg = ep->msg;
	COPY_TABLE(rdm->msg, ep->msg);
	rdm->msg.fn.sendmsg = rdm_sendmsg;
	if (commits(rdm)) {
		rdm->msg.fn.send = no_send;
		rdm->msg.fn.sendv = no_sendv;
		rdm->msg.fn.senddata = no_senddata;
	}
	ep->msg = &rdm->msg.fn;

	rdm->rxm_tagged = ep->tagged;
	COPY_TABLE(rdm->tagged, ep->tagged);
	rdm->tagged.fn.sendmsg = rdm_tsendmsg;
	if (commits(rdm)) {
		rdm->tagged.fn.send = no_tsend;
		rdm->tagged.fn.sendv = no_tsendv;
		rdm->tagged.fn.senddata = no_tsenddata;
	}
	ep->tagged = &rdm->tagged.fn;

	rdm->rxm_rma = ep->rma;
	COPY_TABLE(rdm->rma, ep->rma);
	rdm->rma.fn.writemsg = rdm_writemsg;
	rdm->rma.fn.write = rdm_write;
	rdm->rma.fn.writev = rdm_writev;
	rdm->rma.fn.writedata = rdm_writedata;
	rdm->rma.fn.inject = rdm_inject_write;
	rdm->rma.fn.injectdata = rdm_inject_writedata;
	ep->rma = &rdm->rma.fn;

	/* Only where they were asked for. */
	if (ep->atomic)
		pmv_rdm_replace_atomics(ep, rdm);
}

int pmv_rdm_ep_wrap(struct fid_ep *ep, size_t inject_size, uint64_t op_flags)
{
	struct pmv_rdm_ep *rdm = calloc(1, sizeof(*rdm));

	if (!rdm)
		return -FI_ENOMEM;
	rdm->inject_size = inject_size;
	rdm->tx_op_flags = op_flags;
	pmv_lost_writes_list_init(&rdm->peers);
	replace_tables(ep, rdm);
	return 0;
}
