/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal.h -- persistent memory that calls of the other designs change, all or nothing
 *
 * What a call stores goes into the log first; when that is durable it goes to its place, and when
 * that is durable, too, the reply may be sent.  One call at a time does so, as in libpmemrpc.
 */
#ifndef BENCH_JOURNAL_H
#define BENCH_JOURNAL_H

#include <libpmem2.h>
#include <pthread.h>

#include "handler.h"

struct journal {
	int fd;
	struct pmem2_source *source;
	struct pmem2_map *map;
	pmem2_flush_fn flush;
	pmem2_drain_fn drain;
	struct journal_log *log; /* the beginning of the mapping */
	size_t log_len;
	char *memory; /* behind it */
	size_t memory_len;
	pthread_mutex_t lock;
};

/* One call's. */
struct transaction {
	struct effects effects; /* first */
	struct journal *journal;
	bool locked;
	size_t used; /* of the log */
};

/* journal_open -- what was in the log and not at its place is put there */
int journal_open(struct journal *journal, const struct settings *settings);
void journal_close(struct journal *journal);

void transaction_begin(struct transaction *transaction, struct journal *journal);

/* transaction_end -- all that was stored is durable at its place, or was dropped */
void transaction_end(struct transaction *transaction, bool keep);

#endif /* BENCH_JOURNAL_H */
