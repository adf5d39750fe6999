/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options.c -- the command line, in fabtests' letters
 *
 * One table has every option of every program; a program names the letters that
 * it takes, and both the parsing and the help follow from that.  argp parses, and prints the help.
 */
#include "options.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "config.h"
#include "memory.h"

/* These have no letter on the command line. */
enum { OPT_CSV = 256, OPT_TIMEOUT, OPT_SEED, OPT_VERSION };

/* The texts begin nearer to the names than by default, so that a screen has room for all. */
#define HELP_FORMAT "short-opt-col=2,long-opt-col=2,opt-doc-col=22,rmargin=79"

#define FIELD(name) offsetof(struct options, name)

enum kind {
	TEXT,   /* a string, as it is */
	PORT,   /* the same of a number */
	NUMBER, /* unsigned long; its default is shown */
	SHOWN,  /* parse_other; its default is shown, too */
	OTHER,  /* parse_other */
};

static const struct entry {
	int key; /* a letter of struct program, or one of the above */
	const char *name;
	const char *value;
	const char *help;
	enum kind kind;
	size_t field;
	unsigned long min;
} table[] = {
	{'p', NULL, "<provider>", "provider (default: pmemverbs)", TEXT, FIELD(provider), 0},
	{'f', NULL, "<fabric>", "fabric name (default: the first)", TEXT, FIELD(fabric), 0},
	{'d', NULL, "<domain>", "domain name, the device (default: the first)", TEXT, FIELD(domain),
	 0},
	{'s', NULL, "<address>", "source address (default: any)", TEXT, FIELD(src_addr), 0},
	{'b', NULL, "<port>", "both: port of the server, as with -B and -P (default: 9228)", OTHER,
	 0, 0},
	{'B', NULL, "<port>", "server: port to listen on (default: 9228)", PORT, FIELD(src_port),
	 0},
	{'P', NULL, "<port>", "client: port of the server (default: 9228)", PORT, FIELD(dst_port),
	 0},
	{'M', NULL, "<path>",
	 "server: the target's memory, a file or /dev/dax device; a file is made and extended "
	 "(default: anonymous memory)",
	 TEXT, FIELD(memory), 0},
	{'N', NULL, "<records>", "server: records that there is room for", NUMBER, FIELD(records),
	 1},
	{'V', "volatile", NULL, "client: nothing has to be durable (default: all that is written)",
	 OTHER, 0, 0},
	{'A', NULL, "<path>",
	 "check the memory (-M) after a power failure; the file has what the client printed until "
	 "then (default: no check)",
	 TEXT, FIELD(acks), 0},
	{'S', NULL, "<bytes>", NULL, OTHER, 0, 0},
	{'I', NULL, "<number>", "iterations", NUMBER, FIELD(iterations), 1},
	{'n', NULL, "<number>", "connections; a server of fi_pmem_bw or fi_pmem_plug needs it, too",
	 NUMBER, FIELD(connections), 1},
	{'w', NULL, "<number>", "iterations before the measurement", NUMBER, FIELD(warmup), 0},
	{'W', NULL, "<number>", "writes outstanding at a time", SHOWN, FIELD(window), 0},
	{'C', NULL, "<number>", "a commit every so many writes", NUMBER, FIELD(every), 1},
	{'i', NULL, "<microseconds>", "pause before each operation (default: none)", OTHER, 0, 0},
	{'T', NULL, "<milliseconds>",
	 "a row of the table takes no longer, and has less than -I iterations then", NUMBER,
	 FIELD(limit), 1},
	{OPT_CSV, "csv", "<file>",
	 "append the rows to this file, too, with more columns (default: none)", TEXT, FIELD(csv),
	 0},
	{'c', NULL, "<method>",
	 "how to wait for completions: spin, sread, fd; server: also away, which makes no call for "
	 "200 ms at a time (default: spin; a server over verbs: sread)",
	 OTHER, 0, 0},
	{'v', NULL, NULL, "verify the data at the target (default: no)", OTHER, 0, 0},
	{'o', NULL, "<operation>", NULL, OTHER, 0, 0},
	{'h', "help", NULL, "this text", OTHER, 0, 0},
	{OPT_TIMEOUT, "timeout", "<seconds>", "give up when nothing happens for so many seconds",
	 NUMBER, FIELD(timeout), 1},
	{OPT_SEED, "seed", "<number>", "where random numbers begin", SHOWN, FIELD(seed), 0},
	{OPT_VERSION, "version", NULL, "the version of pmemverbs", OTHER, 0, 0},
};

