/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm.c -- FI_EP_RDM: RxM over our own FI_EP_MSG; rdm.h says how
 *
 * RxM keeps what a commit rests on: all writes to a peer go through one MSG
 * endpoint, in order, with the application's flags and 64-bit keys, and complete
 * when they complete there.  What it does not do is done here, in functions that
 * replace its own:
 *
 *   writes   RxM refuses FI_COMMIT_COMPLETE in op_flags: the calls that take none
 *            become calls with flags.  An injected write without a completion
 *            loses its flags in RxM, unless RxM has to copy it itself, as it does
 *            with one of two pieces.
 *   messages RxM drops the flag, so it is refused.
 *   atomics  RxM sends a message, and the target's processor executes the atomic
 *            and answers.  By then it is in the caches there, and so is all that
 *            came before on the connection: durable if caches persist, else not.
 *            With FI_PMEMVERBS_COMMIT=all the agent then makes it so: see held.h.
 *   loss     RxM connects again without a word.  So the endpoint keeps what was
 *            written to each peer: see peer.h.  RxM says nowhere which of its
 *            endpoints is connected to whom; it is found out when one is given
 *            what the application has just posted to a peer.
 *
 * A replaced table is a copy of RxM's: see table.h.
 */
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "atomic.h"
#include "ep.h"
#include "eq.h"
#include "getinfo.h"
#include "held.h"
#include "info.h"
#include "prov.h"
#include "rdm.h"
#include "table.h"

#define RXM_OVER_US PMV_NAME ";ofi_rxm"

/* What RxM is told */

/*
 * RxM copies messages of up to 128 KiB piece by piece, unless it is on libfabric's
 * own tcp and finds there what only the two of them know (until 1.19).  Over tcp
 * that costs more than to have the receiver read the message, from somewhat more
 * than 24 KiB on: at 64 KiB by half.
 *
 * RxM listens to the environment only, so it is told just where no other RxM can
 * hear it: in a process that uses this provider alone, and without RDMA, where
 * copying may well be better.  Only the sender's limit counts.
 */
void pmv_rdm_tune(void)
{
	const char *names = getenv("FI_PROVIDER");

	if (names && !strcasecmp(names, PMV_NAME) && !pmv_core_may_be_rdma())
		setenv("FI_OFI_RXM_SAR_LIMIT", "24576", 0);
}

/* What is offered */

struct rdm_ep;

#define MAX_REGIONS 4

/* RxM calls back within the calls made here, and can't say on whose behalf. */
static _Thread_local struct {
	bool calls_rxm;
	bool pmem;
	/* A write that is being posted ... */
	struct rdm_ep *ep;
	fi_addr_t dest;
	const struct fi_rma_iov *to;
	size_t changed;  /* so many bytes there, by an atomic ... */
	uint64_t losses; /* ... that was sent after so many connections were lost */
	bool looks;      /* nothing is written: RxM shows its endpoint */
	bool found;      /* it did */
	/* ... or an atomic that is to commit what was written there before. */
	struct pmv_peer *peer;
	uint32_t keys[MAX_REGIONS];
	size_t num_keys;
} front;

static void enter_rxm(bool pmem)
{
	front.calls_rxm = true;
	front.pmem = pmem;
}

static void leave_rxm(void)
{
	front.calls_rxm = false;
	front.pmem = false;
}

bool pmv_rdm_calls_rxm(void)
{
	return front.calls_rxm;
}

bool pmv_rdm_wants_pmem(void)
{
	return front.pmem;
}

/* is_spread -- is RxM told to use several connections to a peer, which nothing orders? */
static bool is_spread(void)
{
	const char *setting = getenv("FI_OFI_RXM_NUM_MSG_EPS");

	if (!setting || atoi(setting) <= 1)
		return false;
	PMV_WARN(FABRIC,
		 "FI_EP_RDM is not offered with FI_OFI_RXM_NUM_MSG_EPS=%s: a commit has to "
		 "follow the writes on their connection; unset it or set it to 1\n",
		 setting);
	return true;
}

