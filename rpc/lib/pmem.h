/* SPDX-License-Identifier: BSD-2-Clause */
/* pmem.h -- a file or a device as memory that can be made durable */
#ifndef RPC_PMEM_H
#define RPC_PMEM_H

#include <libpmem2.h>

#include "link.h"
#include "store.h"

struct rpc_pmem {
	struct rpc_memory memory; /* first: its functions know the rest */
	struct pmem2_source *source;
	struct pmem2_map *map;
	pmem2_persist_fn persist; /* NULL: pages, by msync */
	int fd;
};

/*
 * rpc_pmem_open -- map it all; a file that is not there is made with this length, -FI_ENOENT if
 * that is 0.  -FI_EBUSY: another process has it.
 */
int rpc_pmem_open(struct rpc_pmem *pmem, const char *path, uint64_t len,
		  struct connection_error *error);
void rpc_pmem_close(struct rpc_pmem *pmem);

#endif /* RPC_PMEM_H */
