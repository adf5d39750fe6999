/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_pmem_rpc_bench.c -- options; README.md tells what is measured */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "../../fabtests/common/stats.h"
#include "../../util/number.h"
#include "design.h"
#include "load.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define DEFAULT_PORT "9474"

const char *argp_program_version = "fi_pmem_rpc_bench of pmemverbs " PACKAGE_VERSION;

enum { THETA = 256, EXECUTED, SEND, SPIN, SEED, THREADS, CSV, PATIENCE, NEW };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "At both ends, and the same there:", 1},
	{"port", 'P', "PORT", 0, "of the server (default: " DEFAULT_PORT ")", 1},
	{"mode", 'm', "NAME", 0,
	 "pmemrpc, darpc, fasst, octopus, farm, l5, rfp or scalerpc (default: pmemrpc)", 1},
	{"workload", 'w', "NAME", 0,
	 "objects, ycsb-a to -f, or pagerank-uniform, -attached or -rmat (default: objects)", 1},
	{"size", 'S', "BYTES", 0, "of an object or value, a multiple of 8 (default: 1024)", 1},
	{"objects", 'o', "COUNT", 0, "objects, or keys at first (default: 50000)", 1},
	{"handler", 'H', "MICROSECONDS", 0, "that a call computes (default: 0)", 1},
	{"clients", 'c', "COUNT", 0, "clients, a thread each (default: 1)", 1},
	{"in-flight", 'i', "COUNT", 0, "messages of a client at a time (default: 1)", 1},
	{"batch", 'b', "COUNT", 0, "calls in a message (default: 1)", 1},
	{"spin", SPIN, NULL, 0, "never sleep where the mode could", 1},
	{NULL, 0, NULL, 0, "Server:", 2},
	{"memory", 'M', "PATH", 0, "a file, made if it is not there, or a device of device DAX", 2},
	{"new", NEW, NULL, 0, "forget what is there", 2},
	{"threads", THREADS, "COUNT", 0, "that execute calls (default: 1)", 2},
	{NULL, 0, NULL, 0, "Client:", 3},
	{"count", 'n', "COUNT", 0, "calls of each client (default: 10000)", 3},
	{"seconds", 's', "COUNT", 0, "call for so long instead", 3},
	{"reads", 'r', "PERCENT", 0, "of the calls of objects (default: 50)", 3},
	{"theta", THETA, "NUMBER", 0, "how uneven keys are used: Zipf's exponent (default: 0.99)",
	 3},
	{"executed", EXECUTED, NULL, 0,
	 "pmemrpc: a write is done when it is executed (default: when it is durable)", 3},
	{"send", SEND, NULL, 0, "pmemrpc: calls are sent (default: written)", 3},
	{"seed", SEED, "NUMBER", 0, "of what is random (default: 1)", 3},
	{"patience", PATIENCE, "SECONDS", 0, "without a server (default: 30)", 3},
	{"csv", CSV, "FILE", 0, "append rows to it", 3},
	{0},
};

static unsigned int small(struct argp_state *state, const char *text, unsigned int min,
			  unsigned int max)
{
	return (unsigned int) argp_number(state, text, min, max);
}

static void set_mode(struct argp_state *state, struct settings *settings, const char *name)
{
	settings->mode = name;
	settings->design = design_find(name);
	if (!settings->design && strcmp(name, "pmemrpc"))
		argp_error(state, "there is no mode '%s'", name);
}

static void set_theta(struct argp_state *state, struct settings *settings, const char *text)
{
	char *end;

	settings->theta = strtod(text, &end);
	if (end == text || *end || !(settings->theta >= 0) || settings->theta > 10)
		argp_error(state, "'%s' is no exponent", text);
}