static bool is_same(const struct fi_info *a, const struct fi_info *b)
{
	return a->caps == b->caps && a->src_addrlen == b->src_addrlen &&
	       !strcmp(a->fabric_attr->name, b->fabric_attr->name) &&
	       !strcmp(a->domain_attr->name, b->domain_attr->name) &&
	       (!a->src_addrlen || !memcmp(a->src_addr, b->src_addr, a->src_addrlen));
}

/* is_usable -- RxM answers several times over, and not all that it answers is asked for */
static bool is_usable(const struct fi_info *info, const struct fi_info *before,
		      const struct fi_info *hints)
{
	if (!info->fabric_attr->prov_name || strcmp(info->fabric_attr->prov_name, RXM_OVER_US) ||
	    info->ep_attr->type != FI_EP_RDM || info->ep_attr->protocol != FI_PROTO_RXM ||
	    (info->caps & FI_COLLECTIVE) ||
	    !pmv_is_named(hints->fabric_attr->name, info->fabric_attr->name) ||
	    !pmv_is_named(hints->domain_attr->name, info->domain_attr->name))
		return false;
	for (; before != info; before = before->next) {
		if (is_same(before, info))
			return false;
	}
	return true;
}

/* to_rxm -- a copy of an application's info that RxM accepts; NULL: no memory */
static struct fi_info *to_rxm(const struct fi_info *info)
{
	struct fi_info *copy = pmv_info_complete(info);

	if (!copy)
		return NULL;
	pmv_info_strip_own(copy);
	copy->ep_attr->type = FI_EP_RDM;
	free(copy->fabric_attr->prov_name);
	copy->fabric_attr->prov_name = strdup(RXM_OVER_US);
	copy->fabric_attr->prov_version = 0;
	copy->fabric_attr->api_version = pmv_core_version(copy->fabric_attr->api_version);
	copy->fabric_attr->fabric = NULL;
	copy->domain_attr->domain = NULL;
	if (copy->fabric_attr->prov_name)
		return copy;
	fi_freeinfo(copy);
	return NULL;
}

struct fi_info *pmv_rdm_ask(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints)
{
	struct fi_info *list = NULL;
	struct fi_info **at = &list;
	struct fi_info *rxm_hints;
	int ret;

	if (flags & PMV_CORE_PROV_ONLY)
		return NULL;
	if (hints->caps & FI_FENCE) {
		PMV_INFO(FABRIC, "FI_EP_RDM is not offered with FI_FENCE: RxM does not fence "
				 "messages; fi_writemsg takes the flag all the same\n");
		return NULL;
	}
	/* libfabric 1.17 writes there without looking whether there is one. */
	if (hints->caps & FI_COLLECTIVE) {
		PMV_INFO(FABRIC,
			 "FI_EP_RDM is not offered with FI_COLLECTIVE: who joins is told so "
			 "by an event queue of RxM's own; use pmemverbs;ofi_rxm\n");
		return NULL;
	}
	if (is_spread())
		return NULL;
	rxm_hints = to_rxm(hints);
	if (!rxm_hints)
		return NULL;
	rxm_hints->domain_attr->mr_key_size = 0;
	enter_rxm(pmv_info_is_pmem(hints));
	ret = fi_getinfo(pmv_core_version(version), node, service, flags | PMV_GETINFO_HIDDEN,
			 rxm_hints, &list);
	leave_rxm();
	fi_freeinfo(rxm_hints);
	if (ret) {
		PMV_INFO(FABRIC,
			 "FI_EP_RDM is not offered: ofi_rxm can't serve the hints, or there "
			 "is none\n");
		return NULL;
	}

