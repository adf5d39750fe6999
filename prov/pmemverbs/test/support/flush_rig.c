/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_rig.c -- a pair whose core has RDMA FLUSH */
#include "flush_rig.h"

/*
 * The core's lists.  A FLUSH is recorded here, and posted as a READ of its first byte, or as a
 * WRITE of none if its success is not told.
 */
struct flush_rig flush_rig = {
	.accepts = 3,
	.ways = PMEMRDMA_FLUSH_GLOBAL | PMEMRDMA_FLUSH_PERSISTENT,
};

static void note_flush(const struct pmemrdma_request *request)
{
	cr_assert_lt(flush_rig.count, sizeof(flush_rig.flushed) / sizeof(flush_rig.flushed[0]));
	cr_assert_eq(request->flush, PMEMRDMA_FLUSH_PERSISTENT);
	flush_rig.flushed[flush_rig.count++] = *request;
}

static ssize_t post_one(struct fid_ep *fid, const struct pmemrdma_request *from)
{
	static char byte;
	bool flush = from->kind == PMEMRDMA_FLUSH, told = from->flags & FI_COMPLETION;
	const struct iovec iov = {&byte, told};
	const struct fi_rma_iov to = {
		.addr = from->addr,
		.len = flush ? told : from->iov->iov_len,
		.key = from->key,
	};
	const struct fi_msg_rma msg = {
		.msg_iov = flush ? &iov : from->iov,
		.desc = flush ? NULL : from->desc,
		.iov_count = flush ? 1 : from->iov_count,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = from->context,
	};

	flush_rig.atomic_writes += from->kind == PMEMRDMA_ATOMIC_WRITE;
	return flush && told ? fi_readmsg(fid, &msg, from->flags)
			     : fi_writemsg(fid, &msg, from->flags);
}

static ssize_t post(struct fid_ep *fid, const struct pmemrdma_request *requests, size_t count)
{
	size_t n = 0;

	flush_rig.doorbells++;
	if (count == 3 && flush_rig.accepts < 3)
		return -FI_EAGAIN;
	for (; n < count && n < flush_rig.accepts; n++) {
		ssize_t ret = post_one(fid, &requests[n]);

		if (ret)
			return n ? (ssize_t) n : ret;
		if (requests[n].kind == PMEMRDMA_FLUSH)
			note_flush(&requests[n]);
	}
	return n ? (ssize_t) n : -FI_EAGAIN;
}

static unsigned flushes(struct fid_ep *fid)
{
	(void) fid;
	return flush_rig.ways;
}

static const struct pmemrdma_post_ops lists = {
	.size = sizeof(lists), .post = post, .flushes = flushes};

/* make_flushable -- the key says that the region is */
static void make_flushable(struct pair *pair, enum pair_memory memory)
{
	struct pmv_attr attr;

	cr_assert(pmv_key_unpack(pair->mr[memory]->key, &attr));
	attr.flushable = true;
	attr.atomic_write = flush_rig.ways & PMEMRDMA_ATOMIC_WRITES;
	pair->mr[memory]->key = pmv_key_pack((uint32_t) pmv_key_core(pair->mr[memory]->key), &attr);
}

struct pair *flush_rig_open_with(const struct pair_options *options)
{
	struct pair *pair = pair_open(options);

	make_flushable(pair, DMP);
	pair->from->engine.lists = &lists;
	pmv_initiator_established(&pair->from->initiator);
	return pair;
}

struct pair *flush_rig_open(void)
{
	return flush_rig_open_with(
		&(struct pair_options){.home = {.selective = true}, .stores = true});
}

struct pair *flush_rig_open_fenceless(void)
{
	return flush_rig_open_with(&(struct pair_options){
		.home = {.selective = true, .no_fence = true}, .stores = true});
}

ssize_t flush_rig_commit(struct pair *pair, size_t offset, size_t len, int context)
{
	return pair_put(pair, DMP, offset, len, CONTEXT(context), FI_COMMIT | FI_COMPLETION);
}

void flush_rig_expect(struct pair *pair, size_t offset, size_t len)
{
	const struct pmemrdma_request *flush = &flush_rig.flushed[flush_rig.shown];

	cr_assert_lt(flush_rig.shown, flush_rig.count, "there is none");
	cr_expect_eq(flush->addr, pair_addr(pair, DMP, offset));
	cr_expect_eq(flush->len, len, "%zu", (size_t) flush->len);
	cr_expect_eq(flush->key, pmv_key_core(pair_key(pair, DMP)));
	cr_expect_not(flush->whole);
	flush_rig.shown++;
}

void flush_rig_expect_done(struct pair *pair, int context)
{
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(context), RIG_WRITTEN);
	rig_expect_nothing(pair->home);
}

void flush_rig_drop_request(struct pair *pair)
{
	accepted(pair_put(pair, DMP, 0, 64, CONTEXT(1), FI_COMPLETION));
	/* A range that spans both would be too long. */
	accepted(flush_rig_commit(pair, 20000, PAIR_LARGE, 2));
	expect_sent(pair, "W W M");
	pair_deliver(pair);
	rig_expect(pair->home, CONTEXT(1), RIG_WRITTEN);
	pmv_initiator_break(&pair->from->initiator);
	rig_expect_error(pair->home, CONTEXT(2), RIG_WRITTEN, FI_ECANCELED);
}
