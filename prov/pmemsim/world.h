/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world.h -- pmemverbs at both ends of the model, a program, and what must hold
 *
 * The program is a list of writes and messages that an initiator posts in order,
 * whenever the scheduler lets it; its completions, the target's agent and the
 * target's completions are steps as well.  After each step the invariants of a
 * durable write are checked: what a power failure would leave now must have all
 * that anybody was told is durable, and nothing of a fenced write before all that
 * it is to follow.
 *
 * A mutation does one thing wrong on the way between the provider and the
 * hardware: it must be found out.
 */
#ifndef PMEMSIM_WORLD_H
#define PMEMSIM_WORLD_H

#include "explore.h"
#include "memory/key.h"

#define WORLD_MAX_OPS 400
#define WORLD_MAX_EPS 4
#define WORLD_MAX_REGIONS 3
#define WORLD_NEVER_DIES UINT32_MAX
/* A region of its own: volatile memory, for messages. */
#define WORLD_DRAM WORLD_MAX_REGIONS

enum world_kind {
	WORLD_WRITE,
	WORLD_ATOMIC, /* of 8 bytes */
	WORLD_SEND,
};

struct world_op {
	enum world_kind kind;
	unsigned int ep;
	unsigned int region; /* of a message: where it is received */
	size_t offset;       /* offset and length are multiples of 8 */
	size_t len;
	bool commit;
	bool fence;
	bool notice;  /* the target hears of it once it is durable */
	bool deliver; /* it completes once it is visible */
};

enum world_mutation {
	MUTATION_NONE,
	MUTATION_FLUSH_DROPPED,   /* no READ behind the write */
	MUTATION_FLUSH_EMPTY,     /* the READ has no bytes */
	MUTATION_FLUSH_TOO_SOON,  /* the READ stands before the write */
	MUTATION_ORDER_DROPPED,   /* no READ in front of a fenced write */
	MUTATION_FENCE_IGNORED,   /* neither the provider nor the NIC hears of a fence */
	MUTATION_NOTICE_TOO_SOON, /* the immediate is not fenced behind the flush */
	MUTATION_ACK_TOO_SOON,    /* the agent acknowledges, then waits for its flushes */
	MUTATION_STORE_TOO_SOON,  /* the agent stores, then waits for earlier flushes */
	MUTATION_LINE_LEFT_OUT,   /* the agent flushes one cache line too few */
	MUTATION_PAGE_LEFT_OUT,   /* the agent syncs one page too few */
	MUTATION_NOT_TOUCHED,     /* the kernel does not hear what a device has written */
	MUTATION_NOT_AWAITED,     /* the agent does not wait until pages are written */
	MUTATION_PLACED_TOO_SOON, /* the core says that data are in place, then places them */
	MUTATION_DIRTY_LOST,      /* a write is forgotten when there are too many ranges */
	MUTATION_PERSIST_DROPPED, /* no RDMA FLUSH behind the write */
	MUTATION_PERSIST_GLOBAL,  /* it is of the global type */
	MUTATION_PERSIST_OTHER,   /* it is of another range */
	MUTATION_PERSIST_OWN,     /* it is of the last bytes of its range alone */
	MUTATION_PERSIST_FENCED,  /* a fence is believed to wait for it */
	MUTATION_TAIL_FIRST,      /* no RDMA FLUSH in front of the ATOMIC WRITE */
	MUTATION_TAIL_GLOBAL,     /* that one is of the global type */
	MUTATION_TAIL_WRITE,      /* an ordinary WRITE between both FLUSHes */
	MUTATION_TAIL_ANY,        /* data of any length and place are taken for atomic */
	MUTATION_SLOTS_IGNORED,   /* more under way than the target has slots for */
};

struct world_app;

struct world_config {
	struct hw_rules rules;
	enum pmv_persist domain;
	/* What the target and the initiator take for true; what is, unless it is a mutation. */
	struct {
		enum pmv_persist domain;
		bool ddio;
		bool relaxed;
		bool local;
	} believed;
	enum world_mutation mutation;
	bool commit_all;        /* FI_PMEMVERBS_COMMIT */
	bool stores;            /* requests take small data along */
	bool passes;            /* writes have no order: plain ones may pass such data */
	bool flushes;           /* the core has lists, and RDMA FLUSH ... */
	bool atomic_writes;     /* ... and ATOMIC WRITE */
	bool delivers;          /* the core does what FI_DELIVERY_COMPLETE says, as tcp does */
	bool events;            /* FI_RMA_EVENT: with one endpoint only */
	bool one_kind;          /* FI_OPT_PMEMVERBS_RECV_MR: no message is received in DRAM */
	unsigned int dies_from; /* so many operations are posted before a connection may be lost */
	unsigned int failing;   /* a bit for each region, whose first sync fails */
	bool reduced;           /* steps that commute with all others are taken at once */
	unsigned int room;      /* of a send queue */
	unsigned int num_eps;
	unsigned int num_regions;
	size_t region_size;
	unsigned int num_ops;
	const struct world_op *ops; /* has to stay there */
	/*
	 * Another application: world_impl.h.  Then there are no operations, and num_ops says how
	 * many it posts at most.
	 */
	const struct world_app *app;
	const void *arg; /* what it is to know */
};

/* world_believe -- what is true */
void world_believe(struct world_config *config);

/* world_open -- the world lives in the arena, which is reset */
void world_open(struct explore_world *world, const struct world_config *config);
void world_close(struct explore_world *world);

/* world_print_program -- one line an operation */
void world_print_program(const struct world_config *config);

#endif /* PMEMSIM_WORLD_H */