	while (*at) {
		struct fi_info *info = *at;

		if (is_usable(info, list, hints)) {
			at = &info->next;
			continue;
		}
		*at = info->next;
		info->next = NULL;
		fi_freeinfo(info);
	}
	for (struct fi_info *info = list; info; info = info->next) {
		pmv_info_from_rxm(info, hints);
		/* libfabric sets the name, and would append ours to what is there. */
		free(info->fabric_attr->prov_name);
		info->fabric_attr->prov_name = NULL;
	}
	return list;
}

/* Endpoints */

struct rdm_ep {
	TABLE(fi_ops) ops;
	TABLE(fi_ops_msg) msg;
	TABLE(fi_ops_tagged) tagged;
	TABLE(fi_ops_rma) rma;
	TABLE(fi_ops_atomic) atomic;
	const struct fi_ops *rxm_ops;
	const struct fi_ops_msg *rxm_msg;
	const struct fi_ops_tagged *rxm_tagged;
	const struct fi_ops_rma *rxm_rma;
	const struct fi_ops_atomic *rxm_atomic;
	uint64_t op_flags; /* the application's, if they have FI_COMMIT_COMPLETE */
	size_t inject_size;
	uint64_t tx_op_flags;
	bool selective;
	bool counts; /* a counter would count an atomic that is held */
	struct fid_cq *tx_cq;
	struct fid_av *av;
	struct pmv_peers peers;
};

#define RDM_OF(fid, member) pmv_container_of((fid)->member, struct rdm_ep, member)

/* Peers */

/* peer_at -- RxM tells peers apart by these, and not by what else a sockaddr has room for */
static struct pmv_peer *peer_at(struct rdm_ep *rdm, fi_addr_t dest)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		unsigned char room[PMV_PEER_ADDR_SIZE];
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
	return pmv_peers_get(&rdm->peers, &plain, len);
}

bool pmv_rdm_posts(const struct fi_rma_iov *to)
{
	return front.ep && front.to && front.to->addr == to->addr && front.to->len == to->len &&
	       front.to->key == to->key;
}

struct pmv_peer *pmv_rdm_peer(void)
{
	return peer_at(front.ep, front.dest);
}

size_t pmv_rdm_changed(const struct fi_rma_iov *to)
{
	return pmv_rdm_posts(to) ? front.changed : 0;
}

bool pmv_rdm_looks(const struct fi_rma_iov *to)
{
	return pmv_rdm_posts(to) && front.looks;
}

void pmv_rdm_found(struct pmv_peer *peer)
{
	front.losses = pmv_peer_losses(peer);
	front.found = true;
}

ssize_t pmv_rdm_may_commit_held(struct pmv_peer *peer)
{
	if (front.losses == pmv_peer_losses(peer))
		return 0;
	PMV_WARN(EP_DATA, "an atomic was executed, but the connection lost before it was "
			  "committed: it may be lost with it\n");
	return -FI_ECONNRESET;
}

ssize_t pmv_rdm_may_commit(struct pmv_peer *peer, const uint32_t *keys, size_t count, bool all)
{
	if (pmv_peer_may_commit(peer, keys, count, all))
		return 0;
	PMV_WARN(EP_DATA,
		 "not committed: a connection to the peer was lost with writes that this commit "
		 "would cover, and they may be lost with it; write again what was written "
		 "to this memory since the last commit there\n");
	return -FI_ECONNRESET;
}

ssize_t pmv_rdm_may_send(const struct pmv_peer *peer)
{
	/* A new connection has nobody yet. */
	if (!front.peer || (peer && peer != front.peer))
		return 0;
	/* It may be another message that RxM sends meanwhile: the atomic's caller is to hear it. */
	return pmv_peer_has_lost(front.peer, front.keys, front.num_keys) ? -FI_ECONNRESET : 0;
}

static ssize_t refuse_message(uint64_t flags)
{
	PMV_WARN(EP_DATA, "a message of FI_EP_RDM can't be committed; write the data instead\n");
	return flags & FI_COMMIT ? -FI_EOPNOTSUPP : -FI_EINVAL;
}

