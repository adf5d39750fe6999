/* SPDX-License-Identifier: BSD-2-Clause */
/* cq_wait.c -- how a thread of the application waits for a completion; see cq.h */
#include "objects/cq.h"

#include <poll.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "base/cancel.h"
#include "base/clock.h"

/* How long to sleep between two looks where nothing wakes who waits. */
#define LOOK_FOR_ROOM_NS 1000000
#define LOOK_FOR_ACKS_NS 50000

/*
 * Whoever waits looks for so long before it sleeps: often what it waits for comes before a sleep
 * would have begun and ended.  Measured over tcp, on two processors, with 12,500 commits of 64
 * bytes by the agent: with the look 19 us for a commit, and 0.85 s of the initiator's processor
 * time, without it 34 us and 0.99 s; with a look of 10 us, 27 us and 0.82 s.  And with one-sided
 * commits of an initiator that sleeps on the descriptor: 15 us, without the look 25 us.
 *
 * A look in vain takes the processor from others.  So after one the next waits do without: 1, then
 * 3, 7, and so on up to the second number.  Waits for acknowledgements are counted apart: others
 * may be long.
 */
#define LOOK_BEFORE_SLEEP_NS 40000
#define MOST_SKIPS 255

/*
 * In tcp of libfabric 1.17, as long as a message finds no receive, fi_trywait says that there is
 * work, or the core's descriptor is ready.  Whoever sleeps would look without pause.  So behind
 * PMV_IDLE_MOST_PATIENCE looks in vain, if there still is work, it sleeps until something new
 * comes: for 1 ms at most, then behind half as many looks for twice as long, up to this.
 */
#define LONGEST_NAP_MS 10

/* While acknowledgements are missing somebody has to find out that none will come. */
#define LOSS_POLL_MS (PMV_IDLE_LOSS_NS / 1000000)

/*
 * must_look -- would the descriptor keep quiet about what is waited for?  Room for
 * posts comes with reading.  Acknowledgements wake nobody on cores that place data
 * without the processor's help, unless the agent's thread watches.
 */
static bool must_look(struct pmv_cq *cq)
{
	struct pmv_agent *agent = &cq->domain->agent;
	enum pmv_pending pending = pmv_queue_pending(&cq->queue);

	if (pmv_agent_needs_calls(agent))
		return true;
	if (pending != PMV_PENDING_ACKS)
		return pending == PMV_PENDING_POSTS;
	return !pmv_agent_watch(agent, &cq->queue);
}

/* How a call waits. */
struct wait {
	struct pmv_cq *cq;
	const void *cond;
	int timeout;
	unsigned heeded; /* of the signals, when the call began */
	int cancel;      /* whether the thread may be cancelled in its sleep */
	bool works;      /* the core has told this call of what is there, and so nobody else */
};

/*
 * may_sleep -- 0: the descriptor is told of all that comes from now on; *works: if not, it is the
 * core that has work; heeded: all signals since then end the call
 */
static int may_sleep(struct pmv_cq *cq, unsigned heeded, bool *works)
{
	int ret, taken;

	*works = false;
	if (cq->queue.epoll_fd < 0)
		return -FI_EINVAL;
	taken = pmv_queue_arm(&cq->queue);
	if (taken < 0)
		return taken;
	if (atomic_load(&cq->queue.num_ready)) {
		/* Others may sleep, too: this has taken what told them of an entry. */
		pmv_queue_wake(&cq->queue);
		return -FI_EAGAIN;
	}
	if (must_look(cq) || atomic_load(&cq->signals) != heeded) {
		/* Or of a wait, or of a signal. */
		if (taken)
			pmv_queue_wake(&cq->queue);
		return -FI_EAGAIN;
	}
	/* If the queue is attended the agent's thread reads it, and the core is not asked. */
	ret = atomic_load(&cq->queue.attended) ? 0 : pmv_queue_trywait(&cq->queue);
	*works = ret == -FI_EAGAIN;
	pmv_agent_nudge(&cq->domain->agent);
	return ret;
}

