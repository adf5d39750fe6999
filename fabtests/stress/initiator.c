/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * initiator.c -- connections, and random operations on them
 *
 * Connections live for some rounds.  In a round, each thread of a connection executes a program.
 * What it does follows from the seed, the connection, the round and the thread, and from nothing
 * else: time decides only how the programs mix, and how far they come before somebody dies.
 */
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "memory/key.h"
#include "test/support/dice.h"
#include "../common/stats.h"
#include "stress.h"

#define NOTHING UINT64_MAX
#define LOOSE 60 /* writes of a lane behind its last commit */
#define LOOSE_MESSAGES 20

/* What an operation reads into, and what has to be there */
struct buffers {
	uint64_t operand, result;
	uint8_t data[MAX_READ];
	uint8_t header[BUFFER];
	/* not registered, but beside the others */
	uint8_t expected[MAX_READ], is_known[MAX_READ];
};

struct link {
	struct initiator *initiator;
	unsigned int slot;
	struct conn conn;
	fi_addr_t peer; /* of FI_EP_RDM */
	bool open;
	bool sums, fetches;         /* atomics that it can do */
	struct fid_cntr *cntr;      /* or NULL */
	bool sums_commit;           /* with FI_COMMIT_COMPLETE */
	bool counts;                /* it is to have one */
	bool counts_reads;          /* it counts them, too */
	bool silent;                /* writes have no completion: the counter is all there is */
	atomic_bool held;           /* nothing is posted until the counters have counted all */
	atomic_uint_fast64_t value; /* that the counter had */
	atomic_bool connected, broken, down;
	bool excused;    /* when it broke, there was a reason */
	const char *why; /* what told that it is broken, and with which error */
	int err;
	struct buffers *buffers; /* for each operation */
	struct region region;
	atomic_uint_fast64_t moved; /* when something last happened */
};

struct initiator {
	struct node node;
	struct options opts;
	struct fid_av *av;
	uint64_t op_flags;
	bool atomics;
	struct region pool;
	pthread_mutex_t lock; /* of the event queue */
	struct link links[CONNECTIONS];
};

struct worker {
	struct link *link;
	unsigned int thread;
	uint64_t dice;
	uint64_t operations, number;
	uint64_t death; /* operation with which somebody dies; NOTHING: none */
	bool suicide;
	unsigned int loose[REGIONS], loose_messages;
	pthread_t id;
};

/* An operation as it was drawn */
enum kind { WRITE, INJECT, ATOMIC, FETCH, READ, MESSAGE };

struct todo {
	enum kind kind;
	bool plain; /* a call without flags */
	bool data;  /* such a call with immediate data */
	unsigned int region, iovs;
	uint64_t flags;
	bool reports, commits;
	bool claims; /* its completion says that it is durable: it commits, or all writes do */
	struct entry entry;
	struct place read;
	uint32_t len; /* in all */
};

static char quiet; /* the context of operations that have no completion */

/* Random numbers */

static uint64_t mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
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

static void draw(struct worker *worker, struct todo *todo)
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

/* Completions */

static struct buffers *buffers_of(const struct link *link, unsigned int thread, unsigned int index)
{
	return &link->buffers[thread * WINDOW + index];
}

static void break_link(struct link *link, const char *why, int err)
{
	if (atomic_exchange(&link->broken, true))
		return;
	link->why = why;
	link->err = err;
	link->excused = atomic_load(&world->slots[link->slot].faults);
}

static unsigned int slot_of(const struct op *op)
{
	return (unsigned int) (((const char *) op - (const char *) world->slots) /
			       (ptrdiff_t) sizeof(struct slot));
}

static unsigned int index_of(const struct op *op)
{
	return (unsigned int) (op - world->slots[slot_of(op)].ops[0]) % WINDOW;
}

static struct op *op_of(const struct link *link, void *context)
{
	struct op *op = context, *ops = &world->slots[link->slot].ops[0][0];

