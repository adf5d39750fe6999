/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.h -- a completion queue of the core, wrapped: the application's calls */
#ifndef PMV_CQ_H
#define PMV_CQ_H

#include "base/container.h"
#include "objects/domain.h"
#include "progress/queue.h"

/* Have looks before a sleep paid lately?  (cq_wait.c) */
struct pmv_looked {
	atomic_uint skips_left; /* so many of the next waits sleep without a look */
	atomic_uint skips; /* so many were added for the last look; 0: it has found something */
};

struct pmv_cq {
	struct fid_cq cq_fid;
	struct pmv_queue queue;
	struct pmv_domain *domain;
	enum fi_cq_format format;
	enum fi_wait_obj wait_obj;
	enum fi_cq_wait_cond wait_cond;
	atomic_uint signals;         /* fi_cq_signal calls so far ... */
	atomic_uint heeded;          /* ... and those that some fi_cq_sread has returned for */
	struct pmv_looked looked[2]; /* of waits for entries, and for acknowledgements */
	atomic_bool lends_fd; /* fi_trywait has let somebody sleep on the descriptor, or may */
	/* Where calls move the data: */
	atomic_uint useless_looks;        /* since the last entry, or nap */
	atomic_uint patience;             /* behind so many it naps */
	_Atomic int64_t let_sleep_ns;     /* by fi_trywait then, and nobody has read since; or 0 */
	atomic_bool moved;                /* by the read behind that: what came was no entry */
	struct pmv_ep *_Atomic closed_ep; /* freed with the next one, or the queue: ep.c */
};

static inline struct pmv_cq *pmv_to_cq(struct fid_cq *fid)
{
	return pmv_container_of(fid, struct pmv_cq, cq_fid);
}

extern struct fi_ops pmv_cq_fi_ops;

ssize_t pmv_cq_read(struct fid_cq *fid, void *buf, size_t count);

/* cq_wait.c */

/* pmv_cq_trywait -- 0: the descriptor may be waited on; -FI_EAGAIN: there is work */
int pmv_cq_trywait(struct pmv_cq *cq);

/*
 * pmv_cq_is_woken -- fi_trywait has let the application sleep, and now it reads: has something come
 * that is no answer to what this queue's endpoints wait for?
 */
bool pmv_cq_is_woken(struct pmv_cq *cq);

ssize_t pmv_cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout);
int pmv_cq_signal(struct fid_cq *fid);

#endif /* PMV_CQ_H */