/*
 * expects_traffic -- who is woken by what is no answer is to look for more of it, if that has come
 * soon: over a core that moves data in calls it may have been a peer's one-sided operation, and who
 * reads serves those while the agent's thread leaves them to it
 */
static bool expects_traffic(struct pmv_cq *cq, int64_t slept_ns)
{
	return cq->queue.engine->core->manual_progress && !pmv_queue_pending(&cq->queue) &&
	       pmv_clock_ns() - slept_ns < PMV_IDLE_SHORT_NS;
}

bool pmv_cq_is_woken(struct pmv_cq *cq)
{
	int64_t slept_ns = atomic_exchange(&cq->let_sleep_ns, 0);
	struct pollfd fd = {.fd = cq->queue.epoll_fd, .events = POLLIN};

	return expects_traffic(cq, slept_ns) && poll(&fd, 1, 0) > 0;
}

static bool sleeps_alone(struct pmv_cq *cq)
{
	return atomic_load(&cq->queue.sleepers) == 1;
}

/* leave -- the call that waits has ended, or its thread is cancelled */
static void leave(void *arg)
{
	const struct wait *wait = arg;
	struct pmv_cq *cq = wait->cq;
	unsigned int armed = atomic_load(&cq->queue.armed);

	/* Those that wait for the descriptor may still sleep. */
	if (armed && sleeps_alone(cq) && !atomic_load(&cq->lends_fd))
		pmv_queue_disarm(&cq->queue, armed);
	if (atomic_fetch_sub(&cq->queue.sleepers, 1) == 1)
		pmv_agent_has_left(&cq->domain->agent, &cq->queue);
	else if (wait->works)
		/* What is left is for others that sleep. */
		pmv_queue_wake(&cq->queue);
}

struct look {
	int64_t until_ns; /* 0: it has not begun */
	bool on;
	struct pmv_looked *before_sleep; /* NULL: it is for more of what this call has moved */
};

/* begin_look -- before a sleep; alone: nobody else sleeps there in a call */
static void begin_look(struct pmv_cq *cq, struct look *look, bool alone)
{
	struct pmv_looked *looked = &cq->looked[pmv_queue_pending(&cq->queue) == PMV_PENDING_ACKS];
	unsigned skips_left = atomic_load(&looked->skips_left);

	look->before_sleep = looked;
	look->until_ns = pmv_clock_ns() + LOOK_BEFORE_SLEEP_NS;
	look->on = !skips_left && alone;
	if (skips_left)
		atomic_store(&looked->skips_left, skips_left - 1);
}

/* skip_next_looks -- the last one was in vain */
static void skip_next_looks(struct pmv_looked *looked)
{
	unsigned skips = atomic_load(&looked->skips);

	skips = skips < MOST_SKIPS ? 2 * skips + 1 : MOST_SKIPS;
	atomic_store(&looked->skips, skips);
	atomic_store(&looked->skips_left, skips);
}

/* traffic_look -- for more of what has ended a sleep */
static struct look traffic_look(void)
{
	return (struct look){.until_ns = pmv_clock_ns() + PMV_IDLE_LEAST_TRAFFIC_NS, .on = true};
}

/* end_look -- it has found something: if it was one before a sleep, such looks pay */
static void end_look(const struct look *look)
{
	if (look->on && look->before_sleep)
		atomic_store(&look->before_sleep->skips, 0);
}

/* goes_on_looking -- instead of sleeping */
static bool goes_on_looking(struct pmv_cq *cq, struct look *look)
{
	if (!look->until_ns)
		begin_look(cq, look, sleeps_alone(cq));
	if (!look->on || pmv_clock_ns() < look->until_ns)
		return look->on;
	look->on = false;
	if (look->before_sleep)
		skip_next_looks(look->before_sleep);
	return false;
}

/*
 * may_look -- before fi_trywait lets somebody sleep: for more of a peer's data, or for what the
 * core has to tell soon; the agent's thread looks for acknowledgements
 */
