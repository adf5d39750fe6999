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
#define MOST_LINES 65536
/* A step takes so long, and up to so much longer. */
#define LEAST_STEP_NS 20
#define STEP_RANGE_NS 180
/* It takes so long until a thread goes on that was woken. */
#define MOST_WAKE_NS 2000
/* Whoever is to keep its processor loses it after so many steps. */
#define KEEPS_FOR 5000
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
	int64_t looks_ns;      /* whether it is ready is asked from then on */
	int64_t away_until_ns; /* another program has its processor */
	uint64_t priority;
	/* What threads have of their own. */
	int saved_errno;
	unsigned int guard_depth;
	struct pmv_guard_source guard_source;
	struct pmv_rdm_posting posting;
};

int64_t sched_now_ns;
bool sched_traces;
unsigned int sched_lines = 60;
uint64_t sched_most_steps = 60000000;
struct sched_task *sched_current;

static TAILQ_HEAD(, sched_task) tasks = TAILQ_HEAD_INITIALIZER(tasks);
static struct sched_task *chosen; /* goes on next; NULL: nobody is known */
static jmp_buf scheduler;
static struct sched_clockwork *clockworks;
static uint64_t dice_state;
static uint64_t steps;
static int64_t begin_ns;    /* since then the running thread does */
static int64_t attached_ns; /* when a thread that is not detached has gone on */
/* Of a run: others may go on after so many steps of 2^24, and have the processor for long after so
 * many of 2^32. */
static uint64_t switch_limit, away_limit;
/* Or whoever has the highest priority goes on, which changes so rarely; 0: anybody may. */
static uint64_t priority_sides;

static char lines[MOST_LINES][120];
static unsigned int num_lines;

/* Dice: splitmix64 */

