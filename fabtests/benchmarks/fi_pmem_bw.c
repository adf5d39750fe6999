/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_bw.c -- how much can be written durably
 *
 * Up to a window of writes is outstanding; every so many of them is a commit,
 * which vouches for the writes before it.  Only commits give completions, so a
 * completion retires all writes up to its commit.  The time is from the first
 * call to the completion of the last commit.
 *
 * With -n there are so many connections, and each has a thread here and one at the
 * target.  They share the domain.  A row is about all of them together.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "../common/stats.h"

static const struct program program = {
	.name = "fi_pmem_bw",
	.summary = "Bandwidth of durable remote writes.",
	.letters = "pfdsBPMSIwWCncTxvoh",
	.lists = true,
	.operations = "commit: -C counts commits (default); deliver: the same with "
		      "FI_DELIVERY_COMPLETE instead; write-read: a plain write and a read of a "
		      "byte of it, by this program: the most that a layer above can reach; "
		      "append: -C counts records, and the log's tail is written behind one, "
		      "fenced, with FI_OPT_PMEMVERBS_WRITES_PASS; append-ordered: without that",
};

enum { OP_COMMIT, OP_DELIVER, OP_WRITE_READ, OP_APPEND, OP_APPEND_ORDERED };

static const char *const operations[] = {"commit", "deliver",        "write-read",
					 "append", "append-ordered", NULL};

/* Writes go round in so much memory, which holds a window of all but large sizes. */
#define MAX_MEMORY ((size_t) 64 << 20)

/* Behind that is the tail of a log. */
#define TAIL_SIZE sizeof(uint64_t)

#define MAX_CONNECTIONS 64

struct stream {
	struct run *run;
	struct bench *bench;
	pthread_t thread;
	size_t slots;        /* places that the writes go to in turn */
	unsigned long count; /* writes to make; less when time is up */
	unsigned long posted;
	unsigned long retired;
	unsigned long commits;
	bool owes_second;    /* the write is posted, the read or the tail behind it is not */
	uint64_t *posted_at; /* of what is outstanding: by its place in the window */
	uint64_t *samples;
	size_t nsamples;
	uint64_t start, end;
};

/* What the threads share: they do the same row at a time */
struct run {
	const struct options *opts;
	int op;
	size_t size;
	unsigned long window;
	struct bench *benches;
	struct stream *streams;
	uint64_t *samples;
	pthread_barrier_t barrier;
	atomic_int ret; /* the first error: all threads end behind the next barrier */
};

static size_t slots_of(unsigned long window, size_t size)
{
	size_t most = MAX_MEMORY / size;

	if (window < most)
		return window;
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

static ssize_t post_second(const struct stream *stream, size_t offset, void *context)
{
	const struct run *run = stream->run;

	if (run->op == OP_WRITE_READ)
		return bench_read(stream->bench, offset, context);
	return bench_write(stream->bench, stream->slots * run->size, TAIL_SIZE,
			   FI_COMMIT_COMPLETE | FI_FENCE | FI_COMPLETION, context);
}

static ssize_t post_commit(struct stream *stream, size_t offset, void *context)
{
	const struct run *run = stream->run;
	uint64_t flags = run->op == OP_COMMIT ? FI_COMMIT_COMPLETE : FI_DELIVERY_COMPLETE;
	ssize_t ret;

	if (run->op < OP_WRITE_READ)
		return bench_write(stream->bench, offset, run->size, flags | FI_COMPLETION,
				   context);
	ret = stream->owes_second ? 0
				  : bench_write(stream->bench, offset, run->size, FI_MORE, context);
	if (ret)
		return ret;
	ret = post_second(stream, offset, context);
	stream->owes_second = ret == -FI_EAGAIN;
	return ret;
}

/* post -- one more write: 1, or 0 if the queue is full */
static int post(struct stream *stream)
{
	size_t offset = stream->posted % stream->slots * stream->run->size;
	uint64_t *at = &stream->posted_at[stream->posted % stream->run->window];
	bool commit = commits_at(stream, stream->posted + 1);
	ssize_t ret;

	if (!stream->owes_second)
		*at = now_ns();
	if (commit)
		ret = post_commit(stream, offset, at);
	else
		ret = bench_write(stream->bench, offset, stream->run->size, 0, at);
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret)
		return report("fi_writemsg", ret);
	stream->posted++;
	stream->commits += commit;
	return 1;
}

/* retire -- what a commit vouches for: context is where the time is at which it was posted */
static void retire(struct stream *stream, void *context)
{
	const uint64_t *posted_at = context;

	stream->retired = next_retired(stream);
	stream->samples[stream->nsamples++] = now_ns() - *posted_at;
}

static void retire_other(struct bench *bench, void *context)
{
	retire(bench->user, context);
}

/* must_wait -- nothing can be posted before something has completed: then it may sleep, if it is to
 */
