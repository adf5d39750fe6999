/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_kept.h -- entries that were read for somebody who waits, until the application reads them */
#ifndef PMV_RDM_KEPT_H
#define PMV_RDM_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <rdma/fi_eq.h>

struct pmv_rdm_kept {
	STAILQ_ENTRY(pmv_rdm_kept) next;
	bool is_error;
	fi_addr_t src_addr;
	union {
		struct fi_cq_tagged_entry ok;
		struct fi_cq_err_entry err;
		char room[sizeof(struct fi_cq_err_entry) + 64]; /* a later libfabric has more */
	};
};

STAILQ_HEAD(pmv_rdm_kept_list, pmv_rdm_kept);

/*
 * pmv_rdm_kept_read -- there are some: so many of this size, or -FI_EAVAIL; src_addr may be NULL
 * pmv_rdm_kept_read_error -- there are some: 1, or -FI_EAGAIN: the first one is no error
 * pmv_rdm_kept_drop -- all of them
 */
ssize_t pmv_rdm_kept_read(struct pmv_rdm_kept_list *list, void *buf, size_t count, size_t size,
			  fi_addr_t *src_addr);
ssize_t pmv_rdm_kept_read_error(struct pmv_rdm_kept_list *list, struct fi_cq_err_entry *entry);
void pmv_rdm_kept_drop(struct pmv_rdm_kept_list *list);

#endif /* PMV_RDM_KEPT_H */
