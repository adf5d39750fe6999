/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_farm.h -- FaRM's protocol, for comparison: objects in place, each with a version and a lock
 *
 * A transaction reads objects by READs.  To commit, it locks those that it writes by a call of
 * libpmemrpc, reads the versions of the others again, and updates and unlocks by another call,
 * which is durable when it has returned.  Version and lock are one word, so that whoever validates
 * by a READ sees no object that is unlocked and not updated yet.  A checksum shows a READ of an
 * object that is being updated.
 *
 * This is a reference, and no store to use: FaRM's recovery is missing.  Whoever dies with a lock
 * keeps it until the server starts again.  Then no lock is left, and whoever had one is told that
 * his transaction is aborted.
 */
#ifndef PMEM_TX_FARM_H
#define PMEM_TX_FARM_H

#include "tx_client.h"

#define TX_FARM_HELLO "pmf1"
#define TX_FARM_MAGIC UINT64_C(0x3166656d706d6674)
#define TX_FARM_LOCK (UINT64_C(1) << 63)

/* calls */
enum {
	TX_FARM_LOCK_ALL = 1,
	TX_FARM_UNLOCK_ALL,
	TX_FARM_UPDATE_ALL,
	TX_FARM_UPDATE_VOLATILE,
};

/* What of a record is used: stamp.number, the version and TX_FARM_LOCK; key, check, value. */
struct tx_farm_argument {
	uint64_t owner; /* who locks; in no case 0 */
	uint64_t count;
	/* Of a lock only keys and versions count. */
	struct tx_record records[TX_KEYS];
};

/* tx_farm_check -- of a record, with or without the lock */
uint64_t tx_farm_check(const struct tx_record *record);

/* tx_farm_serve -- until SIGTERM or SIGINT, READs on the options' port, and calls on the next one
 */
int tx_farm_serve(const struct options *opts);

#endif /* PMEM_TX_FARM_H */
