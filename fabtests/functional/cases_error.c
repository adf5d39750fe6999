/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_error.c -- a commit that can't be made is refused or fails, once, and
 * never succeeds
 */
#include <signal.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"
#include "memory/key.h"

#define AROUND 8

/* still_works -- on a fresh connection all is well */
static int still_works(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;

	if (!remote)
		return -1;
	return commit(link, remote, 8, 100, 0) || remote_same(fx, remote) ? -1 : 0;
}

/* post_good -- good commits, as many as are accepted: a broken connection may refuse them */
static int post_good(struct link *link, struct remote *remote, int first, struct op **ops)
{
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	ssize_t ret;
	int n;

	for (n = 0; n < AROUND; n++) {
		write.offset = (first + n) * 64;
		ret = post_write(link, &write, &ops[n]);
		if (ret)
			break;
	}
	return n;
}

/*
 * bad_among_good -- a commit that must fail, with good ones in front of it and
 * behind it: each accepted one ends exactly once, and what succeeded is there
 */
static int bad_among_good(struct fx *fx, struct link *link, struct remote *good,
			  const struct write *bad)
{
	struct op *ops[2 * AROUND];
	struct op *op;
	int n = post_good(link, good, 0, ops);
	ssize_t ret;

	if (expect(fx, n == AROUND, "good commits are refused"))
		return -1;
	while ((ret = post_write(link, bad, &op)) == -FI_EAGAIN) {
		if (await_room(link))
			return -1;
	}
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	n += post_good(link, good, n, ops + n);
	return await_error(link, op) || all_done(link, ops, n) || linger(link, 100) ||
			       successes_landed(fx, good, ops, n)
		       ? -1
		       : 0;
}

/* must_fail -- with a completion asked for, and without */
static int must_fail(struct fx *fx, const struct write *bad)
{
	static const uint64_t flags[] = {COMMIT, FI_COMMIT_COMPLETE};
	struct write write = *bad;
	struct remote *good;
	struct link *link;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		write.flags = flags[i] | bad->flags;
		link = fx_link(fx, NULL, NULL);
		good = link ? pmem_region(fx, 4096) : NULL;
		if (!good || bad_among_good(fx, link, good, &write))
			return -1;
	}
	return still_works(fx);
}

/* refused_at_call -- with this error, nothing is posted, and the connection goes on */
static int refused_at_call(struct fx *fx, struct link *link, struct remote *good,
			   const struct write *bad, ssize_t error)
{
	struct op *op;
	ssize_t ret = post_write(link, bad, &op);

	if (expect(fx, ret == error, "fi_writemsg: %s (%zd) instead of %s", fi_strerror((int) -ret),
		   ret, fi_strerror((int) -error)))
		return -1;
	return linger(link, 50) || commit(link, good, 64, 64, 0) || remote_same(fx, good) ? -1 : 0;
}

/* A key that says all the right things and is of no region */
static int wrong_key(struct fx *fx)
{
	struct remote *remote = pmem_region(fx, 4096);
	struct write bad = {.remote = remote, .len = 64};

	if (!remote)
		return -1;
	bad.key = remote->key ^ 0x5a5a00;
	return must_fail(fx, &bad);
}

/* spoilt_key -- a key that does not say how to commit to its region */
static int spoilt_key(struct fx *fx, uint64_t (*spoil)(uint64_t key))
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct write bad = {.remote = remote, .len = 64, .flags = COMMIT};

	if (!remote)
		return -1;
	if (!is_pmemverbs(fx))
		return skipped(fx, "needs pmemverbs' keys");
	bad.key = spoil(remote->key);
	if (refused_at_call(fx, link, remote, &bad, -FI_EOPNOTSUPP))
		return -1;
	bad.flags |= FI_FENCE | FI_REMOTE_CQ_DATA;
	return refused_at_call(fx, link, remote, &bad, -FI_EOPNOTSUPP);
}

static int plain_key(struct fx *fx)
{
	return spoilt_key(fx, pmv_key_core);
}

/* Attributes of a version that we don't know: a persistence domain */
static uint64_t with_unknown_domain(uint64_t key)
{
	return key | 7ULL << 32;
}

static int unknown_attributes(struct fx *fx)
{
	return spoilt_key(fx, with_unknown_domain);
}

