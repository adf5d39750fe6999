/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_rpc.h -- PUT by a durable call to fi_pmem_rpc_kv, for comparison */
#ifndef PMEM_KV_RPC_H
#define PMEM_KV_RPC_H

#include <stddef.h>
#include <stdint.h>

struct kv_rpc;

/* All return 0 or a negative fi_errno, which has been told. */
int kv_rpc_open(struct kv_rpc **rpc, const char *host, const char *port, int timeout_ms);
int kv_rpc_put(struct kv_rpc *rpc, uint64_t key, const void *value, size_t len);
void kv_rpc_close(struct kv_rpc *rpc);

#endif /* PMEM_KV_RPC_H */
