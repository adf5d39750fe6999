/* SPDX-License-Identifier: BSD-2-Clause */
/* scheduler.c -- simulated processes, threads and time; scheduler.h has the rules */
#include "scheduler.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <ucontext.h>
#include <unistd.h>

#include "memory/guard.h"
#include "rdm/rdm_posting.h"
#include "testcore/fid.h"

#define STACK_SIZE (256 << 10)
#define MOST_LINES 4096
/* If only detached threads go on for so long, nobody else ever does. */
#define MOST_DETACHED_NS INT64_C(1000000000000)

enum state {
	RUNNABLE,
	BLOCKED,
	ENDED,
};

struct sched_task {
	TAILQ_ENTRY(sched_task) next;
	ucontext_t beginning;
	bool begun;
	jmp_buf left; /* where it goes on; swapcontext() would make a system call each time */
	char *stack;
	char name[24];
	struct sched_process *process;
	void *(*run)(void *arg);
	void *run_arg;
	enum state state;
	bool detached;
	const char *why;
	bool (*ready)(void *arg);
	void *ready_arg;
	int64_t until_ns;
	int64_t away_until_ns; /* another program has its processor */
	uint64_t priority;
	/* What threads have of their own. */
	int saved_errno;
	unsigned int guard_depth;
	struct pmv_guard_source guard_source;
	struct pmv_rdm_posting posting;
};

int64_t sched_now_ns;
unsigned int sched_lines = 60;
uint64_t sched_most_steps = 60000000;
struct sched_task *sched_current;

static TAILQ_HEAD(, sched_task) tasks = TAILQ_HEAD_INITIALIZER(tasks);
static jmp_buf scheduler;
static struct sched_clockwork *clockworks;
static uint64_t dice_state;
static uint64_t steps;
static int64_t attached_ns; /* when a thread that is not detached has gone on */
/* Of a run: others go on after one step in so many, and have the processor for long so rarely. */
static uint64_t switch_sides, away_sides;
/* Or whoever has the highest priority goes on, which changes so rarely; 0: anybody may. */
static uint64_t priority_sides;

static char lines[MOST_LINES][120];
static unsigned int num_lines;

/* Dice: splitmix64 */

uint64_t sched_dice(uint64_t sides)
{
	uint64_t z = dice_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % sides;
}

bool sched_one_in(uint64_t sides)
{
	return !sched_dice(sides);
}

int64_t sched_between(int64_t least, int64_t most)
{
	return least + (int64_t) sched_dice((uint64_t) (most - least + 1));
}

/* The trace */

void sched_trace(const char *format, ...)
{
	char *line = lines[num_lines++ % MOST_LINES];
	int64_t us = sched_now_ns / 1000;
	va_list args;
	int len;

	len = snprintf(line, sizeof(lines[0]), "%4d.%06d %03d  %-8.8s %-14.14s ",
		       (int) (us / 1000000), (int) (us % 1000000), (int) (sched_now_ns % 1000),
		       sched_current ? sched_current->process->name : "",
		       sched_current ? sched_current->name : "");
	va_start(args, format);
	vsnprintf(line + len, sizeof(lines[0]) - len, format, args);
	va_end(args);
}

void sched_show(unsigned int most)
{
	unsigned int first = num_lines > most ? num_lines - most : 0;

	for (unsigned int i = first; i < num_lines; i++)
		puts(lines[i % MOST_LINES]);
}

static void show_tasks(void)
{
	struct sched_task *task;

	TAILQ_FOREACH(task, &tasks, next)
	{
		printf("  %-8s %-14s %s", task->process->name, task->name,
		       task->state == RUNNABLE  ? "can go on"
		       : task->state == BLOCKED ? task->why
						: "has ended");
		if (task->state == BLOCKED && task->until_ns != SCHED_NEVER)
			printf(", until %.6f", (double) task->until_ns / 1e9);
		putchar('\n');
	}
}

void sched_fail(const char *format, ...)
{
	va_list args;

	sched_show(sched_lines);
	show_tasks();
	printf("%.6f s: ", (double) sched_now_ns / 1e9);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	_exit(1);
}

/* Threads */

void sched_begin(uint64_t seed)
{
	dice_state = seed;
	sched_now_ns = INT64_C(1000000000);
	switch_sides = (uint64_t[]){2, 4, 16, 64}[sched_dice(4)];
	priority_sides = (uint64_t[]){0, 20, 20, 100}[sched_dice(4)];
	/* Who polls at the highest priority is not to keep the processor. */
	if (priority_sides && switch_sides > 4)
		switch_sides = 4;
	away_sides = (uint64_t[]){500, 5000, 50000, UINT64_C(1) << 40}[sched_dice(4)];
}

void sched_add(struct sched_clockwork *clockwork)
{
	clockwork->next = clockworks;
	clockworks = clockwork;
}

static void leave(void)
{
	if (!_setjmp(sched_current->left))
		_longjmp(scheduler, 1);
}

static void enter(void)
{
	struct sched_task *task = sched_current;

	task->run(task->run_arg);
	sched_current->state = ENDED;
	leave();
}

/* go_on -- from where the thread was left, until it leaves again */
static void go_on(struct sched_task *task)
{
	if (_setjmp(scheduler))
		return;
	if (task->begun)
		_longjmp(task->left, 1);
	task->begun = true;
	setcontext(&task->beginning);
}

