/* SPDX-License-Identifier: BSD-2-Clause */
/* test_idle_plan.c -- when the agent's thread looks, naps and sleeps: a table of what it answers */
#include "agent/idle_plan.h"

#include <criterion/criterion.h>

#define US INT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)
#define NOW (100 * SECOND)

/* The state before the question. */
struct before {
	bool busy, asked, calls_look, naps;
	int64_t sleep_ns, event_ns; /* 0: the shortest */
	unsigned int patience, calls;
	int64_t nap_ns, listen_ns, search_ns, ignore_ns; /* after NOW */
};

struct row {
	const char *name;
	struct before before;
	struct pmv_idle_facts facts; /* until_ns: after NOW */
	enum pmv_idle_action action;
	int64_t ns;
};

#define LATER .listen_ns = SECOND, .search_ns = SECOND
#define LIKELY .until_ns = MS
#define READY .descriptors = PMV_DESCRIPTORS_READY
#define IN_CALLS .prepared = true, .in_calls = true
#define UNKNOWN .prepared = true, .descriptors = PMV_DESCRIPTORS_UNKNOWN

static const struct row rows[] = {
	/* What is done now and then comes first. */
	{"hints are read", {.search_ns = SECOND}, {0}, PMV_IDLE_LISTEN, 0},
	{"also after a busy round", {.busy = true, .search_ns = SECOND}, {0}, PMV_IDLE_LISTEN, 0},
	{"a thread that never sleeps reads none",
	 {.search_ns = SECOND},
	 {.never_sleeps = true},
	 PMV_IDLE_LOOK,
	 0},
	{"not while they are ignored",
	 {.search_ns = SECOND, .ignore_ns = 1},
	 {0},
	 PMV_IDLE_PREPARE,
	 0},
	{"not while all mailboxes are looked into anyway",
	 {.calls_look = true, .search_ns = SECOND},
	 {LIKELY, .all_active = true},
	 PMV_IDLE_LOOK,
	 0},
	{"but before it may sleep",
	 {.search_ns = SECOND},
	 {.all_active = true},
	 PMV_IDLE_LISTEN,
	 0},
	{"and now and then, as peers ask for hints",
	 {.calls_look = true},
	 {LIKELY, .all_active = true},
	 PMV_IDLE_LISTEN,
	 0},
	{"which ends",
	 {.calls_look = true, .listen_ns = 1},
	 {LIKELY, .all_active = true},
	 PMV_IDLE_SEARCH,
	 0},
	{"all mailboxes are searched", {.listen_ns = 1}, {0}, PMV_IDLE_SEARCH, 0},
	{"also by one that never sleeps", {0}, {.never_sleeps = true}, PMV_IDLE_SEARCH, 0},

	/* Awake. */
	{"after a busy round it looks again", {.busy = true, LATER}, {0}, PMV_IDLE_LOOK, 0},
	{"it looks while requests are likely",
	 {.calls_look = true, LATER},
	 {LIKELY},
	 PMV_IDLE_LOOK,
	 0},
	{"it never sleeps", {LATER}, {.never_sleeps = true}, PMV_IDLE_LOOK, 0},
	{"no request is likely", {LATER}, {0}, PMV_IDLE_PREPARE, 0},
	{"over a core that is called it looks while they are likely",
	 {LATER},
	 {.in_calls = true, LIKELY, .calls = 1000},
	 PMV_IDLE_LOOK,
	 0},
	{"also where calls could look for them",
	 {.calls_look = true, .naps = true, LATER},
	 {IN_CALLS, LIKELY},
	 PMV_IDLE_LOOK,
	 0},
	{"but the calls that move the data do",
	 {.calls_look = true, .naps = true, LATER},
	 {IN_CALLS, LIKELY, .polled = 1},
	 PMV_IDLE_REST,
	 20 * US},
	{"and then prepares a sleep", {LATER}, {.in_calls = true}, PMV_IDLE_PREPARE, 0},
	{"the application's calls look in its place",
	 {.calls_look = true, LATER},
	 {LIKELY, .calls = 1000000000},
	 PMV_IDLE_PREPARE,
	 0},
	{"not into too many mailboxes",
	 {.calls_look = true, LATER},
	 {LIKELY, .calls = 1000000000, .unhinted = 65},
	 PMV_IDLE_LOOK,
	 0},

	/* What was found when the sleep was prepared. */
	{"there is a request", {LATER}, {UNKNOWN, .waits = true}, PMV_IDLE_LOOK, 0},
	{"a call has served one meanwhile", {LATER}, {UNKNOWN, LIKELY}, PMV_IDLE_LOOK, 0},
	{"which a nap is for",
	 {.naps = true, .nap_ns = 100 * US, LATER},
	 {UNKNOWN, LIKELY},
	 PMV_IDLE_SLEEP_SOCKET,
	 100 * US},

	/* On its socket. */
	{"256 connections whose hints arrive", {LATER}, {UNKNOWN}, PMV_IDLE_SLEEP_SOCKET, 320 * MS},
	{"however short the last sleep was",
	 {.asked = true, .sleep_ns = 40 * US, LATER},
	 {UNKNOWN, .needed = true},
	 PMV_IDLE_SLEEP_SOCKET,
	 320 * MS},
	{"a request is behind its hint",
	 {.sleep_ns = SECOND, LATER},
	 {UNKNOWN, .expecting = true},
	 PMV_IDLE_SLEEP_SOCKET,
	 700 * US},
	{"something goes on in the next rounds",
	 {.sleep_ns = SECOND, LATER},
	 {UNKNOWN, .unfinished = true},
	 PMV_IDLE_SLEEP_SOCKET,
	 700 * US},
	{"hints are ignored",
	 {.sleep_ns = SECOND, LATER, .ignore_ns = 1},
	 {UNKNOWN},
	 PMV_IDLE_SLEEP_KICK,
	 700 * US},

	/* For intervals. */
	{"hints do not arrive, and memory needs the agent",
	 {.sleep_ns = SECOND, LATER},
	 {UNKNOWN, .unhinted = 1, .needed = true},
	 PMV_IDLE_SLEEP_SOCKET,
	 700 * US},
	{"somebody has asked for something",
	 {.asked = true, .sleep_ns = SECOND, LATER},
	 {UNKNOWN, .unhinted = 1},
	 PMV_IDLE_SLEEP_SOCKET,
	 700 * US},
	{"nobody has, and nothing needs it",
	 {.sleep_ns = SECOND, LATER},
	 {UNKNOWN, .unhinted = 1},
	 PMV_IDLE_SLEEP_SOCKET,
	 20 * MS},
	{"the first is short",
	 {.asked = true, LATER},
	 {UNKNOWN, .unhinted = 1},
	 PMV_IDLE_SLEEP_SOCKET,
	 20 * US},
	{"somebody waits for an acknowledgement",
	 {.sleep_ns = SECOND, LATER},
	 {UNKNOWN, .watching = true},
	 PMV_IDLE_SLEEP_SOCKET,
	 20 * US},
	{"whom a nap must not keep waiting",
	 {.naps = true, .nap_ns = 500 * US, .sleep_ns = 40 * US, LATER},
	 {UNKNOWN, .watching = true},
	 PMV_IDLE_SLEEP_SOCKET,
	 20 * US},
	{"over a core that is called, too",
	 {.sleep_ns = SECOND, LATER},
	 {UNKNOWN, .in_calls = true},
	 PMV_IDLE_SLEEP_SOCKET,
	 700 * US},

	/* Beside who polls, where the core moves data in calls only. */
	{"a queue is polled", {LATER}, {IN_CALLS, .polled = 1}, PMV_IDLE_REST, 20 * US},
	{"for some time",
	 {.sleep_ns = 640 * US, LATER},
	 {IN_CALLS, .polled = 1},
	 PMV_IDLE_REST,
	 640 * US},
	{"for a long time",
	 {.sleep_ns = SECOND, LATER},
	 {IN_CALLS, .polled = 1},
	 PMV_IDLE_FOLLOW,
	 200 * MS},
	{"as are others",
	 {.sleep_ns = SECOND, LATER},
	 {IN_CALLS, .polled = 2},
	 PMV_IDLE_REST,
	 700 * US},
	{"whose reader is no reason to keep others waiting",
	 {.sleep_ns = SECOND, LATER},
	 {IN_CALLS, .polled = 1, .unfinished = true},
	 PMV_IDLE_REST,
	 700 * US},
	{"a request has come", {LATER}, {IN_CALLS, .polled = 1, .waits = true}, PMV_IDLE_LOOK, 0},
	{"another queue has something", {LATER}, {IN_CALLS, .polled = 1, READY}, PMV_IDLE_LOOK, 0},
	{"for ever",
	 {.patience = 8, .calls = 7, .sleep_ns = SECOND, LATER},
	 {IN_CALLS, .polled = 1, READY},
	 PMV_IDLE_REST,
	 700 * US},

	/* Beside who sleeps in a call. */
	{"a queue is slept on",
	 {LATER},
	 {IN_CALLS, .slept_on = true},
	 PMV_IDLE_SLEEP_BESIDE,
	 10 * MS},
	{"for a long time",
	 {.event_ns = 160 * MS, LATER},
	 {IN_CALLS, .slept_on = true},
	 PMV_IDLE_SLEEP_BESIDE,
	 160 * MS},
	{"another queue has something",
	 {LATER},
	 {IN_CALLS, .slept_on = true, READY},
	 PMV_IDLE_LOOK,
	 0},
	{"a request has come",
	 {LATER},
	 {IN_CALLS, .slept_on = true, .waits = true},
	 PMV_IDLE_LOOK,
	 0},

	/* On descriptors. */
	{"none is ready",
	 {LATER},
	 {.prepared = true, .in_calls = true},
	 PMV_IDLE_SLEEP_DESCRIPTORS,
	 10 * MS},
	{"for a long time",
	 {.event_ns = 160 * MS, LATER},
	 {.prepared = true, .in_calls = true},
	 PMV_IDLE_SLEEP_DESCRIPTORS,
	 160 * MS},
	{"one is ready: the core is called again",
	 {.patience = 2048, .calls = 2046, LATER},
	 {.prepared = true, .in_calls = true, READY},
	 PMV_IDLE_LOOK,
	 0},
	{"calls have changed nothing",
	 {.patience = 2048, .calls = 2047, .event_ns = 160 * MS, LATER},
	 {.prepared = true, .in_calls = true, READY},
	 PMV_IDLE_SLEEP_DESCRIPTORS,
	 2 * MS},
};

