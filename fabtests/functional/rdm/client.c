/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.c -- what the cases over FI_EP_RDM are made with: see rdm_functional.h
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "rdm_functional.h"

int ask(struct client *client, uint32_t command, uint64_t a, uint64_t b, void *payload, size_t room)
{
	struct control_msg msg = {.command = command, .arg = {a, b}};

	if (control_send(client->control, &msg, NULL) ||
	    control_receive(client->control, &msg, payload, room, client->opts->timeout))
		return FAIL(client, "the server has gone");
	return 0;
}

int open_client(struct client *client, const struct settings *settings)
{
	int ret;

	client->settings = *settings;
	client->num_early = 0;
	if (ask(client, ASK_NAME, settings->library, 0, &client->offer, sizeof(client->offer)))
		return -1;
	if (!pmv_key_unpack(client->offer.key, &client->attr))
		return FAIL(client, "the key says nothing");
	if (!client->attr.pmem)
		return FAIL(client, "the key says that the memory is not persistent");
	ret = open_side(&client->side, client->opts, settings, client->opts->dst_addr, 0);
	if (ret)
		return FAIL(client, "opening failed");
	client->desc = NULL;
	/* Libraries that don't ask for FI_MR_LOCAL write from memory that nobody has registered. */
	if (!settings->library) {
		ret = side_register(&client->side, client->buf, SIZE, FI_READ | FI_WRITE, 0,
				    &client->mr);
		if (ret)
			return FAIL(client, "registering failed");
		client->desc = fi_mr_desc(client->mr);
	}
	if (fi_av_insert(client->side.av, client->offer.name, 1, &client->server, 0, NULL) != 1)
		return FAIL(client, "fi_av_insert failed");
	return 0;
}

int close_client(struct client *client)
{
	int ret = CLOSE(client->mr) | close_side(&client->side);

	client->mr = NULL;
	return ret ? FAIL(client, "closing failed") : 0;
}

int stop_server(struct client *client)
{
	client->stopped = true;
	client->count_was = client->side.cntr ? fi_cntr_read(client->side.cntr) : 0;
	return ask(client, ASK_STOP, 0, 0, NULL, 0);
}

int go_on(struct client *client)
{
	const struct control_msg msg = {0};

	if (!client->stopped)
		return 0;
	client->stopped = false;
	return control_send(client->control, &msg, NULL) ? FAIL(client, "the server has gone") : 0;
}

void name_volatile(struct client *client)
{
	client->offer.key = client->offer.volatile_key;
	client->offer.addr = client->offer.volatile_addr;
}

bool is_one_sided(const struct client *client)
{
	const struct pmv_attr *attr = &client->attr;

	return (client->side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) &&
	       attr->persist != PMV_PAGE && (attr->persist != PMV_DMP || !attr->ddio);
}

bool is_safe(const struct client *client)
{
	return client->attr.persist != PMV_DMP && client->attr.persist != PMV_PAGE;
}

/* take -- 1: an entry, 0: none, negative: an error entry or worse */
static int take(struct client *client, struct fi_cq_data_entry *entry)
{
	struct fi_cq_err_entry error;
	ssize_t ret = fi_cq_read(client->side.cq, entry, 1);

	if (ret == 1 || ret == -FI_EAGAIN) {
		rest(ret == 1);
		return ret == 1;
	}
	if (ret == -FI_EAVAIL && cq_error(client->side.cq, &error))
		return FAIL(client, "an operation failed: %s", fi_strerror(error.err));
	return FAIL(client, "fi_cq_read: %s", fi_strerror((int) -ret));
}

/* next -- like take, and those that came early; it may sleep */
static int next(struct client *client, struct fi_cq_data_entry *entry)
{
	if (client->num_early) {
		*entry = client->early[0];
		memmove(client->early, client->early + 1, --client->num_early * sizeof(*entry));
		return 1;
	}
	if (client->settings.waits && fi_cq_sread(client->side.cq, entry, 1, NULL, 100) == 1)
		return 1;
	return take(client, entry);
}

