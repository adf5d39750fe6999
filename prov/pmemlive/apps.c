/* SPDX-License-Identifier: BSD-2-Clause */
/* apps.c -- the applications of a world: who posts, who waits, and in which way */
#include "world.h"

#include <poll.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/setting.h"
#include "engine/info.h"
#include "objects/cq.h"
#include "objects/ep.h"

/* An operation on a connection that is lost: until a probe, and whoever looks for its end. */
#define LOST_BOUND_NS INT64_C(1500000000)

/* Ends */

static unsigned int number_of(const struct party *party)
{
	return (unsigned int) (party - world.initiators);
}

static unsigned int ep_number(const struct party *party, const struct fid_ep *ep)
{
	unsigned int i = 0;

	while (party->eps[i] != ep)
		i++;
	return i;
}

/* is_cut -- where the target answers no connection is */
static bool is_cut(const struct party *party, unsigned int ep)
{
	return party != &world.target && world.cut[number_of(party)][ep];
}

/* fails -- allowed only where the connection was cut */
static void fails(struct party *party, const struct fid_ep *ep, int err)
{
	unsigned int i = ep_number(party, ep);

	if (!is_cut(party, i))
		sched_fail("an operation fails: %s", fi_strerror(err));
	party->lost[i] = true;
	world.ops_failed++;
}

static void end(struct party *party, struct op *op, int err)
{
	int64_t took = sched_now_ns - op->begin_ns - (world_stopped_ns() - op->excused_ns);

	if (!op->under_way)
		sched_fail("an operation ends twice");
	sched_trace("operation %d ends: %s", (int) (op - party->ops),
		    err ? fi_strerror(err) : "ok");
	op->under_way = false;
	party->num_ops--;
	party->ended++;
	world.ops_ended++;
	if (!err && op->notifies && world.told++ == world.heard) {
		world.told_ns = sched_now_ns;
		world.told_excused_ns = world_stopped_ns();
	}
	if (err)
		fails(party, op->ep, err);
	else if (!op->on_page && took > world.longest_ns)
		world.longest_ns = took;
}

/* hear -- the target's application of a commit that is durable; the others may wait on */
static void hear(void)
{
	sched_trace("a notice is heard");
	world.heard++;
	world.told_ns = sched_now_ns;
	world.told_excused_ns = world_stopped_ns();
}

/* take -- what a read has returned; true: there was something */
static bool take(struct party *party, const struct fi_cq_entry *entries, ssize_t ret)
{
	struct fi_cq_err_entry error = {0};

	if (ret == -FI_EAVAIL) {
		if (fi_cq_readerr(party->cq, &error, 0) == 1)
			end(party, error.op_context, error.err);
		return true;
	}
	if (ret < 0 && ret != -FI_EAGAIN)
		sched_fail("a read of the queue fails: %s", fi_strerror((int) -ret));
	for (ssize_t i = 0; i < ret; i++) {
		if (!entries[i].op_context)
			hear();
		else
			end(party, entries[i].op_context, 0);
	}
	return ret > 0;
}

static bool read_once(struct party *party)
{
	struct fi_cq_entry entries[4];

	return take(party, entries, fi_cq_read(party->cq, entries, 1 + sched_dice(4)));
}

/* sleep_on_descriptor -- as fi_trywait(3) says */
static void sleep_on_descriptor(struct party *party)
{
	struct pollfd fd = {.events = POLLIN};

	sure(fi_control(&party->cq->fid, FI_GETWAIT, &fd.fd), "a descriptor");
	if (!pmv_cq_trywait(pmv_to_cq(party->cq)))
		poll(&fd, 1, -1);
}

/* await -- until something has ended, perhaps */
static void await(struct party *party)
{
	struct fi_cq_entry entries[4];
	uint64_t wanted;

	switch (party->waits) {
	case WAITS_SREAD:
	case WAITS_SREAD_MS:
		take(party, entries,
		     fi_cq_sread(party->cq, entries, 4, NULL,
				 party->waits == WAITS_SREAD ? -1 : (int) sched_between(1, 20)));
		break;
	case WAITS_DESCRIPTOR:
		if (!read_once(party))
			sleep_on_descriptor(party);
		break;
	case WAITS_COUNTER:
		wanted = fi_cntr_read(party->cntr) + 1;
		while (read_once(party))
			;
		if (party->num_ops)
			fi_cntr_wait(party->cntr, wanted, 100);
		break;
	default:
		if (!read_once(party))
			sched_spend(sched_between(100, 3000));
	}
}

