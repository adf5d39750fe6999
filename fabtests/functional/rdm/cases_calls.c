/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_calls.c -- calls over FI_EP_RDM that few programs make, or that are refused
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>
#include <rdma/fi_tagged.h>

#include "rdm_functional.h"

/* On an endpoint whose op_flags have FI_COMMIT_COMPLETE, messages are refused as well. */
static int run_messages(struct client *client)
{
	struct fid_ep *ep = client->side.ep;
	struct iovec iov = {client->buf, 8};
	void *context = &client->contexts[1], *desc = client->desc;
	fi_addr_t to = client->server;
	const ssize_t rets[] = {
		fi_send(ep, client->buf, 8, desc, to, context),
		fi_sendv(ep, &iov, &desc, 1, to, context),
		fi_senddata(ep, client->buf, 8, desc, 1, to, context),
		fi_tsend(ep, client->buf, 8, desc, to, 1, context),
		fi_tsendv(ep, &iov, &desc, 1, to, 1, context),
		fi_tsenddata(ep, client->buf, 8, desc, 1, to, 1, context),
	};

	for (size_t i = 0; i < sizeof(rets) / sizeof(rets[0]); i++) {
		if (check(client, rets[i], -FI_EOPNOTSUPP, "a message that is to be committed"))
			return -1;
	}
	return expect_none(client);
}

/* Messages and reads have no immediate completion at the target. */
static int run_immediate(struct client *client)
{
	struct iovec iov = {client->buf, 8};
	struct fi_msg msg = {&iov, &client->desc, 1, client->server, &client->contexts[1], 0};
	struct fi_msg_tagged tagged = {&iov, &client->desc,        1, client->server, 1,
				       0,    &client->contexts[1], 0};

	return check(client, fi_sendmsg(client->side.ep, &msg, FI_IMMED), -FI_EINVAL,
		     "fi_sendmsg with FI_IMMED") ||
	       check(client, fi_tsendmsg(client->side.ep, &tagged, FI_IMMED), -FI_EINVAL,
		     "fi_tsendmsg with FI_IMMED") ||
	       expect_none(client);
}

static uint64_t no_read(struct fid_cntr *cntr)
{
	(void) cntr;
	return 0;
}

static int no_close(struct fid *fid)
{
	(void) fid;
	return -FI_ENOSYS;
}

/* foreign_objects -- of another provider, or of FI_EP_MSG, as the endpoint sees them */
static int foreign_objects(struct client *client)
{
	static struct fi_ops ops = {.size = sizeof(ops), .close = no_close};
	static struct fi_ops_cntr cntr_ops = {.size = sizeof(cntr_ops), .read = no_read};
	struct fid_cq cq = {.fid = {.fclass = FI_CLASS_CQ, .ops = &ops}};
	struct fid_cntr cntr = {.fid = {.fclass = FI_CLASS_CNTR, .ops = &ops}, .ops = &cntr_ops};
	struct fid *one = &cntr.fid;

	return check(client, fi_ep_bind(client->side.ep, &cq.fid, FI_RECV), -FI_EINVAL,
		     "a foreign queue") ||
	       check(client, fi_ep_bind(client->side.ep, one, FI_WRITE), -FI_EINVAL,
		     "a foreign counter") ||
	       check(client, fi_trywait(client->side.fabric, &one, 1), -FI_ENOSYS,
		     "fi_trywait for a foreign counter");
}