static uint64_t draw(void)
{
	uint64_t z = dice_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t sched_dice(uint64_t sides)
{
	return (uint64_t) (((unsigned __int128) draw() * sides) >> 64);
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
	int64_t us = sched_now_ns / 1000;
	va_list args;
	char *line;
	int len;

	if (!sched_traces)
		return;
	line = lines[num_lines++ % MOST_LINES];
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

	/* The world is lived once more, with a trace. */
	if (!sched_traces)
		_exit(1);
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
	uint64_t switch_in, away_in;

	dice_state = seed;
	sched_now_ns = INT64_C(1000000000);
	switch_in = (uint64_t[]){2, 4, 16, 64}[sched_dice(4)];
	priority_sides = (uint64_t[]){0, 20, 20, 100}[sched_dice(4)];
	/* Whoever polls at the highest priority is not to keep the processor. */
	if (priority_sides && switch_in > 4)
		switch_in = 4;
	away_in = (uint64_t[]){500, 5000, 50000, UINT64_C(1) << 40}[sched_dice(4)];
	switch_limit = (1 << 24) / switch_in;
	away_limit = (UINT64_C(1) << 32) / away_in;
}

void sched_keep_processor(void)
{
	uint64_t most = (UINT64_C(1) << 32) / KEEPS_FOR;

	away_limit = away_limit < most ? away_limit : most;
}

void sched_add(struct sched_clockwork *clockwork)
{
	clockwork->next = clockworks;
	clockworks = clockwork;
}

static struct sched_task *choose(void);

/* leave -- unless the running thread is the one that goes on */
static void leave(void)
{
	struct sched_task *task = sched_current;
	int err = errno;

	sched_current = NULL;
	task->process->worked_ns += sched_now_ns - begin_ns;
	/* The first thread's end is the world's. */
	chosen = task->state == ENDED ? NULL : choose();
	begin_ns = sched_now_ns;
	sched_current = task;
	errno = err;
	if (chosen == task && task->state == RUNNABLE && steps <= sched_most_steps)
		return;
	if (!_setjmp(task->left))
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
	begin_ns = sched_now_ns;
	if (task->state == BLOCKED)
		task->process->wakes++;
	if (!task->detached)
		attached_ns = begin_ns;
	else if (begin_ns - attached_ns > MOST_DETACHED_NS)
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

/* advance -- what happens by itself: everywhere, or only where nobody has looked for long */
static void advance(bool everywhere)
{
	for (struct sched_clockwork *at = clockworks; at; at = at->next) {
		if (!everywhere && sched_now_ns < at->looks_ns)
			continue;
		at->looks_ns = sched_now_ns + at->every_ns;
		at->advance();
	}
}

/* is_ready -- it takes a while to be woken, so that is not asked each time */
static bool is_ready(struct sched_task *task, bool everywhere)
{
	if (!task->ready || (!everywhere && sched_now_ns < task->looks_ns))
		return false;
	task->looks_ns = sched_now_ns + sched_between(0, MOST_WAKE_NS);
	return task->ready(task->ready_arg);
}

static bool can_go_on(struct sched_task *task, bool everywhere)
{
	if (task->state == ENDED || task->process->stopped_until_ns > sched_now_ns ||
	    task->away_until_ns > sched_now_ns)
		return false;
	return task->state == RUNNABLE || task->until_ns <= sched_now_ns ||
	       is_ready(task, everywhere);
}

/* highest -- of those who can go on, the one with the highest priority */
static struct sched_task *highest(void)
{
	bool change = sched_one_in(priority_sides);
	struct sched_task *task, *first = NULL;

	TAILQ_FOREACH(task, &tasks, next)
	{
		if (change)
			task->priority = sched_dice(UINT64_MAX);
		if ((!first || task->priority > first->priority) && can_go_on(task, false))
			first = task;
	}
	return first;
}

/* anybody -- of those who can go on */
static struct sched_task *anybody(bool everywhere)
{
	struct sched_task *task, *one = NULL;
	uint64_t count = 0;

	TAILQ_FOREACH(task, &tasks, next)
	{
		if (can_go_on(task, everywhere) && sched_one_in(++count))
			one = task;
	}
	return one;
}

/* jump -- to when somebody may go on again */
static void jump(void)
{
	int64_t next = SCHED_NEVER, from;
	const struct sched_task *task;

	for (const struct sched_clockwork *at = clockworks; at; at = at->next) {
		from = at->next_ns();
		next = from < next ? from : next;
	}
	TAILQ_FOREACH(task, &tasks, next)
	{
		from = from_ns(task);
		next = from < next ? from : next;
	}
	if (next == SCHED_NEVER)
		sched_fail("nobody can go on, and nothing is to come");
	sched_now_ns = next > sched_now_ns ? next : sched_now_ns + 1;
}

/* choose -- one of those who can go on; NULL: time has jumped to when that may change */
static struct sched_task *choose(void)
{
	struct sched_task *one;

	advance(false);
	one = priority_sides ? highest() : anybody(false);
	if (one)
		return one;
	advance(true);
	one = anybody(true);
	if (!one)
		jump();
	return one;
}

void sched_run(struct sched_process *process, void *(*run)(void *arg), void *arg)
{
	struct sched_task *first = sched_spawn(process, "director", run, arg);

	while (first->state != ENDED) {
		struct sched_task *task = chosen ? chosen : choose();

		chosen = NULL;
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

/* take_time -- what may happen meanwhile is up to so many bits: others may go on */
static void take_time(int64_t ns, uint64_t bits)
{
	steps++;
	sched_now_ns += ns;
	/* Somebody else has the processor for a while. */
	if (bits >> 32 < away_limit)
		sched_current->away_until_ns = sched_now_ns + sched_between(10000, 1000000);
	else if ((bits & UINT32_MAX) >> 8 >= switch_limit)
		return;
	leave();
}

void sched_step(void)
{
	uint64_t bits;

	if (!sched_current)
		return;
	bits = draw();
	take_time(LEAST_STEP_NS + (int64_t) (bits & 0xff) * STEP_RANGE_NS / 0xff, bits);
}

void sched_spend(int64_t ns)
{
	take_time(ns, draw());
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
