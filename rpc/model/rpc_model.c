/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpc_model.c -- libpmemrpc on the model of the hardware, with the power cut at every step
 *
 * A few calls in each kind of memory, in all orders that the hardware may take; many calls in
 * random ones; and mutants, each of which has to be found out wherever it is wrong.  stage.h says
 * what runs there, judge.c what must hold.
 */
#include <argp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include "../../util/number.h"
#include "checks.h"
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

static struct {
	bool scenes;
	unsigned long states;
} options = {.states = MOST_STATES};

/* The target's memory, and the path to it. */
struct memory {
	const char *name;
	enum pmv_persist domain;
	bool ddio;
	bool relaxed;
	bool local;
	bool stores; /* the agent stores what is small */
};

static const struct memory memories[] = {
	{"DMP, DDIO on", PMV_DMP, true, false, false, false},
	{"DMP, DDIO on, stored by the agent", PMV_DMP, true, false, false, true},
	{"DMP, DDIO off", PMV_DMP, false, false, false, false},
	{"MHP, DDIO on", PMV_MHP, true, false, false, false},
	{"MHP, DDIO off", PMV_MHP, false, false, false, false},
	{"WSP, DDIO on", PMV_WSP, true, false, false, false},
	{"WSP, DDIO off", PMV_WSP, false, false, false, false},
	{"PAGE", PMV_PAGE, true, false, false, false},
	{"PAGE, stored by the agent", PMV_PAGE, true, false, false, true},
	{"DMP, DDIO on, relaxed", PMV_DMP, true, true, false, false},
	{"DMP, DDIO off, relaxed", PMV_DMP, false, true, false, false},
	{"MHP, relaxed", PMV_MHP, true, true, false, false},
	{"WSP, relaxed", PMV_WSP, true, true, false, false},
	{"MHP, iWARP", PMV_MHP, true, false, true, false},
	{"WSP, iWARP", PMV_WSP, true, false, true, false},
};

#define NUM_MEMORIES (sizeof(memories) / sizeof(memories[0]))

/* In a ring of three lines, the third call wraps: it goes in two pieces, and its word with the
 * last.
 */
static const struct scene scenes[] = {
	{"one short call", 192, 2, 0, 1, 0, {0}, 0, 0, 0},
	{"a call of two lines, behind another", 192, 2, 1, 1, 0, {0, 0, 64}, 0, 0, 0},
	{"two short calls", 256, 2, 0, 2, 0, {0}, 0, 0, 0},
	{"a call that wraps", 192, 2, 2, 1, 0, {0, 0, 0, 64}, 0, 0, 0},
	{"a long call", 512, 2, 0, 1, 0, {0, 400}, 0, 0, 0},
	{"a sent call", 192, 2, 0, 1, 64, {0}, 0, 0, 0},
	{"a sent call of two lines, in a cell that was used",
	 256,
	 2,
	 2,
	 1,
	 128,
	 {0, 0, 0, 64},
	 0,
	 0,
	 0},
	{"two sent calls", 128, 2, 0, 2, 64, {0}, 0, 0, 0},
	{"two clients and a pool", 192, 2, 0, 1, 0, {0}, 1, 0, 0},
	{"two clients and a pool, a sent call", 192, 2, 0, 1, 64, {0}, 1, 0, 0},
	{"a call whose reply is waited for, and one behind it", 256, 2, 0, 2, 0, {0}, 0, 1, 0},
	{"a long call that wraps, whose reply is waited for",
	 512,
	 2,
	 2,
	 1,
	 0,
	 {0, 0, 0, 400},
	 0,
	 1,
	 0},
	{"a sent call whose reply is waited for, and one behind it",
	 128,
	 2,
	 0,
	 2,
	 64,
	 {0},
	 0,
	 1,
	 0},
	{"a call that reads, and one behind it", 256, 2, 0, 2, 0, {0}, 0, 0, 2},
	{"a call that reads, and its reply is waited for", 256, 2, 0, 2, 0, {0}, 0, 1, 2},
	{"a call behind others that have read, and one that takes their places",
	 256,
	 2,
	 2,
	 2,
	 0,
	 {0, 0, 0, 0, 64},
	 0,
	 0,
	 6},
	{"a long call in the places of others that have read",
	 256,
	 2,
	 2,
	 1,
	 0,
	 {0, 0, 0, 128},
	 0,
	 0,
	 6},
	{"a sent call that reads, and one behind it", 128, 2, 0, 2, 64, {0}, 0, 0, 2},
	{"a sent call that reads, and its reply is waited for", 128, 2, 0, 2, 64, {0}, 0, 1, 2},
	{"sent calls, in the place of one that has read", 128, 2, 1, 2, 64, {0}, 0, 0, 2},
	{"two clients and a pool, and a call that reads", 192, 2, 0, 1, 0, {0}, 1, 0, 2},
};