static bool must_wait(const struct stream *stream)
{
	return bench_sleeps(stream->bench) &&
	       (stream->posted - stream->retired >= stream->run->window ||
		stream->posted == stream->count);
}

static int read_completions(struct stream *stream)
{
	struct bench *bench = stream->bench;
	struct fi_cq_data_entry entries[16];
	ssize_t ret, i;

	if (must_wait(stream))
		ret = bench_read_or_sleep(bench, bench->conn.txcq, entries);
	else
		ret = fi_cq_read(bench->conn.txcq, entries, 16);
	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		return cq_report(bench->conn.txcq);
	if (ret < 0)
		return report("fi_cq_read", ret);
	for (i = 0; i < ret; i++)
		retire(stream, entries[i].op_context);
	return 0;
}

/* end_early -- the next commit is the last; that an end is no commit anyway is for post to see */
static void end_early(struct stream *stream, uint64_t now)
{
	uint64_t limit = stream->bench->opts->limit * 1000000;
	unsigned long every = stream->bench->opts->every;
	unsigned long last = (stream->posted / every + 1) * every;

	if (limit && now - stream->start > limit && last < stream->count)
		stream->count = last;
}

/* watch_clock -- now and then: is the target there, and does it get on? */
static int watch_clock(struct stream *stream, unsigned long *before, uint64_t *deadline)
{
	struct bench *bench = stream->bench;
	uint64_t now = now_ns();
	int ret = bench_alive(bench, now);

	if (ret)
		return ret;
	if (stream->retired != *before) {
		*before = stream->retired;
		*deadline = deadline_in(bench->opts->timeout);
	}
	end_early(stream, now);
	if (now < *deadline)
		return 0;
	fprintf(stderr, "no completion in time\n");
	return -FI_ETIMEDOUT;
}

