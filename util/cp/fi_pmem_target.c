/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_target.c -- serves files, or persistent memory, to fi_pmem_cp
 *
 * Here clients are let in: each gets a thread (session.c) and a domain.  What they may touch is
 * in store.c, what is said in proto.h.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../number.h"
#include "link.h"
#include "session.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define WAIT_MS 200
#define END_MS 10000

struct settings {
	const char *path;
	const char *port;
	unsigned int clients;
	struct cp_target *target;
};

const char *argp_program_version = "fi_pmem_target of pmemverbs " PACKAGE_VERSION;

enum { MAX_FILE = 256, MAX_MEMORY, MAX_TOTAL };

static const struct argp_option options[] = {
	{"port", 'P', "PORT", 0, "listen there, 1 to 65535 (default: " CP_DEFAULT_PORT ")", 0},
	{"clients", 'n', "COUNT", 0, "at the same time, 1 to 256 (default: 16)", 0},
	{"max-file", MAX_FILE, "BYTES", 0,
	 "of one file that is put; K, M, G or T may follow (default: no limit)", 0},
	{"max-memory", MAX_MEMORY, "BYTES", 0,
	 "of files that are put by RDMA to a disk, at the same time (default: a quarter of the "
	 "machine's)",
	 0},
	{"max-total", MAX_TOTAL, "BYTES", 0,
	 "of all that is put until the target ends (default: no limit)", 0},
	{"read-only", 'r', NULL, 0, "nothing can be put", 0},
	{"timeout", 't', "SECONDS", 0,
	 "a client that says nothing for so long is disconnected (default: 60)", 0},
	{"verbose", 'v', NULL, 0, "say what clients do", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;
	struct cp_target *target = settings->target;

	switch (key) {
	case 'P':
		argp_number(state, arg, 1, UINT16_MAX);
		settings->port = arg;
		return 0;
	case 'n':
		settings->clients = (unsigned int) argp_number(state, arg, 1, CP_MAX_CLIENTS);
		return 0;
	case MAX_FILE:
		target->store.max_file = argp_bytes(state, arg, CP_MAX_SIZE);
		return 0;
	case MAX_MEMORY:
		target->store.max_memory = argp_bytes(state, arg, CP_MAX_SIZE);
		return 0;
	case MAX_TOTAL:
		target->store.max_total = argp_bytes(state, arg, CP_MAX_SIZE);
		return 0;
	case 'r':
		target->store.read_only = true;
		return 0;
	case 't':
		target->timeout_ms = 1000 * (int) argp_number(state, arg, 1, 86400);
		return 0;
	case 'v':
		target->verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		if (settings->path)
			argp_error(state, "one directory or device only");
		settings->path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!settings->path)
			argp_error(state, "a directory or a device is needed");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"DIRECTORY|DEVICE",
	"Serve the files below a directory, or a device of device DAX, to fi_pmem_cp."
	"\vIt prints \"waiting on port\" when clients can come, and ends on SIGTERM or SIGINT. "
	"Everybody who can connect may get and put, unless FI_PMEMVERBS_KEYS limits that.\n"
	"FI_PMEMVERBS_DOMAIN declares what survives a power failure where that can't be found "
	"out; see fi_pmemverbs(7).",
	NULL,
	NULL,
	NULL};

static volatile sig_atomic_t ended;

static void on_end(int signo)
{
	ended = signo;
}

/* tell_version -- here once: who can connect could fill the log */
static const char *tell_version(void)
{
	static bool told;

	if (!told)
		fprintf(stderr, "fi_pmem_target: a client is refused: its fi_pmem_cp is of another "
				"version\n");
	told = true;
	return "this fi_pmem_target is of another version";
}

/* let_in -- accept a client, or tell it in a few words why not */
static void let_in(struct settings *settings, struct fi_info *info, const void *data, size_t len)
{
	struct cp_target *target = settings->target;
	enum cp_peer peer = cp_peer_of(data, len);
	const char *reason = NULL;
	unsigned int i = 0;

	while (i < settings->clients && atomic_load(&target->busy[i]))
		i++;
	if (peer == CP_PEER_STRANGE)
		reason = "this is fi_pmem_target";
	else if (peer == CP_PEER_OTHER)
		reason = tell_version();
	else if (i == settings->clients)
		reason = "too many clients";
	else {
		atomic_store(&target->busy[i], true);
		if (!cp_session_start(target, info, i))
			return;
		atomic_store(&target->busy[i], false);
		reason = "no thread for a client";
	}
	node_reject(target->node, info, reason);
}

static int wait_for_clients(struct settings *settings)
{
	struct cm_event event;
	int ret = 0;

	while (!ended && ret >= 0) {
		ret = node_event(settings->target->node, &event, WAIT_MS);
		if (ret > 0 && event.event == FI_CONNREQ)
			let_in(settings, event.entry.info, event.entry.data, event.len);
	}
	return ended ? 0 : ret;
}

/* take_signals -- after what libfabric loads has installed handlers, and before memory is
 * registered */
static int take_signals(void)
{
	struct sigaction action = {.sa_handler = on_end};

	if (sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL) ||
	    cp_store_guard()) {
		perror("fi_pmem_target: sigaction");
		return -1;
	}
	return 0;
}

/* allow_files -- a client's pack has some hundred files open; with fewer it takes more syncs */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(struct settings *settings)
{
	struct cp_target *target = settings->target;
	int64_t end;
	int ret;

	printf("fi_pmem_target: waiting on port %s\n", settings->port);
	fflush(stdout);
	ret = wait_for_clients(settings);
	atomic_store(&target->stop, true);
	end = connection_now_ms() + END_MS;
	while (atomic_load(&target->clients) && connection_now_ms() < end)
		usleep(1000);
	/* A thread that is waiting for its disk still has the fabric; what is durable is. */
	if (atomic_load(&target->clients))
		_exit(ret ? 1 : 0);
	return ret;
}

int main(int argc, char **argv)
{
	static struct cp_target target = {
		.timeout_ms = 60000,
		.store = {.max_file = CP_MAX_SIZE,
			  .max_total = CP_MAX_SIZE,
			  .lock = PTHREAD_MUTEX_INITIALIZER},
	};
	struct settings settings = {.port = CP_DEFAULT_PORT, .clients = 16, .target = &target};
	struct connection_error error = {0};
	struct node node;
	int ret;

	target.store.max_memory =
		(uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE) / 4;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	if (cp_store_open(&target.store, settings.path))
		return EXIT_FAILURE;
	/* With its cache verbs gives each region all rights, whatever was asked for. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
	target.node = &node;
	allow_files();
	ret = cp_prepare(&node, NULL, settings.port, target.timeout_ms, &error);
	if (!ret && take_signals())
		ret = -1;
	if (!ret)
		ret = serve(&settings);
	if (ret && *error.text)
		fprintf(stderr, "fi_pmem_target: %s\n", error.text);
	node_close(&node);
	close(target.store.fd);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
