/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_order.c -- fences, full queues, atomics
 */
#include <string.h>

#include <rdma/fi_atomic.h>

#include "functional.h"

/* large -- a read is not over at once: more than a connection's sockets hold, or many packets */
static size_t large(const struct fx *fx)
{
	return node_is_passive(&fx->target->node) ? 1 << 20 : 16 << 20;
}

struct fence_setup {
	struct link *link;
	struct remote *remote;
	void *read_buf;
	struct op *read;
};

/* start_large_read -- a read of a whole large region is on its way */
static int start_large_read(struct fx *fx, struct fence_setup *setup)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.local_size = 2 * large(fx) + 65536,
	};

	if (!(fx->caps & FI_FENCE)) {
		skipped(fx, "no FI_FENCE");
		return -1;
	}
	setup->link = fx_link(fx, NULL, &attr);
	setup->remote = setup->link ? fx_remote(fx, fx->target, large(fx),
						FI_REMOTE_READ | FI_REMOTE_WRITE, FI_RMA_PMEM)
				    : NULL;
	if (!setup->remote)
		return -1;
	setup->read_buf = source(setup->link, large(fx), 0, 0);
	return read_at(setup->link, setup->remote, 0, large(fx), setup->read_buf, &setup->read);
}

/* old_data_read -- the read, posted first, must not have seen the write behind it */
static int old_data_read(struct fx *fx, const struct fence_setup *setup)
{
	size_t right;

	if (await(setup->link, setup->read))
		return -1;
	right = pattern_check(setup->read_buf, large(fx), setup->remote->seed, 0);
	return expect(fx, right == large(fx),
		      "a read in front of the fence has seen the write behind it at %zu", right);
}

static int fence_behind_read(struct fx *fx, uint64_t flags)
{
	struct fence_setup setup;
	struct write write = {.len = large(fx), .flags = FI_FENCE | FI_COMPLETION | flags};
	struct op *op;

	if (start_large_read(fx, &setup))
		return -1;
	write.remote = setup.remote;
	return write_at(setup.link, &write, &op) || old_data_read(fx, &setup) ||
			       await(setup.link, op) || commit(setup.link, setup.remote, 0, 1, 0) ||
			       remote_same(fx, setup.remote)
		       ? -1
		       : 0;
}

static int fence_write(struct fx *fx)
{
	return fence_behind_read(fx, 0);
}

static int fence_commit(struct fx *fx)
{
	return fence_behind_read(fx, FI_COMMIT_COMPLETE);
}

/* What is posted behind a fenced operation, itself without a fence, waits as well */
static int fence_defers_later(struct fx *fx)
{
	struct fence_setup setup;
	struct write fenced = {.len = 8, .flags = FI_FENCE | FI_COMPLETION};
	struct write later = {.offset = 4096, .len = large(fx) - 4096, .flags = COMMIT};
	struct op *first, *second;

	if (start_large_read(fx, &setup))
		return -1;
	fenced.remote = later.remote = setup.remote;
	return write_at(setup.link, &fenced, &first) || write_at(setup.link, &later, &second) ||
			       old_data_read(fx, &setup) || await(setup.link, first) ||
			       await(setup.link, second) || remote_same(fx, setup.remote)
		       ? -1
		       : 0;
}

/* more_alone -- who says that more comes, and posts nothing, finds the completion all the same */
static int more_alone(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote =
		link ? fx_remote(fx, fx->target, 4096, FI_REMOTE_WRITE, FI_RMA_PMEM) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = FI_MORE | FI_COMPLETION};
	struct op *op;

	if (!remote)
		return -1;
	for (write.offset = 0; write.offset < 4096; write.offset += 64) {
		if (write_at(link, &write, &op) || (write.offset % 512 == 0 && await(link, op)))
			return -1;
	}
	return await(link, op) || commit(link, remote, 0, 1, 0) || remote_same(fx, remote) ? -1 : 0;
}

