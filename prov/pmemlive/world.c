/* SPDX-License-Identifier: BSD-2-Clause */
/* world.c -- what a seed makes of a world, and what happens in it */
#include "world.h"

#include <stdio.h>

#include "base/setting.h"
#include "objects/ep.h"

#define SETTLE_NS INT64_C(1500000000)
#define IDLE_NS INT64_C(2000000000)
/* Whoever naps all the time takes many steps, and is seen to do so in a part of that. */
#define NAPS_PART 8

static const char *const names[WAITS_KINDS] = {
	"polls",        "fi_cq_sread", "fi_cq_sread with a timeout", "fi_trywait and poll",
	"fi_cntr_wait", "no call",
};

/* Choosing */

static void choose_rules(void)
{
	core_rules = (struct core_rules){
		.nic = sched_one_in(3),
		.moves_all = sched_one_in(2),
		.room = (unsigned int[]){2, 8, 64}[sched_dice(3)],
		.socket = (unsigned int[]){1, 4, 64}[sched_dice(3)],
		.busy_in = (unsigned int[]){0, 0, 10, 3}[sched_dice(4)],
		.loses_in = (unsigned int[]){0, 0, 20}[sched_dice(3)],
		.least_delay_ns = 500,
		.most_delay_ns = (int64_t[]){2000, 20000, 100000}[sched_dice(3)],
	};
	/* One message at a time: what is slow besides would take longer than a bound. */
	if (core_rules.socket == 1)
		core_rules.most_delay_ns = 2000;
}

/* sleeps -- does an agent's thread? */
static bool sleeps(void)
{
	return pmv_setting.agent == PMV_AGENT_THREAD;
}

/* choose_notices -- serves: also if the target's application makes no call for a while */
static void choose_notices(bool serves)
{
	bool reads = world.target.waits == WAITS_SREAD || world.target.waits == WAITS_DESCRIPTOR;

	world.target_size = sched_one_in(2) ? 64 : 4;
	world.unread = world.target.waits == WAITS_ASIDE && sched_one_in(3);
	if (world.unread)
		world.target_size = 4;
	/* Who looks now and then does not hear of them in time. */
	world.notices = (!world.cuts && reads && !world.elsewhere) || world.unread;
	world.answers = world.notices && reads && serves && sched_one_in(2);
	world.reads_late = world.notices && reads && serves && sched_one_in(2);
	if (world.reads_late)
		world.target_size = 2;
	world.events = !world.unread && !world.elsewhere && !world.plain &&
		       pmv_setting.agent != PMV_AGENT_PROGRESS &&
		       sched_one_in(world.reads_late ? 1 : 3);
	/* Those of connections that end are lost, and others wait behind a message, or a link. */
	world.immediates = world.notices && reads && !core_rules.nic && !world.sends &&
			   !world.reopens && !world.silences && sched_one_in(2);
}

/* choose_agents -- and who is the target, which may have to make calls */
static void choose_agents(void)
{
	static const enum waits targets[] = {WAITS_ASIDE, WAITS_ASIDE, WAITS_POLLING, WAITS_SREAD,
					     WAITS_DESCRIPTOR};
	/* Whoever never sleeps takes too many steps while nothing happens for seconds. */
	uint64_t mode = world.silences || world.naps ? 2 : sched_dice(16);

	world.target.waits = world.naps ? WAITS_SREAD : targets[sched_dice(5)];
	pmv_setting.agent = PMV_AGENT_THREAD;
	if (mode == 0)
		pmv_setting.agent = PMV_AGENT_BUSY;
	if (mode == 1) {
		pmv_setting.agent = PMV_AGENT_PROGRESS;
		world.target.waits = WAITS_SREAD;
		/* A call that syncs holds up everybody. */
		world.most_sync_ns = 0;
	}
	pmv_setting.commit_all = sched_one_in(4);
	/* There the agent's thread sleeps beside whoever comes back to the descriptor. */
	world.elsewhere = world.target.waits == WAITS_DESCRIPTOR && mode > 1 && !core_rules.nic &&
			  !world.silences && sched_one_in(2);
	world.sends &= !world.elsewhere;
	choose_notices(mode != 1);
	world.target.depth = WORLD_DEPTH;
	if (mode != 0)
		return;
	/* They have the processor most of the time, and take many steps while a disk syncs. */
	world.bound_ns *= 3;
	if (world.most_sync_ns > 100000)
		world.most_sync_ns = 100000;
}

