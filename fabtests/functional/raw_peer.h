/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw_peer.h -- a peer that keeps to no rules
 *
 * It uses the core provider alone and makes its own handshake, so it may write to
 * all that a peer may write to, and whatever it likes.
 *
 * Functions that return int return 0, or what failed() returns.
 */
#ifndef PMEM_RAW_PEER_H
#define PMEM_RAW_PEER_H

#include "functional.h"
#include "testcore/message.h"

/* So long an answer may take that has to come. */
#define RAW_ANSWER_MS 60000

struct raw {
	struct fx *fx;
	struct target_proc *target;
	struct options opts;
	struct node node;
	struct conn conn;
	struct region region;
	struct memory memory;
	uint8_t *block;  /* the target's agent acknowledges to it; behind it is what is sent */
	uint64_t secret; /* its half; may be set before it connects */
	struct pmv_handshake theirs;
	struct pmv_seal message_out, ack_in;
	uint64_t id; /* at the target */
	uint64_t sent;
	uint64_t acks;
	unsigned int under_way;
	bool is_broken;
};

/* raw_open -- an endpoint that can connect to the target of a well-behaved connection */
int raw_open(struct fx *fx, struct raw *raw, struct link *beside);
/* raw_close -- the target's half first: it may wait for the peer to be told */
void raw_close(struct raw *raw);
/* raw_leave -- without a word to the target */
void raw_leave(struct raw *raw);

/* raw_hello -- what an honest peer would say; its length */
size_t raw_hello(struct raw *raw, uint8_t handshake[PMV_HANDSHAKE_SIZE]);
/* raw_connect -- say this; what the target says is in raw->theirs */
int raw_connect(struct raw *raw, const void *handshake, size_t len);
/* raw_greet -- connect with an honest handshake, to a target with an agent */
int raw_greet(struct raw *raw);

/* raw_reap -- take completions; the core is driven by this, too */
void raw_reap(struct raw *raw);
/* raw_settle -- all that was posted has completed */
int raw_settle(struct raw *raw);

/* raw_is_ended -- the target ends the connection, sooner or later */
bool raw_is_ended(struct raw *raw);

/* raw_write -- bytes of the second half of our block, to the same place of the target's */
int raw_write(struct raw *raw, size_t at, size_t len);
/* raw_write_to -- the same, to any memory of the target's */
int raw_write_to(struct raw *raw, uint64_t addr, uint32_t key, size_t at, size_t len);
/* raw_read -- into the start of our block; false: the target does not let us */
bool raw_read(struct raw *raw, uint64_t addr, uint32_t key, size_t len);

/* raw_slot -- in the second half of our block */
uint8_t *raw_slot(struct raw *raw, uint64_t number);
/* raw_put -- these bytes, into the slot of that number */
int raw_put(struct raw *raw, uint64_t number, const uint8_t *bytes, size_t len);
/* raw_seal -- whatever it is: the seal is right */
void raw_seal(const struct raw *raw, uint8_t *bytes, size_t len);
/* raw_send -- the next message, made by the rules */
int raw_send(struct raw *raw, struct pmv_flush_message *message);

/* raw_take_ack -- the next acknowledgement, if it comes in time; false: it does not */
bool raw_take_ack(struct raw *raw, unsigned int ms, struct pmv_ack *ack);
/* raw_stays_silent -- what was sent last is not acknowledged */
int raw_stays_silent(struct raw *raw, const char *what);
/* raw_answers -- message `number` is acknowledged, with that fault */
int raw_answers(struct raw *raw, const char *what, uint64_t number, enum pmv_fault fault);

#endif /* PMEM_RAW_PEER_H */
