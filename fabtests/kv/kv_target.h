/* SPDX-License-Identifier: BSD-2-Clause */
/* kv_target.h -- the side that has the memory */
#ifndef PMEM_KV_TARGET_H
#define PMEM_KV_TARGET_H

struct kv_layout;
struct options;

/* kv_serve -- until SIGTERM or SIGINT; 0 or a negative fi_errno.  A leak is one. */
int kv_serve(const struct options *opts, const struct kv_layout *layout);

#endif /* PMEM_KV_TARGET_H */
