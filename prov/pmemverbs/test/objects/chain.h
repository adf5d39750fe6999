/* SPDX-License-Identifier: BSD-2-Clause */
/* chain.h -- chains over a pair: posted by the application at home, executed away */
#ifndef TEST_CHAIN_H
#define TEST_CHAIN_H

#include "test/support/pair.h"

#define STEP(what, ...) ((struct fi_pmemverbs_step){.kind = FI_PMEMVERBS_STEP_##what, __VA_ARGS__})

#define POINTER 64  /* a pair of pointer and bound is there ... */
#define BUFFER 1024 /* ... and points here */

/* chain_ops -- of the endpoint at home */
struct fi_pmemverbs_chain_ops *chain_ops(struct pair *pair);

/* chain_post -- as the application does */
ssize_t chain_post(struct pair *pair, struct fi_pmemverbs_step *steps, size_t count, void *context);

/* chain_run -- it is posted and executed, and its completion is a success, or that error */
void chain_run(struct pair *pair, struct fi_pmemverbs_step *steps, size_t count);
void chain_fail(struct pair *pair, struct fi_pmemverbs_step *steps, size_t count, int err);

/* chain_at -- a step's place */
struct fi_pmemverbs_step chain_at(struct pair *pair, struct fi_pmemverbs_step step,
				  enum pair_memory memory, size_t offset);

/* chain_point -- from POINTER to BUFFER, with a bound */
void chain_point(struct pair *pair, enum pair_memory memory, uint64_t bound);

/* chain_list -- of buffers of 64 bytes, from BUFFER on, of which `free` are free */
#define CHAIN_BUFFER 64
struct fi_pmemverbs_list *chain_list(struct pair *pair, enum pair_memory memory, size_t count,
				     size_t free);

/*
 * chain_lie -- the next acknowledgement, which has arrived at home, says that of a chain's first
 * step, with a reply that is so much longer
 */
void chain_lie(struct pair *pair, struct pmv_reply_step step, int more);

uint64_t chain_word(struct pair *pair, enum pair_memory memory, size_t offset);
void chain_set(struct pair *pair, enum pair_memory memory, size_t offset, uint64_t value);

#define expect_status(step, what) cr_expect_eq((step).status, FI_PMEMVERBS_STEP_##what)

#endif /* TEST_CHAIN_H */
