/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.c -- the references' rows: up to a window of operations outstanding on one connection
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../common/memory.h"
#include "../common/stats.h"
#include "stream.h"

static void pause_for(unsigned long us)
{
	const struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	if (us)
		nanosleep(&ts, NULL);
}

/* run_loop -- so many operations, or as many as the limit leaves time for */
static int run_loop(struct stream *stream, struct measured *row, unsigned long n)
{
	uint64_t limit = stream->opts->limit * 1000000, first = now_ns(), now = first;
	unsigned long posted = 0;
	uint32_t slot;

	row->count = 0;
	for (stream->nfree = 0; stream->nfree < stream->window; stream->nfree++)
		stream->free[stream->nfree] = stream->nfree;
	while (row->count < n) {
		while (posted < n && stream->nfree) {
			pause_for(row->pause);
			slot = stream->free[--stream->nfree];
			stream->posted_at[slot] = now_ns();
			if (stream->start(stream, slot))
				return -1;
			posted++;
		}
		if (stream->end_one(stream, &slot))
			return -1;
		now = now_ns();
		row->samples[row->count++] = now - stream->posted_at[slot];
		stream->free[stream->nfree++] = slot;
		if (limit && now - first > limit)
			n = posted;
	}
	row->elapsed = now - first;
	row->operations = row->count;
	return 0;
}

static int run_row(struct stream *stream, struct measured *row)
{
	const struct options *opts = stream->opts;

	pattern_fill(stream->source, row->bytes, row->bytes, 0);
	if (run_loop(stream, row, opts->warmup) || run_loop(stream, row, opts->iterations))
		return -1;
	if (opts->verify && stream->verify(stream))
		return -1;
	if (row->in_flight > 1)
		print_bandwidth(row->bytes, row->count, row->count, row->elapsed);
	else
		print_latency(row);
	return append_csv(opts->csv, opts->prog, row);
}

static void print_header(unsigned long window, unsigned long pause)
{
	if (pause)
		printf("after pauses of %lu us:\n", pause);
	if (window > 1) {
		printf("%lu outstanding:\n", window);
		print_bandwidth_header();
	} else {
		print_latency_header();
	}
}

int stream_run(struct stream *stream)
{
	const struct options *opts = stream->opts;
	unsigned long most = opts->iterations > opts->warmup ? opts->iterations : opts->warmup;
	struct measured row = {
		.provider = stream->provider,
		.operation = stream->operation,
		.threads = 1,
		.samples = calloc(most, sizeof(*row.samples)),
	};
	unsigned int i;
	int ret = 0;

	if (!row.samples) {
		perror("calloc");
		return -1;
	}
	for (i = 0; !ret && i < opts->npauses * opts->nwindows * opts->nsizes; i++) {
		row.pause = opts->pauses[i / opts->nsizes / opts->nwindows];
		row.in_flight = stream->window = opts->windows[i / opts->nsizes % opts->nwindows];
		row.bytes = stream->size = opts->sizes[i % opts->nsizes];
		if (i % opts->nsizes == 0)
			print_header(row.in_flight, row.pause);
		ret = run_row(stream, &row);
	}
	free(row.samples);
	return ret;
}

uint32_t stream_widest(const struct options *opts)
{
	uint32_t most = 1;

	for (unsigned int i = 0; i < opts->nwindows; i++)
		most = opts->windows[i] > most ? opts->windows[i] : most;
	return most;
}

bool stream_fits(const struct options *opts)
{
	if (stream_widest(opts) > 1 && (opts->npauses > 1 || opts->pauses[0])) {
		fprintf(stderr, "pauses (-i) are for one operation at a time: -W 1\n");
		return false;
	}
	for (unsigned int i = 0; i < opts->nwindows; i++) {
		if (opts->windows[i] > STREAM_MAX_WINDOW) {
			fprintf(stderr, "at most %d outstanding\n", STREAM_MAX_WINDOW);
			return false;
		}
	}
	return true;
}
