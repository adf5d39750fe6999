/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options.c -- the command line, in fabtests' letters
 *
 * One table has every option of every program; a program names the letters that
 * it takes, and both the parsing and the help follow from that.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "memory.h"
#include "options.h"
#include "config.h"

enum { OPT_TIMEOUT = 256, OPT_SEED, OPT_VERSION };

static const struct option long_options[] = {
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"csv", required_argument, NULL, 'x'},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

#define FIELD(name) offsetof(struct options, name)

static const struct {
	char letter;
	const char *usage;
	const char *help;
	size_t value; /* the number in struct options whose default is shown; 0: none */
} option_table[] = {
	{'p', "-p <provider>", "provider (default: pmemverbs)", 0},
	{'f', "-f <fabric>", "fabric name (default: the first)", 0},
	{'d', "-d <domain>", "domain name, the device (default: the first)", 0},
	{'s', "-s <address>", "source address (default: any)", 0},
	{'b', "-b <port>", "both: port of the server, as with -B and -P (default: 9228)", 0},
	{'B', "-B <port>", "server: port to listen on (default: 9228)", 0},
	{'P', "-P <port>", "client: port of the server (default: 9228)", 0},
	{'M', "-M <path>",
	 "server: the target's memory, a file or /dev/dax device; a file is made and extended "
	 "(default: anonymous memory)",
	 0},
	{'N', "-N <records>", "server: records that the log has room for", FIELD(records)},
	{'A', "-A <path>",
	 "check the memory (-M) after a power failure; the file has what the client printed until "
	 "then (default: no check)",
	 0},
	{'S', "-S <bytes>", NULL, 0},
	{'I', "-I <number>", "iterations", FIELD(iterations)},
	{'n', "-n <number>", "connections; fi_pmem_bw needs the same number at both ends",
	 FIELD(connections)},
	{'w', "-w <number>", "iterations before the measurement", FIELD(warmup)},
	{'W', "-W <number>", "writes outstanding at a time", FIELD(window)},
	{'C', "-C <number>", "a commit every so many writes", FIELD(every)},
	{'i', "-i <microseconds>", "pause before each operation (default: none)", 0},
	{'T', "-T <milliseconds>",
	 "a row of the table takes no longer, and has less than -I iterations then (default: no "
	 "limit)",
	 0},
	{'x', "--csv <file>",
	 "append the rows to this file, too, with more columns (default: none)", 0},
	{'c', "-c <method>",
	 "how to wait for completions: spin, sread, fd; server: also away, which makes no call for "
	 "200 ms at a time (default: spin; a server over verbs: sread)",
	 0},
	{'v', "-v", "verify the data at the target (default: no)", 0},
	{'o', "-o <operation>", NULL, 0},
	{'h', "-h, --help", "this text", 0},
};

#define INDENT 22
#define COLUMNS 80

/* print_option -- what it does behind its name, in lines that fit a terminal */
static void print_option(const char *name, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void print_option(const char *name, const char *fmt, ...)
{
	char text[1024], *word, *save;
	int column = INDENT;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	printf("  %-*s", INDENT - 2, name);
	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (column > INDENT && column + 1 + (int) strlen(word) > COLUMNS)
			column = printf("\n%*s", INDENT, "") - 1;
		column += printf("%s%s", column > INDENT ? " " : "", word);
	}
	putchar('\n');
}

/* print_sizes -- -S by itself */
static void print_sizes(const struct options *opts, bool lists)
{
	char list[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < opts->nsizes && used < sizeof(list) - 24; i++)
		used += (size_t) snprintf(list + used, sizeof(list) - used, "%s%zu", i ? ", " : "",
					  opts->sizes[i]);
	print_option("-S <bytes>", "size of a write in bytes%s%s (default: %s)",
		     lists ? ", or more than one: 8,64" : "",
		     opts->nsizes > 1 ? ", or 'all': the powers of 2 up to 4 MiB" : "", list);
}

static void print_entry(const struct program *prog, const struct options *opts, size_t i)
{
	const char *usage = option_table[i].usage, *help = option_table[i].help;
	unsigned long value;

	if (option_table[i].letter == 'S') {
		print_sizes(opts, prog->lists);
	} else if (option_table[i].letter == 'o') {
		print_option(usage, "%s", prog->operations);
	} else if (option_table[i].value) {
		memcpy(&value, (const char *) opts + option_table[i].value, sizeof(value));
		if (value)
			print_option(usage, "%s (default: %lu)", help, value);
		else
			print_option(usage, "%s (default: no limit)", help);
	} else {
		print_option(usage, "%s", help);
	}
}

static void usage(const struct program *prog, const struct options *opts)
{
	printf("Usage:\n  %s [OPTIONS]\t\tstart the server, whose memory is written\n"
	       "  %s [OPTIONS] <host>\tconnect to it and write\n\n%s\n\nOptions:\n",
	       prog->name, prog->name, prog->summary);
	for (size_t i = 0; i < sizeof(option_table) / sizeof(option_table[0]); i++) {
		if (strchr(prog->letters, option_table[i].letter))
			print_entry(prog, opts, i);
	}
	print_option("--timeout <seconds>",
		     "give up when nothing happens for so many seconds (default: %lu)",
		     opts->timeout);
	if (strchr(prog->letters, 'o') && strpbrk(prog->letters, "bA"))
		print_option("--seed <number>", "where random numbers begin (default: %llu)",
			     opts->seed);
	print_option("--version", "the version of pmemverbs");
}

