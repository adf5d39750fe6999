/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_stress.c -- random commits, and at each completion the question: is it durable now?
 *
 * Here are the command line and the processes: a target, and initiators that are its peers.  This
 * process makes no call of libfabric's.  When a target is killed, it does what a power
 * failure would: only the shadow is left (stress.h).  Then it starts another target.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "../../util/number.h"
#include "../common/memory.h"
#include "../common/stats.h"
#include "test/support/dice.h"
#include "stress.h"

#define EXIT_FOUND 3 /* of a process that has called stress_fail */

struct settings stress = {
	.opts = {.prog = "fi_pmem_stress", .provider = "pmemverbs", .timeout = 120},
	.processes = 2,
	.connections = 2,
	.threads = 2,
	.operations = 2000,
};
struct world *world;
uint8_t *live, *shadow, *pool;

static pid_t parent, initiators[PROCESSES];

static void stop_all(void);
static int conclude(void);

const char *argp_program_version = "fi_pmem_stress of pmemverbs " PACKAGE_VERSION;

enum {
	O_SEED = 256,
	O_SECONDS,
	O_KILLS,
	O_FAULTS,
	O_FORGET,
	O_TIMEOUT,
	O_NO_ATOMICS,
	O_EVENTS,
	O_RDM
};

static const struct argp_option options[] = {
	{"memory", 'M', "PATH", 0,
	 "the target's memory, a file or /dev/dax device; a file is made and extended (default: "
	 "anonymous memory)",
	 0},
	{"address", 's', "ADDRESS", 0, "where the target listens (default: 127.0.0.1)", 0},
	{"processes", 'p', "NUMBER", 0, "initiators, each a process (default: 2)", 0},
	{"connections", 'n', "NUMBER", 0, "connections of each (default: 2)", 0},
	{"threads", 't', "NUMBER", 0, "threads that share each connection (default: 2)", 0},
	{"operations", 'I', "NUMBER", 0, "operations of each thread (default: 2000)", 0},
	{"seconds", O_SECONDS, "NUMBER", 0, "go on for so long instead", 0},
	{"seed", O_SEED, "NUMBER", 0, "what decides all operations (default: a new one)", 0},
	{"kills", O_KILLS, "NUMBER", 0,
	 "kill a process in one of so many rounds, each about 130 operations (default: 0, never)",
	 0},
	{"faults", O_FAULTS, "NUMBER", 0,
	 "let one of so many syncs of a file fail (default: 0, none)", 0},
	{"forget", O_FORGET, "NUMBER", 0,
	 "forget one of so many syncs and drains, which has to be found (default: 0, none)", 0},
	{"no-atomics", O_NO_ATOMICS, NULL, 0,
	 "no atomics: Soft-RoCE loses those that it has to send again", 0},
	{"events", O_EVENTS, NULL, 0, "the target asks to be told of all writes (FI_RMA_EVENT)", 0},
	{"rdm", O_RDM, NULL, 0,
	 "use FI_EP_RDM, which has neither messages that commit nor --events", 0},
	{"timeout", O_TIMEOUT, "SECONDS", 0, "fail when nothing happens for so long (default: 120)",
	 0},
	{0},
};

static uint64_t seed;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'M':
		stress.memory = arg;
		return 0;
	case 's':
		stress.opts.src_addr = arg;
		return 0;
	case 'p':
		stress.processes = argp_number(state, arg, 1, PROCESSES);
		return 0;
	case 'n':
		stress.connections = argp_number(state, arg, 1, CONNECTIONS);
		return 0;
	case 't':
		stress.threads = argp_number(state, arg, 1, THREADS);
		return 0;
	case 'I':
		stress.operations = argp_number(state, arg, 1, ULONG_MAX);
		return 0;
	case O_SECONDS:
		stress.seconds = argp_number(state, arg, 1, 1000000);
		return 0;
	case O_SEED:
		seed = argp_number(state, arg, 1, ULONG_MAX);
		return 0;
	case O_KILLS:
		stress.kills = argp_number(state, arg, 0, 1000000);
		return 0;
	case O_FAULTS:
		stress.faults = argp_number(state, arg, 0, 1000000);
		return 0;
	case O_FORGET:
		stress.forget = argp_number(state, arg, 0, 1000000);
		return 0;
	case O_NO_ATOMICS:
		stress.no_atomics = true;
		return 0;
	case O_RDM:
		stress.rdm = true;
		return 0;
	case O_EVENTS:
		stress.events = true;
		return 0;
	case O_TIMEOUT:
		stress.opts.timeout = argp_number(state, arg, 1, 86400);
		return 0;
	case ARGP_KEY_END:
		if (stress.processes * stress.connections > SLOTS)
			argp_error(state, "more than %d connections in all", SLOTS);
		if (stress.rdm && stress.events)
			argp_error(state, "FI_EP_RDM has no events (FI_RMA_EVENT)");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	NULL,
	"Random operations on a target's memory, all on this machine, and at each completion a "
	"look "
	"whether what it says is durable has been written back."
	"\vThe target stands in for msync and libpmem2, so that it knows what a power failure "
	"would "
	"leave; killing it is such a failure. The FI_PMEMVERBS_ variables say what the memory is.\n"
	"What a seed does is always the same; how its threads mix is not. Exit status: 0, or 1 if "
	"something was found, which is printed with the seed, or 2 for a wrong call.",
	NULL,
	NULL,
	NULL,
};

