/* SPDX-License-Identifier: BSD-2-Clause */
/* draw.c -- random operations, from numbers that follow from the seed; see initiator.c */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "test/support/dice.h"
#include "initiator.h"

uint64_t mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + (a << 48) + (b << 8) + c + 1;

	for (int i = 0; i < 8; i++)
		dice_bits(&state);
	return state ? state : 1;
}

static uint32_t random_size(uint64_t *state, uint32_t most)
{
	static const uint32_t limits[] = {8, 8, 64, 64, 256, 400, 400, 600, 4096, MAX_WRITE};
	uint32_t limit = limits[dice(state, sizeof(limits) / sizeof(limits[0]))];

	if (limit > most)
		limit = most;
	return one_in(state, 3) ? limit : 1 + dice(state, limit);
}

static uint32_t random_offset(uint64_t *state, uint32_t len)
{
	uint32_t offset = dice(state, AREA - len + 1);

	return one_in(state, 2) ? offset & ~(one_in(state, 2) ? 7U : 63U) : offset;
}

/* draw_places -- their bytes are chosen when they are noted */
static void draw_places(struct worker *worker, struct todo *todo)
{
	const size_t most = worker->link->initiator->node.info->tx_attr->rma_iov_limit;
	struct entry *entry = &todo->entry;
	uint32_t left = todo->len;

	entry->count = 1;
	if (todo->kind == WRITE && !todo->plain && left >= PLACES && one_in(&worker->dice, 4))
		entry->count = 1 + dice(&worker->dice, most < PLACES ? most : PLACES);
	for (uint32_t i = 0; i < entry->count; i++) {
		struct place *place = &entry->places[i];

		place->len = i + 1 < entry->count ? left / 2 : left;
		place->offset = random_offset(&worker->dice, place->len);
		left -= place->len;
	}
}

/* overlaps -- places of one operation have no order */
static bool overlaps(const struct entry *entry)
{
	for (uint32_t i = 0; i < entry->count; i++) {
		for (uint32_t j = 0; j < i; j++) {
			const struct place *a = &entry->places[i], *b = &entry->places[j];

			if (a->offset < b->offset + b->len && b->offset < a->offset + a->len)
				return true;
		}
	}
	return false;
}

static void draw_flags(struct worker *worker, struct todo *todo)
{
	uint64_t *state = &worker->dice, defaults = worker->link->initiator->op_flags;

	if (todo->plain) {
		todo->reports = defaults & FI_COMPLETION;
		todo->commits = defaults & FI_COMMIT_COMPLETE;
		return;
	}
	todo->commits = todo->kind != READ && one_in(state, 2) &&
			(todo->kind < ATOMIC || worker->link->sums_commit);
	todo->flags = todo->commits                            ? FI_COMMIT_COMPLETE
		      : one_in(state, 8) && todo->kind != READ ? FI_DELIVERY_COMPLETE
							       : 0;
	if (one_in(state, 4) && todo->kind != READ && (todo->kind < ATOMIC || !stress.rdm))
		todo->flags |= FI_FENCE;
	if (one_in(state, 5) && todo->kind == WRITE)
		todo->flags |= todo->commits && one_in(state, 2) ? FI_IMMED : FI_REMOTE_CQ_DATA;
	if (one_in(state, 12) && todo->kind == WRITE)
		todo->flags |= FI_INJECT;
	todo->reports = todo->kind >= ATOMIC || (!one_in(state, 6) && !worker->link->silent);
	todo->flags |= todo->reports ? FI_COMPLETION : 0;
}

static enum kind draw_kind(struct worker *worker)
{
	const struct link *link = worker->link;

	switch (dice(&worker->dice, 16)) {
	case 0:
	case 1:
		return INJECT;
	case 2:
		return READ;
	case 3:
	case 4:
		return worker->thread || stress.relaxed || stress.rdm ? WRITE : MESSAGE;
	case 5:
		return link->sums ? ATOMIC : WRITE;
	case 6:
		return link->fetches ? FETCH : WRITE;
	default:
		return WRITE;
	}
}

/* force -- a commit of all, where too much was left without one */
static bool force(struct worker *worker, struct todo *todo)
{
	bool message = worker->loose_messages >= LOOSE_MESSAGES;

	for (todo->region = 0; !message && todo->region < REGIONS; todo->region++) {
		if (worker->loose[todo->region] >= LOOSE)
			break;
	}
	if (!message && todo->region == REGIONS)
		return false;
	todo->region %= REGIONS;
	todo->kind = message ? MESSAGE : WRITE;
	todo->commits = true;
	todo->reports = message || !worker->link->silent;
	todo->flags = FI_COMMIT_COMPLETE | FI_FENCE | (todo->reports ? FI_COMPLETION : 0);
	return true;
}

void draw(struct worker *worker, struct todo *todo)
{
	const struct fi_tx_attr *attr = worker->link->initiator->node.info->tx_attr;
	uint64_t *state = &worker->dice;
	bool forced;

	*todo = (struct todo){.iovs = 1};
	forced = force(worker, todo);
	if (!forced) {
		todo->kind = draw_kind(worker);
		todo->region = dice(state, REGIONS);
		todo->plain = todo->kind == INJECT || (todo->kind <= INJECT && one_in(state, 4)) ||
			      (todo->kind == MESSAGE && one_in(state, 3) &&
			       worker->link->initiator->op_flags & FI_COMPLETION);
		todo->data = todo->plain && one_in(state, 4);
		draw_flags(worker, todo);
	}
	if (todo->kind == INJECT)
		todo->reports = todo->commits = false;
	todo->claims = todo->commits || (stress.commit_all && todo->kind <= FETCH);
	todo->len = random_size(state, todo->kind == READ      ? MAX_READ
				       : todo->kind == MESSAGE ? BUFFER - HEADER
				       : todo->kind == INJECT || todo->flags & FI_INJECT
					       ? (uint32_t) attr->inject_size
					       : MAX_WRITE);
	if (todo->kind == READ)
		todo->read = (struct place){random_offset(state, todo->len), todo->len};
	else if (todo->kind == ATOMIC || todo->kind == FETCH)
		todo->entry = (struct entry){.count = 1,
					     .operand = 1 + dice(state, 1000),
					     .alone = stress.rdm,
					     .places = {{dice(state, WORDS), 0}}};
	else if (todo->kind == MESSAGE)
		todo->entry.from = dice(state, POOL - BUFFER);
	else if (todo->commits && !todo->plain && one_in(state, 12))
		todo->len = 0;
	if (todo->kind <= INJECT && todo->len) {
		do
			draw_places(worker, todo);
		while (overlaps(&todo->entry));
		if (todo->len >= 8 && one_in(state, 4))
			todo->iovs = 1 + dice(state, attr->iov_limit < 4 ? attr->iov_limit : 4);
	}
	/* A plain call with immediate data has one buffer. */
	if (todo->data)
		todo->iovs = 1;
}
