/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_reach.h -- a peer of FI_EP_RDM that can't be connected to
 *
 * RxM connects when it is given something for a peer, and says -FI_EAGAIN until it is connected; so
 * it does for ever, with attempt after attempt, if nobody is there.  So attempts are paced,
 * and whoever has called for FI_PMEMVERBS_TIMEOUT seconds without a connection is told
 * -FI_ETIMEDOUT, once.  The call after that begins again.  A pause of the caller counts, too, but
 * the first call after a long one is made, as nothing was tried meanwhile, and calls go on for half
 * the time then.
 *
 * The MSG endpoints tell by hooks.h which addresses are being connected to; the process has one
 * list of those.  An address leaves it when it is connected, has answered, or is tried no longer.
 */
#ifndef PMV_RDM_REACH_H
#define PMV_RDM_REACH_H

#include <stdatomic.h>
#include <stdint.h>

#include "commit/hooks.h"

/* An attempt that has failed is followed by the next one so much later. */
#define PMV_RDM_REACH_PAUSE_MS 200

/* Of one that nobody has repeated for so long nothing is remembered. */
#define PMV_RDM_REACH_STALE_MS 60000

/* How many addresses are listed. */
extern atomic_uint pmv_rdm_reach_count;

/* pmv_rdm_reach_attempt -- what has become of the attempt to connect to this address */
void pmv_rdm_reach_attempt(const struct pmv_hooks_peer *given, enum pmv_attempt attempt);

/*
 * pmv_rdm_reach_wait -- somebody calls now.  The first attempt to connect began, and the last one
 * failed (0: it is under way), at these times.  0: the call may be made; -FI_EAGAIN: not yet;
 * -FI_ETIMEDOUT: it was waited for timeout_ms (0: there is no end).
 */
ssize_t pmv_rdm_reach_wait(struct pmv_lost_writes_wait *wait, int64_t now_ms, int64_t began_ms,
			   int64_t failed_ms, int64_t timeout_ms);

/* pmv_rdm_reach_check -- 0, or what a call to this peer is to return */
ssize_t pmv_rdm_reach_check(struct pmv_lost_writes *tracker);

/*
 * pmv_rdm_reach_answered -- a call to this peer has returned: 0: it has found a connection; or an
 * error, which ends the wait for it.  Not for -FI_EAGAIN.
 */
void pmv_rdm_reach_answered(struct pmv_lost_writes *tracker, ssize_t ret);

/* pmv_rdm_reach_plain -- remove what does not tell peers apart: RxM goes by address and port only
 */
void pmv_rdm_reach_plain(void *addr);

#endif /* PMV_RDM_REACH_H */