int await_any(struct client *client, uint64_t flags)
{
	struct fi_cq_data_entry entry;
	uint64_t end = now_ns() + PATIENCE_NS;
	int ret, n;

	do
		ret = next(client, &entry);
	while (!ret && now_ns() < end);
	if (ret < 0)
		return ret;
	if (!ret)
		return FAIL(client, "no operation completes");
	n = (int) ((struct fi_context2 *) entry.op_context - client->contexts);
	if ((entry.flags & flags) != flags)
		return FAIL(client, "operation %d: flags %#llx", n,
			    (unsigned long long) entry.flags);
	return n;
}

int await(struct client *client, int n, uint64_t flags)
{
	int which = await_any(client, flags);

	if (which < 0)
		return which;
	return which == n ? 0 : FAIL(client, "operation %d completed instead of %d", which, n);
}

int expect_none(struct client *client)
{
	struct fi_cq_data_entry entry;
	int ret = client->num_early ? 1 : take(client, &entry);

	return ret <= 0 ? ret : FAIL(client, "something completed that should not");
}

int expect_error(struct client *client, int n, int err)
{
	struct fi_cq_err_entry error;

	if (!cq_error(client->side.cq, &error))
		return FAIL(client, "fi_cq_readerr has no error for operation %d", n);
	if (error.op_context != &client->contexts[n])
		return FAIL(client, "another operation than %d failed", n);
	if (error.err != err)
		return FAIL(client, "operation %d: %s", n, fi_strerror(error.err));
	return 0;
}

int await_error(struct client *client, int n, int err)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	ssize_t ret;

	do
		ret = client->settings.waits ? fi_cq_sread(client->side.cq, &entry, 1, NULL, 100)
					     : fi_cq_read(client->side.cq, &entry, 1);
	while (ret == -FI_EAGAIN && now_ns() < end);
	if (ret != -FI_EAVAIL)
		return FAIL(client, "operation %d has not failed: fi_cq_read: %zd", n, ret);
	return expect_error(client, n, err);
}

bool busy(struct client *client, ssize_t ret, uint64_t end)
{
	struct fi_cq_data_entry entry;

	if (ret != -FI_EAGAIN || now_ns() > end || client->num_early == MAX_EARLY)
		return false;
	ret = take(client, &entry);
	if (ret > 0)
		client->early[client->num_early++] = entry;
	return ret >= 0;
}

ssize_t writemsg(struct client *client, size_t offset, size_t len, int n, uint64_t flags)
{
	struct iovec iov = {client->buf + offset, len};
	struct fi_rma_iov rma_iov = {client->offer.addr + offset, len, client->offer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &client->desc,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = &client->contexts[n],
		.data = 100 + (uint64_t) n,
	};
	ssize_t ret;

	POST(client, ret, fi_writemsg(client->side.ep, &msg, flags));
	return ret;
}

ssize_t write_plain(struct client *client, size_t offset, size_t len, int n)
{
	ssize_t ret;

	POST(client, ret,
	     fi_write(client->side.ep, client->buf + offset, len, client->desc, client->server,
		      client->offer.addr + offset, client->offer.key, &client->contexts[n]));
	return ret;
}

ssize_t commit(struct client *client, size_t offset, size_t len, int n, uint64_t flags)
{
	if (commit_all && !flags)
		return write_plain(client, offset, len, n);
	return writemsg(client, offset, len, n, (commit_all ? 0 : FI_COMMIT_COMPLETE) | flags);
}

ssize_t fetch_sum(struct client *client, uint64_t *result, int n, uint64_t flags)
{
	struct fi_ioc ioc = {client->buf, 1}, result_ioc = {result, 1};
	struct fi_rma_ioc rma_ioc = {client->offer.addr, 1, client->offer.key};
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.desc = &client->desc,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &rma_ioc,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = &client->contexts[n],
	};
	struct fid_ep *ep = client->side.ep;
	ssize_t ret;

	if (result)
		POST(client, ret,
		     fi_fetch_atomicmsg(ep, &msg, &result_ioc, &client->desc, 1, flags));
	else
		POST(client, ret, fi_atomicmsg(ep, &msg, flags));
	return ret;
}

ssize_t sum(struct client *client, int n, uint64_t flags)
{
	return fetch_sum(client, NULL, n, flags);
}

int check(struct client *client, ssize_t ret, ssize_t wanted, const char *call)
{
	if (ret == wanted)
		return 0;
	return FAIL(client, "%s: %s", call, ret ? fi_strerror((int) -ret) : "accepted");
}

