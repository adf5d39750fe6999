/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.h -- what to look at when a call of libfabric fails: its errors have many
 * causes each
 */
#ifndef PMEM_EXPLAIN_H
#define PMEM_EXPLAIN_H

#include <stdbool.h>
#include <sys/types.h>

struct options;

/* report -- print a failed call and return its error */
int report(const char *call, ssize_t ret);

/* report_offer -- the same for fi_getinfo: is there no such provider, or what else? */
int report_offer(const struct options *opts, int ret);

/* report_memory -- for fi_mr_reg */
int report_memory(int ret);

/* report_connection -- for the attempt to connect to opts->dst_addr */
int report_connection(const struct options *opts, int ret);

/* provider_is_there -- does libfabric know opts->provider?  If not, that has been printed. */
bool provider_is_there(const struct options *opts);

#endif /* PMEM_EXPLAIN_H */
