/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_plan.h -- when the agent's thread looks for requests, and when it sleeps
 *
 * This is one state machine.  It makes no call to a core, reads no descriptor and takes no lock.
 * It is told what happened (pmv_idle_plan_tell), and the facts that matter now.  It answers with
 * the next thing to do (pmv_idle_plan_next).  idle.c does that, and asks again until the answer is
 * to look into the mailboxes, or a sleep is over.  test_idle_plan.c has a table of all answers.
 *
 * While a request is likely the thread looks into the active mailboxes without pause.  A request
 * is likely for a while behind the last one of a connection: that is its window.  The window
 * follows the time between requests, as in polling drivers.  It grows if a longer one would have
 * found the request.  It shrinks if requests are so rare that looking for them costs more than
 * waking up.  If the application reads its queues without pause as well, its calls look in the
 * thread's place (pmv_agent_look_in_call): then the thread takes naps, and checks that the calls go
 * on.
 *
 * If no request is likely the thread sleeps:
 *
 *   on descriptors  where the core moves data in calls: they wake it (idle.h).  A queue that the
 *                   application reads without pause is not among them: its calls move the data,
 *                   and serve the requests that come with them (pmv_agent_nudge).  Then the thread
 *                   rests for intervals, and checks that the reads go on.  If they do for long
 *                   enough, it rests until they have been rare for as long as the longest nap.
 *                   If no peer has ever asked for something, a queue that the application sleeps on
 *                   in a call is not among them either.  What comes there ends that call's sleep:
 *                   to wake the thread as well took 5 us of each commit.  Nobody sees whether the
 *                   application sleeps on the descriptor after fi_trywait: it may compute, and
 *                   rely on the thread.  So such a queue is left out as long as the next fi_trywait
 *                   comes within PMV_IDLE_LONGEST_AWAY_NS each time.
 *   on its socket   where a NIC places data: the hints of all peers arrive there (hint.h)
 *   for intervals   where hints do not arrive, so short that no commit takes a millisecond
 *
 * Why an idle target with 256 connections sleeps.  When the windows are over, all mailboxes are
 * parked whose peers' hints arrive, so the thread looks into none of them.  A peer whose hints have
 * never come keeps its mailbox active, and is asked for one every 100 ms.  Its agent answers; or,
 * if it has never sent a request either, it is assumed to send hints after PMV_IDLE_MOST_ASKS
 * questions.  Then one sleep of 320 ms on one socket serves all 256: the thread wakes three times a
 * second, however many connections there are.  Over a core that moves data in calls it sleeps on
 * the descriptors of the queues for 200 ms.  Both stay below the ten times a second that an idle
 * target may wake.
 *
 * There are two exceptions.  While there is a peer whose hints can't arrive, the thread looks at
 * intervals of up to 0.7 ms: one without an Internet address, or one that has sent a request while
 * a firewall drops its hints.  And a flood of forged hints ends sleeps: then hints are ignored for
 * a while, and the thread looks at such intervals, too.
 *
 * While requests are likely, and every mailbox is looked into, hints are not read: to read takes a
 * call of the system, in the middle of what peers wait for.  They end the next sleep at once.
 */
#ifndef PMV_IDLE_PLAN_H
#define PMV_IDLE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * All constants of this decision, and of what relies on it.  "Measured" says with what; the others
 * follow from another number, or are round numbers between two limits that the comment names.
 */
