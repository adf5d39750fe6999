/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check.c -- pmemverbs on the model of the hardware
 *
 * Litmus tests of the model, every cell of the taxonomy exhaustively, wrong methods that have to be
 * found out, long random programs.  README.md says what that proves.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include "checks.h"
#include "litmus.h"
#include "mutants.h"
#include "random.h"

#define CELL_STATES UINT64_C(4000000)
#define MUTANT_STATES UINT64_C(400000)

struct options {
	bool litmus;
	bool cells;
	bool longer;
	bool full;
	const char *replay;
};

static struct options options;

/* mine -- pairs take longer, and are dealt out by themselves */
static bool mine(size_t n)
{
	return checks_is_mine(n / NUM_ORDERS);
}

#define NO_MUTANT ((size_t) 999)

/* What is run, by numbers. */
struct run {
	size_t cell;
	size_t program;
	size_t mutant;
};

static void tell(struct explore_world *world, const struct world_config *config,
		 const struct run *what, struct explore_result *result)
{
	char *path;

	explore_shorten(world, result);
	world_print_program(config);
	explore_tell(world, result->path, result->path_len);
	if (!what)
		return;
	path = explore_write_path(result->path, result->path_len);
	printf("       again: --replay=%zu/%zu/%zu/%s\n", what->cell, what->program, what->mutant,
	       path);
	g_free(path);
}

/* run_config -- the world of a run; false: there is none.  The program has to stay there. */
static bool run_config(const struct run *what, struct cell_program *program,
		       struct world_config *config)
{
	struct mutant mutant = {.mutation = MUTATION_NONE};
	struct cell cell;

	if (!cell_next(what->cell, &cell) || !cell_program(&cell, what->program, program) ||
	    (what->mutant != NO_MUTANT && !mutant_next(what->mutant, &mutant)))
		return false;
	*config = cell_config(&cell, program);
	config->reduced = !options.full;
	config->mutation = mutant.mutation;
	if (mutant.believe)
		mutant.believe(config);
	return true;
}

/* run -- one program in one cell; what goes wrong is told, unless it is NULL what that is */
static struct explore_result run(const struct world_config *config, uint64_t max_states,
				 const struct run *what)
{
	struct explore_world world;
	struct explore_result result;

	world_open(&world, config);
	result = explore(&world, max_states);
	if (result.wrong[0] && what)
		tell(&world, config, what, &result);
	world_close(&world);
	g_free(result.path);
	return result;
}

/* Cells */

/*
 * is_like_another -- it takes the very steps that another cell takes: where the agent makes all
 * durable, or it is that of a relaxed path, iWARP is like InfiniBand; and so is a message but where
 * its completion is enough.  Where the agent makes all durable the initiator gains nothing from
 * knowing where messages are received.  Where caches are persistent DDIO makes no difference, and
 * volatile memory is like that: what is visible is what was promised.
 */
static bool is_like_another(const struct cell *cell)
{
	bool agent = cell->domain == PMV_PAGE || (cell->domain == PMV_DMP && cell->ddio);
	bool caches = cell->domain == PMV_MHP || cell->domain == PMV_WSP;
	bool message = cell->call >= CALL_SEND_PM && cell->domain != PMV_WSP;

	return (cell->local && (cell->relaxed || agent || message)) ||
	       (agent && cell->call == CALL_SEND_ONLY) || (caches && !cell->ddio) ||
	       (cell->domain == PMV_NONE && cell->call != CALL_WRITE_DELIVER);
}

/*
 * is_long -- three updates, or both at once, where the taxonomy has no cell: not every time.  Nor
 * is more than one update in a cell that is like another one, or of pages on a relaxed path: that
 * path is tried with cache lines, and pages on a strict one.
 */
