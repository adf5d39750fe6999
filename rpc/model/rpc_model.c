/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_model.c -- libpmemrpc on the model of the hardware, with the power cut at every step
 *
 * A few calls in each kind of memory, in all orders that the hardware may take; many calls in
 * random ones; and mutants, each of which has to be found out wherever it is wrong.  stage.h says
 * what runs there, judge.c what must hold.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include "stage.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

/* More are tried by random runs instead. */
#define MOST_STATES UINT64_C(60000)
#define MUTANT_STATES UINT64_C(200000)
#define MOST_STEPS UINT64_C(60000)

struct options {
	bool scenes;
	bool mutants;
	bool tell;
	unsigned long randoms;
	unsigned long seed;
	unsigned long part, parts;
	unsigned long states;
	const char *only;
};

static struct options options = {.seed = 1, .parts = 1, .states = MOST_STATES};

static unsigned int passed, failed;

/* The target's memory, and the path to it. */
struct memory {
	const char *name;
	enum pmv_persist domain;
	bool ddio;
	bool relaxed;
	bool local;
};

static const struct memory memories[] = {
	{"DMP, DDIO on", PMV_DMP, true, false, false},
	{"DMP, DDIO off", PMV_DMP, false, false, false},
	{"MHP, DDIO on", PMV_MHP, true, false, false},
	{"MHP, DDIO off", PMV_MHP, false, false, false},
	{"WSP, DDIO on", PMV_WSP, true, false, false},
	{"WSP, DDIO off", PMV_WSP, false, false, false},
	{"PAGE", PMV_PAGE, true, false, false},
	{"DMP, DDIO on, relaxed", PMV_DMP, true, true, false},
	{"DMP, DDIO off, relaxed", PMV_DMP, false, true, false},
	{"MHP, relaxed", PMV_MHP, true, true, false},
	{"WSP, relaxed", PMV_WSP, true, true, false},
	{"MHP, iWARP", PMV_MHP, true, false, true},
	{"WSP, iWARP", PMV_WSP, true, false, true},
};

#define NUM_MEMORIES (sizeof(memories) / sizeof(memories[0]))

/* In a ring of three lines, the third call wraps: its body goes in two pieces, and then its word.
 */
static const struct scene scenes[] = {
	{"one short call", 192, 2, 0, 1, 0, {0}, 0},
	{"a call of two lines, behind another", 192, 2, 1, 1, 0, {0, 0, 64}, 0},
	{"two short calls", 256, 2, 0, 2, 0, {0}, 0},
	{"a call that wraps", 192, 2, 2, 1, 0, {0, 0, 0, 64}, 0},
	{"a long call", 512, 2, 0, 1, 0, {0, 400}, 0},
	{"a sent call", 192, 2, 0, 1, 64, {0}, 0},
	{"a sent call of two lines, in a cell that was used", 256, 2, 2, 1, 128, {0, 0, 0, 64}, 0},
	{"two sent calls", 128, 2, 0, 2, 64, {0}, 0},
	{"two clients and a pool", 192, 2, 0, 1, 0, {0}, 1},
	{"two clients and a pool, a sent call", 192, 2, 0, 1, 64, {0}, 1},
};

#define NUM_SCENES (sizeof(scenes) / sizeof(scenes[0]))

/* is_possible -- such a scene there */
static bool is_possible(const struct memory *memory, const struct scene *scene)
{
	/* Messages can't be committed there. */
	return !scene->cell || !memory->relaxed;
}

/* Mutants, and where they are wrong */

static bool everywhere(const struct memory *memory)
{
	(void) memory;
	return true;
}

static bool loses_caches(const struct memory *memory)
{
	return memory->domain == PMV_DMP || memory->domain == PMV_PAGE;
}

static bool loses_buffers(const struct memory *memory)
{
	return memory->domain != PMV_WSP;
}

/* Over iWARP WSP is treated as MHP. */
static bool needs_more_than_buffers(const struct memory *memory)
{
	return memory->domain != PMV_WSP && !memory->local;
}

static bool needs_agent(const struct memory *memory)
{
	return memory->domain == PMV_PAGE || (memory->domain == PMV_DMP && memory->ddio);
}

