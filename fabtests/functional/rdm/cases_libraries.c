/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_libraries.c -- the calls that libraries that others wrote make over FI_EP_RDM
 *
 * They know nothing of persistent memory.  With FI_PMEMVERBS_COMMIT=all what they wait for
 * is durable all the same: the counter of their puts, or a completion.
 */
#include <string.h>

#include "rdm_functional.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Their sources are neither registered nor kept. */
static char scratch[4096];

static ssize_t put_message(struct client *client, size_t offset, size_t len, void *context,
			   uint64_t flags)
{
	struct iovec iov = {client->buf + offset, len};
	struct fi_rma_iov rma_iov = {client->offer.addr + offset, len, client->offer.key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = context,
	};
	ssize_t ret;

	POST(client, ret, fi_writemsg(client->side.ep, &msg, flags));
	return ret;
}

/* ---- Sandia OpenSHMEM ---- */

/* A scalar, and whatever can be injected. */
static ssize_t put_scalar(struct client *client, size_t offset, size_t len)
{
	ssize_t ret;

	memcpy(scratch, client->buf + offset, len);
	POST(client, ret,
	     fi_inject_write(client->side.ep, scratch, len, client->server,
			     client->offer.addr + offset, client->offer.key));
	memset(scratch, 0, len);
	return ret;
}

/* What is larger goes from the application's memory. */
static ssize_t put_large(struct client *client, size_t offset, size_t len)
{
	ssize_t ret;

	POST(client, ret,
	     fi_write(client->side.ep, client->buf + offset, len, NULL, client->server,
		      client->offer.addr + offset, client->offer.key, NULL));
	return ret;
}