/* await_finder -- it has written what it found, or it was killed before; it ends in any case */
static void await_finder(void)
{
	siginfo_t info;

	/* A thread of the finder's ends with it, and another process is killed. */
	while (getpid() != parent)
		pause();
	while (waitid(P_PID, (id_t) atomic_load(&world->finder), &info, WEXITED | WNOWAIT) &&
	       errno == EINTR)
		continue;
}

void stress_fail(const char *fmt, ...)
{
	va_list args;
	int nobody = 0;

	if (atomic_compare_exchange_strong(&world->finder, &nobody, getpid())) {
		va_start(args, fmt);
		vsnprintf(world->failure, sizeof(world->failure), fmt, args);
		va_end(args);
		atomic_store(&world->written, true);
	} else {
		await_finder();
	}
	if (getpid() != parent)
		_exit(EXIT_FOUND);
	stop_all();
	exit(conclude());
}

/* How to do it again: the environment and the command line, with the seed */

static char replay[4096];

static void add(const char *fmt, ...)
{
	size_t len = strlen(replay);
	va_list args;

	va_start(args, fmt);
	vsnprintf(replay + len, sizeof(replay) - len, fmt, args);
	va_end(args);
}

static void describe(int argc, char **argv)
{
	add("to try it again: env");
	for (char **variable = environ; *variable; variable++) {
		if (!strncmp(*variable, "FI_", 3))
			add(" '%s'", *variable);
	}
	for (int i = 0; i < argc; i++)
		add(" '%s'", argv[i]);
	add(" --seed %llu", (unsigned long long) world->seed);
}

/* A signal that ends this process, which may be the end of somebody's patience */

static const int signals[] = {SIGHUP,  SIGINT, SIGTERM, SIGALRM, SIGABRT,
			      SIGSEGV, SIGBUS, SIGFPE,  SIGILL};
static char last_words[sizeof(replay) + 100];

static void say_last_words(int number)
{
	ssize_t ret = write(STDERR_FILENO, last_words, strlen(last_words));

	(void) ret;
	/* The action is the default one by now. */
	raise(number);
}

static void handle_signals(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = (int) SA_RESETHAND};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

/* Before there are processes */

static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void *share(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at != MAP_FAILED)
		return at;
	if (world)
		stress_fail("no memory: %s", strerror(errno));
	perror("mmap");
	exit(1);
}

static void prepare(int argc, char **argv)
{
	static struct memory memory;
	uint64_t state;

	if (!seed && getrandom(&seed, 6, 0) != 6)
		seed = (uint64_t) getpid();
	world = share(sizeof(*world));
	shadow = share(memory_len());
	pool = share(POOL);
	world->seed = state = seed ? seed : 1;
	world->start = now_ns();
	init_lock(&world->pid_lock);
	describe(argc, argv);
	snprintf(last_words, sizeof(last_words),
		 "seed %llu: ended by a signal, or hangs at its end\n%s\n",
		 (unsigned long long) world->seed, replay);
	handle_signals(say_last_words);
	for (size_t i = 0; i < POOL; i += 8) {
		uint64_t bits = dice_bits(&state);

		memcpy(pool + i, &bits, sizeof(bits));
	}
	for (unsigned int i = 0; i < SLOTS; i++)
		init_lock(&world->slots[i].lock);
	if (!stress.memory) {
		live = share(memory_len());
	} else {
		if (memory_map(&memory, stress.memory, memory_len()))
			stress_fail("no memory to test");
		live = memory.base;
		memset(live, 0, memory_len());
	}
}

/* Processes */

