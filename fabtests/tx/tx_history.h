/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_history.h -- is a history of transactions strictly serializable?
 *
 * In general that takes a search.  Here whoever writes a key has read it, and all values of a key
 * are different.  So a value says which transaction it is of, and that one says which value it has
 * replaced: the order of a key's versions is known.  Then each transaction has to be
 * - behind those that wrote what it has read,
 * - before the one that has replaced what it has read,
 * - behind those that had ended before it began.
 * An order that obeys this exists if there is no circle, and it is a serial execution with the same
 * values.  There is none in any case if a value was replaced twice, or nobody has written it.
 *
 * Nobody knows whether a transaction without an end was made.  It was, if one was that has read its
 * values.  If nobody has read them nobody has replaced them, so it can be left out.
 */
#ifndef PMEM_TX_HISTORY_H
#define PMEM_TX_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TX_ACCESSES 3U
#define TX_NEVER UINT64_MAX

struct tx_event {
	uint64_t key;
	uint64_t read;    /* the value; 0 is there at first, and nobody writes it */
	uint64_t written; /* 0: it was only read */
};

struct tx_transaction {
	uint64_t begin;
	uint64_t end; /* TX_NEVER: nobody was told */
	bool aborted;
	unsigned int count;
	struct tx_event events[TX_ACCESSES]; /* of different keys */
};

struct tx_verdict {
	bool wrong;
	const char *why;
	uint64_t key, value; /* of one of those that are concerned */
	size_t judged;       /* transactions that were made */
};

struct tx_verdict tx_judge_history(const struct tx_transaction *transactions, size_t count);

#endif /* PMEM_TX_HISTORY_H */