	if (op < ops || op >= ops + THREADS * WINDOW || slot_of(op) != link->slot)
		stress_fail("connection %u: a completion of nobody's", link->slot);
	if (atomic_load(&op->state) != OP_UNDER_WAY)
		stress_fail("connection %u: %s %llu completes twice", link->slot, op->name,
			    (unsigned long long) op->number);
	return op;
}

/* is_extra -- libfabric 1.17 adds the default flags to those of the calls that have flags */
static bool is_extra(const struct link *link, const void *context)
{
	if (context != &quiet)
		return false;
	if (!(link->initiator->op_flags & FI_COMPLETION))
		stress_fail("connection %u: an operation without FI_COMPLETION has a completion",
			    link->slot);
	return true;
}

static void completed(struct link *link, void *context)
{
	const struct buffers *buffers;
	struct op *op;

	if (is_extra(link, context))
		return;
	op = op_of(link, context);
	buffers = buffers_of(link, op->thread, index_of(op));
	if (op->counted[OF_REGION + op->region])
		atomic_fetch_add(&world->slots[link->slot].completed[op->region], 1);
	if (op->claims && op->alone)
		oracle_claim_alone(link->slot, op);
	else if (op->claims)
		oracle_claim(link->slot, op);
	if (op->visible)
		oracle_visible(link->slot, op);
	if (op->reads)
		oracle_read(link->slot, op, buffers->data, buffers->expected, buffers->is_known);
	if (op->fetches && buffers->result != op->sum)
		stress_fail("connection %u: %s %llu of thread %u fetched %llu instead of %llu",
			    link->slot, op->name, (unsigned long long) op->number, op->thread,
			    (unsigned long long) buffers->result, (unsigned long long) op->sum);
	atomic_store(&op->state, OP_FREE);
}

static void failed(struct link *link)
{
	struct fi_cq_err_entry error;
	struct op *op;

	if (!cq_error(link->conn.txcq, &error))
		return;
	stress_count(C_ERRORS, 1);
	break_link(link, "a completion", error.err);
	if (!error.op_context || error.op_context == &quiet)
		return;
	op = op_of(link, error.op_context);
	oracle_failed(link->slot, op);
	atomic_store(&op->state, OP_FREE);
}

/* hear -- events of connections, whosoever they are */
static void hear(struct initiator *initiator)
{
	struct cm_event event;

	if (node_event(&initiator->node, &event, 0) != 1)
		return;
	for (unsigned int i = 0; i < stress.connections; i++) {
		struct link *link = &initiator->links[i];

		if (!link->conn.ep || event.entry.fid != &link->conn.ep->fid)
			continue;
		if (event.event == FI_CONNECTED)
			atomic_store(&link->connected, true);
		else
			atomic_store(&link->down, true);
	}
}

static void try_to_hear(struct initiator *initiator)
{
	if (pthread_mutex_trylock(&initiator->lock))
		return;
	hear(initiator);
	pthread_mutex_unlock(&initiator->lock);
}

/* read_counter -- true: it has counted all */
static bool read_counter(struct link *link)
{
	uint64_t value, errors;

	if (!link->cntr)
		return true;
	value = fi_cntr_read(link->cntr);
	errors = fi_cntr_readerr(link->cntr);
	if (atomic_exchange(&link->value, value) != value)
		atomic_store(&link->moved, now_ns());
	/* An injected write that fails has no other word. */
	if (errors)
		break_link(link, "the counter", FI_EIO);
	return oracle_counted(link->slot, OF_INITIATOR, value, errors);
}