static int run_refused(struct client *client)
{
	struct fid_domain *domain = client->side.domain;
	struct fi_av_attr events = {.type = client->settings.av_type, .flags = FI_EVENT};
	struct iovec iov = {client->buf, 64};
	struct fi_rma_iov to = {client->offer.addr, 32, client->offer.key};
	struct fi_msg_rma uneven = {
		.msg_iov = &iov,
		.desc = &client->desc,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = &client->contexts[1],
	};
	size_t inject = client->side.info->tx_attr->inject_size;
	struct fid_av *av;
	void *ops;

	/* Several places, so that it is no other spelling of the one length. */
	struct fi_rma_iov both[] = {to, to};

	both[1].addr += 4096;
	both[1].len = 64;
	uneven.rma_iov = both;
	uneven.rma_iov_count = 2;
	return foreign_objects(client) ||
	       check(client, fi_av_open(domain, &events, &av, NULL), -FI_ENOSYS,
		     "an address vector with events") ||
	       check(client, fi_open_ops(&domain->fid, "nosuch_ops", 0, &ops, NULL), -FI_ENOSYS,
		     "unknown operations") ||
	       check(client, fi_open_ops(&domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 1, &ops, NULL),
		     -FI_EBADFLAGS, "operations with flags") ||
	       check(client, fi_writemsg(client->side.ep, &uneven, FI_COMMIT_COMPLETE), -FI_EINVAL,
		     "lengths that differ") ||
	       (inject < SIZE &&
		check(client, writemsg(client, 0, inject + 1, 1, FI_INJECT | FI_COMMIT_COMPLETE),
		      -FI_EINVAL, "an injected commit that is too long")) ||
	       expect_none(client);
}

/* What has to follow an atomic would wait for ever for somebody who reads the queue. */
static int run_sets(struct client *client)
{
	struct fid_domain *domain = client->side.domain;
	struct fid_fabric *fabric = client->side.fabric;
	struct fi_poll_attr poll_attr = {0};
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_poll *pollset;
	struct fid_wait *waitset;

	return check(client, domain->ops->poll_open(domain, &poll_attr, &pollset), -FI_ENOSYS,
		     "a poll set") ||
	       check(client, fabric->ops->wait_open(fabric, &wait_attr, &waitset), -FI_ENOSYS,
		     "a wait set");
}

/* It never completes here; at the target it does. */
static int run_inject_data(struct client *client)
{
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 21, 0);
	if (connect_first(client))
		return -1;
	POST(client, ret,
	     fi_inject_writedata(client->side.ep, client->buf, INJECT, 77, client->server,
				 client->offer.addr, client->offer.key));
	return check(client, ret, 0, "fi_inject_writedata") || expect_notice(client, 1, 77) ||
	       expect_none(client);
}

/* run_no_wait_object -- nobody sleeps on such a queue */
static int run_no_wait_object(struct client *client)
{
	struct fi_cq_data_entry entry;
	fi_addr_t from;

	return check(client, fi_cq_sread(client->side.cq, &entry, 1, NULL, 0), -FI_ENOSYS,
		     "fi_cq_sread") ||
	       check(client, fi_cq_sreadfrom(client->side.cq, &entry, 1, &from, NULL, 0),
		     -FI_ENOSYS, "fi_cq_sreadfrom") ||
	       check(client, fi_cq_signal(client->side.cq), -FI_ENOSYS, "fi_cq_signal") ||
	       expect_none(client);
}

/* object_of -- the library that a function is in */
static const void *object_of(const void *function)
{
	Dl_info info;

	return dladdr(function, &info) ? info.dli_fbase : NULL;
}

/* are_counters_guarded -- those of each kind */
static int are_counters_guarded(struct client *client, const void *ours)
{
	static const enum fi_wait_obj kinds[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD};
	struct fid_domain *domain = client->side.domain;
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = kinds[i]};
		struct fid_cntr *cntr;

		ret = check(client, fi_cntr_open(domain, &attr, &cntr, NULL), 0, "fi_cntr_open");
		if (ret)
			break;
		if (!ours || object_of((const void *) cntr->ops->read) != ours ||
		    object_of((const void *) cntr->ops->wait) != ours)
			ret = FAIL(client, "the calls of counter %zu are not the provider's", i);
		if (fi_close(&cntr->fid))
			ret = FAIL(client, "a counter can't be closed");
	}
	return ret;
}