/* Operations */

static struct op *find_free(struct party *party)
{
	for (unsigned int i = 0; i < party->depth; i++) {
		if (!party->ops[i].under_way)
			return &party->ops[i];
	}
	return NULL;
}

static struct fid_ep *find_ep(struct party *party)
{
	unsigned int first = (unsigned int) sched_dice(party->num_eps);

	for (unsigned int i = 0; i < party->num_eps; i++) {
		unsigned int at = (first + i) % party->num_eps;

		if (!party->lost[at])
			return party->eps[at];
	}
	return NULL;
}

static enum memory choose_memory(const struct party *party)
{
	if (party == &world.target)
		return MEMORY_DMP;
	if (party->uses_page && sched_one_in(3))
		return MEMORY_PAGE;
	return sched_one_in(5) ? MEMORY_NONE : MEMORY_DMP;
}

static uint64_t choose_flags(void)
{
	static const uint64_t flags[] = {
		FI_COMMIT, FI_COMMIT, FI_COMMIT, FI_COMMIT | FI_FENCE, 0, FI_DELIVERY_COMPLETE};

	return flags[sched_dice(sizeof(flags) / sizeof(flags[0]))];
}

static size_t choose_len(void)
{
	static const size_t lens[] = {8, 64, 300, 4096, 20000};

	return lens[sched_dice(sizeof(lens) / sizeof(lens[0]))];
}

static ssize_t post(struct party *party, enum memory memory, size_t len, uint64_t flags,
		    struct op *op)
{
	struct party *peer = party->peers[ep_number(party, op->ep)];
	bool answers = party == &world.target;
	struct iovec iov = {world.source, len};
	struct fi_rma_iov rma_iov = {
		(uintptr_t) (answers ? peer->own_memory : world.memory[memory]), len,
		fi_mr_key(answers ? peer->own_mr : world.mr[memory])};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = op,
	};

	return op->reads ? fi_readmsg(op->ep, &msg, 0) : fi_writemsg(op->ep, &msg, flags);
}

static void begin(struct party *party, struct op *op)
{
	enum memory memory = choose_memory(party);
	uint64_t flags = choose_flags();
	size_t len = choose_len();
	struct fid_ep *ep = find_ep(party);
	ssize_t ret;

	if (!ep)
		return;
	*op = (struct op){
		.under_way = true,
		.begin_ns = sched_now_ns,
		.excused_ns = world_stopped_ns(),
		.synced_ns = world_synced_ns(),
		.ep = ep,
		.on_page = party->uses_page,
		.reads = sched_one_in(12),
	};
	op->notifies = world.notices && party != &world.target && !op->reads &&
		       (flags & FI_COMMIT) && sched_one_in(3);
	if (op->notifies)
		flags |= FI_REMOTE_CQ_DATA;
	party->num_ops++;
	sched_trace("operation %d: %s %zu bytes, memory %d, flags %#llx", (int) (op - party->ops),
		    op->reads ? "reads" : "writes", len, memory, (unsigned long long) flags);
	while ((ret = post(party, memory, len, flags, op)) == -FI_EAGAIN) {
		if (party->reaps)
			sched_sleep(sched_between(1000, 20000));
		else if (!read_once(party))
			sched_spend(sched_between(100, 3000));
	}
	if (!ret)
		return;
	sched_trace("it is refused: %s", fi_strerror((int) -ret));
	op->under_way = false;
	party->num_ops--;
	fails(party, ep, (int) -ret);
}

struct passing {
	const struct party *party;
	uint64_t ended; /* when this began */
};

static bool has_ended(void *arg)
{
	const struct passing *passing = arg;

	return passing->party->ended != passing->ended;
}

/* pass_time -- until something may have ended: another thread reads the queue, or this one */
static void pass_time(struct party *party)
{
	struct passing passing = {party, party->ended};

	if (party->reaps)
		sched_block("waits for who reads the queue", has_ended, &passing, SCHED_NEVER);
	else
		await(party);
}

/* pause_for -- the application does something else, and looks at nothing */
static void pause_for(struct party *party, int64_t ns)
{
	int64_t begin = sched_now_ns;

	party->is_away = true;
	sched_sleep(ns);
	party->is_away = false;
	for (unsigned int i = 0; i < party->depth; i++)
		party->ops[i].begin_ns += sched_now_ns - begin;
}