#define ENTRIES (sizeof(table) / sizeof(table[0]))

/* What the parser works on */
struct parsing {
	struct options *opts;
	const struct program *prog;
};

/* ---- help ---- */

/* takes -- does the program have this option?  x is --csv. */
static bool takes(const struct program *prog, int key)
{
	if (key == OPT_CSV)
		return strchr(prog->letters, 'x');
	return key > UCHAR_MAX || strchr(prog->letters, key);
}

/* has_seed -- programs with cases, and those that check memory after a power failure */
static bool has_seed(const struct program *prog)
{
	return strchr(prog->letters, 'o') && strpbrk(prog->letters, "bA");
}

/* sizes_help -- -S by itself */
static char *sizes_help(const struct options *opts, bool lists)
{
	char list[256] = "", *text = NULL;
	size_t used = 0;

	for (unsigned int i = 0; i < opts->nsizes && used < sizeof(list) - 24; i++)
		used += (size_t) snprintf(list + used, sizeof(list) - used, "%s%zu", i ? ", " : "",
					  opts->sizes[i]);
	return asprintf(&text, "size of a write in bytes%s%s (default: %s)",
			lists ? ", or more than one: 8,64" : "",
			opts->nsizes > 1 ? ", or 'all': the powers of 2 up to 4 MiB" : "", list) < 0
		       ? NULL
		       : text;
}

/* help_of -- of an option, with its default: the caller's to free */
static char *help_of(const struct program *prog, const struct options *opts,
		     const struct entry *entry)
{
	unsigned long value;
	char *text = NULL;
	int ret;

	if (entry->key == 'S')
		return sizes_help(opts, prog->lists);
	if (entry->key == 'o')
		return strdup(prog->operations);
	if (entry->kind != NUMBER && entry->kind != SHOWN)
		return strdup(entry->help);
	memcpy(&value, (const char *) opts + entry->field, sizeof(value));
	ret = value || entry->key == OPT_SEED
		      ? asprintf(&text, "%s (default: %lu)", entry->help, value)
		      : asprintf(&text, "%s (default: no limit)", entry->help);
	return ret < 0 ? NULL : text;
}

/* ---- parsing ---- */

/*
 * say_option -- whose value is wrong: options with a name have no letter that anybody could type.
 * NULL: it belongs to a host.
 */
static void say_option(const struct entry *entry)
{
	if (!entry)
		fprintf(stderr, "port: ");
	else if (entry->name)
		fprintf(stderr, "--%s: ", entry->name);
	else
		fprintf(stderr, "-%c: ", entry->key);
}

static bool parse_number(const struct entry *entry, const char *text, unsigned long long min,
			 unsigned long long max, unsigned long long *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	if (errno || end == text || *end || text[0] == '-' || *value < min || *value > max) {
		say_option(entry);
		fprintf(stderr, "'%s' is not a number from %llu to %llu\n", text, min, max);
		return false;
	}
	return true;
}

static bool parse_ulong(const struct entry *entry, const char *text, unsigned long min,
			unsigned long *value)
{
	unsigned long long number;

	if (!parse_number(entry, text, min, ULONG_MAX, &number))
		return false;
	*value = number;
	return true;
}

static bool is_port(const struct entry *entry, const char *text)
{
	unsigned long long port;

	return parse_number(entry, text, 1, UINT16_MAX, &port);
}

/* parse_list -- numbers with commas between them */
static bool parse_list(const struct entry *entry, const char *text, unsigned long min,
		       unsigned long *values, unsigned int *n)
{
	char *copy = strdup(text), *save, *word = copy ? strtok_r(copy, ",", &save) : NULL;
	bool good = word;

	for (*n = 0; good && word; word = strtok_r(NULL, ",", &save)) {
		good = *n < MAX_SIZES && parse_ulong(entry, word, min, &values[*n]);
		++*n;
	}
	if (!good) {
		say_option(entry);
		fprintf(stderr, "'%s' is not a list of at most %d numbers\n", text, MAX_SIZES);
	}
	free(copy);
	return good;
}

static bool parse_sizes(struct options *opts, const struct entry *entry, const char *text)
{
	unsigned long sizes[MAX_SIZES];
	size_t size;

	opts->nsizes = 0;
	if (!strcmp(text, "all")) {
		for (size = 1; size <= 4 << 20; size *= 2)
			opts->sizes[opts->nsizes++] = size;
		return true;
	}
	if (!parse_list(entry, text, 1, sizes, &opts->nsizes))
		return false;
	for (unsigned int i = 0; i < opts->nsizes; i++)
		opts->sizes[i] = sizes[i];
	return opts->sizes[0] <= SIZE_MAX / 2;
}