int expect_data(struct client *client, size_t offset, size_t len, const char *what)
{
	char *image = malloc(len);
	size_t right = 0;
	int ret = -1;

	if (image && !ask(client, ASK_BYTES, offset, len, image, len)) {
		while (right < len && image[right] == client->buf[offset + right])
			right++;
		ret = right == len ? 0 : FAIL(client, "%s: byte %zu is wrong", what, right);
	}
	free(image);
	return ret;
}

/* await_answer -- and progress meanwhile: what was begun may go on in calls only */
static int await_answer(struct client *client)
{
	uint64_t end = now_ns() + 2 * PATIENCE_NS;
	int ret = 0;

	while (!ret && !control_waits(client->control, 1) && now_ns() < end)
		ret = expect_none(client);
	return ret;
}

int expect_notice(struct client *client, unsigned int count, uint64_t data)
{
	struct control_msg msg = {.command = ASK_NOTICES, .arg = {count}};
	struct notice notices[MAX_NOTICES];
	uint64_t first;
	size_t got;

	memcpy(&first, client->buf, sizeof(first));
	if (control_send(client->control, &msg, NULL) || await_answer(client) ||
	    control_receive(client->control, &msg, notices, sizeof(notices), client->opts->timeout))
		return client->reason[0] ? -1 : FAIL(client, "the server has gone");
	got = msg.len;
	got /= sizeof(notices[0]);
	if (got != count)
		return FAIL(client, "%zu notices instead of %u", got, count);
	if (notices[count - 1].data != data)
		return FAIL(client, "notice %llu instead of %llu",
			    (unsigned long long) notices[count - 1].data,
			    (unsigned long long) data);
	if (notices[count - 1].seen != first)
		return FAIL(client, "the notice came before the data");
	return 0;
}

int write_to_itself(struct client *client)
{
	char name[sizeof(client->offer.name)];
	size_t len = sizeof(name);

	if (fi_getname(&client->side.ep->fid, name, &len) ||
	    fi_av_insert(client->side.av, name, 1, &client->server, 0, NULL) != 1)
		return FAIL(client, "it can't name itself");
	return 0;
}

int connect_first(struct client *client)
{
	ssize_t ret = commit(client, 0, 8, 0, FI_COMPLETION);

	return ret ? FAIL(client, "first write: %s", fi_strerror((int) -ret)) : await(client, 0, 0);
}

int written(struct client *client, uint64_t n)
{
	return await(client, (int) n, WRITTEN);
}

int expect_stuck(struct client *client, const char *what)
{
	struct fid_cntr *cntr = client->side.cntr;
	uint64_t end = now_ns() + STOPPED_NS;
	struct fi_cq_data_entry entry;
	int ret = 0;

	while (!ret && now_ns() < end) {
		ret = next(client, &entry);
		if (ret > 0 || (cntr && fi_cntr_read(cntr) != client->count_was))
			return FAIL(client, "%s completed while the target was stopped", what);
	}
	return ret;
}

int expect_waits(struct client *client, done_fn done, uint64_t n, const char *what)
{
	if (!is_one_sided(client) && (expect_stuck(client, what) || go_on(client)))
		return -1;
	return done(client, n) || go_on(client) ? -1 : 0;
}

int counted(struct client *client, uint64_t count)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (fi_cntr_read(client->side.cntr) < count) {
		if (fi_cntr_readerr(client->side.cntr))
			return FAIL(client, "an operation failed");
		if (now_ns() > end)
			return FAIL(client, "the counter stays at %llu",
				    (unsigned long long) fi_cntr_read(client->side.cntr));
	}
	return fi_cntr_read(client->side.cntr) == count ? 0 : FAIL(client, "counted too much");
}

uint64_t count_commits(struct client *client)
{
	struct fid_domain *domain = client->side.domain;
	struct fi_pmemverbs_counters_ops *ops;
	struct fi_pmemverbs_counters counters;

	if (fi_open_ops(&domain->fid, FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops, NULL) ||
	    ops->read(domain, &counters, sizeof(counters)) || counters.commits_refused ||
	    counters.commits_failed)
		return UINT64_MAX;
	return counters.commits_write + counters.commits_read + counters.commits_agent;
}
