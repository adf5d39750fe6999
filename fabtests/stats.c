/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.c -- the clock, and the tables that the benchmarks print
 *
 * The programs on libfabric and the one on bare verbs share this, so that their
 * figures can be divided by each other.
 */
#include <stdio.h>
#include <stdlib.h>
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

void print_latency(size_t bytes, uint64_t *samples, size_t n)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < n; i++)
		total += samples[i];
	sort_samples(samples, n);
	printf("%-10zu %10zu %12.2f %12.2f %12.2f %12.2f\n", bytes, n, samples[n / 2] / 1e3,
	       samples[n * 99 / 100] / 1e3, samples[0] / 1e3, bytes * 1e3 * n / total);
	fflush(stdout);
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
