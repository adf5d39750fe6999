/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.c -- the clock, and the tables that the benchmarks print
 *
 * The programs on libfabric and the one on bare verbs share this, so that their
 * figures can be divided by each other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stats.h"

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

unsigned long ms_since(uint64_t start)
{
	return (now_ns() - start) / 1000000;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *) a;
	uint64_t y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

void sort_samples(uint64_t *samples, size_t n)
{
	qsort(samples, n, sizeof(*samples), compare);
}

void print_latency_header(void)
{
	printf("%-10s %10s %12s %12s %12s %12s\n", "bytes", "iters", "median us", "p99 us",
	       "min us", "MB/s");
}

/* quantile -- in microseconds, of sorted samples; per: 2 is the median, 1000 the 99.9th percentile
 */
static double quantile(const struct measured *row, size_t per)
{
	size_t at = per == 2 ? row->count / 2 : row->count * (per - 1) / per;

	return row->samples[at] / 1e3;
}

void print_latency(struct measured *row)
{
	size_t i;

	for (i = 0, row->elapsed = 0; i < row->count; i++)
		row->elapsed += row->samples[i];
	row->operations = row->count;
	sort_samples(row->samples, row->count);
	printf("%-10zu %10zu %12.2f %12.2f %12.2f %12.2f\n", row->bytes, row->count,
	       quantile(row, 2), quantile(row, 100), row->samples[0] / 1e3,
	       row->bytes * 1e3 * row->count / row->elapsed);
	fflush(stdout);
}

int append_csv(const char *path, const char *program, struct measured *row)
{
	FILE *file;
	int ret;

	if (!path)
		return 0;
	file = fopen(path, "a");
	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	if (!ftell(file))
		fprintf(file, "program,provider,operation,bytes,in_flight,threads,pause_us,count,"
			      "seconds,per_second,p50_us,p99_us,p999_us,min_us\n");
	sort_samples(row->samples, row->count);
	fprintf(file, "%s,%s,%s,%zu,%lu,%lu,%lu,%lu,%.6f,%.1f,%.3f,%.3f,%.3f,%.3f\n", program,
		row->provider, row->operation, row->bytes, row->in_flight, row->threads, row->pause,
		row->operations, row->elapsed / 1e9, row->operations * 1e9 / row->elapsed,
		quantile(row, 2), quantile(row, 100), quantile(row, 1000), row->samples[0] / 1e3);
	ret = ferror(file);
	if (fclose(file) || ret) {
		fprintf(stderr, "%s: it can't be written\n", path);
		return -1;
	}
	return 0;
}

void print_bandwidth_header(void)
{
	printf("%-10s %10s %10s %10s %12s %12s\n", "bytes", "writes", "commits", "seconds", "MB/s",
	       "writes/s");
}

void print_bandwidth(size_t bytes, unsigned long writes, unsigned long commits, uint64_t elapsed)
{
	printf("%-10zu %10lu %10lu %10.3f %12.2f %12.0f\n", bytes, writes, commits, elapsed / 1e9,
	       bytes * 1e3 * writes / elapsed, writes * 1e9 / elapsed);
	fflush(stdout);
}
