/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooks.h -- what is asked of the layer that replaces connections under the application
 *
 * An endpoint of FI_EP_RDM stands on connected endpoints that come and go.  What was
 * written on a connection that was lost must not pass for committed on the next one
 * (lost_writes.h).  The layer above hands these functions down when it opens a domain;
 * a domain that the application opens itself has none.  They are called by the thread
 * that posts, while it posts.
 */
#ifndef PMV_HOOKS_H
#define PMV_HOOKS_H

#include <stdbool.h>
#include <sys/types.h>

#include <rdma/fi_rma.h>

#include "commit/lost_writes.h"

/* A commit of that layer has this many regions at most. */
#define PMV_OP_REGIONS 4

struct pmv_hooks {
	/* is this write the one that the application is posting? */
	bool (*is_applications)(const struct fi_rma_iov *to);
	/* if it is: the peer that it goes to */
	struct pmv_lost_writes *(*peer)(void);

	/*
	 * -FI_ECONNRESET after a warning: a commit to these regions (all: of all regions) would
	 * cover writes that were lost; else 0
	 */
	ssize_t (*may_commit)(struct pmv_lost_writes *peer, const uint32_t *keys, size_t count,
			      bool all);

	/*
	 * the write commits what the target's processor has changed there: so many bytes; 0: it
	 * does not
	 */
	size_t (*changed)(const struct fi_rma_iov *to);
	/* -FI_ECONNRESET after a warning: that was changed on an earlier connection; else 0 */
	ssize_t (*may_commit_changed)(struct pmv_lost_writes *peer);

	/* true: the write only finds out which endpoint is the peer's, and is not posted */
	bool (*probes)(const struct fi_rma_iov *to, struct pmv_lost_writes *peer);

	/* -FI_ECONNRESET: the message must not be sent on this endpoint; else 0 */
	ssize_t (*may_send)(const struct pmv_lost_writes *peer);
};

#endif /* PMV_HOOKS_H */
