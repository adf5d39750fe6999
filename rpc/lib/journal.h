/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal.h -- transactions on their way to their places, in persistent memory
 *
 *   8 bytes   the epoch
 *   56        0
 *   records   one behind the other: checksum, length, epoch, changes
 *
 * A transaction is a list of places with their new contents.  It counts when its record is durable.
 * Its contents are written to their places behind that, and nobody waits until they are durable
 * there.  When there is no room for another record the journal is settled: all places are made
 * durable, and then the epoch grows, so all records count no more.  The next record is the first.
 *
 * After a crash the records of the epoch are carried out again, in their order, up to the first one
 * whose checksum is wrong.
 *
 * Why an old record can't undo a newer one.  Records become durable in their order: what is made
 * durable is all from the last durable one on.  So the records that are carried out are all
 * that count since the journal was settled, and whatever place an old one writes to, the newest one
 * that names it comes later.  All end at once, by one word: there is no moment at which an old
 * record counts and a newer one does not.
 *
 * Some changes are late: nobody reads their places while the server runs, since it has a copy.
 * They are written when the journal is settled.  So many changes of one place cost one flush.
 *
 * Whoever calls holds the store's lock; commit.h says how threads share a flush.
 */
#ifndef RPC_JOURNAL_H
#define RPC_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_JOURNAL_HEAD 64U

struct rpc_memory {
	unsigned char *base;
	size_t len;
	/* What is closer together than this is made durable in one go, with what is between. */
	size_t grain;
	void (*write)(struct rpc_memory *memory, void *place, const void *data, size_t len);
	/* 0, or a negative errno: then nothing is known of what is durable */
	int (*persist)(struct rpc_memory *memory, const void *place, size_t len);
};

/*
 * rpc_memory_keep -- make durable what was found there; 0 or a negative errno.  A sync that failed
 * may have left pages that are not on the disk and count as clean: another sync would succeed, and
 * write nothing.  So they are written to before.
 */
int rpc_memory_keep(struct rpc_memory *memory, unsigned char *place, size_t len);

/* One that is being made, as it will be in the journal; each thread that executes calls has one. */
struct rpc_transaction {
	unsigned char *bytes;
	size_t len, effects_len;
	int full; /* the error of rpc_store_change, until the transaction ends */
};

/* The head of a record, and of each of its changes, whose contents follow. */
#define RPC_RECORD_HEAD 24U
#define RPC_CHANGE_HEAD 16U

/* rpc_change_len -- what a change of so many bytes takes */
static inline size_t rpc_change_len(size_t len)
{
	return RPC_CHANGE_HEAD + (len + 7) / 8 * 8;
}

struct rpc_journal {
	struct rpc_memory *memory;
	uint64_t secret; /* of the checksum: a client can't make a torn record look right */
	unsigned char *records;
	size_t room;
	size_t used, durable; /* bytes of the records that count, and of those that are durable */
	uint64_t epoch;
	struct rpc_range *ranges; /* room for all places of a full journal */
};

/* rpc_journal_open -- at such a place; carry out what counts, and begin anew */
int rpc_journal_open(struct rpc_journal *journal, struct rpc_memory *memory, uint64_t secret,
		     size_t offset, size_t len);
void rpc_journal_close(struct rpc_journal *journal);

/*
 * rpc_transaction_add -- there is room; len bytes of contents, of which the caller writes those
 * behind `data_len` itself.  Returns where they begin.
 */
unsigned char *rpc_transaction_add(const struct rpc_journal *journal,
				   struct rpc_transaction *transaction, const void *place,
				   const void *data, size_t data_len, size_t len, bool late);

/* rpc_transaction_drop -- the changes made so far are not part of it */
void rpc_transaction_drop(struct rpc_transaction *transaction);

/* rpc_journal_has_room -- for this transaction; else it has to be settled */
bool rpc_journal_has_room(const struct rpc_journal *journal,
			  const struct rpc_transaction *transaction);

/* rpc_journal_append -- the transaction, for which there is room; it is not durable yet */
void rpc_journal_append(struct rpc_journal *journal, struct rpc_transaction *transaction);

/*
 * rpc_journal_sync -- make the records durable that end there or before.  The store need not be
 * locked, as long as nobody else calls this.
 */
int rpc_journal_sync(const struct rpc_journal *journal, size_t end);

/* rpc_journal_synced -- they are: their contents go to their places, but for the late ones */
void rpc_journal_synced(struct rpc_journal *journal, size_t end);

/* rpc_journal_settle -- all records are durable: make all places durable, and begin anew */
int rpc_journal_settle(struct rpc_journal *journal);

/* rpc_journal_names -- would a record be carried out again that writes to this place? */
bool rpc_journal_names(const struct rpc_journal *journal, const void *place, size_t len);

/* rpc_journal_checksum -- in checksum.c */
uint64_t rpc_journal_checksum(uint64_t secret, const void *changes, size_t len);

#endif /* RPC_JOURNAL_H */
