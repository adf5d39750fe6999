/* SPDX-License-Identifier: BSD-2-Clause */
/* memory_direct.h -- memory with a file behind it (fi_pmemverbs_file(7)), for targets */
#ifndef PMEM_MEMORY_DIRECT_H
#define PMEM_MEMORY_DIRECT_H

#include <rdma/fi_domain.h>

#include "memory.h"

/*
 * memory_open -- memory_map; and for "direct:PATH" memory with that file behind it, which is made
 * if it is not there
 */
int memory_open(struct memory *mem, struct fid_domain *domain, const char *name, size_t len);

/* memory_persist -- what was stored there is durable; 0 or a negative fi_errno.  Mapped: 0. */
int memory_persist(struct memory *mem, const void *addr, size_t len);

#endif /* PMEM_MEMORY_DIRECT_H */
