/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_atomic.c -- atomics over FI_EP_RDM, and what of them is durable
 */
#include <string.h>
#include <time.h>

#include "rdm_functional.h"

static int run_atomic(struct client *client)
{
	bool safe = is_safe(client) || commit_all;
	uint64_t *operand = (uint64_t *) client->buf, *result = operand + 1;
	uint64_t flags = commit_all ? 0 : FI_COMMIT_COMPLETE;
	uint64_t before = 0;

	*operand = 5;
	/* Where nobody promises anything, all of them work. */
	if (!commit_all) {
		if (check(client, sum(client, 1, 0), 0, "fi_atomicmsg") ||
		    await(client, 1, FI_ATOMIC))
			return -1;
		before += 5;
	}
	if (check(client, fetch_sum(client, result, 1, flags), safe ? 0 : -FI_EOPNOTSUPP,
		  "a committed fi_fetch_atomicmsg"))
		return -1;
	if (safe && await(client, 1, FI_ATOMIC))
		return -1;
	if (safe && *result != before)
		return FAIL(client, "it fetched %llu", (unsigned long long) *result);
	if (safe && check(client, sum(client, 1, flags | FI_FENCE), -FI_EOPNOTSUPP,
			  "a fenced fi_atomicmsg"))
		return -1;
	/* Memory that is not persistent has nothing to do with it. */
	name_volatile(client);
	return check(client, sum(client, 1, 0), 0, "fi_atomicmsg") || await(client, 1, FI_ATOMIC);
}

/* The calls for atomics: each has its completion, or none, and the target what it should. */
static int run_atomics(struct client *client)
{
	uint64_t *word = (uint64_t *) client->buf, total = 0;
	uint64_t addr = client->offer.addr, key = client->offer.key;
	fi_addr_t to = client->server;
	struct fid_ep *ep = client->side.ep;
	void *desc = client->desc;
	struct fi_ioc ioc = {word, 1};
	ssize_t ret;

	memset(word, 0, 64);
	for (int n = 0; n < 30; n += 3, total += 4 * 7) {
		word[0] = 7;
		word[3] = total + 21;
		POST(client, ret,
		     fi_atomic(ep, word, 1, desc, to, addr, key, FI_UINT64, FI_SUM,
			       &client->contexts[n]));
		if (check(client, ret, 0, "fi_atomic") || await(client, n, FI_ATOMIC | FI_WRITE))
			return -1;
		POST(client, ret, fi_inject_atomic(ep, word, 1, to, addr, key, FI_UINT64, FI_SUM));
		if (check(client, ret, 0, "fi_inject_atomic"))
			return -1;
		POST(client, ret,
		     fi_fetch_atomicv(ep, &ioc, &desc, 1, &(struct fi_ioc){word + 1, 1}, &desc, 1,
				      to, addr, key, FI_UINT64, FI_SUM, &client->contexts[n + 1]));
		if (check(client, ret, 0, "fi_fetch_atomicv") ||
		    await(client, n + 1, FI_ATOMIC | FI_READ))
			return -1;
		if (word[1] != total + 14)
			return FAIL(client, "it fetched %llu", (unsigned long long) word[1]);
		word[0] = total + 28;
		POST(client, ret,
		     fi_compare_atomic(ep, word, 1, desc, word + 3, desc, word + 2, desc, to, addr,
				       key, FI_UINT64, FI_CSWAP, &client->contexts[n + 2]));
		if (check(client, ret, 0, "fi_compare_atomic") ||
		    await(client, n + 2, FI_ATOMIC | FI_READ))
			return -1;
		if (word[2] != word[3])
			return FAIL(client, "it was %llu", (unsigned long long) word[2]);
		if (expect_data(client, 0, 8, "the atomics' word"))
			return -1;
	}
	word[0] = 1;
	for (int n = 0; n < 50; n++) {
		POST(client, ret,
		     fi_atomic(ep, word, 1, desc, to, addr, key, FI_UINT64, FI_SUM,
			       &client->contexts[n]));
		if (check(client, ret, 0, "fi_atomic"))
			return -1;
	}
	for (int n = 0; n < 50; n++) {
		if (await(client, n, FI_ATOMIC))
			return -1;
	}
	word[0] = total + 50;
	return expect_data(client, 0, 8, "the sum") || expect_none(client);
}

