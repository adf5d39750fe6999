/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files_model.c -- regions in several files, whose pages are synced beside the agent, in groups
 *
 * Programs of two connections commit to regions in one or two files.  Two threads of the target
 * carry groups out, in any order and at the same time, while the agent goes on.  They stand for
 * the agent's thread and for those of disks, whose waking is for prov/pmemlive to check.  The first
 * sync of a region may fail: then the kernel takes its pages for clean, and never writes what they
 * were.
 *
 * Beside what holds in every world (invariants.c):
 * 1. A commit fails only if a sync of a region failed that it covers.
 * 2. Groups of a disk are carried out one after the other; those of two, at the same time.
 *
 * A mutant does one thing wrong, and must break one of these rules.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/syncing.h"
#include "agent/writeback.h"
#include "base/container.h"
#include "checks.h"
#include "memory/disk.h"
#include "memory/file.h"
#include "world_impl.h"

#define MOST_STATES 5000000
#define MOST_GROUPS 4
#define MOST_OPS 2

/* Another file of the same lane, the same file, another lane, another device. */
enum place { ONE_LANE, ONE_FILE, OTHER_LANE, OTHER_DEVICE, NUM_PLACES };

struct program {
	const char *name;
	enum place places[WORLD_MAX_REGIONS];
	unsigned int num_regions;
	bool stores;
	bool whole; /* a sync of any page of a file empties the disk's cache of all that it has of
		       it */
	/* A bit for each set of regions whose syncs fail; with two connections a search takes long.
	 */
	unsigned int failing;
	struct world_op ops[MOST_OPS];
};

enum {
	NONE_FAILS = 1 << 0,
	FIRST_FAILS = 1 << 1,
	ALL_SETS = (1 << 4) - 1,
};

#define COMMIT_TO(on, to, at)                                                                      \
	{                                                                                          \
		.ep = (on), .region = (to), .offset = (at), .len = 8, .commit = true               \
	}
#define FENCED_TO(on, to, at)                                                                      \
	{                                                                                          \
		.ep = (on), .region = (to), .offset = (at), .len = 8, .commit = true,              \
		.fence = true                                                                      \
	}
#define WRITE_TO(on, to, at)                                                                       \
	{                                                                                          \
		.ep = (on), .region = (to), .offset = (at), .len = 8                               \
	}

static const struct program programs[] = {
	{"one region, two connections",
	 {ONE_LANE},
	 1,
	 false,
	 false,
	 NONE_FAILS | FIRST_FAILS,
	 {COMMIT_TO(0, 0, 0), COMMIT_TO(1, 0, 64)}},
	{"two files of one lane",
	 {ONE_LANE, ONE_LANE},
	 2,
	 false,
	 false,
	 FIRST_FAILS,
	 {COMMIT_TO(0, 0, 0), COMMIT_TO(1, 1, 0)}},
	{"two lanes of a device",
	 {ONE_LANE, OTHER_LANE},
	 2,
	 false,
	 false,
	 FIRST_FAILS,
	 {COMMIT_TO(0, 0, 0), COMMIT_TO(1, 1, 0)}},
	{"one connection, two lanes",
	 {ONE_LANE, OTHER_LANE},
	 2,
	 false,
	 false,
	 ALL_SETS,
	 {COMMIT_TO(0, 0, 0), COMMIT_TO(0, 1, 0)}},
	{"one connection, two devices",
	 {ONE_LANE, OTHER_DEVICE},
	 2,
	 false,
	 false,
	 ALL_SETS,
	 {COMMIT_TO(0, 0, 0), COMMIT_TO(0, 1, 0)}},
	{"a request for two devices",
	 {ONE_LANE, OTHER_DEVICE},
	 2,
	 false,
	 false,
	 ALL_SETS,
	 {WRITE_TO(0, 0, 0), FENCED_TO(0, 1, 0)}},
	{"a tail behind a record on another device",
	 {ONE_LANE, OTHER_DEVICE},
	 2,
	 true,
	 false,
	 ALL_SETS,
	 {COMMIT_TO(0, 0, 0), FENCED_TO(0, 1, 0)}},
	{"two regions of a file",
	 {ONE_LANE, ONE_FILE},
	 2,
	 false,
	 true,
	 NONE_FAILS | FIRST_FAILS,
	 {COMMIT_TO(0, 0, 0), COMMIT_TO(1, 1, 0)}},
	{"two files that are written side by side",
	 {ONE_LANE, ONE_LANE},
	 2,
	 false,
	 true,
	 NONE_FAILS,
	 {COMMIT_TO(0, 0, 0), COMMIT_TO(1, 1, 0)}},
};

