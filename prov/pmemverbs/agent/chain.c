/* SPDX-License-Identifier: BSD-2-Clause */
/* chain.c -- executes the steps of a chain; chain.h has the rules */
#include "agent/chain.h"

#include <string.h>

/* A place in memory that a step uses: the region is held. */
struct place {
	struct pmv_region *region; /* or NULL */
	uint64_t offset;
	uint64_t len;
};

/* A chain that is under way. */
struct execution {
	const struct pmv_chain_carrier *carrier;
	const struct pmv_chain *chain;
	struct pmv_reply *reply;
	uint8_t scratch[PMV_CHAIN_SCRATCH];
	struct place stored; /* by the last step, until it was told of */
};

/* A pointer in memory, and the bound behind it. */
struct pointer {
	uint64_t to;
	uint64_t bound;
};

/* Memory */

/* find -- for what is needed: PMV_REGION_REMOTE, to write, or PMV_REGION_READ */
static enum pmv_chain_status find(const struct execution *ex, uint32_t key, uint64_t addr,
				  uint64_t len, unsigned need, struct place *place)
{
	struct pmv_regions *regions = ex->carrier->regions;
	enum pmv_chain_status status = PMV_CHAIN_OK;

	place->len = len;
	place->region = pmv_region_get(regions, key, addr, len, &place->offset);
	if (!place->region)
		return PMV_CHAIN_REFUSED;
	if ((place->region->attr.use & need) != need)
		status = PMV_CHAIN_REFUSED;
	else if (pmv_region_is_lost(place->region))
		status = PMV_CHAIN_LOST;
	if (!status)
		return status;
	pmv_region_put(regions, place->region);
	place->region = NULL;
	return status;
}

static void release(const struct execution *ex, struct place *place)
{
	if (place->region)
		pmv_region_put(ex->carrier->regions, place->region);
	place->region = NULL;
}

/* after -- there may have been no memory behind it */
static enum pmv_chain_status after(const struct place *place)
{
	return pmv_region_is_lost(place->region) ? PMV_CHAIN_LOST : PMV_CHAIN_OK;
}

static enum pmv_chain_status load(const struct place *place, void *to)
{
	uint64_t offset = place->offset, piece = 0;

	for (uint64_t at = 0; at < place->len; at += piece, offset += piece) {
		piece = place->len - at;
		memcpy((uint8_t *) to + at, pmv_region_piece(place->region, offset, &piece), piece);
	}
	return after(place);
}

/* store -- at a place that `ex` is to tell of */
static enum pmv_chain_status store(struct execution *ex, const struct place *place,
				   const void *from)
{
	pmv_region_store(place->region, place->offset, place->len, from);
	ex->stored = *place;
	return after(place);
}

static enum pmv_chain_status read_at(const struct execution *ex, uint32_t key, uint64_t addr,
				     uint64_t len, void *to)
{
	struct place place;
	enum pmv_chain_status status = find(ex, key, addr, len, PMV_REGION_READ, &place);

	if (!status)
		status = load(&place, to);
	release(ex, &place);
	return status;
}

/* Steps.  The lock is held. */

static uint64_t scratch_word(const struct execution *ex, unsigned int word)
{
	uint64_t value;

	memcpy(&value, ex->scratch + word * PMV_CHAIN_WORD, sizeof(value));
	return value;
}

static uint64_t address_of(const struct execution *ex, const struct pmv_chain_head *head)
{
	return head->addr + (head->flags & PMV_CHAIN_AT_SCRATCH ? scratch_word(ex, head->at) : 0);
}

/* aim -- at what the step reads or writes, which may be shorter than it asks for */
static enum pmv_chain_status aim(const struct execution *ex, const struct pmv_chain_head *head,
				 unsigned need, struct place *place)
{
	bool bounded = head->flags & PMV_CHAIN_BOUNDED;
	uint64_t addr = address_of(ex, head), len = head->len;
	struct pointer pointer = {0};
	enum pmv_chain_status status;

	place->region = NULL;
	if (!(head->flags & PMV_CHAIN_INDIRECT))
		return find(ex, head->key, addr, len, need, place);
	status = read_at(ex, head->key, addr, bounded ? sizeof(pointer) : sizeof(pointer.to),
			 &pointer);
	if (status)
		return status;
	if (!pointer.to)
		return PMV_CHAIN_NULL;
	if (bounded && pointer.bound < len)
		len = pointer.bound;
	return find(ex, head->to_key, pointer.to, len, need, place);
}

