/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooks.h -- questions to the layer that replaces connections under the application
 *
 * An endpoint of FI_EP_RDM uses connected endpoints that come and go.  What was written on
 * a lost connection must not count as committed on the next one (lost_writes.h).  The
 * layer above hands these functions down when it opens a domain; a domain that the
 * application opens itself has none.  The thread that posts calls them, while it posts; but
 * attempt and lost are called by the thread that sees it happen.
 */
#ifndef PMV_HOOKS_H
#define PMV_HOOKS_H

#include <stdbool.h>
#include <sys/types.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "commit/lost_writes.h"

/* A commit of that layer has this many regions at most. */
#define PMV_HOOKS_REGIONS 4

/* Of a write that `probes`, and so was not posted: 0 would be counted as a success. */
#define PMV_HOOKS_PROBED (-FI_EALREADY)

enum pmv_attempt {
	PMV_ATTEMPT_BEGUN,
	PMV_ATTEMPT_FAILED,  /* nobody has answered */
	PMV_ATTEMPT_REFUSED, /* by whoever is there, perhaps as it connects at the same time */
	PMV_ATTEMPT_OVER,    /* it is connected, or is given up */
};

/* To whom. */
struct pmv_hooks_peer {
	size_t len; /* 0: to nobody */
	unsigned char addr[PMV_LOST_WRITES_ADDR_SIZE];
};

struct pmv_hooks {
	/* an attempt to connect to the peer */
	void (*attempt)(const struct pmv_hooks_peer *peer, enum pmv_attempt attempt);
	/* a connection of the domain is lost: whoever waits for what has no entry is to look */
	void (*lost)(const struct fid_domain *domain);
	/* does the application's call, in this thread, have the layer post something now? */
	bool (*posts)(void);
	/* is this the write that the application is posting? */
	bool (*is_applications)(const struct fi_rma_iov *to);
	/* if it is: the tracker of writes to the same peer */
	struct pmv_lost_writes *(*tracker)(void);
	/* how many bytes there the target's processor has changed, if the write commits these */
	size_t (*changed)(const struct fi_rma_iov *to);
	/* true: the write must not be posted; it only finds out which endpoint is the peer's */
	bool (*probes)(const struct fi_rma_iov *to, struct pmv_lost_writes *tracker);

	/* 0, or -FI_ECONNRESET (the first two warn): */

	/* a commit to these regions (with `all`, to all regions) would cover lost writes */
	ssize_t (*may_commit)(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count,
			      bool all);
	/* what the processor has changed was changed on an earlier connection */
	ssize_t (*may_commit_changed)(struct pmv_lost_writes *tracker);
	/* the message must not be sent on this endpoint */
	ssize_t (*may_send)(const struct pmv_lost_writes *tracker);
};

#endif /* PMV_HOOKS_H */
