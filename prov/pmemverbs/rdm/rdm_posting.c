/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_posting.c -- what this thread has RxM post; rdm_posting.h says what for */
#include "rdm/rdm_posting.h"

#include <netinet/in.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "rdm/rdm_ep.h"
#include "rdm/rdm_wake.h"

_Thread_local struct pmv_rdm_posting pmv_rdm_posting;

/* RxM tells peers apart by address and port only. */
struct pmv_lost_writes *pmv_rdm_posting_tracker(struct pmv_rdm_ep *rdm, fi_addr_t dest)
{
	_Alignas(struct sockaddr_in6) unsigned char addr[PMV_LOST_WRITES_ADDR_SIZE] = {0};
	size_t len = sizeof(addr);

	if (fi_av_lookup(rdm->av, dest, addr, &len))
		len = 0;
	pmv_rdm_reach_plain(addr);
	return pmv_lost_writes_list_get(&rdm->lost_writes, addr, len);
}

static bool posts(void)
{
	return pmv_rdm_posting.calls;
}

static struct pmv_lost_writes *tracker_of_write(void)
{
	return pmv_rdm_posting_tracker(pmv_rdm_posting.ep, pmv_rdm_posting.dest);
}

static bool is_applications(const struct fi_rma_iov *to)
{
	const struct fi_rma_iov *noted = pmv_rdm_posting.to;

	return pmv_rdm_posting.ep && noted && noted->addr == to->addr && noted->len == to->len &&
	       noted->key == to->key;
}

static size_t changed(const struct fi_rma_iov *to)
{
	return is_applications(to) ? pmv_rdm_posting.changed : 0;
}

static bool probes(const struct fi_rma_iov *to, struct pmv_lost_writes *tracker)
{
	if (!is_applications(to) || !pmv_rdm_posting.probes)
		return false;
	pmv_rdm_posting.losses = pmv_lost_writes_losses(tracker);
	pmv_rdm_posting.found = true;
	return true;
}

static ssize_t may_commit_changed(struct pmv_lost_writes *tracker)
{
	if (pmv_rdm_posting.losses == pmv_lost_writes_losses(tracker))
		return 0;
	PMV_WARN(EP_DATA, "an atomic was executed, but the connection was lost before it was "
			  "committed: its result may be lost\n");
	return -FI_ECONNRESET;
}

ssize_t pmv_rdm_posting_is_connected(void)
{
	return may_commit_changed(tracker_of_write());
}

static ssize_t may_commit(struct pmv_lost_writes *tracker, const uint32_t *keys, size_t count,
			  bool all)
{
	if (pmv_lost_writes_may_commit(tracker, keys, count, all))
		return 0;
	PMV_WARN(EP_DATA,
		 "not committed: a connection to the peer was lost, and with it perhaps writes "
		 "that this commit would cover; write again what was written to this memory "
		 "since the last commit there\n");
	return -FI_ECONNRESET;
}

/* may_send -- RxM's endpoint is given a message, perhaps an atomic that commits; RxM holds its lock
 */
static ssize_t may_send(const struct pmv_lost_writes *tracker)
{
	struct pmv_lost_writes *committing = pmv_rdm_posting.tracker;

	if (tracker && tracker == pmv_rdm_posting.answerer) {
		pmv_rdm_posting.sent = true;
		pmv_rdm_posting.sent_losses = pmv_lost_writes_losses(tracker);
	}
	/* A new connection has no peer yet. */
	if (!committing || (tracker && tracker != committing))
		return 0;
	/* RxM may send another message in between; the atomic's caller has to be told. */
	return pmv_lost_writes_has_lost(committing, pmv_rdm_posting.regions, pmv_rdm_posting.count)
		       ? -FI_ECONNRESET
		       : 0;
}

ssize_t pmv_rdm_posting_commit(struct pmv_rdm_ep *rdm, fi_addr_t dest, uint32_t region)
{
	struct pmv_rdm_posting *posting = &pmv_rdm_posting;
	ssize_t ret = -FI_EINVAL;

	if (!posting->tracker) {
		posting->tracker = pmv_rdm_posting_tracker(rdm, dest);
		posting->count = 0;
	}
	if (posting->count < PMV_HOOKS_REGIONS) {
		posting->regions[posting->count] = region;
		ret = may_commit(posting->tracker, &posting->regions[posting->count++], 1, false);
	}
	if (ret)
		posting->tracker = NULL;
	return ret;
}

void pmv_rdm_posting_end_atomic(ssize_t ret)
{
	struct pmv_rdm_posting *posting = &pmv_rdm_posting;

	/* RxM has connected again in between. */
	if (ret == -FI_ECONNRESET && posting->tracker)
		may_commit(posting->tracker, posting->regions, posting->count, false);
	posting->tracker = NULL;
}

ssize_t pmv_rdm_posting_find(struct fid_ep *fid, fi_addr_t dest, uint64_t addr, uint64_t key)
{
	const struct fi_rma_iov to = {.addr = addr, .len = 0, .key = key};
	struct pmv_rdm_ep *rdm = PMV_RDM_OF(fid, rma);
	ssize_t ret;

	pmv_rdm_posting_begin(rdm, dest, &to, NULL, 0);
	pmv_rdm_posting.probes = true;
	pmv_rdm_posting.found = false;
	ret = rdm->rxm_rma->inject(fid, NULL, 0, dest, addr, key);
	pmv_rdm_posting.probes = false;
	/* With a counter of writes RxM has made a write of it, and would count that. */
	if (ret == PMV_HOOKS_PROBED)
		ret = 0;
	if (!ret && !pmv_rdm_posting.found)
		ret = -FI_EOPNOTSUPP;
	return pmv_rdm_posting_end(ret);
}

const struct pmv_hooks pmv_rdm_posting_hooks = {
	.attempt = pmv_rdm_reach_attempt,
	.lost = pmv_rdm_wake_all,
	.posts = posts,
	.is_applications = is_applications,
	.tracker = tracker_of_write,
	.may_commit = may_commit,
	.changed = changed,
	.may_commit_changed = may_commit_changed,
	.probes = probes,
	.may_send = may_send,
};