#define NUM_SCENES (sizeof(scenes) / sizeof(scenes[0]))

/* is_possible -- such a scene there */
static bool is_possible(const struct memory *memory, const struct scene *scene)
{
	/* Messages can't be committed there, and all calls that are written are. */
	return (!scene->cell && !scene->plain && !scene->reads) || !memory->relaxed;
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

/* The journal's first word is in a page with records: whatever makes those durable takes it along.
 */
static bool loses_lines(const struct memory *memory)
{
	return memory->domain == PMV_DMP;
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

static bool is_strict(const struct memory *memory)
{
	return !memory->relaxed;
}

/* What is executed may not be durable yet. */
static bool loses_arrived(const struct memory *memory)
{
	return loses_caches(memory) && !memory->relaxed;
}

static bool is_local_wsp(const struct memory *memory)
{
	return memory->domain == PMV_WSP && memory->local;
}

/* What it is about. */
enum which { ANY_CALL = 0, WRITTEN_ONLY = 1, POOL_ONLY = 2, READS_ONLY = 4 };

static const struct fault {
	const char *name;
	enum mutant mutant;
	enum world_mutation mutation;
	void (*believe)(struct world_config *config);
	bool (*matters)(const struct memory *memory);
	unsigned int which;
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
	{"a journal that goes on before it has begun anew", EPOCH_LATE, MUTATION_NONE, NULL,
	 loses_lines, ANY_CALL},
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
	{"a flush of others that is not waited for", NO_WAIT, MUTATION_NONE, NULL, loses_arrived,
	 WRITTEN_ONLY | POOL_ONLY},
	{"a watermark over the other client's", OTHER_WATERMARK, MUTATION_NONE, NULL, everywhere,
	 POOL_ONLY},
	{"a work that is not waited for", WORK_SHARED, MUTATION_NONE, NULL, everywhere, POOL_ONLY},
	{"a welcome before it is durable", WELCOME_EARLY, MUTATION_NONE, NULL, loses_caches,
	 POOL_ONLY},
	{"what was executed is sent again", SENT_AGAIN, MUTATION_NONE, NULL, everywhere, ANY_CALL},
	{"what is sent again has the old key", OLD_KEY, MUTATION_NONE, NULL, everywhere, ANY_CALL},
	{"replies of an old connection are taken on a new one", OLD_REPLIES, MUTATION_NONE, NULL,
	 everywhere, ANY_CALL},
	{"a call that reads changes something", READER_WRITES, MUTATION_NONE, NULL, is_strict,
	 READS_ONLY},
	{"a client has all replies, it says", HAS_ALL, MUTATION_NONE, NULL, is_strict, READS_ONLY},
	{"entries are overwritten that are looked for", OVERWRITES, MUTATION_NONE, NULL, is_strict,
	 WRITTEN_ONLY | READS_ONLY},
	{"a server does not hear what a client has", NOT_RESUMED, MUTATION_NONE, NULL,
	 loses_arrived, READS_ONLY},
	{"replies that were missed are not asked for", FEW_REPLIES, MUTATION_NONE, NULL, everywhere,
	 ANY_CALL},
};

#define NUM_FAULTS (sizeof(faults) / sizeof(faults[0]))

/* Runs */

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
		.stores = memory->stores,
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
	for (uint64_t seed = checks.seed; stopped && !wrong && seed < checks.seed + 20; seed++)
		wrong = run_random(&config, seed, &sum);
	printf("%-6s %s, %s: %llu states%s, %llu steps, %llu images, %.1f s\n",
	       wrong ? "not ok" : "ok", memory->name, scene->name, (unsigned long long) sum.states,
	       stopped ? " (not all)" : "", (unsigned long long) sum.steps,
	       (unsigned long long) sum.images, (double) (g_get_monotonic_time() - start) / 1e6);
	checks_judge(!wrong);
}

static void check_scenes(void)
{
	for (size_t i = 0; i < NUM_MEMORIES * NUM_SCENES; i++) {
		const struct memory *memory = &memories[i / NUM_SCENES];
		const struct scene *scene = &scenes[i % NUM_SCENES];
		g_autofree char *name = g_strdup_printf("%s, %s", memory->name, scene->name);

		if (checks_is_mine(i) && is_possible(memory, scene) && checks_wants(name))
			check_scene(memory, scene);
	}
}

/* find_out_in -- is it, in that scene? */
static bool find_out_in(const struct fault *fault, const struct memory *memory,
			const struct scene *scene, uint64_t states, struct sum *sum)
{
	struct world_config config = config_of(memory, scene, fault);
	bool stopped;

	if (((fault->which & POOL_ONLY) && !scene->left) ||
	    ((fault->which & READS_ONLY) && !scene->reads) || !is_possible(memory, scene) ||
	    !run(&config, states, checks.tell, sum, &stopped))
		return false;
	if (checks.tell)
		printf("^ %s, %s, %s\n\n", fault->name, memory->name, scene->name);
	return true;
}

/* Where a fault was found out last: in that scene, with so many states. */
struct finder {
	size_t scene;
	uint64_t states;
};

/*
 * find_out -- is it, with calls that are written, or sent?  With few states of every scene first:
 * to look at all of one that does not find it takes longest.  But what has found it out in another
 * memory comes before all.
 */
static bool find_out(const struct fault *fault, const struct memory *memory, bool sent,
		     struct finder *last, struct sum *sum)
{
	if (last->states && find_out_in(fault, memory, &scenes[last->scene], last->states, sum))
		return true;
	for (uint64_t states = MUTANT_STATES / 100; states <= MUTANT_STATES; states *= 10) {
		for (size_t n = 0; n < NUM_SCENES; n++) {
			size_t at = (last->scene + n) % NUM_SCENES;

			if (!scenes[at].cell == sent ||
			    !find_out_in(fault, memory, &scenes[at], states, sum))
				continue;
			*last = (struct finder){at, states};
			return true;
		}
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
	struct finder last[2] = {0};

	for (size_t i = 0; i < 2 * NUM_MEMORIES; i++) {
		const struct memory *memory = &memories[i / 2];
		bool sent = i % 2;

		if (!fault->matters(memory) ||
		    (sent && (memory->relaxed || (fault->which & WRITTEN_ONLY))))
			continue;
		places++;
		found += find_out(fault, memory, sent, &last[sent], &sum);
	}
	printf("%-6s mutant: %s: found out in %u of %u, %llu states, %.1f s\n",
	       found == places ? "ok" : "not ok", fault->name, found, places,
	       (unsigned long long) sum.states, (double) (g_get_monotonic_time() - start) / 1e6);
	checks_judge(found == places);
}

/* random_scene -- many calls of any length in a ring that has room for a few of them */
static struct scene random_scene(uint64_t seed, bool relaxed)
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
	if (!relaxed && nrand48(state) % 2)
		scene.reads = (uint32_t) nrand48(state) & 0x1fffe;
	return scene;
}

static void check_randoms(void)
{
	gint64 start = g_get_monotonic_time();
	struct sum sum = {0};

	for (uint64_t seed = checks.seed; seed < checks.seed + checks.randoms; seed++) {
		const struct memory *memory = &memories[seed % NUM_MEMORIES];
		struct scene scene = random_scene(seed, memory->relaxed);
		struct world_config config = config_of(memory, &scene, NULL);

		if (!checks_is_mine(seed) || (scene.cell && memory->relaxed))
			continue;
		config.rules.granule = seed / NUM_MEMORIES % 2 ? 8 : HW_LINE;
		config.room = 3 + seed % 14;
		sum.wrong += run_random(&config, seed, &sum);
	}
	printf("%-6s random calls: %u runs, seeds %lu to %lu, %llu steps, %llu images, %.1f s\n",
	       sum.wrong ? "not ok" : "ok", sum.runs, checks.seed, checks.seed + checks.randoms - 1,
	       (unsigned long long) sum.steps, (unsigned long long) sum.images,
	       (double) (g_get_monotonic_time() - start) / 1e6);
	checks_judge(!sum.wrong);
}

/* Options */

const char *argp_program_version = "rpc_model of pmemverbs " PACKAGE_VERSION;

static const struct argp_option argp_options[] = {
	{"scenes", 'c', NULL, 0, "A few calls in each kind of memory, in all orders", 0},
	{"states", 'n', "N", 0, "At most so many states of a scene (default: 60000)", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'c':
		options.scenes = true;
		return 0;
	case 'n':
		options.states = argp_number(state, arg, 1, ULONG_MAX);
		return 0;
	case ARGP_KEY_END:
		if (!options.scenes && !checks.mutants && !checks.randoms)
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
		.doc = "Check durable calls on a model of the hardware that loses power at every "
		       "step.",
	};

	/* Mutants make the provider complain. */
	setenv("FI_LOG_LEVEL", "none", 0);
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (options.scenes)
		check_scenes();
	for (size_t n = 0; checks.mutants && n < NUM_FAULTS; n++) {
		if (checks_is_mine(n) && checks_wants(faults[n].name))
			check_mutant(&faults[n]);
	}
	if (checks.randoms)
		check_randoms();
	return checks_end();
}
