/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem_lat.c -- how long one durable write takes
 *
 * One operation is outstanding at a time; its time is from before the call that
 * posts it to its completion.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "stats.h"

static const struct program program = {
	.name = "fi_pmem_lat",
	.summary = "Latency of durable remote writes.",
	.letters = "pfdsBPMSIwicvoh",
	.operations = "commit: write with FI_COMMIT_COMPLETE (default); write: plain; "
		      "commit-immed: and FI_REMOTE_CQ_DATA; "
		      "fenced-pair: record, then fenced commit of 8 bytes behind it; "
		      "write-read: write, and read of a byte of it, by this program; on both "
		      "sides with -p and the core: what a layer above that can't go below",
};

enum { OP_COMMIT, OP_WRITE, OP_COMMIT_IMMED, OP_FENCED_PAIR, OP_WRITE_READ };

static const char *const operations[] = {"commit",      "write",      "commit-immed",
					 "fenced-pair", "write-read", NULL};

/* The tail of a fenced pair stands at the next multiple of 8 behind the record. */
static size_t tail_offset(size_t size)
{
	return (size + 7) / 8 * 8;
}

static ssize_t post_read(struct bench *bench)
{
	struct iovec iov = {bench->messages, 1};
	struct fi_rma_iov rma_iov = {bench->addr, 1, bench->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &bench->message_region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = bench,
	};

	return fi_readmsg(bench->conn.ep, &msg, FI_COMPLETION);
}

/* operate -- one iteration */
static int operate(struct bench *bench, int op, size_t size)
{
	uint64_t flags = FI_COMPLETION;
	ssize_t ret = 0;

	if (op != OP_WRITE && op != OP_WRITE_READ)
		flags |= FI_COMMIT_COMPLETE;
	if (op == OP_COMMIT_IMMED)
		flags |= FI_REMOTE_CQ_DATA;
	if (op == OP_FENCED_PAIR) {
		ret = bench_write(bench, 0, size, 0);
		if (!ret)
			ret = bench_write(bench, tail_offset(size), 8, flags | FI_FENCE);
	} else if (op == OP_WRITE_READ) {
		ret = bench_write(bench, 0, size, 0);
		if (!ret)
			ret = post_read(bench);
	} else {
		ret = bench_write(bench, 0, size, flags);
	}
	return ret ? report("fi_writemsg", ret) : bench_wait(bench);
}

static void pause_for(unsigned long us)
{
	const struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	nanosleep(&ts, NULL);
}

static int run_loop(struct bench *bench, int op, size_t size, uint64_t *samples, unsigned long n)
{
	uint64_t start = now_ns();
	unsigned long i;
	uint64_t end;
	int ret;

	for (i = 0; i < n; i++) {
		if (bench->opts->pause) {
			pause_for(bench->opts->pause);
			start = now_ns();
		}
		ret = operate(bench, op, size);
		if (ret)
			return ret;
		end = now_ns();
		samples[i] = end - start;
		ret = bench_alive(bench, end);
		if (ret)
			return ret;
		start = now_ns();
	}
	return 0;
}

/* verify -- what the target got last; immediates are counted in any case */
static int verify(struct bench *bench, int op, size_t size, unsigned long count)
{
	int ret = 0;

	if (op == OP_COMMIT_IMMED)
		ret = bench_count(bench, count);
	if (!ret && bench->opts->verify)
		ret = bench_verify(bench, 0, size, size);
	if (!ret && bench->opts->verify && op == OP_FENCED_PAIR)
		ret = bench_verify(bench, tail_offset(size), 8, size);
	return ret;
}

static int run_size(struct bench *bench, int op, size_t size, uint64_t *samples)
{
	const struct options *opts = bench->opts;
	int ret;

	pattern_fill(bench->region.buf, bench->region.len, size, 0);
	ret = bench_clear(bench, bench->region.len);
	if (!ret)
		ret = run_loop(bench, op, size, samples, opts->warmup);
	if (!ret)
		ret = run_loop(bench, op, size, samples, opts->iterations);
	if (!ret)
		ret = verify(bench, op, size, opts->warmup + opts->iterations);
	if (!ret)
		print_latency(size, samples, opts->iterations);
	return ret;
}

static int run_all(struct bench *bench, int op, uint64_t *samples)
{
	unsigned int i;
	int ret;

	ret = bench_start(bench, bench->opts, op == OP_FENCED_PAIR ? FI_FENCE : 0,
			  tail_offset(options_largest(bench->opts)) + 8);
	if (!ret)
		print_latency_header();
	for (i = 0; !ret && i < bench->opts->nsizes; i++)
		ret = run_size(bench, op, bench->opts->sizes[i], samples);
	return bench_end(bench, ret);
}

static int client(const struct options *opts)
{
	unsigned long most = opts->iterations > opts->warmup ? opts->iterations : opts->warmup;
	struct bench bench = {.opts = opts};
	int op = options_op(opts, operations);
	uint64_t *samples;
	int ret;

	if (op < 0)
		return -FI_EINVAL;
	samples = calloc(most, sizeof(*samples));
	if (!samples)
		return report("calloc", -FI_ENOMEM);
	ret = run_all(&bench, op, samples);
	free(samples);
	return ret;
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100};

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (options_op(&opts, operations) < 0)
		return EXIT_USAGE;
	return (opts.dst_addr ? client(&opts) : bench_serve(&opts)) ? EXIT_FAILURE : EXIT_SUCCESS;
}
