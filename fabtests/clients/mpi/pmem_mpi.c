/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmem_mpi.c -- an MPI program that knows nothing of persistent memory
 *
 * Between two processes: messages, and one-sided operations on windows that are
 * parts of a shared mapping of a file or of device DAX.  What arrives is compared
 * byte by byte.  They write to each other's windows: into its own Open MPI stores
 * without asking anybody.
 *
 * With -l process 0 writes numbered records to the window of process 1 instead,
 * and prints each number when MPI_Win_flush has returned; fabtests/power/plug cuts
 * the power meanwhile, and -A compares what is left with what was printed.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

#include "../acks.h"
#include "../../common/memory.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define WINDOW_SIZE (2 << 20)
#define MESSAGE_SIZE (1 << 20)
#define ROUNDS 50

static int rank, peer;
static char *buf; /* as large as a window */

/* ---- what the cases share ---- */

/* agree -- has any process found something else than it should have? */
static int agree(int failed)
{
	int any;

	MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return any;
}

static int complain(const char *what, size_t right, size_t len)
{
	fprintf(stderr, "process %d, %s: byte %zu of %zu is wrong\n", rank, what, right, len);
	return 1;
}

static int expect(const char *what, const void *bytes, size_t len, uint64_t seed, size_t offset)
{
	size_t right = pattern_check(bytes, len, seed, offset);

	return right == len ? 0 : complain(what, right, len);
}

static int expect_number(const char *what, int64_t number, int64_t wanted)
{
	if (number == wanted)
		return 0;
	fprintf(stderr, "process %d, %s: %" PRId64 " instead of %" PRId64 "\n", rank, what, number,
		wanted);
	return 1;
}

/* A window, and what of the mapping belongs to this process. */
struct window {
	MPI_Win win;
	char *base;
};

/* ---- messages ---- */

static int messages(struct window *window)
{
	static const int sizes[] = {0, 1, 63, 4096, 65537, MESSAGE_SIZE};
	int failed = 0;

	(void) window;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int sender = 0; sender < 2; sender++) {
			if (rank == sender) {
				pattern_fill(buf, (size_t) sizes[i], i, 0);
				MPI_Send(buf, sizes[i], MPI_BYTE, peer, (int) i, MPI_COMM_WORLD);
				continue;
			}
			memset(buf, 0, (size_t) sizes[i]);
			MPI_Recv(buf, sizes[i], MPI_BYTE, peer, (int) i, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			failed |= expect("a message", buf, (size_t) sizes[i], i, 0);
		}
	}
	return failed;
}

/* Many at a time, in both directions, received in another order. */
static int messages_under_way(struct window *window)
{
	enum { COUNT = 32, SIZE = 16384 };
	MPI_Request requests[2 * COUNT];
	char *to = buf + COUNT * SIZE;
	int failed = 0;

	(void) window;
	pattern_fill(buf, COUNT * SIZE, (uint64_t) rank, 0);
	memset(to, 0, COUNT * SIZE);
	for (int i = 0; i < COUNT; i++)
		MPI_Irecv(to + (COUNT - 1 - i) * SIZE, SIZE, MPI_BYTE, peer, COUNT - 1 - i,
			  MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < COUNT; i++)
		MPI_Isend(buf + i * SIZE, SIZE, MPI_BYTE, peer, i, MPI_COMM_WORLD,
			  &requests[COUNT + i]);
	MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
	failed |= expect("messages", to, COUNT * SIZE, (uint64_t) peer, 0);
	return failed;
}

/* ---- one-sided ---- */

/* Both write to each other's windows, and look when both have flushed. */
static int put_flush(struct window *window)
{
	static const size_t sizes[] = {1, 8, 63, 4096, 65537, 1 << 20};
	size_t at = 3;
	int failed = 0;

	MPI_Win_lock_all(0, window->win);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(buf, sizes[i], i, at);
		MPI_Put(buf, (int) sizes[i], MPI_BYTE, peer, (MPI_Aint) at, (int) sizes[i],
			MPI_BYTE, window->win);
		MPI_Win_flush(peer, window->win);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_sync(window->win);
		failed |= expect("a put", window->base + at, sizes[i], i, at);
		at += sizes[i];
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(window->win);
	return failed;
}

static int put_burst(struct window *window)
{
	enum { COUNT = 200, SIZE = 200, STRIDE = 256 };
	int failed = 0;

	MPI_Win_lock_all(0, window->win);
	for (uint64_t round = 0; round < 5; round++) {
		pattern_fill(buf, COUNT * STRIDE, round, 0);
		for (int i = 0; i < COUNT; i++)
			MPI_Put(buf + i * STRIDE, SIZE, MPI_BYTE, peer, i * STRIDE, SIZE, MPI_BYTE,
				window->win);
		MPI_Win_flush_all(window->win);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_sync(window->win);
		for (size_t at = 0; !failed && at < COUNT * STRIDE; at += STRIDE)
			failed |= expect("one of many puts", window->base + at, SIZE, round, at);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(window->win);
	return failed;
}

static int put_unlock(struct window *window)
{
	int failed = 0;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		pattern_fill(buf, 4096, round, 0);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, window->win);
		MPI_Put(buf, 4096, MPI_BYTE, peer, 0, 4096, MPI_BYTE, window->win);
		MPI_Win_unlock(peer, window->win);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window->win);
		failed |= expect("a put", window->base, 4096, round, 0);
		MPI_Win_unlock(rank, window->win);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return failed;
}

