/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_lat.c -- how long one durable write takes
 *
 * One operation is outstanding at a time; its time is from before the call that
 * posts it to its completion.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "../common/stats.h"

static const struct program program = {
	.name = "fi_pmem_lat",
	.summary = "Latency of durable remote writes.",
	.letters = "pfdsBPMSIwicTxvoh",
	.lists = true,
	.operations = "commit: write with FI_COMMIT_COMPLETE (default); write: plain; "
		      "deliver: write with FI_DELIVERY_COMPLETE; "
		      "commit-immed: and FI_REMOTE_CQ_DATA; "
		      "fenced-pair: record, then fenced commit of 8 bytes behind it; "
		      "write-read: write, and read of a byte of it, by this program; with -p and "
		      "the core on both sides: the least that a layer above can take",
};

enum { OP_COMMIT, OP_WRITE, OP_DELIVER, OP_COMMIT_IMMED, OP_FENCED_PAIR, OP_WRITE_READ };

static const char *const operations[] = {"commit",      "write",      "deliver", "commit-immed",
					 "fenced-pair", "write-read", NULL};

/* The tail of a fenced pair stands at the next multiple of 8 behind the record. */
static size_t tail_offset(size_t size)
{
	return (size + 7) / 8 * 8;
}

/* operate -- one iteration */
static int operate(struct bench *bench, int op, size_t size)
{
	uint64_t flags = FI_COMPLETION;
	ssize_t ret = 0;

	if (op == OP_DELIVER)
		flags |= FI_DELIVERY_COMPLETE;
	else if (op != OP_WRITE && op != OP_WRITE_READ)
		flags |= FI_COMMIT_COMPLETE;
	if (op == OP_COMMIT_IMMED)
		flags |= FI_REMOTE_CQ_DATA;
	if (op == OP_FENCED_PAIR) {
		ret = bench_write(bench, 0, size, FI_MORE, bench);
		if (!ret)
			ret = bench_write(bench, tail_offset(size), 8, flags | FI_FENCE, bench);
	} else if (op == OP_WRITE_READ) {
		ret = bench_write(bench, 0, size, 0, bench);
		if (!ret)
			ret = bench_read(bench, 0, bench);
	} else {
		ret = bench_write(bench, 0, size, flags, bench);
	}
	return ret ? report("fi_writemsg", ret) : bench_wait(bench);
}

static void pause_for(unsigned long us)
{
	const struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	nanosleep(&ts, NULL);
}

/* run_loop -- up to n samples, as many as the limit leaves time for, but one at least */
static int run_loop(struct bench *bench, struct measured *row, int op, unsigned long n)
{
	uint64_t limit = bench->opts->limit * 1000000, start = now_ns(), first = start, end = start;
	int ret;

	for (row->count = 0; row->count < n; row->count++) {
		if (row->count && limit && end - first > limit)
			break;
		if (row->pause) {
			pause_for(row->pause);
			start = now_ns();
		}
		ret = operate(bench, op, row->bytes);
		if (ret)
			return ret;
		end = now_ns();
		row->samples[row->count] = end - start;
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

static int run_row(struct bench *bench, int op, struct measured *row)
{
	const struct options *opts = bench->opts;
	unsigned long warmed;
	int ret;

	pattern_fill(bench->region.buf, bench->region.len, row->bytes, 0);
	ret = bench_clear(bench, bench->region.len);
	if (!ret)
		ret = run_loop(bench, row, op, opts->warmup);
	warmed = row->count;
	if (!ret)
		ret = run_loop(bench, row, op, opts->iterations);
	if (!ret)
		ret = verify(bench, op, row->bytes, warmed + row->count);
	if (ret)
		return ret;
	print_latency(row);
	return append_csv(opts->csv, opts->prog, row) ? -FI_EIO : 0;
}

static int run_all(struct bench *bench, int op, uint64_t *samples)
{
	const struct options *opts = bench->opts;
	struct measured row = {
		.provider = opts->provider,
		.operation = operations[op],
		.in_flight = 1,
		.threads = 1,
		.samples = samples,
	};
	unsigned int i, k;
	int ret;

	ret = bench_start(bench, NULL, opts, op == OP_FENCED_PAIR ? FI_FENCE : 0,
			  tail_offset(options_largest(opts)) + 8);
	if (!ret)
		print_latency_header();
	for (k = 0; !ret && k < opts->npauses; k++) {
		if (opts->npauses > 1)
			printf("after pauses of %lu us:\n", opts->pauses[k]);
		for (i = 0; !ret && i < opts->nsizes; i++) {
			row.pause = opts->pauses[k];
			row.bytes = opts->sizes[i];
			ret = run_row(bench, op, &row);
		}
	}
	return bench_end(bench, 1, ret);
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