static ssize_t rdm_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	if (flags & (FI_COMMIT | FI_IMMED))
		return refuse_message(flags);
	return RDM_OF(fid, msg)->rxm_msg->sendmsg(fid, msg, flags);
}

static ssize_t rdm_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	if (flags & (FI_COMMIT | FI_IMMED))
		return refuse_message(flags);
	return RDM_OF(fid, tagged)->rxm_tagged->sendmsg(fid, msg, flags);
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
	struct rdm_ep *rdm = RDM_OF(fid, rma);
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
static struct rdm_ep *begin_write(struct fid_ep *fid, fi_addr_t dest, const struct fi_rma_iov *to)
{
	struct rdm_ep *rdm = RDM_OF(fid, rma);

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
	struct rdm_ep *rdm = begin_write(fid, msg->addr, msg->rma_iov);

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

	return rdm_writemsg(fid, &msg, RDM_OF(fid, rma)->op_flags | more_flags);
}

static ssize_t rdm_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	const struct fi_rma_iov to = {addr, len, key};
	struct rdm_ep *rdm;

	if (RDM_OF(fid, rma)->op_flags)
		return write_with_flags(fid, &iov, &desc, 1, 0, dest_addr, addr, key, context, 0);
	rdm = begin_write(fid, dest_addr, &to);
	return end_write(rdm->rxm_rma->write(fid, buf, len, desc, dest_addr, addr, key, context));
}

static ssize_t rdm_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	const struct fi_rma_iov to = {addr, pmv_iov_len(iov, count), key};
	struct rdm_ep *rdm;

	if (RDM_OF(fid, rma)->op_flags)
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
	struct rdm_ep *rdm;

	if (RDM_OF(fid, rma)->op_flags)
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
	struct rdm_ep *rdm = begin_write(fid, dest_addr, &to);

	return end_write(rdm->rxm_rma->inject(fid, buf, len, dest_addr, addr, key));
}

static ssize_t rdm_inject_writedata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				    fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {addr, len, key};
	struct rdm_ep *rdm = begin_write(fid, dest_addr, &to);

	return end_write(rdm->rxm_rma->injectdata(fid, buf, len, data, dest_addr, addr, key));
}

/* Atomics */

const char *pmv_rdm_check_atomic(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;

	if (!pmv_key_unpack(key, &attr))
		return flags & FI_COMMIT ? "the key says nothing of the memory behind it" : NULL;
	if (!(flags & FI_COMMIT) && !(pmv_setting.commit_all && attr.pmem))
		return NULL;
	if (flags & FI_FENCE)
		return "RxM executes atomics without a fence";
	if (attr.relaxed || pmv_setting.relaxed)
		return "the path may reorder writes (FI_PMEMVERBS_ORDERING=relaxed)";
	if (attr.persist == PMV_DMP || attr.persist == PMV_PAGE)
		return "the target's processor executes it, and its caches do not persist";
	return NULL;
}

/* begin_commit -- an atomic commits what was written before it, too, and on its connection */
static ssize_t begin_commit(struct rdm_ep *rdm, fi_addr_t dest, uint64_t key)
{
	if (!front.peer) {
		front.peer = peer_at(rdm, dest);
		front.num_keys = 0;
	}
	if (front.num_keys == MAX_REGIONS)
		return -FI_EINVAL;
	front.keys[front.num_keys] = (uint32_t) pmv_key_core(key);
	return pmv_rdm_may_commit(front.peer, &front.keys[front.num_keys++], 1, false);
}

/* is_committed -- also because it is to be durable though the call does not say so */
static bool is_committed(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;

	return (flags & FI_COMMIT) ||
	       (pmv_setting.commit_all && pmv_key_unpack(key, &attr) && attr.pmem);
}

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

