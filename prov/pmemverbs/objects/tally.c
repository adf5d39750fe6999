/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tally.c -- the counters of a domain (fi_ext_pmemverbs.h)
 *
 * Nothing is counted for the whole domain on the way of an operation.  An endpoint counts its
 * commits, its mailbox the messages, and the agent what it does.  All that is added up when
 * somebody asks.  An endpoint that is closed leaves what it has counted behind.
 *
 * tally.lock is taken before all locks of agents and endpoints, and domains_lock before it.
 */
#include "objects/domain.h"

#include <string.h>

#include <rdma/fi_errno.h>

#include "objects/ep.h"

_Static_assert(!(sizeof(struct fi_pmemverbs_counters) % sizeof(uint64_t)), "numbers only");

/* add_commits -- of an endpoint.  What it has sent is of its lock. */
static void add_commits(struct pmv_ep *ep, struct fi_pmemverbs_counters *sum)
{
	struct pmv_initiator *ini = &ep->initiator;
	atomic_uint_fast64_t *counts = ini->commits.by_method;

	sum->commits_write += atomic_load(&counts[PMV_METHOD_WRITE]);
	sum->commits_read += atomic_load(&counts[PMV_METHOD_READ]);
	sum->commits_agent += atomic_load(&counts[PMV_METHOD_AGENT]);
	sum->commits_refused += atomic_load(&counts[PMV_METHOD_REFUSED]);
	sum->commits_failed += atomic_load(&ini->commits.failed);
	sum->commits_flush += atomic_load(&counts[PMV_METHOD_FLUSH]);
	sum->chains += atomic_load(&ini->commits.chains);
	sum->connections += atomic_load(&ep->was_connected);
	sum->disconnections += atomic_load(&ep->was_disconnected);
	sum->peers_given_up += atomic_load(&ep->silence.given_up);
	pthread_mutex_lock(&ini->lock);
	sum->requests_sent += ep->mailbox.sender.sent;
	pthread_mutex_unlock(&ini->lock);
}

/* add_service -- of the agent */
static void add_service(struct pmv_agent *agent, struct fi_pmemverbs_counters *sum)
{
	const struct pmv_writeback_counts *done = &agent->batch->counts;

	pthread_mutex_lock(&agent->lock);
	sum->requests_served += agent->counts.requests;
	sum->requests_refused += agent->counts.refused;
	sum->chains_served += agent->counts.chains;
	sum->requests_pending += agent->batch->count + pmv_syncing_count(&agent->syncing);
	pthread_mutex_unlock(&agent->lock);
	sum->flushes += atomic_load(&done->flushes);
	sum->flushed_bytes += atomic_load(&done->flushed_bytes);
	sum->syncs += atomic_load(&done->syncs);
	sum->synced_bytes += atomic_load(&done->synced_bytes);
	sum->stores += atomic_load(&done->stores);
	sum->stored_bytes += atomic_load(&done->stored_bytes);
	sum->sleeps += atomic_load(&agent->sleeps);
	sum->wakes += atomic_load(&agent->wakes);
}

/* add -- all numbers of one to those of another */
static void add(struct fi_pmemverbs_counters *sum, const struct fi_pmemverbs_counters *more)
{
	const uint64_t *from = (const uint64_t *) more;
	uint64_t *to = (uint64_t *) sum;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

void pmv_tally_read(struct pmv_domain *domain, struct fi_pmemverbs_counters *sum)
{
	struct pmv_ep *ep;

	pthread_mutex_lock(&domain->tally.lock);
	add(sum, &domain->tally.closed);
	LIST_FOREACH(ep, &domain->tally.eps, next)
	{
		sum->endpoints++;
		sum->requests_awaited += atomic_load(&ep->mailbox.sender.unacked);
		add_commits(ep, sum);
	}
	pthread_mutex_unlock(&domain->tally.lock);
	add_service(&domain->agent, sum);
}

static int read_counters(struct fid_domain *fid, struct fi_pmemverbs_counters *counters, size_t len)
{
	struct fi_pmemverbs_counters sum = {0};

	if (len % sizeof(uint64_t))
		return -FI_EINVAL;
	pmv_tally_read(pmv_to_domain(fid), &sum);
	memset(counters, 0, len);
	memcpy(counters, &sum, len < sizeof(sum) ? len : sizeof(sum));
	return 0;
}

struct fi_pmemverbs_counters_ops pmv_tally_ops = {
	.size = sizeof(struct fi_pmemverbs_counters_ops),
	.read = read_counters,
};

void pmv_tally_leave(struct pmv_ep *ep)
{
	struct pmv_domain *domain = ep->domain;

	pthread_mutex_lock(&domain->tally.lock);
	LIST_REMOVE(ep, next);
	add_commits(ep, &domain->tally.closed);
	pthread_mutex_unlock(&domain->tally.lock);
}
