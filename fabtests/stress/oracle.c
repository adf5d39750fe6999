/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * oracle.c -- what has to be durable, and whether it is
 *
 * What a commit covers is what fi_pmemverbs(7) says: the writes and atomics of the endpoint to the
 * same rkey whose calls had returned before the commit's was made, whichever thread made them; with
 * a fence those to all regions.  Writes of a connection reach the same bytes in the order in which
 * they were posted.  So a byte may be that of the last write covered, or of any later one.
 */
#include <errno.h>
#include <string.h>

#include "oracle.h"

#define NOTHING UINT64_MAX

size_t region_len(void)
{
	return (THREADS * (size_t) LANE + 4095) & ~(size_t) 4095;
}

size_t slot_len(void)
{
	return REGIONS * region_len() + (size_t) BUFFERS * BUFFER;
}

size_t memory_len(void)
{
	return stress.processes * stress.connections * slot_len();
}

size_t region_at(unsigned int slot, unsigned int region)
{
	return slot * slot_len() + region * region_len();
}

size_t lane_at(unsigned int slot, unsigned int thread, unsigned int region)
{
	return region_at(slot, region) + thread * (size_t) LANE;
}

size_t buffer_at(unsigned int slot, unsigned int buffer)
{
	return region_at(slot, REGIONS) + buffer * (size_t) BUFFER;
}

/* image -- what would be there after a power failure */
static const uint8_t *image(void)
{
	return atomic_load(&world->shadowed) ? shadow : live;
}

/* Locks */

/* forget -- of the writes that no commit covers, nobody knows what has become */
static void forget(struct lane *lane)
{
	for (uint64_t seq = lane->head; seq < lane->next; seq++) {
		const struct entry *entry = entry_at(lane, seq);

		for (uint32_t i = 0; !entry->operand && i < entry->count; i++)
			memset(lane->known + entry->places[i].offset, 0, entry->places[i].len);
	}
	lane->head = lane->next;
	atomic_store(&lane->posted, lane->next);
}

void oracle_lock(unsigned int slot)
{
	struct slot *s = &world->slots[slot];

	if (pthread_mutex_lock(&s->lock) != EOWNERDEAD)
		return;
	/* It may have died while it was noting something. */
	s->begun = false;
	for (unsigned int i = 0; i < THREADS * REGIONS; i++)
		memset(s->lanes[i / REGIONS][i % REGIONS].known, 0, AREA);
	pthread_mutex_consistent(&s->lock);
}

void oracle_unlock(unsigned int slot)
{
	pthread_mutex_unlock(&world->slots[slot].lock);
}

void oracle_end(unsigned int slot)
{
	struct slot *s = &world->slots[slot];

	oracle_lock(slot);
	for (unsigned int i = 0; i < THREADS * WINDOW; i++)
		atomic_store(&s->ops[i / WINDOW][i % WINDOW].state, OP_FREE);
	for (unsigned int i = 0; i <= REGIONS; i++)
		atomic_store(&s->lost[i], false);
	atomic_store(&s->faults, 0);
	for (unsigned int r = 0; r < REGIONS; r++)
		atomic_store(&s->completed[r], 0);
	s->begun = false;
	oracle_unlock(slot);
}

void oracle_begin(unsigned int slot)
{
	struct slot *s = &world->slots[slot];

	oracle_lock(slot);
	for (unsigned int t = 0; t < THREADS; t++) {
		for (unsigned int r = 0; r < REGIONS; r++) {
			struct lane *lane = &s->lanes[t][r];

			forget(lane);
			memcpy(lane->base, live + lane_at(slot, t, r) + AREA, sizeof(lane->base));
			memset(lane->covered, 0, sizeof(lane->covered));
			memset(lane->all, 0, sizeof(lane->all));
		}
	}
	s->sent = s->found = 0;
	atomic_store(&s->released, 0);
	memset(s->messages, 0, sizeof(s->messages));
	memset(s->tallies, 0, sizeof(s->tallies));
	memset(s->told, 0, sizeof(s->told));
	s->begun = true;
	oracle_unlock(slot);
}

/* Writes */

/*
 * choose -- which bytes are written: others than have ever been at these places, as long as the
 * pool reaches.  So it can be seen that they have arrived.
 */
static uint32_t choose(const struct lane *lane, const struct entry *entry)
{
	return (uint32_t) (lane->next * 20011 % (POOL - AREA - MAX_WRITE)) +
	       entry->places[0].offset;
}

