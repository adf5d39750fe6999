/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_event.c -- FI_RMA_EVENT: the target's application is told of what is written
 * there, after it is there and before the writer knows, once
 */
#include <string.h>

#include <rdma/fi_errno.h>

#include "functional.h"
#include "spoil.h"

#define WRITES 120

/* event_link -- to a target of its own that wants events; NULL: it failed, or there are none */
static struct link *event_link(struct fx *fx, const char *const *environment,
			       enum accept_flags accept)
{
	struct target_attr target_attr = {
		.environment = environment,
		.caps = fx->caps | FI_RMA_EVENT,
	};
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.accept = ACCEPT_COUNT | accept,
	};
	struct target_proc *target;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "these events are pmemverbs' own");
		return NULL;
	}
	target = fx_target(fx, &target_attr);
	return target ? fx_link(fx, target, &attr) : NULL;
}

/* counted -- a region whose writes the target counts; flags: FI_RMA_PMEM or 0 */
static struct remote *counted(struct link *link, struct remote *remote)
{
	struct control_msg msg = {.command = CTL_COUNT, .arg = {remote ? remote->id : 0}};

	if (!remote)
		return NULL;
	if (!target_call(link->target, &msg, NULL, 0))
		return remote;
	failed(link->fx, "the target can't count writes to a region");
	return NULL;
}

static struct remote *event_region(struct link *link, size_t len, uint64_t flags)
{
	return counted(link, fx_remote(link->fx, link->target, len, FI_REMOTE_WRITE, flags));
}

/* expect_counts -- at the target; wait: its application sleeps until the connection's is that */
static int expect_counts(struct link *link, const struct remote *remote, uint64_t wait,
			 uint64_t conn, uint64_t region, uint64_t errors)
{
	struct control_msg msg = {.command = CTL_COUNTS, .arg = {link->id, remote->id, wait}};

	if (target_call(link->target, &msg, NULL, 0))
		return failed(link->fx, "the target can't wait for its counters");
	return expect(link->fx, msg.arg[0] == conn && msg.arg[1] == region && msg.arg[2] == errors,
		      "the target has counted %llu writes on the connection, %llu to the region, "
		      "and %llu errors, not %llu, %llu and %llu",
		      (unsigned long long) msg.arg[0], (unsigned long long) msg.arg[1],
		      (unsigned long long) msg.arg[2], (unsigned long long) conn,
		      (unsigned long long) region, (unsigned long long) errors);
}

/* expect_entries -- so many, each after its data, and no more */
static int expect_entries(struct link *link, int count)
{
	static struct log_entry log[8192];
	struct fx *fx = link->fx;
	int i, n = get_log(link, log, ARRAY_SIZE(log), count, 5000);

	if (n < 0 || expect(fx, n == count, "the target got %d entries, not %d", n, count))
		return -1;
	for (i = 0; i < n; i++) {
		/* the core's entries of immediate data may say less */
		uint64_t flags = log[i].flags & FI_REMOTE_CQ_DATA
					 ? (log[i].flags & ~FI_REMOTE_CQ_DATA) | FI_RMA
					 : log[i].flags;

		if (expect(fx, !log[i].err && flags == (FI_RMA | FI_REMOTE_WRITE),
			   "entry %d: flags %#llx, error %d", i, (unsigned long long) log[i].flags,
			   log[i].err) ||
		    expect(fx, log[i].visible, "entry %d came before its data", i))
			return -1;
	}
	n = get_log(link, log, ARRAY_SIZE(log), 1, 100);
	return expect(fx, n == 0, "the target got an entry too many");
}

/* A stream of writes, whose data the target checks when it is told of them */
struct stream {
	struct link *link;
	struct remote *remote;
	size_t stride;
	uint64_t seed;
	unsigned int posted;
	struct op *ops[WRITES];
};

static int stream_begin(struct stream *stream, struct link *link, struct remote *remote,
			size_t stride)
{
	struct control_msg msg = {.command = CTL_ARM, .len = sizeof(struct expectation)};
	struct expectation expectation;

	*stream = (struct stream){
		.link = link,
		.remote = remote,
		.stride = stride,
		.seed = atomic_fetch_add(&link->fx->seed, WRITES),
	};
	expectation = (struct expectation){remote->id, stride, stride, stream->seed};
	if (target_call(link->target, &msg, &expectation, sizeof(expectation)))
		return failed(link->fx, "the target can't be armed");
	return 0;
}

static int stream_post(struct stream *stream, uint64_t flags)
{
	unsigned int i = stream->posted++;
	struct link *link = stream->link;
	size_t at = i * stream->stride;

	stream->ops[i] = op_new(link->fx);
	remote_expect(stream->remote, at, stream->stride, stream->seed + i);
	return write_from(link, stream->remote, at,
			  source(link, stream->stride, stream->seed + i, at), stream->stride,
			  FI_COMPLETION | flags, i, stream->ops[i]);
}