enum {
	/*
	 * Sleeps at intervals grow from the first to the second.  A commit that is found by them
	 * takes less than a millisecond, with the time that the sleep takes to end.
	 */
	PMV_IDLE_LEAST_SLEEP_NS = 20000,
	PMV_IDLE_LONGEST_SLEEP_NS = 700000,
	/*
	 * Where no memory needs the agent, until a peer has asked for something.  Measured: 1,400
	 * wake-ups a second made one-sided commits on the same processor half as slow again.
	 */
	PMV_IDLE_DOZE_NS = 20000000,
	/* All hints arrive: three times a second.  Requests whose hints were lost are so late. */
	PMV_IDLE_LONGEST_HINTED_NS = 320000000,
	/*
	 * An awake thread looks so often for them, and asks for hints that have not come: more
	 * often than one that sleeps, as it costs no wake-up.
	 */
	PMV_IDLE_SEARCH_NS = 100000000,
	/* An awake thread reads hints so often: as often as the shortest sleep would end. */
	PMV_IDLE_LISTEN_NS = 20000,
	PMV_IDLE_ATTEND_NS = 20000, /* and looks so often for applications that sleep (queues.h) */
	PMV_IDLE_LISTEN_MOST = 64,  /* so many in one go: other mailboxes wait meanwhile */
	/*
	 * Whoever has no acknowledgement repeats its hint after so long, then after twice as long
	 * each time, up to the second.  A lost hint costs one millisecond more, and whoever waits
	 * long sends ten a second: fewer than are forgotten (PMV_IDLE_FORGET_HINT_NS).
	 */
	PMV_IDLE_HINT_AGAIN_NS = 1000000,
	PMV_IDLE_LONGEST_HINT_AGAIN_NS = 100000000,

	/*
	 * Sleeps on descriptors.  They end: a thread of the core may move data without any event.
	 * The longest are five a second, half of what an idle target may do.
	 */
	PMV_IDLE_LEAST_EVENT_NS = 10000000,
	PMV_IDLE_LONGEST_EVENT_NS = 200000000,
	/* The first one while something is unfinished: epoll_wait counts milliseconds. */
	PMV_IDLE_LEAST_UNFINISHED_NS = 1000000,
	/* Where a descriptor is always ready, and may hide events of others. */
	PMV_IDLE_STUCK_EVENT_NS = 2000000,
	/*
	 * Calls of the core without effect before that: first so many, then half as many each time.
	 * One call may move one message, and the first number of them fits into a socket.
	 */
	PMV_IDLE_MOST_PATIENCE = 2048,
	PMV_IDLE_LEAST_PATIENCE = 8,
	/* After so many reads of an attended queue the application is polling it (queues.h). */
	PMV_IDLE_POLLING_READS = 16,
	/*
	 * Whoever has left the call that slept on a queue, or was let sleep on its descriptor, is
	 * away after so long, and the thread takes the queue over.  Until then peers, and what the
	 * application has posted, may wait for what only calls move.  Measured: with half of it,
	 * and four initiators and a target on two processors, a timer had to be set for most
	 * commits.
	 */
	PMV_IDLE_LONGEST_AWAY_NS = 400000,
	/*
	 * Where a core moves what peers read and write, the thread looks on for
	 * PMV_IDLE_LEAST_TRAFFIC_NS when that has ended a sleep.  Nothing tells of what comes while
	 * it looks.  But if a sleep ends in less than PMV_IDLE_SHORT_NS it looks for twice as long
	 * as before, up to PMV_IDLE_LONGEST_TRAFFIC_NS, or else for half as long.  Measured over
	 * tcp: without that a one-sided commit took two to five times as long as one by the agent.
	 * A byte each 150 us does not keep the thread looking.  fi_cq_sread and fi_trywait look for
	 * the least time, if they have moved the data behind such a short sleep (cq_wait.c).
	 * Measured, where the target's application sleeps on the descriptor: 11 us for a one-sided
	 * commit, without that 22 us.
	 */
	PMV_IDLE_SHORT_NS = 75000,
	PMV_IDLE_LEAST_TRAFFIC_NS = 50000,
	PMV_IDLE_LONGEST_TRAFFIC_NS = 200000,

	/*
	 * A window is no longer than so many of this machine's shortest sleeps, which take from
	 * microseconds to milliseconds: beyond that looking costs more than waking up.
	 */
	PMV_IDLE_WINDOW_SLEEPS = 50,
	PMV_IDLE_TIMED_SLEEPS = 5,
	/* No window is shorter, so whoever has sent a hint sends no other one in that time. */
	PMV_IDLE_LEAST_WINDOW_NS = 50000,
	PMV_IDLE_LONGEST_WINDOW_NS = 5000000,