#define RECORDS 300
#define RECORD 256

/* post_tail -- a fenced commit of 8 bytes: so many records are complete */
static int post_tail(struct link *link, struct remote *remote, uint64_t n, struct op **op)
{
	size_t offset = RECORDS * RECORD;
	uint64_t *tail = source(link, sizeof(*tail), 0, 0);

	*tail = n;
	memcpy(remote->shadow + offset, tail, sizeof(*tail));
	*op = op_new(link->fx);
	return write_from(link, remote, offset, tail, sizeof(*tail), COMMIT | FI_FENCE, 0, *op);
}

static int post_record(struct link *link, struct remote *remote, uint64_t n, uint64_t seed)
{
	size_t offset = (n - 1) * RECORD;

	remote_expect(remote, offset, RECORD, seed + n);
	return write_from(link, remote, offset, source(link, RECORD, seed + n, offset), RECORD,
			  FI_MORE, 0, NULL);
}

/* post_pairs -- none is awaited before the next */
static int post_pairs(struct link *link, struct remote *remote, uint64_t seed)
{
	struct op *op = NULL;
	uint64_t n;

	for (n = 1; n <= RECORDS; n++) {
		if (post_record(link, remote, n, seed) || post_tail(link, remote, n, &op))
			return -1;
	}
	return await(link, op);
}

