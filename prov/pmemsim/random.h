/* SPDX-License-Identifier: BSD-2-Clause */
/* random.h -- long programs on several endpoints and regions, from a seed */
#ifndef PMEMSIM_RANDOM_H
#define PMEMSIM_RANDOM_H

#include "world.h"

/* A run that has taken so many does not come to an end. */
#define RANDOM_STEPS UINT64_C(200000)

struct random_program {
	char name[96];
	struct world_config config; /* refers to ops */
	struct world_op ops[WORLD_MAX_OPS];
};

void random_program(uint64_t seed, struct random_program *program);

#endif /* PMEMSIM_RANDOM_H */
