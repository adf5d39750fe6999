/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c -- posts what was drawn, and tells the oracle of it; see initiator.c */
#include <string.h>
#include <time.h>

#include <rdma/fi_atomic.h>

#include "test/support/dice.h"
#include "../common/stats.h"
#include "initiator.h"

/* take_op -- a free one, when there is; NULL: the connection is broken */
static struct op *take_op(struct worker *worker)
{
	struct op *ops = world->slots[worker->link->slot].ops[worker->thread];

	while (!atomic_load(&worker->link->broken)) {
		for (unsigned int i = 0; i < WINDOW; i++) {
			if (atomic_load(&ops[i].state) == OP_FREE)
				return &ops[i];
		}
		reap(worker->link);
	}
	return NULL;
}

/* take_room -- in the journal, or among the messages; false: the connection is broken */
static bool take_room(struct worker *worker, struct todo *todo, uint64_t *seq)
{
	struct slot *slot = &world->slots[worker->link->slot];
	bool room = false;

	*seq = NOTHING;
	if (!todo->entry.count && todo->kind != MESSAGE)
		return true;
	while (!room && !atomic_load(&worker->link->broken)) {
		if (todo->kind != MESSAGE) {
			room = oracle_append(worker->link->slot, worker->thread, todo->region,
					     &todo->entry, seq);
		} else {
			oracle_lock(worker->link->slot);
			room = slot->sent - slot->found < MESSAGES - 1;
			if (room)
				slot->messages[++slot->sent % MESSAGES] =
					(struct message){todo->entry.from, todo->len + HEADER};
			oracle_unlock(worker->link->slot);
		}
		if (!room)
			reap(worker->link);
	}
	return room;
}

/* set_counted -- which counters are to count it */
static void set_counted(const struct link *link, const struct todo *todo, bool *counted)
{
	bool writes = todo->kind <= ATOMIC, fetches = todo->kind == FETCH;
	bool reads = fetches || todo->kind == READ;

	memset(counted, 0, TALLIES);
	counted[OF_INITIATOR] = link->cntr && (writes || (link->counts_reads && reads));
	counted[OF_ENDPOINT] = stress.events && writes;
	counted[OF_REGION + todo->region] = stress.events && (writes || fetches);
}

static void fill_op(struct worker *worker, const struct todo *todo, uint64_t seq, struct op *op)
{
	static const char *const names[] = {"write", "inject", "atomic",
					    "fetch", "read",   "message"};
	const struct slot *slot = &world->slots[worker->link->slot];

	/* Whoever looks for fences may still see what was here before. */
	oracle_lock(worker->link->slot);
	op->generation++;
	op->name = names[todo->kind];
	op->number = worker->number;
	op->flags = todo->flags;
	op->claims = todo->claims;
	op->thread = worker->thread;
	op->region = todo->region;
	op->alone = todo->entry.alone;
	op->operand = todo->entry.operand;
	op->word = op->alone ? todo->entry.places[0].offset : 0;
	set_counted(worker->link, todo, op->counted);
	op->seq = seq;
	op->message = todo->kind == MESSAGE ? slot->sent : 0;
	op->fetches = todo->kind == FETCH;
	op->reads = todo->kind == READ;
	op->visible = todo->flags & FI_DELIVERY_COMPLETE && !op->message;
	op->read = todo->read;
	oracle_unlock(worker->link->slot);
}

/* look_back -- what is posted before this operation, which is about to be */
static void look_back(const struct worker *worker, const struct todo *todo, struct op *op)
{
	bool fenced = op->flags & FI_FENCE;

	oracle_lock(worker->link->slot);
	atomic_store(&op->sure, false);
	oracle_snapshot(worker->link->slot, fenced && op->claims ? -1 : (int) todo->region,
			&op->before);
	if (op->message && !fenced)
		op->before = (struct extent){0};
	op->before.messages = op->message ? op->message - 1 : 0;
	op->extent = op->before;
	op->extent.messages = op->message;
	if (op->seq != NOTHING)
		op->extent.upto[op->thread][op->region] = op->seq + 1;
	oracle_post(worker->link->slot, op);
	/* A quiet one is nobody's to complete, so only a counter tells when it does. */
	atomic_store(&op->state, todo->reports ? OP_UNDER_WAY : OP_FREE);
	oracle_unlock(worker->link->slot);
}

