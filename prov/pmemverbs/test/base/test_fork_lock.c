/* SPDX-License-Identifier: BSD-2-Clause */
/* test_fork_lock.c -- a lock that fork() takes, too; and its users in a child */
#include "base/fork_lock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/poller.h"

static struct pmv_fork_lock lock = PMV_FORK_LOCK_INITIALIZER;
static bool whole;

static void hold(void)
{
	pmv_fork_lock(&lock);
}

static void let_go(void)
{
	pmv_fork_unlock(&lock);
}

static void forget(void)
{
	whole = pmv_fork_child(&lock);
}

static void *try(void *arg)
{
	bool *got = arg;

	*got = pmv_fork_trylock(&lock);
	if (*got)
		pmv_fork_unlock(&lock);
	return NULL;
}

/* is_free -- for another thread */
static bool is_free(void)
{
	pthread_t thread;
	bool got = false;

	return !pthread_create(&thread, NULL, try, &got) && !pthread_join(thread, NULL) && got;
}

/* begin_child -- what hangs there is killed */
static pid_t begin_child(void)
{
	pid_t child = fork();

	if (!child)
		alarm(20);
	return child;
}

static int status_of(pid_t child)
{
	int status = -1;

	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

/* The thread sanitizer ends a child that starts a thread. */
#ifndef __SANITIZE_THREAD__

Test(fork_lock, is_free_in_a_child, .timeout = 60)
{
	pid_t child;

	cr_assert_eq(pthread_atfork(hold, let_go, forget), 0);
	child = begin_child();
	if (!child)
		_exit(whole && lock.process == 2 && is_free() ? 0 : 1);
	cr_expect_eq(status_of(child), 0);
	cr_expect_eq(lock.process, 1);
	cr_expect(is_free());
}

/* As if a signal's handler forked: the child goes on with what the handler has interrupted. */
Test(fork_lock, that_the_thread_holds_is_free_in_the_child_and_held_in_the_parent, .timeout = 60)
{
	pid_t child;

	cr_assert_eq(pthread_atfork(hold, let_go, forget), 0);
	pmv_fork_lock(&lock);
	cr_expect_not(pmv_fork_trylock(&lock), "not twice, by who must not wait");
	child = begin_child();
	if (!child) {
		bool was_free = is_free(), was_held;

		pmv_fork_unlock(&lock);
		/* And as any other from there on. */
		pmv_fork_lock(&lock);
		pmv_fork_lock(&lock);
		pmv_fork_unlock(&lock);
		was_held = !is_free();
		pmv_fork_unlock(&lock);
		_exit(!whole && was_free && was_held && is_free() ? 0 : 1);
	}
	cr_expect_eq(status_of(child), 0);
	cr_expect_not(is_free());
	pmv_fork_unlock(&lock);
	cr_expect(is_free());
}

static unsigned int nested;
static pid_t grandchild;

/* fork_again -- a handler that forks: both go on with the fork that has called it */
static void fork_again(void)
{
	if (nested--)
		grandchild = fork();
}

Test(fork_lock, survives_a_handler_that_forks, .timeout = 60)
{
	pid_t child;

	/* The last one is called first. */
	cr_assert_eq(pthread_atfork(fork_again, NULL, NULL), 0);
	cr_assert_eq(pthread_atfork(hold, let_go, forget), 0);
	nested = 1;
	child = begin_child();
	if (!child)
		_exit(is_free() ? 0 : 1);
	/* Of the handler's fork: here it is the parent of one, and the child of another. */
	if (!grandchild) {
		alarm(20);
		_exit(status_of(child) || !is_free() ? 1 : 0);
	}
	cr_expect_eq(status_of(child), 0);
	cr_expect_eq(status_of(grandchild), 0);
	cr_expect(is_free());
	pmv_fork_lock(&lock);
	cr_expect_not(is_free());
	pmv_fork_unlock(&lock);
}

/* Its users */

static atomic_int calls;

static void count_call(struct pmv_watched *watched)
{
	eventfd_t value;

	eventfd_read(watched->fd, &value);
	atomic_fetch_add(&calls, 1);
}

static void never(struct pmv_watched *watched)
{
	(void) watched;
	abort();
}

static void use_poller(struct pmv_watched *watched)
{
	if (pmv_poller_enter())
		abort();
	pmv_poller_lock();
	if (pmv_poller_add(watched, EPOLLIN))
		abort();
	pmv_poller_unlock();
	eventfd_write(watched->fd, 1);
	while (!atomic_load(&calls))
		usleep(1000);
	atomic_store(&calls, 0);
}

static void remove_from_poller(struct pmv_watched *watched)
{
	pmv_poller_lock();
	pmv_poller_remove(watched);
	pmv_poller_unlock();
}

/* poll_as_child -- with what it watches itself, and not with its parent's */
static void poll_as_child(struct pmv_watched *parents)
{
	struct pmv_watched own = {.fd = eventfd(0, 0), .ready = count_call, .late = never};

	parents->until_ms = 1;
	use_poller(&own);
	remove_from_poller(parents);
	eventfd_write(own.fd, 1);
	while (!atomic_load(&calls))
		usleep(1000);
	remove_from_poller(&own);
	pmv_poller_leave();
	_exit(0);
}

Test(poller, begins_anew_in_a_child_whatever_its_parent_was_at, .timeout = 120)
{
	struct pmv_watched watched = {.fd = eventfd(0, 0), .ready = count_call, .late = never};

	use_poller(&watched);
	for (int held = 0; held < 2; held++) {
		pid_t child;

		if (held)
			pmv_poller_lock();
		child = begin_child();
		if (held)
			pmv_poller_unlock();
		if (!child)
			poll_as_child(&watched);
		cr_expect_eq(status_of(child), 0, "held: %d", held);
	}
	remove_from_poller(&watched);
	pmv_poller_leave();
}

#endif
