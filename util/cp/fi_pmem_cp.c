/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_cp.c -- copies a file durably to another machine's memory or disk, and back
 *
 *   fi_pmem_target /srv/files                    on the machine target.example
 *   fi_pmem_cp results.dat target.example:       on another one
 *   fi_pmem_cp target.example:results.dat .
 *
 * Here are the command line and the connection; copy.c has the copying.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../number.h"
#include "copy.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define MIB (1024.0 * 1024.0)
#define DRAW_MS 200
#define BAR 30

struct place {
	char *host; /* NULL: here */
	const char *port;
	const char *name;
};

struct settings {
	struct place places[2];
	int count;
	struct cp_copy *copy;
};

const char *argp_program_version = "fi_pmem_cp of pmemverbs " PACKAGE_VERSION;

enum { RESTART = 256 };

static const struct argp_option options[] = {
	{"quiet", 'q', NULL, 0, "say nothing but errors", 0},
	{"restart", RESTART, NULL, 0, "start over where an interrupted copy could be continued", 0},
	{"timeout", 't', "SECONDS", 0,
	 "give up when the target does nothing for so long (default: 60)", 0},
	{"verbose", 'v', NULL, 0, "say how it is made durable, and how fast", 0},
	{0},
};

/* take_port -- "PORT:" before the name, if there is one */
static void take_port(struct argp_state *state, struct place *place, char *colon)
{
	char *next = strchr(colon, ':');

	if (!next || next == colon || strspn(colon, "0123456789") != (size_t) (next - colon))
		return;
	*next = 0;
	argp_number(state, colon, 1, UINT16_MAX);
	place->port = colon;
	place->name = next + 1;
}

/* parse_place -- HOST:NAME, HOST:PORT:NAME, [ADDRESS]:..., or a path */
static void parse_place(struct argp_state *state, struct place *place, char *arg)
{
	char *colon = *arg == '[' ? strstr(arg, "]:") : strchr(arg, ':');

	place->port = CP_DEFAULT_PORT;
	place->name = arg;
	if (!colon || memchr(arg, '/', (size_t) (colon - arg)))
		return;
	if (colon == arg)
		argp_error(state, "'%s' is no HOST[:PORT]:NAME", arg);
	place->host = arg;
	if (*arg == '[') {
		place->host++;
		*colon++ = 0;
	}
	*colon++ = 0;
	place->name = colon;
	take_port(state, place, colon);
	if (!*place->host)
		argp_error(state, "there is no address in the brackets");
	if (strlen(place->name) >= CP_TEXT)
		argp_error(state, "the name is too long: %s", place->name);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;
	struct cp_copy *copy = settings->copy;

	switch (key) {
	case 'q':
		copy->quiet = true;
		return 0;
	case 'v':
		copy->verbose = true;
		return 0;
	case RESTART:
		copy->restart = true;
		return 0;
	case 't':
		copy->timeout_ms = 1000 * (int) argp_number(state, arg, 1, 86400);
		return 0;
	case ARGP_KEY_ARG:
		if (settings->count == 2)
			argp_error(state, "one source and one destination");
		parse_place(state, &settings->places[settings->count++], arg);
		return 0;
	case ARGP_KEY_END:
		if (settings->count < 2)
			argp_error(state, "a source and a destination are needed");
		if (!settings->places[0].host == !settings->places[1].host)
			argp_error(state, "one of the two has to be HOST[:PORT]:NAME");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"SOURCE DESTINATION",
	"Copy a file durably to where fi_pmem_target serves, or from there."
	"\vSOURCE or DESTINATION is HOST[:PORT]:NAME (default port: " CP_DEFAULT_PORT
	"; IPv6 addresses in "
	"brackets), the other one a file here. If the destination's name is missing, or a "
	"directory here, the source's is taken.\n"
	"It ends with 0 when the checksums agree and the file is durable under its name. Until "
	"then what was there before stays. An interrupted copy goes on when it is called again.",
	NULL,
	NULL,
	NULL};

static struct {
	bool drawn;
	int64_t start;
	int64_t last;
} bar;

/* progress -- on a terminal only */
static void progress(struct cp_copy *copy, bool now)
{
	int64_t ms = connection_now_ms();
	double share = copy->size ? (double) copy->done / (double) copy->size : 1;
	int full = (int) (share * BAR);

	if (copy->quiet || !isatty(STDERR_FILENO) || (!now && ms - bar.last < DRAW_MS))
		return;
	bar.last = ms;
	bar.drawn = true;
	fprintf(stderr, "\r%5.1f %% [%.*s%*s] %.1f of %.1f MiB, %.0f MiB/s ", 100 * share, full,
		"##############################", BAR - full, "", (double) copy->done / MIB,
		(double) copy->size / MIB,
		(double) (copy->done - copy->resumed) / MIB * 1000 /
			(double) (ms > bar.start ? ms - bar.start : 1));
	if (now && copy->done == copy->size)
		fprintf(stderr, "checking ");
}

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "fi_pmem_cp: %s: %s\n", what, why);
	return -1;
}