/* get_operand -- of the step's length */
static enum pmv_chain_status get_operand(const struct execution *ex,
					 const struct pmv_chain_step *step, uint8_t *buf)
{
	const struct pmv_chain_head *head = &step->head;

	if (head->flags & PMV_CHAIN_FROM_MEMORY)
		return read_at(ex, step->from_key, step->from_addr, head->len, buf);
	memcpy(buf, step->operand ? step->operand : ex->scratch + head->from * PMV_CHAIN_WORD,
	       head->len);
	return PMV_CHAIN_OK;
}

/* put_result -- to the initiator, or to the scratch area; of an allocation to both */
static void put_result(struct execution *ex, const struct pmv_chain_step *step, const void *result,
		       size_t len)
{
	if (step->head.flags & PMV_CHAIN_REDIRECT)
		memcpy(ex->scratch + step->head.to * PMV_CHAIN_WORD, result, len);
	if (step->result_len)
		memcpy(ex->reply->results + step->result_at, result, len);
}

static enum pmv_chain_status read_step(struct execution *ex, const struct pmv_chain_step *step,
				       uint32_t *done)
{
	bool large = step->head.flags & PMV_CHAIN_LARGE;
	uint8_t buf[PMV_REPLY_ROOM], *to = buf;
	struct place place;
	enum pmv_chain_status status = aim(ex, &step->head, PMV_REGION_READ, &place);

	/* There may be no memory for nothing. */
	if (!status && large && place.len)
		to = ex->carrier->large->memory + step->result_at;
	if (!status)
		status = load(&place, to);
	release(ex, &place);
	if (status)
		return status;
	if (!large)
		put_result(ex, step, buf, place.len);
	*done = (uint32_t) place.len;
	return PMV_CHAIN_OK;
}

static enum pmv_chain_status write_step(struct execution *ex, const struct pmv_chain_step *step,
					uint32_t *done)
{
	uint8_t buf[PMV_MESSAGE_SIZE];
	struct place place;
	enum pmv_chain_status status = get_operand(ex, step, buf);

	if (status)
		return status;
	status = aim(ex, &step->head, PMV_REGION_REMOTE, &place);
	if (status)
		return status;
	*done = (uint32_t) place.len;
	return store(ex, &place, buf);
}

/* compares -- as unsigned numbers, of which the last byte counts most */
static bool compares(const uint8_t *memory, const uint8_t *expected, const uint8_t *mask,
		     size_t len, enum pmv_chain_compare how)
{
	int order = 0;

	for (size_t i = len; i-- && !order;) {
		uint8_t bits = mask ? mask[i] : 0xff;

		order = (memory[i] & bits) - (expected[i] & bits);
	}
	switch (how) {
	case PMV_CHAIN_EQ:
		return !order;
	case PMV_CHAIN_NE:
		return order;
	case PMV_CHAIN_LT:
		return order < 0;
	case PMV_CHAIN_LE:
		return order <= 0;
	case PMV_CHAIN_GT:
		return order > 0;
	case PMV_CHAIN_GE:
		return order >= 0;
	}
	return false;
}

/* change -- read what is there, and store what becomes of it, if anything does */
static enum pmv_chain_status change(struct execution *ex, const struct pmv_chain_step *step,
				    bool (*make)(const struct execution *ex,
						 const struct pmv_chain_step *step,
						 const uint8_t *old, uint8_t *operand),
				    uint32_t *done)
{
	uint8_t operand[PMV_CHAIN_CAS], old[PMV_CHAIN_CAS];
	struct place place;
	enum pmv_chain_status status = get_operand(ex, step, operand);

	if (status)
		return status;
	status = aim(ex, &step->head, PMV_REGION_REMOTE | PMV_REGION_READ, &place);
	if (!status)
		status = load(&place, old);
	if (!status) {
		/* First: the result may go to the words that are compared with. */
		bool made = make(ex, step, old, operand);

		put_result(ex, step, old, place.len);
		*done = (uint32_t) place.len;
		if (made)
			return store(ex, &place, operand);
		status = PMV_CHAIN_FAILED;
	}
	release(ex, &place);
	return status;
}

static bool make_swapped(const struct execution *ex, const struct pmv_chain_step *step,
			 const uint8_t *old, uint8_t *operand)
{
	const struct pmv_chain_head *head = &step->head;
	const uint8_t *expected =
		step->expected ? step->expected : ex->scratch + head->expect * PMV_CHAIN_WORD;

	if (!compares(old, expected, step->compare_mask, head->len,
		      (enum pmv_chain_compare) head->compare))
		return false;
	for (size_t i = 0; i < head->len && step->swap_mask; i++)
		operand[i] = (uint8_t) ((old[i] & ~step->swap_mask[i]) |
					(operand[i] & step->swap_mask[i]));
	return true;
}