/* A reader at the target who trusts the tail finds the records complete at any time */
static int watch_pairs(struct fx *fx, const struct link_attr *attr)
{
	struct link *link = fx_link(fx, NULL, attr);
	struct remote *remote = link ? pmem_region(fx, RECORDS * RECORD + 8) : NULL;
	uint64_t seed = atomic_fetch_add(&fx->seed, RECORDS + 1);
	struct watch watch = {0};
	struct control_msg msg = {.command = CTL_WATCH, .len = sizeof(watch)};
	struct op *op;
	int ret;

	if (!remote)
		return -1;
	if (!(fx->caps & FI_FENCE))
		return skipped(fx, "no FI_FENCE");
	watch = (struct watch){remote->id, RECORDS * RECORD, RECORD, RECORDS, seed};
	if (post_tail(link, remote, 0, &op) || await(link, op) ||
	    target_begin(fx->target, &msg, &watch))
		return -1;
	ret = post_pairs(link, remote, seed);
	if (target_finish(fx->target, &msg, NULL, 0))
		return failed(fx, "the target has seen a tail whose records were not complete");
	if (ret)
		return -1;
	return expect(fx, msg.arg[0] == RECORDS, "the target has seen %llu records of %d",
		      (unsigned long long) msg.arg[0], RECORDS) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int fence_pair_watched(struct fx *fx)
{
	return watch_pairs(fx, NULL);
}

static const struct link_attr unordered = {
	.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
	.unordered = true,
};

static int fence_pair_unordered(struct fx *fx)
{
	return watch_pairs(fx, &unordered);
}

#define APPENDS 8

/* All are accepted before the queue is read for the first time */
static int appends_together(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, &unordered);
	struct remote *remote = link ? pmem_region(fx, 4096 * (APPENDS + 1)) : NULL;
	struct write record = {.remote = remote, .len = 4000};
	struct write tail = {.remote = remote, .len = 8, .flags = COMMIT | FI_FENCE};
	struct op *ops[APPENDS], *op;

	if (!remote)
		return -1;
	if (!(fx->caps & FI_FENCE))
		return skipped(fx, "no FI_FENCE");
	if (!by_agent(link, remote))
		return skipped(fx, "no agent is needed");
	for (int i = 0; i < APPENDS; i++) {
		ssize_t ret;

		record.offset = 4096 * (size_t) (i + 1);
		ret = post_write(link, &record, &op);
		if (!ret) {
			remote_expect(remote, record.offset, record.len, op->seed);
			ret = post_write(link, &tail, &ops[i]);
		}
		if (ret)
			return failed_call(fx, "fi_writemsg", ret);
		remote_expect(remote, 0, tail.len, ops[i]->seed);
	}
	for (int i = 0; i < APPENDS; i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return remote_same(fx, remote);
}

/* A fenced commit vouches for everything before it on the endpoint, whatever its key */
static int fence_other_region(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *a = link ? pmem_region(fx, 1 << 20) : NULL;
	struct remote *b = a ? pmem_region(fx, 4096) : NULL;
	int i;

	if (!b)
		return -1;
	if (!(fx->caps & FI_FENCE))
		return skipped(fx, "no FI_FENCE");
	for (i = 0; i < 5; i++) {
		if (plain_at(link, PLAIN_WRITE, a, i * 1000, 200000, NULL) ||
		    commit(link, b, i * 8, 8, FI_FENCE) || remote_same(fx, a))
			return -1;
	}
	return remote_same(fx, b);
}

/* fill -- post until the queue is full: how many were accepted; -1: failed */
static int fill(struct link *link, struct remote *remote, uint64_t flags, struct op **ops, int max)
{
	struct write write = {.remote = remote, .len = 48, .flags = flags};
	ssize_t ret;
	int n;

	for (n = 0; n < max; n++) {
		write.offset = n * 64 % remote->len;
		ret = post_write(link, &write, &ops[n]);
		if (ret == -FI_EAGAIN)
			break;
		if (ret)
			return failed_call(link->fx, "fi_writemsg", ret);
		remote_expect(remote, write.offset, write.len, ops[n]->seed);
	}
	return n;
}

/* still_full -- nothing has been taken from the queue: further calls change nothing */
static int still_full(struct link *link, struct remote *remote, struct op **spare)
{
	struct write write = {.remote = remote, .len = 8, .flags = COMMIT};
	ssize_t ret;
	int i;

	for (i = 0; i < 20; i++) {
		ret = post_write(link, &write, spare);
		if (!ret) {
			/* the provider may have made room by itself, meanwhile */
			remote_expect(remote, 0, 8, (*spare)->seed);
			return 1;
		}
		if (ret != -FI_EAGAIN)
			return failed_call(link->fx, "fi_writemsg to a full queue", ret);
	}
	return 0;
}

#define QUEUE_MAX 4000

static int fill_and_reap(struct fx *fx, struct link *link, struct remote *remote, struct op **ops)
{
	int n = fill(link, remote, COMMIT, ops, QUEUE_MAX - 1), i, more = 0;

	if (n < 0)
		return -1;
	if (n < QUEUE_MAX - 1)
		more = still_full(link, remote, &ops[n]);
	if (more < 0)
		return -1;
	for (i = 0; i < n + more; i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return linger(link, 20) || remote_same(fx, remote);
}

/* roomy_link -- the completion queue is not what becomes full */
static struct link *roomy_link(struct fx *fx)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true, .cq_size = 8192},
	};

	return fx_link(fx, NULL, &attr);
}

/* What a full queue has accepted completes, each once; what it has not, never */
static int full_queue(struct fx *fx)
{
	struct link *link = roomy_link(fx);
	struct remote *remote = link ? pmem_region(fx, QUEUE_MAX * 64) : NULL;
	static struct op *ops[QUEUE_MAX];
	int round;

	if (!remote)
		return -1;
	for (round = 0; round < 3; round++) {
		if (fill_and_reap(fx, link, remote, ops))
			return -1;
	}
	return 0;
}

/* A queue full of writes that never complete, and then commits */
static int full_queue_plain(struct fx *fx)
{
	struct link *link = roomy_link(fx);
	struct remote *remote = link ? pmem_region(fx, QUEUE_MAX * 64) : NULL;
	static struct op *ops[QUEUE_MAX];
	int round;

	if (!remote)
		return -1;
	for (round = 0; round < 3; round++) {
		if (fill(link, remote, 0, ops, QUEUE_MAX) < 0 ||
		    commit(link, remote, 64 * round, 64, 0) || remote_same(fx, remote))
			return -1;
	}
	return linger(link, 20);
}

