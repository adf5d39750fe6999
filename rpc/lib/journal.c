/* SPDX-License-Identifier: BSD-2-Clause */
/* journal.c -- transactions on their way to their places; journal.h says why it is right */
#include "journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LATE (UINT64_C(1) << 63)

struct record {
	uint64_t checksum; /* of what follows `len` */
	uint64_t len;      /* of the changes */
	uint64_t epoch;
};

_Static_assert(sizeof(struct record) == RPC_RECORD_HEAD, "head of a record");

/* Where, and how much; the contents follow, up to a multiple of 8. */
struct change {
	uint64_t offset; /* and LATE */
	uint64_t len;
};

_Static_assert(sizeof(struct change) == RPC_CHANGE_HEAD, "head of a change");

struct rpc_range {
	uint64_t start, end;
};

/*
 * next_change -- and its contents; NULL: that was the last one.  Also if it names no memory that
 * there is: then the medium is damaged.
 */
static const unsigned char *next_change(const struct rpc_journal *journal, const unsigned char **at,
					const unsigned char *end, struct change *change, bool *late)
{
	const unsigned char *contents = *at + sizeof(*change);
	size_t left = (size_t) (end - *at);

	if (left < sizeof(*change))
		return NULL;
	memcpy(change, *at, sizeof(*change));
	*late = change->offset & LATE;
	change->offset &= ~LATE;
	if (change->len > left || rpc_change_len(change->len) > left ||
	    change->offset > journal->memory->len ||
	    change->len > journal->memory->len - change->offset)
		return NULL;
	*at += rpc_change_len(change->len);
	return contents;
}

static void write_change(const struct rpc_journal *journal, const struct change *change,
			 const unsigned char *contents)
{
	struct rpc_memory *memory = journal->memory;

	memory->write(memory, memory->base + change->offset, contents, change->len);
}

/* changes_of -- of the record at this offset; returns where the next one begins */
static size_t changes_of(const struct rpc_journal *journal, size_t at, const unsigned char **first,
			 const unsigned char **end)
{
	struct record record;

	memcpy(&record, journal->records + at, sizeof(record));
	*first = journal->records + at + sizeof(record);
	*end = *first + record.len;
	return at + sizeof(record) + record.len;
}

/* Which changes of a record. */
enum which { EARLY, LATE_ONES, ALL };

/* write_places -- of the records from there on, in their order */
static void write_places(const struct rpc_journal *journal, size_t at, size_t to, enum which which)
{
	const unsigned char *next, *end, *contents;
	struct change change;
	bool late;

	while (at < to) {
		at = changes_of(journal, at, &next, &end);
		while ((contents = next_change(journal, &next, end, &change, &late))) {
			if (which == ALL || late == (which == LATE_ONES))
				write_change(journal, &change, contents);
		}
	}
}

static int compare(const void *a, const void *b)
{
	const struct rpc_range *one = a, *other = b;

	return (one->start > other->start) - (one->start < other->start);
}

/* find_places -- of all records, in the order of the memory; returns how many */
static size_t find_places(const struct rpc_journal *journal)
{
	const unsigned char *next, *end;
	struct change change;
	size_t count = 0;
	bool late;

	for (size_t at = 0; at < journal->used;) {
		at = changes_of(journal, at, &next, &end);
		while (next_change(journal, &next, end, &change, &late))
			journal->ranges[count++] =
				(struct rpc_range){change.offset, change.offset + change.len};
	}
	qsort(journal->ranges, count, sizeof(*journal->ranges), compare);
	return count;
}

/* keep_places -- make the places of all records durable: each once, and neighbours together */
static int keep_places(struct rpc_journal *journal)
{
	struct rpc_memory *memory = journal->memory;
	size_t count = find_places(journal);
	int ret = 0;

	for (size_t i = 0; !ret && i < count;) {
		struct rpc_range range = journal->ranges[i++];

		while (i < count && (journal->ranges[i].start <= range.end ||
				     journal->ranges[i].start - range.end < memory->grain)) {
			if (journal->ranges[i].end > range.end)
				range.end = journal->ranges[i].end;
			i++;
		}
		ret = memory->persist(memory, memory->base + range.start, range.end - range.start);
	}
	return ret;
}

/* begin_anew -- no record counts any more */
static int begin_anew(struct rpc_journal *journal)
{
	struct rpc_memory *memory = journal->memory;
	unsigned char *place = journal->records - RPC_JOURNAL_HEAD;
	uint64_t epoch = journal->epoch + 1;

	memory->write(memory, place, &epoch, sizeof(epoch));
	journal->epoch = epoch;
	journal->used = journal->durable = 0;
	return memory->persist(memory, place, sizeof(epoch));
}

/* find_records -- those that count, up to the first one that is not whole */
static void find_records(struct rpc_journal *journal)
{
	struct record record;

	while (sizeof(record) <= journal->room - journal->used) {
		const unsigned char *at = journal->records + journal->used;

		memcpy(&record, at, sizeof(record));
		if (!record.len || record.epoch != journal->epoch ||
		    record.len > journal->room - journal->used - sizeof(record) ||
		    rpc_journal_checksum(journal->secret, at + offsetof(struct record, epoch),
					 sizeof(record.epoch) + record.len) != record.checksum)
			return;
		journal->used += sizeof(record) + record.len;
	}
}