static struct pmv_idle_plan plan_before(const struct before *before)
{
	struct pmv_idle_plan plan;

	pmv_idle_plan_init(&plan);
	plan.busy = before->busy;
	plan.asked = before->asked;
	plan.calls_look = before->calls_look;
	plan.naps = before->naps;
	plan.nap_ns = before->nap_ns;
	if (before->sleep_ns)
		plan.sleep_ns = before->sleep_ns;
	if (before->event_ns)
		plan.event_ns = before->event_ns;
	if (before->patience)
		plan.patience = before->patience;
	plan.calls = before->calls;
	plan.listen_ns = NOW + before->listen_ns;
	plan.search_ns = NOW + before->search_ns;
	plan.ignore_hints_until_ns = NOW + before->ignore_ns;
	return plan;
}

Test(idle_plan, table)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct pmv_idle_plan plan = plan_before(&row->before);
		struct pmv_idle_facts facts = row->facts;
		int64_t ns = 0;

		facts.until_ns += NOW;
		cr_expect_eq(pmv_idle_plan_next(&plan, &facts, NOW, &ns), row->action, "%s",
			     row->name);
		cr_expect_eq(ns, row->ns, "%s: %lld ns", row->name, (long long) ns);
	}
}

/* sleep_once -- the next sleep, which ends in this way; returns how long it was to be */
static int64_t sleep_once(struct pmv_idle_plan *plan, const struct pmv_idle_facts *facts,
			  enum pmv_idle_event end)
{
	int64_t ns = 0;

