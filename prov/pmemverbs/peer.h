/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h -- what an endpoint of FI_EP_RDM has written to a peer and nothing has
 * committed
 *
 * A commit covers what was written before it on its connection.  RxM replaces a
 * connection that was lost, and tells nobody.  What was written to a region then,
 * and is not covered by a commit that has completed, may never have arrived, or
 * may still be in the caches there: so the next commit to that region, on whatever
 * connection, has to fail, once.  It does not matter whether a write completed: a
 * completion proves nothing, or it would not be noted here.
 *
 * Writes are numbered as they are noted, after they were posted.  A commit takes
 * down the number when it is about to be posted, and covers those up to it.
 *
 * Regions with nothing to tell of are forgotten now and then.  If that leaves too
 * many, because nobody ever commits, new ones are not noted; after a loss no commit
 * can be proven then any more.
 *
 * All calls lock for themselves.
 */
#ifndef PMV_PEER_H
#define PMV_PEER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMV_PEER_ADDR_SIZE 128

struct pmv_peer_region;

struct pmv_peer {
	struct pmv_peer *next;
	pthread_mutex_t lock;
	void *tree; /* of regions, by key */
	struct pmv_peer_region *last;
	struct pmv_peer_region *regions; /* all of them */
	size_t num_regions;
	size_t sweep_at; /* with so many it is time to forget some */
	uint64_t writes; /* so many were noted */
	uint64_t losses; /* of connections */
	bool overflown;  /* not all writes are noted */
	bool forgetful;  /* nor were those that went down: no commit can be proven any more */
	size_t addrlen;
	unsigned char addr[PMV_PEER_ADDR_SIZE];
};

/* Those of one endpoint. */
struct pmv_peers {
	pthread_mutex_t lock;
	struct pmv_peer *list;
	struct pmv_peer nobody; /* stands for those that there was no memory for */
};

void pmv_peers_init(struct pmv_peers *peers);
void pmv_peers_destroy(struct pmv_peers *peers);

/* pmv_peers_get -- the peer with this address, for as long as there are peers */
struct pmv_peer *pmv_peers_get(struct pmv_peers *peers, const void *addr, size_t addrlen);

/* So many regions with writes that nothing has committed are remembered. */
#define PMV_PEER_REGIONS 65536

/* pmv_peer_wrote -- a write was posted that does not commit by itself */
void pmv_peer_wrote(struct pmv_peer *peer, uint32_t key);

/* pmv_peer_writes -- the number that a commit takes down */
uint64_t pmv_peer_writes(struct pmv_peer *peer);

/* pmv_peer_committed -- a commit to the region has completed, on the connection of now */
void pmv_peer_committed(struct pmv_peer *peer, uint32_t key, uint64_t writes);

/* pmv_peer_lost -- so was the connection */
void pmv_peer_lost(struct pmv_peer *peer);

/* pmv_peer_losses -- so many were; the same number: the same connection */
uint64_t pmv_peer_losses(struct pmv_peer *peer);

/* pmv_peer_has_lost -- would pmv_peer_may_commit say no?  It still will. */
bool pmv_peer_has_lost(struct pmv_peer *peer, const uint32_t *keys, size_t count);

/*
 * pmv_peer_may_commit -- to these regions, and with all set to all of them.  False:
 * writes that the commit would cover went down with an earlier connection, which
 * is told once; or it was forgotten which, which is told always.
 */
bool pmv_peer_may_commit(struct pmv_peer *peer, const uint32_t *keys, size_t count, bool all);

#endif /* PMV_PEER_H */