static int stream_end(struct stream *stream)
{
	unsigned int i;

	for (i = 0; i < stream->posted; i++) {
		if (await(stream->link, stream->ops[i]))
			return -1;
	}
	return 0;
}

/* flags_of -- of the n-th write: plain ones and commits, fenced and with data, mixed */
static uint64_t flags_of(const struct fx *fx, unsigned int n, bool commits)
{
	uint64_t flags = commits && n % 2 ? FI_COMMIT_COMPLETE : 0;

	if (n % 5 == 4 && fx->caps & FI_FENCE)
		flags |= FI_FENCE;
	if (n % 7 == 6)
		flags |= FI_REMOTE_CQ_DATA;
	return flags;
}

static int stream_all(struct fx *fx, struct stream *stream, bool commits)
{
	unsigned int i;

	for (i = 0; i < WRITES; i++) {
		if (stream_post(stream, flags_of(fx, i, commits)))
			return -1;
	}
	return stream_end(stream);
}

/* When a write has completed here it has been counted and reported there, once */
static int writes_of(struct fx *fx, uint64_t region_flags, size_t stride)
{
	struct link *link = event_link(fx, NULL, 0);
	struct remote *remote = link ? event_region(link, WRITES * stride, region_flags) : NULL;
	struct stream stream;

	if (!remote || stream_begin(&stream, link, remote, stride) ||
	    stream_all(fx, &stream, region_flags))
		return -1;
	return expect_counts(link, remote, 0, WRITES, WRITES, 0) || expect_entries(link, WRITES) ||
			       linger(link, 20) || remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int event_write(struct fx *fx)
{
	return writes_of(fx, FI_RMA_PMEM, 64) || writes_of(fx, FI_RMA_PMEM, 6000) ? -1 : 0;
}

/* Memory that is not persistent, of which the agent has nothing else to do */
static int event_volatile(struct fx *fx)
{
	return writes_of(fx, 0, 300);
}

/* All calls that write; those that inject have no completion, and are told of as well */
static int event_calls(struct fx *fx)
{
	struct link *link = event_link(fx, NULL, 0);
	struct remote *remote = link ? event_region(link, 65536, FI_RMA_PMEM) : NULL;
	uint64_t count = 0;
	int kind, round;

	for (round = 0; remote && round < 10; round++) {
		for (kind = 0; kind < PLAIN_KINDS; kind++) {
			if (plain_at(link, kind, remote, count++ * 32, 32, NULL))
				return -1;
		}
	}
	if (!remote || expect_counts(link, remote, count, count, count, 0) ||
	    commit(link, remote, 0, 8, 0) ||
	    expect_counts(link, remote, 0, count + 1, count + 1, 0))
		return -1;
	return linger(link, 20) || remote_same(fx, remote) ? -1 : 0;
}

/* The target's application sleeps in fi_cq_sread, and in fi_cntr_wait */
static int event_wakes(struct fx *fx)
{
	struct link *link = event_link(fx, NULL, ACCEPT_WAIT);
	struct remote *remote = link ? event_region(link, 65536, FI_RMA_PMEM) : NULL;
	struct control_msg sread = {.command = CTL_SREAD}, on = {.command = CTL_ON}, counts;
	unsigned int i;
	int ret = 0;

	if (!remote)
		return -1;
	sread.arg[0] = link->id;
	if (target_begin(link->target, &sread, NULL))
		return -1;
	for (i = 0; i < 10 && !ret; i++) {
		pause_ms(10);
		ret = commit(link, remote, i * 100, 100, 0);
	}
	/* it looks for commands when it is woken up */
	if (target_begin(link->target, &on, NULL) || commit(link, remote, 2000, 100, 0) ||
	    target_finish(link->target, &sread, NULL, 0) ||
	    target_finish(link->target, &on, NULL, 0) || ret)
		return -1;

	counts = (struct control_msg){.command = CTL_COUNTS, .arg = {link->id, remote->id, 20}};
	if (target_begin(link->target, &counts, NULL))
		return -1;
	for (i = 0; i < 9 && !ret; i++) {
		pause_ms(10);
		ret = plain_at(link, PLAIN_WRITE, remote, 4096 + i * 100, 100, NULL);
	}
	if (target_finish(link->target, &counts, NULL, 0))
		return failed(fx, "the target was not woken");
	return ret || expect_counts(link, remote, 0, 20, 20, 0) || remote_same(fx, remote) ? -1 : 0;
}

/* Many more than the target's queue holds, while its application does not read it */
static int idle_events(struct fx *fx)
{
	struct link *link = event_link(fx, NULL, 0);
	struct remote *remote = link ? event_region(link, 65536, FI_RMA_PMEM) : NULL;
	struct control_msg idle = {.command = CTL_IDLE, .arg = {2000 * fx->opts->timeout}};
	static struct log_entry log[8192];
	int i, n, count = 3000, ret = 0;

	if (!remote || target_begin(link->target, &idle, NULL))
		return -1;
	for (i = 0; i < count && !ret; i++)
		ret = plain_at(link, PLAIN_WRITE, remote, (size_t) i % 512 * 64, 64, NULL);
	if (!ret)
		ret = commit(link, remote, 0, 64, 0);
	if (end_command(link->target, &idle) || ret ||
	    expect_counts(link, remote, 0, count + 1, count + 1, 0))
		return -1;
	n = get_log(link, log, ARRAY_SIZE(log), count + 1, 1000 * fx->opts->timeout);
	return expect(fx, n == count + 1, "the target got %d entries, not %d", n, count + 1);
}

/* Who goes away as soon as its writes have completed takes no event along */
static int event_closed(struct fx *fx)
{
	struct link *link = event_link(fx, NULL, 0);
	struct remote *remote = link ? event_region(link, WRITES * 256, FI_RMA_PMEM) : NULL;
	struct stream stream;

	if (!remote || stream_begin(&stream, link, remote, 256) || stream_all(fx, &stream, true))
		return -1;
	link_close(link);
	return expect_counts(link, remote, 0, WRITES, WRITES, 0) || expect_entries(link, WRITES)
		       ? -1
		       : 0;
}

/* Several initiators: a connection has its own count, and a region one for all of them */
static int event_several(struct fx *fx)
{
	struct link *first = event_link(fx, NULL, 0), *links[3] = {first};
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
		.accept = ACCEPT_COUNT,
	};
	struct remote *remote = first ? event_region(first, 65536, FI_RMA_PMEM) : NULL;
	struct op *ops[WRITES];
	unsigned int i;

	if (!remote)
		return -1;
	for (i = 1; i < ARRAY_SIZE(links); i++) {
		links[i] = fx_link(fx, first->target, &attr);
		if (!links[i])
			return -1;
	}
	for (i = 0; i < WRITES; i++) {
		struct write write = {
			.remote = remote,
			.offset = i * 100,
			.len = 100,
			.flags = FI_COMPLETION | (i % 2 ? FI_COMMIT_COMPLETE : 0),
		};

		if (write_at(links[i % 3], &write, &ops[i]))
			return -1;
	}
	for (i = 0; i < WRITES; i++) {
		if (await(links[i % 3], ops[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(links); i++) {
		if (expect_counts(links[i], remote, 0, WRITES / 3, WRITES, 0))
			return -1;
	}
	return remote_same(fx, remote);
}

/* A commit that is not durable: an error there as well as here, and never a success */
static int event_lost(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=auto",
						  "FI_PMEMVERBS_DDIO=auto",
						  "FI_PMEMVERBS_AGENT=thread", NULL};
	struct control_msg msg = {.command = CTL_SPOIL, .arg = {0, SPOIL_TRUNCATE}};
	struct log_entry log[16];
	struct remote *remote;
	struct write write = {.offset = 20000, .len = 64, .flags = COMMIT};
	struct link *link;
	struct op *op;
	int n;

	if (!fx->target->has_file || !fx->target->can_sync)
		return skipped(fx, "the target's memory is no file (-M)");
	link = event_link(fx, environment, 0);
	remote = link ? counted(link, fx_remote_file(fx, link->target, 65536, NULL)) : NULL;
	if (!remote || commit(link, remote, 20000, 64, 0))
		return -1;
	msg.arg[0] = remote->id;
	if (target_call(link->target, &msg, NULL, 0))
		return failed(fx, "the file can't be truncated");
	write.remote = remote;
	if (write_at(link, &write, &op) || await_error(link, op) ||
	    expect_counts(link, remote, 0, 1, 1, 1))
		return -1;
	n = get_log(link, log, ARRAY_SIZE(log), 2, 5000);
	return expect(fx, n == 2 && !log[0].err && log[1].err == FI_EIO,
		      "the target got %d entries, the last with the error %d", n,
		      n > 0 ? log[n - 1].err : 0);
}

const struct test_case event_cases[] = {
	{"event_write", event_write},
	{"event_volatile", event_volatile},
	{"event_calls", event_calls},
	{"event_wakes", event_wakes},
	{"idle_events", idle_events},
	{"event_closed", event_closed},
	{"event_several", event_several},
	{"event_lost", event_lost},
	{NULL, NULL},
};