/* refuses_old_key -- whatever is done with the key of before; the connection goes on */
static int refuses_old_key(struct fx *fx, struct link *link, struct remote *now, uint64_t key)
{
	static const uint64_t flags[] = {0,      FI_INJECT,         FI_FENCE,
					 COMMIT, COMMIT | FI_FENCE, COMMIT | FI_REMOTE_CQ_DATA};
	struct write bad = {.remote = now, .len = 32, .key = key};
	char *buf = source(link, 64, 0, 0);
	ssize_t ret;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		bad.flags = flags[i];
		if (refused_at_call(fx, link, now, &bad, -FI_EKEYREJECTED))
			return -1;
	}
	ret = fi_inject_write(link->conn.ep, buf, 8, 0, now->addr, key);
	if (expect(fx, ret == -FI_EKEYREJECTED, "fi_inject_write: %zd", ret))
		return -1;
	ret = fi_read(link->conn.ep, buf, 64, link->local.desc, 0, now->addr, key, op_new(fx));
	return expect(fx, ret == -FI_EKEYREJECTED, "fi_read: %zd", ret);
}

/*
 * A target that is started again, with other memory.  tcp counts keys from 1 each time: the old
 * one is that of the new memory but for the number of its life.
 */
static int key_of_earlier_life(struct fx *fx)
{
	struct target_proc *target = fx_target(fx, NULL);
	struct link *link = target ? fx_link(fx, target, NULL) : NULL;
	struct remote *before =
		link ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;
	struct remote *now;

	if (!before)
		return -1;
	if (!is_pmemverbs(fx))
		return skipped(fx, "needs pmemverbs' keys");
	if (commit(link, before, 0, 64, 0) || target_signal(target, SIGKILL))
		return -1;
	target = fx_target(fx, NULL);
	link = target ? fx_link(fx, target, NULL) : NULL;
	now = link ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;
	if (!now)
		return -1;
	if (!node_is_passive(&target->node) &&
	    expect(fx, pmv_key_core(now->key) == pmv_key_core(before->key),
		   "the core has given another key"))
		return -1;
	return refuses_old_key(fx, link, now, before->key);
}

static int deregister(struct fx *fx, struct remote *remote)
{
	struct control_msg msg = {.command = CTL_DEREG, .arg = {remote->id}};
	int ret = target_call(remote->target, &msg, NULL, 0);

	return ret ? failed_call(fx, "fi_close of the region", ret) : 0;
}

static int deregistered(struct fx *fx)
{
	struct remote *remote = pmem_region(fx, 4096);
	struct write bad = {.remote = remote, .len = 64};

	if (!remote || deregister(fx, remote))
		return -1;
	return must_fail(fx, &bad);
}

/* not_writable -- a region that peers may only read */
static struct remote *not_writable(struct fx *fx)
{
	return fx_remote(fx, fx->target, 4096, FI_REMOTE_READ, FI_RMA_PMEM);
}

static int not_writable_refused(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *good = link ? pmem_region(fx, 4096) : NULL;
	struct remote *remote = good ? not_writable(fx) : NULL;
	struct write bad = {.remote = remote, .len = 64, .flags = COMMIT};

	if (!remote)
		return -1;
	if (!is_pmemverbs(fx))
		return skipped(fx, "needs pmemverbs' keys");
	return refused_at_call(fx, link, good, &bad, -FI_EACCES) || remote_same(fx, remote) ? -1
											    : 0;
}

/* forge -- the key of a region, as if it were of such memory, and an ordinary one's */
static uint64_t forge(uint64_t key, enum pmv_persist persist)
{
	struct pmv_attr attr = {0};

	pmv_key_unpack(key, &attr);
	attr.persist = persist;
	attr.ddio = persist != PMV_DMP;
	attr.pmem = attr.readable = attr.writable = true;
	return pmv_key_pack(pmv_key_core(key), &attr);
}

/* The same with a key that lies: it is the target's NIC that refuses */
static int not_writable_fails(struct fx *fx)
{
	struct remote *remote = not_writable(fx);
	struct write bad = {.remote = remote, .len = 64};

	if (!remote)
		return -1;
	if (is_pmemverbs(fx))
		bad.key = forge(remote->key, PMV_MHP);
	return must_fail(fx, &bad) || remote_same(fx, remote) ? -1 : 0;
}

static int beyond_end(struct fx *fx, size_t offset, size_t len, uint64_t flags)
{
	struct remote *remote = pmem_region(fx, 65536);
	struct write bad = {.remote = remote, .offset = offset, .len = len, .flags = flags};

	if (!remote)
		return -1;
	return must_fail(fx, &bad);
}

static int beyond_end_by_one(struct fx *fx)
{
	return beyond_end(fx, 65536 - 63, 64, 0);
}

static int beyond_end_wholly(struct fx *fx)
{
	return beyond_end(fx, 65536 + 4096, 8, 0);
}