/* Without an agent nothing says that an atomic is durable, and it does not complete as if. */
static int run_no_agent(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	ssize_t ret;

	if (is_safe(client))
		return FAIL(client, "memory of that kind needs none");
	POST(client, ret,
	     fi_atomic(client->side.ep, client->buf, 1, client->desc, client->server,
		       client->offer.addr, client->offer.key, FI_UINT64, FI_SUM,
		       &client->contexts[1]));
	if (check(client, ret, 0, "fi_atomic"))
		return -1;
	do
		ret = fi_cq_read(client->side.cq, &entry, 1);
	while (ret == -FI_EAGAIN && now_ns() < end);
	if (check(client, ret, -FI_EAVAIL, "its completion") ||
	    expect_error(client, 1, FI_EOPNOTSUPP))
		return -1;
	/* What needs no agent goes on without one. */
	if (client->attr.persist == PMV_DMP && !client->attr.ddio &&
	    (check(client,
		   writemsg(client, 64, 8, 2, FI_COMMIT_COMPLETE | FI_FENCE | FI_COMPLETION), 0,
		   "a fenced commit") ||
	     await(client, 2, WRITTEN)))
		return -1;
	return expect_none(client);
}

/* Completions only where they are asked for; at the region's end, beyond which nothing may be
 * named. */
static int run_atomics_selective(struct client *client)
{
	uint64_t *word = (uint64_t *) client->buf;

	client->offer.addr += SIZE - sizeof(*word);
	*word = 3;
	for (int n = 0; n < 20; n += 5) {
		for (int i = 0; i < 4; i++) {
			if (check(client, sum(client, n + i, 0), 0, "fi_atomicmsg"))
				return -1;
		}
		if (check(client, sum(client, n + 4, FI_COMPLETION), 0, "fi_atomicmsg") ||
		    await(client, n + 4, FI_ATOMIC))
			return -1;
	}
	word[SIZE / sizeof(*word) - 1] = 20 * 3;
	return expect_data(client, SIZE - sizeof(*word), sizeof(*word), "the sum") ||
	       expect_none(client);
}

/* What has arrived on a connection, and nobody has asked for, when it is closed. */
static int run_close_unread(struct client *client)
{
	const struct timespec arrival = {.tv_nsec = 200000000};

	if (connect_first(client))
		return -1;
	for (int n = 1; n < 31; n++) {
		if (check(client, sum(client, n, 0), 0, "fi_atomicmsg"))
			return -1;
	}
	nanosleep(&arrival, NULL);
	return 0;
}

const struct test rdm_atomic_cases[] = {
	{"rdm_atomic", run_atomic, {MAP}, ALWAYS},
	{"rdm_atomics", run_atomics, {MAP}, ALWAYS},
	{"rdm_atomics_tracked", run_atomics, {MAP, .fences = true}, ALWAYS},
	{"rdm_atomics_selective_tracked",
	 run_atomics_selective,
	 {MAP, .selective = true, .fences = true},
	 ALWAYS},
	{"rdm_atomics_sread", run_atomics, {MAP, .waits = true}, ALWAYS},
	{"rdm_atomics_selective", run_atomics_selective, {MAP, .selective = true}, ALWAYS},
	{"rdm_no_agent", run_no_agent, {MAP}, NO_AGENT},
	{"rdm_close_unread", run_close_unread, {MAP}, ALWAYS},
	{"rdm_close_unread_tracked", run_close_unread, {MAP, .fences = true}, ALWAYS},
	{0},
};
