/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads.c -- the calls of threads and clocks, for the simulated ones
 *
 * The linker has all calls from the provider's objects come here (-Wl,--wrap).  A mutex is a real
 * one: all coroutines are one thread to the C library, which does not wait for itself.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "scheduler.h"
#include "wraps.h"

/* Mutexes */

static bool is_free(void *arg)
{
	if (wraps_libc()->pthread_mutex_trylock(arg))
		return false;
	wraps_libc()->pthread_mutex_unlock(arg);
	return true;
}

/*
 * count_common -- locks that are variables of the program: here all processes have the same one, so
 * none may be killed while it holds that
 */
static void count_common(const pthread_mutex_t *mutex, unsigned int more)
{
	extern char __data_start, end;

	if (sched_current && (const char *) mutex >= &__data_start && (const char *) mutex < &end)
		sched_process()->common_locks += more;
}

static int try_lock(pthread_mutex_t *mutex)
{
	int ret = wraps_libc()->pthread_mutex_trylock(mutex);

	if (!ret)
		count_common(mutex, 1);
	return ret;
}

static int unlock(pthread_mutex_t *mutex)
{
	count_common(mutex, -1U);
	return wraps_libc()->pthread_mutex_unlock(mutex);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	sched_step();
	while (try_lock(mutex)) {
		if (!sched_current)
			return wraps_libc()->pthread_mutex_lock(mutex);
		sched_block("waits for a lock", is_free, mutex, SCHED_NEVER);
	}
	return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	sched_step();
	return try_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int ret = unlock(mutex);

	sched_step();
	return ret;
}

/* Conditions: who waits has a place in a list */

struct waiter {
	const pthread_cond_t *cond; /* NULL: it was signalled */
	struct waiter *next;
};

static struct waiter *waiters;

static bool is_signalled(void *arg)
{
	return !((struct waiter *) arg)->cond;
}

/* wait_until -- it is signalled; false: it was not until then */
static bool wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns)
{
	struct waiter waiter = {.cond = cond, .next = waiters};
	struct waiter **at = &waiters;
	bool signalled;

	waiters = &waiter;
	unlock(mutex);
	signalled = sched_block("waits for a condition", is_signalled, &waiter, until_ns);
	while (*at != &waiter)
		at = &(*at)->next;
	*at = waiter.next;
	__wrap_pthread_mutex_lock(mutex);
	return signalled;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	wait_until(cond, mutex, SCHED_NEVER);
	return 0;
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *until)
{
	int64_t until_ns = until->tv_sec * INT64_C(1000000000) + until->tv_nsec;

	(void) clock;
	return wait_until(cond, mutex, until_ns) ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	for (struct waiter *waiter = waiters; waiter; waiter = waiter->next) {
		if (waiter->cond == cond)
			waiter->cond = NULL;
	}
	sched_step();
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	struct waiter *chosen = NULL;
	uint64_t count = 0;

	for (struct waiter *waiter = waiters; waiter; waiter = waiter->next) {
		if (waiter->cond == cond && sched_one_in(++count))
			chosen = waiter;
	}
	if (chosen)
		chosen->cond = NULL;
	sched_step();
	return 0;
}

/* Threads */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	(void) attr;
	*thread = (pthread_t) sched_spawn(sched_process(), "thread", run, arg);
	sched_step();
	return 0;
}

pthread_t __wrap_pthread_self(void)
{
	return (pthread_t) sched_current;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	sched_name((struct sched_task *) thread, name);
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	(void) result;
	sched_join((struct sched_task *) thread);
	return 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
	sched_detach((struct sched_task *) thread);
	return 0;
}

/* Time */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!sched_current)
		return wraps_libc()->clock_gettime(clock, ts);
	sched_step();
	*ts = (struct timespec){.tv_sec = sched_now_ns / 1000000000,
				.tv_nsec = sched_now_ns % 1000000000};
	return 0;
}

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
	(void) left;
	sched_sleep(ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec);
	return 0;
}

/* Chance */

static void draw(unsigned char *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char) sched_dice(256);
}

/*
 * Two lives of a target have the same number once in 65,536 times (fi_pmemverbs_memory(7)), and a
 * key of the earlier one is not refused then.  In one world it does not happen.
 */
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	static bool drawn[UINT16_MAX + 1];
	uint16_t life;

	(void) flags;
	do {
		draw(buf, len);
		memcpy(&life, buf, sizeof(life));
	} while (len == sizeof(life) && drawn[life]);
	drawn[life] |= len == sizeof(life);
	return (ssize_t) len;
}
