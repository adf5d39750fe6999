/* SPDX-License-Identifier: BSD-2-Clause */
/* pmemlive.c -- the program: one world for each seed, each in a process of its own */
#include <argp.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core.h"
#include "descriptors.h"
#include "inside.h"
#include "rdm_world.h"
#include "rxm.h"
#include "scheduler.h"
#include "world.h"

#define MOST_CPU_S 120

/* What a world has done, for the summary. */
struct result {
	uint64_t ops, failed, steps;
	int64_t simulated_ns, longest_ns;
};

struct arguments {
	uint64_t seed, count;
	bool tells, until_found, rdm;
};

static void live_msg(const struct arguments *arguments, struct sched_process *director,
		     struct result *result)
{
	world_choose();
	if (arguments->tells)
		world_describe();
	sched_run(director, world_live, NULL);
	*result = (struct result){world.ops_ended, world.ops_failed, sched_steps(), sched_now_ns,
				  world.longest_ns};
}

static void live_rdm(const struct arguments *arguments, struct sched_process *director,
		     struct result *result)
{
	rdm_choose();
	if (arguments->tells)
		rdm_describe();
	sched_run(director, rdm_live, NULL);
	*result = (struct result){rdm_world.ops_ended, rdm_world.ops_failed, sched_steps(),
				  sched_now_ns, rdm_world.longest_ns};
}

/* live -- the seed's world, in this process */
static void live(uint64_t seed, const struct arguments *arguments, struct result *result)
{
	static struct sched_process director = {.name = "director"};

	sched_begin(seed);
	descriptors_start();
	sockets_start();
	core_start();
	links_start();
	if (arguments->rdm)
		live_rdm(arguments, &director, result);
	else
		live_msg(arguments, &director, result);
	if (arguments->tells)
		sched_show(sched_lines);
}

/* try_world -- in a child, which leaves nothing behind; its status, -1: it says nothing */
static int try_world(uint64_t seed, const struct arguments *arguments, struct result *result)
{
	int fds[2], status;
	pid_t child;
	ssize_t len;

	fflush(stdout);
	if (pipe(fds) || (child = fork()) < 0) {
		perror("fork");
		exit(2);
	}
	if (!child) {
		/* What goes round without a step does not end by itself. */
		setrlimit(RLIMIT_CPU, &(struct rlimit){MOST_CPU_S, MOST_CPU_S});
		/* The provider warns of memory that is not persistent. */
		if (!arguments->tells && !freopen("/dev/null", "w", stderr))
			_exit(2);
		live(seed, arguments, result);
		fflush(stdout);
		_exit(write(fds[1], result, sizeof(*result)) != sizeof(*result));
	}
	close(fds[1]);
	memset(result, 0, sizeof(*result));
	len = read(fds[0], result, sizeof(*result));
	close(fds[0]);
	waitpid(child, &status, 0);
	return status || len == sizeof(*result) ? status : -1;
}

/* try_seed -- true: nothing was found */
static bool try_seed(uint64_t seed, const struct arguments *arguments, struct result *all)
{
	struct result result;
	int status;

	sched_traces = arguments->tells;
	status = try_world(seed, arguments, &result);
	all->ops += result.ops;
	all->failed += result.failed;
	all->steps += result.steps;
	all->simulated_ns += result.simulated_ns;
	if (result.longest_ns > all->longest_ns)
		all->longest_ns = result.longest_ns;
	if (!status)
		return true;
	if (!sched_traces) {
		sched_traces = true;
		status = try_world(seed, arguments, &result);
	}
	if (status > 0 && WIFSIGNALED(status))
		printf("it was killed: %s\n", strsignal(WTERMSIG(status)));
	printf("not ok seed %llu: pmemlive%s --seed=%llu does the same again%s\n",
	       (unsigned long long) seed, arguments->rdm ? " --rdm" : "", (unsigned long long) seed,
	       status ? "" : ", but not always");
	return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case 's':
		arguments->seed = strtoull(arg, NULL, 0);
		break;
	case 'n':
		arguments->count = strtoull(arg, NULL, 0);
		break;
	case 'l':
		sched_lines = (unsigned int) strtoul(arg, NULL, 0);
		break;
	case 'f':
		arguments->until_found = true;
		break;
	case 'r':
		arguments->rdm = true;
		break;
	case 't':
		arguments->tells = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* without_chance -- the same addresses each time: locks are taken in their order */
static void without_chance(char **argv)
{
	int before = personality(0xffffffff);

	if (before < 0 || (before & ADDR_NO_RANDOMIZE) ||
	    personality((unsigned long) before | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"seed", 's', "N", 0, "one world, or the first one", 0},
		{"count", 'n', "N", 0, "so many worlds (default: 1)", 0},
		{"until-found", 'f', NULL, 0,
		 "end with the first world in which something is wrong", 0},
		{"lines", 'l', "N", 0, "print so many of the last lines of a trace (default: 60)",
		 0},
		{"rdm", 'r', NULL, 0, "worlds of FI_EP_RDM", 0},
		{"tell", 't', NULL, 0, "say what a seed stands for, and print the trace's end", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Lives through simulated worlds of pmemverbs: each operation must end in "
		       "its time, nobody may sleep who has something to do, and who is idle must "
		       "sleep.",
	};
	struct arguments arguments = {.seed = 1, .count = 1};
	struct result all = {0};
	uint64_t found = 0;

	without_chance(argv);
	inside_start();
	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	/* Its RxM calls functions that inside.c does not have. */
	if (arguments.rdm && FI_VERSION_GE(fi_version(), FI_VERSION(2, 0))) {
		puts("worlds of FI_EP_RDM need a libfabric before 2.0");
		return 77;
	}
	if (arguments.rdm)
		rxm_load();
	for (uint64_t i = 0; i < arguments.count && !(found && arguments.until_found); i++)
		found += !try_seed(arguments.seed + i, &arguments, &all);
	printf("%llu worlds, %llu operations, %llu of them failed, %.0f s simulated in %llu steps; "
	       "the longest operation took %.3f ms\n",
	       (unsigned long long) arguments.count, (unsigned long long) all.ops,
	       (unsigned long long) all.failed, (double) all.simulated_ns / 1e9,
	       (unsigned long long) all.steps, (double) all.longest_ns / 1e6);
	return found ? 1 : 0;
}