bool oracle_append(unsigned int slot, unsigned int thread, unsigned int region, struct entry *entry,
		   uint64_t *seq)
{
	struct lane *lane = &world->slots[slot].lanes[thread][region];
	bool room;

	oracle_lock(slot);
	room = lane->next - lane->head < JOURNAL - 1;
	if (room) {
		*seq = lane->next;
		if (!entry->operand)
			entry->from = choose(lane, entry);
		*entry_at(lane, lane->next++) = *entry;
		if (entry->operand)
			lane->all[entry->places[0].offset] += entry->operand;
	}
	oracle_unlock(slot);
	return room;
}

void oracle_snapshot(unsigned int slot, int region, struct extent *extent)
{
	struct slot *s = &world->slots[slot];

	*extent = (struct extent){0};
	for (unsigned int t = 0; t < THREADS; t++) {
		for (int r = 0; r < REGIONS; r++) {
			if (region < 0 || r == region)
				extent->upto[t][r] = atomic_load(&s->lanes[t][r].posted);
		}
	}
}

/* Comparisons */

/* byte_of -- what an entry writes to a byte of the lane; false: it does not write there */
static bool byte_of(const struct entry *entry, uint32_t at, uint8_t *byte)
{
	uint32_t from = entry->from;
	bool found = false;

	for (uint32_t i = 0; i < entry->count; from += entry->places[i++].len) {
		const struct place *place = &entry->places[i];

		if (at < place->offset || at - place->offset >= place->len)
			continue;
		*byte = pool[from + (at - place->offset)];
		found = true;
	}
	return found && !entry->operand;
}

/* oracle_is_newer -- does a byte come from a write behind those up to seq? */
bool oracle_is_newer(struct lane *lane, uint64_t seq, uint32_t at, uint8_t is)
{
	uint8_t byte;

	for (; seq < lane->next; seq++) {
		if (byte_of(entry_at(lane, seq), at, &byte) && byte == is)
			return true;
	}
	return false;
}

/* compare -- a part of the lane with its floor; AREA, or the first byte that is wrong */
static uint32_t compare(struct lane *lane, const uint8_t *is, const struct place *place)
{
	const uint8_t *floor = lane->floor + place->offset;

	stress_count(C_BYTES, place->len);
	if (!memcmp(is + place->offset, floor, place->len) &&
	    !memchr(lane->known + place->offset, 0, place->len))
		return AREA;
	for (uint32_t i = 0; i < place->len; i++) {
		uint32_t at = place->offset + i;
		uint8_t byte = *(const volatile uint8_t *) (is + at);

		if (lane->known[at] && byte != lane->floor[at] &&
		    !oracle_is_newer(lane, lane->head, at, byte))
			return at;
	}
	return AREA;
}

static void fail_at(unsigned int slot, unsigned int thread, unsigned int region, uint32_t at,
		    const struct op *op, const char *who)
{
	stress_fail("%s: byte %u of region %u, lane %u of connection %u is not durable (%s %llu of "
		    "thread %u, flags 0x%llx)",
		    who, at, region, thread, slot, op ? op->name : "at the end",
		    op ? (unsigned long long) op->number : 0, op ? op->thread : 0,
		    op ? (unsigned long long) op->flags : 0);
}

/* check_word -- atomics only add, so the sum never falls */
static void check_word(unsigned int slot, unsigned int thread, unsigned int region, uint32_t word,
		       const struct op *op, const char *who)
{
	struct lane *lane = &world->slots[slot].lanes[thread][region];
	uint64_t is;

	memcpy(&is, image() + lane_at(slot, thread, region) + AREA + 8 * (size_t) word, sizeof(is));
	is -= lane->base[word];
	if (is < lane->covered[word] || is > lane->all[word])
		fail_at(slot, thread, region, AREA + 8 * word, op, who);
}

static void apply(struct lane *lane, const struct entry *entry, bool excused)
{
	bool known = !entry->failed && !excused;
	uint32_t from = entry->from;

	if (entry->alone)
		return;
	if (entry->operand) {
		lane->covered[entry->places[0].offset] += known ? entry->operand : 0;
		return;
	}
	for (uint32_t i = 0; i < entry->count; from += entry->places[i++].len) {
		const struct place *place = &entry->places[i];

		memcpy(lane->floor + place->offset, pool + from, place->len);
		memset(lane->known + place->offset, known, place->len);
	}
}

/*
 * is_excused -- once a sync has failed, commits fail that were posted then, and what they would
 * have written is not there.  Who posts another one knows that, or will hear of it: what succeeds
 * then promises nothing of them.  Nor does a fence of the region that was lost.  But a commit to
 * that region has to fail, and so has a fenced one that was posted before the sync.
 */
static bool is_excused(unsigned int slot, unsigned int region, const struct op *op, bool before,
		       bool commits)
{
	struct slot *s = &world->slots[slot];
	bool sure = op->flags & FI_FENCE && atomic_load(&op->sure);

	if (!atomic_load(&s->faults) || sure)
		return false;
	return commits || (atomic_load(&s->lost[region]) && (before || region != op->region));
}

