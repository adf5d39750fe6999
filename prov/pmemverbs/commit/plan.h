/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plan.h -- the steps of one operation, as a pure function of what is known
 *
 * The method says what proves durability (method.h).  The plan lists the steps to that proof,
 * in their order.  The interpreter (interpreter.h) takes them one by one.  Neighbouring steps of
 * one work request each are posted together (post.h).
 */
#ifndef PMV_PLAN_H
#define PMV_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "commit/method.h"

enum pmv_step_kind {
	/* One work request each: */
	PMV_STEP_FLUSH_BEFORE, /* a READ; the data are fenced behind it: earlier data come first */
	PMV_STEP_PERSIST_BEFORE, /* an RDMA FLUSH, if one is needed; the data are an ATOMIC WRITE */
	PMV_STEP_DATA,           /* the write, atomic or message itself */
	PMV_STEP_FLUSH,          /* a READ behind the data */
	PMV_STEP_PERSIST,   /* an RDMA FLUSH behind the data, posted with them (rdma_flush.h) */
	PMV_STEP_IMMEDIATE, /* a write of 0 bytes with immediate data, fenced behind the flush */
	/* Others: */
	PMV_STEP_READ_BACK, /* READs of all that the request names: nothing else keeps an order */
	PMV_STEP_ASK,       /* the flush request goes to the agent, in one message or several */
	PMV_STEP_AWAIT,     /* wait for the agent's acknowledgement */
	PMV_STEP_JOIN,      /* wait for a flush that covers many operations (group.h) */
	PMV_STEP_PLAN,      /* plan the operation itself: all before it is durable now */
};

struct pmv_step {
	uint8_t kind;       /* enum pmv_step_kind */
	bool fence : 1;     /* behind the READs and atomics that were posted before */
	bool immediate : 1; /* DATA takes immediate data along; ASK has the agent notify */
	bool payload : 1;   /* ASK takes the data along, and the agent stores them */
	bool delivered : 1; /* DATA complete when they are in place */
	bool more : 1;      /* the core gets the next request at once (FI_MORE) */
};

/* The longest: FLUSH_BEFORE, DATA, FLUSH, READ_BACK, ASK, AWAIT, IMMEDIATE. */
#define PMV_MAX_STEPS 7

struct pmv_plan {
	struct pmv_step steps[PMV_MAX_STEPS];
	uint8_t count;
	uint8_t data : 4; /* the index of DATA, or PMV_MAX_STEPS */
	uint8_t ask : 4;  /* likewise */
};

_Static_assert(sizeof(struct pmv_plan) == 16, "every run has a copy, made by one instruction");

/* What a plan depends on besides the method. */
struct pmv_plan_facts {
	bool fenced;     /* the call has FI_FENCE, or an earlier read has left a fence due */
	bool atomic;     /* it carries no immediate data */
	bool injected;   /* the core does not say when it is done */
	bool immediate;  /* the target's application is to be notified */
	bool notifies;   /* the agent can do that */
	bool unordered;  /* earlier data went over a path that keeps no order */
	bool stored;     /* the data travel in the request, and the agent stores them */
	bool grouped;    /* one flush covers it and others */
	bool event;      /* the agent tells the target's application of it */
	bool event_only; /* that is all: it does not commit */
	bool delivers;   /* the core says when the data are in place */
};

/*
 * pmv_plan_operation -- the steps of an operation
 * pmv_plan_flush -- a flush alone: by the agent, by a READ, or both
 */
struct pmv_plan pmv_plan_operation(const struct pmv_choice *choice,
				   const struct pmv_plan_facts *facts);
struct pmv_plan pmv_plan_flush(bool agent, bool read, bool unordered);

#endif /* PMV_PLAN_H */
