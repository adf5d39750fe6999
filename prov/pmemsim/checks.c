/* SPDX-License-Identifier: BSD-2-Clause */
/* checks.c -- options of programs that check something on the model, and wrong beliefs */
#include "checks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/number.h"
#include "explore.h"

struct checks checks = {.seed = 1, .parts = 1};

/* Options */

static const struct argp_option options[] = {
	{"mutants", 'm', NULL, 0, "What is wrong on purpose, and has to be found out", 0},
	{"random", 'r', "N", 0, "So many random runs", 0},
	{"seed", 's', "S", 0, "The first one's seed (default: 1)", 0},
	{"tell", 't', NULL, 0, "How each mutant is found out, everywhere", 0},
	{"audit", 'a', "N", 0,
	 "Look for changes that no step has told of after every N-th step (default: 199)", 0},
	{"only", 'o', "TEXT", 0, "Only what has this in its name", 0},
	{"part", 'p', "I/N", 0, "Only the I-th of N parts of it all, counted from 0", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char end;

	switch (key) {
	case 'm':
		checks.mutants = true;
		return 0;
	case 't':
		checks.tell = true;
		return 0;
	case 'r':
		checks.randoms = argp_number(state, arg, 0, ULONG_MAX);
		return 0;
	case 's':
		checks.seed = argp_number(state, arg, 0, ULONG_MAX);
		return 0;
	case 'a':
		explore_audit = (unsigned int) argp_number(state, arg, 1, UINT_MAX);
		return 0;
	case 'o':
		checks.only = arg;
		return 0;
	case 'p':
		if (sscanf(arg, "%lu/%lu%c", &checks.part, &checks.parts, &end) != 2 ||
		    checks.part >= checks.parts)
			argp_error(state, "'%s' is no part such as 0/2", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp checks_argp = {.options = options, .parser = parse};

bool checks_is_mine(size_t n)
{
	return n % checks.parts == checks.part;
}

bool checks_wants(const char *name)
{
	return !checks.only || strstr(name, checks.only);
}

void checks_judge(bool ok)
{
	checks.passed += ok;
	checks.failed += !ok;
	fflush(stdout);
}

int checks_end(void)
{
	printf("%u passed, %u failed\n", checks.passed, checks.failed);
	return checks.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

bool checks_explore(const struct world_config *config, uint64_t most, bool tell, uint64_t *states)
{
	struct explore_world world;
	struct explore_result result;
	bool right;

	world_open(&world, config);
	result = explore(&world, most);
	if (result.stopped)
		snprintf(result.wrong, sizeof(result.wrong), "there are too many states");
	right = !*result.wrong;
	if (!right && tell) {
		explore_shorten(&world, &result);
		printf("%s\n", result.wrong);
		explore_tell(&world, result.path, result.path_len);
	}
	*states += result.states;
	free(result.path);
	world_close(&world);
	return right;
}

/* Beliefs */

void believe_page(struct world_config *config)
{
	config->believed.domain = PMV_PAGE;
}

void believe_dmp(struct world_config *config)
{
	config->believed.domain = PMV_DMP;
}

void believe_mhp(struct world_config *config)
{
	config->believed.domain = PMV_MHP;
}

void believe_wsp(struct world_config *config)
{
	config->believed.domain = PMV_WSP;
}

void believe_none(struct world_config *config)
{
	config->believed.domain = PMV_NONE;
}

void believe_ddio_off(struct world_config *config)
{
	config->believed.ddio = false;
}

void believe_strict(struct world_config *config)
{
	config->believed.relaxed = false;
}

void believe_infiniband(struct world_config *config)
{
	config->believed.local = false;
}