struct sched_task *sched_spawn(struct sched_process *process, const char *name,
			       void *(*run)(void *arg), void *arg)
{
	struct sched_task *task = testcore_need(calloc(1, sizeof(*task)));

	task->stack = testcore_need(malloc(STACK_SIZE));
	task->process = process;
	task->run = run;
	task->run_arg = arg;
	task->priority = sched_dice(UINT64_MAX);
	sched_name(task, name);
	getcontext(&task->beginning);
	task->beginning.uc_stack.ss_sp = task->stack;
	task->beginning.uc_stack.ss_size = STACK_SIZE;
	makecontext(&task->beginning, enter, 0);
	TAILQ_INSERT_TAIL(&tasks, task, next);
	return task;
}

void sched_name(struct sched_task *task, const char *name)
{
	snprintf(task->name, sizeof(task->name), "%s", name);
}

struct sched_process *sched_process(void)
{
	return sched_current->process;
}

void sched_enter(struct sched_process *process)
{
	sched_current->process = process;
}

static void forget(struct sched_task *task)
{
	TAILQ_REMOVE(&tasks, task, next);
	free(task->stack);
	free(task);
}

static bool has_ended(void *arg)
{
	return ((struct sched_task *) arg)->state == ENDED;
}

void sched_join(struct sched_task *task)
{
	sched_block("waits for a thread's end", has_ended, task, SCHED_NEVER);
	forget(task);
}

void sched_detach(struct sched_task *task)
{
	task->detached = true;
}

/* resume -- a thread, until it lets others go on */
static void resume(struct sched_task *task)
{
	int64_t begin = sched_now_ns;

	if (task->state == BLOCKED)
		task->process->wakes++;
	if (!task->detached)
		attached_ns = begin;
	else if (begin - attached_ns > MOST_DETACHED_NS)
		sched_fail("nobody can go on, and nothing is to come");
	task->state = RUNNABLE;
	errno = task->saved_errno;
	pmv_guard_depth = task->guard_depth;
	pmv_guard_source = task->guard_source;
	pmv_rdm_posting = task->posting;
	sched_current = task;
	go_on(task);
	sched_current = NULL;
	task->saved_errno = errno;
	task->guard_depth = pmv_guard_depth;
	task->guard_source = pmv_guard_source;
	task->posting = pmv_rdm_posting;
	task->process->worked_ns += sched_now_ns - begin;
}

/* from_ns -- a thread may run from then on, as far as is known */
static int64_t from_ns(const struct sched_task *task)
{
	int64_t from = task->process->stopped_until_ns;

	if (task->state == ENDED || from == SCHED_NEVER)
		return SCHED_NEVER;
	if (task->away_until_ns > from)
		from = task->away_until_ns;
	if (task->state == BLOCKED && !(task->ready && task->ready(task->ready_arg)) &&
	    task->until_ns > from)
		from = task->until_ns;
	return from;
}

static int64_t advance(void)
{
	int64_t next = SCHED_NEVER;

	for (struct sched_clockwork *at = clockworks; at; at = at->next) {
		at->advance();
		if (at->next_ns() < next)
			next = at->next_ns();
	}
	return next;
}

/* precedes -- is it to go on rather than the other one, if so many could? */
static bool precedes(struct sched_task *task, const struct sched_task *other, uint64_t count)
{
	if (!priority_sides)
		return sched_one_in(count);
	if (sched_one_in(priority_sides))
		task->priority = sched_dice(UINT64_MAX);
	return !other || task->priority > other->priority;
}

/* choose -- one of those who can go on; NULL: time has jumped to when that may change */
static struct sched_task *choose(void)
{
	int64_t next = advance();
	struct sched_task *task, *chosen = NULL;
	uint64_t count = 0;

	TAILQ_FOREACH(task, &tasks, next)
	{
		int64_t from = from_ns(task);

		if (from > sched_now_ns)
			next = from < next ? from : next;
		else if (precedes(task, chosen, ++count))
			chosen = task;
	}
	if (chosen)
		return chosen;
	if (next == SCHED_NEVER)
		sched_fail("nobody can go on, and nothing is to come");
	sched_now_ns = next > sched_now_ns ? next : sched_now_ns + 1;
	return NULL;
}

void sched_run(struct sched_process *process, void *(*run)(void *arg), void *arg)
{
	struct sched_task *first = sched_spawn(process, "director", run, arg);

	while (first->state != ENDED) {
		struct sched_task *task = choose();

		if (task)
			resume(task);
		if (steps > sched_most_steps)
			sched_fail("this takes too many steps");
	}
	forget(first);
	TAILQ_FOREACH(first, &tasks, next)
	{
		if (!first->detached && first->process->stopped_until_ns != SCHED_NEVER)
			sched_fail("there are threads left");
	}
}

static void take_time(int64_t ns)
{
	steps++;
	sched_now_ns += ns;
	/* Somebody else has the processor for a while. */
	if (sched_one_in(away_sides))
		sched_current->away_until_ns = sched_now_ns + sched_between(10000, 1000000);
	else if (!sched_one_in(switch_sides))
		return;
	leave();
}

void sched_step(void)
{
	if (sched_current)
		take_time(sched_between(20, 200));
}

void sched_spend(int64_t ns)
{
	take_time(ns);
}

bool sched_block(const char *why, bool (*ready)(void *arg), void *arg, int64_t until_ns)
{
	struct sched_task *task = sched_current;

	steps++;
	sched_now_ns += 100;
	task->why = why;
	task->ready = ready;
	task->ready_arg = arg;
	/* No sleep ends in time. */
	task->until_ns = until_ns == SCHED_NEVER ? until_ns : until_ns + sched_between(500, 60000);
	task->state = BLOCKED;
	leave();
	return ready && ready(arg);
}

void sched_sleep(int64_t ns)
{
	sched_block("sleeps", NULL, NULL, sched_now_ns + ns);
}

uint64_t sched_steps(void)
{
	return steps;
}