static bool is_strict_dmp_ddio(const struct memory *memory)
{
	return memory->domain == PMV_DMP && memory->ddio && !memory->relaxed;
}

static bool is_page(const struct memory *memory)
{
	return memory->domain == PMV_PAGE;
}

static bool needs_flush(const struct memory *memory)
{
	return !memory->relaxed && !needs_agent(memory) &&
	       (memory->domain != PMV_WSP || memory->local);
}

static bool notice_passes_flush(const struct memory *memory)
{
	return memory->domain == PMV_DMP && !memory->ddio && !memory->relaxed;
}

static bool is_relaxed(const struct memory *memory)
{
	return memory->relaxed;
}

static bool is_local_wsp(const struct memory *memory)
{
	return memory->domain == PMV_WSP && memory->local;
}

static void believe_mhp(struct world_config *config)
{
	config->believed.domain = PMV_MHP;
}

static void believe_wsp(struct world_config *config)
{
	config->believed.domain = PMV_WSP;
}

static void believe_ddio_off(struct world_config *config)
{
	config->believed.ddio = false;
}

static void believe_strict(struct world_config *config)
{
	config->believed.relaxed = false;
}

static void believe_infiniband(struct world_config *config)
{
	config->believed.local = false;
}

/* What it is about. */
enum which { ANY_CALL, WRITTEN_ONLY, POOL_ONLY };

static const struct fault {
	const char *name;
	enum mutant mutant;
	enum world_mutation mutation;
	void (*believe)(struct world_config *config);
	bool (*matters)(const struct memory *memory);
	enum which which;
} faults[] = {
	{"the watermark before the effect", WATERMARK_FIRST, MUTATION_NONE, NULL, everywhere,
	 ANY_CALL},
	{"the effect before the watermark", EFFECT_FIRST, MUTATION_NONE, NULL, everywhere,
	 ANY_CALL},
	{"the word before the data", WORD_FIRST, MUTATION_NONE, NULL, everywhere, WRITTEN_ONLY},
	{"no check of laps", NO_SEQUENCE, MUTATION_NONE, NULL, everywhere, ANY_CALL},
	{"no check of data", NO_BODY, MUTATION_NONE, NULL, loses_buffers, ANY_CALL},
	{"the reply before it is durable", REPLY_EARLY, MUTATION_NONE, NULL, loses_caches,
	 ANY_CALL},
	{"no journal", JOURNAL_LOST, MUTATION_NONE, NULL, everywhere, ANY_CALL},
	{"a journal that is not waited for", JOURNAL_LATE, MUTATION_NONE, NULL, loses_caches,
	 ANY_CALL},
	{"places that are not waited for", PLACES_LATE, MUTATION_NONE, NULL, loses_caches,
	 ANY_CALL},
	{"a torn journal counts", JOURNAL_TORN, MUTATION_NONE, NULL, everywhere, ANY_CALL},
	{"commits without the flush", NONE, MUTATION_FLUSH_DROPPED, NULL, needs_flush, ANY_CALL},
	{"the notice before the flush", NONE, MUTATION_NOTICE_TOO_SOON, NULL, notice_passes_flush,
	 WRITTEN_ONLY},
	{"the agent acknowledges too soon", NONE, MUTATION_ACK_TOO_SOON, NULL, needs_agent,
	 ANY_CALL},
	{"the agent flushes one line too few", NONE, MUTATION_LINE_LEFT_OUT, NULL,
	 is_strict_dmp_ddio, ANY_CALL},
	{"the kernel does not hear of writes", NONE, MUTATION_NOT_TOUCHED, NULL, is_page, ANY_CALL},
	{"taken for MHP", NONE, MUTATION_NONE, believe_mhp, needs_agent, ANY_CALL},
	{"taken for WSP", NONE, MUTATION_NONE, believe_wsp, needs_more_than_buffers, ANY_CALL},
	{"DDIO taken to be off", NONE, MUTATION_NONE, believe_ddio_off, is_strict_dmp_ddio,
	 ANY_CALL},
	{"the path taken to be strict", NONE, MUTATION_NONE, believe_strict, is_relaxed,
	 WRITTEN_ONLY},
	{"iWARP taken for InfiniBand", NONE, MUTATION_NONE, believe_infiniband, is_local_wsp,
	 ANY_CALL},
	{"commits that don't wait for each other", NO_LOCK, MUTATION_NONE, NULL, everywhere,
	 POOL_ONLY},
	{"a watermark over the other client's", OTHER_WATERMARK, MUTATION_NONE, NULL, everywhere,
	 POOL_ONLY},
	{"a work that is not waited for", WORK_SHARED, MUTATION_NONE, NULL, everywhere, POOL_ONLY},
	{"a welcome before it is durable", WELCOME_EARLY, MUTATION_NONE, NULL, loses_caches,
	 POOL_ONLY},
	{"what was executed is sent again", SENT_AGAIN, MUTATION_NONE, NULL, everywhere, ANY_CALL},
	{"what is sent again has the old key", OLD_KEY, MUTATION_NONE, NULL, everywhere, ANY_CALL},
	{"replies of an old connection are taken on a new one", OLD_REPLIES, MUTATION_NONE, NULL,
	 everywhere, ANY_CALL},
	{"replies that were missed are not asked for", FEW_REPLIES, MUTATION_NONE, NULL, everywhere,
	 ANY_CALL},
};