/* claim_lane -- with the lock held: the journal up to seq is durable */
static void claim_lane(unsigned int slot, unsigned int thread, unsigned int region, uint64_t upto,
		       const struct op *op, bool before)
{
	const char *who = before ? "before a fence" : "its completion";
	struct lane *lane = &world->slots[slot].lanes[thread][region];
	const uint8_t *is = image() + lane_at(slot, thread, region);
	uint64_t first = lane->head;

	for (; lane->head < upto && lane->head < lane->next; lane->head++) {
		const struct entry *entry = entry_at(lane, lane->head);

		apply(lane, entry, is_excused(slot, region, op, before, entry->commits));
	}
	for (; first < lane->head; first++) {
		const struct entry *entry = entry_at(lane, first);

		if (entry->alone)
			continue;
		if (entry->operand) {
			check_word(slot, thread, region, entry->places[0].offset, op, who);
			continue;
		}
		for (uint32_t i = 0; i < entry->count; i++) {
			uint32_t at = compare(lane, is, &entry->places[i]);

			if (at < AREA)
				fail_at(slot, thread, region, at, op, who);
		}
	}
}

/* Messages */

static void fill_header(unsigned int slot, uint64_t number, uint8_t *header)
{
	uint64_t head[2] = {UINT64_C(0x6d657373616765) ^ (world->seed + slot), number};

	memcpy(header, head, sizeof(head));
}

void oracle_message(unsigned int slot, uint64_t number, uint8_t *data)
{
	const struct message *message = &world->slots[slot].messages[number % MESSAGES];

	fill_header(slot, number, data);
	memcpy(data + HEADER, pool + message->from, message->len - HEADER);
}

/* is_there -- a message, in one of the buffers */
static bool is_there(unsigned int slot, const uint8_t *memory, uint64_t number)
{
	const struct message *message = &world->slots[slot].messages[number % MESSAGES];
	uint8_t header[HEADER];

	fill_header(slot, number, header);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		const uint8_t *buffer = memory + buffer_at(slot, i);

		if (!memcmp(buffer, header, HEADER) &&
		    !memcmp(buffer + HEADER, pool + message->from, message->len - HEADER))
			return true;
	}
	return false;
}

static void claim_messages(unsigned int slot, uint64_t upto, const struct op *op, bool before)
{
	struct slot *s = &world->slots[slot];
	bool excused = is_excused(slot, REGIONS, op, before, true);

	while (s->found < upto) {
		if (!is_there(slot, image(), ++s->found) && !excused)
			stress_fail("%s: message %llu of connection %u is not durable (%s %llu)",
				    before ? "before a fence" : "its completion",
				    (unsigned long long) s->found, slot, op->name,
				    (unsigned long long) op->number);
		stress_count(C_BYTES, s->messages[s->found % MESSAGES].len);
	}
	atomic_store(&s->released, s->found);
}

/* Claims */

/* oracle_claim_extent -- with the lock held; before: the operation is executed, not completed */
void oracle_claim_extent(unsigned int slot, const struct extent *extent, const struct op *op,
			 bool before)
{
	for (unsigned int t = 0; t < THREADS; t++) {
		for (unsigned int r = 0; r < REGIONS; r++)
			claim_lane(slot, t, r, extent->upto[t][r], op, before);
	}
	claim_messages(slot, extent->messages, op, before);
	stress_count(C_CLAIMS, 1);
}

void oracle_claim(unsigned int slot, const struct op *op)
{
	oracle_lock(slot);
	oracle_claim_extent(slot, &op->extent, op, false);
	oracle_unlock(slot);
}

void oracle_claim_alone(unsigned int slot, const struct op *op)
{
	oracle_lock(slot);
	world->slots[slot].lanes[op->thread][op->region].covered[op->word] += op->operand;
	check_word(slot, op->thread, op->region, op->word, op, "its completion");
	stress_count(C_CLAIMS, 1);
	oracle_unlock(slot);
}

uint32_t oracle_data(const struct op *op, unsigned int index)
{
	return op->thread << 28 | index << 20 | (op->generation & 0xfffff);
}

