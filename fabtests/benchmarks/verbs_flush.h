/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_flush.h -- RDMA FLUSH on bare verbs, where libibverbs has it; verbs_flush_none.c: where not
 */
#ifndef PMEM_VERBS_FLUSH_H
#define PMEM_VERBS_FLUSH_H

#include "verbs_link.h"

/* flush_create_qp -- as rdma_create_qp: one that can FLUSH and, if append, ATOMIC WRITE */
int flush_create_qp(struct link *link, struct ibv_qp_init_attr *attr, bool append);

/* flush_access -- what a region needs, besides */
int flush_access(void);

/*
 * flush_post -- as one list: the WRITE and a FLUSH of it; append: and the 8 aligned bytes behind it
 * by ATOMIC WRITE, and their FLUSH.  The last one's number is the slot.  0 or -1
 */
int flush_post(struct link *link, const struct ibv_send_wr *write, uint32_t slot, bool append);

#endif /* PMEM_VERBS_FLUSH_H */
