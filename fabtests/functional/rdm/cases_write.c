/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_write.c -- writes over FI_EP_RDM arrive, wait for the server, and are counted
 */
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>
#include <rdma/fi_tagged.h>

#include "rdm_functional.h"

static int run_offer(struct client *client)
{
	const struct fi_info *info = client->side.info;

	if (strcmp(info->fabric_attr->prov_name, "pmemverbs"))
		return FAIL(client, "provider %s", info->fabric_attr->prov_name);
	if (info->ep_attr->type != FI_EP_RDM || info->domain_attr->mr_key_size != 8)
		return FAIL(client, "not an RDM endpoint with keys of 8 bytes");
	if (!(info->caps & FI_RMA_PMEM) || !(info->tx_attr->caps & FI_RMA_PMEM))
		return FAIL(client, "FI_RMA_PMEM is not offered");
	return 0;
}

static int run_data(struct client *client)
{
	static const size_t sizes[] = {1, 8, 63, 64, 65, 4096, 16385, 100000};
	size_t offset = 3;

	pattern_fill(client->buf, SIZE, 7, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (check(client, commit(client, offset, sizes[i], (int) i, 0), 0, "commit") ||
		    await(client, (int) i, WRITTEN) ||
		    expect_data(client, offset, sizes[i], "committed data"))
			return -1;
		offset += sizes[i];
	}
	return expect_none(client);
}

/* The domain is RxM's, and its counters are those of the one below. */
static int run_counters(struct client *client)
{
	uint64_t before = count_commits(client);

	for (int n = 0; n < 5; n++) {
		if (check(client, commit(client, 512, 64, n, 0), 0, "commit") ||
		    await(client, n, WRITTEN))
			return -1;
	}
	if (before == UINT64_MAX || count_commits(client) - before != 5)
		return FAIL(client, "%llu commits were counted instead of 5",
			    (unsigned long long) (count_commits(client) - before));
	return expect_none(client);
}

#define BURST 64

/* await_burst -- each completes once, in any order: RxM promises none */
static int await_burst(struct client *client)
{
	bool done[BURST] = {false};

	for (int n = 0; n < BURST; n++) {
		int which = await_any(client, WRITTEN);

		if (which < 0)
			return -1;
		if (which >= BURST || done[which])
			return FAIL(client, "operation %d has completed once more", which);
		done[which] = true;
	}
	return 0;
}

static int run_burst(struct client *client)
{
	pattern_fill(client->buf, SIZE, 8, 0);
	for (int round = 0; round < 20; round++) {
		for (int n = 0; n < BURST; n++) {
			if (check(client, commit(client, (size_t) n * 256, 200, n, 0), 0, "commit"))
				return -1;
		}
		if (await_burst(client))
			return -1;
	}
	return expect_data(client, 63 * 256, 200, "the last write") || expect_none(client);
}

static int run_waits(struct client *client)
{
	return connect_first(client) || stop_server(client) ||
	       check(client, commit(client, 512, 64, 1, 0), 0, "commit") ||
	       expect_waits(client, written, 1, "a commit");
}

/* The calls without flags, on an endpoint whose op_flags have FI_COMMIT_COMPLETE. */
static int run_calls(struct client *client)
{
	struct fid_ep *ep = client->side.ep;
	struct iovec iov = {client->buf, 64};
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 9, 0);
	if (connect_first(client) || stop_server(client) ||
	    check(client, write_plain(client, 0, 64, 1), 0, "fi_write") ||
	    expect_waits(client, written, 1, "fi_write") || stop_server(client))
		return -1;
	POST(client, ret,
	     fi_writev(ep, &iov, &client->desc, 1, client->server, client->offer.addr,
		       client->offer.key, &client->contexts[2]));
	if (check(client, ret, 0, "fi_writev") || expect_waits(client, written, 2, "fi_writev") ||
	    stop_server(client))
		return -1;
	POST(client, ret,
	     fi_writedata(ep, client->buf, 64, client->desc, 77, client->server, client->offer.addr,
			  client->offer.key, &client->contexts[3]));
	return check(client, ret, 0, "fi_writedata") ||
	       expect_waits(client, written, 3, "fi_writedata") || expect_notice(client, 1, 77);
}