/* check_visible -- with the lock held: its bytes, or newer ones, are in the live memory */
static void check_visible(unsigned int slot, const struct op *op, const char *who)
{
	struct lane *lane = &world->slots[slot].lanes[op->thread][op->region];
	const uint8_t *is = live + lane_at(slot, op->thread, op->region);
	const struct entry *entry = entry_at(lane, op->seq);
	uint8_t byte = 0;

	/* A power failure takes what was only visible. */
	if (world->slots[slot].life != atomic_load(&world->life))
		return;
	/* What a commit covers was looked at by then. */
	if (op->seq == NOTHING || op->seq < lane->head || entry->operand)
		return;
	stress_count(C_VISIBLE, 1);
	for (uint32_t i = 0; i < entry->count; i++) {
		for (uint32_t j = 0; j < entry->places[i].len; j++) {
			uint32_t at = entry->places[i].offset + j;

			byte_of(entry, at, &byte);
			if (is[at] != byte && !oracle_is_newer(lane, op->seq, at, is[at]))
				stress_fail("%s: byte %u of region %u, lane %u of connection %u is "
					    "not visible (%s %llu, flags 0x%llx)",
					    who, at, op->region, op->thread, slot, op->name,
					    (unsigned long long) op->number,
					    (unsigned long long) op->flags);
		}
	}
}

void oracle_visible(unsigned int slot, const struct op *op)
{
	oracle_lock(slot);
	check_visible(slot, op, "its completion");
	oracle_unlock(slot);
}

void oracle_notice(unsigned int slot, uint32_t data)
{
	unsigned int thread = data >> 28, index = data >> 20 & 0xff;
	struct op *op;

	if (data == NO_OP)
		return;
	if (thread >= THREADS || index >= WINDOW)
		stress_fail("immediate data 0x%x of connection %u, which nobody sent", data, slot);
	op = &world->slots[slot].ops[thread][index];
	oracle_lock(slot);
	/* It may have completed at the initiator before, which has looked then. */
	if (atomic_load(&op->state) == OP_UNDER_WAY && oracle_data(op, index) == data) {
		stress_count(C_NOTICES, 1);
		/* A message's completion there promises nothing. */
		if (op->claims && !op->message)
			oracle_claim_extent(slot, &op->extent, op, false);
		else
			check_visible(slot, op, "the target's completion");
	}
	oracle_unlock(slot);
}

void oracle_failed(unsigned int slot, const struct op *op)
{
	struct lane *lane = &world->slots[slot].lanes[op->thread][op->region];

	if (op->seq == NOTHING)
		return;
	oracle_lock(slot);
	if (op->seq >= lane->head)
		entry_at(lane, op->seq)->failed = true;
	oracle_unlock(slot);
}

/* Fences */

/* is_seen -- are 8 bytes of it at their place, and not the same as before? */
static bool is_seen(unsigned int slot, const struct op *op)
{
	const struct lane *lane = &world->slots[slot].lanes[op->thread][op->region];
	const struct entry *entry = &lane->journal[op->seq % JOURNAL];
	const uint8_t *is = live + lane_at(slot, op->thread, op->region);
	uint32_t from = entry->from;

	if (op->message)
		return is_there(slot, live, op->message);
	if (op->seq == NOTHING || op->seq < lane->head || entry->operand)
		return false;
	for (uint32_t i = 0; i < entry->count; from += entry->places[i++].len) {
		const struct place *place = &entry->places[i];

		for (uint32_t j = 0; j + 8 <= place->len; j += 8) {
			if (!memcmp(is + place->offset + j, pool + from + j, 8) &&
			    memcmp(lane->floor + place->offset + j, pool + from + j, 8))
				return true;
		}
	}
	return false;
}

void oracle_fences(unsigned int slot)
{
	struct slot *s = &world->slots[slot];

	oracle_lock(slot);
	for (unsigned int t = 0; t < THREADS; t++) {
		for (unsigned int i = 0; i < WINDOW; i++) {
			struct op *op = &s->ops[t][i];

			if (atomic_load(&op->state) != OP_UNDER_WAY || !op->claims ||
			    !(op->flags & FI_FENCE) || !is_seen(slot, op))
				continue;
			stress_count(C_FENCES, 1);
			oracle_claim_extent(slot, &op->before, op, true);
		}
	}
	oracle_unlock(slot);
}

void oracle_all_fences(void)
{
	for (unsigned int i = 0; i < stress.processes * stress.connections; i++)
		oracle_fences(i);
}

/* What is known */

void oracle_fail_power(unsigned int slot)
{
	oracle_lock(slot);
	if (atomic_load(&world->shadowed))
		memcpy(live + region_at(slot, 0), shadow + region_at(slot, 0), slot_len());
	oracle_unlock(slot);
	oracle_known(slot);
}

void oracle_known(unsigned int slot)
{
	const struct place all = {0, AREA};

	oracle_lock(slot);
	for (unsigned int t = 0; t < THREADS; t++) {
		for (unsigned int r = 0; r < REGIONS; r++) {
			struct lane *lane = &world->slots[slot].lanes[t][r];
			uint32_t at = compare(lane, image() + lane_at(slot, t, r), &all);

			if (at < AREA)
				fail_at(slot, t, r, at, NULL, "no longer");
		}
	}
	oracle_unlock(slot);
}