#define NUM_FAULTS (sizeof(faults) / sizeof(faults[0]))

/* Runs */

static bool mine(size_t n)
{
	return n % options.parts == options.part;
}

static bool is_wanted(const char *name)
{
	return !options.only || strstr(name, options.only);
}

static void judge_run(bool ok)
{
	passed += ok;
	failed += !ok;
	fflush(stdout);
}

static struct world_config config_of(const struct memory *memory, const struct scene *scene,
				     const struct fault *fault)
{
	struct world_config config = {
		.rules = {.ddio = memory->ddio,
			  .relaxed = memory->relaxed,
			  .buffered = true,
			  .local = memory->local,
			  .granule = HW_LINE},
		.domain = memory->domain,
		.one_kind = scene->cell,
		.dies_from = WORLD_NEVER_DIES,
		.reduced = true,
		.room = 16,
		.num_eps = 1,
		.num_regions = 1,
		.region_size = stage_len(scene),
		.num_ops = scene->calls,
		.app = &stage_app,
		.arg = scene,
	};

	world_believe(&config);
	mutant = fault ? fault->mutant : NONE;
	if (fault)
		config.mutation = fault->mutation;
	if (fault && fault->believe)
		fault->believe(&config);
	return config;
}

/* What was looked at. */
struct sum {
	uint64_t states, steps, images;
	unsigned int wrong, runs;
};

static void tell(struct explore_world *world, struct explore_result *result)
{
	explore_shorten(world, result);
	explore_tell(world, result->path, result->path_len);
}

static uint64_t images_of(const struct explore_world *world)
{
	const struct stage *stage = ((const struct world *) world->world)->own;

	return judge_images(stage->judge);
}

/* run -- all states, at most so many; true: something is wrong */
static bool run(const struct world_config *config, uint64_t most, bool tells, struct sum *sum,
		bool *stopped)
{
	struct explore_world world;
	struct explore_result result;

	world_open(&world, config);
	result = explore(&world, most);
	sum->states += result.states;
	sum->steps += result.steps;
	sum->images += images_of(&world);
	sum->runs++;
	if (result.wrong[0] && tells)
		tell(&world, &result);
	*stopped = result.stopped;
	world_close(&world);
	g_free(result.path);
	return result.wrong[0];
}

static bool run_random(const struct world_config *config, uint64_t seed, struct sum *sum)
{
	struct explore_world world;
	struct explore_result result;
	bool wrong;

	world_open(&world, config);
	result = explore_random(&world, seed, MOST_STEPS);
	sum->steps += result.steps;
	sum->images += images_of(&world);
	sum->runs++;
	wrong = result.wrong[0] || result.stopped;
	world_close(&world);
	if (wrong)
		printf("WRONG  seed %llu: %s\n", (unsigned long long) seed,
		       result.stopped ? "it does not come to an end" : result.wrong);
	if (result.wrong[0]) {
		world_open(&world, config);
		tell(&world, &result);
		world_close(&world);
	}
	g_free(result.path);
	return wrong;
}