static bool is_long(const struct cell *cell, const struct cell_program *program)
{
	bool all = cell->call == CALL_WRITE_ALL, event = cell->call == CALL_WRITE_EVENT;

	return (cell->relaxed && (all || event)) ||
	       (program->num_ops > 2 && (cell->relaxed || all)) ||
	       (program->num_ops > 1 &&
		(is_like_another(cell) || (cell->relaxed && cell->domain == PMV_PAGE)));
}

static void check_cell(size_t number, const struct cell *cell, const char *name)
{
	struct run what = {.cell = number, .mutant = NO_MUTANT};
	struct cell_program program;
	struct world_config config;
	uint64_t states = 0, steps = 0;
	size_t programs = 0, wrong = 0;
	gint64 start = g_get_monotonic_time();

	for (; run_config(&what, &program, &config); what.program++) {
		struct explore_result result;

		if (is_long(cell, &program) && !options.longer)
			continue;
		result = run(&config, CELL_STATES, &what);
		states += result.states;
		steps += result.steps;
		programs++;
		if (result.wrong[0])
			printf("WRONG  %s: %s: %s\n", name, program.name, result.wrong);
		if (result.stopped)
			printf("WRONG  %s: %s: more than %" G_GUINT64_FORMAT " states\n", name,
			       program.name, CELL_STATES);
		wrong += result.wrong[0] || result.stopped;
	}
	printf("%-6s %s: %zu programs, %" G_GUINT64_FORMAT " states, %" G_GUINT64_FORMAT
	       " steps, %.1f s\n",
	       wrong ? "not ok" : "ok", name, programs, states, steps,
	       (double) (g_get_monotonic_time() - start) / 1e6);
	checks_judge(!wrong);
}

static void check_cells(void)
{
	struct cell_program first;
	struct cell cell;
	char name[96];

	for (size_t n = 0; cell_next(n, &cell); n++) {
		cell_name(&cell, name, sizeof(name));
		cell_program(&cell, 0, &first);
		if (mine(n) && checks_wants(name) && (options.longer || !is_long(&cell, &first)))
			check_cell(n, &cell, name);
	}
}

/* Mutants */

/*
 * nth_program -- the number of a cell's program that is run as the n-th, where one comes
 * before all others
 */
static size_t nth_program(size_t n, size_t first)
{
	if (!n)
		return first;
	return n <= first ? n - 1 : n;
}

/*
 * find_out -- is it, by any program of the cell?  What has found the mutant out in the cell
 * before is tried first: what finds nothing takes longest.
 */
static bool find_out(struct run what, const char *mutant, const char *cell, size_t *finder,
		     bool *told)
{
	struct cell_program program;
	struct world_config config;

	for (size_t n = 0;; n++) {
		struct explore_result result;

		what.program = nth_program(n, *finder);
		if (!run_config(&what, &program, &config)) {
			/* Cells do not have the same number of programs. */
			if (!n)
				continue;
			return false;
		}
		result = run(&config, MUTANT_STATES, NULL);
		if (!result.wrong[0])
			continue;
		*finder = what.program;
		if (checks.tell || !*told) {
			printf("\n%s, %s, %s:\n", mutant, cell, program.name);
			run(&config, MUTANT_STATES, &what);
			*told = true;
		}
		return true;
	}
}

static void check_mutant(size_t number, const struct mutant *mutant)
{
	struct cell cell;
	char name[96];
	size_t found = 0, cells = 0;
	size_t finders[2][NUM_ORDERS] = {0};
	bool told = false;

	for (size_t n = 0; cell_next(n, &cell); n++) {
		/* COMMIT=all has the methods of the others, later. */
		if (cell.call == CALL_WRITE_ALL || !mutant->matters(&cell))
			continue;
		cell_name(&cell, name, sizeof(name));
		cells++;
		if (find_out((struct run){n, 0, number}, mutant->name, name,
			     &finders[cell.call >= CALL_SEND_PM][cell.order], &told))
			found++;
		else
			printf("WRONG  mutant survives: %s, %s\n", mutant->name, name);
	}
	printf("%-6s mutant: %s: found out in %zu of %zu cells\n", found == cells ? "ok" : "not ok",
	       mutant->name, found, cells);
	checks_judge(found == cells);
}