/* parse_common -- options of both ends */
static error_t parse_common(int key, char *arg, struct argp_state *state, struct settings *settings)
{
	switch (key) {
	case 'P':
		argp_number(state, arg, 1, UINT16_MAX);
		settings->port = arg;
		return 0;
	case 'm':
		set_mode(state, settings, arg);
		return 0;
	case 'w':
		settings->workload = workload_find(arg);
		if (!settings->workload)
			argp_error(state, "there is no workload '%s'", arg);
		return 0;
	case 'S':
		settings->size = argp_number(state, arg, 32, 1U << 20);
		return 0;
	case 'o':
		settings->objects = argp_number(state, arg, 1, UINT32_MAX / 2);
		return 0;
	case 'H':
		settings->handler_us = small(state, arg, 0, 1000000);
		return 0;
	case 'c':
		settings->clients = small(state, arg, 1, 256);
		return 0;
	case 'i':
		settings->in_flight = small(state, arg, 1, 256);
		return 0;
	case 'b':
		settings->batch = small(state, arg, 1, 256);
		return 0;
	case SPIN:
		settings->spin = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void check(struct argp_state *state, struct settings *settings)
{
	if (!settings->host == !settings->memory)
		argp_error(state, "a client needs HOST, a server needs --memory");
	if (settings->size % 8)
		argp_error(state, "--size has to be a multiple of 8");
	settings->workload->sizes(settings);
	if (settings->design && settings->design->frame_max) {
		struct layout layout;

		layout_make(&layout, settings);
		if (layout.request_len > settings->design->frame_max ||
		    layout.reply_len > settings->design->frame_max)
			argp_error(state, "%s has messages of at most %zu bytes", settings->mode,
				   settings->design->frame_max);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'M':
		settings->memory = arg;
		return 0;
	case NEW:
		settings->fresh = true;
		return 0;
	case THREADS:
		settings->threads = small(state, arg, 1, 256);
		return 0;
	case 'n':
		settings->count = argp_number(state, arg, 1, UINT32_MAX);
		return 0;
	case 's':
		settings->seconds = small(state, arg, 1, 86400);
		return 0;
	case 'r':
		settings->read_percent = small(state, arg, 0, 100);
		return 0;
	case THETA:
		set_theta(state, settings, arg);
		return 0;
	case EXECUTED:
		settings->until_executed = true;
		return 0;
	case SEND:
		settings->send = true;
		return 0;
	case SEED:
		settings->seed = small(state, arg, 0, UINT32_MAX);
		return 0;
	case PATIENCE:
		settings->patience = small(state, arg, 1, 86400);
		return 0;
	case CSV:
		settings->csv = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (settings->host)
			argp_error(state, "one server only");
		settings->host = arg;
		return 0;
	case ARGP_KEY_END:
		check(state, settings);
		return 0;
	default:
		return parse_common(key, arg, state, settings);
	}
}

static const struct argp argp = {
	options,
	parse,
	"HOST\n--memory PATH",
	"Measure durable calls: libpmemrpc and other designs, with the same workload.  Without "
	"HOST: be the server."
	"\vThe server prints \"waiting on port\" when clients can come, and ends on SIGTERM or "
	"SIGINT.  The client checks at the end that everything is there that it has written.\n"
	"FI_PMEMVERBS_DOMAIN declares what survives a power failure where that can't be found "
	"out; see fi_pmemverbs(7).",
	NULL,
	NULL,
	NULL};

void settings_parse(struct settings *settings, int argc, char **argv)
{
	*settings = (struct settings){.port = DEFAULT_PORT,
				      .mode = "pmemrpc",
				      .workload = &workload_objects,
				      .size = 1024,
				      .objects = 50000,
				      .theta = 0.99,
				      .read_percent = 50,
				      .clients = 1,
				      .threads = 1,
				      .in_flight = 1,
				      .batch = 1,
				      .count = 10000,
				      .seed = 1,
				      .patience = 30};
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, settings);
}

uint32_t settings_check(const struct settings *settings)
{
	char text[200];
	int len = snprintf(text, sizeof(text), "%s %s %zu %llu %u %u %u", settings->mode,
			   settings->workload->name, settings->size,
			   (unsigned long long) settings->objects, settings->clients,
			   settings->in_flight, settings->batch);

	return XXH32(text, (size_t) len, 0);
}

const struct workload *workload_find(const char *name)
{
	static const struct workload *const all[] = {
		&workload_objects,     &workload_ycsb[0],     &workload_ycsb[1],
		&workload_ycsb[2],     &workload_ycsb[3],     &workload_ycsb[4],
		&workload_ycsb[5],     &workload_pagerank[0], &workload_pagerank[1],
		&workload_pagerank[2],
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (!strcmp(all[i]->name, name))
			return all[i];
	}
	return NULL;
}

int bench_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("fi_pmem_rpc_bench: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return -1;
}

int64_t bench_now(void)
{
	return (int64_t) now_ns();
}

void bench_populate(void *memory, size_t len)
{
	/* Without it the first calls are slower, and nothing else. */
	madvise(memory, len, MADV_POPULATE_WRITE);
}

void bench_end(void)
{
	fflush(stdout);
	_exit(EXIT_FAILURE);
}

static volatile sig_atomic_t ended;
static void (*at_end)(void);

static void on_end(int signo)
{
	ended = signo;
	if (at_end)
		at_end();
}

bool bench_ended(void)
{
	return ended;
}

void bench_end_on_signal(void (*also)(void))
{
	/* After what libfabric loads has installed handlers. */
	struct sigaction action = {.sa_handler = on_end};

	at_end = also;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

/* make_fresh -- a file is not there any more, and a device has zeros */
static int make_fresh(const char *path)
{
	struct pmem2_config *config = NULL;
	struct pmem2_source *source = NULL;
	struct pmem2_map *map = NULL;
	int fd, ret;

	if (strncmp(path, "/dev/dax", 8))
		return unlink(path) && errno != ENOENT ? bench_fail("%s: %s", path, strerror(errno))
						       : 0;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return bench_fail("%s: %s", path, strerror(errno));
	ret = pmem2_source_from_fd(&source, fd);
	if (!ret)
		ret = pmem2_config_new(&config);
	if (!ret)
		ret = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
	if (!ret)
		ret = pmem2_map_new(&map, config, source);
	if (ret)
		bench_fail("%s: %s", path, pmem2_errormsg());
	else
		pmem2_get_memset_fn(map)(pmem2_map_get_address(map), 0, pmem2_map_get_size(map), 0);
	pmem2_map_delete(&map);
	pmem2_source_delete(&source);
	pmem2_config_delete(&config);
	close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	struct settings settings;
	int ret;

	settings_parse(&settings, argc, argv);
	if (settings.host)
		ret = load(&settings);
	else if (settings.fresh && make_fresh(settings.memory))
		ret = -1;
	else
		ret = settings.design ? serve_design(&settings) : serve_pmemrpc(&settings);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
