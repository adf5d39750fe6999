/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_world.h -- a target and its initiators over FI_EP_RDM, and what a seed makes of them
 *
 * Each life of a process is a party.  A process that was killed may come back as another one, at
 * the same address.
 */
#ifndef RDM_WORLD_H
#define RDM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "core.h"
#include "scheduler.h"
#include "world.h"

#define RDM_TARGET 0 /* the place of the target; those of initiators follow */
#define RDM_PLACES (1 + WORLD_INITIATORS)
#define RDM_LIVES 12 /* of all processes, at most */
#define RDM_DEPTH 8
#define RDM_SECOND_NS INT64_C(1000000000)

enum rdm_kind {
	RDM_WRITE,
	RDM_READ,
	RDM_SEND,
	RDM_FETCH,
	RDM_ADD,
	RDM_KINDS,
};

struct rdm_op {
	bool used;
	bool accepted; /* it was posted; else it is called for again and again */
	uint64_t number;
	enum rdm_kind kind;
	int place; /* whom it is for */
	/* When it was called for first, or was accepted: */
	int64_t begin_ns, excused_ns;
	uint64_t harms; /* of that link */
	uint64_t result;
};

struct rdm_party {
	struct sched_process process;
	struct core_domain core;
	int place;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	char *memory;
	unsigned int rests;  /* of who polls, since something was there */
	uint64_t seen_harms; /* when it rested last */
	char received[64];
	fi_addr_t peers[RDM_PLACES];
	enum waits waits;
	unsigned int depth;
	int64_t most_pause_ns;
	struct rdm_op ops[RDM_DEPTH];
	struct sched_task *burst, *sleeper;
	bool ends; /* who sleeps is to go on */
	bool away; /* it looks at nothing */
	bool done; /* it has nothing more to post */
	bool receives;
	bool killed;
	uint64_t ended;
	uint64_t failed_in_a_row;     /* while its peers were there */
	uint64_t born[RDM_PLACES];    /* it has begun behind so many harms */
	uint64_t settled[RDM_PLACES]; /* and an operation has succeeded behind so many */
	/* While all are idle. */
	uint64_t wakes_before;
	int64_t worked_before_ns;
};

/* Between the target and an initiator. */
struct rdm_link {
	int64_t bad_since_ns; /* one of them is not there; or 0 */
	bool silent;          /* and nobody says so */
	/* The last such time, or several with too little time to connect between them. */
	int64_t bad_from_ns, bad_to_ns;
	int64_t harmed_ns; /* the last harm */
	uint64_t harms;
	/* That many when it began, and when the last one began that was long enough to give up. */
	uint64_t bad_harms, gone_harms;
};

struct rdm_world {
	struct rdm_party *at[RDM_PLACES]; /* who lives there now, or has lived last */
	struct rdm_link links[RDM_PLACES];
	struct rdm_party lives[RDM_LIVES];
	int num_lives, num_places;
	int64_t bound_ns;
	int timeout_s;
	bool fences, atomics, answers;
	bool threads; /* RxM has one of its own: FI_PROGRESS_AUTO */
	/* Accidents. */
	bool cuts, kills, silences, stops;
	bool accidents_end;
	int64_t stopped_ns, stops_since_ns, longest_stop_ns;
	bool idles;
	uint64_t ops_ended, ops_failed;
	int64_t longest_ns;
};

extern struct rdm_world rdm_world;

/* rdm_choose, rdm_describe -- what a seed stands for; rdm_live -- the world, from its beginning */
void rdm_choose(void);
void rdm_describe(void);
void *rdm_live(void *arg);

/* rdm_setup.c: rdm_open -- a process begins, at this place; rdm_kill, rdm_close -- it ends */
void rdm_open(int place);
void rdm_kill(struct rdm_party *party);
void rdm_close(struct rdm_party *party);
struct core_domain *rdm_core_of(const struct sched_process *process);

/* rdm_apps.c: what its application does */
void rdm_start_burst(struct rdm_party *party);
void rdm_start_sleep(struct rdm_party *party);
void rdm_stop_sleep(struct rdm_party *party);

/* rdm_harm.c: accidents, and what has to be done by when */
void *rdm_have_accidents(void *arg);
struct rdm_link *rdm_link_of(const struct rdm_party *party, int place);
int64_t rdm_stopped_ns(void);
int64_t rdm_deadline_ns(void);
void rdm_check(void);
/* rdm_check_calls -- at the end: nobody has called without pause */
void rdm_check_calls(void);
/* rdm_is_there -- the peer, since before the operation was begun */
bool rdm_is_there(const struct rdm_party *party, const struct rdm_op *op);
/* rdm_judge -- may such an operation fail? */
void rdm_judge(const struct rdm_party *party, const struct rdm_op *op, int err);

#endif /* RDM_WORLD_H */
