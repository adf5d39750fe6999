/* SPDX-License-Identifier: BSD-2-Clause */
/* world_impl.h -- what a world consists of: for world*.c, setup.c and invariants.c */
#ifndef PMEMSIM_WORLD_IMPL_H
#define PMEMSIM_WORLD_IMPL_H

#include "objects/ep.h"
#include "pmemsim.h"
#include "world.h"

#define STACK_SIZE 16384
#define LARGE_REQUESTS 4096
#define WORLD_MAX_OTHERS 2

struct world;

struct op_state {
	bool accepted;
	bool succeeded;
	bool failed;
	bool noticed;
	uint8_t told; /* how often it has completed */
	uint8_t notices;
	uint16_t failed_at; /* so many operations were posted when its failure was told */
};

struct end {
	struct fid_fabric *sim_fabric;
	struct pmv_core core;
	struct pmv_fabric fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *eps[WORLD_MAX_EPS];
	struct explore_told own; /* endpoints, which only its own software changes */
};

/*
 * A thread of the target's processor, in the middle of what it does or not.  Between its steps it
 * stands in world_pause.
 */
struct world_thread {
	bool runs;
	const char *does; /* when it goes on */
	char *stack;
	char *top; /* of what is on it; no red zone is below: a call has led there */
	void (*body)(struct world *world);
};

/*
 * What runs on top of pmemverbs at both ends.  Its objects are in the arena, or in spans of its
 * own.
 */
struct world_app {
	enum fi_cq_format cq_format;
	uint64_t transmit; /* flags of a queue for what is posted */
	/* poll_away has a thread: it may world_pause, and is called again when it has returned */
	bool threaded;
	unsigned int others; /* more threads, which run_other is for; threaded, too */
	/*
	 * Fills the target's memory, and says with hw_memory what of it persists.  NULL: zeros, and
	 * all of it.
	 */
	void (*make_memory)(struct world *world, enum hw_domain domain);
	void (*open)(struct world *world);    /* both ends are connected; the arena is open */
	void (*prepare)(struct world *world); /* it is closed; NULL */
	/* Who makes memory names it, too; and what it has of one end alone. */
	void (*add_spans)(const struct world *world, struct explore_world *explored);
	/* NULL, or tells what of that the target may have changed */
	void (*tell_used)(const struct world *world);
	void (*close)(struct world *world); /* NULL; the arena is open */
	void (*leave)(struct world *world); /* it is closed, and what was in it is gone */
	bool (*may_post)(const struct world *world);
	void (*post)(struct world *world);
	void (*poll_home)(struct world *world);
	void (*poll_away)(struct world *world);
	/* run_other: what one of `others` does; other_may_run: it would find something to do */
	bool (*other_may_run)(const struct world *world, unsigned int other);
	void (*run_other)(struct world *world);
	const char *(*check)(void *world, bool final); /* as explore_world's */
	bool (*is_over)(void *world);                  /* NULL, or as explore_world's */
	void (*describe_post)(const struct world *world, char *buf, size_t len);
};

/* program.c: the operations of a world_config */
extern const struct world_app world_program;

struct world {
	struct world_config config;
	const struct world_app *app;
	void *own; /* the application's */
	struct sim *sim;
	struct fi_info *info;
	struct end home;
	struct end away;
	char *room[WORLD_MAX_REGIONS + 1]; /* what was allocated */
	char *memory[WORLD_MAX_REGIONS + 1];
	struct fid_mr *mr[WORLD_MAX_REGIONS];
	unsigned int next_op;
	unsigned int posted_in_step;
	struct op_state ops[WORLD_MAX_OPS];
	bool heard_of_loss[WORLD_MAX_EPS];
	unsigned int events; /* so many writes the target's application has heard of */
	char wrong[128];

	struct world_thread agent, target, others[WORLD_MAX_OTHERS];
	struct world_thread *running; /* during a step of theirs */
	unsigned int failed_syncs;    /* a bit for each region */
	bool drain_due;
	bool sync_due;
	char *sync_addr;
	size_t sync_len;
	uint64_t *data; /* a page for each operation, which stays what it is */
	void *batch;    /* what its batch is like while it does nothing */
};

/* Whose software a step is. */
enum {
	GROUP_HOME = 1 << 0,
	GROUP_AWAY = 1 << 1,
	GROUP_BOTH = GROUP_HOME | GROUP_AWAY,
};

/* The world whose step is taken: what the provider calls is told of no world. */
extern struct world *world_current;

bool world_mutates(enum world_mutation mutation);

/* world_cpu.c: how the target's processor writes memory back */
extern const struct pmv_flush_ops world_cpu;

/* world_port -- of the core's endpoint below one of the provider's */
struct hw_port *world_port(struct fid_ep *ep);

/* world_prepare_threads -- with the arena closed: what they need is no part of a state */
void world_prepare_threads(void);

/* world_pause -- anything may happen before the thread goes on; who has none goes on at once */
void world_pause(const char *next);

/*
 * world_run_agent, world_run_target, world_run_other -- until it pauses or has nothing to do; what
 * its stack held is wiped
 */
void world_run_agent(struct world *world);
void world_run_target(struct world *world);
void world_run_other(struct world *world, unsigned int other);

/*
 * world_read_away -- fi_cq_read of the target's application, which does not do the agent's work:
 * that has steps of its own
 */
ssize_t world_read_away(struct world *world, void *entries, size_t count);

/* world_sure -- what can't fail */
void world_sure(int ret);

/*
 * world_add_span -- memory that is no small object of the arena; what software of these groups
 * changes there nobody tells
 */
void world_add_span(struct explore_world *explored, void *start, size_t len, unsigned int groups);

/* world_add_told -- part of a small object: software of other groups does not change it */
void world_add_told(struct explore_world *explored, const void *start, size_t len,
		    unsigned int groups);

/* setup.c: both ends and what is between them; the arena is open */
void world_set_up(struct world *world);
void world_tear_down(struct world *world);

/* world_add_spans -- name all that is large and may change */
void world_add_spans(struct world *world, struct explore_world *explored);

/* world_add_files -- the memory of regions that are files; who has add_spans calls this */
void world_add_files(const struct world *world, struct explore_world *explored);

/*
 * world_add_batch -- what a program uses of a batch of requests
 * world_tell_batch -- what it has used by now may have changed
 */
void world_add_batch(const struct world *world, struct explore_world *explored,
		     struct pmv_writeback_batch *batch);
void world_tell_batch(const struct world *world, const struct pmv_writeback_batch *batch);

/* world_reset_batch -- the target's agent has nothing to do: its batch is as it was then */
void world_reset_batch(struct world *world);

/*
 * world_tell_used -- what software of an end may have changed of what is large.  It was used by
 * now: these counts never go down.
 */
void world_tell_used(struct world *world, const struct end *end);

/* world_check_room -- what is not in a span must not be used */
void world_check_room(struct world *world);

/* world_check -- invariants.c: NULL, or what is wrong; arg is the world */
const char *world_check(void *arg, bool final);

#endif /* PMEMSIM_WORLD_IMPL_H */