	cr_assert_geq(pmv_idle_plan_next(plan, facts, NOW, &ns), PMV_IDLE_REST);
	pmv_idle_plan_tell(plan, end, NOW);
	return ns;
}

Test(idle_plan, intervals_grow_and_begin_again_after_a_request)
{
	const struct pmv_idle_facts facts = {UNKNOWN, .unhinted = 1, .needed = true};
	struct pmv_idle_plan plan;

	pmv_idle_plan_init(&plan);
	for (int64_t ns = 20 * US; ns < 700 * US; ns *= 2)
		cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), ns);
	cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), 700 * US);
	pmv_idle_plan_tell(&plan, PMV_IDLE_BUSY, NOW);
	cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_WOKEN), 20 * US);
}

Test(idle_plan, sleeps_on_descriptors_grow_until_one_is_ready)
{
	for (int slept_on = 0; slept_on < 2; slept_on++) {
		const struct pmv_idle_facts facts = {IN_CALLS, .slept_on = slept_on};
		struct pmv_idle_plan plan;

		pmv_idle_plan_init(&plan);
		for (int64_t ns = 10 * MS; ns < 200 * MS; ns *= 2)
			cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), ns);
		cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), 200 * MS);
		cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_WOKEN), 200 * MS);
		cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), 10 * MS);
	}
}

