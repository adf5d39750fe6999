/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench.h -- what is measured: the same calls, objects and handlers, by different designs
 *
 * The server has a handler and persistent memory, the clients have a workload.  Between them is
 * one of the designs: libpmemrpc, or one of those that README.md describes.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct design;
struct workload;

struct settings {
	const char *host;   /* of the server; NULL: this is the server */
	const char *memory; /* the server's */
	const char *port;
	const char *csv;
	const struct design *design; /* NULL: libpmemrpc */
	const char *mode;
	const struct workload *workload;
	bool until_executed; /* libpmemrpc: a write is done when it is executed, not when durable */
	bool send;           /* libpmemrpc: calls are sent, not written */
	bool spin;           /* never sleep */
	bool fresh;          /* the memory is empty at first */
	size_t size;         /* of an object, or of a value */
	uint64_t objects;
	double theta;
	unsigned int handler_us;
	unsigned int read_percent;
	unsigned int clients;
	unsigned int threads;   /* of the server, that execute calls */
	unsigned int in_flight; /* messages of a client, each with batch calls */
	unsigned int batch;
	uint64_t count; /* calls of a client */
	unsigned int seconds;
	unsigned int seed;
	unsigned int patience; /* seconds without a server */

	/* What follows from those. */
	size_t request_max; /* of an argument */
	size_t reply_max;
	size_t effects_max; /* what a call may change */
	size_t memory_len;
};

/* settings_parse -- does not return if they are wrong */
void settings_parse(struct settings *settings, int argc, char **argv);

/* settings_check -- a number that both ends have to have in common */
uint32_t settings_check(const struct settings *settings);

/* bench_fail -- say why; -1 */
__attribute__((format(printf, 1, 2))) int bench_fail(const char *format, ...);

/* bench_end -- at once: exit() would take libfabric away from the other clients' threads */
__attribute__((noreturn)) void bench_end(void);

/* bench_ended -- was the process told to end? */
bool bench_ended(void);
void bench_end_on_signal(void (*also)(void));

int64_t bench_now(void); /* nanoseconds */

/* bench_populate -- so that no page fault is measured */
void bench_populate(void *memory, size_t len);

/* The two ends. */
int serve_design(const struct settings *settings);
int serve_pmemrpc(const struct settings *settings);
int load(const struct settings *settings);

#endif /* BENCH_H */