/* reap -- what has completed; somebody waits for it */
static void reap(struct link *link)
{
	const struct timespec moment = {.tv_nsec = 50000};
	struct fi_cq_data_entry entries[8];
	uint64_t moved = atomic_load(&link->moved);
	ssize_t ret = fi_cq_read(link->conn.txcq, entries, 8);

	if (ret > 0 || ret == -FI_EAVAIL)
		atomic_store(&link->moved, now_ns());
	for (ssize_t i = 0; i < ret; i++)
		completed(link, entries[i].op_context);
	if (ret == -FI_EAVAIL)
		failed(link);
	if (ret > 0 || ret == -FI_EAVAIL)
		return;
	if (ret != -FI_EAGAIN)
		stress_fail("connection %u: fi_cq_read: %s", link->slot, fi_strerror((int) -ret));
	read_counter(link);
	oracle_fences(link->slot);
	try_to_hear(link->initiator);
	if (stress.rdm && world->slots[link->slot].life != atomic_load(&world->life))
		break_link(link, "the target's death", FI_ENOTCONN);
	if (atomic_load(&link->down))
		break_link(link, "an event", FI_ENOTCONN);
	if (now_ns() - moved > stress.opts.timeout * 1000000000ULL)
		stress_fail("connection %u: nothing has happened for %lu seconds", link->slot,
			    stress.opts.timeout);
	nanosleep(&moment, NULL);
}

/* Posting */

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

static void operate(struct worker *worker, struct todo *todo)
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

/* Rounds */

/* await_counters -- nobody posts until they have counted all */
static void await_counters(struct worker *worker)
{
	struct link *link = worker->link;
	struct slot *slot = &world->slots[link->slot];
	bool all = false;

	if ((!link->cntr && !stress.events) || atomic_exchange(&link->held, true))
		return;
	while (!all && !atomic_load(&link->broken)) {
		uint64_t posted;

		oracle_lock(link->slot);
		posted = slot->tallies[OF_INITIATOR].posted;
		oracle_unlock(link->slot);
		if (link->cntr && !fi_cntr_wait(link->cntr, posted, 10))
			oracle_counted(link->slot, OF_INITIATOR, posted, 0);
		all = read_counter(link) && (!stress.events || oracle_told(link->slot));
		if (!all)
			reap(link);
	}
	atomic_store(&link->held, false);
}

/* go_on -- to the next round, also for a process that takes this one's place */
static void go_on(struct slot *slot, uint64_t operations)
{
	slot->round++;
	slot->operations += operations;
}

static void die(const struct worker *worker)
{
	struct slot *slot = &world->slots[worker->link->slot];

	/* Whoever takes its place must not come here again. */
	go_on(slot, worker->operations);
	stress_count(C_DEATHS, 1);
	if (worker->suicide)
		raise(SIGKILL);
	kill_target();
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	/* analyse clang-analyzer-core.uninitialized.Assign: there is at least one thread. */
	struct link *link = worker->link;
	struct op *ops = world->slots[link->slot].ops[worker->thread];
	struct todo todo;

	for (; worker->number < worker->operations && !atomic_load(&link->broken);
	     worker->number++) {
		if (worker->number == worker->death)
			die(worker);
		if (one_in(&worker->dice, 40))
			await_counters(worker);
		draw(worker, &todo);
		operate(worker, &todo);
	}
	for (unsigned int i = 0; i < WINDOW; i++) {
		while (atomic_load(&ops[i].state) == OP_UNDER_WAY && !atomic_load(&link->broken))
			reap(link);
	}
	return NULL;
}

/* commit_all -- at the end of a round, when all threads have ended */
static void commit_all(struct link *link, struct worker *worker)
{
	struct todo todo = {
		.kind = WRITE,
		.iovs = 1,
		.flags = FI_COMMIT_COMPLETE | FI_FENCE | (link->silent ? 0 : FI_COMPLETION),
		.reports = !link->silent,
		.commits = true,
		.claims = true,
	};

	operate(worker, &todo);
	work(worker);
	await_counters(worker);
	if (atomic_load(&link->broken))
		return;
	for (unsigned int i = 0; i < THREADS * REGIONS; i++) {
		const struct lane *lane = &world->slots[link->slot].lanes[i / REGIONS][i % REGIONS];

		if (lane->head != lane->next)
			stress_fail("connection %u: a fenced commit of all has not covered all",
				    link->slot);
	}
	oracle_known(link->slot);
}

static void plan_death(struct worker *worker, uint64_t *state)
{
	worker->death = NOTHING;
	if (!stress.kills || !one_in(state, stress.kills))
		return;
	/* analyse clang-analyzer-core.CallAndMessage: there is at least one thread. */
	worker->death = dice(state, worker->operations);
	worker->suicide = one_in(state, 3);
}

