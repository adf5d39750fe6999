/* SPDX-License-Identifier: BSD-2-Clause */
/* service.c -- rounds of the agent; service.h has the rules */
#include "agent/service.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "agent/agent.h"
#include "agent/chain_work.h"
#include "agent/queues.h"
#include "agent/receiver.h"
#include "agent/receive_tracker.h"
#include "agent/syncing.h"
#include "base/clock.h"
#include "base/inline.h"
#include "memory/guard.h"
#include "progress/op.h"
#include "progress/queue.h"
#include "base/log.h"

/* end_connection waits no longer: as long as a silent peer has by default. */
#define ACK_WAIT_NS INT64_C(10000000000)
/* leave_ack leaves fewer: a quarter of the mailbox's slots. */
#define MOST_LEFT (PMV_SLOTS / 4)

/* Taking requests */

/* has_room -- for a notice behind so many others; else the request waits for the application */
static bool has_room(const struct pmv_receiver *receiver, size_t others)
{
	return !receiver->notice_queue ||
	       pmv_queue_has_room(receiver->notice_queue, receiver->events.unread, others);
}

/* is_open -- queued acknowledgements come first: that limits what one peer may ask for */
static bool is_open(const struct pmv_receiver *receiver)
{
	return !receiver->num_queued && !receiver->working && !receiver->syncing &&
	       !receiver->refused;
}

bool pmv_service_waits(const struct pmv_agent *agent)
{
	const struct pmv_receiver *receiver;
	struct pmv_message message;

	if (pmv_syncing_waits(&agent->syncing))
		return true;
	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	{
		if (receiver->working || pmv_rma_event_may_post(&receiver->events) ||
		    (is_open(receiver) && pmv_receiver_look(receiver, &message) &&
		     (!receiver->lacks_room || has_room(receiver, 0))))
			return true;
	}
	return false;
}

bool pmv_service_glance(const struct pmv_agent *agent)
{
	const struct pmv_receiver *receiver;

	if (pmv_syncing_waits(&agent->syncing))
		return true;
	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	{
		if (is_open(receiver) ? pmv_receiver_has_message(receiver)
				      : receiver->num_queued || receiver->working ||
						(receiver->refused && !receiver->ended))
			return true;
	}
	return false;
}

/* name_more -- what a chain uses, or where messages were received */
static void name_more(struct pmv_agent *agent, struct pmv_receiver *receiver, struct pmv_work *work)
{
	enum pmv_fault fault;

	/* The range of a chain is no place. */
	pmv_work_name_ranges(&agent->regions, work, work->request.count - work->request.chain);
	if (work->request.chain)
		fault = pmv_chain_work_begin(&agent->regions, work);
	else
		fault = pmv_receive_tracker_serve(receiver->receives, &agent->regions,
						  work->request.data, work);
	if (!work->fault)
		work->fault = fault;
}

/*
 * is_valid -- does the content of a message keep to the rules?  An empty one asks for nothing, and
 * so does one that breaks them: nobody looks at what it names.
 */
static bool is_valid(struct pmv_work *work)
{
	const struct pmv_envelope *envelope = &work->message.envelope;

	if (envelope->content == PMV_CONTENT_FLUSH && pmv_flush_message_is_valid(&work->request))
		return true;
	work->request.count = work->request.flags = 0;
	return envelope->content == PMV_CONTENT_NONE && envelope->len == sizeof(*envelope);
}

/* count_notices -- that a connection's requests in the batch are going to give */
static size_t count_notices(const struct pmv_writeback_batch *batch,
			    const struct pmv_receiver *receiver)
{
	size_t count = 0;

	for (unsigned int i = 0; i < batch->count; i++)
		count += batch->works[i].receiver == receiver && batch->works[i].request.notify;
	return count;
}

/* take_message -- one request; false: there is none, or none after it */
static bool take_message(struct pmv_agent *agent, struct pmv_receiver *receiver,
			 struct pmv_slice *slice)
{
	struct pmv_work *work = &agent->batch->works[agent->batch->count];
	bool valid;

