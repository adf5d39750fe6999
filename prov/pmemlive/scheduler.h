/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scheduler.h -- simulated processes, threads and time
 *
 * A thread is a coroutine; one runs at a time.  Which one goes on at each step is up to dice, which
 * a seed determines, and so is how long a step takes.  If nobody can go on, time jumps to when
 * somebody can.  Nothing else moves time.
 */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#define SCHED_NEVER INT64_MAX

struct sched_process {
	char name[16];
	int pid;
	int64_t stopped_until_ns;  /* as by SIGSTOP; SCHED_NEVER: it was killed */
	unsigned int common_locks; /* that its threads hold, and share with all processes here */
	uint64_t wakes;            /* so often a sleep of one of its threads has ended ... */
	int64_t worked_ns;         /* ... and so long they have run */
};

struct sched_task;

/* For what needs no greater precision, and would take longer than the world itself. */
#define SCHED_RARELY_NS 10000

/* Who simulates something that happens at a time of its own. */
struct sched_clockwork {
	/* when the next thing happens or is to have happened, after now; or SCHED_NEVER */
	int64_t (*next_ns)(void);
	/* what is due by now */
	void (*advance)(void);
	/* It may be so late, unless time is about to jump: SCHED_RARELY_NS, or 0. */
	int64_t every_ns;
	int64_t looks_ns;
	struct sched_clockwork *next;
};

extern int64_t sched_now_ns;
extern uint64_t sched_most_steps; /* a run that needs more does not end */
extern bool sched_traces;         /* without a trace it is faster, and sched_fail is silent */
extern unsigned int sched_lines;  /* so many of the trace's last ones are printed */
extern struct sched_task *sched_current; /* NULL: the simulation does not run */

/* sched_begin -- everything as it was never used; sched_run -- the first thread, until it ends */
void sched_begin(uint64_t seed);
void sched_run(struct sched_process *process, void *(*run)(void *arg), void *arg);
void sched_add(struct sched_clockwork *clockwork);
/* sched_keep_processor -- others have it rarely: what takes many steps would take too long */
void sched_keep_processor(void);

/* sched_dice -- one of so many numbers from 0 on; sched_one_in -- true, once in so many times */
uint64_t sched_dice(uint64_t sides);
bool sched_one_in(uint64_t sides);
/* sched_between -- both included */
int64_t sched_between(int64_t least, int64_t most);

struct sched_task *sched_spawn(struct sched_process *process, const char *name,
			       void *(*run)(void *arg), void *arg);
/* sched_process, sched_enter -- of the running thread: its process; it is in another one now */
struct sched_process *sched_process(void);
void sched_enter(struct sched_process *process);
void sched_name(struct sched_task *task, const char *name);
/* sched_join -- until it has ended; then it is gone */
void sched_join(struct sched_task *task);
/* sched_detach -- nobody will; it lives as long as the others, and does not keep them alive */
void sched_detach(struct sched_task *task);

/* sched_step -- the running thread has done something, and others may do something now */
void sched_step(void);
/* sched_spend -- it computes for so long */
void sched_spend(int64_t ns);
void sched_sleep(int64_t ns);

/*
 * sched_block -- until it is ready, or until that time; false: it is not ready.  why is for those
 * who read the trace.
 */
bool sched_block(const char *why, bool (*ready)(void *arg), void *arg, int64_t until_ns);

/* sched_steps -- so many there were */
uint64_t sched_steps(void);

/* sched_trace -- remember what happens; sched_fail -- print the end of that, and end */
__attribute__((format(printf, 1, 2))) void sched_trace(const char *format, ...);
__attribute__((format(printf, 1, 2), noreturn)) void sched_fail(const char *format, ...);
/* sched_show -- print so many of the last lines */
void sched_show(unsigned int lines);

#endif /* SCHEDULER_H */