/* describe -- what the target's key says of its memory */
static void describe(struct cp_copy *copy)
{
	static const char *const domains[] = {
		[FI_PMEMVERBS_NONE] = "nothing",
		[FI_PMEMVERBS_PAGE] = "what msync has written (page)",
		[FI_PMEMVERBS_DMP] = "the DIMMs (dmp, ADR)",
		[FI_PMEMVERBS_MHP] = "the CPU caches, too (mhp, eADR)",
		[FI_PMEMVERBS_WSP] = "everything (wsp)",
	};
	static const char *const methods[] = {
		[FI_PMEMVERBS_REFUSED] = "refused",
		[FI_PMEMVERBS_WRITE] = "by the write's completion",
		[FI_PMEMVERBS_READ] = "by a READ behind the writes",
		[FI_PMEMVERBS_AGENT] = "by the target's agent",
	};
	struct fi_pmemverbs_region region;
	struct fi_pmemverbs_ops *ops;

	if (fi_open_ops(&copy->link.node.domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL))
		return;
	printf("core provider: %s\n", ops->core_name(copy->link.node.domain));
	if (copy->lease.key && !ops->query_key(copy->link.conn.ep, copy->lease.key, &region) &&
	    region.pmem)
		printf("in a power failure survives %s; commits are made %s\n",
		       domains[region.domain], methods[region.method]);
}

static void conclude(struct cp_copy *copy)
{
	int64_t end = connection_now_ms(), moved = copy->moved;

	if (copy->verbose) {
		describe(copy);
		printf("data: %.3f s, %.0f MiB/s; checksum and the name: %.3f s\n",
		       (double) (moved - bar.start) / 1000,
		       (double) (copy->size - copy->resumed) / MIB * 1000 /
			       (double) (moved > bar.start ? moved - bar.start : 1),
		       (double) (end - moved) / 1000);
	}
	if (copy->quiet)
		return;
	printf("%s: %" PRIu64 " bytes are durable, checksum ", copy->name, copy->size);
	for (size_t i = 0; i < CP_DIGEST; i++)
		printf("%02x", copy->digest[i]);
	printf("\n");
}

/* on_end -- a signal that ends the process: say what that means for the copy */
static void on_end(int signo)
{
	static const char text[] = "\n" CP_GOES_ON;

	signal(signo, SIG_DFL);
	if (write(STDERR_FILENO, text + !bar.drawn, sizeof(text) - 1 - !bar.drawn) >= 0)
		raise(signo);
}

/* take_signals -- after what libfabric loads has installed handlers */
static void take_signals(void)
{
	signal(SIGINT, on_end);
	signal(SIGTERM, on_end);
}

static int connect_and_copy(struct cp_copy *copy, const struct node *node, bool putting)
{
	struct cp_link *link = &copy->link;
	size_t max = node->info->ep_attr->max_msg_size;
	int ret = cp_link_open(link, node, node->info, CP_DATA_ROOM);

	copy->chunk = max < CP_CHUNK ? max : CP_CHUNK;
	if (!ret)
		ret = cp_link_connect(link);
	if (ret) {
		fail(copy->name, link->error.text);
		/* A target that refuses has said why. */
		if (strstr(link->error.text, fi_strerror(-ret)))
			fprintf(stderr, "Is fi_pmem_target running, on that host and port?\n");
		return ret;
	}
	bar.start = copy->said = connection_now_ms();
	take_signals();
	ret = putting ? cp_copy_put(copy) : cp_copy_get(copy);
	if (bar.drawn)
		fprintf(stderr, "\n");
	return ret;
}

static int run(struct cp_copy *copy, const struct place *target, bool putting)
{
	struct connection_error error;
	struct node node;
	int ret = cp_prepare(&node, target->host, target->port, copy->timeout_ms, &error);

	if (ret) {
		fprintf(stderr, "fi_pmem_cp: %s\n", error.text);
	} else {
		ret = connect_and_copy(copy, &node, putting);
		if (!ret)
			conclude(copy);
		cp_link_close(&copy->link);
	}
	node_close(&node);
	return ret;
}

/* last_part -- of a path, in memory of its own */
static char *last_part(const char *path)
{
	char *copy = strdup(path), *last = copy ? strdup(basename(copy)) : NULL;

	free(copy);
	return last;
}

/* complete -- a destination without a name has the source's */
static int complete(struct cp_copy *copy, const struct place *here, const struct place *there,
		    bool putting)
{
	char *last = last_part(putting ? here->name : there->name);
	char *path = NULL;
	struct stat st;
	int len = 0;

	if (!last)
		return fail(here->name, strerror(ENOMEM));
	copy->path = here->name;
	copy->name = there->name;
	if (putting && (!*there->name || there->name[strlen(there->name) - 1] == '/')) {
		len = asprintf(&path, "%s%s", there->name, last);
		copy->name = path;
	} else if (!putting && !stat(here->name, &st) && S_ISDIR(st.st_mode)) {
		len = asprintf(&path, "%s/%s", here->name, last);
		copy->path = path;
	}
	free(last);
	if (len < 0)
		return fail(here->name, strerror(ENOMEM));
	return putting && len >= CP_TEXT ? fail(there->name, "the name is too long") : 0;
}

int main(int argc, char **argv)
{
	static struct cp_copy copy = {.timeout_ms = 60000, .progress = progress};
	struct settings settings = {.copy = &copy};
	bool putting;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	putting = !settings.places[0].host;
	if (complete(&copy, &settings.places[!putting], &settings.places[putting], putting))
		return EXIT_FAILURE;
	return run(&copy, &settings.places[putting], putting) ? EXIT_FAILURE : EXIT_SUCCESS;
}
