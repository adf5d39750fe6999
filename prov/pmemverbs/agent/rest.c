/* SPDX-License-Identifier: BSD-2-Clause */
/* rest.c -- the agent's thread sleeps; rest.h says when */
#include "agent/rest.h"

#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/listen.h"
#include "agent/service.h"
#include "agent/wake.h"
#include "base/clock.h"

/* Intervals grow, but no commit may take a millisecond. */
#define LEAST_SLEEP_NS 20000
#define LONGEST_SLEEP_NS 700000
/*
 * Where peers can flush all memory with READs, they may still ask for received messages,
 * or because their path reorders writes.  That is rare.  Only the first request waits this
 * long, and processes without such requests keep their processor.
 */
#define DOZE_NS 20000000
/* With hints: requests whose hints were lost are found as late as this. */
#define LONGEST_HINTED_NS 320000000
#define EVERYWHERE_NS 100000000
/* How often a thread that is awake reads hints. */
#define LISTEN_NS 20000
/* With descriptors: a thread of the core may move data without any event. */
#define LEAST_EVENT_MS 10
#define LONGEST_EVENT_MS 160
/* Where one of them is always ready, and may hide events of others. */
#define STUCK_EVENT_MS 2
/* A call may move as little as one message; this many fit into a socket's buffer. */
#define MOST_PATIENCE 2048
#define LEAST_PATIENCE 8
/* To look for requests may take as long as this many sleeps, which are timed first. */
#define WINDOW_SLEEPS 50
#define TIMED_SLEEPS 5
#define MOST_HELPED 64

/* nap -- sleep until it is kicked or, if it listens, a hint comes; false: the time is over */
static bool nap(struct pmv_agent *agent, int64_t ns, bool listens)
{
	const struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	struct pollfd fds[] = {
		{.fd = agent->kick_fd, .events = POLLIN},
		{.fd = listens ? agent->hints.fd : -1, .events = POLLIN},
	};

	return ppoll(fds, 2, &ts, NULL) > 0;
}

/* time_sleep -- how long the shortest sleep takes */
static int64_t time_sleep(struct pmv_agent *agent)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < TIMED_SLEEPS; i++) {
		int64_t start = pmv_clock_ns(), took;

		nap(agent, 1, false);
		took = pmv_clock_ns() - start;
		least = took < least ? took : least;
	}
	return least;
}

void pmv_rest_begin(struct pmv_agent *agent, struct pmv_rest *rest)
{
	/* Short sleeps are not to be lengthened by the default slack of 50 us. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	*rest = (struct pmv_rest){
		.sleep_ns = LEAST_SLEEP_NS,
		.sleep_ms = LEAST_EVENT_MS,
		.patience = MOST_PATIENCE,
	};
	/* Where every call moves data, looking for requests disturbs who moves them. */
	if (!agent->engine->core->manual_progress)
		pmv_look_bound(&agent->looks, WINDOW_SLEEPS * time_sleep(agent));
}

/* Awake */

/* look_after -- what is done now and then, whether it sleeps or not */
static void look_after(struct pmv_agent *agent, struct pmv_rest *rest, int64_t now)
{
	if (pmv_setting.agent == PMV_AGENT_THREAD && now >= rest->listen_ns &&
	    now >= rest->deaf_ns) {
		rest->listen_ns = now + LISTEN_NS;
		if (!pmv_listen(agent, now))
			rest->deaf_ns = now + LONGEST_SLEEP_NS;
	}
	if (now < rest->everywhere_ns && !atomic_load(&agent->watched))
		return;
	pthread_mutex_lock(&agent->lock);
	pmv_wake_sleepers(agent);
	if (now >= rest->everywhere_ns) {
		rest->everywhere_ns = now + EVERYWHERE_NS;
		pmv_look_everywhere(&agent->looks, now);
		pmv_look_cool(&agent->looks, now);
		pmv_listen_ask(agent);
	}
	pthread_mutex_unlock(&agent->lock);
}

/* Asleep */

static void wake_up(struct pmv_agent *agent, struct pmv_rest *rest, bool woken)
{
	uint64_t kicks;

	atomic_store(&agent->asleep, false);
	atomic_fetch_add(&agent->sleeps, 1);
	if (woken)
		atomic_fetch_add(&agent->wakes, 1);
	rest->listen_ns = 0;
	if (woken && read(agent->kick_fd, &kicks, sizeof(kicks)) < 0)
		return;
}

/* longest_sleep -- how long, if no descriptor of the core wakes it; holds the lock */
static int64_t longest_sleep(struct pmv_agent *agent, const struct pmv_rest *rest, int64_t now)
{
	const struct pmv_looks *looks = &agent->looks;

	/* The application may stop calling the core at any time. */
	if (agent->engine->core->manual_progress || looks->unfinished || looks->expecting ||
	    now < rest->deaf_ns)
		return LONGEST_SLEEP_NS;
	if (!looks->unhinted)
		return LONGEST_HINTED_NS;
	return rest->asked || atomic_load(&agent->needed) ? LONGEST_SLEEP_NS : DOZE_NS;
}