/* are_posts_guarded -- all calls of the endpoint that post */
static int are_posts_guarded(struct client *client, const void *ours)
{
	const struct fi_ops_msg *msg = client->side.ep->msg;
	const struct fi_ops_tagged *tagged = client->side.ep->tagged;
	const struct fi_ops_rma *rma = client->side.ep->rma;
	const struct fi_ops_atomic *atomic = client->side.ep->atomic;
	const void *posts[] = {
		msg->recv,
		msg->recvv,
		msg->recvmsg,
		msg->send,
		msg->sendv,
		msg->sendmsg,
		msg->inject,
		msg->senddata,
		msg->injectdata,
		tagged->recv,
		tagged->recvv,
		tagged->recvmsg,
		tagged->send,
		tagged->sendv,
		tagged->sendmsg,
		tagged->inject,
		tagged->senddata,
		tagged->injectdata,
		rma->read,
		rma->readv,
		rma->readmsg,
		rma->write,
		rma->writev,
		rma->writemsg,
		rma->inject,
		rma->writedata,
		rma->injectdata,
		atomic->write,
		atomic->writev,
		atomic->writemsg,
		atomic->inject,
		atomic->readwrite,
		atomic->readwritev,
		atomic->readwritemsg,
		atomic->compwrite,
		atomic->compwritev,
		atomic->compwritemsg,
	};
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(posts) / sizeof(posts[0]); i++) {
		if (object_of(posts[i]) != ours)
			ret = FAIL(client, "call %zu that posts is not the provider's", i);
	}
	return ret;
}

/*
 * Reading a counter moves data, into memory that may be gone (rdm_lost_counter), and so do calls
 * that post when there is no room: the provider has to guard all of them.
 */
static int run_guarded(struct client *client)
{
	const void *ours = object_of((const void *) client->side.ep->rma->writemsg);
	int ret = are_counters_guarded(client, ours);

	return ret ? ret : are_posts_guarded(client, ours);
}

/* is_there -- without touching it */
static bool is_there(const int pipe_fds[2], const void *word)
{
	uint64_t value;

	return write(pipe_fds[1], word, sizeof(value)) == sizeof(value) &&
	       read(pipe_fds[0], &value, sizeof(value)) == sizeof(value);
}

/* Its second page loses its memory. */
struct losing {
	char *memory;
	size_t page;
	int file;
	int pipe_fds[2];
	struct fid_mr *mr;
	struct fid_poll *pollset;
};

/* What moves data without reading the queue: 0 or an error. */
typedef ssize_t (*drive_fn)(struct client *client, struct losing *losing);

static ssize_t by_counter(struct client *client, struct losing *losing)
{
	(void) losing;
	fi_cntr_read(client->side.cntr);
	return 0;
}

static ssize_t by_error_counter(struct client *client, struct losing *losing)
{
	(void) losing;
	fi_cntr_readerr(client->side.cntr);
	return 0;
}

/* As many never come. */
static ssize_t by_wait(struct client *client, struct losing *losing)
{
	int ret = fi_cntr_wait(client->side.cntr, UINT64_MAX, 1);

	(void) losing;
	return ret == -FI_ETIMEDOUT || ret == -FI_EAVAIL ? 0 : ret;
}

static ssize_t by_poll_set(struct client *client, struct losing *losing)
{
	void *context;
	int ret = losing->pollset->ops->poll(losing->pollset, &context, 1);

	(void) client;
	return ret < 0 ? ret : 0;
}