static int run_stream(struct stream *stream)
{
	unsigned long window = stream->run->window, before = 0, spins = 0;
	uint64_t deadline = deadline_in(stream->bench->opts->timeout);
	int ret = 0;

	while (stream->retired < stream->count) {
		ret = 1;
		while (ret > 0 && stream->posted < stream->count &&
		       stream->posted - stream->retired < window)
			ret = post(stream);
		if (ret >= 0)
			ret = read_completions(stream);
		if (ret >= 0 && (++spins % 256 == 0 || bench_sleeps(stream->bench)))
			ret = watch_clock(stream, &before, &deadline);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* run_count -- so many writes of a size */
static int run_count(struct stream *stream, unsigned long count)
{
	int ret;

	stream->count = count;
	stream->posted = stream->retired = stream->commits = stream->nsamples = 0;
	stream->start = now_ns();
	ret = run_stream(stream);
	stream->end = now_ns();
	return ret;
}

/* written -- how much of the memory the last run has covered */
static size_t written(const struct stream *stream)
{
	size_t slots = stream->count < stream->slots ? stream->count : stream->slots;

	return slots * stream->run->size;
}

/* together -- wait for the other threads: an error of one of them is everybody's */
static int together(struct run *run, int ret)
{
	int none = 0;

	if (ret)
		atomic_compare_exchange_strong(&run->ret, &none, ret);
	pthread_barrier_wait(&run->barrier);
	return atomic_load(&run->ret);
}

static int print_row(struct run *run)
{
	const struct options *opts = run->opts;
	struct measured row = {
		.provider = opts->provider,
		.operation = operations[run->op],
		.bytes = run->size,
		.in_flight = run->window,
		.threads = opts->connections,
		.samples = run->samples,
	};
	uint64_t start = run->streams[0].start, end = 0;
	unsigned long writes = 0;

	for (size_t i = 0; i < opts->connections; i++) {
		const struct stream *stream = &run->streams[i];

		start = stream->start < start ? stream->start : start;
		end = stream->end > end ? stream->end : end;
		writes += stream->retired;
		memmove(&row.samples[row.count], stream->samples,
			stream->nsamples * sizeof(*row.samples));
		row.count += stream->nsamples;
	}
	row.elapsed = end - start;
	row.operations = row.count;
	print_bandwidth(row.bytes, writes, row.count, row.elapsed);
	return append_csv(opts->csv, opts->prog, &row) ? -FI_EIO : 0;
}

/* run_row -- all threads do this; their first one prints it */
static int run_row(struct stream *stream)
{
	struct bench *bench = stream->bench;
	const struct options *opts = bench->opts;
	struct run *run = stream->run;
	int ret;

	stream->slots = slots_of(run->window, run->size);
	pattern_fill(bench->region.buf, bench->region.len, run->size, 0);
	ret = bench_clear(bench, bench->region.len);
	if (!ret)
		ret = run_count(stream, opts->warmup);
	ret = together(run, ret);
	if (!ret)
		ret = together(run, run_count(stream, opts->iterations));
	if (!ret && opts->verify)
		ret = bench_verify(bench, 0, written(stream), run->size);
	if (!ret && stream == run->streams)
		ret = print_row(run);
	return together(run, ret);
}

static void *run_rows(void *arg)
{
	struct stream *stream = arg;
	struct run *run = stream->run;
	const struct options *opts = run->opts;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < opts->nwindows * opts->nsizes; i++) {
		if (stream == run->streams) {
			run->window = opts->windows[i / opts->nsizes];
			run->size = opts->sizes[i % opts->nsizes];
			if (opts->nwindows > 1 && i % opts->nsizes == 0)
				printf("%lu outstanding:\n", run->window);
		}
		ret = together(run, 0);
		if (!ret)
			ret = run_row(stream);
	}
	return NULL;
}

/* needed -- memory for the size and window that take most of it */
static size_t needed(const struct options *opts)
{
	size_t most = 0, len;
	unsigned int i;

	for (i = 0; i < opts->nwindows * opts->nsizes; i++) {
		size_t size = opts->sizes[i % opts->nsizes];

		len = slots_of(opts->windows[i / opts->nsizes], size) * size;
		most = len > most ? len : most;
	}
	return most + TAIL_SIZE;
}

static unsigned long widest(const struct options *opts)
{
	unsigned long most = 1;

	for (unsigned int i = 0; i < opts->nwindows; i++)
		most = opts->windows[i] > most ? opts->windows[i] : most;
	return most;
}

/* prepare -- the connections, one after the other, and what is measured on them */
static int prepare(struct run *run, size_t *started)
{
	const struct options *opts = run->opts;
	size_t most = opts->iterations > opts->warmup ? opts->iterations : opts->warmup;
	int ret = 0;

	run->samples = calloc(opts->connections * most, sizeof(*run->samples));
	if (!run->samples)
		return report("calloc", -FI_ENOMEM);
	for (size_t i = 0; !ret && i < opts->connections; i++) {
		struct stream *stream = &run->streams[i];

		ret = bench_start(&run->benches[i], i ? run->benches : NULL, opts, 0, needed(opts));
		*started = i + 1;
		run->benches[i].other = retire_other;
		run->benches[i].user = stream;
		stream->run = run;
		stream->bench = &run->benches[i];
		stream->samples = run->samples + i * most;
		stream->posted_at = calloc(widest(opts), sizeof(*stream->posted_at));
		if (!ret && !stream->posted_at)
			ret = report("calloc", -FI_ENOMEM);
	}
	return ret;
}

/* run_threads -- this one is the first of them */
static int run_threads(struct run *run)
{
	size_t n = run->opts->connections, i;
	int ret = 0;

	print_bandwidth_header();
	pthread_barrier_init(&run->barrier, NULL, n);
	for (i = 1; !ret && i < n; i++)
		ret = pthread_create(&run->streams[i].thread, NULL, run_rows, &run->streams[i]);
	if (ret) {
		/* Those that are there wait for ever: they end with the process. */
		fprintf(stderr, "a thread can't be started: %s\n", strerror(ret));
		exit(EXIT_FAILURE);
	}
	run_rows(&run->streams[0]);
	for (i = 1; i < n; i++)
		pthread_join(run->streams[i].thread, NULL);
	pthread_barrier_destroy(&run->barrier);
	return atomic_load(&run->ret);
}

static int client(const struct options *opts)
{
	struct stream streams[MAX_CONNECTIONS] = {0};
	struct bench benches[MAX_CONNECTIONS] = {0};
	struct run run = {.opts = opts, .streams = streams, .benches = benches};
	size_t started = 0;
	int ret;

	run.op = options_op(opts, operations);
	ret = prepare(&run, &started);
	if (!ret)
		ret = run_threads(&run);
	ret = bench_end(benches, started, ret);
	for (size_t i = 0; i < started; i++)
		free(streams[i].posted_at);
	free(run.samples);
	return ret;
}

/* makes_sense -- what can't be measured as it was asked for is a wrong call */
static bool makes_sense(const struct options *opts)
{
	unsigned int i;

	for (i = 0; i < opts->nwindows; i++) {
		if (opts->windows[i] < opts->every) {
			fprintf(stderr,
				"the window (-W) has to hold a commit: at least -C %lu writes\n",
				opts->every);
			return false;
		}
	}
	if (opts->connections > MAX_CONNECTIONS)
		fprintf(stderr, "at most %d connections\n", MAX_CONNECTIONS);
	return opts->connections <= MAX_CONNECTIONS && options_op(opts, operations) >= 0;
}

int main(int argc, char **argv)
{
	struct options opts = {
		.iterations = 1000,
		.warmup = 100,
		.window = 64,
		.every = 1,
		.connections = 1,
	};

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (!makes_sense(&opts))
		return EXIT_USAGE;
	opts.unordered = options_op(&opts, operations) == OP_APPEND;
	return (opts.dst_addr ? client(&opts) : bench_serve(&opts)) ? EXIT_FAILURE : EXIT_SUCCESS;
}
