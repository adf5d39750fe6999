/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_apps.c -- the applications over FI_EP_RDM: what they post, and how they wait */
#include "rdm_world.h"

#include <poll.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>
#include <rdma/fi_rma.h>

#include "rxm.h"

#define MOST_FAILED 12
/* Whoever polls in vain halves its pace after so many looks, and so many times at most. */
#define RESTS_ALIKE 64
#define MOST_LONGER 2 /* operations need some looks of the other end */
#define LONGEST_REST_NS INT64_C(20000000)

/* Ends */

static void end(struct rdm_party *party, struct rdm_op *op, int err)
{
	int64_t took = sched_now_ns - op->begin_ns - (rdm_stopped_ns() - op->excused_ns);

	if (!op->used)
		sched_fail("an operation ends twice");
	sched_trace("operation %d ends: %s", (int) (op - party->ops),
		    err ? fi_strerror(err) : "ok");
	if (err)
		rdm_judge(party, op, err);
	else
		party->settled[op->place] = op->harms;
	if (!err && op->harms == rdm_link_of(party, op->place)->harms &&
	    took > rdm_world.longest_ns)
		rdm_world.longest_ns = took;
	op->used = false;
	party->ended++;
	party->failed_in_a_row = err ? party->failed_in_a_row + rdm_is_there(party, op) : 0;
	rdm_world.ops_ended++;
	rdm_world.ops_failed += err != 0;
}

static void post_receive(struct rdm_party *party)
{
	ssize_t ret;

	while ((ret = fi_recv(party->ep, party->received, sizeof(party->received), NULL,
			      FI_ADDR_UNSPEC, NULL)) == -FI_EAGAIN)
		sched_sleep(1000);
	sure((int) ret, "a receive");
}

/* take -- what a read has returned; true: there was something */
static bool take(struct rdm_party *party, const struct fi_cq_entry *entries, ssize_t ret)
{
	struct fi_cq_err_entry error = {0};

	if (ret == -FI_EAVAIL) {
		if (fi_cq_readerr(party->cq, &error, 0) == 1 && error.op_context)
			end(party, error.op_context, error.err);
		return true;
	}
	if (ret < 0 && ret != -FI_EAGAIN)
		sched_fail("a read of the queue fails: %s", fi_strerror((int) -ret));
	for (ssize_t i = 0; i < ret; i++) {
		if (entries[i].op_context)
			end(party, entries[i].op_context, 0);
		else
			post_receive(party);
	}
	if (ret > 0)
		party->rests = 0;
	return ret > 0;
}

static uint64_t harms_of(const struct rdm_party *party)
{
	uint64_t harms = 0;

	for (int i = 1; i < rdm_world.num_places; i++)
		harms += rdm_link_of(party, i)->harms;
	return harms;
}

/*
 * rest -- between two looks of who polls: longer and longer, as each look takes many steps; but of
 * the receives of a connection that is lost RxM takes one a look
 */
static void rest(struct rdm_party *party)
{
	uint64_t harms = harms_of(party);
	unsigned int longer;

	if (harms != party->seen_harms)
		party->rests = 0;
	party->seen_harms = harms;
	longer = party->rests++ / RESTS_ALIKE;
	sched_sleep(sched_between(1000, INT64_C(200000)
						<< (longer < MOST_LONGER ? longer : MOST_LONGER)));
}

static bool read_some(struct rdm_party *party)
{
	struct fi_cq_entry entries[4];

	return take(party, entries, fi_cq_read(party->cq, entries, 1 + sched_dice(4)));
}

static void sleep_on_descriptor(struct rdm_party *party)
{
	struct fid *fids[] = {&party->cq->fid};
	struct pollfd fd = {.events = POLLIN};
	int ret;

	sure(fi_control(&party->cq->fid, FI_GETWAIT, &fd.fd), "a descriptor");
	ret = fi_trywait(party->fabric, fids, 1);
	sched_trace("fi_trywait: %d", ret);
	/* A signal from before that is gone. */
	if (!ret && !party->ends)
		poll(&fd, 1, -1);
}

struct passing {
	const struct rdm_party *party;
	uint64_t ended; /* when this began */
};

static bool has_ended(void *arg)
{
	const struct passing *passing = arg;

	return passing->party->ended != passing->ended;
}

