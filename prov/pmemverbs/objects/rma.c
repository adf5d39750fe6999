/* SPDX-License-Identifier: BSD-2-Clause */
/* rma.c -- reads and writes; writes that commit go to commit.c */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "commit/group.h"
#include "engine/length.h"
#include "base/log.h"

#define WRITE_SLOW                                                                                 \
	(PMV_SLOW_CLOSED | PMV_SLOW_COUNT_TX | PMV_SLOW_FENCE_NEXT | PMV_SLOW_COMMIT | PMV_SLOW_ALL)
#define READ_SLOW (PMV_SLOW_CLOSED | PMV_SLOW_COUNT_TX | PMV_SLOW_READS)

/* The core is given its own keys. */
struct core_rma {
	struct fi_msg_rma msg;
	struct fi_rma_iov rma_iov[PMV_MAX_RMA];
};

static ssize_t to_core(const struct fi_msg_rma *msg, struct core_rma *core)
{
	if (msg->rma_iov_count > PMV_MAX_RMA)
		return -FI_EINVAL;
	core->msg = *msg;
	core->msg.rma_iov = core->rma_iov;
	for (size_t i = 0; i < msg->rma_iov_count; i++) {
		core->rma_iov[i] = msg->rma_iov[i];
		core->rma_iov[i].key = pmv_ep_key(msg->rma_iov[i].key);
	}
	return 0;
}

/* Reads */

static ssize_t read_carefully(struct pmv_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	const uint64_t what = FI_RMA | FI_READ;
	struct core_rma core;
	struct pmv_post post;
	ssize_t ret = to_core(msg, &core);

	if (!ret)
		ret = pmv_post_begin(ep, &post, what, msg->context, flags, false);
	if (ret)
		return ret;
	core.msg.context = post.context;
	return pmv_post_end(ep, &post, fi_readmsg(ep->engine.fid, &core.msg, post.flags));
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct fi_rma_iov rma_iov = {addr, len, key};
	struct fi_msg_rma msg = {&iov, &desc, 1, src_addr, &rma_iov, 1, context, 0};
	ssize_t ret;

	if (!pmv_ep_direct(ep, READ_SLOW))
		return read_carefully(ep, &msg, ep->tx_op_flags & ~FI_COMMIT);
	ret = fi_read(ep->engine.fid, buf, len, desc, src_addr, addr, pmv_ep_key(key), context);
	if (!ret)
		pmv_note_read(ep);
	return ret;
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_rma_iov rma_iov = {addr, pmv_iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, src_addr, &rma_iov, 1, context, 0};
	ssize_t ret;

	if (!pmv_ep_direct(ep, READ_SLOW))
		return read_carefully(ep, &msg, ep->tx_op_flags & ~FI_COMMIT);
	ret = fi_readv(ep->engine.fid, iov, desc, count, src_addr, addr, pmv_ep_key(key), context);
	if (!ret)
		pmv_note_read(ep);
	return ret;
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	if (flags & (FI_COMMIT | FI_IMMED)) {
		PMV_WARN(EP_DATA, "a read can't be committed\n");
		return -FI_EINVAL;
	}
	return read_carefully(pmv_to_ep(fid), msg, flags);
}

/* Writes */

static ssize_t post_write(struct pmv_ep *ep, const void *op, void *context, uint64_t flags)
{
	struct fi_msg_rma msg = *(const struct fi_msg_rma *) op;

	msg.context = context;
	return fi_writemsg(ep->engine.fid, &msg, flags);
}

static void *copy_write(const void *op, bool data_too)
{
	struct fi_msg_rma msg = *(const struct fi_msg_rma *) op;
	struct core_rma *copy =
		pmv_copy_buffers(sizeof(*copy), &msg.msg_iov, &msg.desc, msg.iov_count, data_too);

	if (!copy)
		return NULL;
	memcpy(copy->rma_iov, msg.rma_iov, msg.rma_iov_count * sizeof(*msg.rma_iov));
	msg.rma_iov = copy->rma_iov;
	copy->msg = msg;
	return copy;
}

