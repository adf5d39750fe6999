/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h -- the references' rows: up to a window of operations outstanding on one connection
 *
 * Functions return 0, or -1 and have printed why.
 */
#ifndef PMEM_STREAM_H
#define PMEM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/options.h"

#define STREAM_MAX_WINDOW 1024

struct stream {
	const struct options *opts;
	const char *provider;
	const char *operation;
	void *source; /* what is written from */
	void *owner;  /* for the functions below */
	/* start one operation, which has this place in the window */
	int (*start)(struct stream *stream, uint32_t slot);
	/* wait until one ends; its place */
	int (*end_one)(struct stream *stream, uint32_t *slot);
	/* look whether the target has what was written */
	int (*verify)(struct stream *stream);
	/* of the row that is under way */
	size_t size;
	uint32_t window;
	uint32_t nfree;
	uint32_t free[STREAM_MAX_WINDOW]; /* places in the window that are not in use */
	uint64_t posted_at[STREAM_MAX_WINDOW];
};

/* stream_run -- a row for each pause, window and size that the options name */
int stream_run(struct stream *stream);

/* stream_widest -- the largest window */
uint32_t stream_widest(const struct options *opts);

/* stream_fits -- no window is too large, and pauses go with it; else that has been printed */
bool stream_fits(const struct options *opts);

#endif /* PMEM_STREAM_H */
