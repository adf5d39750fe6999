/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_wait.c -- waiting for commits: in fi_cq_sread, on a file descriptor, on
 * a counter
 */
#include <poll.h>

#include "functional.h"
#include "../common/stats.h"

static struct link *waiting_link(struct fx *fx, enum fi_wait_obj wait)
{
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true, .wait = wait},
	};

	return fx_link(fx, NULL, &attr);
}

/* Nothing is outstanding: the time passes, and not much more of it */
static int sread_timeout(struct fx *fx)
{
	static const int timeouts[] = {0, 100, 300};
	struct link *link = waiting_link(fx, FI_WAIT_UNSPEC);
	struct fi_cq_data_entry entry;
	unsigned long passed;
	uint64_t start;
	ssize_t ret;
	size_t i;

	if (!link)
		return -1;
	for (i = 0; i < ARRAY_SIZE(timeouts); i++) {
		start = now_ns();
		ret = fi_cq_sread(link->conn.txcq, &entry, 1, NULL, timeouts[i]);
		passed = ms_since(start);
		if (expect(fx, ret == -FI_EAGAIN, "fi_cq_sread: %s", fi_strerror((int) -ret)) ||
		    expect(fx,
			   passed + 5 >= (unsigned long) timeouts[i] &&
				   passed < (unsigned long) timeouts[i] + 20000,
			   "fi_cq_sread with %d ms has taken %lu ms", timeouts[i], passed))
			return -1;
	}
	return 0;
}

/* sread_one -- the completion of this operation, from fi_cq_sread */
static int sread_one(struct fx *fx, struct link *link, const struct op *op)
{
	struct fi_cq_data_entry entry;
	ssize_t ret = -FI_EAGAIN;

	while (ret == -FI_EAGAIN && !is_late(fx))
		ret = fi_cq_sread(link->conn.txcq, &entry, 1, NULL, 5000);
	if (ret != 1)
		return failed_call(fx, "fi_cq_sread", ret);
	return expect(fx, entry.op_context == op, "a completion of another operation");
}

/* Each commit ends the wait, which is long enough to be noticed */
static int sread_commit(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_UNSPEC);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	uint64_t start = now_ns();
	struct op *op;
	int i;

	if (!remote)
		return -1;
	for (i = 0; i < 200; i++) {
		write.offset = i * 64;
		if (write_at(link, &write, &op) || sread_one(fx, link, op))
			return -1;
	}
	return expect(fx, ms_since(start) < 20000, "200 commits have taken %lu ms",
		      ms_since(start)) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

/* An error ends the wait as well */
static int sread_error(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_UNSPEC);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct write bad = {.remote = remote, .offset = 4090, .len = 64, .flags = COMMIT};
	struct fi_cq_data_entry entry;
	uint64_t start = now_ns();
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	ret = post_write(link, &bad, &op);
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	ret = fi_cq_sread(link->conn.txcq, &entry, 1, NULL, 30000);
	return expect(fx, ret == -FI_EAVAIL, "fi_cq_sread: %s", fi_strerror((int) -ret)) ||
			       expect(fx, ms_since(start) < 25000,
				      "the wait for the error has taken %lu ms", ms_since(start)) ||
			       await_error(link, op) || linger(link, 50)
		       ? -1
		       : 0;
}

int wait_on_fd(struct fx *fx, struct link *link, struct op *op)
{
	struct fid *fids[] = {&link->conn.txcq->fid};
	struct pollfd pfd = {.events = POLLIN};
	int ret = fi_control(fids[0], FI_GETWAIT, &pfd.fd);

	if (ret)
		return failed_call(fx, "fi_control", ret);
	while (!op_done(op)) {
		ret = fi_trywait(link->target->node.fabric, fids, 1);
		if (!ret && poll(&pfd, 1, 5000) == 0)
			return failed(fx, "fi_trywait says that one may wait, and nothing comes");
		if (ret && ret != -FI_EAGAIN)
			return failed_call(fx, "fi_trywait", ret);
		if (reap(link))
			return -1;
		if (is_late(fx))
			return failed(fx, "a commit does not complete");
	}
	return await(link, op);
}

static int wait_fd(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_FD);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct op *op;
	int i;

	if (!remote)
		return -1;
	for (i = 0; i < 200; i++) {
		write.offset = i * 64;
		if (write_at(link, &write, &op) || wait_on_fd(fx, link, op))
			return -1;
	}
	return linger(link, 20) || remote_same(fx, remote) ? -1 : 0;
}

/* Commits in a bunch: what the descriptor tells once may stand for several */
static int wait_fd_many(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_FD);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .len = 64, .flags = COMMIT};
	struct op *ops[100];
	unsigned int i;

	if (!remote)
		return -1;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.offset = i * 64;
		/* plain writes in between, whose internal completions must not end a wait for good
		 */
		if (plain_at(link, PLAIN_WRITE, remote, 32768 + i * 64, 64, NULL) ||
		    write_at(link, &write, &ops[i]))
			return -1;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (wait_on_fd(fx, link, ops[i]))
			return -1;
	}
	return linger(link, 20) || remote_same(fx, remote) ? -1 : 0;
}

/* Posts a write while another thread sleeps. */
struct poster {
	struct link *link;
	struct write write;
	struct op *op;
	int ret;
};

