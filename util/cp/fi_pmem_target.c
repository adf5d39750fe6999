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

#include "link.h"
#include "session.h"
#include "settings.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define WAIT_MS 200
#define END_MS 10000

/* Who serves, and as what. */
struct server {
	struct cp_target *target;
	struct cp_settings given; /* by the command line alone */
	struct cp_settings settings;
};

const char *argp_program_version = "fi_pmem_target of pmemverbs " PACKAGE_VERSION;

static volatile sig_atomic_t ended, hung_up;

static void on_end(int signo)
{
	ended = signo;
}

static void on_hang_up(int signo)
{
	hung_up = signo;
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
static void let_in(struct server *server, struct fi_info *info, const void *data, size_t len)
{
	struct cp_target *target = server->target;
	enum cp_peer peer = cp_peer_of(data, len);
	const char *reason = NULL;
	unsigned int count = 0, place = 0;

	/* The limit may have been higher: there may be clients anywhere. */
	for (unsigned int i = CP_MAX_CLIENTS; i--;) {
		if (atomic_load(&target->busy[i]))
			count++;
		else
			place = i;
	}
	if (peer == CP_PEER_STRANGE)
		reason = "this is fi_pmem_target";
	else if (peer == CP_PEER_OTHER)
		reason = tell_version();
	else if (count >= server->settings.clients)
		reason = "too many clients";
	else {
		atomic_store(&target->busy[place], true);
		if (!cp_session_start(target, info, place))
			return;
		atomic_store(&target->busy[place], false);
		reason = "no thread for a client";
	}
	node_reject(target->node, info, reason);
}

/* use -- from now on; clients that are there stay */
static void use(struct server *server)
{
	const struct cp_settings *settings = &server->settings;
	struct cp_target *target = server->target;

	target->timeout_ms = settings->timeout_ms;
	target->verbose = settings->verbose;
	target->store.max_file = settings->max_file;
	target->store.max_memory = settings->max_memory;
	target->store.max_total = settings->max_total;
}

/* use_file -- what its options are now.  If they are wrong, nothing changes; some never do. */
static void use_file(struct server *server)
{
	struct cp_settings next = server->given, *now = &server->settings;

	hung_up = 0;
	if (cp_settings_add(&next)) {
		fprintf(stderr, "fi_pmem_target: the old options stay\n");
		return;
	}
	if (strcmp(next.port, now->port) || next.read_only != now->read_only)
		fprintf(stderr, "fi_pmem_target: --port and --read-only change only when it is "
				"started again\n");
	next.read_only = now->read_only;
	memcpy(next.port, now->port, sizeof(next.port));
	*now = next;
	use(server);
	printf("fi_pmem_target: the options of %s are in use\n", now->file);
	fflush(stdout);
}

static int wait_for_clients(struct server *server)
{
	struct cm_event event;
	int ret = 0;

	while (!ended && ret >= 0) {
		if (hung_up)
			use_file(server);
		ret = node_event(server->target->node, &event, WAIT_MS);
		if (ret > 0 && event.event == FI_CONNREQ)
			let_in(server, event.entry.info, event.entry.data, event.len);
	}
	return ended ? 0 : ret;
}

/* await_hang_up -- from the start on: who reloads does not know whether it is ready */
static int await_hang_up(void)
{
	struct sigaction action = {.sa_handler = on_hang_up, .sa_flags = SA_RESTART};

	return sigaction(SIGHUP, &action, NULL);
}

/* take_signals -- after what libfabric loads has installed handlers, and before memory is
 * registered */
static int take_signals(bool has_file)
{
	struct sigaction action = {.sa_handler = on_end};

	if (sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL) ||
	    (has_file && await_hang_up()) || cp_store_guard()) {
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

static int serve(struct server *server)
{
	struct cp_target *target = server->target;
	int64_t end;
	int ret;

	printf("fi_pmem_target: waiting on port %s\n", server->settings.port);
	fflush(stdout);
	ret = wait_for_clients(server);
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
	static struct cp_target target = {.store = {.lock = PTHREAD_MUTEX_INITIALIZER}};
	struct server server = {
		.target = &target,
		.given = {.port = CP_DEFAULT_PORT,
			  .clients = 16,
			  .timeout_ms = 60000,
			  .max_file = CP_MAX_SIZE,
			  .max_total = CP_MAX_SIZE},
	};
	struct connection_error error = {0};
	struct node node;
	int ret;

	server.given.max_memory =
		(uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE) / 4;
	argp_err_exit_status = 2;
	cp_settings_parse(&server.given, argc, argv);
	server.settings = server.given;
	if (server.given.file && (await_hang_up() || cp_settings_add(&server.settings)))
		return argp_err_exit_status;
	target.store.read_only = server.settings.read_only;
	use(&server);
	if (cp_store_open(&target.store, server.settings.path))
		return EXIT_FAILURE;
	/* With its cache verbs gives each region all rights, whatever was asked for. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
	target.node = &node;
	allow_files();
	ret = cp_prepare(&node, NULL, server.settings.port, target.timeout_ms, &error);
	if (!ret && take_signals(server.given.file))
		ret = -1;
	if (!ret)
		ret = serve(&server);
	if (ret && *error.text)
		fprintf(stderr, "fi_pmem_target: %s\n", error.text);
	node_close(&node);
	close(target.store.fd);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