#define NUM_PROGRAMS (sizeof(programs) / sizeof(programs[0]))

enum mutant {
	NO_MUTANT,
	SERVED_MEANWHILE, /* a connection goes on while its request is in a group */
	ERROR_LOST,       /* a region whose sync failed is not marked */
	ERROR_SPREADS,    /* ... and all others are */
	ONE_DISK,         /* all files are taken for one disk's */
	ONE_SYNC,         /* ... or for one file */
};

static enum mutant mutant;

static struct pmv_agent *agent_of(const struct world *world)
{
	return &pmv_to_domain(world->away.domain)->agent;
}

static const struct program *program_of(const struct world *world)
{
	return world->config.arg;
}

/* file_of -- the number of the first region in the same file */
static unsigned int file_of(const struct program *program, unsigned int region)
{
	return program->places[region] == ONE_FILE ? 0 : region;
}

/* What the provider calls */

/* The two threads of the world are there for that. */
int __wrap_pmv_spawn(pthread_t *thread, const char *name, void *(*body)(void *), void *arg,
		     int signal);

int __wrap_pmv_spawn(pthread_t *thread, const char *name, void *(*body)(void *), void *arg,
		     int signal)
{
	(void) thread;
	(void) name;
	(void) body;
	(void) arg;
	(void) signal;
	return EAGAIN;
}

/* These regions are no mappings: the world says in which files they are. */
bool __wrap_pmv_files_cover(const struct pmv_files *files);

bool __wrap_pmv_files_cover(const struct pmv_files *files)
{
	(void) files;
	return true;
}

bool __wrap_pmv_files_find(const struct pmv_files *files, const void *addr, size_t *len,
			   struct pmv_file_part *part);

bool __wrap_pmv_files_find(const struct pmv_files *files, const void *addr, size_t *len,
			   struct pmv_file_part *part)
{
	const struct program *program = program_of(world_current);
	const char *at = addr;
	int i = 0;

	(void) files;
	(void) len;
	while (at < world_current->memory[i] ||
	       at >= world_current->memory[i] + world_current->config.region_size)
		i++;
	*part = (struct pmv_file_part){
		.ino = mutant == ONE_SYNC ? 0 : file_of(program, (unsigned int) i),
		.fd = i,
		.offset = (uint64_t) (at - world_current->memory[i]),
	};
	return program->whole;
}

bool __real_pmv_region_was_lost(struct pmv_region *region);
bool __wrap_pmv_region_was_lost(struct pmv_region *region);

bool __wrap_pmv_region_was_lost(struct pmv_region *region)
{
	if (mutant == ERROR_LOST)
		return false;
	return (mutant == ERROR_SPREADS && world_current->failed_syncs) ||
	       __real_pmv_region_was_lost(region);
}

bool __real_pmv_syncing_take(struct pmv_agent *agent, unsigned int first);
bool __wrap_pmv_syncing_take(struct pmv_agent *agent, unsigned int first);

bool __wrap_pmv_syncing_take(struct pmv_agent *agent, unsigned int first)
{
	return __real_pmv_syncing_take(agent, first) && mutant != SERVED_MEANWHILE;
}

/* Threads of the model take turns: who waits for a lock lets the others go on. */
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	if (!world_current || !world_current->running)
		return __real_pthread_mutex_lock(lock);
	while (pthread_mutex_trylock(lock))
		world_pause("waits for a region that is synced");
	return 0;
}

/* The application */

static struct world_app files;

/*
 * Were two groups seen to be carried out at the same time?  That is of all states, and no part of
 * one: it is not in the arena.
 */
static bool *beside;

static uint64_t disk_of(enum place place)
{
	static const struct {
		dev_t device;
		ino_t file;
	} places[NUM_PLACES] = {[ONE_LANE] = {1, 0},
				[ONE_FILE] = {1, 0},
				[OTHER_LANE] = {1, 1},
				[OTHER_DEVICE] = {2, 0}};

	if (mutant == ONE_DISK)
		place = ONE_LANE;
	return pmv_disk_lane(places[place].device, places[place].file);
}