static int beyond_end_with_notice(struct fx *fx)
{
	return beyond_end(fx, 65536 - 63, 64, FI_REMOTE_CQ_DATA);
}

static int beyond_end_fenced(struct fx *fx)
{
	if (!(fx->caps & FI_FENCE))
		return skipped(fx, "no FI_FENCE");
	return beyond_end(fx, 65536 - 63, 64, FI_FENCE);
}

/* A plain write that failed, and a commit behind it that must not cover that up */
static int plain_failed_before(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct write bad = {.remote = remote, .offset = 4090, .len = 64};
	struct write good = {.remote = remote, .len = 64, .flags = COMMIT};
	struct op *silent, *op;
	ssize_t ret;

	if (!remote)
		return -1;
	ret = post_write(link, &bad, &silent);
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	ret = post_write(link, &good, &op);
	/* the connection may be known as broken already */
	if (!ret && await_error(link, op))
		return -1;
	return linger(link, 100) || still_works(fx) ? -1 : 0;
}

/* ---- the flush counts ---- */

/*
 * unreadable -- a region that peers may write but not read, so that a flush by
 * READ fails behind a WRITE that succeeds; to memory known as persistent the
 * provider would grant the READ, so the target must not know that it is any
 */
static struct remote *unreadable(struct fx *fx, struct link **link)
{
	struct target_attr attr = {.caps = FI_MSG | FI_RMA};
	struct target_proc *target;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "needs pmemverbs' keys");
		return NULL;
	}
	target = fx_target(fx, &attr);
	*link = target ? fx_link(fx, target, NULL) : NULL;
	return *link ? fx_remote(fx, target, 4096, FI_REMOTE_WRITE, 0) : NULL;
}

/*
 * flush_fails -- the data arrive, their flush fails: an error, and no notice.  Over each core a
 * READ is the flush of such memory.
 */
static int flush_fails(struct fx *fx, uint64_t flags)
{
	struct link *link;
	struct remote *remote = unreadable(fx, &link);
	struct write write = {.remote = remote, .len = 64, .flags = flags};
	struct log_entry log[8];
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	write.key = forge(remote->key, PMV_DMP);
	ret = post_write(link, &write, &op);
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	remote_expect(remote, 0, 64, op->seed);
	if (await_error(link, op) || linger(link, 100) ||
	    expect(fx, get_log(link, log, ARRAY_SIZE(log), 1, 300) == 0,
		   "the target has heard of a commit that has failed"))
		return -1;
	/* if the WRITE has failed as well, this has shown nothing */
	return remote_same(fx, remote);
}

static int flush_failure(struct fx *fx)
{
	return flush_fails(fx, COMMIT);
}

static int flush_failure_silent(struct fx *fx)
{
	return flush_fails(fx, FI_COMMIT_COMPLETE);
}

static int flush_failure_with_notice(struct fx *fx)
{
	return flush_fails(fx, COMMIT | FI_REMOTE_CQ_DATA);
}

static int flush_failure_fenced(struct fx *fx)
{
	return flush_fails(fx, COMMIT | FI_FENCE);
}

static int flush_failure_injected(struct fx *fx)
{
	return flush_fails(fx, COMMIT | FI_INJECT);
}

/* What an honest key says of such a region is enough to refuse */
static int unreadable_refused(struct fx *fx)
{
	struct link *link;
	struct remote *remote = unreadable(fx, &link);
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	ret = post_write(link, &write, &op);
	return expect(fx, ret == -FI_EOPNOTSUPP, "fi_writemsg: %s", fi_strerror((int) -ret)) ||
			       linger(link, 50) || remote_same(fx, remote)
		       ? -1
		       : 0;
}

const struct test_case error_cases[] = {
	{"wrong_key", wrong_key},
	{"plain_key", plain_key},
	{"unknown_attributes", unknown_attributes},
	{"key_of_earlier_life", key_of_earlier_life},
	{"deregistered", deregistered},
	{"not_writable_refused", not_writable_refused},
	{"not_writable_fails", not_writable_fails},
	{"beyond_end_by_one", beyond_end_by_one},
	{"beyond_end_wholly", beyond_end_wholly},
	{"beyond_end_with_notice", beyond_end_with_notice},
	{"beyond_end_fenced", beyond_end_fenced},
	{"plain_failed_before", plain_failed_before},
	{"flush_failure", flush_failure},
	{"flush_failure_silent", flush_failure_silent},
	{"flush_failure_with_notice", flush_failure_with_notice},
	{"flush_failure_fenced", flush_failure_fenced},
	{"flush_failure_injected", flush_failure_injected},
	{"unreadable_refused", unreadable_refused},
	{NULL, NULL},
};