/* Room for an acknowledgement comes with a call of another thread, which tells nobody. */
Test(idle_plan, sleeps_on_descriptors_begin_short_while_something_is_unfinished)
{
	const struct pmv_idle_facts facts = {
		.prepared = true, .in_calls = true, .unfinished = true};
	struct pmv_idle_plan plan;

	pmv_idle_plan_init(&plan);
	for (int64_t ns = PMV_IDLE_LEAST_UNFINISHED_NS; ns < 200 * MS; ns *= 2)
		cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), ns);
	cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), 200 * MS);
	pmv_idle_plan_tell(&plan, PMV_IDLE_BUSY, 0);
	cr_expect_eq(sleep_once(&plan, &facts, PMV_IDLE_SLEPT), PMV_IDLE_LEAST_UNFINISHED_NS);
}

/* looks_for -- how long it looks after traffic that has ended a sleep of so long */
static int64_t looks_for(struct pmv_idle_plan *plan, int64_t slept)
{
	const struct pmv_idle_facts facts = {.prepared = true, .in_calls = true};
	int64_t ns;

	cr_assert_eq(pmv_idle_plan_next(plan, &facts, NOW, &ns), PMV_IDLE_SLEEP_DESCRIPTORS);
	/* It ends as any other. */
	cr_expect_eq(ns, 10 * MS);
	pmv_idle_plan_tell(plan, PMV_IDLE_TRAFFIC, NOW + slept);
	return plan->traffic_until_ns - NOW - slept;
}

Test(idle_plan, looks_for_traffic_grow_while_sleeps_are_short)
{
	struct pmv_idle_plan plan;

	pmv_idle_plan_init(&plan);
	cr_expect_eq(looks_for(&plan, 5 * MS), 50 * US);
	cr_expect_eq(looks_for(&plan, 74 * US), 100 * US);
	cr_expect_eq(looks_for(&plan, 0), 200 * US);
	cr_expect_eq(looks_for(&plan, 0), 200 * US);
	cr_expect_eq(looks_for(&plan, 75 * US), 100 * US);
	cr_expect_eq(looks_for(&plan, SECOND), 50 * US);
	cr_expect_eq(looks_for(&plan, SECOND), 50 * US);
}