/* parse_ops -- a comma-separated list, which is taken apart in place */
static bool parse_ops(struct options *opts, char *text)
{
	char *save, *op;

	for (op = strtok_r(text, ",", &save); op; op = strtok_r(NULL, ",", &save)) {
		if (opts->nops == MAX_OPS) {
			fprintf(stderr, "more than %d operations\n", MAX_OPS);
			return false;
		}
		opts->ops[opts->nops++] = op;
	}
	return true;
}

static bool parse_wait(const char *text, enum wait_method *wait)
{
	static const char *const names[] = {"default", "spin", "sread", "fd", "away"};

	for (size_t i = WAIT_SPIN; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i])) {
			*wait = (enum wait_method) i;
			return true;
		}
	}
	fprintf(stderr, "'%s' is not a way to wait\n", text);
	return false;
}

/* parse_other -- what is no plain string or number */
static bool parse_other(struct options *opts, const struct entry *entry, char *arg)
{
	switch (entry->key) {
	case 'b':
		opts->src_port = opts->dst_port = arg;
		return is_port(entry, arg);
	case 'S':
		return parse_sizes(opts, entry, arg);
	case 'W':
		return parse_list(entry, arg, 1, opts->windows, &opts->nwindows);
	case 'i':
		return parse_list(entry, arg, 0, opts->pauses, &opts->npauses);
	case 'c':
		return parse_wait(arg, &opts->wait);
	case 'v':
		opts->verify = true;
		return true;
	case 'V':
		opts->is_volatile = true;
		return true;
	case 'o':
		return parse_ops(opts, arg);
	case OPT_SEED:
		return parse_number(entry, arg, 0, ULLONG_MAX, &opts->seed);
	default:
		return false;
	}
}

static bool parse_entry(struct options *opts, const struct entry *entry, char *arg)
{
	void *field = (char *) opts + entry->field;

	switch (entry->kind) {
	case TEXT:
	case PORT:
		memcpy(field, &arg, sizeof(arg));
		return entry->kind == TEXT || is_port(entry, arg);
	case NUMBER:
		return parse_ulong(entry, arg, entry->min, field);
	default:
		return parse_other(opts, entry, arg);
	}
}

/* split_port -- takes HOST:PORT apart in place, or [HOST]:PORT, whose host has colons */
static bool split_port(char *text, const char **host, const char **port)
{
	char *end = *text == '[' ? strchr(text, ']') : strchr(text, ':');

	*host = text;
	if (*text == '[' && end) {
		*host = text + 1;
		*end++ = '\0';
	}
	/* More than one colon: an address that has them, without a port. */
	if (!end || !*end || (*text != '[' && strchr(end + 1, ':')))
		return *text != '[' || end;
	if (*end != ':')
		return false;
	*end = '\0';
	*port = end + 1;
	return is_port(NULL, *port);
}

static bool parse_host(struct options *opts, const struct program *prog, char *host)
{
	unsigned int max = prog->hosts ? MAX_HOSTS : 1, number = opts->nhosts;

	if (number == max) {
		fprintf(stderr, max == 1 ? "one host at most\n" : "%u hosts at most\n", max);
		return false;
	}
	opts->hosts[number] = host;
	if (prog->hosts && !split_port(host, &opts->hosts[number], &opts->ports[number]))
		return false;
	opts->nhosts++;
	opts->dst_addr = opts->hosts[0];
	return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	const struct parsing *parsing = state->input;
	size_t i = 0;

	switch (key) {
	case ARGP_KEY_INIT:
		/* getopt says what it does not know; what to do then is said by options_parse. */
		state->err_stream = NULL;
		return 0;
	case ARGP_KEY_ARG:
		return parse_host(parsing->opts, parsing->prog, arg) ? 0 : EINVAL;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case OPT_VERSION:
		printf("%s of pmemverbs %s\n", parsing->prog->name, PACKAGE_VERSION);
		exit(EXIT_SUCCESS);
	default:
		while (i < ENTRIES && table[i].key != key)
			i++;
		if (i == ENTRIES)
			return ARGP_ERR_UNKNOWN;
		return parse_entry(parsing->opts, &table[i], arg) ? 0 : EINVAL;
	}
}