static int put_fence(struct window *window)
{
	int failed = 0;

	pattern_fill(buf, 65536, 5, 0);
	MPI_Win_fence(0, window->win);
	MPI_Put(buf, 65536, MPI_BYTE, peer, 0, 65536, MPI_BYTE, window->win);
	MPI_Win_fence(0, window->win);
	failed |= expect("a put", window->base, 65536, 5, 0);
	memset(buf, 0, 65536);
	MPI_Get(buf, 65536, MPI_BYTE, peer, 0, 65536, MPI_BYTE, window->win);
	MPI_Win_fence(0, window->win);
	failed |= expect("a get", buf, 65536, 5, 0);
	return failed;
}

/* Elements that several processes add to: more than one cannot be one atomic. */
static int accumulate_many(struct window *window)
{
	enum { COUNT = 100 };
	int64_t *mine = (int64_t *) window->base, *add = (int64_t *) buf;
	int failed = 0;

	memset(mine, 0, COUNT * sizeof(*mine));
	for (int i = 0; i < COUNT; i++)
		add[i] = i;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window->win);
	for (int round = 0; round < 10; round++) {
		MPI_Accumulate(add, COUNT, MPI_INT64_T, 0, 0, COUNT, MPI_INT64_T, MPI_SUM,
			       window->win);
		MPI_Win_flush(0, window->win);
	}
	MPI_Win_unlock_all(window->win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; rank == 0 && i < COUNT; i++)
		failed |= expect_number("a sum", mine[i], INT64_C(20) * i);
	return failed;
}

/* Both count in the windows of both; what is fetched has to grow. */
static int fetch_add(struct window *window)
{
	int64_t *mine = (int64_t *) window->base;
	int64_t one = 1, last = -1, fetched;
	int failed = 0;

	memset(mine, 0, 2 * sizeof(*mine));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window->win);
	for (int i = 0; i < ROUNDS; i++) {
		MPI_Fetch_and_op(&one, &fetched, MPI_INT64_T, 0, 0, MPI_SUM, window->win);
		MPI_Accumulate(&one, 1, MPI_INT64_T, 1, 8, 1, MPI_INT64_T, MPI_SUM, window->win);
		MPI_Win_flush_all(window->win);
		failed |= fetched <= last;
		last = fetched;
	}
	MPI_Win_unlock_all(window->win);
	MPI_Barrier(MPI_COMM_WORLD);
	failed |= expect_number("the sum", mine[rank], 2 * ROUNDS);
	return failed;
}

/* Not in one's own window: Open MPI 4.1 crashes there (its issue 9146). */
static int compare_and_swap(struct window *window)
{
	int64_t *mine = (int64_t *) window->base;
	int64_t zero = 0, one = 1, two = 2, first, second;
	int failed = 0;

	mine[0] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window->win);
	MPI_Compare_and_swap(&one, &zero, &first, MPI_INT64_T, peer, 0, window->win);
	MPI_Win_flush(peer, window->win);
	MPI_Compare_and_swap(&two, &zero, &second, MPI_INT64_T, peer, 0, window->win);
	MPI_Win_flush(peer, window->win);
	MPI_Win_unlock_all(window->win);
	MPI_Barrier(MPI_COMM_WORLD);
	failed |= expect_number("the first swap", first, 0);
	failed |= expect_number("the second swap", second, 1);
	failed |= expect_number("what was swapped", mine[0], 1);
	return failed;
}

/* ---- running them ---- */

static int run(const char *name, int (*check)(struct window *), struct window *window)
{
	int failed;

	MPI_Barrier(MPI_COMM_WORLD);
	failed = agree(check(window));
	if (rank == 0) {
		printf("%s %s\n", failed ? "not ok" : "ok", name);
		fflush(stdout);
	}
	return failed;
}

static int run_messages(void)
{
	return run("mpi_messages", messages, NULL) |
	       run("mpi_messages_under_way", messages_under_way, NULL);
}