static bool make_sum(const struct execution *ex, const struct pmv_chain_step *step,
		     const uint8_t *old, uint8_t *operand)
{
	uint64_t sum, more;

	(void) ex;
	(void) step;
	memcpy(&sum, old, sizeof(sum));
	memcpy(&more, operand, sizeof(more));
	sum += more;
	memcpy(operand, &sum, sizeof(sum));
	return true;
}

/* find_list -- of the region that the step names; NULL: it has none of that number */
static struct pmv_free_list *find_list(const struct execution *ex,
				       const struct pmv_chain_head *head)
{
	struct pmv_free_list *list =
		pmv_free_list_find(&ex->carrier->regions->chains, head->to_key);

	return list && list->key == head->key ? list : NULL;
}

/* find_buffers -- all of a list, which may have outlived its region */
static enum pmv_chain_status find_buffers(const struct execution *ex,
					  const struct pmv_free_list *list, struct place *place)
{
	enum pmv_chain_status status = find(ex, list->key, list->start, list->size * list->count,
					    PMV_REGION_REMOTE, place);

	if (status || place->region->serial == list->serial)
		return status;
	release(ex, place);
	return PMV_CHAIN_REFUSED;
}

static enum pmv_chain_status allocate(struct execution *ex, const struct pmv_chain_step *step,
				      uint32_t *done)
{
	struct pmv_chains *chains = &ex->carrier->regions->chains;
	struct pmv_free_list *list = find_list(ex, &step->head);
	uint8_t buf[PMV_MESSAGE_SIZE];
	struct place place;
	enum pmv_chain_status status;
	uint64_t addr;
	size_t buffer;

	if (!list || step->head.len > list->size)
		return PMV_CHAIN_REFUSED;
	status = get_operand(ex, step, buf);
	if (!status)
		status = find_buffers(ex, list, &place);
	if (status)
		return status;
	if (!pmv_free_list_take(chains, list, &buffer)) {
		release(ex, &place);
		return PMV_CHAIN_EMPTY;
	}
	addr = list->start + buffer * list->size;
	place.offset += buffer * list->size;
	place.len = step->head.len;
	put_result(ex, step, &addr, sizeof(addr));
	*done = sizeof(addr);
	return store(ex, &place, buf);
}

static enum pmv_chain_status put_back(const struct execution *ex, const struct pmv_chain_step *step)
{
	struct pmv_free_list *list = find_list(ex, &step->head);
	struct place place;
	enum pmv_chain_status status;

	if (!list)
		return PMV_CHAIN_REFUSED;
	status = find_buffers(ex, list, &place);
	if (status)
		return status;
	release(ex, &place);
	return pmv_free_list_put(&ex->carrier->regions->chains, list, address_of(ex, &step->head))
		       ? PMV_CHAIN_OK
		       : PMV_CHAIN_REFUSED;
}

static enum pmv_chain_status execute_step(struct execution *ex, const struct pmv_chain_step *step,
					  uint32_t *done)
{
	switch ((enum pmv_chain_kind) step->head.kind) {
	case PMV_CHAIN_READ:
		return read_step(ex, step, done);
	case PMV_CHAIN_WRITE:
		return write_step(ex, step, done);
	case PMV_CHAIN_COMPARE_SWAP:
		return change(ex, step, make_swapped, done);
	case PMV_CHAIN_FETCH_ADD:
		return change(ex, step, make_sum, done);
	case PMV_CHAIN_ALLOCATE:
		return allocate(ex, step, done);
	case PMV_CHAIN_FREE:
		return put_back(ex, step);
	}
	return PMV_CHAIN_REFUSED;
}

/* The chain */

/* tell_of -- what the step has stored; without the lock, as it may sync */
static void tell_of(struct execution *ex, unsigned int step)
{
	const struct pmv_chain_carrier *carrier = ex->carrier;
	struct place *stored = &ex->stored;

	if (stored->region && stored->len)
		carrier->stored(carrier->arg, stored->region, stored->offset, stored->len,
				pmv_chain_commits_behind(ex->chain, step));
	release(ex, stored);
}

/* fault_in -- the pages of a file that the step will use: nobody is to wait for the lock then */
static void fault_in(const struct execution *ex, uint32_t key, uint64_t addr, uint64_t len,
		     bool writes)
{
	struct place place;

	if (find(ex, key, addr, len, 0, &place))
		return;
	pmv_region_fault_in(place.region, place.offset, place.len, writes);
	release(ex, &place);
}