static void await(struct rdm_party *party)
{
	struct fi_cq_entry entries[4];

	switch (party->waits) {
	case WAITS_SREAD:
	case WAITS_SREAD_MS:
		take(party, entries,
		     fi_cq_sread(party->cq, entries, 4, NULL,
				 party->waits == WAITS_SREAD ? -1 : (int) sched_between(1, 20)));
		break;
	case WAITS_DESCRIPTOR:
		if (!read_some(party))
			sleep_on_descriptor(party);
		break;
	default:
		if (!read_some(party))
			rest(party);
	}
}

/* pass_time -- until something may have ended: another thread reads the queue, or this one */
static void pass_time(struct rdm_party *party)
{
	struct passing passing = {party, party->ended};

	if (party->sleeper)
		sched_block("waits for who reads the queue", has_ended, &passing, SCHED_NEVER);
	else
		await(party);
}

/* Operations */

static unsigned int under_way(const struct rdm_party *party)
{
	unsigned int count = 0;

	for (int i = 0; i < RDM_DEPTH; i++)
		count += party->ops[i].used;
	return count;
}

static struct rdm_op *find_free(struct rdm_party *party)
{
	for (int i = 0; under_way(party) < party->depth && i < RDM_DEPTH; i++) {
		if (!party->ops[i].used)
			return &party->ops[i];
	}
	return NULL;
}

/* What a call has, besides its operation. */
struct call {
	struct rdm_party *party, *peer;
	struct rdm_op *op;
	size_t len;
	uint64_t flags;
};

static ssize_t post_atomic(const struct call *call)
{
	static const uint64_t one = 1;
	struct fi_ioc operand = {(void *) &one, 1}, result = {&call->op->result, 1};
	struct fi_rma_ioc place = {(uintptr_t) call->peer->memory, 1, fi_mr_key(call->peer->mr)};
	struct fi_msg_atomic msg = {
		.msg_iov = &operand,
		.iov_count = 1,
		.addr = call->party->peers[call->op->place],
		.rma_iov = &place,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = call->op,
	};

	if (call->op->kind == RDM_ADD)
		return fi_atomicmsg(call->party->ep, &msg, call->flags & FI_FENCE);
	return fi_fetch_atomicmsg(call->party->ep, &msg, &result, NULL, 1, call->flags & FI_FENCE);
}

static ssize_t post(const struct call *call)
{
	struct iovec iov = {world.source, call->len};
	fi_addr_t to = call->party->peers[call->op->place];
	struct fi_rma_iov rma_iov = {(uintptr_t) call->peer->memory, call->len,
				     fi_mr_key(call->peer->mr)};
	const struct fi_msg_rma rma = {&iov, NULL, 1, to, &rma_iov, 1, call->op, 0};
	const struct fi_msg msg = {&iov, NULL, 1, to, call->op, 0};

	switch (call->op->kind) {
	case RDM_WRITE:
		return fi_writemsg(call->party->ep, &rma, call->flags);
	case RDM_READ:
		return fi_readmsg(call->party->ep, &rma, call->flags & FI_FENCE);
	case RDM_SEND:
		return fi_sendmsg(call->party->ep, &msg, call->flags & FI_FENCE);
	default:
		return post_atomic(call);
	}
}

static uint64_t choose_flags(void)
{
	static const uint64_t flags[] = {
		FI_COMMIT, FI_COMMIT, FI_COMMIT, FI_COMMIT | FI_FENCE, 0, FI_DELIVERY_COMPLETE};

	return flags[sched_dice(6)] | (rdm_world.fences && sched_one_in(4) ? FI_FENCE : 0);
}

static enum rdm_kind choose_kind(const struct rdm_party *party)
{
	if (rdm_world.atomics && sched_one_in(4))
		return sched_one_in(2) ? RDM_FETCH : RDM_ADD;
	/* Elsewhere nobody takes messages from RxM's few buffers. */
	if ((rdm_world.atomics || rdm_world.at[RDM_TARGET]->sleeper) &&
	    party->place != RDM_TARGET && sched_one_in(6))
		return RDM_SEND;
	return sched_one_in(8) ? RDM_READ : RDM_WRITE;
}

static void pause_for(struct rdm_party *party, int64_t ns)
{
	int64_t begin = sched_now_ns;

	party->away = true;
	sched_sleep(ns);
	party->away = false;
	for (int i = 0; i < RDM_DEPTH; i++)
		party->ops[i].begin_ns += sched_now_ns - begin;
}

/*
 * take_failure -- a call was refused: whatever RxM has to read comes first, and it takes an entry a
 * call of those that tell nobody
 */
