/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_run.h -- what the program does with a store, beside single operations */
#ifndef PMEM_KV_RUN_H
#define PMEM_KV_RUN_H

struct options;

/*
 * kv_soak -- until SIGTERM: random operations on keys of its own, which nobody else writes, and on
 * keys that all clients write.  Each is told of on standard output, when it begins and when it has
 * ended; history.awk judges that.  If the connection is lost it is made anew.
 */
int kv_soak(const struct options *opts, unsigned int number);

/* kv_look -- read each key that kv_soak may have written, and tell of it in the same way */
int kv_look(const struct options *opts);

/*
 * kv_bench -- YCSB's workload A ('a') or C ('c'), with chains and without, in turns.  rpc_port: of
 * a server of fi_pmem_rpc_kv on the target's machine, or NULL.
 */
int kv_bench(const struct options *opts, char workload, const char *rpc_port);

#endif /* PMEM_KV_RUN_H */
