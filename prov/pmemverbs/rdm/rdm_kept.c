/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_kept.c -- entries that were read for somebody who waits */
#include "rdm/rdm_kept.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

static void free_first(struct pmv_rdm_kept_list *list)
{
	struct pmv_rdm_kept *kept = STAILQ_FIRST(list);

	STAILQ_REMOVE_HEAD(list, next);
	free(kept);
}

ssize_t pmv_rdm_kept_read(struct pmv_rdm_kept_list *list, void *buf, size_t count, size_t size,
			  fi_addr_t *src_addr)
{
	struct pmv_rdm_kept *kept = STAILQ_FIRST(list);
	char *entries = buf;
	size_t n;

	if (kept->is_error)
		return -FI_EAVAIL;
	for (n = 0; n < count && kept && !kept->is_error; n++) {
		memcpy(entries + n * size, &kept->ok, size);
		if (src_addr)
			src_addr[n] = kept->src_addr;
		free_first(list);
		kept = STAILQ_FIRST(list);
	}
	return (ssize_t) n;
}

ssize_t pmv_rdm_kept_read_error(struct pmv_rdm_kept_list *list, struct fi_cq_err_entry *entry)
{
	const struct pmv_rdm_kept *kept = STAILQ_FIRST(list);

	if (!kept->is_error)
		return -FI_EAGAIN;
	memcpy(entry, &kept->err, offsetof(struct fi_cq_err_entry, err_data_size));
	free_first(list);
	return 1;
}

void pmv_rdm_kept_drop(struct pmv_rdm_kept_list *list)
{
	while (!STAILQ_EMPTY(list))
		free_first(list);
}
