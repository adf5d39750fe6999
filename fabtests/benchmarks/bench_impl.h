/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_impl.h -- what both ends of the benchmarks do, for bench.c and bench_target.c alone
 */
#ifndef PMEM_BENCH_IMPL_H
#define PMEM_BENCH_IMPL_H

#include "bench.h"

enum { MSG_REGION, MSG_CLEAR, MSG_VERIFY, MSG_COUNT, MSG_ALIVE, MSG_BYE };

#define BENCH_SLEEP_MS 200
#define BENCH_SPINS 4096 /* between two looks at the clock */

uint64_t bench_needed_caps(const struct options *opts);

/* bench_threading_of -- with more than one connection, each has a thread of its own at both ends */
enum fi_threading bench_threading_of(const struct options *opts);

int bench_create_messages(struct bench *bench);

/* bench_create_conn -- an endpoint with its receives posted */
int bench_create_conn(struct bench *bench, struct fi_info *info);

/* bench_close_all -- the first of them has the domain that the others use */
void bench_close_all(struct bench *benches, size_t n);

/* bench_to_send -- the message that the next call sends; bench_post_message does not wait */
struct bench_msg *bench_to_send(struct bench *bench);
int bench_send_message(struct bench *bench);
int bench_post_message(struct bench *bench);

/* bench_poll_cq -- 1: there was a completion, 0: none */
int bench_poll_cq(struct bench *bench, struct fi_cq_data_entry *entry);

/* bench_handle -- one completion that the program has not read itself */
int bench_handle(struct bench *bench, const struct fi_cq_data_entry *entry);

/* bench_late -- the error of a peer that takes too long, and it is printed */
int bench_late(void);

#endif /* PMEM_BENCH_IMPL_H */
