/* SPDX-License-Identifier: BSD-2-Clause */
/* completions.c -- what the queues and counters of an initiator's connections tell; see initiator.c
 */
#include <rdma/fi_atomic.h>

#include "../common/stats.h"
#include "initiator.h"

char quiet;

struct buffers *buffers_of(const struct link *link, unsigned int thread, unsigned int index)
{
	return &link->buffers[thread * WINDOW + index];
}

void break_link(struct link *link, const char *why, int err)
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

unsigned int index_of(const struct op *op)
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
void hear(struct initiator *initiator)
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
bool read_counter(struct link *link)
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
void reap(struct link *link)
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