/*
 * Notices need more of the queue than other commits.  They are fewer than the
 * target's receives: Soft-RoCE's requester waits for ever when a fenced request
 * is sent again, because no receive was posted, with a READ under way behind it.
 */
static int full_queue_notices(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	static struct log_entry log[8192];
	static struct op *ops[200];
	struct write write = {.remote = remote, .len = 8, .flags = COMMIT | FI_REMOTE_CQ_DATA};
	unsigned int i;
	int n;

	if (!remote)
		return -1;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.offset = i * 8;
		write.data = i;
		if (write_at(link, &write, &ops[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (await(link, ops[i]))
			return -1;
	}
	n = get_log(link, log, ARRAY_SIZE(log), ARRAY_SIZE(ops), 10000);
	if (n < 0 || expect(fx, n == ARRAY_SIZE(ops), "%d notices of %zu", n, ARRAY_SIZE(ops)))
		return -1;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (expect(fx, log[i].data == i, "notice %u has a wrong value", i))
			return -1;
	}
	return remote_same(fx, remote);
}

/* ---- atomics ---- */

/* One 64-bit integer at the target, and what has to be in it */
struct word {
	struct link *link;
	struct remote *remote;
	uint64_t *operand; /* in registered memory, as are the others */
	uint64_t *compare;
	uint64_t *result;
	uint64_t value;
};

static struct target_proc *atomic_target(struct fx *fx)
{
	struct node_attr attr = {.caps = fx->caps | FI_ATOMIC, .threading = FI_THREAD_SAFE};
	struct target_attr target_attr = {.caps = attr.caps, .our_caps = attr.caps};
	struct fi_info *info = NULL;

	if (fabric_offered(fx->opts, &attr, &info)) {
		skipped(fx, "the core provider has no atomics");
		return NULL;
	}
	fi_freeinfo(info);
	return fx_target(fx, &target_attr);
}

static int open_word(struct fx *fx, struct word *word)
{
	struct target_proc *target = atomic_target(fx);

	word->link = target ? fx_link(fx, target, NULL) : NULL;
	word->remote = word->link ? fx_remote(fx, target, 64, FI_REMOTE_WRITE | FI_REMOTE_READ,
					      FI_RMA_PMEM)
				  : NULL;
	if (!word->remote)
		return -1;
	word->operand = source(word->link, 8, 0, 0);
	word->compare = source(word->link, 8, 0, 0);
	word->result = source(word->link, 8, 0, 0);
	memcpy(&word->value, word->remote->shadow + 8, 8);
	return 0;
}

enum atomic_kind { ATOMIC_BASE, ATOMIC_FETCH, ATOMIC_COMPARE };

static bool has_atomic(const struct word *word, enum atomic_kind kind, enum fi_op fi_op)
{
	struct fid_ep *ep = word->link->conn.ep;
	size_t count = 0;
	int ret;

	if (kind == ATOMIC_BASE)
		ret = fi_atomicvalid(ep, FI_UINT64, fi_op, &count);
	else if (kind == ATOMIC_FETCH)
		ret = fi_fetch_atomicvalid(ep, FI_UINT64, fi_op, &count);
	else
		ret = fi_compare_atomicvalid(ep, FI_UINT64, fi_op, &count);
	return !ret && count;
}

static ssize_t call_atomic(const struct word *word, enum atomic_kind kind, enum fi_op fi_op,
			   struct op *op)
{
	struct fi_rma_ioc rma_ioc = {word->remote->addr + 8, 1, word->remote->key};
	struct fi_ioc ioc = {word->operand, 1};
	struct fi_ioc compare = {word->compare, 1};
	struct fi_ioc result = {word->result, 1};
	void *desc = word->link->local.desc;
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.desc = &desc,
		.iov_count = 1,
		.rma_iov = &rma_ioc,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = fi_op,
		.context = op,
	};
	struct fid_ep *ep = word->link->conn.ep;

	if (kind == ATOMIC_BASE)
		return fi_atomicmsg(ep, &msg, COMMIT);
	if (kind == ATOMIC_FETCH)
		return fi_fetch_atomicmsg(ep, &msg, &result, &desc, 1, COMMIT);
	return fi_compare_atomicmsg(ep, &msg, &compare, &desc, 1, &result, &desc, 1, COMMIT);
}

