/* SPDX-License-Identifier: BSD-2-Clause */
/* tx_run.h -- what the program does with keys, beside single transactions */
#ifndef PMEM_TX_RUN_H
#define PMEM_TX_RUN_H

#include "tx_client.h"

/*
 * tx_soak -- until SIGTERM: random transactions on a few keys, which all clients use.  Each is told
 * of on standard output, before it commits and when it has ended, for tx_judge.c.  If the
 * connection is lost it is made anew.
 */
int tx_soak(const struct options *opts, const struct tx_protocol *protocol);

/* tx_look_all -- read all these keys, in transactions that are told of in the same way */
int tx_look_all(const struct options *opts, const struct tx_protocol *protocol);

/* tx_bench -- YCSB-T: each transaction reads a key and writes it, by so many clients; the skew
 * (Zipf's theta) grows from 0 to 1.6.  With a farm_port both protocols take turns. */
int tx_bench(const struct options *opts, unsigned int clients, const char *farm_port);

#endif /* PMEM_TX_RUN_H */