/* So many messages, one behind the other, are on their way in the time of an operation. */
#define MOST_IN_TURN 12
/* Of an operation, at most; and of one that the target is told of. */
#define MESSAGES 2
#define MESSAGES_OF_EVENT 3

static void choose_initiator(struct party *party, unsigned int number)
{
	/* Whoever sleeps in earnest comes twice. */
	static const enum waits ways[] = {WAITS_POLLING,  WAITS_SREAD,      WAITS_SREAD,
					  WAITS_SREAD_MS, WAITS_DESCRIPTOR, WAITS_DESCRIPTOR,
					  WAITS_COUNTER};
	unsigned int most_in_turn = MOST_IN_TURN / (world.events ? MESSAGES_OF_EVENT : MESSAGES);

	snprintf(party->process.name, sizeof(party->process.name), "home%u", number);
	party->waits = ways[sched_dice(sizeof(ways) / sizeof(ways[0]))];
	/* Others may take the last receive that its message has waited for: it hears nothing. */
	party->reaps = (party->waits == WAITS_SREAD || party->waits == WAITS_DESCRIPTOR) &&
		       (sched_one_in(2) || (world.shares && world.shared == RECEIVES_NEVER));
	party->watches = sched_one_in(2);
	party->depth = (unsigned int[]){1, 3, WORLD_DEPTH}[sched_dice(3)];
	/* Where one message is on its way at a time, each may cost both ends their processor. */
	if (core_rules.socket == 1 && party->depth > most_in_turn)
		party->depth = most_in_turn;
	party->most_pause_ns = (int64_t[]){0, 100000, 5000000, 400000000}[sched_dice(4)];
	/* Whoever never sleeps takes many steps; tcp 1.17 lets nobody sleep who lacks a receive. */
	if ((!sleeps() || (world.sends && !core_rules.nic && !core_rules.moves_all)) &&
	    party->most_pause_ns > 1000000)
		party->most_pause_ns = 1000000;
	party->uses_page = world.most_sync_ns && sched_one_in(2);
	/* Whoever polls while a disk hangs takes many steps. */
	if (party->uses_page && world.hangs && party->waits == WAITS_POLLING)
		party->waits = WAITS_SREAD_MS;
}

/* choose_naps -- only in tcp 1.17 a descriptor is ready for as long as a receive is missing */
static void choose_naps(void)
{
	world.naps = !world.silences && sched_one_in(12);
	if (!world.naps)
		return;
	core_rules.nic = core_rules.moves_all = false;
	world.sends = true;
	world.plain = sched_one_in(2);
	/* Each message may take a nap. */
	if (core_rules.socket == 1)
		core_rules.socket = 4;
}

static void choose_floods(void)
{
	world.floods = sleeps() && !pmv_setting.commit_all && !world.elsewhere && !world.events &&
		       !world.naps && sched_one_in(12);
	if (!world.floods)
		return;
	/* So many messages take long, and longer if each has to wait for room. */
	core_rules.room = core_rules.socket = 64;
	core_rules.busy_in = 0;
	world.bound_ns *= 3;
	sched_keep_processor();
}

void world_choose(void)
{
	choose_rules();
	/* Less than the shortest sleep on descriptors; a hint that is lost is repeated thrice. */
	world.bound_ns =
		core_rules.nic && core_rules.loses_in ? INT64_C(25000000) : INT64_C(9000000);
	world.num_initiators = 1 + (unsigned int) sched_dice(WORLD_INITIATORS);
	world.most_sync_ns = (int64_t[]){0, 0, 100000, 30000000}[sched_dice(4)];
	world.stops = sched_one_in(4);
	world.cuts = sched_one_in(4);
	snprintf(world.target.process.name, sizeof(world.target.process.name), "target");
	world.target.watches = sched_one_in(2);
	silences_choose();
	world.reopens = sched_one_in(4);
	world.sends =
		sched_one_in(2) && !(world.silences && !core_rules.nic && !core_rules.moves_all);
	world.fences = !sched_one_in(4);
	choose_naps();
	choose_agents();
	world.shares = world.sends && !world.naps && !pmv_setting.commit_all && sched_one_in(3);
	/* When an endpoint ends, hundreds of receives are cancelled, one by one. */
	if (world.sends && !world.shares && world.target.waits == WAITS_ASIDE &&
	    (world.reopens || world.cuts))
		sched_keep_processor();
	/* Only in tcp 2.1 whoever posts one moves data. */
	world.posts = world.sends && !world.shares && core_rules.moves_all && !core_rules.nic &&
		      sched_one_in(2);
	world.shared = (enum receives) sched_dice(RECEIVES_KINDS);
	world.chains =
		!pmv_setting.commit_all && !world.elsewhere && !world.plain && sched_one_in(3);
	world.hangs = world.most_sync_ns && sleeps() && !world.silences && sched_one_in(4);
	silences_restrict(&world.target);
	world.called = sleeps() && !world.silences && sched_one_in(8);
	world.target.watches |= world.called;
	for (unsigned int i = 0; i < world.num_initiators; i++) {
		choose_initiator(&world.initiators[i], i);
		silences_restrict(&world.initiators[i]);
		sleepers_choose(&world.initiators[i]);
	}
	sleepers_choose(&world.target);
	choose_floods();
}

