/* SPDX-License-Identifier: BSD-2-Clause */
/* idle_plan.c -- when the agent's thread sleeps; idle_plan.h has the rules and all constants */
#include "agent/idle_plan.h"

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t within(int64_t ns, int64_t low, int64_t high)
{
	return ns < low ? low : least(ns, high);
}

/* Requests of one connection */

int64_t pmv_idle_plan_bound(int64_t shortest_sleep_ns)
{
	return within(PMV_IDLE_WINDOW_SLEEPS * shortest_sleep_ns, PMV_IDLE_LEAST_WINDOW_NS,
		      PMV_IDLE_LONGEST_WINDOW_NS);
}

/*
 * adapt -- the window to the time between the last request and this one.  A peer counts on three
 * quarters of it (sender.c).
 */
static void adapt(struct pmv_expectation *expect, int64_t bound_ns, int64_t gap)
{
	if (gap <= expect->window_ns / 2)
		return;
	if (4 * gap <= 3 * bound_ns)
		expect->window_ns = least(2 * gap, bound_ns);
	else
		expect->window_ns /= 2;
	if (expect->window_ns < PMV_IDLE_LEAST_WINDOW_NS)
		expect->window_ns = PMV_IDLE_LEAST_WINDOW_NS;
}

void pmv_idle_plan_served(struct pmv_expectation *expect, int64_t bound_ns, int64_t now)
{
	adapt(expect, bound_ns, now - expect->served_ns);
	expect->served_ns = now;
	expect->expect_ns = expect->waits_ns = 0;
	expect->unanswered_hints = 0;
}

bool pmv_idle_plan_hinted(struct pmv_expectation *expect, bool asks, int64_t now)
{
	int64_t forgotten = (now - expect->hint_ns) / PMV_IDLE_FORGET_HINT_NS, next_ns, waited_ns;

	expect->unanswered_hints -= (unsigned int) least(forgotten, expect->unanswered_hints);
	if (expect->unanswered_hints == PMV_IDLE_MOST_UNANSWERED)
		return false;
	expect->unanswered_hints++;
	expect->hint_ns = now;
	if (asks)
		return true;
	if (!expect->waits_ns)
		expect->waits_ns = now;
	/* Until the next hint of it comes, at least, also if these were all read at once. */
	next_ns = (int64_t) PMV_IDLE_HINT_AGAIN_NS << least(expect->unanswered_hints, 8);
	waited_ns = now - expect->waits_ns;
	expect->expect_ns = now + within(next_ns > 2 * waited_ns ? next_ns : 2 * waited_ns,
					 PMV_IDLE_EXPECT_NS, PMV_IDLE_LONGEST_EXPECT_NS);
	return true;
}

bool pmv_idle_plan_asked(struct pmv_expectation *expect)
{
	return ++expect->asks >= PMV_IDLE_MOST_ASKS && !expect->served_ns;
}

bool pmv_idle_plan_is_polled(bool before, unsigned int reads, int64_t ns)
{
	if (ns < PMV_IDLE_FIRST_NAP_NS)
		return before;
	return reads >= ns / PMV_IDLE_MOST_BETWEEN_CALLS_NS;
}

/* What has happened */

void pmv_idle_plan_init(struct pmv_idle_plan *plan)
{
	*plan = (struct pmv_idle_plan){
		.traffic_ns = PMV_IDLE_LEAST_TRAFFIC_NS,
		.sleep_ns = PMV_IDLE_LEAST_SLEEP_NS,
		.event_ns = PMV_IDLE_LEAST_EVENT_NS,
		.unfinished_ns = PMV_IDLE_LEAST_UNFINISHED_NS,
		.patience = PMV_IDLE_MOST_PATIENCE,
	};
}

static void sleep_is_over(struct pmv_idle_plan *plan, bool woken)
{
	plan->listen_ns = 0; /* What has ended it may have been a hint. */
	if (plan->last == PMV_IDLE_REST || plan->last == PMV_IDLE_FOLLOW)
		plan->calls = 0;
	if (plan->last == PMV_IDLE_SLEEP_DESCRIPTORS || plan->last == PMV_IDLE_SLEEP_BESIDE) {
		plan->calls = 0;
		plan->sleep_ns = PMV_IDLE_LEAST_SLEEP_NS;
		plan->event_ns = woken ? PMV_IDLE_LEAST_EVENT_NS
				       : least(2 * plan->event_ns, PMV_IDLE_LONGEST_EVENT_NS);
	}
	if (plan->last == PMV_IDLE_SLEEP_KICK) {
		plan->dropped = true;
		plan->search_ns = 0;
	}
}

