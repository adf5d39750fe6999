/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h -- how an endpoint and its peer's agent talk past the application
 *
 * Both sides have a block of memory that the other one writes messages and
 * acknowledgements to; wire.h has the formats, and what seals are for.  Nothing of
 * this uses receives.
 *
 * The sending half is used under the endpoint's lock, the half that serves the
 * peer's messages under the agent's.
 */
#ifndef PMV_MAILBOX_H
#define PMV_MAILBOX_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <rdma/fi_domain.h>

#include "agent/wire.h"

struct pmv_engine_ep;
struct pmv_op;
struct pmv_op_owner;
struct pmv_queue;
struct pmv_receive_tracker;
struct pmv_work;

/* An acknowledgement that is still to be posted. */
struct pmv_owed {
	uint64_t done;
	enum pmv_fault fault;
};

struct pmv_mailbox {
	/* Of the endpoint. */
	const struct pmv_engine_ep *engine;
	struct pmv_op_owner *owner;
	struct pmv_receive_tracker *receives;
	struct pmv_queue *notice_queue; /* NULL: nobody reads notices */
	bool takes_notices;             /* they need no receive */
	atomic_uint unacked;            /* operations that wait for an acknowledgement */

	uint8_t *block;        /* the peer writes here */
	uint8_t *outbox;       /* what is sent to the peer, at the same places as in its block */
	uint8_t *repeated;     /* behind that: what is sent once more */
	struct fid_mr *mr;     /* of the block */
	struct fid_mr *out_mr; /* of the outbox, where the core wants one */
	struct fid_mr *flush_mr;
	void *desc;
	uint64_t secret; /* our half */
	bool connected;  /* the peer has a block, too */
	struct pmv_handshake peer;
	struct pmv_seal message_out, message_in, ack_out, ack_in;

	/* Messages from here. */
	uint64_t sent;
	uint64_t acked; /* this one and all before it */
	atomic_uint_fast64_t next_ack;
	uint64_t asked;       /* the last empty message */
	bool repeat_asked;    /* when something is repeated next */
	uint64_t missing_ack; /* when that was looked at last; 0: none */

	/* Messages from the peer. */
	TAILQ_ENTRY(pmv_mailbox) next; /* of the agent */
	bool promised;                 /* the peer is told that there is an agent */
	bool attached;
	bool warned;
	bool closing;
	bool starved;          /* there was no room for an acknowledgement */
	bool lacks_room;       /* ... for the next request's notice */
	bool lost_receives;    /* for want of memory */
	bool refused;          /* the peer does not keep to the rules: it is served no more ... */
	bool ended;            /* ... and knows it */
	bool put_back;         /* in this round */
	bool working;          /* on this, in several rounds: */
	struct pmv_work *work; /* see writeback.h */
	uint64_t served;       /* this one and all before it are taken */
	uint64_t faulted;      /* the last one with a fault */
	uint64_t acks;         /* posted */
	unsigned int num_owed;
	struct pmv_owed owed[PMV_SLOTS];
};

/* pmv_mailbox_open -- get a block, if there is none; 0 or a negative fi_errno */
int pmv_mailbox_open(struct pmv_mailbox *mailbox);
/* pmv_mailbox_close -- once the core's endpoint is closed and the agent knows it no more */
void pmv_mailbox_close(struct pmv_mailbox *mailbox);

/* pmv_mailbox_handshake -- what the peer has to know */
void pmv_mailbox_handshake(struct pmv_mailbox *mailbox, uint8_t buf[PMV_HANDSHAKE_SIZE]);

/* pmv_mailbox_connect -- what the peer said */
void pmv_mailbox_connect(struct pmv_mailbox *mailbox, const struct pmv_handshake *handshake);

/* pmv_mailbox_flush_place -- the peer's flush page: a READ of it pushes as any other */
void pmv_mailbox_flush_place(const struct pmv_mailbox *mailbox, uint64_t *addr, uint64_t *key);

/*
 * pmv_mailbox_send -- post a message, whose number is filled in here.  -FI_EAGAIN:
 * no room in the mailbox or in the send queue.
 */
ssize_t pmv_mailbox_send(struct pmv_mailbox *mailbox, struct pmv_message *message,
			 struct pmv_op *op, uint64_t flags);

/*
 * pmv_mailbox_repeat -- post a message that is not acknowledged once more, as it was:
 * somebody may have overwritten it.  The oldest one and the last empty one take
 * turns.  One at a time may be under way.  -FI_ECANCELED: it is not known any more.
 * pmv_mailbox_ask -- post an empty message, unless one is under way: its acknowledgement
 * shows whether an earlier one is missing.
 * Both: 0 or a negative fi_errno.
 */
ssize_t pmv_mailbox_repeat(struct pmv_mailbox *mailbox, struct pmv_op *op);
ssize_t pmv_mailbox_ask(struct pmv_mailbox *mailbox, struct pmv_op *op);
bool pmv_mailbox_may_ask(const struct pmv_mailbox *mailbox);

/*
 * pmv_mailbox_misses_ack -- true: an acknowledgement has been overwritten, since a later
 * one has been there for two calls.  Where writes are reordered the first call may
 * come between the two.
 */
bool pmv_mailbox_misses_ack(struct pmv_mailbox *mailbox);

/* pmv_mailbox_has_ack -- is the next acknowledgement there, whole?  Needs no lock. */
bool pmv_mailbox_has_ack(const struct pmv_mailbox *mailbox);

/* pmv_mailbox_take_ack -- malformed: the peer does not keep to the rules, expect no more */
enum pmv_arrival pmv_mailbox_take_ack(struct pmv_mailbox *mailbox, struct pmv_ack *ack);

/* pmv_mailbox_has_message, pmv_mailbox_take_message -- the same for the peer's messages */
bool pmv_mailbox_has_message(const struct pmv_mailbox *mailbox);
enum pmv_arrival pmv_mailbox_take_message(struct pmv_mailbox *mailbox,
					  uint8_t copy[PMV_MESSAGE_SIZE],
					  struct pmv_message *message);

/* pmv_mailbox_has_whole_message -- ... to the last byte, which takes longer to find out */
bool pmv_mailbox_has_whole_message(const struct pmv_mailbox *mailbox);

/* pmv_mailbox_put_back -- this message and all that were taken after it, until another time */
void pmv_mailbox_put_back(struct pmv_mailbox *mailbox, uint64_t number);

/* pmv_mailbox_owe -- message `number` has been served; pmv_mailbox_pay posts what is owed */
void pmv_mailbox_owe(struct pmv_mailbox *mailbox, uint64_t number, enum pmv_fault fault);
ssize_t pmv_mailbox_pay(struct pmv_mailbox *mailbox);

#endif /* PMV_MAILBOX_H */
