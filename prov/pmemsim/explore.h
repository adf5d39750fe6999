/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explore.h -- all states that a world can get into
 *
 * A world is whatever lives in the arena's small objects, and in the spans that it
 * names, and offers steps.  The explorer takes every step of every state once: it keeps what
 * each one changes, and puts it back.  States are told apart by a 64-bit hash of
 * all that memory.
 */
#ifndef PMEMSIM_EXPLORE_H
#define PMEMSIM_EXPLORE_H

#include "arena.h"
#include "hw.h"

#define EXPLORE_MAX_SPANS 64

/* Memory that steps change, beside the arena's small objects. */
struct explore_span {
	char *start;
	size_t len;
	unsigned int groups; /* a bit for each: what steps of these change need not be told */
};

/* Memory in the arena that changes only where explore_changed is told, but for steps of `groups`.
 */
struct explore_told {
	const char *start;
	size_t len;
	unsigned int groups; /* a bit for each */
};

#define EXPLORE_MAX_TOLD 48

struct explore_world {
	void *world;
	size_t (*steps)(void *world, struct hw_step *steps);
	/* the arena is open meanwhile */
	void (*take)(void *world, struct hw_step step);
	/*
	 * Whose software is it, a bit?  0: hardware, which tells explore_changed of all that it
	 * changes, in the arena, too.
	 */
	unsigned int (*group)(struct hw_step step);
	/* NULL, or what is wrong with this state; final: nothing can happen any more */
	const char *(*check)(void *world, bool final);
	/* NULL, or whether all was done that there is to do: a random run ends then */
	bool (*is_over)(void *world);
	void (*describe)(void *world, struct hw_step step, char *buf, size_t len);
	size_t num_spans;
	struct explore_span spans[EXPLORE_MAX_SPANS];
	size_t num_told;
	struct explore_told told[EXPLORE_MAX_TOLD]; /* by their addresses */
};

struct explore_result {
	uint64_t states;
	uint64_t steps;
	uint64_t finals;
	bool stopped;         /* there were more states than were to be looked at */
	char wrong[256];      /* empty: nothing is */
	struct hw_step *path; /* how to get there; to be freed */
	size_t path_len;
};

/* explore -- every state, at most max_states; the world is left as it was */
struct explore_result explore(struct explore_world *world, uint64_t max_states);

/*
 * explore_random -- one run of random steps, until none is left or max_steps are
 * taken; the world is left where it came to
 */
struct explore_result explore_random(struct explore_world *world, uint64_t seed,
				     uint64_t max_steps);

/*
 * explore_shorten -- leave out steps of a path as long as the same thing goes
 * wrong; the world is as it was before the path, and is left so
 */
void explore_shorten(struct explore_world *world, struct explore_result *result);

/*
 * explore_write_path, explore_read_path -- a path as text that has no blanks, to be
 * given again; NULL: it is none.  The result is to be freed with g_free.
 */
char *explore_write_path(const struct hw_step *path, size_t len);
struct hw_step *explore_read_path(const char *text, size_t *len);

/* explore_tell -- take a path, print each step and what is wrong then; the world is put back */
void explore_tell(struct explore_world *world, const struct hw_step *path, size_t len);

/* explore_changed -- a step may have changed that; nothing that it leaves as it was costs much */
void explore_changed(const void *addr, size_t len);

/*
 * explore_audit -- after every so many steps of `explore`, all memory is compared, and a change
 * that was not told ends the program
 */
extern unsigned int explore_audit;

#endif /* PMEMSIM_EXPLORE_H */
