/* SPDX-License-Identifier: BSD-2-Clause */
/* chain_message.c -- encodes, decodes and checks chains; chain_message.h has the format */
#include "agent/chain_message.h"

#include <string.h>

#define HEADER_SIZE 4
#define PLACE_SIZE (sizeof(uint64_t) + sizeof(uint32_t))

_Static_assert(sizeof(struct pmv_chain_head) == 24, "step");

/* What all steps may have, and what some may. */
#define ALL (PMV_CHAIN_CONDITIONAL | PMV_CHAIN_COMMIT)
#define PLACE (PMV_CHAIN_INDIRECT | PMV_CHAIN_AT_SCRATCH)
#define OPERAND (PMV_CHAIN_FROM_SCRATCH | PMV_CHAIN_FROM_MEMORY)
#define SWAP (PMV_CHAIN_EXPECT_SCRATCH | PMV_CHAIN_MASK_COMPARE | PMV_CHAIN_MASK_SWAP)

static const struct {
	uint16_t flags;    /* that it may have */
	uint16_t shortest; /* its length ... */
	uint32_t longest;
	uint16_t result; /* 0: as long as the step; else this much */
} kinds[] = {
	[PMV_CHAIN_READ] = {ALL | PLACE | PMV_CHAIN_BOUNDED | PMV_CHAIN_REDIRECT | PMV_CHAIN_LARGE,
			    0, PMV_REPLY_ROOM, 0},
	[PMV_CHAIN_WRITE] = {ALL | PLACE | PMV_CHAIN_BOUNDED | OPERAND, 0, PMV_MESSAGE_SIZE, 0},
	[PMV_CHAIN_COMPARE_SWAP] = {ALL | PLACE | OPERAND | SWAP | PMV_CHAIN_REDIRECT, 1,
				    PMV_CHAIN_CAS, 0},
	[PMV_CHAIN_FETCH_ADD] = {ALL | PLACE | OPERAND | PMV_CHAIN_REDIRECT, PMV_CHAIN_WORD,
				 PMV_CHAIN_WORD, 0},
	[PMV_CHAIN_ALLOCATE] = {ALL | OPERAND | PMV_CHAIN_REDIRECT, 0, PMV_MESSAGE_SIZE,
				PMV_CHAIN_WORD},
	[PMV_CHAIN_FREE] = {ALL | PMV_CHAIN_AT_SCRATCH, 0, 0, 0},
};

#define NUM_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static bool has_operand(const struct pmv_chain_head *head)
{
	return head->kind != PMV_CHAIN_READ && head->kind != PMV_CHAIN_FREE;
}

/* in_scratch -- are so many bytes there, from a word on? */
static bool in_scratch(unsigned int word, unsigned int len)
{
	return word * PMV_CHAIN_WORD + len <= PMV_CHAIN_SCRATCH;
}

/* use_scratch -- words that are not used are 0 */
static bool use_scratch(const struct pmv_chain_head *head)
{
	unsigned int result = kinds[head->kind].result ? kinds[head->kind].result : head->len;
	uint16_t flags = head->flags;

	return (flags & PMV_CHAIN_REDIRECT ? in_scratch(head->to, result) : !head->to) &&
	       (flags & PMV_CHAIN_FROM_SCRATCH ? in_scratch(head->from, head->len) : !head->from) &&
	       (flags & PMV_CHAIN_EXPECT_SCRATCH ? in_scratch(head->expect, head->len)
						 : !head->expect) &&
	       ((flags & PMV_CHAIN_AT_SCRATCH) || !head->at);
}

static unsigned int longest(const struct pmv_chain_head *head)
{
	return head->flags & PMV_CHAIN_LARGE ? PMV_CHAIN_LARGE_ROOM : kinds[head->kind].longest;
}

static bool head_is_valid(const struct pmv_chain_head *head)
{
	const unsigned int both = PMV_CHAIN_LARGE | PMV_CHAIN_REDIRECT;
	uint16_t flags = head->flags;

	return head->kind >= PMV_CHAIN_READ && head->kind < NUM_KINDS &&
	       !(flags & ~kinds[head->kind].flags) && head->len >= kinds[head->kind].shortest &&
	       head->len <= longest(head) && (flags & both) != both &&
	       head->compare <= (head->kind == PMV_CHAIN_COMPARE_SWAP ? PMV_CHAIN_GE : 0) &&
	       !((flags & PMV_CHAIN_BOUNDED) && !(flags & PMV_CHAIN_INDIRECT)) &&
	       (flags & OPERAND) != OPERAND && use_scratch(head) &&
	       (head->kind != PMV_CHAIN_ALLOCATE || !head->addr) &&
	       ((flags & PMV_CHAIN_INDIRECT) || head->kind >= PMV_CHAIN_ALLOCATE || !head->to_key);
}

/* result_len -- what the step tells the initiator */
static unsigned int result_len(const struct pmv_chain_head *head)
{
	/* Without its address nobody could give a buffer back. */
	if (head->kind == PMV_CHAIN_ALLOCATE)
		return PMV_CHAIN_WORD;
	if (head->kind == PMV_CHAIN_WRITE || (head->flags & (PMV_CHAIN_REDIRECT | PMV_CHAIN_LARGE)))
		return 0;
	return head->len;
}

/* The bytes that a decoder has not looked at yet. */
struct rest {
	const uint8_t *at;
	size_t len;
};

/* take -- so many; NULL: there are fewer */
static const uint8_t *take(struct rest *rest, size_t len)
{
	const uint8_t *at = rest->at;

	if (len > rest->len)
		return NULL;
	rest->at += len;
	rest->len -= len;
	return at;
}