/* operate -- one committed atomic operation, awaited; then the target has the new value */
static int operate(struct word *word, enum atomic_kind kind, enum fi_op fi_op, uint64_t new_value)
{
	struct fx *fx = word->link->fx;
	struct op *op = op_new(fx);
	uint64_t old = word->value;
	ssize_t ret = call_atomic(word, kind, fi_op, op);

	if (ret)
		return failed_call(fx, "a committed atomic", ret);
	if (await(word->link, op) ||
	    expect(fx, op->flags & FI_ATOMIC, "its completion has no FI_ATOMIC"))
		return -1;
	if (kind != ATOMIC_BASE && expect(fx, *word->result == old, "a wrong value was fetched"))
		return -1;
	word->value = new_value;
	memcpy(word->remote->shadow + 8, &new_value, 8);
	return remote_same(fx, word->remote);
}

static int atomic_add(struct fx *fx, enum atomic_kind kind)
{
	struct word word;
	int i;

	if (open_word(fx, &word))
		return -1;
	if (!has_atomic(&word, kind, FI_SUM))
		return skipped(fx, "the core provider has no such atomic");
	for (i = 1; i < 50; i++) {
		*word.operand = i * 0x100000001ULL;
		if (operate(&word, kind, FI_SUM, word.value + *word.operand))
			return -1;
	}
	return linger(word.link, 20);
}

static int atomic_base(struct fx *fx)
{
	return atomic_add(fx, ATOMIC_BASE);
}

static int atomic_fetch(struct fx *fx)
{
	return atomic_add(fx, ATOMIC_FETCH);
}

static int atomic_write(struct fx *fx)
{
	struct word word;

	if (open_word(fx, &word))
		return -1;
	if (!has_atomic(&word, ATOMIC_BASE, FI_ATOMIC_WRITE))
		return skipped(fx, "the core provider has no such atomic");
	*word.operand = 0x123456789abcdef0ULL;
	return operate(&word, ATOMIC_BASE, FI_ATOMIC_WRITE, *word.operand) || linger(word.link, 20)
		       ? -1
		       : 0;
}

static int atomic_compare(struct fx *fx)
{
	struct word word;
	int i;

	if (open_word(fx, &word))
		return -1;
	if (!has_atomic(&word, ATOMIC_COMPARE, FI_CSWAP))
		return skipped(fx, "the core provider has no such atomic");
	for (i = 1; i < 50; i++) {
		bool hit = i % 3;

		*word.compare = hit ? word.value : word.value + 1;
		*word.operand = i * 0x100000001ULL;
		if (operate(&word, ATOMIC_COMPARE, FI_CSWAP, hit ? *word.operand : word.value))
			return -1;
	}
	return linger(word.link, 20);
}

const struct test_case order_cases[] = {
	{"fence_write", fence_write},
	{"fence_commit", fence_commit},
	{"fence_defers_later", fence_defers_later},
	{"more_alone", more_alone},
	{"fence_pair_watched", fence_pair_watched},
	{"fence_pair_unordered", fence_pair_unordered},
	{"appends_together", appends_together},
	{"fence_other_region", fence_other_region},
	{"full_queue", full_queue},
	{"full_queue_plain", full_queue_plain},
	{"full_queue_notices", full_queue_notices},
	{"atomic_base", atomic_base},
	{"atomic_fetch", atomic_fetch},
	{"atomic_write", atomic_write},
	{"atomic_compare", atomic_compare},
	{NULL, NULL},
};
