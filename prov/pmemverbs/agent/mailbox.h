/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h -- how an endpoint and its peer's agent talk past the application
 *
 * Each side has a block of memory to which the other side writes messages and
 * acknowledgements (wire.h).  None of this uses receives.  The endpoint's lock protects the
 * sending half; the agent's lock protects the half that serves the peer's messages.
 */
#ifndef PMV_MAILBOX_H
#define PMV_MAILBOX_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <rdma/fi_domain.h>

#include "agent/hint.h"
#include "agent/look.h"
#include "agent/rma_event.h"
#include "agent/wire.h"

struct pmv_engine_ep;
struct pmv_op;
struct pmv_op_owner;
struct pmv_queue;
struct pmv_receive_tracker;
struct pmv_work;

struct pmv_mailbox {
	/* Of the endpoint. */
	const struct pmv_engine_ep *engine;
	const struct pmv_hint_socket *hints;
	struct pmv_op_owner *owner;
	struct pmv_receive_tracker *receives;
	struct pmv_queue *notice_queue; /* NULL: nobody reads notices */
	bool takes_notices;             /* they need no receive */
	struct pmv_rma_events events;
	atomic_uint unacked; /* operations that wait for an acknowledgement */

	uint8_t *block;        /* the peer writes here */
	uint8_t *outbox;       /* what is sent, at the same places; behind that what is repeated */
	struct fid_mr *mr;     /* of the block */
	struct fid_mr *out_mr; /* of the outbox, where the core wants one */
	struct fid_mr *flush_mr;
	void *desc;
	uint64_t secret; /* our half */
	bool connected;  /* the peer has a block, too */
	struct pmv_handshake peer;
	struct pmv_seal message_out, message_in, ack_out, ack_in, hint_in;
	struct pmv_hint_peer hint_peer;
	struct pmv_hint hint, asking_hint;

	/* Messages from here. */
	uint64_t sent;
	uint64_t acked; /* this one and all before it */
	atomic_uint_fast64_t next_ack;
	uint64_t asked;             /* the last empty message */
	bool in_request;            /* the last message's request goes on in the next one */
	bool repeat_asked;          /* the next repeat is of that one */
	uint64_t missing_ack;       /* was missing when this was last checked; 0: none */
	int64_t sent_ns[PMV_SLOTS]; /* when each was posted, if there are hints */
	int64_t awake_ns; /* until then the peer's agent looks into its mailbox by itself */
	atomic_int_fast64_t hint_again_ns, hint_wait_ns; /* if there is no acknowledgement */

	/* Messages from the peer. */
	TAILQ_ENTRY(pmv_mailbox) next; /* of the agent, in a list of its looks */
	struct pmv_look look;
	bool promised; /* the peer is told that there is an agent */
	bool attached;
	bool warned;
	bool closing;
	bool starved;    /* there was no room for an acknowledgement */
	bool lacks_room; /* ... for the next request's notice */
	bool refused;    /* it sent a malformed request, or can't be answered: none is served ... */
	bool ended;      /* ... and the connection was ended */
	int64_t end_by_ns; /* ... or is then, if nothing else ends it before; 0: not known yet */
	bool working;      /* `work` takes several rounds: */
	enum pmv_fault part_fault; /* of the last part of a request with a fault before it ... */
	uint64_t part_faulted;     /* ... or in it: this message; another one continues it */
	struct pmv_work *work;     /* see writeback.h */
	uint64_t served;           /* this one and all before it are taken */
	uint64_t faulted;          /* the last one with a fault */
	uint64_t acks;             /* posted */
	unsigned int num_owed;
	struct pmv_ack owed[PMV_SLOTS]; /* still to be numbered and posted */
};

/* pmv_mailbox_open -- allocate and register the block, unless there is one */
int pmv_mailbox_open(struct pmv_mailbox *mailbox);
/* pmv_mailbox_close -- after the core's endpoint was closed and the agent has forgotten it */
void pmv_mailbox_close(struct pmv_mailbox *mailbox);

/* pmv_mailbox_listens -- is the agent's thread woken by hints? */
bool pmv_mailbox_listens(const struct pmv_mailbox *mailbox);

/*
 * pmv_mailbox_hint -- have the peer's agent look into its mailbox; ask: and send a hint
 * back.  pmv_mailbox_hint_again: if acknowledgements have been missing for a while, the
 * last hint was lost, or the agent fell asleep before the request came.
 */
void pmv_mailbox_hint(const struct pmv_mailbox *mailbox, bool ask);
void pmv_mailbox_hint_again(struct pmv_mailbox *mailbox, int64_t now);

/* pmv_mailbox_handshake -- for the peer; pmv_mailbox_connect -- the peer's has arrived */
void pmv_mailbox_handshake(struct pmv_mailbox *mailbox, uint8_t buf[PMV_HANDSHAKE_SIZE]);
void pmv_mailbox_connect(struct pmv_mailbox *mailbox, const struct pmv_handshake *handshake);

/* pmv_mailbox_flush_place -- the peer's flush page: a READ of it pushes as any other */
void pmv_mailbox_flush_place(const struct pmv_mailbox *mailbox, uint64_t *addr, uint64_t *key);

/* pmv_mailbox_send -- number and post a message; -FI_EAGAIN: no room there, or in the send queue */
ssize_t pmv_mailbox_send(struct pmv_mailbox *mailbox, struct pmv_message *message,
			 struct pmv_op *op, uint64_t flags);

/*
 * pmv_mailbox_repeat -- post a message again that is not acknowledged: the oldest one and the
 * last empty one take turns.  Only one may be under way.  -FI_ECANCELED: it is not known any more.
 * pmv_mailbox_ask -- post an empty message, if pmv_mailbox_may_ask: its acknowledgement shows
 * whether an earlier one is missing
 */
ssize_t pmv_mailbox_repeat(struct pmv_mailbox *mailbox, struct pmv_op *op);
ssize_t pmv_mailbox_ask(struct pmv_mailbox *mailbox, struct pmv_op *op);
bool pmv_mailbox_may_ask(const struct pmv_mailbox *mailbox);

/*
 * pmv_mailbox_misses_ack -- true: an acknowledgement was overwritten, as two calls have found
 * a later one.  One proves nothing: reordered writes may come before and after it.
 */
bool pmv_mailbox_misses_ack(struct pmv_mailbox *mailbox);

/* pmv_mailbox_has_ack -- is the next acknowledgement there, whole?  Needs no lock. */
bool pmv_mailbox_has_ack(const struct pmv_mailbox *mailbox);
/* pmv_mailbox_take_ack -- PMV_MALFORMED: the peer does not keep to the rules; take no more */
enum pmv_arrival pmv_mailbox_take_ack(struct pmv_mailbox *mailbox, struct pmv_ack *ack);

/*
 * pmv_mailbox_look -- is the next message of the peer there, whole?  Then it is number
 * `served` + 1.  pmv_mailbox_has_message -- as far as a glance can tell.
 */
bool pmv_mailbox_has_message(const struct pmv_mailbox *mailbox);
enum pmv_arrival pmv_mailbox_look(const struct pmv_mailbox *mailbox, struct pmv_message *message);

/* pmv_mailbox_owe -- a message was served; pmv_mailbox_pay -- post all acknowledgements owed */
void pmv_mailbox_owe(struct pmv_mailbox *mailbox, uint64_t number, enum pmv_fault fault);
ssize_t pmv_mailbox_pay(struct pmv_mailbox *mailbox);

#endif /* PMV_MAILBOX_H */