bool pmv_rdm_holds_atomic(uint64_t key, uint64_t flags)
{
	struct pmv_attr attr;

	return pmv_setting.commit_all && pmv_key_unpack(key, &attr) && attr.pmem &&
	       (attr.persist == PMV_DMP || attr.persist == PMV_PAGE) && !(flags & FI_FENCE) &&
	       !attr.relaxed && !pmv_setting.relaxed;
}

/* is_held -- is it to complete when the agent has made it durable, and can it? */
static bool is_held(const struct rdm_ep *rdm, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return rdm->tx_cq && !rdm->counts && msg->rma_iov_count == 1 &&
	       pmv_rdm_holds_atomic(msg->rma_iov->key, flags);
}

/* check_atomic -- 0: hand it to RxM */
static ssize_t check_atomic(struct rdm_ep *rdm, const struct fi_msg_atomic *msg, uint64_t flags)
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
static struct pmv_held *hold(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	const struct rdm_ep *rdm = RDM_OF(fid, atomic);
	struct pmv_held *held = pmv_held_get(rdm->tx_cq, fid);

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

/*
 * find_connection -- that the atomic will be sent on; an injected write of nothing
 * makes RxM show it, which is all that becomes of that
 */
static ssize_t find_connection(struct fid_ep *fid, struct pmv_held *held)
{
	const struct fi_rma_iov to = {.addr = held->addr, .len = 0, .key = held->key};
	struct rdm_ep *rdm = begin_write(fid, held->dest, &to);
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

static ssize_t post_atomic(struct fid_ep *fid, const struct atomic *atomic,
			   const struct fi_msg_atomic *msg, uint64_t flags)
{
	const struct fi_ops_atomic *rxm = RDM_OF(fid, atomic)->rxm_atomic;

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
	struct rdm_ep *rdm = RDM_OF(fid, atomic);
	struct fi_msg_atomic msg = *atomic->msg;
	struct pmv_held *held = NULL;
	ssize_t ret = 0;

	if (flags & FI_IMMED)
		return -FI_EINVAL;
	if (msg.op == FI_ATOMIC_READ && !(flags & FI_COMMIT))
		return post_atomic(fid, atomic, &msg, flags);
	if (is_held(rdm, &msg, flags)) {
		held = hold(fid, &msg, flags);
		if (!held)
			return -FI_EAGAIN;
		msg.context = held;
		flags = (flags & ~FI_INJECT) | FI_COMPLETION;
		ret = find_connection(fid, held);
	} else {
		ret = check_atomic(rdm, &msg, flags);
	}
	if (!ret) {
		ret = post_atomic(fid, atomic, &msg, flags & ~FI_COMMIT);
		/* RxM has connected again meanwhile: with this it is told. */
		if (ret == -FI_ECONNRESET && front.peer)
			pmv_rdm_may_commit(front.peer, front.keys, front.num_keys, false);
	}
	front.peer = NULL;
	if (ret && held)
		pmv_held_put(rdm->tx_cq, held);
	return ret;
}

static ssize_t rdm_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
			   fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			   enum fi_datatype datatype, enum fi_op op, void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);

	return do_atomic(fid, &(struct atomic){.msg = &msg}, RDM_OF(fid, atomic)->tx_op_flags);
}

static ssize_t rdm_atomic(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			  enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc ioc = {(void *) buf, count};

	return rdm_atomicv(fid, &ioc, &desc, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t rdm_atomicmsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return do_atomic(fid, &(struct atomic){.msg = msg}, flags);
}

static ssize_t rdm_inject_atomic(struct fid_ep *fid, const void *buf, size_t count,
				 fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc ioc = {(void *) buf, count};
	void *context = NULL;
	PMV_ATOMIC_MSG(&ioc, NULL, 1);

	return do_atomic(fid, &(struct atomic){.msg = &msg}, FI_INJECT);
}

static ssize_t rdm_fetch_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);
	const struct atomic atomic = {
		.msg = &msg,
		.result = resultv,
		.result_desc = result_desc,
		.result_count = result_count,
	};

	return do_atomic(fid, &atomic, RDM_OF(fid, atomic)->tx_op_flags);
}