static void run_round(struct link *link, uint64_t round, uint64_t *state)
{
	struct slot *slot = &world->slots[link->slot];
	uint64_t operations = 30 + dice(state, 200);
	struct worker workers[THREADS];

	atomic_store(&link->moved, now_ns());
	for (unsigned int t = 0; t < stress.threads; t++) {
		workers[t] = (struct worker){
			.link = link,
			.thread = t,
			.dice = mix(world->seed, link->slot + 1, round, t),
			.operations = operations,
			.death = NOTHING,
		};
	}
	plan_death(&workers[0], state);
	for (unsigned int t = 1; t < stress.threads; t++) {
		if (pthread_create(&workers[t].id, NULL, work, &workers[t]))
			stress_fail("no thread: %s", strerror(errno));
	}
	work(&workers[0]);
	for (unsigned int t = 1; t < stress.threads; t++)
		pthread_join(workers[t].id, NULL);
	if (!atomic_load(&link->broken))
		commit_all(link, &workers[0]);
	if (slot->round == round)
		go_on(slot, operations);
	stress_count(C_ROUNDS, 1);
}

/* Connections */

static void close_link(struct link *link)
{
	conn_close(&link->conn);
	CLOSE(link->cntr);
	link->cntr = NULL;
}

static void disconnect(struct link *link)
{
	struct initiator *initiator = link->initiator;

	pthread_mutex_lock(&initiator->lock);
	if (!stress.rdm)
		fi_shutdown(link->conn.ep, 0);
	close_link(link);
	pthread_mutex_unlock(&initiator->lock);
	link->open = false;
}

/* create -- an endpoint, with what it counts by */
static int create(struct link *link)
{
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct node *node = &link->initiator->node;
	int ret = link->counts ? fi_cntr_open(node->domain, &cntr_attr, &link->cntr, NULL) : 0;
	struct conn_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait = FI_WAIT_NONE,
		.selective = true,
		.av = link->initiator->av,
		.write_cntr = link->cntr,
		.read_cntr = link->counts_reads ? link->cntr : NULL,
	};

	atomic_store(&link->value, 0);
	return ret ? ret : conn_create(&link->conn, node, node->info, &attr);
}

/* try_to_connect -- once; false: nobody listens yet */
static bool try_to_connect(struct link *link)
{
	const struct node *node = &link->initiator->node;
	uint64_t deadline = deadline_in(stress.opts.timeout);
	uint32_t number = link->slot;
	int ret;

	pthread_mutex_lock(&link->initiator->lock);
	atomic_store(&link->connected, false);
	atomic_store(&link->down, false);
	ret = create(link);
	if (!ret)
		ret = fi_connect(link->conn.ep, node->info->dest_addr, &number, sizeof(number));
	if (ret)
		stress_fail("connection %u can't be made: %s", link->slot, fi_strerror(-ret));
	while (!atomic_load(&link->connected) && !atomic_load(&link->down) && now_ns() < deadline)
		hear(link->initiator);
	if (!atomic_load(&link->connected))
		close_link(link);
	pthread_mutex_unlock(&link->initiator->lock);
	return atomic_load(&link->connected);
}

/* try_to_ask -- the same for FI_EP_RDM; other links of the process go on meanwhile */
static bool try_to_ask(struct link *link)
{
	const struct timespec moment = {.tv_nsec = 100000};
	struct slot *slot = &world->slots[link->slot];
	unsigned int asked = atomic_fetch_add(&slot->asked, 1) + 1;
	uint64_t deadline = deadline_in(stress.opts.timeout);
	int ret = 0;

	while (atomic_load(&slot->granted) != asked) {
		if (now_ns() > deadline)
			return false;
		nanosleep(&moment, NULL);
	}
	pthread_mutex_lock(&link->initiator->lock);
	ret = create(link);
	if (!ret && fi_av_insert(link->initiator->av, slot->name, 1, &link->peer, 0, NULL) != 1)
		ret = -FI_EINVAL;
	pthread_mutex_unlock(&link->initiator->lock);
	if (ret)
		stress_fail("connection %u can't be made: %s", link->slot, fi_strerror(-ret));
	return true;
}

