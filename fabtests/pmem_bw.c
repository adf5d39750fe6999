/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem_bw.c -- how much can be written durably
 *
 * Up to a window of writes is outstanding; every so many of them is a commit,
 * which vouches for the writes before it.  Only commits give completions, so a
 * completion retires all writes up to its commit.  The time is from the first
 * call to the completion of the last commit.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "stats.h"

static const struct program program = {
	.name = "fi_pmem_bw",
	.summary = "Bandwidth of durable remote writes.",
	.letters = "pfdsBPMSIwWCvh",
	.operations = NULL,
};

/* Writes go round in so much memory, which holds a window of all but large sizes. */
#define MAX_MEMORY ((size_t) 64 << 20)

struct stream {
	struct bench *bench;
	size_t size;
	size_t slots;        /* places that the writes go to in turn */
	unsigned long count; /* writes to make */
	unsigned long posted;
	unsigned long retired;
	unsigned long commits;
};

static size_t slots_of(const struct options *opts, size_t size)
{
	size_t most = MAX_MEMORY / size;

	if (opts->window < most)
		return opts->window;
	return most ? most : 1;
}

/* commits_at -- is the n-th write (from 1 on) a commit?  The last one always is. */
static bool commits_at(const struct stream *stream, unsigned long n)
{
	return n % stream->bench->opts->every == 0 || n == stream->count;
}

/* next_retired -- how many writes the next completion vouches for */
static unsigned long next_retired(const struct stream *stream)
{
	unsigned long every = stream->bench->opts->every;
	unsigned long n = (stream->retired / every + 1) * every;

	return n < stream->count ? n : stream->count;
}

/* post -- one more write: 1, or 0 if the queue is full */
static int post(struct stream *stream)
{
	struct bench *bench = stream->bench;
	size_t offset = stream->posted % stream->slots * stream->size;
	bool commit = commits_at(stream, stream->posted + 1);
	ssize_t ret;

	ret = bench_write(bench, offset, stream->size,
			  commit ? FI_COMMIT_COMPLETE | FI_COMPLETION : 0);
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret)
		return report("fi_writemsg", ret);
	stream->posted++;
	stream->commits += commit;
	return 1;
}

/* retire -- what so many commits vouch for */
static void retire(struct stream *stream, unsigned long commits)
{
	for (; commits; commits--)
		stream->retired = next_retired(stream);
}

static int read_completions(struct stream *stream)
{
	struct fi_cq_data_entry entries[16];
	ssize_t ret;

	ret = fi_cq_read(stream->bench->conn.txcq, entries, 16);
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		return cq_report(stream->bench->conn.txcq);
	if (ret < 0)
		return report("fi_cq_read", ret);
	retire(stream, ret);
	return 0;
}

/* watch_clock -- now and then: is the target there, and does it get on? */
static int watch_clock(struct stream *stream, unsigned long *before, uint64_t *deadline)
{
	struct bench *bench = stream->bench;
	uint64_t now = now_ns();
	int ret;

	bench->others = 0;
	ret = bench_alive(bench, now);
	retire(stream, bench->others);
	if (ret)
		return ret;
	if (stream->retired != *before) {
		*before = stream->retired;
		*deadline = deadline_in(bench->opts->timeout);
	}
	if (now < *deadline)
		return 0;
	fprintf(stderr, "no completion in time\n");
	return -FI_ETIMEDOUT;
}

static int run_stream(struct stream *stream)
{
	unsigned long window = stream->bench->opts->window, before = 0, spins = 0;
	uint64_t deadline = deadline_in(stream->bench->opts->timeout);
	int ret = 0;

	while (stream->retired < stream->count) {
		ret = 1;
		while (ret > 0 && stream->posted < stream->count &&
		       stream->posted - stream->retired < window)
			ret = post(stream);
		if (ret >= 0)
			ret = read_completions(stream);
		if (ret >= 0 && ++spins % 4096 == 0)
			ret = watch_clock(stream, &before, &deadline);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* run_count -- so many writes of a size; the time they took */
static int run_count(struct stream *stream, unsigned long count, uint64_t *elapsed)
{
	uint64_t start = now_ns();
	int ret;

	stream->count = count;
	stream->posted = stream->retired = stream->commits = 0;
	ret = run_stream(stream);
	*elapsed = now_ns() - start;
	return ret;
}

/* written -- how much of the memory the last run has covered */
static size_t written(const struct stream *stream)
{
	size_t slots = stream->count < stream->slots ? stream->count : stream->slots;

	return slots * stream->size;
}

static int run_size(struct bench *bench, size_t size)
{
	const struct options *opts = bench->opts;
	struct stream stream = {.bench = bench, .size = size, .slots = slots_of(opts, size)};
	uint64_t elapsed;
	int ret;

	pattern_fill(bench->region.buf, bench->region.len, size, 0);
	ret = bench_clear(bench, bench->region.len);
	if (!ret)
		ret = run_count(&stream, opts->warmup, &elapsed);
	if (!ret)
		ret = run_count(&stream, opts->iterations, &elapsed);
	if (!ret && opts->verify)
		ret = bench_verify(bench, 0, written(&stream), size);
	if (!ret)
		print_bandwidth(size, stream.count, stream.commits, elapsed);
	return ret;
}

/* needed -- memory for the size that takes most of it */
static size_t needed(const struct options *opts)
{
	size_t most = 0, len;
	unsigned int i;

	for (i = 0; i < opts->nsizes; i++) {
		len = slots_of(opts, opts->sizes[i]) * opts->sizes[i];
		most = len > most ? len : most;
	}
	return most;
}

static int client(const struct options *opts)
{
	struct bench bench = {.opts = opts};
	unsigned int i;
	int ret;

	if (opts->window < opts->every) {
		fprintf(stderr, "the window (-W) has to hold a commit: at least -C %lu writes\n",
			opts->every);
		return -FI_EINVAL;
	}
	ret = bench_start(&bench, opts, 0, needed(opts));
	if (!ret)
		print_bandwidth_header();
	for (i = 0; !ret && i < opts->nsizes; i++)
		ret = run_size(&bench, opts->sizes[i]);
	return bench_end(&bench, ret);
}

int main(int argc, char **argv)
{
	struct options opts = {.iterations = 1000, .warmup = 100, .window = 64, .every = 1};

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	return (opts.dst_addr ? client(&opts) : bench_serve(&opts)) ? EXIT_FAILURE : EXIT_SUCCESS;
}
