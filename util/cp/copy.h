/* SPDX-License-Identifier: BSD-2-Clause */
/* copy.h -- one copy, put or get, over a connection that is there */
#ifndef CP_COPY_H
#define CP_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"

/* Data are moved in pieces of this size, and put durably in batches of so many. */
#define CP_CHUNK ((size_t) 1 << 20)
#define CP_BATCH 8

/* What cp_link_open is asked for: the data of all batches, and their states. */
#define CP_DATA_ROOM (CP_BATCHES * (CP_BATCH * CP_CHUNK) + CP_STATE_PAGE)

/* What an interrupted copy is told with. */
#define CP_GOES_ON "fi_pmem_cp: what is durable stays: the same command goes on from there\n"

struct cp_copy {
	struct cp_link link;
	const char *name; /* at the target */
	const char *path; /* here */
	bool restart;
	bool quiet;
	bool verbose;
	int timeout_ms;
	size_t chunk;
	uint64_t size;
	uint64_t done; /* bytes, for who watches */
	uint64_t resumed;
	int64_t moved; /* when all data had been moved, by connection_now_ms */
	uint8_t digest[CP_DIGEST];
	struct cp_message lease; /* what the target has answered */
	int64_t said;            /* when the target has last been told that this side is there */
	int64_t heard;           /* when something has last come to an end */
	void (*progress)(struct cp_copy *copy, bool now);
};

/* 0: it is complete and durable, and the checksums agree.  Else an error was told. */
int cp_copy_put(struct cp_copy *copy);
int cp_copy_get(struct cp_copy *copy);

#endif /* CP_COPY_H */