static int run_notice(struct client *client)
{
	uint64_t flags = commit_all ? FI_REMOTE_CQ_DATA : FI_COMMIT | FI_IMMED;

	for (int n = 0; n < 20; n++) {
		pattern_fill(client->buf, SIZE, (uint64_t) n, 0);
		if (check(client, writemsg(client, 0, 4096, n, flags), 0, "fi_writemsg") ||
		    await(client, n, WRITTEN) ||
		    expect_notice(client, (unsigned int) n + 1, 100 + (uint64_t) n))
			return -1;
	}
	return 0;
}

/* Injected, without a completion: RxM would forget the flags of that. */
static int run_inject(struct client *client)
{
	uint64_t key = client->offer.key;
	ssize_t ret;

	/* A key that says nothing can't be committed to: was it a commit that was asked for? */
	client->offer.key = pmv_key_core(key);
	ret = writemsg(client, 0, INJECT, 0, FI_INJECT | FI_COMMIT_COMPLETE);
	client->offer.key = key;
	if (check(client, ret, -FI_EOPNOTSUPP, "an injected commit to a plain key"))
		return -1;
	for (int n = 0; n < 20; n++) {
		pattern_fill(client->buf, SIZE, (uint64_t) n, 0);
		if (check(client,
			  writemsg(client, 0, INJECT, n,
				   FI_INJECT | FI_REMOTE_CQ_DATA | FI_COMMIT_COMPLETE),
			  0, "fi_writemsg"))
			return -1;
		if (expect_none(client) ||
		    expect_notice(client, (unsigned int) n + 1, 100 + (uint64_t) n))
			return -1;
	}
	/* What a later commit covers is there with it. */
	pattern_fill(client->buf, SIZE, 99, 0);
	return check(client, writemsg(client, 64, INJECT, 0, FI_INJECT), 0, "inject") ||
	       check(client, commit(client, 128, 8, 1, FI_COMPLETION), 0, "commit") ||
	       await(client, 1, WRITTEN) || expect_data(client, 64, INJECT, "what was injected") ||
	       expect_none(client);
}

static int run_fence(struct client *client)
{
	pattern_fill(client->buf, SIZE, 11, 0);
	for (int n = 0; n < 40; n += 2) {
		if (check(client, writemsg(client, (size_t) n * 1024, 1024, n, 0), 0, "write") ||
		    check(client,
			  writemsg(client, (size_t) n * 1024 + 1024, 8, n + 1,
				   FI_COMMIT_COMPLETE | FI_FENCE),
			  0, "fenced commit") ||
		    await(client, n, WRITTEN) || await(client, n + 1, WRITTEN) ||
		    expect_data(client, (size_t) n * 1024, 1024 + 8, "both"))
			return -1;
	}
	return expect_none(client);
}

static int run_counter(struct client *client)
{
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 12, 0);
	if (check(client, commit(client, 0, 8, 0, 0), 0, "commit") || counted(client, 1) ||
	    stop_server(client) || check(client, commit(client, 8, 8, 0, 0), 0, "commit") ||
	    expect_waits(client, counted, 2, "counting a commit"))
		return -1;
	for (int n = 0; n < 32; n++) {
		POST(client, ret,
		     fi_inject_write(client->side.ep, client->buf + 64 * n, INJECT, client->server,
				     client->offer.addr + 64 * (uint64_t) n, client->offer.key));
		if (check(client, ret, 0, "fi_inject_write"))
			return -1;
	}
	if (counted(client, 34) || expect_none(client))
		return -1;
	/* Elsewhere they may still be under way, and would be when the next case looks. */
	if (!commit_all &&
	    (check(client, commit(client, 0, 8, 0, 0), 0, "commit") || counted(client, 35)))
		return -1;
	if (expect_data(client, 31 * 64, INJECT, "what was injected"))
		return -1;
	if (!commit_all)
		return 0;
	if (stop_server(client))
		return -1;
	POST(client, ret,
	     fi_inject_write(client->side.ep, client->buf, INJECT, client->server,
			     client->offer.addr, client->offer.key));
	return check(client, ret, 0, "fi_inject_write") ||
	       expect_waits(client, counted, 35, "counting an injected write");
}

