/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_forgotten.h -- operations of which RxM tells nothing any more
 *
 * An atomic waits for its answer, and RxM forgets it when its connection is lost.  RxM closes a
 * connection, and has all told that it still tells, under its endpoint's lock.  A read of its queue
 * that finds nothing has taken that lock.  So what was lost before such a read, and is under way
 * after it, is forgotten: it fails.  A late end is recognised by the context (rdm_op.h).
 *
 * A long message is forgotten as well, but it does not fail: its receiver may still read it, over
 * the next connection, from where the application would have put something else.
 *
 * What is left of an endpoint that was closed before such a read is put back.
 *
 * Whoever calls holds the locks of the completion queue: of all, and of its reading.  The questions
 * need only that of its reading.
 */
#ifndef PMV_RDM_FORGOTTEN_H
#define PMV_RDM_FORGOTTEN_H

#include "rdm/rdm_op.h"

struct pmv_rdm_forgotten {
	struct pmv_op_pool *pool;
	struct pmv_op_list left;  /* of closed endpoints ... */
	atomic_bool any_left;     /* ... are there some? */
	struct pmv_op_list ended; /* those, if RxM has nothing more to tell */
	bool any;                 /* of those under way, perhaps */
	uint64_t losses;          /* of all connections, when it was looked last */
};

void pmv_rdm_forgotten_init(struct pmv_rdm_forgotten *forgotten, struct pmv_op_pool *pool);

/*
 * pmv_rdm_forgotten_leave -- these are left; holds the lock of all
 * pmv_rdm_forgotten_note -- before a read
 * pmv_rdm_forgotten_is_noted -- is all that was lost or left until now?
 * pmv_rdm_forgotten_is_over -- has a read that finds nothing nothing to say, either?
 * pmv_rdm_forgotten_end -- a read has found nothing; true: some have failed, and are in this list
 * pmv_rdm_forgotten_put -- the same for what is left
 */
void pmv_rdm_forgotten_leave(struct pmv_rdm_forgotten *forgotten, struct pmv_op_list *ops);
void pmv_rdm_forgotten_note(struct pmv_rdm_forgotten *forgotten);
bool pmv_rdm_forgotten_is_noted(const struct pmv_rdm_forgotten *forgotten);
bool pmv_rdm_forgotten_is_over(const struct pmv_rdm_forgotten *forgotten);
bool pmv_rdm_forgotten_end(struct pmv_rdm_forgotten *forgotten, struct pmv_rdm_op_list *failed);
void pmv_rdm_forgotten_put(struct pmv_rdm_forgotten *forgotten);

#endif /* PMV_RDM_FORGOTTEN_H */