/* look_at_key -- is what survives what was written back?  FI_EP_RDM has no queries. */
static void look_at_key(struct link *link)
{
	struct pmv_attr attr;

	if (!pmv_key_unpack(world->slots[link->slot].key[0], &attr))
		stress_fail("a key does not describe the memory");
	atomic_store(&world->shadowed,
		     attr.persist == PMV_PAGE || (attr.persist == PMV_DMP && attr.ddio));
	/* The target's processor executes them, and the data are in its caches then. */
	link->sums_commit = attr.persist != PMV_PAGE && attr.persist != PMV_DMP && !stress.relaxed;
}

/* has_atomics -- FI_EP_RDM can't commit all of them by itself: see fi_pmemverbs_unmodified(7) */
static bool has_atomics(const struct link *link)
{
	bool alone = link->sums_commit || (!link->cntr && !stress.relaxed);

	return link->initiator->atomics && (alone || !stress.commit_all);
}

/* look -- the same by a query */
static void look(struct link *link)
{
	struct slot *slot = &world->slots[link->slot];
	struct fi_pmemverbs_region region = {0};
	struct fi_pmemverbs_ops *ops;
	int ret = fi_open_ops(&link->initiator->node.domain->fid, FI_PMEMVERBS_OPS, 0,
			      (void **) &ops, NULL);

	if (!ret)
		ret = ops->query_key(link->conn.ep, slot->key[0], &region);
	if (ret || region.method == FI_PMEMVERBS_REFUSED)
		stress_fail("nobody can commit to this memory: %s", fi_strerror(-ret));
	/* Where writes may be reordered, the agent also waits for memory that needs no write-back.
	 */
	atomic_store(&world->shadowed,
		     region.method == FI_PMEMVERBS_AGENT && (region.domain == FI_PMEMVERBS_PAGE ||
							     region.domain == FI_PMEMVERBS_DMP));
	link->sums_commit = true;
}

static void connect_link(struct link *link, uint64_t *state)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	struct slot *slot = &world->slots[link->slot];
	uint64_t deadline = deadline_in(stress.opts.timeout);
	uint32_t life = slot->life;
	size_t many;

	slot->declares = one_in(state, 2);
	link->counts = !one_in(state, 3);
	link->counts_reads = link->counts && one_in(state, 2);
	link->silent = link->counts && one_in(state, 2);
	while (!(stress.rdm ? try_to_ask(link) : try_to_connect(link))) {
		if (now_ns() > deadline)
			stress_fail("connection %u: nobody answers", link->slot);
		nanosleep(&moment, NULL);
	}
	if (atomic_load(&link->broken) && !link->excused && life == slot->life)
		stress_fail("connection %u: it failed, nobody knows why: %s says %s", link->slot,
			    link->why, fi_strerror(link->err));
	atomic_store(&link->broken, false);
	if (stress.rdm)
		look_at_key(link);
	else
		look(link);
	link->sums = has_atomics(link) && !fi_atomicvalid(link->conn.ep, FI_UINT64, FI_SUM, &many);
	link->fetches =
		has_atomics(link) && !fi_fetch_atomicvalid(link->conn.ep, FI_UINT64, FI_SUM, &many);
	oracle_begin(link->slot);
	oracle_known(link->slot);
	link->open = true;
	stress_count(C_CONNECTS, 1);
}

static bool is_over(const struct slot *slot)
{
	if (stress.seconds)
		return ms_since(world->start) / 1000 >= stress.seconds;
	return slot->operations >= stress.operations;
}

static void *run_link(void *arg)
{
	struct link *link = arg;
	struct slot *slot = &world->slots[link->slot];

	while (!is_over(slot)) {
		uint64_t round = slot->round, state = mix(world->seed, 0, round, link->slot);

		if (!link->open)
			connect_link(link, &state);
		else
			dice_bits(&state);
		run_round(link, round, &state);
		if (atomic_load(&link->broken) || one_in(&state, 3))
			disconnect(link);
	}
	if (link->open)
		disconnect(link);
	return NULL;
}

