/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx.h -- keys that transactions read and write: what is in the target's memory, and why
 * transactions are serializable
 *
 * As PRISM-TX has it, clients carry out optimistic transactions, and no code of the target's
 * application takes part.  A transaction has a stamp, and a key's slot has three:
 * - committed: of the transaction that has written what is there now;
 * - pw: the same, or the stamp of one that is prepared to write the key;
 * - pr: the greatest one of those that were prepared to read the key.
 *
 * A transaction reads its keys and remembers what was committed.  It takes a stamp that is greater
 * than all that it has seen, and prepares: at each key, if pw is what was committed when the key
 * was read, pr becomes the stamp if that is greater.  At a key that it writes pr has to be smaller,
 * and pw becomes the stamp, too.  If all this has succeeded it commits (tx_chain.c): it makes the
 * new records durable, swings the slots to them, makes that durable, and last changes what is
 * committed.  Else it puts pw back.
 *
 * So only one transaction at a time is prepared to write a key, and until it has ended nobody else
 * prepares to read or to write that.  Whoever is prepared to read has read the last version with a
 * smaller stamp, and each version that comes later has a greater one.  All transactions are as if
 * executed one after the other in the order of their stamps.
 *
 * A client that dies leaves pw behind.  A transaction that may still commit stands in its client's
 * stage (running).  Who meets it there for too long takes it away, which is possible until the
 * commit has begun, and puts pw back (tx_client.c).  A commit is one chain, and ends by itself.
 *
 * A target that dies has some of a commit's slots durable, and not others.  So each record names
 * the transaction's other ones.  The target makes all of them when it starts, or nobody has been
 * told of any (tx.c).  Stamps begin anew then with that of the record: what was prepared is gone
 * with the connections.
 */
#ifndef PMEM_TX_H
#define PMEM_TX_H

#include "../rs/rs.h"

#define TX_VALUE 512U
#define TX_KEYS 3U /* of a transaction: a commit is one chain */

/* Another record of the same transaction. */
struct tx_other {
	uint64_t key;
	uint64_t distance; /* from this record to that one; 0: there is none */
};

/* What is in a buffer. */
struct tx_record {
	struct rs_tag stamp;
	uint64_t key;
	uint64_t check; /* of all the rest */
	struct tx_other others[TX_KEYS - 1];
	uint8_t value[TX_VALUE];
};

/* A chain compares pr and pw as one number, in which pw counts more. */
struct tx_slot {
	struct rs_tag pr;
	struct rs_tag pw;
	struct rs_tag committed;
	uint64_t record; /* where peers find it, in no case 0 */
	uint64_t unused;
};

/* A client's own room in the target's memory, which is not durable. */
struct tx_stage {
	struct kv_stage_head head; /* its last word, busy, is not 0 while a commit is under way */
	struct rs_tag running;     /* the transaction that may commit; 0: none */
	uint64_t own[TX_KEYS];     /* buffers for what it writes next */
};

#define TX_HELLO "pmx1"
#define TX_MAGIC UINT64_C(0x317874656d706d66)

extern const struct kv_layout tx_layout;

/* tx_stamp -- of a client, behind the greatest number that it has seen, and by the clock;
 * number 0: there is none */
struct rs_tag tx_stamp(uint64_t client, uint64_t seen, uint64_t clock);

uint64_t tx_check(const struct tx_record *record);

/* tx_is_whole -- is it what somebody has put there, for this key? */
bool tx_is_whole(const struct tx_record *record, uint64_t key);

#endif /* PMEM_TX_H */
