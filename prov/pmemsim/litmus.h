/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * litmus.h -- is the model of the hardware what the hardware is said to be?
 *
 * Programs of a few operations on one or two connections and of a few
 * instructions of the target's processor, without pmemverbs.  Each names outcomes
 * that hardware allows, which the model must be able to get to, and outcomes that
 * it forbids, which the model must not get to.
 */
#ifndef PMEMSIM_LITMUS_H
#define PMEMSIM_LITMUS_H

#include <stdbool.h>

/*
 * litmus_run -- how many tests fail; one line for each of these, or for every test
 * if it is to tell
 */
int litmus_run(bool tell);

#endif /* PMEMSIM_LITMUS_H */
