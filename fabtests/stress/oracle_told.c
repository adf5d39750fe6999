/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oracle_told.c -- what counters and reads have to say, by what was posted and accepted; the rules
 * are in oracle.c
 */
#include <string.h>

#include "oracle.h"

/* Counters */

void oracle_post(unsigned int slot, const struct op *op)
{
	for (unsigned int i = 0; i < TALLIES; i++)
		world->slots[slot].tallies[i].posted += op->counted[i];
}

void oracle_refused(unsigned int slot, const struct op *op)
{
	oracle_lock(slot);
	for (unsigned int i = 0; i < TALLIES; i++)
		world->slots[slot].tallies[i].posted -= op->counted[i];
	oracle_unlock(slot);
}

static void extend(struct extent *extent, const struct extent *with)
{
	for (unsigned int t = 0; t < THREADS; t++) {
		for (unsigned int r = 0; r < REGIONS; r++) {
			if (extent->upto[t][r] < with->upto[t][r])
				extent->upto[t][r] = with->upto[t][r];
		}
	}
}

void oracle_accepted(unsigned int slot, const struct op *op)
{
	oracle_lock(slot);
	for (unsigned int i = 0; i < TALLIES; i++) {
		if (op->claims && op->counted[i])
			extend(&world->slots[slot].tallies[i].extent, &op->extent);
	}
	oracle_unlock(slot);
}

/*
 * What is_known says.  A commit may have failed already, without its error having been read: then
 * its data were perhaps not stored.
 */
enum { UNKNOWN, KNOWN, KNOWN_WITHOUT_FAULTS };

static bool is_sure(unsigned int slot, uint8_t known)
{
	return known == KNOWN ||
	       (known == KNOWN_WITHOUT_FAULTS && !atomic_load(&world->slots[slot].faults));
}

/* overlay -- what an entry writes to a place */
static void overlay(const struct entry *entry, const struct place *place, uint8_t *data,
		    uint8_t *is_known)
{
	int known = entry->failed ? UNKNOWN : entry->commits ? KNOWN_WITHOUT_FAULTS : KNOWN;
	uint32_t from = entry->from;

	for (uint32_t i = 0; i < entry->count; from += entry->places[i++].len) {
		const struct place *written = &entry->places[i];
		uint32_t at = written->offset > place->offset ? written->offset : place->offset;
		uint32_t end = place->offset + place->len;

		if (end > written->offset + written->len)
			end = written->offset + written->len;
		if (at >= end)
			continue;
		memcpy(data + (at - place->offset), pool + from + (at - written->offset), end - at);
		memset(is_known + (at - place->offset), known, end - at);
	}
}

/* expect -- what is there when all writes before upto are; is_known: where that can be said */
static void expect(struct lane *lane, uint64_t upto, const struct place *place, uint8_t *data,
		   uint8_t *is_known)
{
	memcpy(data, lane->floor + place->offset, place->len);
	memcpy(is_known, lane->known + place->offset, place->len);
	for (uint64_t seq = lane->head; seq < upto; seq++) {
		const struct entry *entry = entry_at(lane, seq);

		if (!entry->operand)
			overlay(entry, place, data, is_known);
	}
}

/* check_arrived -- with the lock held: all whose calls have returned are in the live memory */
static void check_arrived(unsigned int slot, unsigned int thread, unsigned int region)
{
	static const struct place all = {0, AREA};
	static uint8_t data[AREA], is_known[AREA];
	struct lane *lane = &world->slots[slot].lanes[thread][region];
	const uint8_t *is = live + lane_at(slot, thread, region);
	uint64_t upto = atomic_load(&lane->posted);

	stress_count(C_TOLD, 1);
	expect(lane, upto, &all, data, is_known);
	for (uint32_t i = 0; i < AREA; i++) {
		if (is_sure(slot, is_known[i]) && is[i] != data[i] &&
		    !oracle_is_newer(lane, upto, i, is[i]))
			stress_fail("the target's counter has counted all, but byte %u of region "
				    "%u, lane %u of connection %u is not visible",
				    i, region, thread, slot);
	}
}

bool oracle_counted(unsigned int slot, enum tally_kind kind, uint64_t value, uint64_t errors)
{
	static const char *const names[] = {"the counter", "the target's counter",
					    "a region's counter"};
	struct slot *s = &world->slots[slot];
	const struct tally *tally = &s->tallies[kind];
	struct op op = {
		.name = names[kind < OF_REGION ? kind : OF_REGION],
		.number = value,
		.region = REGIONS, /* of none */
	};
	bool all;

	oracle_lock(slot);
	if (s->begun && value + errors > tally->posted)
		stress_fail("connection %u: %s has counted %llu operations and %llu errors of %llu",
			    slot, op.name, (unsigned long long) value, (unsigned long long) errors,
			    (unsigned long long) tally->posted);
	all = s->begun && value == tally->posted;
	if (all)
		oracle_claim_extent(slot, &tally->extent, &op, false);
	if (all && s->told[kind] != value + errors) {
		stress_count(C_COUNTED, 1);
		for (unsigned int t = 0; kind >= OF_REGION && t < stress.threads; t++)
			check_arrived(slot, t, kind - OF_REGION);
	}
	s->told[kind] = value + errors;
	oracle_unlock(slot);
	return all;
}

bool oracle_told(unsigned int slot)
{
	const struct slot *s = &world->slots[slot];
	bool all = true;

	oracle_lock(slot);
	for (unsigned int i = OF_ENDPOINT; i < TALLIES; i++)
		all = all && s->told[i] == s->tallies[i].posted;
	oracle_unlock(slot);
	return all;
}

/* Reads */

void oracle_expect(unsigned int slot, struct op *op, uint8_t *data, uint8_t *is_known)
{
	struct lane *lane = &world->slots[slot].lanes[op->thread][op->region];

	oracle_lock(slot);
	expect(lane, lane->next, &op->read, data, is_known);
	op->read_seq = lane->next;
	oracle_unlock(slot);
}

void oracle_read(unsigned int slot, const struct op *op, const uint8_t *data,
		 const uint8_t *expected, const uint8_t *is_known)
{
	struct lane *lane = &world->slots[slot].lanes[op->thread][op->region];

	oracle_lock(slot);
	/* A write that was posted behind the read may have overtaken it. */
	for (uint32_t i = 0; lane->next - op->read_seq < JOURNAL && i < op->read.len; i++) {
		if (is_sure(slot, is_known[i]) && data[i] != expected[i] &&
		    !oracle_is_newer(lane, op->read_seq, op->read.offset + i, data[i]))
			stress_fail("read %llu: byte %u of region %u, lane %u of connection %u is "
				    "not what was written",
				    (unsigned long long) op->number, op->read.offset + i,
				    op->region, op->thread, slot);
	}
	oracle_unlock(slot);
}