static ssize_t post_write(struct worker *worker, const struct todo *todo, struct op *op,
			  uint32_t data)
{
	struct link *link = worker->link;
	const struct slot *slot = &world->slots[link->slot];
	uint64_t lane = slot->addr[todo->region] + worker->thread * (uint64_t) LANE;
	void *desc[4] = {link->initiator->pool.desc, link->initiator->pool.desc,
			 link->initiator->pool.desc, link->initiator->pool.desc};
	const struct entry *entry = &todo->entry;
	struct fi_rma_iov places[PLACES];
	struct iovec iov[4];
	uint8_t *from = pool + entry->from;
	void *context = op ? (void *) op : &quiet;
	struct fi_msg_rma msg = {iov,    desc,         todo->iovs, link->peer,
				 places, entry->count, context,    data};
	uint64_t key = slot->key[todo->region];
	uint32_t left = todo->len;

	for (unsigned int i = 0; i < todo->iovs; i++) {
		iov[i].iov_base = from + (todo->len - left);
		iov[i].iov_len = i + 1 < todo->iovs ? left / 2 : left;
		left -= (uint32_t) iov[i].iov_len;
	}
	for (uint32_t i = 0; i < entry->count; i++)
		places[i] = (struct fi_rma_iov){lane + entry->places[i].offset,
						entry->places[i].len, key};
	if (!entry->count) {
		places[0] = (struct fi_rma_iov){lane, 0, key};
		msg.rma_iov_count = 1;
	}
	if (todo->kind == INJECT)
		return todo->data ? fi_inject_writedata(link->conn.ep, from, todo->len, data,
							link->peer, places[0].addr, key)
				  : fi_inject_write(link->conn.ep, from, todo->len, link->peer,
						    places[0].addr, key);
	if (!todo->plain)
		return fi_writemsg(link->conn.ep, &msg, todo->flags);
	if (todo->data)
		return fi_writedata(link->conn.ep, from, todo->len, desc[0], data, link->peer,
				    places[0].addr, key, context);
	if (todo->iovs > 1)
		return fi_writev(link->conn.ep, iov, desc, todo->iovs, link->peer, places[0].addr,
				 key, context);
	return fi_write(link->conn.ep, from, todo->len, desc[0], link->peer, places[0].addr, key,
			context);
}

static ssize_t post_atomic(struct worker *worker, const struct todo *todo, struct op *op)
{
	struct link *link = worker->link;
	struct buffers *buffers = buffers_of(link, worker->thread, index_of(op));
	const struct slot *slot = &world->slots[link->slot];
	const struct lane *lane = &slot->lanes[worker->thread][todo->region];
	uint32_t word = todo->entry.places[0].offset;
	struct fi_ioc operand = {&buffers->operand, 1}, result = {&buffers->result, 1};
	struct fi_rma_ioc place = {slot->addr[todo->region] + worker->thread * (uint64_t) LANE +
					   AREA + 8 * (uint64_t) word,
				   1, slot->key[todo->region]};
	void *desc = link->region.desc;
	struct fi_msg_atomic msg = {&operand, &desc,     1,      link->peer, &place,
				    1,        FI_UINT64, FI_SUM, op,         0};

	buffers->operand = todo->entry.operand;
	op->sum = lane->base[word] + lane->all[word] - todo->entry.operand;
	if (todo->kind == ATOMIC)
		return fi_atomicmsg(link->conn.ep, &msg, todo->flags);
	return fi_fetch_atomicmsg(link->conn.ep, &msg, &result, &desc, 1, todo->flags);
}

static ssize_t post_read(struct worker *worker, const struct todo *todo, struct op *op)
{
	struct link *link = worker->link;
	const struct slot *slot = &world->slots[link->slot];
	struct buffers *buffers = buffers_of(link, worker->thread, index_of(op));
	struct iovec iov = {buffers->data, todo->read.len};
	struct fi_rma_iov place = {slot->addr[todo->region] + worker->thread * (uint64_t) LANE +
					   todo->read.offset,
				   todo->read.len, slot->key[todo->region]};
	struct fi_msg_rma msg = {&iov, &link->region.desc, 1, link->peer, &place, 1, op, 0};

	oracle_expect(link->slot, op, buffers->expected, buffers->is_known);
	return fi_readmsg(link->conn.ep, &msg, FI_COMPLETION);
}