int rpc_memory_keep(struct rpc_memory *memory, unsigned char *place, size_t len)
{
	unsigned char copy[4096];

	for (size_t at = 0; at < len; at += sizeof(copy)) {
		size_t part = len - at < sizeof(copy) ? len - at : sizeof(copy);

		/* Where both are the same place, memcpy may leave it alone. */
		memcpy(copy, place + at, part);
		memory->write(memory, place + at, copy, part);
	}
	return memory->persist(memory, place, len);
}

int rpc_journal_open(struct rpc_journal *journal, struct rpc_memory *memory, uint64_t secret,
		     size_t offset, size_t len)
{
	size_t room = len - RPC_JOURNAL_HEAD;
	int ret;

	*journal = (struct rpc_journal){
		.memory = memory,
		.secret = secret,
		.records = memory->base + offset + RPC_JOURNAL_HEAD,
		.room = room,
		.ranges = malloc(room / sizeof(struct change) * sizeof(struct rpc_range))};
	if (!journal->ranges)
		return -ENOMEM;
	memcpy(&journal->epoch, memory->base + offset, sizeof(journal->epoch));
	find_records(journal);
	/*
	 * A process that was killed may have left records that can be read, and are not durable.
	 * Without this a power failure could leave half of their contents at their places, and no
	 * record that has the rest.
	 */
	ret = rpc_memory_keep(memory, memory->base + offset, RPC_JOURNAL_HEAD + journal->used);
	if (ret)
		return ret;
	write_places(journal, 0, journal->used, ALL);
	ret = keep_places(journal);
	return ret ? ret : begin_anew(journal);
}

void rpc_journal_close(struct rpc_journal *journal)
{
	free(journal->ranges);
	journal->ranges = NULL;
}

unsigned char *rpc_transaction_add(const struct rpc_journal *journal,
				   struct rpc_transaction *transaction, const void *place,
				   const void *data, size_t data_len, size_t len, bool late)
{
	const struct change change = {
		.offset = (uint64_t) ((const unsigned char *) place - journal->memory->base) |
			  (late ? LATE : 0),
		.len = len};
	unsigned char *contents = transaction->bytes + transaction->len + sizeof(change);

	memcpy(contents - sizeof(change), &change, sizeof(change));
	transaction->len += rpc_change_len(len);
	/* The padding, too, is the same each time. */
	memset(contents + len, 0, rpc_change_len(len) - sizeof(change) - len);
	if (data_len)
		memcpy(contents, data, data_len);
	return contents;
}

void rpc_transaction_drop(struct rpc_transaction *transaction)
{
	transaction->len = RPC_RECORD_HEAD;
	transaction->effects_len = 0;
	transaction->full = 0;
}

bool rpc_journal_has_room(const struct rpc_journal *journal,
			  const struct rpc_transaction *transaction)
{
	return transaction->len <= journal->room - journal->used;
}

void rpc_journal_append(struct rpc_journal *journal, struct rpc_transaction *transaction)
{
	struct rpc_memory *memory = journal->memory;
	struct record record = {.len = transaction->len - sizeof(record), .epoch = journal->epoch};

	memcpy(transaction->bytes, &record, sizeof(record));
	record.checksum = rpc_journal_checksum(journal->secret,
					       transaction->bytes + offsetof(struct record, epoch),
					       sizeof(record.epoch) + record.len);
	memcpy(transaction->bytes, &record.checksum, sizeof(record.checksum));
	memory->write(memory, journal->records + journal->used, transaction->bytes,
		      transaction->len);
	journal->used += transaction->len;
}

int rpc_journal_sync(const struct rpc_journal *journal, size_t end)
{
	struct rpc_memory *memory = journal->memory;

	return end > journal->durable ? memory->persist(memory, journal->records + journal->durable,
							end - journal->durable)
				      : 0;
}

void rpc_journal_synced(struct rpc_journal *journal, size_t end)
{
	write_places(journal, journal->durable, end, EARLY);
	journal->durable = end;
}

int rpc_journal_settle(struct rpc_journal *journal)
{
	int ret;

	if (!journal->used)
		return 0;
	write_places(journal, 0, journal->used, LATE_ONES);
	ret = keep_places(journal);
	return ret ? ret : begin_anew(journal);
}

bool rpc_journal_names(const struct rpc_journal *journal, const void *place, size_t len)
{
	uint64_t start = (uint64_t) ((const unsigned char *) place - journal->memory->base);
	const unsigned char *next, *end;
	struct change change;
	bool late;

	for (size_t at = 0; at < journal->used;) {
		at = changes_of(journal, at, &next, &end);
		while (next_change(journal, &next, end, &change, &late)) {
			if (change.offset < start + len && start < change.offset + change.len)
				return true;
		}
	}
	return false;
}
