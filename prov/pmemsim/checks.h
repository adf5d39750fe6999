/* SPDX-License-Identifier: BSD-2-Clause */
/* checks.h -- what the programs have in common that check something on the model */
#ifndef PMEMSIM_CHECKS_H
#define PMEMSIM_CHECKS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "world.h"

/* Options, and what was found. */
struct checks {
	bool mutants;
	bool tell;
	unsigned long randoms, seed;
	unsigned long part, parts;
	const char *only;
	unsigned int passed, failed;
};

extern struct checks checks;

/* The options' parser: a child of the program's. */
extern const struct argp checks_argp;

/* checks_is_mine -- does this process do the n-th, where several share the work? */
bool checks_is_mine(size_t n);

/* checks_wants -- whether it is one of those that were asked for */
bool checks_wants(const char *name);

/* checks_judge -- count one, and let its line be seen */
void checks_judge(bool ok);

/*
 * checks_explore -- all states of a world, at most so many; true: nothing is wrong.  tell: how it
 * comes, if something is.  *states grows by what was looked at.
 */
bool checks_explore(const struct world_config *config, uint64_t most, bool tell, uint64_t *states);

/* checks_end -- say how many there were; returns the exit status */
int checks_end(void);

/*
 * believe_... -- something of the target or of the path that is not true, which makes the provider
 * choose the method of another memory
 */
void believe_page(struct world_config *config);
void believe_dmp(struct world_config *config);
void believe_mhp(struct world_config *config);
void believe_wsp(struct world_config *config);
void believe_none(struct world_config *config);
void believe_ddio_off(struct world_config *config);
void believe_strict(struct world_config *config);
void believe_infiniband(struct world_config *config);

#endif /* PMEMSIM_CHECKS_H */