/* fault_in_aim -- what a pointer points to, now that its own page is there */
static void fault_in_aim(const struct execution *ex, const struct pmv_chain_head *head, bool writes)
{
	struct pmv_chains *chains = &ex->carrier->regions->chains;
	enum pmv_chain_status status;
	struct place place;

	pthread_mutex_lock(&chains->lock);
	status = aim(ex, head, 0, &place);
	pthread_mutex_unlock(&chains->lock);
	if (!status)
		pmv_region_fault_in(place.region, place.offset, place.len, writes);
	release(ex, &place);
}

/* fault_in_buffer -- that will be allocated, if nobody else is faster */
static void fault_in_buffer(const struct execution *ex, const struct pmv_chain_head *head)
{
	struct pmv_chains *chains = &ex->carrier->regions->chains;
	const struct pmv_free_list *list;
	uint64_t addr = 0;

	pthread_mutex_lock(&chains->lock);
	list = find_list(ex, head);
	if (list && list->num_free && head->len <= list->size)
		addr = list->start + list->freed[list->first].buffer * list->size;
	pthread_mutex_unlock(&chains->lock);
	if (list)
		fault_in(ex, head->key, addr, head->len, true);
}

static void fault_in_step(const struct execution *ex, const struct pmv_chain_step *step)
{
	const struct pmv_chain_head *head = &step->head;
	bool indirect = head->flags & PMV_CHAIN_INDIRECT, writes = head->kind != PMV_CHAIN_READ;

	if (head->flags & PMV_CHAIN_FROM_MEMORY)
		fault_in(ex, step->from_key, step->from_addr, head->len, false);
	if (head->kind == PMV_CHAIN_ALLOCATE)
		fault_in_buffer(ex, head);
	if (head->kind >= PMV_CHAIN_ALLOCATE)
		return;
	if (indirect) /* the pointer, and perhaps a bound behind it */
		fault_in(ex, head->key, address_of(ex, head),
			 head->flags & PMV_CHAIN_BOUNDED ? sizeof(struct pointer)
							 : sizeof(uint64_t),
			 false);
	fault_in_aim(ex, head, writes);
}

static enum pmv_chain_status locked_step(struct execution *ex, unsigned int i)
{
	struct pmv_chains *chains = &ex->carrier->regions->chains;
	enum pmv_chain_status status;
	uint32_t done = 0;

	if (ex->carrier->pages)
		fault_in_step(ex, &ex->chain->steps[i]);
	pthread_mutex_lock(&chains->lock);
	status = atomic_load(ex->carrier->dropped) ? PMV_CHAIN_LOST
						   : execute_step(ex, &ex->chain->steps[i], &done);
	pthread_mutex_unlock(&chains->lock);
	ex->reply->steps[i].done = done & PMV_REPLY_MOST_DONE;
	tell_of(ex, i);
	return status;
}

static enum pmv_fault execute_all(struct execution *ex)
{
	const struct pmv_chain_carrier *carrier = ex->carrier;
	const struct pmv_chain *chain = ex->chain;
	enum pmv_fault fault = PMV_FAULT_NONE;
	enum pmv_chain_status status = PMV_CHAIN_OK;

	for (unsigned int i = 0; i < chain->count && !fault; i++) {
		uint16_t flags = chain->steps[i].head.flags;

		if (flags & PMV_CHAIN_COMMIT)
			fault = carrier->commit(carrier->arg);
		if (fault)
			status = PMV_CHAIN_LOST;
		else if ((flags & PMV_CHAIN_CONDITIONAL) && status)
			status = PMV_CHAIN_SKIPPED;
		else
			status = locked_step(ex, i);
		ex->reply->steps[i].status = (uint8_t) status;
		if (status == PMV_CHAIN_REFUSED)
			fault = PMV_FAULT_ACCESS;
		else if (status == PMV_CHAIN_LOST)
			fault = PMV_FAULT_IO;
	}
	/* What is to be durable in the end is so when the reply is sent. */
	return fault;
}

void pmv_chain_reply_init(struct pmv_reply *reply, const struct pmv_chain *chain)
{
	memset(reply, 0, offsetof(struct pmv_reply, results) + chain->results_len);
	for (unsigned int i = 0; i < chain->count; i++)
		reply->steps[i].status = PMV_CHAIN_NOT_REACHED;
}

enum pmv_fault pmv_chain_execute(const struct pmv_chain_carrier *carrier,
				 const struct pmv_chain *chain, struct pmv_reply *reply)
{
	struct execution ex = {.carrier = carrier, .chain = chain, .reply = reply};
	struct pmv_chain_ticket ticket;
	enum pmv_fault fault;

	pmv_chains_begin(&carrier->regions->chains, &ticket);
	fault = execute_all(&ex);
	pmv_chains_end(&carrier->regions->chains, &ticket);
	return fault;
}