static bool may_look(struct pmv_cq *cq, struct look *look)
{
	if (cq->queue.epoll_fd < 0 || atomic_load(&cq->queue.num_ready) ||
	    pmv_queue_pending(&cq->queue) > PMV_PENDING_FLUSH)
		return false;
	if (!atomic_exchange(&cq->moved, false))
		begin_look(cq, look, !atomic_load(&cq->queue.sleepers));
	else if (!atomic_load(&cq->queue.sleepers))
		*look = traffic_look();
	return look->on;
}

/* look_first -- as fi_cq_sread does */
static void look_first(struct pmv_cq *cq)
{
	struct pmv_agent *agent = &cq->domain->agent;
	struct look look = {.until_ns = 0};
	struct wait wait = {.cq = cq};

	if (!may_look(cq, &look))
		return;
	wait.cancel = pmv_cancel_off();
	atomic_fetch_add(&cq->queue.sleepers, 1);
	while (!atomic_load(&cq->queue.num_ready) && sleeps_alone(cq) &&
	       pmv_queue_pending(&cq->queue) <= PMV_PENDING_FLUSH && goes_on_looking(cq, &look)) {
		pmv_agent_progress(agent);
		pmv_queue_progress(&cq->queue, true);
		pmv_agent_nudge(agent);
	}
	if (atomic_load(&cq->queue.num_ready))
		end_look(&look);
	leave(&wait);
	pmv_cancel_restore(wait.cancel);
}

int pmv_cq_trywait(struct pmv_cq *cq)
{
	bool works;
	int ret;

	atomic_store(&cq->lends_fd, true);
	if (!pmv_queue_is_refused(&cq->queue))
		look_first(cq);
	ret = may_sleep(cq, atomic_load(&cq->heeded), &works);
	if (!ret && pmv_queue_may_have_room(&cq->queue)) {
		/* Others may have been refused, too: this call took what told them. */
		pmv_queue_wake(&cq->queue);
		return -FI_EAGAIN;
	}
	if (!ret) {
		atomic_store(&cq->let_sleep_ns, pmv_clock_ns());
		pmv_agent_has_left(&cq->domain->agent, &cq->queue);
	}
	return ret;
}

/* looks_uselessly -- so often that the next look can wait */
static bool looks_uselessly(struct pmv_cq *cq)
{
	return atomic_load(&cq->useless_looks) >= atomic_load(&cq->patience);
}

/*
 * await_event -- as poll(2); works: the core has said that there is work, so the descriptor alone
 * must not be waited for, whatever other threads have read meanwhile
 */
static int await_event(struct pmv_cq *cq, bool works, int timeout)
{
	struct pollfd fd = {.fd = cq->queue.epoll_fd, .events = POLLIN};
	unsigned int patience = atomic_load(&cq->patience);
	int ret, nap = (int) (PMV_IDLE_MOST_PATIENCE / patience);

	if (!works && !looks_uselessly(cq))
		return poll(&fd, 1, timeout);
	atomic_store(&cq->useless_looks, 0);
	if (!works && !poll(&fd, 1, 0)) {
		atomic_store(&cq->patience, PMV_IDLE_MOST_PATIENCE);
		return poll(&fd, 1, timeout);
	}
	if (nap > LONGEST_NAP_MS)
		nap = LONGEST_NAP_MS;
	ret = pmv_queue_await_news(&cq->queue, timeout < 0 || timeout > nap ? nap : timeout);
	/* Where news end the naps, data arrive, and many looks may be needed to move them. */
	if (!ret && patience > PMV_IDLE_LEAST_PATIENCE)
		atomic_store(&cq->patience, patience / 2);
	return ret;
}

/* count_look -- what it has found: entries, or an error */
static void count_look(struct pmv_cq *cq, ssize_t ret)
{
	if (ret > 0)
		atomic_store_explicit(&cq->useless_looks, 0, memory_order_relaxed);
	else if (cq->queue.engine->core->manual_progress)
		atomic_fetch_add_explicit(&cq->useless_looks, 1, memory_order_relaxed);
}