/* As a group of requests is allocated, in syncing.c. */
struct group {
	TAILQ_ENTRY(group) next;
	struct pmv_writeback_batch batch;
};

static struct group *groups[MOST_GROUPS];

static void open_files(struct world *world)
{
	const struct program *program = program_of(world);

	world_program.open(world);
	for (unsigned int i = 0; i < program->num_regions; i++) {
		struct pmv_mr *mr = pmv_container_of(world->mr[i], struct pmv_mr, mr_fid);

		mr->region->disk = disk_of(program->places[i]);
		hw_memory_of(world->sim->hw, world->memory[i])->file = file_of(program, i);
	}
	pmv_syncing_begin(agent_of(world));
	/* No large object comes later, but in the place of these. */
	for (size_t i = 0; i < MOST_GROUPS; i++)
		groups[i] = malloc(sizeof(*groups[i]));
	for (size_t i = 0; i < MOST_GROUPS; i++)
		free(groups[i]);
}

static void add_spans(const struct world *world, struct explore_world *explored)
{
	world_add_files(world, explored);
	for (size_t i = 0; i < MOST_GROUPS; i++) {
		world_add_span(explored, (char *) groups[i] - ARENA_HEAD,
			       ARENA_HEAD + offsetof(struct group, batch), GROUP_AWAY);
		world_add_batch(world, explored, &groups[i]->batch);
	}
}

static void tell_used(const struct world *world)
{
	for (size_t i = 0; i < MOST_GROUPS; i++)
		world_tell_batch(world, &groups[i]->batch);
}

static void close_files(struct world *world)
{
	pmv_syncing_end(agent_of(world));
}

/* other_may_run -- the second thread only beside the first: they are alike */
static bool other_may_run(const struct world *world, unsigned int other)
{
	return pmv_syncing_waits(&agent_of(world)->syncing) && (!other || world->others[0].runs);
}

static void sync_group(struct world *world)
{
	struct pmv_sync_disk *disk = pmv_syncing_take_group(agent_of(world));

	if (disk)
		pmv_syncing_carry_out(agent_of(world), disk);
}

/* regions_of_file -- a bit for each; where a file is synced as a whole, an error is of all of it */
static unsigned int regions_of_file(const struct program *program, unsigned int region)
{
	unsigned int regions = 1U << region;

	for (unsigned int i = 0; program->whole && i < program->num_regions; i++) {
		if (file_of(program, i) == file_of(program, region))
			regions |= 1U << i;
	}
	return regions;
}

/* may_fail -- rule 1 */
static bool may_fail(const struct world *world, unsigned int number)
{
	const struct program *program = program_of(world);
	const struct world_op *op = &world->config.ops[number];
	unsigned int covered = regions_of_file(program, op->region);

	for (unsigned int i = 0; op->fence && i < number; i++) {
		if (world->config.ops[i].ep == op->ep)
			covered |= regions_of_file(program, world->config.ops[i].region);
	}
	return covered & world->failed_syncs;
}

/* may_be_beside -- rule 2 */
static bool may_be_beside(const struct program *program)
{
	return program->num_regions > 1 && program->places[1] > ONE_FILE && program->ops[1].ep;
}

static const char *check(void *arg, bool final)
{
	struct world *world = arg;
	static char text[80];

	for (unsigned int i = 0; i < world->next_op; i++) {
		if (!world->ops[i].failed || may_fail(world, i))
			continue;
		snprintf(text, sizeof(text), "operation %u fails, and no sync of its regions did",
			 i + 1);
		return text;
	}
	if (atomic_load(&agent_of(world)->syncing.under_way) > 1) {
		*beside = true;
		if (!may_be_beside(program_of(world)))
			return "two groups are carried out that are one connection's, or one "
			       "disk's";
	}
	return world_check(world, final);
}

/* Worlds */

static struct world_config config_of(const struct program *program, unsigned int failing)
{
	struct world_config config = {
		.rules = {.ddio = true, .granule = HW_LINE, .disk_cache = program->whole},
		.domain = PMV_PAGE,
		.stores = program->stores,
		.failing = failing,
		.dies_from = WORLD_NEVER_DIES,
		.reduced = true,
		.room = 16,
		.num_eps = 1 + program->ops[1].ep,
		.num_regions = program->num_regions,
		.region_size = 2 * HW_PAGE,
		.num_ops = MOST_OPS,
		.ops = program->ops,
		.app = &files,
		.arg = program,
	};

