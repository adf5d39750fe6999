/* SPDX-License-Identifier: BSD-2-Clause */
/* random.c -- long programs from a seed; random.h says of what kind */
#include <stdio.h>
#include <stdlib.h>

#include "cells.h"
#include "random.h"

#define REGION_SIZE ((size_t) 2 * HW_PAGE)

/* Messages are received in the upper half, each at a place of its own. */
#define MAX_SENDS 60

static size_t below(unsigned short state[3], size_t n)
{
	return (size_t) nrand48(state) % n;
}

static bool one_in(unsigned short state[3], size_t n)
{
	return !below(state, n);
}

/* Endpoints have places of their own: nothing is promised between them. */
static void place_write(unsigned short state[3], const struct world_config *config,
			unsigned int number, struct world_op *op)
{
	size_t place = REGION_SIZE / 2 / config->num_eps / HW_LINE * HW_LINE;
	/* A write may pass an atomic in front of it: they have no order at one place. */
	size_t atomics = 4 * HW_LINE;
	size_t start = op->ep * place;

	op->len = 8;
	if (op->kind == WORLD_WRITE) {
		op->len *= 1 + below(state, one_in(state, 4) ? 60 : 8);
		start += atomics;
		place -= atomics;
	} else {
		place = atomics;
	}
	op->offset = start + 8 * below(state, (place - op->len) / 8 + 1);
	if (one_in(state, 2))
		/* Some places are written again and again. */
		op->offset = start + HW_LINE * below(state, 4);
	/* A relaxed path has no order at one place. */
	if (config->rules.relaxed) {
		op->len = op->len > 80 ? 80 : op->len;
		op->offset = (size_t) number * 80;
	}
}

static void random_op(unsigned short state[3], const struct world_config *config,
		      unsigned int number, unsigned int *sends, struct world_op *op)
{
	*op = (struct world_op){
		.kind = one_in(state, 8) ? WORLD_ATOMIC : WORLD_WRITE,
		.ep = (unsigned int) below(state, config->num_eps),
		.region = (unsigned int) below(state, config->num_regions),
		.commit = !one_in(state, 3),
	};
	place_write(state, config, number, op);
	op->fence = op->commit && one_in(state, 3);
	op->notice = op->commit && one_in(state, 4);
	op->deliver = !config->rules.relaxed && one_in(state, 5);
	if (config->rules.relaxed || *sends == MAX_SENDS || !one_in(state, 5))
		return;
	op->kind = WORLD_SEND;
	op->len = 8 * (1 + below(state, 8));
	op->offset = REGION_SIZE / 2 + HW_LINE * (*sends)++;
	op->notice = false;
	if (one_in(state, 4) && !config->one_kind)
		op->region = WORLD_DRAM;
}

void random_program(uint64_t seed, struct random_program *program)
{
	unsigned short state[3] = {(unsigned short) seed, (unsigned short) (seed >> 16), 0x330e};
	struct world_config *config = &program->config;
	struct cell cell;
	unsigned int sends = 0;
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
		.commit_all = one_in(state, 4),
		.stores = one_in(state, 2),
		.one_kind = one_in(state, 3),
		.dies_from = WORLD_NEVER_DIES,
		.room = 2 + (unsigned int) below(state, 15),
		.num_eps = 1 + (unsigned int) below(state, 3),
		.num_regions = 1 + (unsigned int) below(state, 2),
		.region_size = REGION_SIZE,
		.num_ops = cell.relaxed ? 50 : 50 + (unsigned int) below(state, 250),
		.ops = program->ops,
	};
	if (one_in(state, 3))
		config->dies_from = (uint32_t) below(state, config->num_ops);
	world_believe(config);
	for (unsigned int i = 0; i < config->num_ops; i++)
		random_op(state, config, i, &sends, &program->ops[i]);
	/* The last one that is drawn: seeds keep their programs. */
	config->passes = one_in(state, 2);
}