	if (!pmv_receiver_look(receiver, &work->message))
		return false;
	valid = is_valid(work);
	/* Reading the queue wakes the thread. */
	receiver->lacks_room = valid && work->request.notify &&
			       !has_room(receiver, count_notices(agent->batch, receiver));
	if (receiver->lacks_room ||
	    (work->request.chain && pmv_chain_work_waits(agent->batch, receiver, work)))
		return false;
	receiver->served++;
	pmv_look_served(&agent->looks, receiver, pmv_clock_ns());
	agent->batch->count++;
	pmv_work_begin(work, receiver);
	work->faulted = receiver->faulted;
	if (!valid) {
		work->malformed = true;
		work->fault = PMV_FAULT_MESSAGE;
		return false;
	}
	/* First, as there is always room for them: who asks does not name them again. */
	if (work->request.flags & (PMV_FLUSH_CHAIN | PMV_FLUSH_MESSAGES))
		name_more(agent, receiver, work);
	else
		pmv_work_name_ranges(&agent->regions, work, work->request.count);
	pmv_work_join(work);
	pmv_work_charge(work, slice);
	return true;
}

/*
 * collect -- at most a quarter of the batch from one peer, and little more than one slice:
 * all of its requests in a round but the last one end in it
 */
static void collect(struct pmv_agent *agent, struct pmv_receiver *receiver, struct pmv_slice slice)
{
	unsigned int most = PMV_WRITEBACK_WORKS / 4;

	while (pmv_receiver_has_message(receiver) && most-- &&
	       agent->batch->count < PMV_WRITEBACK_WORKS && slice.lines && slice.pages &&
	       take_message(agent, receiver, &slice))
		;
}

/* take_up -- continue the request that the last round did not finish */
static void take_up(struct pmv_writeback_batch *batch, struct pmv_receiver *receiver)
{
	struct pmv_work *work;

	if (batch->count == PMV_WRITEBACK_WORKS)
		return;
	work = &batch->works[batch->count++];
	*work = *receiver->work;
	/* Those before it have been acknowledged since. */
	work->faulted = receiver->faulted;
	receiver->working = false;
}

/* Acknowledging */

/*
 * refuse -- it can't be told how its requests end, so it is to hear of no later one: that
 * acknowledgement would cover these, too, and tell of none of their faults
 */
static void refuse(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	pmv_syncing_forget(agent, receiver);
	receiver->syncing = false;
	receiver->num_queued = receiver->replies = 0;
	if (receiver->working)
		pmv_work_free(receiver->work);
	receiver->working = false;
	receiver->refused = agent->looks.held_up = true;
}

PMV_ALWAYS_INLINE void post_acks(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	uint64_t before = receiver->posted_acks;
	ssize_t ret = pmv_receiver_post_acks(receiver);

	if (receiver->posted_acks > before)
		pmv_look_acknowledged(&agent->looks, receiver, pmv_clock_ns());
	receiver->starved = ret == -FI_EAGAIN;
	agent->looks.held_up |= receiver->starved;
	if (!ret || ret == -FI_EAGAIN)
		return;
	/* No warning: so it is, too, when the connection has just been lost. */
	PMV_INFO(EP_DATA,
		 "the core does not take an acknowledgement: %s; this peer's connection is ended\n",
		 fi_strerror((int) -ret));
	refuse(agent, receiver);
}

/*
 * end_connection -- but only after the acknowledgement was sent: it may be lost otherwise.  It does
 * not wait for requests of ours, which such a peer need never answer, nor for long: over tcp the
 * peer may read nothing any more.
 */
static void end_connection(struct pmv_receiver *receiver)
{
	int64_t now = pmv_clock_ns();

	if (receiver->ended)
		return;
	if (!receiver->end_by_ns)
		receiver->end_by_ns = now + ACK_WAIT_NS;
	if (now < receiver->end_by_ns &&
	    (receiver->num_queued || pmv_op_acks(receiver->link->owner)))
		return;
	receiver->num_queued = receiver->replies = 0;
	receiver->ended = true;
	fi_shutdown(receiver->link->engine->fid, 0);
}

static void put_last(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	if (!TAILQ_NEXT(receiver, next))
		return;
	TAILQ_REMOVE(&agent->looks.active, receiver, next);
	TAILQ_INSERT_TAIL(&agent->looks.active, receiver, next);
}

/* post_events -- after requests, whose notices need room, too; and others come first next time */
static void post_events(struct pmv_agent *agent)
{
	struct pmv_receiver *receiver, *posted = NULL;

	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	{
		if (receiver->events.has_pending && pmv_rma_event_post(&receiver->events) &&
		    !posted)
			posted = receiver;
	}
	if (posted)
		put_last(agent, posted);
}

/* take_requests -- as many of a mailbox as a round does; those that sync pages go elsewhere */
static bool take_requests(struct pmv_agent *agent, struct pmv_receiver *receiver,
			  struct pmv_slice slice)
{
	unsigned int first = agent->batch->count;