	world_believe(&config);
	return config;
}

/* is_right -- one program, with all its sets of syncs that fail */
static bool is_right(const struct program *program, enum world_mutation mutation, bool tell,
		     uint64_t *states)
{
	*beside = false;
	for (unsigned int failing = 0; failing < 1U << program->num_regions; failing++) {
		struct world_config config = config_of(program, failing);

		config.mutation = mutation;
		if ((program->failing & 1U << failing) &&
		    !checks_explore(&config, MOST_STATES, tell, states))
			return false;
	}
	if (*beside == may_be_beside(program))
		return true;
	if (tell)
		printf("groups of two disks are never carried out at the same time\n");
	return false;
}

static const struct {
	const char *name;
	enum world_mutation mutation;
	enum mutant mutant;
	bool finds[NUM_PROGRAMS];
} mutants[] = {
	{"acknowledged before it is synced",
	 MUTATION_ACK_TOO_SOON,
	 NO_MUTANT,
	 {true, true, true, true, true, true, true, false, false}},
	{"the kernel hears of no write",
	 MUTATION_NOT_TOUCHED,
	 NO_MUTANT,
	 {true, true, true, true, true, true, true, false, false}},
	{"a tail is stored before what it follows is synced",
	 MUTATION_STORE_TOO_SOON,
	 NO_MUTANT,
	 {false, false, false, false, false, false, true, false, false}},
	{"a connection is served while its request is in a group",
	 MUTATION_NONE,
	 SERVED_MEANWHILE,
	 {false, false, false, true, true, false, false, false, false}},
	{"an error is lost",
	 MUTATION_NONE,
	 ERROR_LOST,
	 {false, false, false, true, true, true, true, false, false}},
	{"an error is everybody's",
	 MUTATION_NONE,
	 ERROR_SPREADS,
	 {false, true, false, true, true, false, false, false, false}},
	{"all files are one disk's",
	 MUTATION_NONE,
	 ONE_DISK,
	 {false, false, true, false, false, false, false, false, false}},
	{"a disk's cache is emptied of one file, and two were written",
	 MUTATION_NONE,
	 ONE_SYNC,
	 {false, false, false, false, false, false, false, false, true}},
	{"a disk's cache is emptied before pages are written",
	 MUTATION_NOT_AWAITED,
	 NO_MUTANT,
	 {false, false, false, false, false, false, false, true, false}},
};

static void check_program(const struct program *program)
{
	uint64_t states = 0;
	bool right = is_right(program, MUTATION_NONE, true, &states);

	printf("%-6s files, %s: %llu states\n", right ? "ok" : "not ok", program->name,
	       (unsigned long long) states);
	checks_judge(right);
}

static void check_mutant(size_t m, const struct program *program)
{
	uint64_t states = 0;
	bool found;

	mutant = mutants[m].mutant;
	found = !is_right(program, mutants[m].mutation, checks.tell, &states);
	mutant = NO_MUTANT;
	printf("%-6s mutant, %s: %s: after %llu states\n", found ? "ok" : "not ok", mutants[m].name,
	       program->name, (unsigned long long) states);
	checks_judge(found);
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&checks_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.children = children,
		.doc = "Check syncs of several files on a model of the hardware that loses power "
		       "at every step.",
	};
	size_t number = 0;

	beside = malloc(sizeof(*beside));
	if (!beside)
		return EXIT_FAILURE;
	/* Syncs that fail, and mutants, make the provider complain. */
	setenv("FI_LOG_LEVEL", "none", 0);
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	files = world_program;
	files.others = 2;
	files.open = open_files;
	files.add_spans = add_spans;
	files.tell_used = tell_used;
	files.close = close_files;
	files.other_may_run = other_may_run;
	files.run_other = sync_group;
	files.check = check;
	for (size_t i = 0; i < NUM_PROGRAMS; i++) {
		if (checks_is_mine(number++) && checks_wants(programs[i].name))
			check_program(&programs[i]);
	}
	for (size_t m = 0; checks.mutants && m < sizeof(mutants) / sizeof(mutants[0]); m++) {
		for (size_t i = 0; i < NUM_PROGRAMS; i++) {
			if (mutants[m].finds[i] && checks_is_mine(number++) &&
			    checks_wants(mutants[m].name))
				check_mutant(m, &programs[i]);
		}
	}
	return checks_end();
}