/* open_losing -- what comes goes to this process's own memory */
static int open_losing(struct client *client, struct losing *losing)
{
	bool virt_addr = client->side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	struct fi_poll_attr poll_attr = {0};
	int ret;

	losing->page = (size_t) sysconf(_SC_PAGESIZE);
	losing->file = memfd_create("losing", MFD_CLOEXEC);
	if (losing->file < 0 || pipe(losing->pipe_fds) ||
	    ftruncate(losing->file, 2 * (off_t) losing->page))
		return FAIL(client, "no memory to lose");
	losing->memory =
		mmap(NULL, 2 * losing->page, PROT_READ | PROT_WRITE, MAP_SHARED, losing->file, 0);
	if (losing->memory == MAP_FAILED)
		return FAIL(client, "no memory to lose");
	ret = side_register(&client->side, losing->memory, 2 * losing->page,
			    FI_REMOTE_READ | FI_REMOTE_WRITE, commit_all ? 0 : FI_RMA_PMEM,
			    &losing->mr);
	if (!ret && !commit_all)
		ret = client->side.domain->ops->poll_open(client->side.domain, &poll_attr,
							  &losing->pollset);
	if (!ret && !commit_all)
		ret = losing->pollset->ops->poll_add(losing->pollset, &client->side.cq->fid, 0);
	if (ret)
		return FAIL(client, "no poll set");
	client->offer.key = fi_mr_key(losing->mr);
	client->offer.addr = losing->page + (virt_addr ? (uintptr_t) losing->memory : 0);
	return write_to_itself(client);
}

/* lose_page -- an atomic arrives where there is no page any more, and the process goes on */
static int lose_page(struct client *client, struct losing *losing, drive_fn drive)
{
	uint64_t end = now_ns() + PATIENCE_NS, *word;

	*(uint64_t *) client->buf = 5;
	if (open_losing(client, losing))
		return -1;
	word = (uint64_t *) (losing->memory + losing->page);
	if (check(client, sum(client, 0, 0), 0, "an atomic") || await(client, 0, FI_ATOMIC))
		return -1;
	if (ftruncate(losing->file, (off_t) losing->page))
		return FAIL(client, "the page stays");
	if (check(client, sum(client, 1, 0), 0, "an atomic that finds no page"))
		return -1;
	while (!is_there(losing->pipe_fds, word)) {
		ssize_t ret = drive(client, losing);

		if (ret)
			return check(client, ret, 0, "what moves data");
		if (now_ns() > end)
			return FAIL(client, "the atomic is not executed");
	}
	/* In the place of the page were zeros. */
	return *word == 5 ? 0 : FAIL(client, "the page is not replaced by zeros");
}

/*
 * lost -- only memory that the agent watches; and what counts commits has no atomics that are
 * committed behind themselves
 */
static int lost(struct client *client, drive_fn drive)
{
	const char *domain = getenv("FI_PMEMVERBS_DOMAIN");
	struct losing losing = {.memory = MAP_FAILED, .file = -1, .pipe_fds = {-1, -1}};
	int ret;

	if (!domain || (strcmp(domain, "page") && (strcmp(domain, "dmp") || !client->attr.ddio)))
		return 0;
	if (commit_all && client->side.cntr)
		return 0;
	ret = lose_page(client, &losing, drive);
	if (CLOSE(losing.pollset) | CLOSE(losing.mr) && !ret)
		ret = FAIL(client, "closing failed");
	if (losing.memory != MAP_FAILED)
		munmap(losing.memory, 2 * losing.page);
	close(losing.file);
	close(losing.pipe_fds[0]);
	close(losing.pipe_fds[1]);
	return ret;
}

static int run_lost_counter(struct client *client)
{
	return lost(client, by_counter);
}

static int run_lost_error_counter(struct client *client)
{
	return lost(client, by_error_counter);
}

static int run_lost_wait(struct client *client)
{
	return lost(client, by_wait);
}

static int run_lost_poll_set(struct client *client)
{
	return commit_all ? 0 : lost(client, by_poll_set);
}

static int run_counter_wait(struct client *client)
{
	struct fid_cntr *cntr = client->side.cntr;

	return check(client, commit(client, 0, 8, 0, 0), 0, "commit") ||
	       check(client, fi_cntr_wait(cntr, 1, 60000), 0, "fi_cntr_wait") ||
	       counted(client, 1) ||
	       check(client, fi_cntr_wait(cntr, 2, 20), -FI_ETIMEDOUT, "fi_cntr_wait for more");
}

/*
 * Atomics that the provider commits behind them: what it keeps back for that has to wake who
 * sleeps on the descriptor, the way that fi_trywait(3) describes.
 */
