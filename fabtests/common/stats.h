/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h -- the clock, and the tables that the benchmarks print
 */
#ifndef PMEM_STATS_H
#define PMEM_STATS_H

#include <stddef.h>
#include <stdint.h>

/* now_ns -- monotonic time */
uint64_t now_ns(void);

/* ms_since -- milliseconds, from a time on that clock until now */
unsigned long ms_since(uint64_t start);

/* sort_samples -- the smallest first */
void sort_samples(uint64_t *samples, size_t n);

/* What has been measured: a row of a table */
struct measured {
	const char *provider;
	const char *operation;
	size_t bytes;
	unsigned long in_flight;
	unsigned long threads;
	unsigned long pause;      /* microseconds */
	unsigned long operations; /* in all; samples are of some or all of them */
	uint64_t elapsed;
	uint64_t *samples; /* nanoseconds that one took; the functions below sort them */
	size_t count;
};

void print_latency_header(void);

/* print_latency -- one line of the table; fills in what it says of all operations together */
void print_latency(struct measured *row);

void print_bandwidth_header(void);
void print_bandwidth(size_t bytes, unsigned long writes, unsigned long commits, uint64_t elapsed);

/*
 * append_csv -- the row, and before the first one the names of the columns; -1: it can't be
 * written, which has been printed.  Nothing is done where there is no path.  With less than 1,000
 * samples p999_us is the longest one.
 */
int append_csv(const char *path, const char *program, struct measured *row);

#endif /* PMEM_STATS_H */
