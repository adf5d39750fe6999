/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cntr.h -- counters of our own
 *
 * The core's would count all work requests of a commit.  These count operations, when
 * they have reached the completion level that was asked for.  verbs has no counters.
 */
#ifndef PMV_CNTR_H
#define PMV_CNTR_H

#include "base/container.h"
#include "objects/domain.h"
#include "progress/count.h"

struct pmv_queue;

/* Where operations of an endpoint complete that a counter counts. */
struct pmv_cntr_source {
	LIST_ENTRY(pmv_cntr_source) next;
	struct pmv_queue *queue;
};

struct pmv_cntr {
	struct fid_cntr cntr_fid;
	struct pmv_domain *domain;
	struct pmv_count count;
	atomic_int users; /* endpoints bound */
	pthread_mutex_t lock;
	LIST_HEAD(, pmv_cntr_source) sources;
};

static inline struct pmv_cntr *pmv_to_cntr(struct fid_cntr *fid)
{
	return pmv_container_of(fid, struct pmv_cntr, cntr_fid);
}

extern struct fi_ops pmv_cntr_fi_ops;

void pmv_cntr_add(struct pmv_cntr *cntr, struct pmv_cntr_source *source);
void pmv_cntr_drop(struct pmv_cntr *cntr, struct pmv_cntr_source *source);

#endif /* PMV_CNTR_H */