static void set_defaults(struct options *opts, const struct program *prog)
{
	static const size_t sizes[] = {8, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};

	opts->prog = prog->name;
	opts->provider = "pmemverbs";
	opts->src_port = "9228";
	opts->dst_port = "9228";
	opts->timeout = 60;
	if (opts->nsizes)
		return;
	memcpy(opts->sizes, sizes, sizeof(sizes));
	opts->nsizes = sizeof(sizes) / sizeof(sizes[0]);
}

static bool is_host(const char *name)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	int ret = name ? getaddrinfo(name, NULL, &hints, &found) : 0;

	if (ret)
		fprintf(stderr, "there is no host '%s': %s\n", name, gai_strerror(ret));
	else if (name)
		freeaddrinfo(found);
	return !ret;
}

/* are_there -- what the options name, rather now than when a client has connected */
static bool are_there(const struct options *opts)
{
	for (unsigned int i = 0; i < opts->nhosts; i++) {
		if (!is_host(opts->hosts[i]))
			return false;
	}
	return is_host(opts->src_addr) &&
	       (!opts->memory || opts->acks || !memory_check(opts->memory));
}

/* settle_lists -- what was not named, and whether more was named than this program takes */
static bool settle_lists(struct options *opts, const struct program *prog)
{
	bool sizes = strchr(prog->letters, 'S') && opts->nsizes > 1;

	if (!prog->lists && (sizes || opts->nwindows > 1 || opts->npauses > 1)) {
		fprintf(stderr, "one number only with -S and -W; %s --help tells the options\n",
			prog->name);
		return false;
	}
	if (!opts->nwindows)
		opts->windows[opts->nwindows++] = opts->window;
	if (!opts->npauses)
		opts->pauses[opts->npauses++] = 0;
	opts->window = opts->windows[0];
	return true;
}

/* run_argp -- with the options that this program takes */
static int run_argp(struct parsing *parsing, int argc, char **argv)
{
	struct argp_option options[ENTRIES + 1] = {0};
	const struct argp argp = {options,
				  parse,
				  parsing->prog->hosts ? "\n<host>[:<port>]..." : "\n<host>",
				  parsing->prog->summary,
				  NULL,
				  NULL,
				  NULL};
	int count = 0, ret;

	for (size_t i = 0; i < ENTRIES; i++) {
		const struct entry *entry = &table[i];

		/* Random numbers are told of where there are some; a group each keeps the order. */
		if (!takes(parsing->prog, entry->key))
			continue;
		options[count] = (struct argp_option){
			.name = entry->name,
			.key = entry->key,
			.arg = entry->value,
			.flags = entry->key == OPT_SEED && !has_seed(parsing->prog) ? OPTION_HIDDEN
										    : 0,
			.doc = help_of(parsing->prog, parsing->opts, entry),
			.group = count + 1,
		};
		count++;
	}
	setenv("ARGP_HELP_FMT", HELP_FORMAT, 0);
	ret = argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, parsing);
	while (count)
		free((char *) (uintptr_t) options[--count].doc);
	return ret;
}

bool options_parse(struct options *opts, const struct program *prog, int argc, char **argv)
{
	struct parsing parsing = {opts, prog};

	set_defaults(opts, prog);
	if (run_argp(&parsing, argc, argv)) {
		fprintf(stderr, "%s --help tells the options\n", prog->name);
		opts->status = EXIT_USAGE;
		return false;
	}
	opts->status = EXIT_USAGE;
	if (!settle_lists(opts, prog))
		return false;
	opts->status = EXIT_FAILURE;
	return are_there(opts);
}

void options_ready(const char *port)
{
	fprintf(stderr, "waiting on port %s\n", port);
}

int options_op(const struct options *opts, const char *const *names)
{
	int i;

	if (!opts->nops)
		return 0;
	if (opts->nops > 1) {
		fprintf(stderr, "%s: one operation at a time\n", opts->prog);
		return -1;
	}
	for (i = 0; names[i]; i++) {
		if (!strcmp(opts->ops[0], names[i]))
			return i;
	}
	fprintf(stderr, "%s: unknown operation '%s'; --help tells them\n", opts->prog,
		opts->ops[0]);
	return -1;
}

bool options_select(const struct options *opts, const char *name)
{
	unsigned int i;

	for (i = 0; i < opts->nops; i++) {
		if (!strcmp(opts->ops[i], name))
			return true;
	}
	return !opts->nops;
}

size_t options_largest(const struct options *opts)
{
	size_t largest = 0;
	unsigned int i;

	for (i = 0; i < opts->nsizes; i++) {
		if (opts->sizes[i] > largest)
			largest = opts->sizes[i];
	}
	return largest;
}