Test(idle_plan, patience_with_a_descriptor_that_stays_ready_falls)
{
	const struct pmv_idle_facts stuck = {.prepared = true, .in_calls = true, READY};
	const struct pmv_idle_facts quiet = {.prepared = true, .in_calls = true};
	struct pmv_idle_plan plan;
	int64_t ns;

	pmv_idle_plan_init(&plan);
	for (unsigned int patience = 2048; patience >= 8; patience /= 2) {
		for (unsigned int i = 1; i < patience; i++)
			cr_assert_eq(pmv_idle_plan_next(&plan, &stuck, NOW, &ns), PMV_IDLE_LOOK);
		cr_expect_eq(sleep_once(&plan, &stuck, PMV_IDLE_WOKEN), 2 * MS);
	}
	cr_expect_eq(plan.patience, 8);
	sleep_once(&plan, &quiet, PMV_IDLE_WOKEN);
	cr_expect_eq(plan.patience, 2048);
}

/* Its descriptor is not looked at meanwhile. */
Test(idle_plan, patience_is_renewed_by_a_queue_that_is_polled_for_more_than_a_moment)
{
	const struct pmv_idle_facts polled = {IN_CALLS, .polled = 1};
	struct pmv_idle_plan plan = plan_before(&(struct before){.patience = 8, LATER});

	for (int64_t ns = 20 * US; ns < 700 * US; ns *= 2) {
		cr_expect_eq(sleep_once(&plan, &polled, PMV_IDLE_SLEPT), ns);
		cr_expect_eq(plan.patience, 8);
	}
	sleep_once(&plan, &polled, PMV_IDLE_SLEPT);
	cr_expect_eq(plan.patience, 2048);
}

Test(idle_plan, forged_hints_are_ignored_and_then_all_is_searched)
{
	struct pmv_idle_facts facts = {0};
	struct pmv_idle_plan plan = plan_before(&(struct before){.search_ns = SECOND});
	int64_t ns;

	cr_expect_eq(pmv_idle_plan_next(&plan, &facts, NOW, &ns), PMV_IDLE_LISTEN);
	pmv_idle_plan_tell(&plan, PMV_IDLE_FORGED, NOW);
	cr_expect_eq(pmv_idle_plan_next(&plan, &facts, NOW, &ns), PMV_IDLE_PREPARE);
	facts = (struct pmv_idle_facts){UNKNOWN};
	cr_expect_eq(pmv_idle_plan_next(&plan, &facts, NOW, &ns), PMV_IDLE_SLEEP_KICK);
	pmv_idle_plan_tell(&plan, PMV_IDLE_SLEPT, NOW);
	facts = (struct pmv_idle_facts){0};
	cr_expect_eq(pmv_idle_plan_next(&plan, &facts, NOW, &ns), PMV_IDLE_SEARCH);
	cr_expect(plan.dropped, "so a request without a hint says nothing of its peer");
	cr_expect_eq(pmv_idle_plan_next(&plan, &facts, NOW + 700 * US, &ns), PMV_IDLE_LISTEN);
	cr_expect_not(plan.dropped, "what is found by the next search was not dropped here");
}

/* may_nap -- requests are likely, and the application has made so many calls until then */
static bool may_nap(struct pmv_idle_plan *plan, unsigned long calls, int64_t now)
{
	const struct pmv_idle_facts facts = {.until_ns = now + 1, .calls = calls};
	int64_t ns;

	return pmv_idle_plan_next(plan, &facts, now, &ns) == PMV_IDLE_PREPARE;
}

Test(idle_plan, calls_are_counted_before_a_nap)
{
	struct pmv_idle_plan plan = plan_before(&(struct before){LATER});
	const struct pmv_idle_facts over = {0};
	int64_t now = NOW, ns;
	unsigned long calls = 100;

	cr_expect_not(may_nap(&plan, 0, now));
	cr_expect(plan.calls_look);
	cr_expect_not(may_nap(&plan, calls, now + 1000), "so soon nothing can be said");
	cr_expect(may_nap(&plan, calls, now += 100 * US));
	cr_expect_eq(plan.nap_ns, 50 * US);
	/* The thread naps longer while the calls go on. */
	for (int64_t nap = 100 * US; nap < MS; nap *= 2) {
		cr_expect(may_nap(&plan, calls += 100, now += nap));
		cr_expect_eq(plan.nap_ns, nap);
	}
	cr_expect_not(may_nap(&plan, ++calls, now += MS), "too few");
	cr_expect(may_nap(&plan, calls += 100, now += 100 * US));
	cr_expect_eq(plan.nap_ns, 50 * US);
	/* No request is likely any more. */
	pmv_idle_plan_next(&plan, &over, now, &ns);
	cr_expect_not(plan.calls_look);
	cr_expect_not(may_nap(&plan, calls += 100, now += 100 * US), "no call was to look");
}

