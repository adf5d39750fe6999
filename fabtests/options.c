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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum { OPT_TIMEOUT = 256, OPT_SEED };

static const struct option long_options[] = {
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const struct {
	char letter;
	const char *usage;
	const char *help;
} option_table[] = {
	{'p', "-p <provider>", "provider (default: pmemverbs)"},
	{'f', "-f <fabric>", "fabric name"},
	{'d', "-d <domain>", "domain name, the device"},
	{'s', "-s <address>", "source address"},
	{'b', "-b <port>", "port of the control connection (default: 9228)"},
	{'B', "-B <src_port>", "server: port to listen on (default: 9228)"},
	{'P', "-P <dst_port>", "client: port of the server (default: 9228)"},
	{'M', "-M <path>",
	 "server: the target's memory, a file or /dev/dax device; "
	 "a file is created and extended (default: anonymous memory)"},
	{'N', "-N <records>", "server: records that the log has room for (default: 1024)"},
	{'A', "-A <path>",
	 "check the memory (-M) after a power failure; "
	 "the file has what the client printed until then"},
	{'S', "-S <size>",
	 "size of a write in bytes, or 'all' (default: a selection; of a record: 256)"},
	{'I', "-I <number>", "iterations"},
	{'n', "-n <number>", "connections (default: 256)"},
	{'w', "-w <number>", "iterations before the measurement"},
	{'W', "-W <number>", "writes outstanding at a time"},
	{'C', "-C <number>", "a commit every so many writes (default: 1, each)"},
	{'v', "-v", "verify the data at the target"},
	{'o', "-o <operation>", NULL},
	{'h', "-h", "this text"},
};

static void usage(const struct program *prog)
{
	const char *help;
	size_t i;

	printf("Usage:\n  %s [OPTIONS]\t\tstart the server, whose memory is written\n"
	       "  %s [OPTIONS] <host>\tconnect to it and write\n\n%s\n\nOptions:\n",
	       prog->name, prog->name, prog->summary);
	for (i = 0; i < sizeof(option_table) / sizeof(option_table[0]); i++) {
		if (!strchr(prog->letters, option_table[i].letter))
			continue;
		help = option_table[i].help ? option_table[i].help : prog->operations;
		printf("  %-20s %s\n", option_table[i].usage, help);
	}
	printf("  %-20s %s\n", "--timeout <seconds>",
	       "give up when nothing happens for so long (default: 60)");
	if (strchr(prog->letters, 'o') && strpbrk(prog->letters, "bA"))
		printf("  %-20s %s\n", "--seed <number>", "of what is random");
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

static bool parse_sizes(struct options *opts, const char *text)
{
	unsigned long long size;

	opts->nsizes = 0;
	if (!strcmp(text, "all")) {
		for (size = 1; size <= 4 << 20; size *= 2)
			opts->sizes[opts->nsizes++] = size;
		return true;
	}
	if (!parse_number(text, 1, SIZE_MAX / 2, &size))
		return false;
	opts->sizes[opts->nsizes++] = size;
	return true;
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
	case 'b':
		opts->src_port = opts->dst_port = arg;
		return true;
	case 'B':
		opts->src_port = arg;
		return true;
	case 'P':
		opts->dst_port = arg;
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
		return parse_ulong(arg, 1, &opts->window);
	case 'C':
		return parse_ulong(arg, 1, &opts->every);
	case 'v':
		opts->verify = true;
		return true;
	case 'o':
		return parse_ops(opts, arg);
	case OPT_TIMEOUT:
		return parse_ulong(arg, 1, &opts->timeout);
	case OPT_SEED:
		return parse_number(arg, 0, ULLONG_MAX, &opts->seed);
	default:
		return false;
	}
}

/* getopt_string -- the letters with a colon behind those that take an argument */
static void getopt_string(const char *letters, char *out)
{
	for (; *letters; letters++) {
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

bool options_parse(struct options *opts, const struct program *prog, int argc, char **argv)
{
	char letters[128];
	int letter;

	set_defaults(opts, prog);
	getopt_string(prog->letters, letters);
	while ((letter = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		if (letter == 'h') {
			usage(prog);
			opts->help = true;
			return false;
		}
		if (!parse_one(opts, letter, optarg)) {
			fprintf(stderr, "%s -h tells the options\n", prog->name);
			return false;
		}
	}
	if (optind < argc - 1) {
		fprintf(stderr, "one host at most; %s -h tells the options\n", prog->name);
		return false;
	}
	opts->dst_addr = argv[optind];
	return true;
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
	fprintf(stderr, "%s: unknown operation '%s'; -h tells them\n", opts->prog, opts->ops[0]);
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
