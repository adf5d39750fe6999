/* SPDX-License-Identifier: BSD-2-Clause */
/* idle_scene.c -- the agent's thread, an application, and the clock */
#include "test/agent/idle_scene.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

struct scene scene;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
		 const sigset_t *set);
int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
		 const sigset_t *set);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	if (!scene.pair)
		return __real_clock_gettime(id, now);
	*now = (struct timespec){scene.now / 1000000000, scene.now % 1000000000};
	return 0;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	if (!scene.pair || fd != scene.agent->rest_fd)
		return __real_timerfd_settime(fd, flags, when, old);
	scene.settings++;
	scene.expires = when->it_value.tv_nsec ? scene.now + when->it_value.tv_nsec : INT64_MAX;
	return 0;
}

void scene_read(struct fid_cq *cq)
{
	struct pmv_queue *queue = &pmv_to_cq(cq)->queue;
	struct fi_cq_tagged_entry entry;

	if (scene.finds)
		cr_assert(pmv_queue_add(queue, pmv_comp_success(queue, NULL)));
	cr_assert_eq(fi_cq_read(cq, &entry, 1), scene.finds ? 1 : -FI_EAGAIN);
}

void scene_live(void)
{
	scene.now += STEP;
	for (int i = 0; i < QUEUES; i++) {
		if (scene.now < scene.until[i])
			scene_read(scene.cqs[i]);
	}
	if (scene.at_each_step)
		scene.at_each_step();
}

static bool has_expired(void)
{
	if (scene.now < scene.expires)
		return false;
	scene.expires = INT64_MAX;
	return true;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (scene.pair && scene.at_a_look)
		scene.at_a_look();
	return __real_poll(fds, count, timeout_ms);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *set)
{
	const struct timespec none = {0};
	int64_t end;

	if (!scene.pair)
		return __real_ppoll(fds, count, time, set);
	scene.sleeps++;
	end = scene.now + time->tv_sec * 1000 * MS + time->tv_nsec;
	while (scene.now < end) {
		int ready = __real_ppoll(fds, count, &none, set);

		if (ready)
			return ready;
		scene_live();
	}
	return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	int64_t end = scene.now + timeout_ms * MS;

	if (!scene.pair)
		return __real_epoll_wait(fd, events, max, timeout_ms);
	scene.sleeps += timeout_ms != 0;
	while (scene.now < end) {
		int ready = __real_epoll_wait(fd, events, max, 0);

		if (ready || has_expired())
			return ready ? ready : 1;
		scene_live();
	}
	return __real_epoll_wait(fd, events, max, 0);
}

void scene_begin(int queues, int64_t ns)
{
	struct pair *pair = pair_open(
		&(struct pair_options){.away = {.wait_obj = FI_WAIT_FD, .own_rx_cq = queues > 1}});

	/* As if there were a thread. */
	pmv_setting.agent = PMV_AGENT_THREAD;
	pair->away->core.manual_progress = true;
	memset(&scene, 0, sizeof(scene));
	scene.agent = pair_agent(pair);
	atomic_store(&scene.agent->running, true);
	scene.now = 1000 * MS;
	scene.expires = INT64_MAX;
	scene.cqs[0] = pair->away->cq;
	scene.cqs[1] = pair->away->rx_cq;
	/* No time goes by in a call: fi_trywait does not look before it lets anybody sleep. */
	for (int i = 0; i < 2; i++) {
		if (scene.cqs[i])
			atomic_store(&pmv_to_cq(scene.cqs[i])->looked[0].skips_left, UINT_MAX);
	}
	for (int i = 0; i < queues; i++)
		scene.until[i] = scene.now + ns;
	pmv_idle_plan_init(&scene.plan);
	scene.pair = pair;
}

void scene_end(void)
{
	struct pair *pair = scene.pair;

	scene.pair = NULL;
	atomic_store(&scene.agent->running, false);
	pair->away->core.manual_progress = false;
	pmv_setting.agent = PMV_AGENT_PROGRESS;
	pair_close(pair);
}

unsigned int rounds_until(int64_t ns)
{
	unsigned int rounds = 0;

	for (; scene.now < ns; rounds++)
		pmv_idle(scene.agent, &scene.plan, false);
	return rounds;
}

bool awaits(struct fid_cq *cq)
{
	return pmv_to_cq(cq)->queue.edges;
}