static void check_scene(const struct memory *memory, const struct scene *scene)
{
	struct world_config config = config_of(memory, scene, NULL);
	gint64 start = g_get_monotonic_time();
	struct sum sum = {0};
	bool stopped;
	bool wrong = run(&config, options.states, true, &sum, &stopped);

	/* Another kind of sample: a search looks at few beginnings to the end. */
	for (uint64_t seed = options.seed; stopped && !wrong && seed < options.seed + 20; seed++)
		wrong = run_random(&config, seed, &sum);
	printf("%-6s %s, %s: %llu states%s, %llu steps, %llu images, %.1f s\n",
	       wrong ? "not ok" : "ok", memory->name, scene->name, (unsigned long long) sum.states,
	       stopped ? " (not all)" : "", (unsigned long long) sum.steps,
	       (unsigned long long) sum.images, (double) (g_get_monotonic_time() - start) / 1e6);
	judge_run(!wrong);
}

static void check_scenes(void)
{
	for (size_t i = 0; i < NUM_MEMORIES * NUM_SCENES; i++) {
		const struct memory *memory = &memories[i / NUM_SCENES];
		const struct scene *scene = &scenes[i % NUM_SCENES];
		g_autofree char *name = g_strdup_printf("%s, %s", memory->name, scene->name);

		if (mine(i) && is_possible(memory, scene) && is_wanted(name))
			check_scene(memory, scene);
	}
}

/* find_out -- is it, with calls that are written, or sent? */
static bool find_out(const struct fault *fault, const struct memory *memory, bool sent,
		     size_t *first, struct sum *sum)
{
	for (size_t n = 0; n < NUM_SCENES; n++) {
		size_t at = (*first + n) % NUM_SCENES;
		struct world_config config = config_of(memory, &scenes[at], fault);
		bool stopped;

		if (!scenes[at].cell == sent || (fault->which == POOL_ONLY && !scenes[at].left) ||
		    !is_possible(memory, &scenes[at]) ||
		    !run(&config, MUTANT_STATES, options.tell, sum, &stopped))
			continue;
		if (options.tell)
			printf("^ %s, %s, %s\n\n", fault->name, memory->name, scenes[at].name);
		*first = at;
		return true;
	}
	printf("WRONG  mutant survives: %s, %s, %s\n", fault->name, memory->name,
	       sent ? "sent" : "written");
	return false;
}

static void check_mutant(const struct fault *fault)
{
	unsigned int found = 0, places = 0;
	gint64 start = g_get_monotonic_time();
	struct sum sum = {0};
	size_t first[2] = {0};

	for (size_t i = 0; i < 2 * NUM_MEMORIES; i++) {
		const struct memory *memory = &memories[i / 2];
		bool sent = i % 2;

		if (!fault->matters(memory) ||
		    (sent && (memory->relaxed || fault->which == WRITTEN_ONLY)))
			continue;
		places++;
		found += find_out(fault, memory, sent, &first[sent], &sum);
	}
	printf("%-6s mutant: %s: found out in %u of %u, %llu states, %.1f s\n",
	       found == places ? "ok" : "not ok", fault->name, found, places,
	       (unsigned long long) sum.states, (double) (g_get_monotonic_time() - start) / 1e6);
	judge_run(found == places);
}

/* random_scene -- many calls of any length in a ring that has room for a few of them */
static struct scene random_scene(uint64_t seed)
{
	unsigned short state[3] = {(unsigned short) seed, (unsigned short) (seed >> 16), 0x330e};
	struct scene scene = {.name = "random calls", .calls = MAX_CALLS};
	bool sent;

