/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_gone.c -- the target's machine goes, and comes back
 *
 * Two commands in the environment stand in for that.  The first one ends the connections there and
 * lets nothing out; but the control connection, by which the server is told what to do, stays.
 */
#include <unistd.h>

#include "rdm_functional.h"

static int have(struct client *client, const char *variable)
{
	return control_have(variable) ? FAIL(client, "%s has failed", variable) : 0;
}

static int cut(struct client *client)
{
	return have(client, "PMEM_GONE_CUT");
}

static int mend(struct client *client)
{
	return have(client, "PMEM_GONE_MEND");
}

/* has_ended -- the only commit that is under way: 1, -FI_EAVAIL, or -FI_EAGAIN: it has not */
static ssize_t has_ended(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	ssize_t ret;

	do
		ret = fi_cq_read(client->side.cq, &entry, 1);
	while (ret == -FI_EAGAIN && now_ns() < end);
	return ret;
}

static int drop_error(struct client *client)
{
	struct fi_cq_err_entry error;

	return cq_error(client->side.cq, &error) ? 0 : FAIL(client, "an error has no entry");
}

/* expect_lost -- a commit that was under way when the machine went, or (err: 0) was posted later */
static int expect_lost(struct client *client, int n, int err)
{
	if (has_ended(client) != -FI_EAVAIL)
		return FAIL(client, "a commit to nobody has not failed");
	return err ? expect_error(client, n, err) : drop_error(client);
}

/* is_found_again -- under the address that it had; what was lost before is told first */
static int is_found_again(struct client *client, int n)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	bool lost = true;
	ssize_t ret;

	while (lost && now_ns() < end) {
		ret = commit(client, 64, INJECT, n, FI_COMPLETION);
		if (ret == -FI_ETIMEDOUT || ret == -FI_ECONNRESET)
			continue;
		if (check(client, ret, 0, "a commit when the machine is back"))
			return -1;
		lost = has_ended(client) != 1;
		if (lost && drop_error(client))
			return -1;
	}
	if (lost)
		return FAIL(client, "no commit succeeds when the machine is back");
	return expect_data(client, 64, INJECT, "that commit") || expect_none(client);
}

/* Less than FI_PMEMVERBS_TIMEOUT, which is 2 s. */
#define CONNECTING_NS 300000000

/*
 * A process that is stopped does not answer a request to connect, but its kernel has taken it.
 * Then the machine goes, and starts again without that connection.
 */
static int run_gone_connecting(struct client *client)
{
	struct fi_rma_iov to = {client->offer.addr, 8, client->offer.key};
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 17, 0);
	if (stop_server(client))
		return -1;
	/* The request is on its way, and has arrived: later it would be sent again. */
	for (uint64_t end = now_ns() + CONNECTING_NS; now_ns() < end;) {
		ret = fi_inject_write(client->side.ep, client->buf, to.len, client->server, to.addr,
				      to.key);
		if (check(client, ret, -FI_EAGAIN, "a write to a stopped server"))
			return -1;
		usleep(1000);
	}
	if (cut(client))
		return -1;
	ret = go_on(client) || check(client, commit(client, 64, INJECT, 1, FI_COMPLETION),
				     -FI_ETIMEDOUT, "a commit when the machine is gone");
	return mend(client) || ret || is_found_again(client, 2);
}

/* commit_to_nobody -- what RxM still gives to the old connection fails by itself */
static int commit_to_nobody(struct client *client, int n)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	ssize_t ret;

	do {
		ret = commit(client, 64, INJECT, n, FI_COMPLETION);
		if (!ret && expect_lost(client, n, 0))
			return -1;
	} while (!ret && now_ns() < end);
	return check(client, ret, -FI_ETIMEDOUT, "a commit when the machine is gone");
}

static int run_gone(struct client *client)
{
	int ret;

	pattern_fill(client->buf, SIZE, 18, 0);
	if (connect_first(client) || cut(client))
		return -1;
	ret = check(client, commit(client, 64, INJECT, 1, FI_COMPLETION), 0, "a commit") ||
	      expect_lost(client, 1, FI_ETIMEDOUT) || commit_to_nobody(client, 2);
	return mend(client) || ret || is_found_again(client, 3);
}

/* An atomic that has no answer yet: there is nothing under way at this end. */
static int run_gone_atomic(struct client *client)
{
	int ret;

	pattern_fill(client->buf, SIZE, 20, 0);
	if (connect_first(client) || stop_server(client) ||
	    check(client, sum(client, 1, FI_COMMIT_COMPLETE | FI_COMPLETION), 0, "fi_atomicmsg") ||
	    expect_stuck(client, "an atomic") || cut(client))
		return -1;
	ret = await_error(client, 1, FI_ETIMEDOUT) || go_on(client);
	return mend(client) || ret || is_found_again(client, 3);
}

const struct test rdm_gone_cases[] = {
	{"rdm_gone", run_gone, {MAP}, GONE},
	{"rdm_gone_atomic", run_gone_atomic, {MAP}, GONE},
	{"rdm_gone_atomic_sread", run_gone_atomic, {MAP, .waits = true}, GONE},
	{"rdm_gone_atomic_fences", run_gone_atomic, {MAP, .fences = true}, GONE},
	{"rdm_gone_connecting", run_gone_connecting, {MAP}, GONE},
	{0},
};