static void look_for_traffic(struct pmv_idle_plan *plan, int64_t now)
{
	bool soon = now - plan->slept_ns < PMV_IDLE_SHORT_NS;

	plan->traffic_ns = within(soon ? 2 * plan->traffic_ns : plan->traffic_ns / 2,
				  PMV_IDLE_LEAST_TRAFFIC_NS, PMV_IDLE_LONGEST_TRAFFIC_NS);
	plan->traffic_until_ns = now + plan->traffic_ns;
}

void pmv_idle_plan_tell(struct pmv_idle_plan *plan, enum pmv_idle_event event, int64_t now)
{
	switch (event) {
	case PMV_IDLE_BUSY:
		plan->busy = plan->asked = true;
		plan->sleep_ns = PMV_IDLE_LEAST_SLEEP_NS;
		plan->event_ns = PMV_IDLE_LEAST_EVENT_NS;
		plan->unfinished_ns = PMV_IDLE_LEAST_UNFINISHED_NS;
		plan->calls = 0;
		break;
	case PMV_IDLE_NOTHING:
		plan->busy = false;
		break;
	case PMV_IDLE_FORGED:
		plan->ignore_hints_until_ns = now + PMV_IDLE_LONGEST_SLEEP_NS;
		break;
	case PMV_IDLE_TRAFFIC:
		look_for_traffic(plan, now);
		sleep_is_over(plan, true);
		break;
	case PMV_IDLE_WOKEN:
	case PMV_IDLE_SLEPT:
		sleep_is_over(plan, event == PMV_IDLE_WOKEN);
		break;
	}
}

/* What is to be done */

/* may_nap -- requests are likely: may it sleep for nap_ns, since the application's calls look? */
static bool may_nap(struct pmv_idle_plan *plan, unsigned long calls, int64_t now)
{
	int64_t time = now - plan->checked_ns;
	bool starts = !plan->calls_look;

	if (!starts && time < PMV_IDLE_FIRST_NAP_NS)
		return false;
	plan->calls_look = true;
	if (starts ||
	    (int64_t) (calls - plan->checked_calls) < time / PMV_IDLE_MOST_BETWEEN_CALLS_NS)
		plan->nap_ns = 0;
	else if (!plan->nap_ns)
		plan->nap_ns = PMV_IDLE_FIRST_NAP_NS;
	else if (plan->nap_ns < PMV_IDLE_LONGEST_NAP_NS)
		plan->nap_ns *= 2;
	plan->checked_calls = calls;
	plan->checked_ns = now;
	return plan->nap_ns;
}

/* may_sleep -- none is likely, or the application's calls look for them */
static bool may_sleep(struct pmv_idle_plan *plan, const struct pmv_idle_facts *facts, int64_t now)
{
	bool likely = now < facts->until_ns;

	plan->naps = false;
	if ((likely || facts->expecting) && facts->unhinted <= PMV_IDLE_MOST_IN_CALL)
		plan->naps = may_nap(plan, facts->calls, now);
	else
		plan->calls_look = false;
	return !likely || plan->naps;
}

/* longest_sleep -- how long, if no descriptor of the core wakes it */
static int64_t longest_sleep(const struct pmv_idle_plan *plan, const struct pmv_idle_facts *facts,
			     int64_t now)
{
	/* Where the core is called, the application may stop calling it at any time. */
	if (facts->in_calls || facts->unfinished || facts->expecting ||
	    now < plan->ignore_hints_until_ns)
		return PMV_IDLE_LONGEST_SLEEP_NS;
	if (!facts->unhinted)
		return PMV_IDLE_LONGEST_HINTED_NS;
	return plan->asked || facts->needed ? PMV_IDLE_LONGEST_SLEEP_NS : PMV_IDLE_DOZE_NS;
}

static enum pmv_idle_action sleep_on_socket(struct pmv_idle_plan *plan,
					    const struct pmv_idle_facts *facts, int64_t now,
					    int64_t *ns)
{
	int64_t longest = longest_sleep(plan, facts, now);

	*ns = least(plan->sleep_ns, longest);
	if (facts->watching)
		*ns = PMV_IDLE_LEAST_SLEEP_NS;
	else if (plan->naps)
		*ns = plan->nap_ns;
	else if (longest == PMV_IDLE_LONGEST_HINTED_NS)
		*ns = longest;
	plan->sleep_ns =
		*ns == PMV_IDLE_LONGEST_HINTED_NS ? (int64_t) PMV_IDLE_LEAST_SLEEP_NS : 2 * *ns;
	return now < plan->ignore_hints_until_ns ? PMV_IDLE_SLEEP_KICK : PMV_IDLE_SLEEP_SOCKET;
}

/*
 * sleep_of_events -- whoever moves data for another thread makes room that no descriptor tells of.
 * A peer that never makes any costs less and less.
 */
