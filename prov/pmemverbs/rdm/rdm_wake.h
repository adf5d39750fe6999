/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_wake.h -- whoever sleeps on a completion queue of RxM looks again when a connection is lost
 *
 * RxM forgets operations with their connection (rdm_forgotten.h), and tells nobody.  If another
 * thread's call has seen the loss, such as that of RxM's own thread, a sleeper would hear of
 * nothing.  All that can wake him is a signal, which ends fi_cq_sread as well: so it is told apart
 * from those of the application.
 */
#ifndef PMV_RDM_WAKE_H
#define PMV_RDM_WAKE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

struct pmv_rdm_wake {
	LIST_ENTRY(pmv_rdm_wake) next;
	const struct fid_domain *under; /* whose connections; this provider's, below RxM's */
	struct fid_cq *fid;             /* NULL: it is not to be woken */
	int (*signal)(struct fid_cq *fid);
	atomic_bool signalled; /* by the application, and no call has ended for that yet */
};

/*
 * pmv_rdm_wake_add -- from now on, with RxM's function; the caller has set `under`
 * pmv_rdm_wake_remove -- no more
 */
void pmv_rdm_wake_add(struct pmv_rdm_wake *wake, struct fid_cq *fid,
		      int (*signal)(struct fid_cq *fid));
void pmv_rdm_wake_remove(struct pmv_rdm_wake *wake);

/* pmv_rdm_wake_all -- a connection of this domain is lost; takes no other lock */
void pmv_rdm_wake_all(const struct fid_domain *under);

#endif /* PMV_RDM_WAKE_H */
