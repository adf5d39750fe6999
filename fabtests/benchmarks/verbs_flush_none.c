/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_flush_none.c -- this libibverbs has no RDMA FLUSH */
#include "verbs_flush.h"

#include <errno.h>

int flush_create_qp(struct link *link, struct ibv_qp_init_attr *attr, bool append)
{
	(void) link;
	(void) attr;
	(void) append;
	errno = EOPNOTSUPP;
	return -1;
}

int flush_access(void)
{
	return 0;
}

int flush_post(struct link *link, const struct ibv_send_wr *write, uint32_t slot, bool append)
{
	(void) link;
	(void) write;
	(void) slot;
	(void) append;
	return -1;
}
