/* SPDX-License-Identifier: BSD-2-Clause */
/* world_impl.h -- what a world consists of: for world*.c, setup.c and invariants.c */
#ifndef PMEMSIM_WORLD_IMPL_H
#define PMEMSIM_WORLD_IMPL_H

#include <ucontext.h>

#include "objects/ep.h"
#include "pmemsim.h"
#include "world.h"

#define STACK_SIZE 16384
#define LARGE_REQUESTS 4096

struct op_state {
	bool accepted;
	bool succeeded;
	bool failed;
	bool noticed;
	uint8_t told; /* how often it has completed */
	uint8_t notices;
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

struct world {
	struct world_config config;
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

	/* The agent, in the middle of what it does or not. */
	bool looking;
	bool drain_due;
	bool sync_due;
	char *sync_addr;
	size_t sync_len;
	const char *agent_does; /* when it goes on */
	ucontext_t agent;
	char *stack;
	uint64_t *data; /* a page for each operation, which stays what it is */
	void *batch;    /* what its batch is like while it does nothing */
};

/* Whose software a step is. */
enum {
	GROUP_HOME = 1 << 0,
	GROUP_AWAY = 1 << 1,
};

/* The world whose step is taken: what the provider calls is told of no world. */
extern struct world *world_current;

bool world_mutates(enum world_mutation mutation);

/* world_cpu.c: how the target's processor writes memory back */
extern const struct pmv_flush_ops world_cpu;

/* world_port -- of the core's endpoint below one of the provider's */
struct hw_port *world_port(struct fid_ep *ep);

/* world_prepare_agent -- with the arena closed: what it needs is no part of a state */
void world_prepare_agent(void);

/* world_run_agent -- until it pauses or has nothing to do; what its stack held is wiped */
void world_run_agent(struct world *world);

/* setup.c: both ends and what is between them; the arena is open */
void world_set_up(struct world *world);
void world_tear_down(struct world *world);

/* world_add_spans -- name all that is large and may change */
void world_add_spans(struct world *world, struct explore_world *explored);

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