static bool take_into(struct rest *rest, const uint8_t **field, bool wanted, size_t len)
{
	*field = wanted ? take(rest, len) : NULL;
	return *field || !wanted;
}

static bool take_place(struct rest *rest, bool wanted, uint64_t *addr, uint32_t *key)
{
	const uint8_t *place = wanted ? take(rest, PLACE_SIZE) : NULL;

	if (place) {
		memcpy(addr, place, sizeof(*addr));
		memcpy(key, place + sizeof(*addr), sizeof(*key));
	}
	return place || !wanted;
}

static bool take_step(struct rest *rest, struct pmv_chain_step *step)
{
	const uint8_t *bytes = take(rest, sizeof(step->head));
	const struct pmv_chain_head *head = &step->head;

	*step = (struct pmv_chain_step){0};
	if (!bytes)
		return false;
	memcpy(&step->head, bytes, sizeof(step->head));
	if (!head_is_valid(head))
		return false;
	return take_into(rest, &step->expected,
			 head->kind == PMV_CHAIN_COMPARE_SWAP &&
				 !(head->flags & PMV_CHAIN_EXPECT_SCRATCH),
			 head->len) &&
	       take_place(rest, head->flags & PMV_CHAIN_FROM_MEMORY, &step->from_addr,
			  &step->from_key) &&
	       take_into(rest, &step->operand, has_operand(head) && !(head->flags & OPERAND),
			 head->len) &&
	       take_into(rest, &step->compare_mask, head->flags & PMV_CHAIN_MASK_COMPARE,
			 head->len) &&
	       take_into(rest, &step->swap_mask, head->flags & PMV_CHAIN_MASK_SWAP, head->len) &&
	       take_place(rest, head->flags & PMV_CHAIN_LARGE, &step->result_addr,
			  &step->result_key);
}

static void add_result(struct pmv_chain *chain, struct pmv_chain_step *step)
{
	bool large = step->head.flags & PMV_CHAIN_LARGE;

	step->result_at = large ? chain->large_len : chain->results_len;
	step->result_len = (uint16_t) result_len(&step->head);
	chain->results_len += step->result_len;
	chain->large_len += large ? step->head.len : 0;
}

bool pmv_chain_decode(const uint8_t *buf, size_t len, struct pmv_chain *chain)
{
	struct rest rest = {buf, len};
	const uint8_t *header = take(&rest, HEADER_SIZE);

	chain->count = chain->results_len = chain->large_len = chain->commits = 0;
	if (!header || !header[0] || header[0] > PMV_CHAIN_STEPS || header[1] >= PMV_REPLIES ||
	    header[2] || header[3])
		return false;
	chain->reply = header[1];
	for (; chain->count < header[0]; chain->count++) {
		struct pmv_chain_step *step = &chain->steps[chain->count];

		if (!take_step(&rest, step))
			return false;
		add_result(chain, step);
		chain->commits += (step->head.flags & PMV_CHAIN_COMMIT) != 0;
	}
	/* The last step's commit is one in front of it and one behind it. */
	chain->commits += (chain->steps[chain->count - 1].head.flags & PMV_CHAIN_COMMIT) != 0;
	return !rest.len && chain->results_len <= PMV_REPLY_ROOM &&
	       chain->large_len <= PMV_CHAIN_LARGE_ROOM;
}

bool pmv_chain_commits_behind(const struct pmv_chain *chain, unsigned int step)
{
	for (unsigned int i = step + 1; i < chain->count; i++) {
		if (chain->steps[i].head.flags & PMV_CHAIN_COMMIT)
			return true;
	}
	return chain->steps[chain->count - 1].head.flags & PMV_CHAIN_COMMIT;
}

/* put -- false: there is no room */
static bool put(uint8_t *buf, size_t room, size_t *at, const void *from, size_t len)
{
	if (!from)
		return true;
	if (len > room - *at)
		return false;
	if (len)
		memcpy(buf + *at, from, len);
	*at += len;
	return true;
}

static bool put_place(uint8_t *buf, size_t room, size_t *at, bool wanted, const uint64_t *addr,
		      const uint32_t *key)
{
	return !wanted ||
	       (put(buf, room, at, addr, sizeof(*addr)) && put(buf, room, at, key, sizeof(*key)));
}

static bool put_step(uint8_t *buf, size_t room, size_t *at, const struct pmv_chain_step *step)
{
	uint16_t flags = step->head.flags;
	size_t len = step->head.len;

	return put(buf, room, at, &step->head, sizeof(step->head)) &&
	       put(buf, room, at, step->expected, len) &&
	       put_place(buf, room, at, flags & PMV_CHAIN_FROM_MEMORY, &step->from_addr,
			 &step->from_key) &&
	       put(buf, room, at, step->operand, len) &&
	       put(buf, room, at, step->compare_mask, len) &&
	       put(buf, room, at, step->swap_mask, len) &&
	       put_place(buf, room, at, flags & PMV_CHAIN_LARGE, &step->result_addr,
			 &step->result_key);
}

size_t pmv_chain_encode(uint8_t *buf, size_t room, const struct pmv_chain *chain)
{
	const uint8_t header[HEADER_SIZE] = {(uint8_t) chain->count, (uint8_t) chain->reply};
	size_t at = 0;

	if (!put(buf, room, &at, header, sizeof(header)))
		return 0;
	for (unsigned int i = 0; i < chain->count; i++) {
		if (!put_step(buf, room, &at, &chain->steps[i]))
			return 0;
	}
	return at;
}