	if (receiver->working)
		take_up(agent->batch, receiver);
	else if (is_open(receiver))
		collect(agent, receiver, slice);
	if (agent->batch->count == first)
		return false;
	receiver->syncing = agent->syncing.begun && pmv_syncing_take(agent, first);
	return true;
}

/*
 * look_around -- post queued acknowledgements, and fill the batch; true: it took something.
 * Holds the lock.
 */
static bool look_around(struct pmv_agent *agent, struct pmv_slice slice)
{
	struct pmv_receiver *receiver;
	bool pending = false, taken = false;

	TAILQ_FOREACH(receiver, &agent->looks.active, next)
	{
		if (receiver->num_queued)
			post_acks(agent, receiver);
		pending |= receiver->events.has_pending;
		if (receiver->refused)
			end_connection(receiver);
		else
			taken |= take_requests(agent, receiver, slice);
	}
	if (pending)
		post_events(agent);
	/* Whoever found no room in the batch comes before the others next time. */
	for (unsigned int i = 0; i < agent->batch->count; i++)
		put_last(agent, agent->batch->works[i].receiver);
	return taken;
}

/*
 * give_notice -- the application's completion, now that all of it is durable.  If it can't be kept
 * the commit fails: it was to be told.
 */
static enum pmv_fault give_notice(const struct pmv_receiver *receiver, uint64_t data)
{
	const struct fi_cq_tagged_entry entry = {
		.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
		.data = data,
	};
	struct pmv_comp *comp;

	if (!receiver->notice_queue)
		return PMV_FAULT_NONE;
	comp = pmv_comp_success(receiver->notice_queue, &entry);
	if (!comp)
		PMV_WARN(CQ, "no memory for a completion: a peer's commit fails\n");
	else if (pmv_queue_add_for(receiver->notice_queue, receiver->events.unread, comp))
		return PMV_FAULT_NONE;
	return PMV_FAULT_MEMORY;
}

static const char *reason_of(const struct pmv_work *work)
{
	if (work->fault == PMV_FAULT_MESSAGE)
		return "the request is malformed";
	if (work->request.chain)
		return work->fault == PMV_FAULT_MEMORY
			       ? "there is no memory for its chain, or none can be registered "
				 "with a NIC (see ulimit -l), or the large results of all peers "
				 "take as much as they may"
			       : "a step of its chain was refused";
	return work->request.messages
		       ? "a buffer of its messages is not registered with FI_RMA_PMEM any more, or "
			 "there was no memory to note where they are"
		       : "it names memory that is not registered, or beyond its end";
}

/* refuse_work -- its fault is logged; a malformed message is the last one that is taken */
static void refuse_work(struct pmv_agent *agent, struct pmv_receiver *receiver,
			const struct pmv_work *work)
{
	struct pmv_complaint complaint;

	receiver->refused |= work->malformed;
	agent->looks.held_up |= work->malformed;
	if (!work->malformed && (work->fault == PMV_FAULT_IO || receiver->warned))
		return;
	/* Its endpoint may be closed at any moment, and with it what knows the peer's address. */
	if (!receiver->attached ||
	    !pmv_complaint_make(&agent->complaints, receiver->link, pmv_clock_ns(), &complaint))
		return;
	receiver->warned = true;
	if (work->malformed)
		PMV_WARN(EP_DATA, "malformed request from the peer %s: its connection is ended%s\n",
			 complaint.peer, complaint.left_out);
	else
		PMV_WARN(EP_DATA,
			 "a commit of the peer %s is refused: %s; further ones of this connection "
			 "are not logged%s\n",
			 complaint.peer, reason_of(work), complaint.left_out);
}

/* tell -- the application of the end of a request, unless its endpoint is being closed */
static void tell(struct pmv_agent *agent, struct pmv_receiver *receiver, struct pmv_work *work,
		 enum pmv_fault fault)
{
	const struct pmv_flush_message *request = &work->request;

	if (request->chain) {
		agent->counts.chains++;
		pmv_chain_work_end(receiver, work);
	}
	if (!receiver->attached)
		return;
	if (request->notify && !fault)
		fault = work->fault = give_notice(receiver, request->data);
	if (request->event)
		pmv_rma_event_tell(&receiver->events, &agent->regions, request, fault);
}