int64_t pmv_rest_sleep_ns(struct pmv_rest *rest, const struct pmv_bed *bed)
{
	int64_t ns = rest->sleep_ns < bed->longest_ns ? rest->sleep_ns : bed->longest_ns;

	if (bed->watching)
		ns = LEAST_SLEEP_NS;
	else if (bed->nap_ns)
		ns = bed->nap_ns;
	else if (bed->longest_ns == LONGEST_HINTED_NS)
		ns = LONGEST_HINTED_NS;
	rest->sleep_ns = 2 * ns;
	if (ns == LONGEST_HINTED_NS)
		rest->sleep_ns = LEAST_SLEEP_NS;
	return ns;
}

static void sleep_blind(struct pmv_agent *agent, struct pmv_rest *rest, const struct pmv_bed *bed)
{
	bool deaf = pmv_clock_ns() < rest->deaf_ns;
	int64_t ns = pmv_rest_sleep_ns(rest, bed);

	wake_up(agent, rest, nap(agent, ns, !deaf));
	/* Hints are dropped meanwhile. */
	if (deaf)
		rest->everywhere_ns = 0;
}

static void sleep_on_events(struct pmv_agent *agent, struct pmv_rest *rest, bool stuck)
{
	bool woken = pmv_events_wait(agent, stuck ? STUCK_EVENT_MS : rest->sleep_ms);

	wake_up(agent, rest, woken);
	rest->calls = 0;
	rest->sleep_ms *= 2;
	if (woken)
		rest->sleep_ms = LEAST_EVENT_MS;
	else if (rest->sleep_ms > LONGEST_EVENT_MS)
		rest->sleep_ms = LONGEST_EVENT_MS;
}

/*
 * fall_asleep -- from here on a kick ends the sleep.  Then look for requests that came
 * without a kick: other threads move data, and preparing the sleep may do so, too.  False:
 * there is something to do.
 */
static bool fall_asleep(struct pmv_agent *agent, const struct pmv_rest *rest, struct pmv_bed *bed)
{
	int64_t now;
	bool waits;

	atomic_store(&agent->asleep, true);
	bed->events = pmv_events_find(agent);
	now = pmv_clock_ns();
	pthread_mutex_lock(&agent->lock);
	bed->watching = pmv_wake_sleepers(agent);
	/* A call of the application may have served a request after the last look. */
	waits = pmv_service_waits(agent) ||
		(!bed->nap_ns && now < atomic_load(&agent->looks.until_ns));
	pmv_look_cool(&agent->looks, now);
	bed->longest_ns = longest_sleep(agent, rest, now);
	pthread_mutex_unlock(&agent->lock);
	if (waits || atomic_load(&agent->stop))
		atomic_store(&agent->asleep, false);
	return atomic_load(&agent->asleep);
}

/* may_sleep -- *nap_ns: while requests are likely, no longer than that */
static bool may_sleep(struct pmv_agent *agent, int64_t now, int64_t *nap_ns)
{
	bool likely = now < atomic_load(&agent->looks.until_ns);

	*nap_ns = 0;
	if (agent->engine->core->manual_progress)
		return !likely;
	/* To look into many mailboxes takes a call too long. */
	if ((likely || agent->looks.expecting) &&
	    atomic_load(&agent->looks.unhinted) <= MOST_HELPED)
		*nap_ns = pmv_help_nap(&agent->help, now);
	else
		pmv_help_end(&agent->help);
	return !likely || *nap_ns;
}

void pmv_rest(struct pmv_agent *agent, struct pmv_rest *rest, bool busy)
{
	int64_t now = pmv_clock_ns();
	struct pmv_bed bed;

	if (busy) {
		rest->asked = true;
		rest->sleep_ns = LEAST_SLEEP_NS;
		rest->sleep_ms = LEAST_EVENT_MS;
		rest->calls = 0;
	}
	look_after(agent, rest, now);
	if (busy || pmv_setting.agent == PMV_AGENT_BUSY || !may_sleep(agent, now, &bed.nap_ns) ||
	    !fall_asleep(agent, rest, &bed))
		return;
	if (bed.events == PMV_EVENTS_QUIET) {
		rest->patience = MOST_PATIENCE;
		sleep_on_events(agent, rest, false);
	} else if (bed.events == PMV_EVENTS_UNKNOWN) {
		sleep_blind(agent, rest, &bed);
	} else if (++rest->calls < rest->patience) {
		atomic_store(&agent->asleep, false);
	} else {
		rest->patience =
			rest->patience / 2 > LEAST_PATIENCE ? rest->patience / 2 : LEAST_PATIENCE;
		sleep_on_events(agent, rest, true);
	}
}
