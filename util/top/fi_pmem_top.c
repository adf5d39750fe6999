/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_top.c -- shows what processes that use pmemverbs do: fi_pmem_top(1)
 *
 * A process offers its metrics with FI_PMEMVERBS_METRICS=DIRECTORY.  This reads those of all
 * processes there, and needs no libfabric.
 */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../number.h"
#include "gather.h"
#include "merge.h"
#include "table.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define DEFAULT_DIRECTORY "/run/pmemverbs"
#define MOST_REQUEST 8192

const char *argp_program_version = "fi_pmem_top of pmemverbs " PACKAGE_VERSION;

struct settings {
	const char *directory;
	unsigned int seconds;
	unsigned int times; /* 0: for ever */
	bool text;
	bool http;
};

static const struct argp_option options[] = {
	{"delay", 'd', "SECONDS", 0, "between two looks, 1 to 3600 (default: 1)", 0},
	{"times", 'n', "COUNT", 0, "so many looks, 1 to 1000000 (default: until it is ended)", 0},
	{"text", 't', NULL, 0, "once, all metrics in the text format of Prometheus", 0},
	{"http", 'H', NULL, 0,
	 "the same as the answer to an HTTP request on standard input, for a socket of systemd", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'd':
		settings->seconds = (unsigned int) argp_number(state, arg, 1, 3600);
		return 0;
	case 'n':
		settings->times = (unsigned int) argp_number(state, arg, 1, 1000000);
		return 0;
	case 't':
		settings->text = true;
		return 0;
	case 'H':
		settings->http = true;
		return 0;
	case ARGP_KEY_ARG:
		if (settings->directory)
			argp_error(state, "one directory only");
		settings->directory = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"[DIRECTORY]",
	"Show what the processes do that have their metrics in DIRECTORY (FI_PMEMVERBS_METRICS; "
	"default: " DEFAULT_DIRECTORY ")."
	"\vExit status: 0, 1 if the directory can't be read, 2 if the command line is wrong.",
	NULL,
	NULL,
	NULL};

/* Who may ask: it is the processes' own users who decide. */
#define CALL_IT "call it as root, as their user or in their group"

/* look -- and say what was wrong, where it stays: a screen is cleared before that */
static int look(const struct settings *settings, struct texts *texts, bool clear)
{
	int ret = gather(settings->directory, texts);

	if (!ret && clear) {
		printf("\033[H\033[2J");
		fflush(stdout);
	}
	if (ret)
		fprintf(stderr, "fi_pmem_top: %s: %s%s\n", settings->directory, strerror(ret),
			ret == ENOENT   ? "; which directory do programs have in "
					  "FI_PMEMVERBS_METRICS?"
			: ret == EACCES ? "; " CALL_IT
					: "");
	if (texts->silent)
		fprintf(stderr, "fi_pmem_top: %u in %s did not answer\n", texts->silent,
			settings->directory);
	if (texts->forbidden)
		fprintf(stderr,
			"fi_pmem_top: %u socket%s in %s, which this user may not ask: " CALL_IT
			"\n",
			texts->forbidden, texts->forbidden == 1 ? "" : "s", settings->directory);
	return ret;
}

/* print_text -- behind the lines of a protocol, which are there only if there is a text */
static int print_text(const struct settings *settings, const char *head, const char *failed)
{
	struct texts texts;

	if (look(settings, &texts, false)) {
		printf("%s", failed);
		return EXIT_FAILURE;
	}
	printf("%s", head);
	merge(&texts, stdout);
	gather_free(&texts);
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* is_asked -- read the request up to its empty line.  Whatever path it names, there is one page. */
static bool is_asked(void)
{
	char line[1024];
	size_t len = 0;
	bool get = false, first = true;

	while (len < MOST_REQUEST && fgets(line, sizeof(line), stdin)) {
		if (first)
			get = !strncmp(line, "GET ", 4);
		first = false;
		if (!strcmp(line, "\r\n") || !strcmp(line, "\n"))
			return get;
		len += strlen(line);
	}
	return false;
}

static int print_http(const struct settings *settings)
{
	if (!is_asked()) {
		printf("HTTP/1.0 400 Bad Request\r\n\r\n");
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	return print_text(settings,
			  "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
			  "Connection: close\r\n\r\n",
			  "HTTP/1.0 500 Internal Server Error\r\n\r\n");
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}

static int watch(const struct settings *settings)
{
	struct texts last = {0}, texts;
	bool has_last = false;
	double then = 0;

	for (unsigned int i = 0; !settings->times || i < settings->times; i++) {
		double at = now();

		if (look(settings, &texts, isatty(STDOUT_FILENO)))
			return EXIT_FAILURE;
		table_print(has_last ? &last : NULL, &texts, at - then);
		fflush(stdout);
		gather_free(&last);
		last = texts;
		has_last = true;
		then = at;
		if (i + 1 != settings->times)
			sleep(settings->seconds);
	}
	gather_free(&last);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct settings settings = {.seconds = 1};

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	if (!settings.directory)
		settings.directory = DEFAULT_DIRECTORY;
	if (settings.http)
		return print_http(&settings);
	return settings.text ? print_text(&settings, "", "") : watch(&settings);
}
