/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h -- the memory through which an endpoint and its peer's agent talk (wire.h), and what
 * they know of each other
 *
 * Both halves of the mailbox post through this, without receives.  All of it is known before the
 * endpoint is used, and does not change after that.  It needs no lock.
 */
#ifndef PMV_LINK_H
#define PMV_LINK_H

#include <rdma/fi_domain.h>
#include <rdma/fi_rma.h>

#include "agent/hint.h"
#include "agent/wire.h"

struct pmv_agent;
struct pmv_engine_ep;
struct pmv_op;
struct pmv_op_owner;

struct pmv_link {
	const struct pmv_engine_ep *engine;
	struct pmv_agent *agent; /* ours */
	const struct pmv_hint_socket *hints;
	struct pmv_op_owner *owner;
	uint8_t *block;        /* the peer writes here */
	uint8_t *outbox;       /* what is sent, at the same places; behind that what is repeated */
	struct fid_mr *mr;     /* of the block */
	struct fid_mr *out_mr; /* of the outbox, where the core wants one */
	struct fid_mr *flush_mr;
	void *desc;
	uint64_t secret; /* our half */
	uint16_t life;   /* of our domain */
	bool opened;     /* the block is there, and peers may write it */
	bool connected;  /* the peer has a block, too */
	bool quiet;      /* the core lets us choose what has an entry (PMV_ENGINE_QUIET) */
	struct pmv_handshake peer;
	struct pmv_hint_peer hint_peer;
	struct pmv_hint hint, asking_hint;
};

/* pmv_link_open -- allocate and register the block, and make our half of the secret */
int pmv_link_open(struct pmv_link *link);

/* pmv_link_close -- 0, or a negative fi_errno: something is left, and has to be closed again */
int pmv_link_close(struct pmv_link *link);

/* pmv_link_make_hints -- when both halves of the secret are known */
void pmv_link_make_hints(struct pmv_link *link);

/* pmv_link_listens -- is the agent's thread woken by hints? */
bool pmv_link_listens(const struct pmv_link *link);

/* pmv_link_hint -- have the peer's agent look into its mailbox; ask: and send a hint back */
void pmv_link_hint(const struct pmv_link *link, bool ask);

/* pmv_link_flush_place -- the peer's flush page: a READ of it pushes as any other */
static inline void pmv_link_flush_place(const struct pmv_link *link, uint64_t *addr, uint64_t *key)
{
	*addr = pmv_handshake_flush_addr(&link->peer);
	*key = link->peer.flush_key;
}

/*
 * pmv_link_signals -- does the n-th message, or acknowledgement, have an entry of the core when it
 * was sent?  Where that can be chosen, each 16th has, and is waited for.  So only a few are under
 * way, also to a peer that takes none.
 */
#define PMV_SIGNAL_EVERY 16

static inline bool pmv_link_signals(const struct pmv_link *link, uint64_t n)
{
	return !link->quiet || n % PMV_SIGNAL_EVERY == 0;
}

/*
 * pmv_link_post -- write a part of the outbox to the same place in the peer's block, or to `at`;
 * op: NULL: without an entry
 */
ssize_t pmv_link_post(const struct pmv_link *link, uint8_t *from, size_t at, size_t len,
		      struct pmv_op *op, uint64_t flags);

/* pmv_link_write -- the same of other memory to other memory of the peer's */
ssize_t pmv_link_write(const struct pmv_link *link, const struct iovec *iov, void *desc,
		       const struct fi_rma_iov *to, struct pmv_op *op, uint64_t flags);

#endif /* PMV_LINK_H */
