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
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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
#include "fetch.h"
#include "tree.h"
#include "verify.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define MIB (1024.0 * 1024.0)
#define DRAW_MS 200
#define LONG_MS 1000 /* what is shorter has no bar */
#define BAR 30

struct place {
	char *host; /* NULL: here */
	const char *port;
	char *name;
};

struct settings {
	struct place *places; /* the last one is the destination */
	size_t count;
	bool recursive;
	struct cp_copy *copy;
};

const char *argp_program_version = "fi_pmem_cp of pmemverbs " PACKAGE_VERSION;

enum { RESTART = 256, BWLIMIT, VERIFY };

static const struct argp_option options[] = {
	{"archive", 'a', NULL, 0, "-r, and permissions and the times of directories", 0},
	{"bwlimit", BWLIMIT, "BYTES", 0,
	 "move so many in a second at most; K, M, G or T may follow", 0},
	{"quiet", 'q', NULL, 0, "say nothing but errors, and what is not durable", 0},
	{"recursive", 'r', NULL, 0,
	 "directories, too; files keep their times, and what is there with the same length and "
	 "time "
	 "is not copied again",
	 0},
	{"restart", RESTART, NULL, 0, "start over where an interrupted copy could be continued", 0},
	{"timeout", 't', "SECONDS", 0,
	 "give up when the target does nothing for so long (default: 60)", 0},
	{"verify", VERIFY, NULL, 0, "copy nothing: compare with what is there", 0},
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

/* check_brackets -- without them an address of IPv6 would be a host, a port and a name */
static void check_brackets(struct argp_state *state, const char *arg)
{
	char address[INET6_ADDRSTRLEN] = "";
	const char *end = strrchr(arg, ':');
	struct in6_addr ignored;

	if ((size_t) (end - arg) < sizeof(address))
		memcpy(address, arg, (size_t) (end - arg));
	if (inet_pton(AF_INET6, address, &ignored) == 1)
		argp_error(state, "%s: an address of IPv6 has to be in brackets: [%s]:NAME", arg,
			   address);
}

/* parse_place -- HOST:NAME, HOST:PORT:NAME, [ADDRESS]:..., or a path */
static void parse_place(struct argp_state *state, struct place *place, char *arg)
{
	char *colon = *arg == '[' ? strstr(arg, "]:") : strchr(arg, ':');

	place->port = CP_DEFAULT_PORT;
	place->name = arg;
	if (!colon || memchr(arg, '/', (size_t) (colon - arg)))
		return;
	if (*arg != '[')
		check_brackets(state, arg);
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

/* check_places -- files are put, or got, and all to or from one target */
static void check_places(struct argp_state *state, const struct settings *settings)
{
	const struct place *places = settings->places, *last;

	if (settings->copy->verify && settings->recursive)
		argp_error(state, "--verify compares files: name each of them");
	if (settings->count < 2)
		argp_error(state, "a source and a destination are needed");
	last = &places[settings->count - 1];
	for (size_t i = 0; i + 1 < settings->count; i++) {
		if (!places[i].host == !last->host)
			argp_error(state, "one of the two has to be HOST[:PORT]:NAME");
		if (places[i].host && (strcmp(places[i].host, places[0].host) ||
				       strcmp(places[i].port, places[0].port)))
			argp_error(state, "the sources are on more than one target");
	}
	if (last->host && settings->count > 2 && *last->name &&
	    last->name[strlen(last->name) - 1] != '/')
		argp_error(state, "for several sources NAME has to end with a slash");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;
	struct cp_copy *copy = settings->copy;

	switch (key) {
	case 'a':
		copy->keep |= CP_MODES;
		/* fallthrough */
	case 'r':
		copy->keep |= CP_TIMES;
		settings->recursive = true;
		return 0;
	case 'q':
		copy->quiet = true;
		return 0;
	case 'v':
		copy->verbose = true;
		return 0;
	case RESTART:
		copy->restart = true;
		return 0;
	case BWLIMIT:
		copy->rate = argp_bytes(state, arg, CP_MAX_SIZE);
		return 0;
	case VERIFY:
		copy->verify = true;
		return 0;
	case 't':
		copy->timeout_ms = 1000 * (int) argp_number(state, arg, 1, 86400);
		return 0;
	case ARGP_KEY_ARG:
		parse_place(state, &settings->places[settings->count++], arg);
		return 0;
	case ARGP_KEY_END:
		check_places(state, settings);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"SOURCE... DESTINATION",
	"Copy files durably to where fi_pmem_target serves, or from there."
	"\vSOURCE or DESTINATION is HOST[:PORT]:NAME (default port: " CP_DEFAULT_PORT
	"; IPv6 addresses in "
	"brackets), the other one a file here. If the destination's name is missing, ends with a "
	"slash, or is a directory here, the source's is added.\n"
	"It ends with 0 when the copy is complete and the checksums agree. It is durable then, "
	"unless a line on standard error says that what was got is not. Until then what was there "
	"before stays. With --verify it ends with 0 when all files are the same. An interrupted "
	"copy goes on when it is called again.",
	NULL,
	NULL,
	NULL};

static struct {
	bool drawn;
	int64_t start;
	int64_t last;
} bar;

/* progress -- on a terminal only, when it takes long */
static void progress(struct cp_copy *copy, bool now)
{
	int64_t ms = connection_now_ms(), took = ms > bar.start ? ms - bar.start : 1;
	double share = copy->size ? (double) copy->done / (double) copy->size : 1;
	int full = (int) (share * BAR);

	if (copy->quiet || copy->verify || !isatty(STDERR_FILENO) ||
	    (!now && ms - bar.last < DRAW_MS) || (!bar.drawn && took < LONG_MS))
		return;
	bar.last = ms;
	bar.drawn = true;
	if (copy->many) {
		fprintf(stderr, "\r%" PRIu64 " files, %.1f MiB, %.0f MiB/s ", copy->files,
			(double) copy->bytes / MIB,
			(double) copy->bytes / MIB * 1000 / (double) took);
		return;
	}
	fprintf(stderr, "\r%5.1f %% [%.*s%*s] %.1f of %.1f MiB, %.0f MiB/s ", 100 * share, full,
		"##############################", BAR - full, "", (double) copy->done / MIB,
		(double) copy->size / MIB,
		(double) (copy->done - copy->resumed) / MIB * 1000 / (double) took);
	if (now && copy->done == copy->size)
		fprintf(stderr, "checking ");
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
		[FI_PMEMVERBS_FLUSH] = "by RDMA FLUSH",
	};
	struct fi_pmemverbs_region region;
	struct fi_pmemverbs_ops *ops;

	if (fi_open_ops(&copy->link.node.domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL))
		return;
	printf("core provider: %s\n", ops->core_name(copy->link.node.domain));
	if (copy->lease.key && !ops->query_key(copy->link.conn.ep, copy->lease.key, &region) &&
	    region.pmem)
		printf("what survives a power failure there: %s; commits are made %s\n",
		       domains[region.domain], methods[region.method]);
}

static const char *what_they_are(const struct cp_copy *copy)
{
	if (!copy->kept.doubtful)
		return "are durable";
	return copy->kept.in_memory ? "are in memory, and not durable"
				    : "are copied, and may be lost in a power failure";
}

static void tell(const struct cp_copy *copy, const char *what)
{
	if (copy->quiet)
		return;
	printf("%s: %" PRIu64 " bytes %s, checksum ", copy->name, copy->size, what);
	for (size_t i = 0; i < CP_DIGEST; i++)
		printf("%02x", copy->digest[i]);
	printf("\n");
}

static void conclude(struct cp_copy *copy)
{
	int64_t end = connection_now_ms(), moved = copy->moved;

	if (copy->verify) {
		tell(copy, "are the same");
		return;
	}
	if (copy->verbose) {
		describe(copy);
		printf("data: %.3f s, %.0f MiB/s; checksum and the name: %.3f s\n",
		       (double) (moved - bar.start) / 1000,
		       (double) (copy->size - copy->resumed) / MIB * 1000 /
			       (double) (moved > bar.start ? moved - bar.start : 1),
		       (double) (end - moved) / 1000);
	}
	tell(copy, what_they_are(copy));
}

static const struct cp_copy *under_way;

/* on_end -- a signal that ends the process: say what that means for the copy */
static void on_end(int signo)
{
	const char *text = cp_goes_on(under_way);

	signal(signo, SIG_DFL);
	/* It ends, even if nobody can be told. */
	(void) !write(STDERR_FILENO, "\n", bar.drawn);
	(void) !write(STDERR_FILENO, text, strlen(text));
	raise(signo);
}

/* take_signals -- after what libfabric loads has installed handlers */
static void take_signals(const struct cp_copy *copy)
{
	under_way = copy;
	signal(SIGINT, on_end);
	signal(SIGTERM, on_end);
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
	static char *path;
	char *last = last_part(putting ? here->name : there->name);
	struct stat st;
	int len = 0;

	if (!last)
		return cp_fail(here->name, strerror(ENOMEM));
	free(path);
	path = NULL;
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
		return cp_fail(here->name, strerror(ENOMEM));
	return putting && len >= CP_TEXT ? cp_fail(there->name, "the name is too long") : 0;
}

/* copy_each -- one after the other: what fails is told of, and the others go on */
static int copy_each(struct cp_copy *copy, const struct settings *settings)
{
	const struct place *places = settings->places, *last = &places[settings->count - 1];
	int failed = 0;

	for (const struct place *source = places; source < last && !copy->lost; source++) {
		bool putting = !source->host;
		int ret = complete(copy, putting ? source : last, putting ? last : source, putting);

		if ((copy->moving || copy->opens == CP_MAX_OPENS) && cp_connect_again(copy))
			return -1;
		bar.start = connection_now_ms();
		if (!ret && copy->verify)
			ret = cp_verify(copy, putting);
		else if (!ret)
			ret = putting ? cp_copy_put(copy) : cp_copy_get(copy, AT_FDCWD);
		if (bar.drawn)
			fprintf(stderr, "\n");
		bar.drawn = false;
		if (!ret)
			conclude(copy);
		failed |= ret;
	}
	return failed;
}

/* fetch_all -- directories, too */
static int fetch_all(struct cp_copy *copy, const struct settings *settings)
{
	const struct place *last = &settings->places[settings->count - 1];
	int ret = 0;

	for (const struct place *source = settings->places; !ret && source < last; source++) {
		struct place from = *source;
		size_t len = strlen(from.name);

		while (len && from.name[len - 1] == '/')
			from.name[--len] = 0;
		/* All that is served has no name to be added. */
		copy->path = last->name;
		if (*from.name && complete(copy, last, &from, false))
			return -1;
		ret = cp_fetch(copy, from.name, copy->path);
	}
	return ret || copy->failed ? -1 : 0;
}

static int put_all(struct cp_copy *copy, const struct settings *settings)
{
	size_t count = settings->count - 1;
	char **sources = calloc(count, sizeof(*sources));
	int ret;

	if (!sources)
		return cp_fail("sources", strerror(ENOMEM));
	for (size_t i = 0; i < count; i++)
		sources[i] = settings->places[i].name;
	ret = cp_tree_put(copy, sources, count, settings->places[count].name, settings->recursive);
	free(sources);
	return ret;
}

static int copy_tree(struct cp_copy *copy, const struct settings *settings)
{
	bool putting = settings->places[settings->count - 1].host;
	int ret = putting ? put_all(copy, settings) : fetch_all(copy, settings);
	int64_t took = connection_now_ms() - bar.start + 1;

	cp_kept_end(&copy->kept);
	if (bar.drawn)
		fprintf(stderr, "\n");
	if (copy->verbose) {
		describe(copy);
		printf("%.3f s, %.0f MiB/s\n", (double) took / 1000,
		       (double) copy->bytes / MIB * 1000 / (double) took);
	}
	if (!copy->quiet)
		printf("%" PRIu64 " files, %" PRIu64 " bytes %s; %" PRIu64 " were there already\n",
		       copy->files, copy->bytes, what_they_are(copy), copy->same);
	if (copy->failed)
		fprintf(stderr, "fi_pmem_cp: %" PRIu64 " could not be copied\n", copy->failed);
	return ret;
}

static int run(struct cp_copy *copy, const struct settings *settings)
{
	const struct place *last = &settings->places[settings->count - 1];
	const struct place *target = last->host ? last : settings->places;
	struct connection_error error;
	static struct node node;
	int ret = cp_prepare(&node, target->host, target->port, copy->timeout_ms, &error);

	copy->node = &node;
	copy->name = *target->name ? target->name : target->host;
	copy->several = settings->count > 2;
	copy->many = settings->recursive || (last->host && copy->several && !copy->verify);
	if (ret)
		fprintf(stderr, "fi_pmem_cp: %s\n", error.text);
	else
		ret = cp_connect(copy);
	if (!ret) {
		bar.start = connection_now_ms();
		if (!copy->verify)
			take_signals(copy);
		ret = copy->many ? copy_tree(copy, settings) : copy_each(copy, settings);
	}
	if (copy->kept.doubtful)
		cp_fail(copy->kept.in_memory ? "not durable" : "not known to be durable",
			copy->kept.why);
	cp_link_close(&copy->link);
	node_close(&node);
	return ret;
}

/* check_directory -- where several files are got */
static int check_directory(const struct settings *settings)
{
	const struct place *last = &settings->places[settings->count - 1];
	struct stat st;

	if (last->host || settings->count == 2)
		return 0;
	if (stat(last->name, &st))
		return cp_fail(last->name, strerror(errno));
	return S_ISDIR(st.st_mode) ? 0 : cp_fail(last->name, strerror(ENOTDIR));
}

int main(int argc, char **argv)
{
	static struct cp_copy copy = {.timeout_ms = 60000, .progress = progress};
	struct settings settings = {.copy = &copy};
	int ret;

	settings.places = calloc((size_t) argc, sizeof(*settings.places));
	if (!settings.places)
		return EXIT_FAILURE;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	ret = check_directory(&settings) ? -1 : run(&copy, &settings);
	free(settings.places);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