/* wait_for_entries -- or until left ms are over (-1: never); 1: something has come */
static int wait_for_entries(struct pmv_cq *cq, int64_t left, struct wait *wait)
{
	int timeout = left < 0 || left > INT32_MAX ? -1 : (int) left;
	struct timespec look = {.tv_nsec = LOOK_FOR_ACKS_NS};
	bool works;
	int ret;

	if (must_look(cq)) {
		if (pmv_queue_pending(&cq->queue) == PMV_PENDING_POSTS)
			look.tv_nsec = LOOK_FOR_ROOM_NS;
		pmv_cancel_restore(wait->cancel);
		nanosleep(&look, NULL);
		pmv_cancel_off();
		return 0;
	}
	ret = may_sleep(cq, wait->heeded, &works);
	wait->works |= works;
	if (ret && !(works && looks_uselessly(cq)))
		return ret == -FI_EAGAIN ? 0 : ret;
	if (pmv_queue_pending(&cq->queue) && (timeout < 0 || timeout > LOSS_POLL_MS))
		timeout = LOSS_POLL_MS;
	pmv_cancel_restore(wait->cancel);
	ret = await_event(cq, works, timeout);
	pmv_cancel_off();
	return ret >= 0 ? ret : errno == EINTR ? 0 : -errno;
}

/*
 * is_signaled -- since the count was `heeded`, also if that was before the call:
 * a signal that nobody was there for is not lost, and it ends all calls that
 * sleep
 */
static bool is_signaled(struct pmv_cq *cq, unsigned heeded)
{
	unsigned signals = atomic_load(&cq->signals);

	if (signals == heeded)
		return false;
	atomic_store(&cq->heeded, signals);
	if (atomic_load(&cq->queue.sleepers) > 1)
		pmv_queue_wake(&cq->queue);
	return true;
}

static ssize_t read_or_wait(struct fid_cq *fid, void *buf, size_t count, struct wait *wait)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	int64_t end = pmv_clock_ms() + wait->timeout;
	struct look look = {.until_ns = 0};
	int64_t slept_ns;
	size_t wanted = 1;
	size_t got = 0;

	if (cq->wait_cond == FI_CQ_COND_THRESHOLD)
		wanted = (size_t) wait->cond < count ? (size_t) wait->cond : count;

	for (;;) {
		char *at = (char *) buf + got * cq->queue.entry_size;
		ssize_t ret = pmv_cq_read(fid, at, count - got);
		int64_t left = wait->timeout < 0 ? -1 : end - pmv_clock_ms();

		count_look(cq, ret);
		if (ret > 0)
			got += ret;
		else if (ret != -FI_EAGAIN)
			return got ? (ssize_t) got : ret;
		if (got && got >= wanted) {
			end_look(&look);
			return got;
		}
		if ((wait->timeout >= 0 && left <= 0) || is_signaled(cq, wait->heeded))
			return got ? (ssize_t) got : -FI_EAGAIN;
		if (goes_on_looking(cq, &look))
			continue;
		slept_ns = pmv_clock_ns();
		ret = wait_for_entries(cq, left, wait);
		if (ret < 0)
			return got ? (ssize_t) got : ret;
		if (ret && sleeps_alone(cq) && expects_traffic(cq, slept_ns))
			look = traffic_look();
	}
}

ssize_t pmv_cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	struct pmv_cq *cq = pmv_to_cq(fid);
	struct wait wait = {
		.cq = cq,
		.cond = cond,
		.timeout = timeout,
		.heeded = atomic_load(&cq->heeded),
	};
	ssize_t ret;

	if (cq->queue.epoll_fd < 0)
		return -FI_ENOSYS;
	wait.cancel = pmv_cancel_off();
	atomic_fetch_add(&cq->queue.sleepers, 1);
	pthread_cleanup_push(leave, &wait);
	ret = read_or_wait(fid, buf, count, &wait);
	if (ret == -FI_EAGAIN)
		wait.works = false;
	pthread_cleanup_pop(1);
	pmv_cancel_restore(wait.cancel);
	return ret;
}

int pmv_cq_signal(struct fid_cq *fid)
{
	struct pmv_cq *cq = pmv_to_cq(fid);

	if (cq->queue.epoll_fd < 0)
		return -FI_ENOSYS;
	atomic_fetch_add(&cq->signals, 1);
	pmv_queue_wake(&cq->queue);
	return 0;
}
