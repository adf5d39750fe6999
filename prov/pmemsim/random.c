/* SPDX-License-Identifier: BSD-2-Clause */
/* random.c -- long programs from a seed; random.h says of what kind */
#include <stdio.h>
#include <stdlib.h>

#include "cells.h"
#include "random.h"

#define REGION_SIZE ((size_t) 2 * HW_PAGE)

static size_t below(unsigned short state[3], size_t n)
{
	return (size_t) nrand48(state) % n;
}

static bool one_in(unsigned short state[3], size_t n)
{
	return !below(state, n);
}

/* Endpoints have places of their own: nothing is promised between them. */
static void random_op(unsigned short state[3], const struct world_config *config,
		      struct world_op *op)
{
	size_t place = REGION_SIZE / config->num_eps / HW_LINE * HW_LINE;

	*op = (struct world_op){
		.kind = one_in(state, 8) ? WORLD_ATOMIC : WORLD_WRITE,
		.ep = (unsigned int) below(state, config->num_eps),
		.region = (unsigned int) below(state, config->num_regions),
		.commit = !one_in(state, 3),
	};
	op->len = op->kind == WORLD_ATOMIC ? 8 : 8 * (1 + below(state, one_in(state, 4) ? 60 : 8));
	op->offset = op->ep * place + 8 * below(state, (place - op->len) / 8 + 1);
	if (one_in(state, 2))
		/* Some places are written again and again. */
		op->offset = op->ep * place + HW_LINE * below(state, 4);
	op->fence = op->commit && one_in(state, 3);
	op->notice = op->commit && one_in(state, 4);
}

void random_program(uint64_t seed, struct random_program *program)
{
	unsigned short state[3] = {(unsigned short) seed, (unsigned short) (seed >> 16), 0x330e};
	struct world_config *config = &program->config;
	struct cell cell;
	size_t cells = 0;

	for (int i = 0; i < 8; i++)
		nrand48(state);
	while (cell_next(cells, &cell))
		cells++;
	cell_next(below(state, cells), &cell);
	snprintf(program->name, sizeof(program->name), "domain %d, DDIO %s, %s, %s",
		 (int) cell.domain, cell.ddio ? "on" : "off", cell.relaxed ? "relaxed" : "strict",
		 cell.local ? "iWARP" : "InfiniBand");
	*config = (struct world_config){
		.rules =
			{
				.ddio = cell.ddio,
				.relaxed = cell.relaxed,
				.buffered = one_in(state, 2),
				.local = cell.local,
				.granule = one_in(state, 2) ? 8 : HW_LINE,
			},
		.domain = cell.domain,
		.dies_from = WORLD_NEVER_DIES,
		.room = 2 + (unsigned int) below(state, 15),
		.num_eps = 1 + (unsigned int) below(state, 3),
		.num_regions = 1 + (unsigned int) below(state, 2),
		.region_size = REGION_SIZE,
		.num_ops = 50 + (unsigned int) below(state, 250),
		.ops = program->ops,
	};
	if (one_in(state, 3))
		config->dies_from = (uint32_t) below(state, config->num_ops);
	world_believe(config);
	for (unsigned int i = 0; i < config->num_ops; i++)
		random_op(state, config, &program->ops[i]);
}