	/*
	 * A hint may overtake its request, since the data before the request take time.  The
	 * request is expected for so long, or twice as long as it has been, up to the second.
	 * Measured: with the first only, one behind a second of data was found 0.1 s late.
	 */
	PMV_IDLE_EXPECT_NS = 10000000,
	PMV_IDLE_LONGEST_EXPECT_NS = 200000000,
	/*
	 * Whoever sends so many hints without a request is not believed until one comes.  One hint
	 * is forgotten in so much time.  Those of a sender that waits and of its agent come more
	 * rarely.
	 */
	PMV_IDLE_MOST_UNANSWERED = 16,
	PMV_IDLE_FORGET_HINT_NS = 50000000,
	/* A peer that has never sent a request is asked for a hint so often: for a second. */
	PMV_IDLE_MOST_ASKS = 10,

	/*
	 * An acknowledgement may say that no hint has come.  The initiator answers the first so
	 * many of these with a hint, and then one in so many: each takes a system call, and a
	 * firewall may let none pass.
	 */
	PMV_IDLE_SHOWN_AT_FIRST = 8,
	PMV_IDLE_SHOWN_IN = 64,

	/*
	 * Calls of the application that come more rarely do not look as well as the thread would.
	 * The thread checks that after naps, each twice as long as the one before: a commit may
	 * wait for the longest one if the calls stop.  Measured in the lab, on two processors, with
	 * 1,500 commits of 64 bytes: with naps 1.7 s of processors and a median of 0.16 ms, without
	 * them 6.3 s and 2.1 ms.
	 */
	PMV_IDLE_MOST_BETWEEN_CALLS_NS = 50000,
	PMV_IDLE_FIRST_NAP_NS = 50000,
	PMV_IDLE_LONGEST_NAP_NS = 1000000,
	/* One call looks so often for what others move; then the thread does: calls have to end. */
	PMV_IDLE_MOST_LOOKS = 16,
	/* To look into more mailboxes than that would take a call of the application too long. */
	PMV_IDLE_MOST_IN_CALL = 64,

	/*
	 * Whoever waits for an acknowledgement finds out so often whether the peer is still there:
	 * a READ is posted that fails if it is not (commit/answer.h), and sleepers wake for that.
	 */
	PMV_IDLE_LOSS_NS = 200000000,
};

/* Of a mailbox: is a request likely? */
struct pmv_expectation {
	int64_t window_ns;
	int64_t until_ns;
	int64_t served_ns; /* the last request was taken then */
	int64_t waits_ns;  /* the first hint since then came at this time; 0: none has */
	int64_t expect_ns; /* a request is expected behind its hint until then */
	int64_t hint_ns;   /* the last hint that was believed */
	unsigned int unanswered_hints; /* since the last request, that are not forgotten yet */
	unsigned int asks;             /* for a hint, without an answer */
};

/* pmv_idle_plan_bound -- no window is longer, if a machine's shortest sleep takes so long */
int64_t pmv_idle_plan_bound(int64_t shortest_sleep_ns);

/* pmv_idle_plan_is_likely -- is the mailbox to be looked into? */
static inline bool pmv_idle_plan_is_likely(const struct pmv_expectation *expect, int64_t now)
{
	return now < expect->until_ns || now < expect->expect_ns;
}

/* pmv_idle_plan_served -- a request was taken; the window follows the time since the last one */
void pmv_idle_plan_served(struct pmv_expectation *expect, int64_t bound_ns, int64_t now);

/*
 * pmv_idle_plan_hinted -- a genuine hint came; asks: it announces no request.  False: it is not
 * believed, since there were many in a short time, and no request.
 */
bool pmv_idle_plan_hinted(struct pmv_expectation *expect, bool asks, int64_t now);

/*
 * pmv_idle_plan_asked -- the peer was asked for a hint once more.  True: a silent peer that has
 * never sent a request is assumed to send hints.
 */
bool pmv_idle_plan_asked(struct pmv_expectation *expect);

/*
 * pmv_idle_plan_is_polled -- does the application read a queue without pause?  It has read it so
 * often in this time; before: what the answer was then.  Calls that come more rarely than those
 * that look in the thread's place do not move data as well as it would.
 */
bool pmv_idle_plan_is_polled(bool before, unsigned int reads, int64_t ns);

/* What can happen to the thread. */
enum pmv_idle_event {
	PMV_IDLE_BUSY,    /* a round had something to do */
	PMV_IDLE_NOTHING, /* it had not */
	PMV_IDLE_FORGED,  /* hints were read, and all of them were forged */
	PMV_IDLE_WOKEN,   /* a kick, a hint or a descriptor has ended a sleep */
	PMV_IDLE_TRAFFIC, /* so has a core, while the application makes no calls */
	PMV_IDLE_SLEPT,   /* a sleep has ended by itself */
};