static void finish(struct pmv_agent *agent, struct pmv_work *work)
{
	const struct pmv_flush_message *request = &work->request;
	struct pmv_receiver *receiver = work->receiver;
	/* A request of several messages is durable only if all of them are. */
	enum pmv_fault fault = receiver->part_fault ? receiver->part_fault : work->fault;

	/* One that asks for nothing comes when an acknowledgement is late. */
	if (request->envelope.content != PMV_CONTENT_NONE)
		agent->counts.requests++;
	if (work->fault)
		refuse_work(agent, receiver, work);
	receiver->part_fault = request->envelope.more ? fault : PMV_FAULT_NONE;
	if (request->flags & PMV_FLUSH_TELLS)
		tell(agent, receiver, work, fault);
	if (work->fault) {
		agent->counts.refused++;
		receiver->faulted = request->envelope.number;
	}
	pmv_receiver_queue_ack(receiver, request->envelope.number, work->fault);
}

/*
 * leave_ack -- may the application take the acknowledgement's entry from the core?  If it never
 * reads its queue, few may be left there: they use up the core's room.
 */
static bool leave_ack(struct pmv_queue *queue)
{
	if (!queue)
		return false;
	if (++queue->acks >= MOST_LEFT || queue->acks >= queue->size / 4)
		queue->acks = 0;
	return queue->acks;
}

/* answer -- a mailbox whose requests were concluded, unless it is about to be closed */
PMV_ALWAYS_INLINE void answer(struct pmv_agent *agent, struct pmv_receiver *receiver)
{
	receiver->syncing = false;
	if (!receiver->attached)
		return;
	if (receiver->num_queued && !receiver->starved)
		post_acks(agent, receiver);
	if (agent->engine->core->manual_progress || !leave_ack(receiver->link->owner->tx_queue))
		pmv_queues_pin_both(agent, receiver);
}

/* conclude -- what was carried out; holds the lock */
static void conclude(struct pmv_agent *agent, struct pmv_writeback_batch *batch)
{
	for (unsigned int i = 0; i < batch->count; i++) {
		struct pmv_work *work = &batch->works[i];
		struct pmv_receiver *receiver = work->receiver;

		if (receiver && work->ended) {
			finish(agent, work);
		} else if (receiver) {
			/* It goes on; those behind it are still in the mailbox. */
			*receiver->work = *work;
			work->more = NULL;
			receiver->working = true;
		} else {
			pmv_work_free(work);
		}
		if (work->more)
			pmv_work_free(work);
		/* Those of a connection are side by side. */
		if (receiver && (i + 1 == batch->count || work[1].receiver != receiver))
			answer(agent, receiver);
	}
	batch->count = 0;
}

/* conclude_synced -- the groups that were carried out; true: there were some.  Holds the lock. */
static bool conclude_synced(struct pmv_agent *agent)
{
	struct pmv_writeback_batch *batch;
	bool any = false;

	while ((batch = pmv_syncing_next(agent))) {
		/* Whoever hears of a commit finds it counted. */
		pmv_writeback_add_counts(&agent->batch->counts, &batch->counts);
		conclude(agent, batch);
		pmv_syncing_free(batch);
		any = true;
	}
	return any;
}

/* carry_out -- the agent's own batch; nobody reads attended queues while it syncs pages */
static void carry_out(struct pmv_agent *agent, struct pmv_slice slice)
{
	bool leaves = agent->attends && pmv_writeback_disk(agent->batch, 0) != PMV_DISK_NONE;

	if (leaves)
		pmv_queues_hand_over(agent);
	pmv_guard_enter_flushing();
	pmv_writeback_carry_out(agent->batch, &agent->regions, slice);
	pmv_guard_leave_flushing();
	if (leaves)
		pmv_queues_attend(agent, pmv_clock_ns());
	pthread_mutex_lock(&agent->lock);
	conclude(agent, agent->batch);
	pthread_mutex_unlock(&agent->lock);
}

static bool serve(struct pmv_agent *agent, struct pmv_slice slice)
{
	bool busy;

	pthread_mutex_lock(&agent->lock);
	busy = !TAILQ_EMPTY(&agent->syncing.done) && conclude_synced(agent);
	pmv_queues_pin(agent, agent->engine->core->manual_progress);
	/* Cores are called without the lock. */
	if (!TAILQ_EMPTY(&agent->pinned)) {
		pthread_mutex_unlock(&agent->lock);
		pmv_queues_call(agent);
		pthread_mutex_lock(&agent->lock);
	}
	busy |= look_around(agent, slice);
	pthread_mutex_unlock(&agent->lock);
	if (agent->batch->count)
		carry_out(agent, slice);
	if (!TAILQ_EMPTY(&agent->pinned))
		pmv_queues_call(agent);
	return busy;
}

bool pmv_service_round(struct pmv_agent *agent, struct pmv_slice slice)
{
	bool busy;

	pmv_guard_enter();
	busy = serve(agent, slice);
	pmv_guard_leave();
	return busy;
}