static int run_messages(struct client *client)
{
	struct iovec iov = {client->buf, 8};
	struct fi_msg msg = {&iov, &client->desc, 1, client->server, &client->contexts[1], 0};
	struct fi_msg_tagged tagged = {&iov, &client->desc,        1, client->server, 1,
				       0,    &client->contexts[1], 0};

	return check(client, fi_sendmsg(client->side.ep, &msg, FI_COMMIT_COMPLETE), -FI_EOPNOTSUPP,
		     "fi_sendmsg with a commit") ||
	       check(client, fi_tsendmsg(client->side.ep, &tagged, FI_COMMIT_COMPLETE),
		     -FI_EOPNOTSUPP, "fi_tsendmsg with a commit") ||
	       expect_none(client);
}

static int run_volatile(struct client *client)
{
	name_volatile(client);
	return check(client, writemsg(client, 0, 64, 1, commit_all ? 0 : FI_COMMIT_COMPLETE), 0,
		     "commit") ||
	       await(client, 1, WRITTEN) || expect_none(client);
}

static int run_fence_hint(struct client *client)
{
	struct fi_info *hints = make_hints(client->opts, &client->settings);
	struct fi_info *info = NULL;
	int ret;

	hints->caps |= FI_FENCE;
	ret = fi_getinfo(FI_VERSION(1, 17), client->opts->dst_addr, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (check(client, ret, 0, "fi_getinfo with FI_FENCE"))
		return -1;
	if (!(info->caps & FI_FENCE) || !(info->tx_attr->caps & FI_FENCE))
		ret = FAIL(client, "FI_FENCE is not offered to whom asks for it");
	if (client->side.info->caps & FI_FENCE)
		ret = FAIL(client, "FI_FENCE is offered to whom does not ask for it");
	fi_freeinfo(info);
	return ret;
}

const struct test rdm_write_cases[] = {
	{"rdm_offer", run_offer, {MAP}, ALWAYS},
	{"rdm_fence_hint", run_fence_hint, {MAP}, ALWAYS},
	{"rdm_data", run_data, {MAP}, ALWAYS},
	{"rdm_data_table", run_data, {.av_type = FI_AV_TABLE}, ALWAYS},
	{"rdm_data_sread", run_data, {MAP, .waits = true}, ALWAYS},
	{"rdm_data_tracked", run_data, {MAP, .fences = true}, ALWAYS},
	{"rdm_burst", run_burst, {MAP}, ALWAYS},
	{"rdm_burst_tracked", run_burst, {MAP, .fences = true}, ALWAYS},
	{"rdm_counters", run_counters, {MAP}, ALWAYS},
	{"rdm_commit_waits", run_waits, {MAP}, ALWAYS},
	{"rdm_commit_waits_sread", run_waits, {MAP, .waits = true}, ALWAYS},
	{"rdm_op_flags", run_calls, {MAP, .op_flags = FI_COMMIT_COMPLETE}, ALWAYS},
	{"rdm_no_flags", run_calls, {MAP}, COMMIT_ALL},
	{"rdm_op_flags_tracked",
	 run_calls,
	 {MAP, .op_flags = FI_COMMIT_COMPLETE, .fences = true},
	 ALWAYS},
	{"rdm_notice", run_notice, {MAP}, ALWAYS},
	{"rdm_notice_tracked", run_notice, {MAP, .fences = true}, ALWAYS},
	{"rdm_inject", run_inject, {MAP, .selective = true}, ALWAYS},
	{"rdm_inject_tracked", run_inject, {MAP, .selective = true, .fences = true}, ALWAYS},
	{"rdm_fence", run_fence, {MAP}, ALWAYS},
	{"rdm_fence_tracked", run_fence, {MAP, .fences = true}, ALWAYS},
	{"rdm_counter", run_counter, {MAP, .counter = true, .selective = true}, ALWAYS},
	{"rdm_counter_tracked",
	 run_counter,
	 {MAP, .counter = true, .selective = true, .fences = true},
	 ALWAYS},
	{"rdm_messages", run_messages, {MAP}, ALWAYS},
	{"rdm_volatile", run_volatile, {MAP}, ALWAYS},
	{0},
};