static void check_mutants(void)
{
	struct mutant mutant;

	for (size_t n = 0; mutant_next(n, &mutant); n++) {
		if (mine(n) && checks_wants(mutant.name))
			check_mutant(n, &mutant);
	}
}

/* Random programs */

static void check_randoms(void)
{
	uint64_t steps = 0;
	unsigned long wrong = 0, runs = 0;

	for (unsigned long n = 0; n < checks.randoms; n++) {
		struct random_program program;
		struct explore_world world;
		struct explore_result result;
		uint64_t seed = checks.seed + n;

		if (!mine(n))
			continue;
		random_program(seed, &program);
		world_open(&world, &program.config);
		result = explore_random(&world, seed, RANDOM_STEPS);
		world_close(&world);
		runs++;
		steps += result.steps;
		if (result.wrong[0] || result.stopped) {
			wrong++;
			printf("WRONG  random program %" G_GUINT64_FORMAT " (%s): %s\n", seed,
			       program.name,
			       result.stopped ? "it does not come to an end" : result.wrong);
			if (wrong == 1 && !result.stopped) {
				world_open(&world, &program.config);
				tell(&world, &program.config, NULL, &result);
				world_close(&world);
			}
		}
		g_free(result.path);
	}
	printf("%-6s random programs: %lu, seeds %lu to %lu, %" G_GUINT64_FORMAT " steps\n",
	       wrong ? "not ok" : "ok", runs, checks.seed, checks.seed + checks.randoms - 1, steps);
	checks_judge(!wrong);
}

/* Once more */

static void replay(void)
{
	struct run what;
	struct cell_program program;
	struct world_config config;
	struct explore_world world;
	struct hw_step *path = NULL;
	size_t len;
	int at = 0;

	if (sscanf(options.replay, "%zu/%zu/%zu/%n", &what.cell, &what.program, &what.mutant,
		   &at) == 3 &&
	    at)
		path = explore_read_path(options.replay + at, &len);
	if (!path || !run_config(&what, &program, &config)) {
		fprintf(stderr, "this is no path that was printed by this version\n");
		exit(EXIT_FAILURE);
	}
	world_open(&world, &config);
	world_print_program(&config);
	explore_tell(&world, path, len);
	world_close(&world);
	g_free(path);
}

/* Options */

static const struct argp_option argp_options[] = {
	{"litmus", 'l', NULL, 0, "Litmus tests of the model itself", 0},
	{"cells", 'c', NULL, 0, "Every cell of the taxonomy, exhaustively", 0},
	{"long", 'L', NULL, 0,
	 "All programs also on relaxed paths, for COMMIT=all, and in cells that are like another",
	 0},
	{"full", 'f', NULL, 0, "Cells without leaving out steps that commute: takes long", 0},
	{"replay", 'R', "PATH", 0, "Tell a path that was printed, and what is wrong then", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'l':
		options.litmus = true;
		return 0;
	case 'c':
		options.cells = true;
		return 0;
	case 'L':
		options.longer = true;
		return 0;
	case 'f':
		options.full = true;
		return 0;
	case 'R':
		options.replay = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options.litmus && !options.cells && !checks.mutants && !checks.randoms &&
		    !options.replay)
			argp_error(state, "say what is to be checked");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&checks_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = argp_options,
		.parser = parse,
		.children = children,
		.doc = "Check pmemverbs on a model of the hardware that loses power at every step.",
	};

	/* Mutants make the provider complain. */
	setenv("FI_LOG_LEVEL", "none", 0);
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (options.replay) {
		replay();
		return EXIT_SUCCESS;
	}
	if (options.litmus && mine(0))
		checks_judge(!litmus_run(true));
	if (options.cells)
		check_cells();
	if (checks.mutants)
		check_mutants();
	if (checks.randoms)
		check_randoms();
	return checks_end();
}