/* The process */

uint64_t stress_caps(void)
{
	return FI_MSG | FI_RMA | FI_RMA_PMEM | (stress.rdm ? 0 : FI_FENCE);
}

struct fid_av *stress_av(const struct node *node)
{
	struct fi_av_attr attr = {.type = FI_AV_MAP};
	struct fid_av *av = NULL;
	int ret = stress.rdm ? fi_av_open(node->domain, &attr, &av, NULL) : 0;

	if (ret)
		stress_fail("no address vector: %s", fi_strerror(-ret));
	return av;
}

uint64_t stress_atomics(const struct options *opts, const struct node_attr *attr)
{
	struct node_attr wanted = *attr;
	struct fi_info *info;

	wanted.caps |= FI_ATOMIC;
	if (stress.no_atomics || fabric_offered(opts, &wanted, &info))
		return 0;
	fi_freeinfo(info);
	return FI_ATOMIC;
}

static void open_all(struct initiator *initiator, unsigned int process)
{
	static const uint64_t op_flags[] = {0, FI_COMPLETION, FI_COMPLETION | FI_COMMIT_COMPLETE};
	uint64_t state = mix(world->seed, 0, 0, process);
	char port[8];
	struct node_attr attr = {
		.type = stress.rdm ? FI_EP_RDM : FI_EP_MSG,
		.caps = stress_caps(),
		.threading = FI_THREAD_SAFE,
		.port = port,
	};
	int ret;

	snprintf(port, sizeof(port), "%u", atomic_load(&world->port));
	initiator->op_flags = op_flags[dice(&state, 3)];
	attr.op_flags = initiator->op_flags;
	initiator->opts = stress.opts;
	/* RxM listens there, and a source has no port. */
	if (stress.rdm)
		initiator->opts.src_addr = NULL;
	attr.caps |= stress_atomics(&initiator->opts, &attr);
	initiator->atomics = attr.caps & FI_ATOMIC;
	pthread_mutex_init(&initiator->lock, NULL);
	ret = fabric_open(&initiator->node, &initiator->opts, &attr);
	if (!ret)
		initiator->av = stress_av(&initiator->node);
	if (!ret)
		ret = region_register(&initiator->node, &initiator->pool, pool, POOL, FI_WRITE, 0);
	for (unsigned int i = 0; !ret && i < stress.connections; i++) {
		struct link *link = &initiator->links[i];
		size_t len = (size_t) THREADS * WINDOW * sizeof(struct buffers);

		link->initiator = initiator;
		link->slot = process * (unsigned int) stress.connections + i;
		link->buffers = aligned_alloc(4096, (len + 4095) & ~(size_t) 4095);
		if (!link->buffers)
			stress_fail("no memory");
		ret = region_register(&initiator->node, &link->region, link->buffers, len,
				      FI_SEND | FI_WRITE | FI_READ, 0);
	}
	if (ret)
		stress_fail("an initiator can't begin: %s", fi_strerror(-ret));
}

int stress_initiator(unsigned int process)
{
	const struct timespec moment = {.tv_nsec = 10000000};
	struct initiator *initiator = calloc(1, sizeof(*initiator));
	pthread_t ids[CONNECTIONS] = {0};

	if (!initiator)
		stress_fail("no memory");
	while (!atomic_load(&world->port))
		nanosleep(&moment, NULL);
	open_all(initiator, process);
	for (unsigned int i = 0; i < stress.connections; i++) {
		if (pthread_create(&ids[i], NULL, run_link, &initiator->links[i]))
			stress_fail("no thread: %s", strerror(errno));
	}
	for (unsigned int i = 0; i < stress.connections; i++)
		pthread_join(ids[i], NULL);
	for (unsigned int i = 0; i < stress.connections; i++) {
		region_close(&initiator->links[i].region);
		free(initiator->links[i].buffers);
	}
	region_close(&initiator->pool);
	CLOSE(initiator->av);
	node_close(&initiator->node);
	free(initiator);
	return 0;
}