static int64_t sleep_of_events(struct pmv_idle_plan *plan, const struct pmv_idle_facts *facts)
{
	int64_t ns = plan->unfinished_ns;

	if (!facts->unfinished || ns >= plan->event_ns)
		return plan->event_ns;
	plan->unfinished_ns = 2 * ns;
	return ns;
}

/* rest -- the application's calls move the data, and may stop at any time */
static enum pmv_idle_action rest(struct pmv_idle_plan *plan, const struct pmv_idle_facts *facts,
				 int64_t *ns)
{
	*ns = least(plan->sleep_ns, PMV_IDLE_LONGEST_SLEEP_NS);
	plan->sleep_ns = 2 * *ns;
	plan->calls_look = true;
	/*
	 * The reads of one queue say nothing of another one's, whose event a descriptor that stays
	 * ready may hide.
	 */
	if (*ns < PMV_IDLE_LONGEST_SLEEP_NS || facts->polled > 1 || facts->unfinished ||
	    facts->descriptors == PMV_DESCRIPTORS_READY)
		return PMV_IDLE_REST;
	*ns = PMV_IDLE_LONGEST_EVENT_NS;
	return PMV_IDLE_FOLLOW;
}

/*
 * renew_patience -- no descriptor is ready.  But that of a queue that is polled was not looked at:
 * whoever naps where a receive is missing reads it often for a moment, and it is ready again.
 */
static void renew_patience(struct pmv_idle_plan *plan, const struct pmv_idle_facts *facts)
{
	if (!facts->polled || plan->sleep_ns >= PMV_IDLE_LONGEST_SLEEP_NS)
		plan->patience = PMV_IDLE_MOST_PATIENCE;
}

/* choose_sleep -- *ns: how long, if it is one */
static enum pmv_idle_action choose_sleep(struct pmv_idle_plan *plan,
					 const struct pmv_idle_facts *facts, int64_t now,
					 int64_t *ns)
{
	/* A call of the application may have served a request after the last look. */
	bool likely = now < facts->until_ns;

	if (facts->waits || (!facts->in_calls && likely && !plan->naps))
		return PMV_IDLE_LOOK;
	/* What calls leave to the next ones has to be done soon, also if there are none. */
	if (facts->in_calls && !facts->polled && (likely || plan->calls_look))
		return PMV_IDLE_LOOK;
	if (facts->descriptors == PMV_DESCRIPTORS_UNKNOWN)
		return sleep_on_socket(plan, facts, now, ns);
	if (facts->descriptors == PMV_DESCRIPTORS_QUIET) {
		renew_patience(plan, facts);
		*ns = sleep_of_events(plan, facts);
	} else {
		if (++plan->calls < plan->patience)
			return PMV_IDLE_LOOK;
		plan->patience /= 2;
		if (plan->patience < PMV_IDLE_LEAST_PATIENCE)
			plan->patience = PMV_IDLE_LEAST_PATIENCE;
		*ns = PMV_IDLE_STUCK_EVENT_NS;
	}
	if (facts->polled)
		return rest(plan, facts, ns);
	return facts->slept_on ? PMV_IDLE_SLEEP_BESIDE : PMV_IDLE_SLEEP_DESCRIPTORS;
}

static enum pmv_idle_action next(struct pmv_idle_plan *plan, const struct pmv_idle_facts *facts,
				 int64_t now, int64_t *ns)
{
	/*
	 * Of mailboxes that it looks into anyway hints say nothing; but peers may ask for one, and
	 * one that is left unread ends each sleep.
	 */
	bool tells = !facts->all_active || now >= facts->until_ns || now >= plan->search_ns ||
		     !plan->listen_ns;

	if (facts->prepared)
		return choose_sleep(plan, facts, now, ns);
	if (!facts->never_sleeps && tells && now >= plan->listen_ns &&
	    now >= plan->ignore_hints_until_ns) {
		plan->listen_ns = now + PMV_IDLE_LISTEN_NS;
		return PMV_IDLE_LISTEN;
	}
	if (now >= plan->search_ns) {
		plan->search_ns = now + PMV_IDLE_SEARCH_NS;
		return PMV_IDLE_SEARCH;
	}
	if (plan->busy || facts->never_sleeps || !may_sleep(plan, facts, now))
		return PMV_IDLE_LOOK;
	return PMV_IDLE_PREPARE;
}

enum pmv_idle_action pmv_idle_plan_next(struct pmv_idle_plan *plan,
					const struct pmv_idle_facts *facts, int64_t now,
					int64_t *ns)
{
	if (plan->last == PMV_IDLE_SEARCH)
		plan->dropped = false;
	plan->last = next(plan, facts, now, ns);
	if (plan->last == PMV_IDLE_SLEEP_DESCRIPTORS)
		plan->slept_ns = now;
	return plan->last;
}