void world_describe(void)
{
	static const char *const agents[] = {
		[PMV_AGENT_THREAD] = "threads",
		[PMV_AGENT_BUSY] = "threads that never sleep",
		[PMV_AGENT_PROGRESS] = "in calls",
	};

	printf("a core like %s; room for %u requests, %u messages on their way; %u "
	       "initiators%s%s\n",
	       core_rules.nic         ? "verbs"
	       : core_rules.moves_all ? "tcp 2.1"
				      : "tcp 1.17",
	       core_rules.room, core_rules.socket, world.num_initiators,
	       world.stops ? "; processes are stopped" : "",
	       world.cuts ? "; a connection ends" : "");
	silences_describe();
	if (world.called)
		puts("peers that know nothing of the provider come and go");
	if (world.reopens)
		puts("connections are closed, and others opened");
	if (world.chains)
		puts("others are chains");
	if (world.sends)
		puts(world.shares  ? "some operations are messages, to a shared context"
		     : world.posts ? "some operations are messages; receives come at any time"
				   : "some operations are messages");
	printf("the target: %s%s; syncs of up to %.3f ms\n", names[world.target.waits],
	       world.elsewhere ? "; is elsewhere behind fi_trywait"
	       : world.unread  ? "; reads no notices"
	       : world.events  ? "; is told of all writes"
	       : world.answers ? "; answers notices"
	       : world.notices ? "; notices"
			       : "",
	       (double) world.most_sync_ns / 1e6);
	sleepers_describe(&world.target);
	if (world.floods)
		puts("some commits have more messages than fit into a mailbox");
	if (world.naps)
		puts(world.plain ? "messages without a receive stay; nobody needs the agent"
				 : "messages without a receive stay");
	if (world.hangs)
		puts("one sync takes half a second");
	printf("agents: %s%s\n", agents[pmv_setting.agent],
	       pmv_setting.commit_all ? "; all writes are commits" : "");
	for (unsigned int i = 0; i < world.num_initiators; i++) {
		const struct party *party = &world.initiators[i];

		printf("%s: %s; up to %u operations, pauses of up to %.3f ms%s\n",
		       party->process.name, names[party->waits], party->depth,
		       (double) party->most_pause_ns / 1e6, party->uses_page ? "; pages" : "");
		if (party->reaps)
			puts("  a thread of its own reads the queue");
		sleepers_describe(party);
	}
}

/* Accidents */

static struct party *any_party(void)
{
	uint64_t which = sched_dice(world.num_initiators + 1);

	return which ? &world.initiators[which - 1] : &world.target;
}

static void for_all(void (*call)(struct party *party));

static int64_t stopped_until_ns;

static void stop_party(struct party *party)
{
	party->process.stopped_until_ns = stopped_until_ns;
}

void world_stop(struct party *party, int64_t ns)
{
	sched_trace("%s is stopped for %d us", party ? party->process.name : "each process",
		    (int) (ns / 1000));
	world.stops_since_ns = sched_now_ns;
	stopped_until_ns = sched_now_ns + ns;
	if (party)
		stop_party(party);
	else
		for_all(stop_party);
	sched_sleep(ns);
	world.stopped_ns = world_stopped_ns();
	world.stops_since_ns = 0;
}

void world_cut_one(struct party *party)
{
	struct conn *conn = &party->conns[sched_dice(party->num_conns)];

	if (!conn->open)
		return;
	sched_trace("a connection of %s is cut", party->process.name);
	conn->cut = conn->other->cut = true;
	core_cut(pmv_to_ep(conn->ep)->engine.fid, sched_one_in(2));
}

static bool accidents_end;