static void take_failure(struct rdm_party *party)
{
	for (int i = 0; i < 2 * RXM_RECEIVES; i++)
		read_some(party);
	pause_for(party, sched_between(1000, LONGEST_REST_NS));
}

static void set_out(struct rdm_party *party, struct rdm_op *op)
{
	op->begin_ns = sched_now_ns;
	op->excused_ns = rdm_stopped_ns();
	op->harms = rdm_link_of(party, op->place)->harms;
}

static void call_for(const struct call *call)
{
	static uint64_t last_number;
	uint64_t number = call->op->number = ++last_number;
	int64_t rest = 1000;
	/* Others that are under way end when the queue is read. */
	int64_t longest = under_way(call->party) > 1 ? LONGEST_REST_NS / 20 : LONGEST_REST_NS;
	ssize_t ret;

	set_out(call->party, call->op);

	/* Whoever is not connected sees nothing in the queue. */
	while ((ret = post(call)) == -FI_EAGAIN) {
		if (!read_some(call->party))
			sched_sleep(sched_between(500, rest));
		rest = 2 * rest < longest ? 2 * rest : longest;
	}
	if (ret) {
		end(call->party, call->op, (int) -ret);
		take_failure(call->party);
		return;
	}
	/* Another thread may have read its completion. */
	if (!call->op->used || call->op->number != number)
		return;
	call->op->accepted = true;
	set_out(call->party, call->op);
}

static void begin(struct rdm_party *party, struct rdm_op *op)
{
	static const char *const kinds[RDM_KINDS] = {"writes", "reads", "sends", "fetches and adds",
						     "adds"};
	static const size_t lens[] = {8, 64, 300, 4096};
	int place = party->place != RDM_TARGET
			    ? RDM_TARGET
			    : 1 + (int) sched_dice((uint64_t) rdm_world.num_places - 1);
	struct call call = {party, rdm_world.at[place], op, lens[sched_dice(4)], choose_flags()};

	*op = (struct rdm_op){
		.used = true,
		.kind = choose_kind(party),
		.place = place,
	};
	/* RxM takes the buffer of a longer one, and reads from it later. */
	if (op->kind == RDM_SEND)
		call.len = sizeof(party->received);
	if (!rdm_world.fences && op->kind != RDM_WRITE)
		call.flags &= ~FI_FENCE;
	sched_trace("operation %d %s %zu bytes, flags %#llx, to %d", (int) (op - party->ops),
		    kinds[op->kind], call.len, (unsigned long long) call.flags, op->place);
	call_for(&call);
	if (party->failed_in_a_row > MOST_FAILED)
		sched_fail("%s does not find its peer again", party->process.name);
}

static void *burst(void *arg)
{
	struct rdm_party *party = arg;
	uint64_t left = 8 + sched_dice(24);
	struct rdm_op *op;

	while (left--) {
		bool wait_for_all = sched_one_in(4);

		if (party->most_pause_ns && sched_one_in(8))
			pause_for(party, sched_between(1000, party->most_pause_ns));
		while (!(op = find_free(party)))
			pass_time(party);
		begin(party, op);
		while (wait_for_all && under_way(party))
			pass_time(party);
	}
	while (under_way(party))
		pass_time(party);
	party->done = true;
	return NULL;
}

void rdm_start_burst(struct rdm_party *party)
{
	party->done = party->ends = false;
	party->burst = sched_spawn(&party->process, "burst", burst, party);
}

/* Who sleeps while nothing is to be done */

static bool is_to_look(void *arg)
{
	return !rdm_world.idles || ((struct rdm_party *) arg)->ends;
}

static void *sleep_on_queue(void *arg)
{
	struct rdm_party *party = arg;

	if (!party->receives)
		post_receive(party);
	party->receives = true;
	while (!party->ends) {
		if (party->waits == WAITS_POLLING)
			sched_block("does not look", is_to_look, party, SCHED_NEVER);
		if (!party->ends)
			await(party);
	}
	return NULL;
}

void rdm_start_sleep(struct rdm_party *party)
{
	party->ends = false;
	if (party->waits != WAITS_ASIDE && party->waits != WAITS_SREAD_MS)
		party->sleeper = sched_spawn(&party->process, "sleeper", sleep_on_queue, party);
}

void rdm_stop_sleep(struct rdm_party *party)
{
	if (!party->sleeper || party->killed)
		return;
	party->ends = true;
	if (party->waits != WAITS_POLLING)
		sure(fi_cq_signal(party->cq), "a signal");
	sched_join(party->sleeper);
	party->sleeper = NULL;
}