static ssize_t rdm_fetch_atomic(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};

	return rdm_fetch_atomicv(fid, &ioc, &desc, 1, &result_ioc, &result_desc, 1, dest_addr, addr,
				 key, datatype, op, context);
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

static ssize_t rdm_compare_atomicv(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				   size_t count, const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				   uint64_t key, enum fi_datatype datatype, enum fi_op op,
				   void *context)
{
	PMV_ATOMIC_MSG(iov, desc, count);
	const struct atomic atomic = {
		.msg = &msg,
		.result = resultv,
		.result_desc = result_desc,
		.result_count = result_count,
		.compare = comparev,
		.compare_desc = compare_desc,
		.compare_count = compare_count,
	};

	return do_atomic(fid, &atomic, RDM_OF(fid, atomic)->tx_op_flags);
}

static ssize_t rdm_compare_atomic(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				  const void *compare, void *compare_desc, void *result,
				  void *result_desc, fi_addr_t dest_addr, uint64_t addr,
				  uint64_t key, enum fi_datatype datatype, enum fi_op op,
				  void *context)
{
	struct fi_ioc ioc = {(void *) buf, count}, result_ioc = {result, count};
	struct fi_ioc compare_ioc = {(void *) compare, count};

	return rdm_compare_atomicv(fid, &ioc, &desc, 1, &compare_ioc, &compare_desc, 1, &result_ioc,
				   &result_desc, 1, dest_addr, addr, key, datatype, op, context);
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

ssize_t pmv_rdm_commit_held(struct pmv_held *held)
{
	const struct fi_rma_iov to = {.addr = held->addr, .len = 0, .key = held->key};
	struct fi_msg_rma msg = {
		.addr = held->dest,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = held,
	};
	struct rdm_ep *rdm = begin_write(held->ep, held->dest, &to);
	ssize_t ret;

	front.changed = held->len;
	front.losses = held->losses;
	/* Whoever can't be reached any more is not to be waited for. */
	ret = pmv_rdm_may_commit_held(pmv_rdm_peer());
	if (!ret)
		ret = rdm->rxm_rma->writemsg(held->ep, &msg, FI_COMMIT | FI_COMPLETION);
	front.changed = 0;
	return end_write(ret);
}

/* The endpoint itself */

static int rdm_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct rdm_ep *rdm = RDM_OF(fid, ops);

	/* RxM raises no events for an endpoint, and could not read an event queue of ours. */
	if (bfid->ops == &pmv_eq_fi_ops)
		return 0;
	if (bfid->fclass == FI_CLASS_AV)
		rdm->av = pmv_container_of(bfid, struct fid_av, fid);
	if (bfid->fclass == FI_CLASS_CNTR && (flags & (FI_READ | FI_WRITE)))
		rdm->counts = true;
	if (pmv_held_is_cq(bfid) && (flags & FI_TRANSMIT)) {
		rdm->tx_cq = pmv_container_of(bfid, struct fid_cq, fid);
		rdm->selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return rdm->rxm_ops->bind(fid, bfid, flags);
}

static int rdm_ep_close(struct fid *fid)
{
	struct rdm_ep *rdm = RDM_OF(fid, ops);
	int ret;

	/* Whoever reads the CQ must not post to what is being closed. */
	if (rdm->tx_cq)
		pmv_held_drop(rdm->tx_cq, pmv_container_of(fid, struct fid_ep, fid));
	ret = rdm->rxm_ops->close(fid);
	if (ret)
		return ret;
	pmv_peers_destroy(&rdm->peers);
	free(rdm);
	return 0;
}

/* replace_tables -- those of RxM's functions that would not keep what is promised */
static void replace_tables(struct fid_ep *ep, struct rdm_ep *rdm)
{
	rdm->rxm_ops = ep->fid.ops;
	COPY_TABLE(rdm->ops, ep->fid.ops);
	rdm->ops.fn.close = rdm_ep_close;
	rdm->ops.fn.bind = rdm_ep_bind;
	ep->fid.ops = &rdm->ops.fn;

	rdm->rxm_msg = ep->msg;
	COPY_TABLE(rdm->msg, ep->msg);
	rdm->msg.fn.sendmsg = rdm_sendmsg;
	if (rdm->op_flags) {
		rdm->msg.fn.send = no_send;
		rdm->msg.fn.sendv = no_sendv;
		rdm->msg.fn.senddata = no_senddata;
	}
	ep->msg = &rdm->msg.fn;

	rdm->rxm_tagged = ep->tagged;
	COPY_TABLE(rdm->tagged, ep->tagged);
	rdm->tagged.fn.sendmsg = rdm_tsendmsg;
	if (rdm->op_flags) {
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
	if (!ep->atomic)
		return;
	rdm->rxm_atomic = ep->atomic;
	COPY_TABLE(rdm->atomic, ep->atomic);
	rdm->atomic.fn.write = rdm_atomic;
	rdm->atomic.fn.writev = rdm_atomicv;
	rdm->atomic.fn.writemsg = rdm_atomicmsg;
	rdm->atomic.fn.inject = rdm_inject_atomic;
	rdm->atomic.fn.readwrite = rdm_fetch_atomic;
	rdm->atomic.fn.readwritev = rdm_fetch_atomicv;
	rdm->atomic.fn.readwritemsg = rdm_fetch_atomicmsg;
	rdm->atomic.fn.compwrite = rdm_compare_atomic;
	rdm->atomic.fn.compwritev = rdm_compare_atomicv;
	rdm->atomic.fn.compwritemsg = rdm_compare_atomicmsg;
	ep->atomic = &rdm->atomic.fn;
}

/* Domains */

struct rdm_domain {
	TABLE(fi_ops) fid_ops;
	TABLE(fi_ops_domain) ops;
	const struct fi_ops *rxm_fid_ops;
	const struct fi_ops_domain *rxm_ops;
};

static const struct rdm_domain *to_rdm_domain(struct fid_domain *fid)
{
	return pmv_container_of((const char *) fid->ops, struct rdm_domain, ops);
}

static int rdm_ep_open(struct fid_domain *domain_fid, struct fi_info *info, struct fid_ep **ep_fid,
		       void *context)
{
	struct fi_info *rxm_info = to_rxm(info);
	struct rdm_ep *rdm = calloc(1, sizeof(*rdm));
	int ret = -FI_ENOMEM;

	if (!rxm_info || !rdm)
		goto free;
	if (info->tx_attr && (info->tx_attr->op_flags & FI_COMMIT))
		rdm->op_flags = info->tx_attr->op_flags;
	rdm->inject_size = rxm_info->tx_attr->inject_size;
	rdm->tx_op_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	enter_rxm(pmv_info_is_pmem(info));
	ret = to_rdm_domain(domain_fid)->rxm_ops->endpoint(domain_fid, rxm_info, ep_fid, context);
	leave_rxm();
	if (ret)
		goto free;
	pmv_peers_init(&rdm->peers);
	replace_tables(*ep_fid, rdm);
	fi_freeinfo(rxm_info);
	return 0;

free:
	free(rdm);
	if (rxm_info)
		fi_freeinfo(rxm_info);
	return ret;
}

static int rdm_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
		       void *context)
{
	int ret = to_rdm_domain(fid)->rxm_ops->cq_open(fid, attr, cq, context);

	if (ret || !pmv_setting.commit_all)
		return ret;
	ret = pmv_held_wrap(*cq, attr);
	if (ret)
		fi_close(&(*cq)->fid);
	return ret;
}

static int rdm_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
		       void *context)
{
	if (attr->flags & FI_EVENT) {
		PMV_WARN(AV, "address vectors are synchronous only: open it without FI_EVENT\n");
		return -FI_ENOSYS;
	}
	return to_rdm_domain(fid)->rxm_ops->av_open(fid, attr, av, context);
}