static ssize_t commit_write(struct pmv_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
			    bool quiet)
{
	struct iovec nothing = {.iov_base = ep->domain->engine.scratch, .iov_len = 0};
	struct pmv_commit commit;
	struct core_rma core;
	ssize_t ret = to_core(msg, &core);

	if (ret)
		return ret;
	/* verbs can't post a request without any local buffer. */
	if (!msg->iov_count) {
		core.msg.msg_iov = &nothing;
		core.msg.desc =
			ep->domain->engine.scratch_desc ? &ep->domain->engine.scratch_desc : NULL;
		core.msg.iov_count = 1;
	}
	commit = (struct pmv_commit){
		.rma_iov = msg->rma_iov,
		.rma_iov_count = msg->rma_iov_count,
		.what = FI_RMA | FI_WRITE,
		.context = msg->context,
		.data = msg->data,
		.flags = flags,
		.post = post_write,
		.op = &core.msg,
		.copy = copy_write,
		.iov = core.msg.msg_iov,
		.iov_count = core.msg.iov_count,
		.changed = ep->domain->hooks && msg->rma_iov_count
				   ? ep->domain->hooks->changed(msg->rma_iov)
				   : 0,
		.quiet = quiet,
	};
	/* Nobody hears how it ends: so a later commit has to. */
	if (quiet)
		pmv_note_for_peer(ep, msg->rma_iov, msg->rma_iov_count, true);
	return flags & FI_COMMIT ? pmv_commit(ep, &commit) : pmv_cover(ep, &commit);
}

/* is_covered -- is it to be durable though the call does not say so? */
static bool is_covered(struct pmv_ep *ep, const struct fi_msg_rma *msg)
{
	for (size_t i = 0; !pmv_ep_direct(ep, PMV_SLOW_ALL) && i < msg->rma_iov_count; i++) {
		if (pmv_covers(ep, msg->rma_iov[i].key))
			return true;
	}
	return false;
}

static void note_begin(struct pmv_ep *ep, const struct fi_msg_rma *msg)
{
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		pmv_note_begin(ep, msg->rma_iov[i].key, msg->rma_iov[i].addr, msg->rma_iov[i].len);
}

static void note_end(struct pmv_ep *ep, const struct fi_msg_rma *msg, bool posted)
{
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		pmv_note_end(ep, msg->rma_iov[i].key, msg->rma_iov[i].addr, msg->rma_iov[i].len,
			     posted);
}

