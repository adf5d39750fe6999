/* SPDX-License-Identifier: BSD-2-Clause */
/* rdm_world.c -- what a seed makes of a world of FI_EP_RDM, and how it goes on there */
#include "rdm_world.h"

#include <stdio.h>
#include <string.h>

#include "base/setting.h"
#include "base/silence.h"
#include "rxm.h"

#define SETTLE_NS (3 * RDM_SECOND_NS / 2)
#define IDLE_S 2

static void choose_rules(void)
{
	core_rules = (struct core_rules){
		.moves_all = sched_one_in(2),
		.room = (unsigned int[]){2, 8, 64}[sched_dice(3)],
		.socket = (unsigned int[]){1, 4, 64}[sched_dice(3)],
		.busy_in = (unsigned int[]){0, 0, 10, 3}[sched_dice(4)],
		.least_delay_ns = 500,
		.most_delay_ns = (int64_t[]){2000, 20000, 100000}[sched_dice(3)],
		.sockets = true,
	};
	if (core_rules.socket == 1)
		core_rules.most_delay_ns = 2000;
}

void rdm_choose(void)
{
	rxm_start(rdm_core_of);
	sched_most_steps = 40000000;
	choose_rules();
	rdm_world.bound_ns = INT64_C(9000000);
	rdm_world.num_places = 2 + (int) sched_dice(WORLD_INITIATORS);
	rdm_world.timeout_s = 1 << sched_dice(3);
	rdm_world.fences = sched_one_in(2);
	rdm_world.atomics = sched_one_in(2);
	rdm_world.threads = sched_one_in(2);
	/* Else a peer that makes no call takes nothing. */
	rdm_world.answers = rdm_world.threads && sched_one_in(2);
	rdm_world.cuts = sched_one_in(3);
	rdm_world.kills = sched_one_in(3);
	rdm_world.silences = sched_one_in(4);
	rdm_world.stops = sched_one_in(4);
	/* Whoever waits for room looks without pause: for seconds, until a peer is given up. */
	if (rdm_world.silences || (rdm_world.threads && rdm_world.stops))
		core_rules.room = 64;
	pmv_setting.timeout = rdm_world.timeout_s;
	pmv_setting.commit_all = sched_one_in(4);
}

void rdm_describe(void)
{
	printf("a core like %s; room for %u requests, %u messages on their way; %d initiators\n",
	       core_rules.moves_all ? "tcp 2.1" : "tcp 1.17", core_rules.room, core_rules.socket,
	       rdm_world.num_places - 1);
	printf("peers are given up after %d s%s%s%s%s\n", rdm_world.timeout_s,
	       rdm_world.cuts ? "; connections end" : "",
	       rdm_world.kills ? "; processes are killed" : "",
	       rdm_world.silences ? "; machines are cut off" : "",
	       rdm_world.stops ? "; processes are stopped" : "");
	printf("FI_EP_RDM%s%s%s%s%s\n", rdm_world.fences ? "; FI_FENCE" : "",
	       rdm_world.threads ? "; RxM has threads" : "", rdm_world.atomics ? "; FI_ATOMIC" : "",
	       rdm_world.answers ? "; the target writes, too" : "",
	       pmv_setting.commit_all ? "; all writes are commits" : "");
}

/* start_watch -- the thread that looks for silent peers is one for all processes: nobody's */
static void start_watch(void)
{
	static struct pmv_silence nobody;
	static const union pmv_silence_addr none;

	pmv_silence_watch(&nobody, &none, &none, false);
	pmv_silence_forget(&nobody);
}

/* Working */

static int first_worker(void)
{
	return rdm_world.answers ? RDM_TARGET : 1;
}

static bool all_are_done(void *arg)
{
	(void) arg;
	for (int i = first_worker(); i < rdm_world.num_places; i++) {
		if (rdm_world.at[i]->killed || !rdm_world.at[i]->done)
			return false;
	}
	return true;
}

static void await_workers(void)
{
	sched_block("waits for all to be done", all_are_done, NULL, SCHED_NEVER);
}

static void work(void)
{
	struct sched_task *accidents;

	rdm_world.accidents_end = false;
	for (int i = first_worker(); i < rdm_world.num_places; i++)
		rdm_start_burst(rdm_world.at[i]);
	accidents = sched_spawn(sched_process(), "accidents", rdm_have_accidents, NULL);
	await_workers();
	rdm_world.accidents_end = true;
	sched_join(accidents);
	await_workers();
	for (int i = first_worker(); i < rdm_world.num_places; i++) {
		sched_join(rdm_world.at[i]->burst);
		rdm_world.at[i]->burst = NULL;
	}
}

/* Being idle */

static void check_idle(const struct rdm_party *party)
{
	uint64_t wakes = party->process.wakes - party->wakes_before;
	int64_t worked = party->process.worked_ns - party->worked_before_ns;

	if (wakes >= 10 * IDLE_S)
		sched_fail("%s is idle, and has woken %d times in %d s", party->process.name,
			   (int) wakes, IDLE_S);
	if (worked > IDLE_S * INT64_C(10000000))
		sched_fail("%s is idle, and has computed for %d us in %d s", party->process.name,
			   (int) (worked / 1000), IDLE_S);
}

static void idle(void)
{
	for (int i = 1; i < rdm_world.num_places; i++)
		rdm_start_sleep(rdm_world.at[i]);
	rdm_world.idles = true;
	sched_sleep(SETTLE_NS);
	sched_trace("from here on it is idle");
	for (int i = 0; i < rdm_world.num_places; i++) {
		rdm_world.at[i]->wakes_before = rdm_world.at[i]->process.wakes;
		rdm_world.at[i]->worked_before_ns = rdm_world.at[i]->process.worked_ns;
	}
	sched_sleep(IDLE_S * RDM_SECOND_NS);
	for (int i = 0; i < rdm_world.num_places; i++)
		check_idle(rdm_world.at[i]);
	rdm_world.idles = false;
	for (int i = 1; i < rdm_world.num_places; i++)
		rdm_stop_sleep(rdm_world.at[i]);
}

static void close_all(void)
{
	bool target_first = sched_one_in(2);

	rdm_check_calls();
	rdm_stop_sleep(rdm_world.at[RDM_TARGET]);
	if (target_first)
		rdm_close(rdm_world.at[RDM_TARGET]);
	for (int i = 1; i < rdm_world.num_places; i++)
		rdm_close(rdm_world.at[i]);
	if (!target_first)
		rdm_close(rdm_world.at[RDM_TARGET]);
	if (descriptors_open())
		sched_fail("%u descriptors were not closed", descriptors_open());
}

void *rdm_live(void *arg)
{
	static struct sched_clockwork bounds = {
		.next_ns = rdm_deadline_ns, .advance = rdm_check, .every_ns = SCHED_RARELY_NS};

	world_prepare();
	core_cm_start();
	start_watch();
	sched_add(&bounds);
	for (int i = 0; i < rdm_world.num_places; i++)
		rdm_open(i);
	rdm_start_sleep(rdm_world.at[RDM_TARGET]);
	work();
	idle();
	work();
	close_all();
	return arg;
}