static int rdm_domain_close(struct fid *fid)
{
	struct rdm_domain *rdm =
		pmv_container_of((const char *) fid->ops, struct rdm_domain, fid_ops);
	int ret = rdm->rxm_fid_ops->close(fid);

	if (!ret)
		free(rdm);
	return ret;
}

/* need_rxm -- RxM's fabric is opened by who needs it first, and stays */
static int need_rxm(struct pmv_fabric *fabric)
{
	struct fi_fabric_attr attr = {
		.name = fabric->name,
		.prov_name = (char *) RXM_OVER_US,
		.api_version = pmv_core_version(fabric->fabric_fid.api_version),
	};
	int ret = 0;

	pthread_mutex_lock(&fabric->rxm_lock);
	enter_rxm(false);
	if (!fabric->rxm_fid)
		ret = fi_fabric(&attr, &fabric->rxm_fid, NULL);
	leave_rxm();
	pthread_mutex_unlock(&fabric->rxm_lock);
	return ret;
}

int pmv_rdm_domain_open(struct pmv_fabric *fabric, struct fi_info *info,
			struct fid_domain **domain_fid, void *context)
{
	struct fi_info *rxm_info = to_rxm(info);
	struct rdm_domain *rdm = calloc(1, sizeof(*rdm));
	int ret = rxm_info && rdm ? need_rxm(fabric) : -FI_ENOMEM;

