/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_run.h -- what the program does with blocks, beside single operations */
#ifndef PMEM_RS_RUN_H
#define PMEM_RS_RUN_H

#include <stdbool.h>

struct options;

/*
 * rs_soak -- until SIGTERM: random reads and writes of a few blocks, which all clients use.  Each
 * is told of on standard output, when it begins and when it has ended, for rs_judge.c.
 */
int rs_soak(const struct options *opts, bool locks);

/* rs_look -- read each of these blocks, and tell of it in the same way */
int rs_look(const struct options *opts);

/* rs_bench -- YCSB's workload A ('a') or C ('c') by so many clients, with chains and with locks, in
 * turns */
int rs_bench(const struct options *opts, char workload, unsigned int clients);

#endif /* PMEM_RS_RUN_H */
