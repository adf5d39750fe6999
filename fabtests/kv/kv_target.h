/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_target.h -- the side that has the memory */
#ifndef PMEM_KV_TARGET_H
#define PMEM_KV_TARGET_H

struct options;

/* kv_serve -- until SIGTERM or SIGINT; 0 or a negative fi_errno.  A leak is one. */
int kv_serve(const struct options *opts);

#endif /* PMEM_KV_TARGET_H */