	if (ret)
		goto free;
	enter_rxm(pmv_info_is_pmem(info));
	ret = fi_domain(fabric->rxm_fid, rxm_info, domain_fid, context);
	leave_rxm();
	if (ret)
		goto free;
	rdm->rxm_fid_ops = (*domain_fid)->fid.ops;
	COPY_TABLE(rdm->fid_ops, rdm->rxm_fid_ops);
	rdm->fid_ops.fn.close = rdm_domain_close;
	(*domain_fid)->fid.ops = &rdm->fid_ops.fn;
	rdm->rxm_ops = (*domain_fid)->ops;
	COPY_TABLE(rdm->ops, rdm->rxm_ops);
	rdm->ops.fn.endpoint = rdm_ep_open;
	rdm->ops.fn.av_open = rdm_av_open;
	rdm->ops.fn.cq_open = rdm_cq_open;
	(*domain_fid)->ops = &rdm->ops.fn;
	fi_freeinfo(rxm_info);
	return 0;

free:
	free(rdm);
	if (rxm_info)
		fi_freeinfo(rxm_info);
	return ret;
}

int pmv_rdm_wait_open(struct pmv_fabric *fabric, struct fi_wait_attr *attr,
		      struct fid_wait **waitset)
{
	int ret = need_rxm(fabric);

	/* The function around it warns, since 2.0, that wait sets are old. */
	return ret ? -FI_ENOSYS : fabric->rxm_fid->ops->wait_open(fabric->rxm_fid, attr, waitset);
}

int pmv_rdm_trywait(struct pmv_fabric *fabric, struct fid *fid)
{
	int ret = pmv_held_is_cq(fid) ? pmv_held_trywait(pmv_container_of(fid, struct fid_cq, fid))
				      : 0;

	if (ret)
		return ret;
	return fabric->rxm_fid ? fi_trywait(fabric->rxm_fid, &fid, 1) : -FI_ENOSYS;
}

int pmv_rdm_fabric_close(struct pmv_fabric *fabric)
{
	int ret = fabric->rxm_fid ? fi_close(&fabric->rxm_fid->fid) : 0;

	if (!ret)
		fabric->rxm_fid = NULL;
	return ret;
}