static void *post_later(void *arg)
{
	struct poster *poster = arg;

	pause_ms(200);
	poster->ret = write_at(poster->link, &poster->write, &poster->op);
	return NULL;
}

/* sleep_and_post -- nothing comes from the peer: the call of another thread ends the sleep */
static int sleep_and_post(struct fx *fx, struct poster *poster)
{
	struct fi_cq_data_entry entry;
	uint64_t start = now_ns();
	pthread_t thread;
	ssize_t ret;

	if (pthread_create(&thread, NULL, post_later, poster))
		return failed(fx, "no thread");
	ret = fi_cq_sread(poster->link->conn.txcq, &entry, 1, NULL, 30000);
	pthread_join(thread, NULL);
	if (poster->ret)
		return -1;
	if (expect(fx, ret == 1, "fi_cq_sread: %zd entries of 1", ret) ||
	    expect(fx, entry.op_context == poster->op, "a completion of another operation"))
		return -1;
	return expect(fx, ms_since(start) < 25000, "the completion has not ended the sleep");
}

/* Who has polled for long, and finds what it waits for each time, sleeps as well as others */
static int sread_after_polling(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_UNSPEC);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct poster poster = {.link = link,
				.write = {.remote = remote, .len = 64, .flags = FI_COMPLETION}};
	struct op *op;

	if (!remote)
		return -1;
	for (unsigned int i = 0; i < 150; i++) {
		poster.write.offset = i * 64;
		if (i % 50 == 49 ? sleep_and_post(fx, &poster)
				 : write_at(link, &poster.write, &op) || await(link, op))
			return -1;
	}
	/* What has ended may still be under way; this one, and all before it, are there. */
	poster.write.offset += 64;
	poster.write.flags |= FI_DELIVERY_COMPLETE;
	if (write_at(link, &poster.write, &op) || await(link, op))
		return -1;
	return remote_same(fx, remote);
}

static void *signal_later(void *cq)
{
	pause_ms(100);
	fi_cq_signal(cq);
	return NULL;
}

static int cq_signal(struct fx *fx)
{
	struct link *link = waiting_link(fx, FI_WAIT_UNSPEC);
	struct fi_cq_data_entry entry;
	uint64_t start = now_ns();
	pthread_t thread;
	ssize_t ret;

	if (!link)
		return -1;
	if (pthread_create(&thread, NULL, signal_later, link->conn.txcq))
		return failed(fx, "no thread");
	ret = fi_cq_sread(link->conn.txcq, &entry, 1, NULL, 30000);
	pthread_join(thread, NULL);
	return expect(fx, ret < 0, "fi_cq_sread has returned %zd entries of none", ret) ||
			       expect(fx, ms_since(start) < 25000,
				      "fi_cq_signal has not ended the wait")
		       ? -1
		       : 0;
}

/* counted_link -- a link with a counter of its writes, which the caller closes after it */
static struct link *counted_link(struct fx *fx, struct fid_cntr **cntr)
{
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct link_attr attr = {
		.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
	};
	struct fid_domain *domain = fx->target->node.domain;
	int ret = fi_cntr_open(domain, &cntr_attr, cntr, NULL);

	if (ret == -FI_ENOSYS) {
		skipped(fx, "no counters");
		return NULL;
	}
	if (ret) {
		failed_call(fx, "fi_cntr_open", ret);
		return NULL;
	}
	attr.conn.write_cntr = *cntr;
	return fx_link(fx, NULL, &attr);
}

static int read_counter(struct fx *fx, struct link *link, struct fid_cntr *cntr, uint64_t want)
{
	/* the queue may have to be read for the provider to make progress */
	while (fi_cntr_read(cntr) < want && !is_late(fx)) {
		if (reap(link))
			return -1;
	}
	if (linger(link, 50))
		return -1;
	return expect(fx, fi_cntr_read(cntr) == want, "the counter says %llu instead of %llu",
		      (unsigned long long) fi_cntr_read(cntr), (unsigned long long) want);
}

static int count_commits(struct fx *fx, struct link *link, struct fid_cntr *cntr)
{
	struct remote *remote = pmem_region(fx, 65536);
	struct write write = {.remote = remote, .len = 64};
	int i;

	if (!remote)
		return -1;
	for (i = 0; i < 100; i++) {
		write.offset = i * 64;
		write.flags = i % 2 ? COMMIT : FI_COMMIT_COMPLETE;
		if (write_at(link, &write, NULL))
			return -1;
	}
	return read_counter(fx, link, cntr, 100) || remote_same(fx, remote) ? -1 : 0;
}

/* A counter counts a commit once, when it is durable, completion or not */
static int counter(struct fx *fx)
{
	struct fid_cntr *cntr = NULL;
	struct link *link = counted_link(fx, &cntr);
	int ret = -1;

	if (link) {
		ret = count_commits(fx, link, cntr);
		link_close(link);
	}
	if (cntr)
		close_fid(&cntr->fid, "the counter");
	return ret;
}

const struct test_case wait_cases[] = {
	{"sread_timeout", sread_timeout},
	{"sread_commit", sread_commit},
	{"sread_error", sread_error},
	{"sread_after_polling", sread_after_polling},
	{"wait_fd", wait_fd},
	{"wait_fd_many", wait_fd_many},
	{"cq_signal", cq_signal},
	{"counter", counter},
	{NULL, NULL},
};