static pid_t start(int (*run)(unsigned int), unsigned int number)
{
	pid_t pid = fork();

	if (pid < 0)
		stress_fail("no process: %s", strerror(errno));
	if (pid)
		return pid;
	handle_signals(SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	exit(run(number));
}

static int be_target(unsigned int unused)
{
	(void) unused;
	return stress_target();
}

static void set_target(pid_t pid)
{
	/* Nothing is half done under this lock if its owner dies. */
	if (pthread_mutex_lock(&world->pid_lock) == EOWNERDEAD)
		pthread_mutex_consistent(&world->pid_lock);
	world->target = pid;
	pthread_mutex_unlock(&world->pid_lock);
}

void kill_target(void)
{
	if (pthread_mutex_lock(&world->pid_lock) == EOWNERDEAD)
		pthread_mutex_consistent(&world->pid_lock);
	if (world->target)
		kill(world->target, SIGKILL);
	pthread_mutex_unlock(&world->pid_lock);
}

static void stop_all(void)
{
	kill_target();
	set_target(0);
	for (unsigned int i = 0; i < stress.processes; i++) {
		if (initiators[i])
			kill(initiators[i], SIGKILL);
	}
	while (wait(NULL) > 0)
		continue;
}

/* fail_power -- what was not written back is gone */
static void fail_power(void)
{
	atomic_fetch_add(&world->life, 1);
	for (unsigned int i = 0; i < stress.processes * stress.connections; i++)
		oracle_fail_power(i);
}

/* ended -- a process has */
static void ended(const siginfo_t *info)
{
	bool killed = info->si_code == CLD_KILLED && info->si_status == SIGKILL;
	bool is_target = info->si_pid == world->target;
	bool well = info->si_code == CLD_EXITED && !info->si_status &&
		    (!is_target || atomic_load(&world->ending));
	unsigned int initiator = 0;

	/* Its number may be somebody else's as soon as it is waited for. */
	if (is_target)
		set_target(0);
	while (initiator < stress.processes && initiators[initiator] != info->si_pid)
		initiator++;
	if (!is_target && initiator < stress.processes)
		initiators[initiator] = 0;
	waitpid(info->si_pid, NULL, 0);
	if (!well && !(killed && stress.kills))
		stress_fail("%s has ended with %s %d", is_target ? "the target" : "an initiator",
			    info->si_code == CLD_EXITED ? "status" : "signal", info->si_status);
	if (is_target && killed) {
		fail_power();
		set_target(start(be_target, 0));
	} else if (killed && initiator < stress.processes) {
		initiators[initiator] = start(stress_initiator, initiator);
	}
}

static bool is_running(void)
{
	for (unsigned int i = 0; i < stress.processes; i++) {
		if (initiators[i])
			return true;
	}
	if (!atomic_exchange(&world->ending, true))
		alarm((unsigned int) stress.opts.timeout);
	return world->target;
}

static void run(void)
{
	siginfo_t info;

	set_target(start(be_target, 0));
	for (unsigned int i = 0; i < stress.processes; i++)
		initiators[i] = start(stress_initiator, i);
	while (is_running()) {
		if (!waitid(P_ALL, 0, &info, WEXITED | WNOWAIT))
			ended(&info);
		else if (errno != EINTR)
			stress_fail("no process to wait for: %s", strerror(errno));
	}
	alarm(0);
	fail_power();
}

static void print_counts(void)
{
	static const char *const names[COUNTS] = {
		[C_WRITES] = "writes",
		[C_INJECTS] = "injected writes",
		[C_ATOMICS] = "atomics",
		[C_FETCHES] = "fetching atomics",
		[C_READS] = "reads",
		[C_MESSAGES] = "messages",
		[C_COMMITS] = "commits among them",
		[C_FENCED] = "fenced commits",
		[C_CLAIMS] = "claims of durability",
		[C_BYTES] = "bytes compared",
		[C_NOTICES] = "notices at the target",
		[C_FENCES] = "fenced commits seen under way",
		[C_VISIBLE] = "looks at visible data",
		[C_COUNTED] = "counters that had counted all",
		[C_TOLD] = "looks at data of counted writes",
		[C_ERRORS] = "failed operations",
		[C_ROUNDS] = "rounds",
		[C_CONNECTS] = "connections made",
		[C_DEATHS] = "processes killed",
		[C_FAILURES] = "syncs that failed",
		[C_SYNCS] = "syncs",
		[C_WRITTEN] = "ranges written before a sync",
		[C_DRAINS] = "drains",
	};

	for (unsigned int i = 0; i < COUNTS; i++)
		printf("%-30s %llu\n", names[i],
		       (unsigned long long) atomic_load(&world->counts[i]));
}

/* conclude -- say what was found; the exit status */
static int conclude(void)
{
	const char *failure = NULL;

	print_counts();
	fflush(stdout);
	if (atomic_load(&world->written))
		failure = world->failure;
	else if (atomic_load(&world->finder))
		failure = "somebody who has found something was killed before it could say what";
	else if (!atomic_load(&world->counts[C_CLAIMS]))
		failure = "nothing was committed, so this shows nothing";
	if (!failure)
		return 0;
	fprintf(stderr, "seed %llu: %s\n%s\n", (unsigned long long) world->seed, failure, replay);
	return 1;
}

/* is_set -- to this value, in the environment: what the provider is told, too */
static bool is_set(const char *name, const char *value)
{
	const char *is = getenv(name);

	return is && !strcasecmp(is, value);
}

int main(int argc, char **argv)
{
	argp_err_exit_status = EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
		return EXIT_USAGE;
	if (!stress.opts.src_addr)
		stress.opts.src_addr = "127.0.0.1";
	stress.opts.dst_addr = stress.opts.src_addr;
	stress.commit_all = is_set("FI_PMEMVERBS_COMMIT", "all");
	stress.relaxed = is_set("FI_PMEMVERBS_ORDERING", "relaxed");
	parent = getpid();
	prepare(argc, argv);
	printf("seed %llu\n", (unsigned long long) world->seed);
	fflush(stdout);
	run();
	return conclude();
}