void *apps_burst(void *arg)
{
	struct party *party = arg;
	uint64_t left = 10 + sched_dice(60);
	struct op *op;

	while (left--) {
		bool wait_for_all = sched_one_in(4);

		if (party->most_pause_ns && sched_one_in(8))
			pause_for(party, sched_between(1000, party->most_pause_ns));
		while (!(op = find_free(party)))
			pass_time(party);
		begin(party, op);
		while (wait_for_all && party->num_ops)
			pass_time(party);
	}
	while (party->num_ops)
		pass_time(party);
	return NULL;
}

/* Those that sleep while nothing is to be done */

/* look_now_and_then -- into the queue, but for when all are to be idle */
static void look_now_and_then(struct party *party)
{
	if (world.idles)
		sched_sleep(INT64_C(1000000000));
	else if (!read_once(party))
		sched_sleep(sched_between(1000, sched_one_in(4) ? 2000000 : 20000));
}

/* answer -- what was heard, or not */
static void answer(struct party *party)
{
	struct op *op = find_free(party);

	if (world.answers && party == &world.target && world.heard != world.answered && op &&
	    sched_one_in(2))
		begin(party, op);
	world.answered = world.heard;
}

static void *sleep_on_queue(void *arg)
{
	struct party *party = arg;

	while (!party->ends || party->num_ops) {
		if (party->waits == WAITS_POLLING)
			look_now_and_then(party);
		else
			await(party);
		answer(party);
	}
	return NULL;
}

static void *watch(void *arg)
{
	struct party *party = arg;
	struct fi_eq_cm_entry entry;
	uint32_t event;
	ssize_t ret;

	do {
		ret = fi_eq_sread(party->eq, &event, &entry, sizeof(entry), -1, 0);
		sched_trace("event %d: %d", (int) event, (int) ret);
	} while (ret < 0 || event != FI_NOTIFY);
	return NULL;
}

static bool has_sleeper(const struct party *party)
{
	return party->waits == WAITS_SREAD || party->waits == WAITS_DESCRIPTOR ||
	       (party->waits == WAITS_POLLING && party == &world.target);
}

void apps_start(struct party *party)
{
	party->ends = false;
	if (has_sleeper(party))
		party->sleeper = sched_spawn(&party->process, "sleeper", sleep_on_queue, party);
	if (party->watches)
		party->watcher = sched_spawn(&party->process, "watcher", watch, party);
}

void apps_stop(struct party *party)
{
	struct fi_eq_entry none = {0};

	party->ends = true;
	if (party->sleeper) {
		if (party->waits != WAITS_POLLING)
			sure(fi_cq_signal(party->cq), "a signal");
		sched_join(party->sleeper);
	}
	if (party->watcher) {
		fi_eq_write(party->eq, FI_NOTIFY, &none, sizeof(none), 0);
		sched_join(party->watcher);
	}
	party->sleeper = party->watcher = NULL;
}

/* Bounds */

static int64_t deadline_of(const struct party *party, const struct op *op)
{
	unsigned int ep = ep_number(party, op->ep);
	int64_t bound = is_cut(party, ep) ? LOST_BOUND_NS : world.bound_ns;

	if (op->on_page)
		bound += world_synced_ns() - op->synced_ns;
	return op->begin_ns + bound + world_stopped_ns() - op->excused_ns;
}

/* notice_deadline_ns -- when the target's application must have heard of the next commit */
static int64_t notice_deadline_ns(void)
{
	if (world.told <= world.heard)
		return SCHED_NEVER;
	return world.told_ns + world.bound_ns + world_stopped_ns() - world.told_excused_ns;
}

static int64_t next_deadline_of(const struct party *party)
{
	int64_t next = SCHED_NEVER;

	for (unsigned int i = 0; party->num_ops && !party->is_away && i < party->depth; i++) {
		int64_t one =
			party->ops[i].under_way ? deadline_of(party, &party->ops[i]) : SCHED_NEVER;

		next = one < next ? one : next;
	}
	return next;
}

int64_t apps_deadline_ns(void)
{
	int64_t next = notice_deadline_ns(), one = next_deadline_of(&world.target);

	next = one < next ? one : next;
	for (unsigned int i = 0; i < world.num_initiators; i++) {
		one = next_deadline_of(&world.initiators[i]);
		next = one < next ? one : next;
	}
	return next;
}

void apps_check(void)
{
	if (notice_deadline_ns() < sched_now_ns)
		sched_fail("the target's application does not hear of a commit in time");
	if (apps_deadline_ns() < sched_now_ns)
		sched_fail("an operation does not end in its time");
}