/* What the thread is to do. */
enum pmv_idle_action {
	PMV_IDLE_LOOK,         /* a round */
	PMV_IDLE_LISTEN,       /* read hints; then ask again */
	PMV_IDLE_SEARCH,       /* look into parked mailboxes, and ask for hints; then ask again */
	PMV_IDLE_PREPARE,      /* let kicks end a sleep, find the facts; then ask again */
	PMV_IDLE_REST,         /* until a descriptor is ready, as the application polls a queue */
	PMV_IDLE_FOLLOW,       /* the same, or until the reads of that queue are rare */
	PMV_IDLE_SLEEP_BESIDE, /* until one is ready, or whoever sleeps on that queue is away */
	PMV_IDLE_SLEEP_DESCRIPTORS, /* until one is ready */
	PMV_IDLE_SLEEP_SOCKET,      /* until a hint comes */
	PMV_IDLE_SLEEP_KICK,        /* until a kick comes; hints are dropped meanwhile */
};

/* What the core's descriptors say. */
enum pmv_descriptors {
	PMV_DESCRIPTORS_QUIET,
	PMV_DESCRIPTORS_READY,
	PMV_DESCRIPTORS_UNKNOWN, /* a queue can't be waited for, or need not be: idle.h */
};

struct pmv_idle_facts {
	bool never_sleeps;     /* FI_PMEMVERBS_AGENT=busy */
	bool in_calls;         /* the core moves data in calls only */
	bool needed;           /* some memory needs the agent */
	bool expecting;        /* a request may still come behind its hint */
	bool unfinished;       /* something goes on in the next rounds */
	unsigned int unhinted; /* mailboxes whose peers' hints do not arrive */
	bool all_active;       /* there is none, and every mailbox is looked into */
	int64_t until_ns;      /* the end of the last window */
	unsigned long calls;   /* of the application, that look in the thread's place */
	/* After PMV_IDLE_PREPARE: */
	bool prepared;
	bool waits;    /* there is a request, or the thread is to stop */
	bool watching; /* somebody waits for an acknowledgement, and nothing else tells of that */
	unsigned int polled; /* queues; their descriptors are none of these: */
	bool slept_on;       /* one is; its descriptor neither */
	enum pmv_descriptors descriptors;
};

/* The state between two rounds. */
struct pmv_idle_plan {
	bool busy;                /* the last round was */
	bool asked;               /* a peer has sent a request */
	bool calls_look;          /* the application's calls are to look for requests */
	int64_t sleep_ns;         /* the next interval */
	int64_t event_ns;         /* the next sleep on descriptors */
	int64_t unfinished_ns;    /* the same, while something is unfinished */
	int64_t slept_ns;         /* when the last sleep on descriptors began */
	int64_t traffic_ns;       /* how long it looks after traffic, ... */
	int64_t traffic_until_ns; /* ... and until when */
	unsigned int patience;    /* calls without effect before a sleep */
	unsigned int calls;       /* since the last one */
	int64_t listen_ns;        /* when to read hints, while it is awake; 0: it has slept */
	int64_t search_ns;        /* when to search all mailboxes, and to ask for hints */
	int64_t ignore_hints_until_ns;
	bool dropped;   /* hints, since the last search */
	bool naps;      /* the application's calls look meanwhile */
	int64_t nap_ns; /* the last nap; 0: the calls did not look often enough */
	int64_t checked_ns;
	unsigned long checked_calls;
	enum pmv_idle_action last;
};

void pmv_idle_plan_init(struct pmv_idle_plan *plan);
void pmv_idle_plan_tell(struct pmv_idle_plan *plan, enum pmv_idle_event event, int64_t now);

/* pmv_idle_plan_next -- *ns: how long, if it is a sleep */
enum pmv_idle_action pmv_idle_plan_next(struct pmv_idle_plan *plan,
					const struct pmv_idle_facts *facts, int64_t now,
					int64_t *ns);

#endif /* PMV_IDLE_PLAN_H */