static ssize_t write_carefully(struct pmv_ep *ep, const struct fi_msg_rma *msg, uint64_t flags,
			       bool quiet)
{
	const uint64_t what = FI_RMA | FI_WRITE;
	unsigned slow = flags & FI_REMOTE_CQ_DATA ? PMV_SLOW_IMMEDIATES : 0;
	struct core_rma core;
	struct pmv_post post;
	bool counted;
	ssize_t ret;

	if (flags & FI_COMMIT)
		return commit_write(ep, msg, flags, quiet);
	if (flags & FI_IMMED) {
		PMV_WARN(EP_DATA, "FI_IMMED needs FI_COMMIT\n");
		return -FI_EINVAL;
	}
	if (is_covered(ep, msg))
		return commit_write(ep, msg, flags, quiet);
	ret = to_core(msg, &core);
	if (ret)
		return ret;
	note_begin(ep, msg);
	ret = pmv_post_begin(ep, &post, what, msg->context, flags, quiet);
	if (!ret) {
		core.msg.context = post.context;
		counted = pmv_count_begin(ep, slow);
		ret = fi_writemsg(ep->engine.fid, &core.msg, post.flags);
		ret = pmv_post_end(ep, &post, pmv_count_end(ep, counted, ret));
	}
	note_end(ep, msg, !ret);
	if (!ret)
		pmv_note_for_peer(ep, msg->rma_iov, msg->rma_iov_count, quiet);
	return ret;
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_rma_iov rma_iov = {addr, len, key};
	struct fi_msg_rma msg = {&iov, desc ? &desc : NULL, 1, dest_addr, &rma_iov, 1, context, 0};
	ssize_t ret;

	if (!pmv_ep_direct(ep, WRITE_SLOW))
		return write_carefully(ep, &msg, ep->tx_op_flags, false);
	pmv_note_begin(ep, key, addr, len);
	ret = fi_write(ep->engine.fid, buf, len, desc, dest_addr, addr, pmv_ep_key(key), context);
	pmv_note_end(ep, key, addr, len, !ret);
	if (!ret)
		pmv_note_for_peer(ep, &rma_iov, 1, false);
	return ret;
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct fi_rma_iov rma_iov = {addr, pmv_iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, dest_addr, &rma_iov, 1, context, 0};
	ssize_t ret;

	if (!pmv_ep_direct(ep, WRITE_SLOW))
		return write_carefully(ep, &msg, ep->tx_op_flags, false);
	pmv_note_begin(ep, key, addr, rma_iov.len);
	ret = fi_writev(ep->engine.fid, iov, desc, count, dest_addr, addr, pmv_ep_key(key),
			context);
	pmv_note_end(ep, key, addr, rma_iov.len, !ret);
	if (!ret)
		pmv_note_for_peer(ep, &rma_iov, 1, false);
	return ret;
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct pmv_rma_msg copy;

	msg = pmv_write_lengths(msg, &copy);
	return msg ? write_carefully(pmv_to_ep(fid), msg, flags, false) : -FI_EINVAL;
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_rma_iov rma_iov = {addr, len, key};
	struct fi_msg_rma msg = {&iov, desc ? &desc : NULL, 1, dest_addr, &rma_iov, 1, context,
				 data};
	bool counted;
	ssize_t ret;

	if (!pmv_ep_direct(ep, WRITE_SLOW))
		return write_carefully(ep, &msg, ep->tx_op_flags | FI_REMOTE_CQ_DATA, false);
	pmv_note_begin(ep, key, addr, len);
	counted = pmv_count_begin(ep, PMV_SLOW_IMMEDIATES);
	ret = fi_writedata(ep->engine.fid, buf, len, desc, data, dest_addr, addr, pmv_ep_key(key),
			   context);
	ret = pmv_count_end(ep, counted, ret);
	pmv_note_end(ep, key, addr, len, !ret);
	if (!ret)
		pmv_note_for_peer(ep, &rma_iov, 1, false);
	return ret;
}

/* An injected write has no completion that could tell of durability: op_flags do not concern it. */
#define INJECT_SLOW (WRITE_SLOW & ~PMV_SLOW_COMMIT)

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr,
			  uint64_t addr, uint64_t key)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_rma_iov rma_iov = {addr, len, key};
	struct fi_msg_rma msg = {&iov, NULL, 1, dest_addr, &rma_iov, 1, NULL, 0};
	ssize_t ret;

	if (ep->domain->hooks && pmv_note_probe(ep, &rma_iov))
		return 0;
	if (!pmv_ep_direct(ep, INJECT_SLOW))
		return write_carefully(ep, &msg, FI_INJECT, true);
	pmv_note_begin(ep, key, addr, len);
	ret = fi_inject_write(ep->engine.fid, buf, len, dest_addr, addr, pmv_ep_key(key));
	pmv_note_end(ep, key, addr, len, !ret);
	if (!ret)
		pmv_note_for_peer(ep, &rma_iov, 1, true);
	return ret;
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	struct iovec iov = {.iov_base = (void *) buf, .iov_len = len};
	struct fi_rma_iov rma_iov = {addr, len, key};
	struct fi_msg_rma msg = {&iov, NULL, 1, dest_addr, &rma_iov, 1, NULL, data};
	bool counted;
	ssize_t ret;

	if (!pmv_ep_direct(ep, INJECT_SLOW))
		return write_carefully(ep, &msg, FI_INJECT | FI_REMOTE_CQ_DATA, true);
	pmv_note_begin(ep, key, addr, len);
	counted = pmv_count_begin(ep, PMV_SLOW_IMMEDIATES);
	ret = fi_inject_writedata(ep->engine.fid, buf, len, data, dest_addr, addr, pmv_ep_key(key));
	ret = pmv_count_end(ep, counted, ret);
	pmv_note_end(ep, key, addr, len, !ret);
	if (!ret)
		pmv_note_for_peer(ep, &rma_iov, 1, true);
	return ret;
}

struct fi_ops_rma pmv_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