static void *have_accidents(void *arg)
{
	bool cut = !world.cuts;

	while (!accidents_end) {
		sched_sleep(sched_between(100000, 20000000));
		if (!cut && sched_one_in(3)) {
			world_cut_one(&world.initiators[sched_dice(world.num_initiators)]);
			cut = true;
		}
		if (world.stops)
			world_stop(any_party(),
				   sched_between(100000, sleeps() ? 50000000 : 5000000));
		if (world.silences && sched_one_in(2))
			silences_happen(any_party());
		if (cut && !world.stops && !world.silences)
			break;
	}
	return arg;
}

/* Living */

static void for_all(void (*call)(struct party *party))
{
	call(&world.target);
	for (unsigned int i = 0; i < world.num_initiators; i++)
		call(&world.initiators[i]);
}

/* work -- renews: connections that were given up, too */
static void work(bool renews)
{
	struct sched_task *bursts[WORLD_INITIATORS], *accidents, *callers = NULL;

	accidents_end = false;
	accidents = sched_spawn(sched_process(), "accidents", have_accidents, NULL);
	if (world.called)
		callers = sched_spawn(sched_process(), "callers", callers_come, NULL);
	for (unsigned int i = 0; i < world.num_initiators; i++)
		bursts[i] = sched_spawn(&world.initiators[i].process, "burst", apps_burst,
					&world.initiators[i]);
	for (unsigned int i = 0; i < world.num_initiators; i++)
		sched_join(bursts[i]);
	accidents_end = true;
	sched_join(accidents);
	if (callers)
		sched_join(callers);
	callers_await_end();
	if (renews)
		conns_renew();
}

/* start, stop -- the initiators' threads that sleep: those that reap live as long as the world */
static void start(bool reap)
{
	for (unsigned int i = 0; i < world.num_initiators; i++) {
		if (world.initiators[i].reaps == reap)
			sleepers_start(&world.initiators[i]);
	}
}

static void stop(bool reap)
{
	for (unsigned int i = 0; i < world.num_initiators; i++) {
		if (world.initiators[i].reaps == reap)
			sleepers_stop(&world.initiators[i]);
	}
}

static void remember(struct party *party)
{
	party->wakes_before = party->process.wakes;
	party->worked_before_ns = party->process.worked_ns;
}

static bool lacks_receive(const struct party *party)
{
	for (unsigned int i = 0; i < party->num_conns; i++) {
		if (messages_lack(&party->conns[i]))
			return true;
	}
	return false;
}

static void check_idle(struct party *party)
{
	uint64_t wakes = party->process.wakes - party->wakes_before;
	int64_t worked = party->process.worked_ns - party->worked_before_ns;

	/* Whoever has lost the last hint of a peer without an agent's thread looks at intervals. */
	if (core_rules.nic && core_rules.loses_in)
		return;
	/* A descriptor that is always ready is looked at after naps. */
	if (world.naps && lacks_receive(&world.target)) {
		if (worked > IDLE_NS / NAPS_PART / 10)
			sched_fail("%s lacks a receive, and has computed for %d us",
				   party->process.name, (int) (worked / 1000));
		return;
	}
	if (wakes >= 10 * IDLE_NS / 1000000000)
		sched_fail("%s is idle, and has woken %d times", party->process.name, (int) wakes);
	if (worked > IDLE_NS / 100)
		sched_fail("%s is idle, and has computed for %d us", party->process.name,
			   (int) (worked / 1000));
}

static void idle(void)
{
	bool naps = world.naps && lacks_receive(&world.target);

	if (!sleeps()) {
		sched_sleep(10000000);
		return;
	}
	start(false);
	world.idles = true;
	if (world.silences && sched_one_in(2)) {
		silences_happen(any_party());
		conns_renew();
	}
	sched_sleep(naps ? SETTLE_NS / 3 : SETTLE_NS);
	sched_trace("from here on it is idle");
	for_all(remember);
	sched_sleep(naps ? IDLE_NS / NAPS_PART : IDLE_NS);
	for_all(check_idle);
	world.idles = false;
	stop(false);
}

void *world_live(void *arg)
{
	static struct sched_clockwork bounds = {
		.next_ns = world_deadline_ns, .advance = world_check, .every_ns = SCHED_RARELY_NS};

	world_open();
	sched_add(&bounds);
	sleepers_start(&world.target);
	/* Before anybody else has the target's agent look. */
	if (world.called && sched_one_in(2)) {
		callers_come(NULL);
		callers_await_end();
	}
	world_connect();
	start(true);
	for_all(sleepers_start_rx);
	work(!world.naps);
	idle();
	work(true);
	sleepers_stop(&world.target);
	apps_count_unread();
	stop(true);
	for_all(sleepers_stop_rx);
	world_close();
	return arg;
}