static int run_wait_fd(struct client *client)
{
	struct fid *fid = &client->side.cq->fid;
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	struct pollfd pfd = {.events = POLLIN};
	int ret = fi_control(fid, FI_GETWAIT, &pfd.fd);

	if (check(client, ret, 0, "FI_GETWAIT"))
		return -1;
	for (int n = 0; n < 20; n++) {
		ssize_t got;

		if (check(client, sum(client, n, 0), 0, "an atomic"))
			return -1;
		while ((got = fi_cq_read(client->side.cq, &entry, 1)) == -FI_EAGAIN) {
			ret = fi_trywait(client->side.fabric, &fid, 1);
			if (!ret && poll(&pfd, 1, 5000) == 0)
				return FAIL(client,
					    "fi_trywait lets it wait for what does not come");
			if (ret && ret != -FI_EAGAIN)
				return check(client, ret, 0, "fi_trywait");
			if (now_ns() > end)
				return FAIL(client, "an atomic does not complete");
		}
		if (got != 1 || entry.op_context != &client->contexts[n])
			return FAIL(client, "something else than atomic %d", n);
	}
	return expect_none(client);
}

/* Several entries at once, with and without a commit behind the atomic, and writes between them. */
static int run_batches(struct client *client)
{
	enum { COUNT = 24, BATCH = 8 };
	uint64_t end = now_ns() + PATIENCE_NS;
	bool seen[COUNT] = {false};
	int left = COUNT;

	for (int n = 0; n < COUNT; n++) {
		ssize_t ret = n % 3 == 2 ? write_plain(client, 4096, 8, n) : sum(client, n, 0);

		if (check(client, ret, 0, "an operation"))
			return -1;
	}
	while (left && now_ns() < end) {
		struct fi_cq_data_entry entries[BATCH];
		fi_addr_t from[BATCH];
		ssize_t got = fi_cq_readfrom(client->side.cq, entries, BATCH, from);

		if (got != -FI_EAGAIN && got <= 0)
			return check(client, got, 0, "fi_cq_readfrom");
		/* Those first that came while others were posted. */
		while (client->num_early && got < BATCH) {
			if (got < 0)
				got = 0;
			entries[got++] = client->early[--client->num_early];
		}
		for (ssize_t i = 0; i < got; i++) {
			ptrdiff_t n =
				(struct fi_context2 *) entries[i].op_context - client->contexts;

			if (n < 0 || n >= COUNT || seen[n])
				return FAIL(client,
					    "a completion of no operation, or a second one");
			seen[n] = true;
			left--;
		}
	}
	return left ? FAIL(client, "%d operations do not complete", left) : expect_none(client);
}

const struct test rdm_call_cases[] = {
	{"rdm_messages_op_flags", run_messages, {MAP, .op_flags = FI_COMMIT_COMPLETE}, ALWAYS},
	{"rdm_messages_immediate", run_immediate, {MAP}, ALWAYS},
	{"rdm_refused", run_refused, {MAP}, ALWAYS},
	{"rdm_sets", run_sets, {MAP}, COMMIT_ALL},
	{"rdm_inject_data", run_inject_data, {MAP}, ALWAYS},
	{"rdm_counter_wait", run_counter_wait, {MAP, .counter = true, .waits = true}, ALWAYS},
	{"rdm_guarded", run_guarded, {MAP}, ALWAYS},
	{"rdm_lost_counter", run_lost_counter, {MAP, .counter = true}, ALWAYS},
	{"rdm_lost_error_counter", run_lost_error_counter, {MAP, .counter = true}, ALWAYS},
	{"rdm_lost_wait", run_lost_wait, {MAP, .counter = true, .waits = true}, ALWAYS},
	{"rdm_lost_poll_set", run_lost_poll_set, {MAP}, ALWAYS},
	{"rdm_batches", run_batches, {MAP}, ALWAYS},
	{"rdm_no_wait_object", run_no_wait_object, {MAP}, ALWAYS},
	{"rdm_wait_fd", run_wait_fd, {MAP, .waits = true}, ALWAYS},
	{0},
};
