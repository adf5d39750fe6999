/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_fence.c -- what is under way to each peer; rdm_fence.h says what for */
#include "rdm/rdm_fence.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"

struct pmv_rdm_peer {
	SLIST_ENTRY(pmv_rdm_peer) next;
	struct pmv_lost_writes *tracker;
	uint64_t losses; /* of its connections, as far as was looked */
	uint64_t told;   /* what was sent before this many losses is not waited for any more */
	uint64_t found;  /* the losses before the connection that is known, and 1; 0: none is */
	size_t pending[PMV_RDM_KINDS]; /* on the connection of now */
	size_t lost;                   /* on earlier ones, not told */
	bool awaited;                  /* a fenced operation waits for the pending ... */
	int64_t awaited_since;         /* ... and is the next one, now and then */
};

void pmv_rdm_fence_init(struct pmv_rdm_fence *fence)
{
	pthread_mutex_init(&fence->lock, NULL);
	fence->first_ms = 1000;
	SLIST_INIT(&fence->peers);
}

void pmv_rdm_fence_destroy(struct pmv_rdm_fence *fence)
{
	struct pmv_rdm_peer *peer;

	while ((peer = SLIST_FIRST(&fence->peers))) {
		SLIST_REMOVE_HEAD(&fence->peers, next);
		free(peer);
	}
	pthread_mutex_destroy(&fence->lock);
}

static void lose_pending(struct pmv_rdm_peer *peer)
{
	for (int kind = 0; kind < PMV_RDM_KINDS; kind++) {
		peer->lost += peer->pending[kind];
		peer->pending[kind] = 0;
	}
}

/* note_losses -- since it was last looked; holds the lock, as all below */
static void note_losses(struct pmv_rdm_peer *peer)
{
	uint64_t losses = pmv_lost_writes_losses(peer->tracker);

	if (losses == peer->losses)
		return;
	peer->losses = losses;
	lose_pending(peer);
}

/* peer_of -- as it is now; NULL: no memory */
static struct pmv_rdm_peer *peer_of(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker)
{
	struct pmv_rdm_peer *peer;

	SLIST_FOREACH(peer, &fence->peers, next) {
		if (peer->tracker == tracker)
			break;
	}
	if (!peer && (peer = calloc(1, sizeof(*peer)))) {
		peer->tracker = tracker;
		SLIST_INSERT_HEAD(&fence->peers, peer, next);
	}
	if (peer)
		note_losses(peer);
	return peer;
}

static bool has_pending(const struct pmv_rdm_peer *peer)
{
	return peer->pending[PMV_RDM_RMA] || peer->pending[PMV_RDM_OTHER];
}

static ssize_t pass(struct pmv_rdm_peer *peer, enum pmv_rdm_kind kind)
{
	if (peer->lost) {
		peer->lost = 0;
		peer->told = peer->losses;
		PMV_WARN(EP_DATA,
			 "not fenced: a connection to the peer was lost, and it is not known "
			 "how earlier operations on it have ended; check what they have "
			 "done, and post this one again\n");
		return -FI_ECONNRESET;
	}
	if (!peer->pending[PMV_RDM_OTHER] && (kind == PMV_RDM_RMA || !peer->pending[PMV_RDM_RMA]))
		return 0;
	if (!peer->awaited) {
		peer->awaited = true;
		peer->awaited_since = pmv_clock_ms();
	}
	return -FI_EAGAIN;
}

ssize_t pmv_rdm_fence_pass(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker,
			   enum pmv_rdm_kind kind)
{
	struct pmv_rdm_peer *peer;
	ssize_t ret = -FI_ENOMEM;

	pthread_mutex_lock(&fence->lock);
	peer = peer_of(fence, tracker);
	if (peer)
		ret = pass(peer, kind);
	pthread_mutex_unlock(&fence->lock);
	return ret;
}

/* is_held_up -- when all have ended the wait is over, also if nobody tries the fenced one again */
static bool is_held_up(struct pmv_rdm_peer *peer, bool fenced, int64_t first_ms)
{
	if (fenced || !has_pending(peer))
		peer->awaited = false;
	return peer->awaited && (pmv_clock_ms() - peer->awaited_since) / first_ms % 2 == 0;
}

ssize_t pmv_rdm_fence_begin(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker,
			    enum pmv_rdm_kind kind, bool fenced, struct pmv_rdm_ticket *ticket)
{
	struct pmv_rdm_peer *peer;
	ssize_t ret = -FI_ENOMEM;

	pthread_mutex_lock(&fence->lock);
	peer = peer_of(fence, tracker);
	if (peer)
		ret = is_held_up(peer, fenced, fence->first_ms) ? -FI_EAGAIN : 0;
	if (!ret) {
		peer->pending[kind]++;
		*ticket = (struct pmv_rdm_ticket){fence, peer, peer->losses, kind};
	}
	pthread_mutex_unlock(&fence->lock);
	return ret;
}

void pmv_rdm_fence_end(struct pmv_rdm_ticket *ticket)
{
	struct pmv_rdm_peer *peer = ticket->peer;

	if (!peer)
		return;
	pthread_mutex_lock(&ticket->fence->lock);
	note_losses(peer);
	if (ticket->losses == peer->losses)
		peer->pending[ticket->kind]--;
	else if (ticket->losses >= peer->told)
		peer->lost--;
	pthread_mutex_unlock(&ticket->fence->lock);
	ticket->peer = NULL;
}

void pmv_rdm_fence_lose(struct pmv_rdm_fence *fence)
{
	struct pmv_rdm_peer *peer;

	pthread_mutex_lock(&fence->lock);
	SLIST_FOREACH(peer, &fence->peers, next) {
		note_losses(peer);
		lose_pending(peer);
	}
	pthread_mutex_unlock(&fence->lock);
}

bool pmv_rdm_fence_knows(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker)
{
	const struct pmv_rdm_peer *peer;
	bool known;

	pthread_mutex_lock(&fence->lock);
	peer = peer_of(fence, tracker);
	known = peer && peer->found == peer->losses + 1;
	pthread_mutex_unlock(&fence->lock);
	return known;
}

void pmv_rdm_fence_found(struct pmv_rdm_fence *fence, struct pmv_lost_writes *tracker)
{
	struct pmv_rdm_peer *peer;

	pthread_mutex_lock(&fence->lock);
	peer = peer_of(fence, tracker);
	if (peer)
		peer->found = peer->losses + 1;
	pthread_mutex_unlock(&fence->lock);
}