static ssize_t post_message(struct worker *worker, const struct todo *todo, struct op *op)
{
	struct link *link = worker->link;
	struct buffers *buffers = buffers_of(link, worker->thread, index_of(op));
	uint32_t data = oracle_data(op, index_of(op));
	struct iovec iov = {buffers->header, todo->len + HEADER};
	struct fi_msg msg = {&iov, &link->region.desc, 1, 0, op, data};

	oracle_message(link->slot, op->message, buffers->header);
	if (!todo->plain)
		return fi_sendmsg(link->conn.ep, &msg, todo->flags);
	if (todo->data)
		return fi_senddata(link->conn.ep, iov.iov_base, iov.iov_len, link->region.desc,
				   data, 0, op);
	return fi_send(link->conn.ep, iov.iov_base, iov.iov_len, link->region.desc, 0, op);
}

static ssize_t post(struct worker *worker, const struct todo *todo, struct op *op)
{
	uint32_t data = op && todo->reports ? oracle_data(op, index_of(op)) : NO_OP;

	switch (todo->kind) {
	case ATOMIC:
	case FETCH:
		return post_atomic(worker, todo, op);
	case READ:
		return post_read(worker, todo, op);
	case MESSAGE:
		return post_message(worker, todo, op);
	default:
		return post_write(worker, todo, todo->reports ? op : NULL, data);
	}
}

static void count(const struct todo *todo)
{
	static const enum count counts[] = {
		[WRITE] = C_WRITES,  [INJECT] = C_INJECTS, [ATOMIC] = C_ATOMICS,
		[FETCH] = C_FETCHES, [READ] = C_READS,     [MESSAGE] = C_MESSAGES,
	};

	stress_count(counts[todo->kind], 1);
	stress_count(C_COMMITS, todo->commits);
	stress_count(C_FENCED, todo->commits && todo->flags & FI_FENCE);
}

/* posted -- count what no commit of this thread covers */
static void posted(struct worker *worker, const struct todo *todo, uint64_t seq)
{
	bool covers = todo->commits && (todo->reports || worker->link->silent);
	struct lane *lanes = world->slots[worker->link->slot].lanes[worker->thread];

	if (seq != NOTHING)
		atomic_store(&lanes[todo->region].posted, seq + 1);
	if (todo->kind == MESSAGE)
		worker->loose_messages = covers ? 0 : worker->loose_messages + 1;
	else if (covers)
		worker->loose[todo->region] = 0;
	else if (seq != NOTHING)
		worker->loose[todo->region]++;
	if (covers && todo->flags & FI_FENCE)
		memset(worker->loose, 0, sizeof(worker->loose));
	count(todo);
}

void operate(struct worker *worker, struct todo *todo)
{
	struct link *link = worker->link;
	struct op *op = take_op(worker);
	uint64_t seq;
	ssize_t ret = -FI_EAGAIN;

	while (atomic_load(&link->held) && !atomic_load(&link->broken))
		reap(link);
	todo->entry.commits = todo->claims;
	if (!op || !take_room(worker, todo, &seq))
		return;
	fill_op(worker, todo, seq, op);
	while (ret == -FI_EAGAIN && !atomic_load(&link->broken)) {
		look_back(worker, todo, op);
		ret = post(worker, todo, op);
		if (ret)
			oracle_refused(link->slot, op);
		if (ret == -FI_EAGAIN)
			reap(link);
	}
	if (!ret) {
		oracle_accepted(link->slot, op);
		/* It may have completed already; nobody else takes its place. */
		if (!atomic_load(&world->slots[link->slot].faults))
			atomic_store(&op->sure, true);
		posted(worker, todo, seq);
		return;
	}
	atomic_store(&op->state, OP_FREE);
	if (seq != NOTHING)
		oracle_failed(link->slot, op);
	if (ret == -FI_EINVAL || ret == -FI_EOPNOTSUPP)
		stress_fail("connection %u: %s %llu of thread %u, flags 0x%llx: %s", link->slot,
			    op->name, (unsigned long long) op->number, op->thread,
			    (unsigned long long) op->flags, fi_strerror((int) -ret));
	break_link(link, op->name, (int) -ret);
}