	for (int i = 0; i < 8; i++)
		nrand48(state);
	scene.ring = 64 * (size_t) (8 + nrand48(state) % 8);
	scene.window = 1 + (unsigned int) (nrand48(state) % 4);
	sent = nrand48(state) % 3 == 0;
	if (sent)
		scene.cell = 128;
	for (int i = 1; i <= MAX_CALLS; i++)
		scene.arguments[i] =
			(size_t) (nrand48(state) % (nrand48(state) % 3 || sent ? 60 : 490));
	return scene;
}

static void check_randoms(void)
{
	gint64 start = g_get_monotonic_time();
	struct sum sum = {0};

	for (uint64_t seed = options.seed; seed < options.seed + options.randoms; seed++) {
		struct scene scene = random_scene(seed);
		const struct memory *memory = &memories[seed % NUM_MEMORIES];
		struct world_config config = config_of(memory, &scene, NULL);

		if (!mine(seed) || (scene.cell && memory->relaxed))
			continue;
		config.rules.granule = seed / NUM_MEMORIES % 2 ? 8 : HW_LINE;
		config.room = 3 + seed % 14;
		sum.wrong += run_random(&config, seed, &sum);
	}
	printf("%-6s random calls: %u runs, seeds %lu to %lu, %llu steps, %llu images, %.1f s\n",
	       sum.wrong ? "not ok" : "ok", sum.runs, options.seed,
	       options.seed + options.randoms - 1, (unsigned long long) sum.steps,
	       (unsigned long long) sum.images, (double) (g_get_monotonic_time() - start) / 1e6);
	judge_run(!sum.wrong);
}

/* Options */

const char *argp_program_version = "rpc_model of pmemverbs " PACKAGE_VERSION;

static const struct argp_option argp_options[] = {
	{"scenes", 'c', NULL, 0, "A few calls in each kind of memory, in all orders", 0},
	{"mutants", 'm', NULL, 0, "Wrong clients, servers and commits, which have to be found out",
	 0},
	{"random", 'r', "N", 0, "So many random runs of many calls", 0},
	{"seed", 's', "S", 0, "The first one's seed (default: 1)", 0},
	{"states", 'n', "N", 0, "At most so many states of a scene (default: 60000)", 0},
	{"tell", 't', NULL, 0, "How each mutant is found out", 0},
	{"audit", 'a', "N", 0,
	 "Look for changes that no step has told of after every N-th step (default: 199)", 0},
	{"only", 'o', "TEXT", 0, "Only scenes and mutants whose names have this in them", 0},
	{"part", 'p', "I/N", 0, "Only the I-th of N parts of it all, counted from 0", 0},
	{0},
};

static unsigned long number(const char *arg, struct argp_state *state)
{
	unsigned long value;
	char end;

	if (sscanf(arg, "%lu%c", &value, &end) != 1 || !value)
		argp_error(state, "'%s' is no number", arg);
	return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char end;

	switch (key) {
	case 'c':
		options.scenes = true;
		return 0;
	case 'm':
		options.mutants = true;
		return 0;
	case 't':
		options.tell = true;
		return 0;
	case 'r':
		options.randoms = number(arg, state);
		return 0;
	case 's':
		options.seed = number(arg, state);
		return 0;
	case 'n':
		options.states = number(arg, state);
		return 0;
	case 'a':
		explore_audit = (unsigned int) number(arg, state);
		return 0;
	case 'o':
		options.only = arg;
		return 0;
	case 'p':
		if (sscanf(arg, "%lu/%lu%c", &options.part, &options.parts, &end) != 2 ||
		    options.part >= options.parts)
			argp_error(state, "'%s' is no part such as 0/2", arg);
		return 0;
	case ARGP_KEY_END:
		if (!options.scenes && !options.mutants && !options.randoms)
			argp_error(state, "say what is to be checked");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = argp_options,
		.parser = parse,
		.doc = "Check durable calls on a model of the hardware that loses power at every "
		       "step.",
	};

	/* Mutants make the provider complain. */
	setenv("FI_LOG_LEVEL", "none", 0);
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (options.scenes)
		check_scenes();
	for (size_t n = 0; options.mutants && n < NUM_FAULTS; n++) {
		if (mine(n) && is_wanted(faults[n].name))
			check_mutant(&faults[n]);
	}
	if (options.randoms)
		check_randoms();
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