static int run_windows(const char *path, int adds, int swaps)
{
	struct memory memory, plain;
	struct window window, scratch;
	int failed = 0;

	/* The other process may have more luck, and would wait for this one. */
	if (memory_map(&memory, path, 2 * WINDOW_SIZE) || memory_map(&plain, NULL, WINDOW_SIZE)) {
		MPI_Abort(MPI_COMM_WORLD, 1);
		return 1;
	}
	window.base = (char *) memory.base + rank * WINDOW_SIZE;
	scratch.base = plain.base;
	MPI_Win_create(window.base, WINDOW_SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
	MPI_Win_create(scratch.base, WINDOW_SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &scratch.win);

	failed |= run("mpi_put_flush", put_flush, &window);
	failed |= run("mpi_put_burst", put_burst, &window);
	failed |= run("mpi_put_unlock", put_unlock, &window);
	failed |= run("mpi_put_fence", put_fence, &window);
	failed |= run("mpi_accumulate_many", accumulate_many, &window);
	failed |= run("mpi_fetch_add_volatile", fetch_add, &scratch);
	failed |= run("mpi_compare_and_swap_volatile", compare_and_swap, &scratch);
	if (adds)
		failed |= run("mpi_fetch_add", fetch_add, &window);
	if (swaps)
		failed |= run("mpi_compare_and_swap", compare_and_swap, &window);

	MPI_Win_free(&scratch.win);
	MPI_Win_free(&window.win);
	memory_unmap(&plain);
	memory_unmap(&memory);
	return failed;
}

/* run_all -- without a file only what needs no window: a program may have no component for windows
 */
static int run_all(const char *path, int adds, int swaps)
{
	int failed;

	buf = calloc(1, WINDOW_SIZE);
	if (!buf)
		MPI_Abort(MPI_COMM_WORLD, 1);
	failed = run_messages();
	if (path)
		failed |= run_windows(path, adds, swaps);
	free(buf);
	return failed;
}

/* ---- the log ---- */

/* write_log -- until it is full or the power fails */
static int write_log(const char *path)
{
	struct memory memory = {0};
	char record[ACKS_RECORD_SIZE];
	MPI_Win win;

	if (rank == 1 && memory_map(&memory, path, ACKS_LOG_SIZE))
		return 1;
	/* A power failure may take what is in the file, but not the file. */
	sync();
	MPI_Win_create(memory.base, rank == 1 ? ACKS_LOG_SIZE : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
		       &win);
	MPI_Win_lock_all(0, win);
	for (uint64_t number = 1; rank == 0 && number <= ACKS_RECORDS; number++) {
		acks_record(record, number);
		MPI_Put(record, ACKS_RECORD_SIZE, MPI_BYTE, peer, (MPI_Aint) acks_offset(number),
			ACKS_RECORD_SIZE, MPI_BYTE, win);
		MPI_Win_flush(peer, win);
		acks_say(number);
	}
	/* Process 1 waits in MPI_Win_free, where tcp makes progress without an agent, too. */
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	if (rank == 1)
		memory_unmap(&memory);
	return 0;
}

struct choices {
	const char *path, *acks;
	int adds, swaps, log;
};

enum { OPT_VERSION = 256 };

static const struct argp_option options[] = {
	{NULL, 'M', "FILE", 0,
	 "the windows' memory: a file, which is made, or /dev/daxX.Y (default: no windows)", 0},
	{NULL, 'a', NULL, 0, "MPI_Fetch_and_op and the like there, too, not only in other memory",
	 0},
	{NULL, 's', NULL, 0, "MPI_Compare_and_swap there, too", 0},
	{NULL, 'l', NULL, 0, "write a log, printing what is there for good", 0},
	{NULL, 'A', "OUTPUT", 0, "compare a log with what was printed (default: write one)", 0},
	{"help", 'h', NULL, 0, "this text", -1},
	{"version", OPT_VERSION, NULL, 0, "the version of pmemverbs", -1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		/* What is wrong is told by main, and by getopt. */
		state->err_stream = NULL;
		return 0;
	case 'M':
		choices->path = arg;
		return 0;
	case 'A':
		choices->acks = arg;
		return 0;
	case 'l':
		choices->log = 1;
		return 0;
	case 'a':
		choices->adds = 1;
		return 0;
	case 's':
		choices->swaps = 1;
		return 0;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case OPT_VERSION:
		printf("pmem_mpi of pmemverbs %s\n", PACKAGE_VERSION);
		exit(0);
	case ARGP_KEY_ARG:
		return EINVAL;
	case ARGP_KEY_END:
		return !choices->path && (choices->adds || choices->swaps || choices->log ||
					  choices->acks)
			       ? EINVAL
			       : 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Check messages between two processes of MPI, with -M windows in that memory, too: "
	       "mpirun -n 2 pmem_mpi. Without mpirun, -M and -A check the log that -l has left."
	       "\vfabtests/clients/mpi/run PROGRAM starts it with all between the processes "
	       "through "
	       "pmemverbs.",
};

int main(int argc, char **argv)
{
	struct choices choices = {0};
	int size, failed;

	if (argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &choices)) {
		fprintf(stderr, "pmem_mpi --help tells the options\n");
		return 2;
	}
	if (choices.acks)
		return acks_check(choices.path, choices.acks);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	peer = 1 - rank;
	if (size != 2) {
		fprintf(stderr, "it takes two processes, not %d\n", size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	failed = choices.log ? write_log(choices.path)
			     : run_all(choices.path, choices.adds, choices.swaps);
	if (failed && choices.log)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return failed;
}