static bool parse_number(const char *text, unsigned long long min, unsigned long long max,
			 unsigned long long *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	if (errno || end == text || *end || text[0] == '-' || *value < min || *value > max) {
		fprintf(stderr, "'%s' is not a number from %llu to %llu\n", text, min, max);
		return false;
	}
	return true;
}

static bool parse_ulong(const char *text, unsigned long min, unsigned long *value)
{
	unsigned long long number;

	if (!parse_number(text, min, ULONG_MAX, &number))
		return false;
	*value = number;
	return true;
}

static bool is_port(const char *text)
{
	unsigned long long port;

	return parse_number(text, 1, UINT16_MAX, &port);
}

/* parse_list -- numbers with commas between them */
static bool parse_list(const char *text, unsigned long min, unsigned long *values, unsigned int *n)
{
	char *copy = strdup(text), *save, *word = copy ? strtok_r(copy, ",", &save) : NULL;
	bool good = word;

	for (*n = 0; good && word; word = strtok_r(NULL, ",", &save)) {
		good = *n < MAX_SIZES && parse_ulong(word, min, &values[*n]);
		++*n;
	}
	if (!good)
		fprintf(stderr, "'%s' is not a list of at most %d numbers\n", text, MAX_SIZES);
	free(copy);
	return good;
}

static bool parse_sizes(struct options *opts, const char *text)
{
	unsigned long sizes[MAX_SIZES];
	size_t size;

	opts->nsizes = 0;
	if (!strcmp(text, "all")) {
		for (size = 1; size <= 4 << 20; size *= 2)
			opts->sizes[opts->nsizes++] = size;
		return true;
	}
	if (!parse_list(text, 1, sizes, &opts->nsizes))
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

static bool parse_one(struct options *opts, int letter, char *arg)
{
	switch (letter) {
	case 'p':
		opts->provider = arg;
		return true;
	case 'f':
		opts->fabric = arg;
		return true;
	case 'd':
		opts->domain = arg;
		return true;
	case 's':
		opts->src_addr = arg;
		return true;
	case 'M':
		opts->memory = arg;
		return true;
	case 'N':
		return parse_ulong(arg, 1, &opts->records);
	case 'A':
		opts->acks = arg;
		return true;
	case 'S':
		return parse_sizes(opts, arg);
	case 'I':
		return parse_ulong(arg, 1, &opts->iterations);
	case 'n':
		return parse_ulong(arg, 1, &opts->connections);
	case 'w':
		return parse_ulong(arg, 0, &opts->warmup);
	case 'W':
		return parse_list(arg, 1, opts->windows, &opts->nwindows);
	case 'C':
		return parse_ulong(arg, 1, &opts->every);
	case 'i':
		return parse_list(arg, 0, opts->pauses, &opts->npauses);
	case 'T':
		return parse_ulong(arg, 1, &opts->limit);
	case 'x':
		opts->csv = arg;
		return true;
	case 'c':
		return parse_wait(arg, &opts->wait);
	case 'v':
		opts->verify = true;
		return true;
	case 'o':
		return parse_ops(opts, arg);
	case 'b':
		opts->src_port = opts->dst_port = arg;
		return is_port(arg);
	case 'B':
		opts->src_port = arg;
		return is_port(arg);
	case 'P':
		opts->dst_port = arg;
		return is_port(arg);
	case OPT_TIMEOUT:
		return parse_ulong(arg, 1, &opts->timeout);
	case OPT_SEED:
		return parse_number(arg, 0, ULLONG_MAX, &opts->seed);
	default:
		return false;
	}
}

/* getopt_string -- the letters with a colon behind those that take an argument; x is --csv alone */
static void getopt_string(const char *letters, char *out)
{
	for (; *letters; letters++) {
		if (*letters == 'x')
			continue;
		*out++ = *letters;
		if (*letters != 'v' && *letters != 'h')
			*out++ = ':';
	}
	*out = '\0';
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
	return is_host(opts->dst_addr) && is_host(opts->src_addr) &&
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

/* parse_all -- true: go on; else opts->status says how it ends */
static bool parse_all(struct options *opts, const struct program *prog, int argc, char **argv)
{
	const struct options defaults = *opts;
	char letters[128];
	int letter;

	opts->status = EXIT_USAGE;
	getopt_string(prog->letters, letters);
	while ((letter = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		if (letter == 'h' || letter == OPT_VERSION) {
			if (letter == 'h')
				usage(prog, &defaults);
			else
				printf("%s of pmemverbs %s\n", prog->name, PACKAGE_VERSION);
			opts->status = EXIT_SUCCESS;
			return false;
		}
		if ((letter == 'x' && !strchr(prog->letters, letter)) ||
		    !parse_one(opts, letter, optarg)) {
			fprintf(stderr, "%s --help tells the options\n", prog->name);
			return false;
		}
	}
	if (optind < argc - 1) {
		fprintf(stderr, "one host at most; %s --help tells the options\n", prog->name);
		return false;
	}
	opts->dst_addr = argv[optind];
	return settle_lists(opts, prog);
}

bool options_parse(struct options *opts, const struct program *prog, int argc, char **argv)
{
	set_defaults(opts, prog);
	if (!parse_all(opts, prog, argc, argv))
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