Test(idle_plan, rests_grow_and_begin_again_after_a_sleep)
{
	const struct pmv_idle_facts awake = {.in_calls = true}, quiet = {IN_CALLS};
	const struct pmv_idle_facts polled = {IN_CALLS, .polled = 1};
	struct pmv_idle_plan plan = plan_before(&(struct before){LATER});
	int64_t ns;

	for (int i = 0; i < 2; i++) {
		for (ns = 20 * US; ns < 700 * US; ns *= 2)
			cr_expect_eq(sleep_once(&plan, &polled, PMV_IDLE_SLEPT), ns);
		cr_expect(plan.calls_look);
		cr_expect_eq(sleep_once(&plan, &polled, PMV_IDLE_WOKEN), 200 * MS);
		cr_expect_eq(plan.last, PMV_IDLE_FOLLOW);
		plan.listen_ns = NOW + SECOND;
		/* The calls that were to look may have left something. */
		cr_expect_eq(pmv_idle_plan_next(&plan, &quiet, NOW, &ns), PMV_IDLE_LOOK);
		cr_expect_eq(pmv_idle_plan_next(&plan, &awake, NOW, &ns), PMV_IDLE_PREPARE);
		cr_expect_not(plan.calls_look);
		sleep_once(&plan, &quiet, PMV_IDLE_WOKEN);
		cr_expect_eq(plan.last, PMV_IDLE_SLEEP_DESCRIPTORS);
	}
}

Test(idle_plan, queue_is_polled_if_it_is_read_often_enough)
{
	for (int before = 0; before < 2; before++) {
		cr_expect_eq(pmv_idle_plan_is_polled(before, 1000, 50 * US - 1), before,
			     "so soon nothing can be said");
		cr_expect(pmv_idle_plan_is_polled(before, 1, 50 * US));
		cr_expect_not(pmv_idle_plan_is_polled(before, 0, 50 * US));
		cr_expect(pmv_idle_plan_is_polled(before, 20, MS));
		cr_expect_not(pmv_idle_plan_is_polled(before, 19, MS));
	}
}

/* One that is left unread would end all of them. */
Test(idle_plan, hint_that_has_ended_a_nap_is_read)
{
	const struct pmv_idle_facts nap = {UNKNOWN, LIKELY, .all_active = true};
	const struct pmv_idle_facts awake = {.until_ns = NOW + MS, .all_active = true};
	struct pmv_idle_plan plan = {.naps = true, .search_ns = NOW + SECOND};
	int64_t ns;

	cr_expect_eq(sleep_once(&plan, &nap, PMV_IDLE_WOKEN), plan.nap_ns);
	cr_expect_eq(pmv_idle_plan_next(&plan, &awake, NOW, &ns), PMV_IDLE_LISTEN);
	cr_expect_eq(pmv_idle_plan_next(&plan, &awake, NOW, &ns), PMV_IDLE_LOOK);
}

Test(idle_plan, window_is_bound_by_what_a_sleep_takes)
{
	cr_expect_eq(pmv_idle_plan_bound(10), 50 * US);
	cr_expect_eq(pmv_idle_plan_bound(20 * US), MS);
	cr_expect_eq(pmv_idle_plan_bound(MS), 5 * MS);
}

/* The thread may be away for long, and then read all of them at once. */
Test(idle_plan, request_is_expected_until_its_next_hint)
{
	struct pmv_expectation expect = {0};
	int64_t next = PMV_IDLE_HINT_AGAIN_NS;

	for (int i = 0; i < 7; i++) {
		cr_expect(pmv_idle_plan_hinted(&expect, false, NOW));
		cr_expect_gt(expect.expect_ns, NOW + next);
		next *= 2;
	}
}
