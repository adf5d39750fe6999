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

void print_latency_header(void);

/* print_latency -- one line of the table; sorts the samples (nanoseconds) */
void print_latency(size_t bytes, uint64_t *samples, size_t n);

void print_bandwidth_header(void);
void print_bandwidth(size_t bytes, unsigned long writes, unsigned long commits, uint64_t elapsed);

#endif /* PMEM_STATS_H */