/* A copy in a bounce buffer, which the completion gives back. */
static ssize_t put_bounce(struct client *client, size_t offset, size_t len)
{
	return put_message(client, offset, len, &client->contexts[1],
			   FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

/* With a signal behind it. */
static ssize_t put_signal_small(struct client *client, size_t offset, size_t len)
{
	return put_message(client, offset, len, client->buf, FI_DELIVERY_COMPLETE | FI_INJECT);
}

static ssize_t put_signal_large(struct client *client, size_t offset, size_t len)
{
	return put_message(client, offset, len, client->buf, FI_DELIVERY_COMPLETE);
}

/* Each kind of put, while the target is stopped: quiet waits for it. */
static int run_sos_puts(struct client *client)
{
	static const struct {
		const char *name;
		ssize_t (*post)(struct client *client, size_t offset, size_t len);
		size_t len;
		bool completes; /* and is not only counted */
	} puts[] = {
		{"a scalar put", put_scalar, 8, false},
		{"an injected put", put_scalar, 16, false},
		{"a put from a bounce buffer", put_bounce, 2000, true},
		{"a large put", put_large, 100000, false},
		{"a small put with a signal", put_signal_small, 16, false},
		{"a large put with a signal", put_signal_large, 5000, false},
	};
	uint64_t before, count = 1;

	pattern_fill(client->buf, SIZE, 21, 0);
	if (connect_first(client) || counted(client, count))
		return -1;
	before = count_commits(client);
	for (size_t i = 0; i < COUNT(puts); i++) {
		size_t offset = 8 * (i + 1);

		if (stop_server(client) ||
		    check(client, puts[i].post(client, offset, puts[i].len), 0, puts[i].name) ||
		    expect_waits(client, counted, ++count, puts[i].name) ||
		    (puts[i].completes && await(client, 1, 0)) ||
		    expect_data(client, offset, puts[i].len, puts[i].name))
			return -1;
	}
	if (count_commits(client) - before != COUNT(puts))
		return FAIL(client, "not every put was committed");
	return expect_none(client);
}

/* Many at a time, and one quiet: it polls the counter, or sleeps, and looks for errors. */
static int run_sos_quiet(struct client *client)
{
	enum { PUTS = 500, LEN = 200, STRIDE = 256 };
	struct fi_cq_err_entry error = {0};
	uint64_t count = 0;

	for (int round = 0; round < 4; round++) {
		pattern_fill(client->buf, SIZE, (uint64_t) round, 0);
		for (size_t i = 0; i < PUTS; i++, count++) {
			size_t offset = i * STRIDE;
			ssize_t ret = i % 2 ? put_large(client, offset, LEN)
					    : put_scalar(client, offset, 16);

			if (check(client, ret, 0, "a put"))
				return -1;
		}
		if (check(client, fi_cq_readerr(client->side.cq, &error, 0), -FI_EAGAIN,
			  "fi_cq_readerr without an error"))
			return -1;
		if (round % 2 &&
		    check(client, fi_cntr_wait(client->side.cntr, count, 60000), 0, "fi_cntr_wait"))
			return -1;
		if (counted(client, count) ||
		    expect_data(client, (PUTS - 1) * STRIDE, LEN, "the last put"))
			return -1;
	}
	return expect_none(client);
}

static int got(struct client *client, uint64_t count)
{
	int ret = fi_cntr_wait(client->side.get_cntr, count, 60000);

	return ret ? FAIL(client, "waiting for a get: %s", fi_strerror(-ret)) : 0;
}

static int run_sos_get(struct client *client)
{
	static char room[65536];
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 22, 0);
	if (check(client, put_large(client, 0, sizeof(room)), 0, "a put") || counted(client, 1))
		return -1;
	POST(client, ret,
	     fi_read(client->side.ep, room, sizeof(room), NULL, client->server, client->offer.addr,
		     client->offer.key, NULL));
	if (check(client, ret, 0, "a get") || got(client, 1))
		return -1;
	if (memcmp(room, client->buf, sizeof(room)))
		return FAIL(client, "a get is wrong");
	/* The symmetric data are no heap: nothing has to be durable there. */
	name_volatile(client);
	return check(client, put_scalar(client, 0, 8), 0, "a put to the data") ||
	       counted(client, 2) || expect_none(client);
}

/* What it wants to know before it starts, of all types that are needed. */
static int run_sos_atomicvalid(struct client *client)
{
	static const enum fi_datatype types[] = {FI_INT32,  FI_UINT32, FI_INT64,
						 FI_UINT64, FI_FLOAT,  FI_DOUBLE};
	struct fid_ep *ep = client->side.ep;
	size_t count;

	for (size_t i = 0; i < COUNT(types); i++) {
		enum fi_datatype type = types[i];

		if (check(client, fi_atomicvalid(ep, type, FI_SUM, &count), 0, "FI_SUM") ||
		    check(client, fi_atomicvalid(ep, type, FI_ATOMIC_WRITE, &count), 0,
			  "FI_ATOMIC_WRITE") ||
		    check(client, fi_fetch_atomicvalid(ep, type, FI_SUM, &count), 0,
			  "fetching FI_SUM") ||
		    check(client, fi_fetch_atomicvalid(ep, type, FI_ATOMIC_READ, &count), 0,
			  "FI_ATOMIC_READ") ||
		    check(client, fi_fetch_atomicvalid(ep, type, FI_ATOMIC_WRITE, &count), 0,
			  "fetching FI_ATOMIC_WRITE") ||
		    check(client, fi_compare_atomicvalid(ep, type, FI_CSWAP, &count), 0,
			  "FI_CSWAP"))
			return -1;
	}
	return check(client, fi_compare_atomicvalid(ep, FI_INT32, FI_MSWAP, &count), 0, "FI_MSWAP");
}

/* What an atomic on the first word is made of. */
struct word {
	struct fi_ioc ioc;
	struct fi_rma_ioc rma_ioc;
	struct fi_msg_atomic msg;
};

static struct fi_msg_atomic *word_msg(struct client *client, struct word *word, uint64_t *operand,
				      enum fi_op op)
{
	*word = (struct word){
		.ioc = {operand, 1},
		.rma_ioc = {client->offer.addr, 1, client->offer.key},
		.msg = {.iov_count = 1, .rma_iov_count = 1, .datatype = FI_UINT64},
	};
	word->msg.msg_iov = &word->ioc;
	word->msg.rma_iov = &word->rma_ioc;
	word->msg.addr = client->server;
	word->msg.op = op;
	word->msg.context = operand;
	return &word->msg;
}

/* fetch -- with the operand injected, and no operand at all for FI_ATOMIC_READ */
static ssize_t fetch(struct client *client, uint64_t *operand, enum fi_op op, uint64_t *result)
{
	struct fi_ioc result_ioc = {result, 1};
	struct word word;
	ssize_t ret;

	POST(client, ret,
	     fi_fetch_atomicmsg(client->side.ep, word_msg(client, &word, operand, op), &result_ioc,
				NULL, 1, FI_INJECT));
	return ret;
}

static ssize_t add(struct client *client, uint64_t operand)
{
	ssize_t ret;

	POST(client, ret,
	     fi_inject_atomic(client->side.ep, &operand, 1, client->server, client->offer.addr,
			      client->offer.key, FI_UINT64, FI_SUM));
	return ret;
}

static ssize_t fetch_add(struct client *client, uint64_t *operand, uint64_t *result)
{
	ssize_t ret;

	POST(client, ret,
	     fi_fetch_atomic(client->side.ep, operand, 1, NULL, result, NULL, client->server,
			     client->offer.addr, client->offer.key, FI_UINT64, FI_SUM, NULL));
	return ret;
}

static ssize_t compare_swap(struct client *client, uint64_t *operand, uint64_t *compare,
			    uint64_t *result)
{
	ssize_t ret;

	POST(client, ret,
	     fi_compare_atomic(client->side.ep, operand, 1, NULL, compare, NULL, result, NULL,
			       client->server, client->offer.addr, client->offer.key, FI_UINT64,
			       FI_CSWAP, NULL));
	return ret;
}

static ssize_t signal_peer(struct client *client, uint64_t value, uint64_t flags)
{
	struct word word;
	ssize_t ret;

	POST(client, ret,
	     fi_atomicmsg(client->side.ep, word_msg(client, &word, &value, FI_ATOMIC_WRITE),
			  FI_DELIVERY_COMPLETE | FI_INJECT | flags));
	return ret;
}

/* Where the target's caches do not persist, an atomic that is only counted is refused. */
static int run_sos_atomics(struct client *client)
{
	uint64_t operand = 5, compare = 10, swap = 77, result = 1;

	memset(client->buf, 0, 8);
	if (connect_first(client) || stop_server(client) ||
	    check(client, add(client, 5), is_safe(client) ? 0 : -FI_EOPNOTSUPP, "an atomic"))
		return -1;
	if (!is_safe(client))
		return go_on(client) ||
		       check(client, fetch(client, NULL, FI_ATOMIC_READ, &result), 0,
			     "an atomic read") ||
		       got(client, 1) || expect_none(client);
	/* The target's processor executes it. */
	if (expect_stuck(client, "an atomic") || go_on(client) || counted(client, 2) ||
	    check(client, fetch_add(client, &operand, &result), 0, "fi_fetch_atomic") ||
	    got(client, 1))
		return -1;
	if (result != 5)
		return FAIL(client, "it fetched %llu", (unsigned long long) result);
	if (check(client, compare_swap(client, &swap, &compare, &result), 0, "fi_compare_atomic") ||
	    got(client, 2) ||
	    check(client, fetch(client, &operand, FI_SUM, &result), 0, "fi_fetch_atomicmsg") ||
	    got(client, 3))
		return -1;
	if (result != 77)
		return FAIL(client, "it fetched %llu", (unsigned long long) result);
	if (check(client, fetch(client, NULL, FI_ATOMIC_READ, &result), 0, "an atomic read") ||
	    got(client, 4))
		return -1;
	if (result != 82)
		return FAIL(client, "it read %llu", (unsigned long long) result);
	memcpy(client->buf, &(uint64_t){99}, 8);
	return check(client, put_signal_large(client, 64, 5000), 0, "a put") ||
	       counted(client, 3) || check(client, signal_peer(client, 99, 0), 0, "a signal") ||
	       counted(client, 4) || expect_data(client, 0, 8, "a signal") ||
	       check(client, signal_peer(client, 99, FI_FENCE), -FI_EOPNOTSUPP,
		     "a fenced signal") ||
	       expect_none(client);
}

/* What a process puts into its own heap takes the same way. */
static int run_sos_self(struct client *client)
{
	struct fid_ep *ep = client->side.ep;
	uint64_t *word = (uint64_t *) client->buf, before = 0;
	struct fid_mr *mr;
	ssize_t ret;

	*word = 0;
	if (side_register(&client->side, client->buf, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
			  &mr))
		return FAIL(client, "registering failed");
	client->mr = mr;
	if (write_to_itself(client))
		return -1;
	client->offer.key = fi_mr_key(mr);
	client->offer.addr = (client->side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
				     ? (uintptr_t) client->buf
				     : 0;
	*(uint64_t *) scratch = 7;
	POST(client, ret,
	     fi_inject_write(ep, scratch, 8, client->server, client->offer.addr,
			     client->offer.key));
	if (check(client, ret, 0, "a put") || counted(client, 1))
		return -1;
	if (check(client, add(client, 5), 0, "an atomic") || counted(client, 2) ||
	    check(client, fetch(client, NULL, FI_ATOMIC_READ, &before), 0, "an atomic read") ||
	    got(client, 1))
		return -1;
	return *word != 12 || before != 12
		       ? FAIL(client, "there is %llu", (unsigned long long) *word)
		       : expect_none(client);
}

/* ---- OpenFAM ---- */

static int run_openfam(struct client *client)
{
	uint64_t count = 1;
	char *buf = client->buf;

	pattern_fill(buf, SIZE, 23, 0);
	if (connect_first(client) || stop_server(client))
		return -1;
	/* One that blocks waits for its completion, the others for the counter. */
	if (check(client,
		  put_message(client, 0, 10000, &client->contexts[1],
			      FI_COMPLETION | FI_DELIVERY_COMPLETE),
		  0, "a put that blocks") ||
	    expect_waits(client, written, 1, "a put that blocks") || counted(client, ++count) ||
	    stop_server(client) ||
	    check(client, put_message(client, 10000, 10000, NULL, 0), 0, "a put") ||
	    expect_waits(client, counted, ++count, "a put") ||
	    expect_data(client, 0, 20000, "puts"))
		return -1;
	for (size_t i = 0; i < 500; i++) {
		if (check(client, put_message(client, 20000 + 100 * i, 100, NULL, 0), 0, "a put"))
			return -1;
	}
	return counted(client, count + 500) || expect_data(client, 20000, 50000, "many puts") ||
	       expect_none(client);
}

/* scatter -- as many pieces in a call as fi_getinfo said; returns how many */
static ssize_t scatter(struct client *client, size_t offset)
{
	struct iovec iov[8];
	struct fi_rma_iov rma_iov[8];
	size_t limit = client->side.info->tx_attr->rma_iov_limit;
	struct fi_msg_rma msg = {
		.msg_iov = iov,
		.iov_count = limit < COUNT(iov) ? limit : COUNT(iov),
		.addr = client->server,
		.rma_iov = rma_iov,
		.rma_iov_count = limit < COUNT(iov) ? limit : COUNT(iov),
	};
	ssize_t ret;

	for (size_t i = 0; i < msg.iov_count; i++) {
		size_t at = offset + 200 * i;

		iov[i] = (struct iovec){client->buf + at, 100};
		rma_iov[i] = (struct fi_rma_iov){client->offer.addr + at, 100, client->offer.key};
	}
	POST(client, ret, fi_writemsg(client->side.ep, &msg, 0));
	return ret ? ret : (ssize_t) msg.iov_count;
}

/* A fence is a fenced write of a few bytes to memory of its own. */
static ssize_t fence(struct client *client)
{
	struct iovec iov = {client->buf, 10};
	struct fi_rma_iov rma_iov = {client->offer.volatile_addr, 10, client->offer.volatile_key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = client->server,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = &client->contexts[1],
	};
	ssize_t ret;

	POST(client, ret, fi_writemsg(client->side.ep, &msg, FI_FENCE));
	return ret;
}

static int run_openfam_scatter(struct client *client)
{
	uint64_t count = 1;
	ssize_t pieces;

	pattern_fill(client->buf, SIZE, 24, 0);
	if (connect_first(client) || stop_server(client))
		return -1;
	pieces = scatter(client, 1000);
	if (pieces <= 0)
		return check(client, pieces, 1, "a scatter");
	if (expect_waits(client, counted, ++count, "a scatter"))
		return -1;
	for (size_t i = 0; i < (size_t) pieces; i++) {
		if (expect_data(client, 1000 + 200 * i, 100, "a piece"))
			return -1;
	}
	for (size_t i = 0; i < 20; i++) {
		if (check(client, put_message(client, 8192 + 100 * i, 100, NULL, 0), 0, "a put") ||
		    check(client, fence(client), 0, "a fence"))
			return -1;
	}
	return counted(client, count + 40) || expect_data(client, 8192, 2000, "puts") ||
	       expect_none(client);
}

/* Those that return something block; the others are counted. */
static int run_openfam_atomics(struct client *client)
{
	uint64_t operand = 5, compare = 10, result = 1;
	struct fi_ioc result_ioc = {&result, 1}, compare_ioc = {&compare, 1};
	struct fid_ep *ep = client->side.ep;
	struct word word;
	ssize_t ret;

	memset(client->buf, 0, 8);
	if (connect_first(client))
		return -1;
	POST(client, ret, fi_atomicmsg(ep, word_msg(client, &word, &operand, FI_SUM), FI_INJECT));
	if (check(client, ret, is_safe(client) ? 0 : -FI_EOPNOTSUPP, "fi_atomicmsg"))
		return -1;
	if (!is_safe(client))
		return expect_none(client);
	if (counted(client, 2))
		return -1;
	word_msg(client, &word, &operand, FI_SUM)->context = &client->contexts[2];
	POST(client, ret, fi_fetch_atomicmsg(ep, &word.msg, &result_ioc, NULL, 1, FI_COMPLETION));
	if (check(client, ret, 0, "fi_fetch_atomicmsg") || await(client, 2, FI_ATOMIC | FI_READ) ||
	    got(client, 1))
		return -1;
	if (result != 5)
		return FAIL(client, "it fetched %llu", (unsigned long long) result);
	word_msg(client, &word, &operand, FI_CSWAP)->context = &client->contexts[3];
	POST(client, ret,
	     fi_compare_atomicmsg(ep, &word.msg, &compare_ioc, NULL, 1, &result_ioc, NULL, 1,
				  FI_COMPLETION));
	if (check(client, ret, 0, "fi_compare_atomicmsg") ||
	    await(client, 3, FI_ATOMIC | FI_READ) || got(client, 2))
		return -1;
	memcpy(client->buf, &operand, 8);
	return result != 10 ? FAIL(client, "it was %llu", (unsigned long long) result)
			    : expect_data(client, 0, 8, "what was swapped") || expect_none(client);
}

/* ---- what their other builds ask for ---- */

static int expect_refused(struct client *client, enum library library, uint64_t caps, int mr_mode,
			  const char *what)
{
	struct fi_info *hints = library_hints(client->opts, library);
	struct fi_info *info = NULL;
	int ret = -FI_ENOMEM;

	if (hints) {
		hints->caps |= caps;
		hints->domain_attr->mr_mode = mr_mode;
		ret = fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &info);
		fi_freeinfo(hints);
	}
	fi_freeinfo(info);
	return check(client, ret, -FI_ENODATA, what);
}

static int run_refused(struct client *client)
{
	int mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

	return expect_refused(client, SOS, 0, 0, "keys of the application's") ||
	       expect_refused(client, SOS, 0, FI_MR_RMA_EVENT, "FI_MR_RMA_EVENT") ||
	       expect_refused(client, SOS, FI_RMA_EVENT, mr_mode, "a counter at the target") ||
	       expect_refused(client, OPENFAM, FI_RMA_EVENT, 0, "a provider of unknown name");
}

const struct test rdm_library_cases[] = {
	{"sos_puts", run_sos_puts, {.library = SOS}, COMMIT_ALL},
	{"sos_puts_contexts", run_sos_puts, {.library = SOS_CONTEXTS}, COMMIT_ALL},
	{"sos_quiet", run_sos_quiet, {.library = SOS}, COMMIT_ALL},
	{"sos_quiet_contexts", run_sos_quiet, {.library = SOS_CONTEXTS}, COMMIT_ALL},
	{"sos_get", run_sos_get, {.library = SOS}, COMMIT_ALL},
	{"sos_atomicvalid", run_sos_atomicvalid, {.library = SOS}, COMMIT_ALL},
	{"sos_atomics", run_sos_atomics, {.library = SOS}, COMMIT_ALL},
	{"sos_atomics_contexts", run_sos_atomics, {.library = SOS_CONTEXTS}, COMMIT_ALL},
	{"sos_self", run_sos_self, {.library = SOS}, COMMIT_ALL},
	{"openfam_puts", run_openfam, {.library = OPENFAM}, COMMIT_ALL},
	{"openfam_scatter", run_openfam_scatter, {.library = OPENFAM}, COMMIT_ALL},
	{"openfam_atomics", run_openfam_atomics, {.library = OPENFAM}, COMMIT_ALL},
	{"library_refused", run_refused, {MAP}, COMMIT_ALL},
	{0},
};
