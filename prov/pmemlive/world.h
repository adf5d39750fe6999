/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world.h -- a target, its initiators, and what a seed makes of them
 *
 * Each is a process with a domain, a completion queue and an event queue of the provider's, over
 * the simulated core.  Its applications are in apps.c.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "core.h"
#include "objects/fabric.h"
#include "scheduler.h"

#define WORLD_INITIATORS 3
#define WORLD_EPS 2 /* of an initiator, at most */
#define WORLD_DEPTH 16
#define WORLD_REGION 65536

/* What an application does while it waits for completions. */
enum waits {
	WAITS_POLLING,    /* it reads its queue without pause */
	WAITS_SREAD,      /* fi_cq_sread, without a timeout */
	WAITS_SREAD_MS,   /* ... with a short one */
	WAITS_DESCRIPTOR, /* fi_trywait, then poll */
	WAITS_COUNTER,    /* fi_cntr_wait */
	WAITS_ASIDE,      /* a target that makes no call at all */
	WAITS_KINDS,
};

/* The target's memory. */
enum memory {
	MEMORY_DMP,
	MEMORY_PAGE,
	MEMORY_NONE,
	MEMORIES,
};

struct op {
	bool under_way;
	int64_t begin_ns;
	int64_t excused_ns; /* as it was then */
	int64_t synced_ns;
	struct fid_ep *ep;
	bool on_page;
	bool reads;
	bool notifies; /* the target's application */
};

struct party {
	struct sched_process process;
	struct core_domain core;
	struct pmv_core row;
	struct pmv_fabric fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid_cntr *cntr;
	struct fid_ep *eps[WORLD_INITIATORS * WORLD_EPS];
	struct party *peers[WORLD_INITIATORS * WORLD_EPS];
	unsigned int num_eps;
	enum waits waits;
	bool watches; /* its event queue */
	bool reaps;   /* a thread of its own reads the queue of an initiator */
	struct sched_task *sleeper, *watcher;
	bool ends;
	uint64_t wakes_before;
	int64_t worked_before_ns;
	/* Of an initiator: */
	unsigned int depth;
	int64_t most_pause_ns; /* between bursts */
	bool uses_page;
	struct op ops[WORLD_DEPTH];
	unsigned int num_ops;                    /* that are under way */
	bool is_away;                            /* it looks at none of them */
	uint64_t ended;                          /* so many have */
	bool lost[WORLD_INITIATORS * WORLD_EPS]; /* it knows that the connection is */
	/* What the target's application writes to, if it answers. */
	char *own_memory;
	struct fid_mr *own_mr;
};

struct world {
	struct party target;
	struct party initiators[WORLD_INITIATORS];
	unsigned int num_initiators;
	char *memory[MEMORIES];
	struct fid_mr *mr[MEMORIES];
	struct fi_info *info;
	char *source;
	/* What happens meanwhile. */
	int64_t bound_ns; /* in which an operation ends */
	bool stops;       /* processes are stopped for a while */
	bool cuts;        /* a connection ends */
	bool cut[WORLD_INITIATORS][WORLD_EPS];
	int64_t most_sync_ns;
	bool idles;
	bool notices; /* the target's application hears of some commits ... */
	bool answers; /* ... and commits something itself then */
	/* So long nobody had to do anything: processes were stopped; disks synced. */
	int64_t stopped_ns, stops_since_ns, synced_ns, syncs_since_ns;
	unsigned int syncs; /* that go on */
	/* What the target's application is to hear of, has heard of, and since when it has not. */
	uint64_t told, heard, answered;
	int64_t told_ns, told_excused_ns;
	/* What was seen. */
	uint64_t ops_ended, ops_failed;
	int64_t longest_ns;
};

extern struct world world;

/* world_choose -- what a seed stands for; tells: print it */
void world_choose(void);
void world_describe(void);

/* world_live -- from the first object that is opened to the last one that is closed */
void *world_live(void *arg);

/* world_time.c */

/* world_stopped_ns -- so long a process was stopped until now; world_synced_ns -- disks synced */
int64_t world_stopped_ns(void);
int64_t world_synced_ns(void);

/* world_setup.c */
void world_open(void);
void world_close(void);
void sure(int ret, const char *what);

/* apps.c: a burst of operations; who sleeps until something comes; who watches an event queue */
void *apps_burst(void *party);
void apps_start(struct party *party);
void apps_stop(struct party *party);
/* apps_deadline -- when the next operation must have ended */
int64_t apps_deadline_ns(void);
void apps_check(void);

#endif /* WORLD_H */
