/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_chain.h -- what a target is asked: the steps of each request */
#ifndef PMEM_RS_CHAIN_H
#define PMEM_RS_CHAIN_H

#include "rs_replica.h"

enum {
	RS_STEP_BUSY,     /* the stage is in use ... */
	RS_STEP_TAG,      /* words 0, 1 = the record's tag */
	RS_STEP_ALLOCATE, /* word 2 = a buffer with the stage's head in it */
	RS_STEP_CLAIM,
	RS_STEP_VALUE,
	RS_STEP_SWING, /* the slot = words 0, 1, 2, if its tag is smaller; these = the old ones */
	RS_STEP_OLD,   /* the claim = word 2 */
	RS_STEP_TOUCH, /* the slot as it is, if its tag is no smaller */
	RS_STEP_MARK,
	RS_STEP_TAKE, /* word 0 = the claim, if there is one */
	RS_STEP_FREE, /* at word 0 */
	RS_STEP_IDLE, /* ... and is not any more */
	RS_STEPS,
};

/* rs_make -- the request's steps, of which it returns the number; 0: it is no chain */
size_t rs_make(struct rs_replica *replica);

/* rs_judge -- a chain has ended without an error: was the request answered?  If not, there was no
 * buffer. */
bool rs_judge(struct rs_replica *replica);

#endif /* PMEM_RS_CHAIN_H */
