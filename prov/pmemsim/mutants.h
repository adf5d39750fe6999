/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mutants.h -- wrong methods, each of which has to be found out
 *
 * A mutant either does something wrong (enum world_mutation), or believes
 * something of the target or of the path that is not true, which makes the
 * provider choose the method of another cell.
 */
#ifndef PMEMSIM_MUTANTS_H
#define PMEMSIM_MUTANTS_H

#include "cells.h"
#include "checks.h"

struct mutant {
	const char *name;
	enum world_mutation mutation;
	/* what it believes; NULL: the truth */
	void (*believe)(struct world_config *config);
	/* is it wrong in this cell?  Elsewhere it changes nothing that matters, and must pass. */
	bool (*matters)(const struct cell *cell);
};

/* mutant_next -- the n-th; false: there are no more */
bool mutant_next(size_t n, struct mutant *mutant);

#endif /* PMEMSIM_MUTANTS_H */
