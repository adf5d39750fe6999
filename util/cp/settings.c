/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.c -- the options of fi_pmem_target; settings.h says where they stand */
#include "settings.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../number.h"
#include "proto.h"
#include "store.h"

#define MOST_BYTES 65536 /* of the file */
#define MOST_WORDS 64

enum { MAX_FILE = 256, MAX_MEMORY, MAX_TOTAL, CONFIG };

/* What argp gets: of a file's options, what is wrong goes to a stream, and the program goes on. */
struct reading {
	struct cp_settings *settings;
	FILE *wrong; /* NULL: the command line is read */
};

static const struct argp_option options[] = {
	{"config", CONFIG, "FILE", 0, "its line OPTIONS= has more options; SIGHUP reads them again",
	 0},
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
	struct reading *reading = state->input;
	struct cp_settings *settings = reading->settings;

	switch (key) {
	case ARGP_KEY_INIT:
		if (reading->wrong)
			state->err_stream = reading->wrong;
		return 0;
	case CONFIG:
		if (reading->wrong)
			argp_error(state, "--config is for the command line");
		settings->file = arg;
		return 0;
	case 'P':
		snprintf(settings->port, sizeof(settings->port), "%u",
			 (unsigned int) argp_number(state, arg, 1, UINT16_MAX));
		return 0;
	case 'n':
		settings->clients = (unsigned int) argp_number(state, arg, 1, CP_MAX_CLIENTS);
		return 0;
	case MAX_FILE:
		settings->max_file = argp_bytes(state, arg, CP_MAX_SIZE);
		return 0;
	case MAX_MEMORY:
		settings->max_memory = argp_bytes(state, arg, CP_MAX_SIZE);
		return 0;
	case MAX_TOTAL:
		settings->max_total = argp_bytes(state, arg, CP_MAX_SIZE);
		return 0;
	case 'r':
		settings->read_only = true;
		return 0;
	case 't':
		settings->timeout_ms = 1000 * (int) argp_number(state, arg, 1, 86400);
		return 0;
	case 'v':
		settings->verbose = true;
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

void cp_settings_parse(struct cp_settings *settings, int argc, char **argv)
{
	struct reading reading = {.settings = settings};

	argp_parse(&argp, argc, argv, 0, NULL, &reading);
}

/* slurp -- all of a plain file, with a zero behind it; NULL with errno */
static char *slurp(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), wrong = 0;
	char *text = calloc(1, MOST_BYTES + 1);
	struct stat st;
	ssize_t got = 0;

	if (fd < 0 || !text || fstat(fd, &st))
		wrong = errno;
	else if (!S_ISREG(st.st_mode))
		wrong = EINVAL;
	for (size_t len = 0; !wrong; len += (size_t) got) {
		got = read(fd, text + len, MOST_BYTES + 1 - len);
		if (got <= 0) {
			wrong = got ? errno : memchr(text, 0, len) ? EINVAL : 0;
			break;
		}
		wrong = len + (size_t) got > MOST_BYTES ? EFBIG : 0;
	}
	if (fd >= 0)
		close(fd);
	if (!wrong)
		return text;
	free(text);
	errno = wrong;
	return NULL;
}

/* find_options -- the value of the last line OPTIONS=; NULL: it is not as simple as it has to be */
static char *find_options(char *text)
{
	static char none[1];
	char *value = none, *rest, *end;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, " \t");
		if (!strncmp(line, "OPTIONS=", 8))
			value = line + 8;
	}
	value[strcspn(value, "\r")] = 0;
	if (*value == '"' || *value == '\'') {
		end = strchr(value + 1, *value);
		if (!end || end[1 + strspn(end + 1, " \t")])
			return NULL;
		*end = 0;
		value++;
	}
	return strpbrk(value, "\"'\\$") ? NULL : value;
}

/* parse_words -- options; what is wrong goes to the stream */
static void parse_words(struct cp_settings *settings, char *words, FILE *wrong)
{
	static char name[] = "fi_pmem_target";
	struct reading reading = {.settings = settings, .wrong = wrong};
	char *argv[MOST_WORDS + 2] = {name}, *rest;
	int argc = 1, err;

	for (char *word = strtok_r(words, " \t", &rest); word && argc <= MOST_WORDS;
	     word = strtok_r(NULL, " \t", &rest))
		argv[argc++] = word;
	if (argc > MOST_WORDS) {
		fprintf(wrong, "there are too many options");
		return;
	}
	err = argp_parse(&argp, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP, NULL, &reading);
	if (err)
		fprintf(wrong, "%s", strerror(err));
}

/* tell -- the first line of what argp says, which begins with the program's name */
static void tell(const struct cp_settings *settings, const char *said)
{
	static const char name[] = "fi_pmem_target: ";

	if (!strncmp(said, name, strlen(name)))
		said += strlen(name);
	fprintf(stderr, "%s%s: %.*s\n", name, settings->file, (int) strcspn(said, "\n"), said);
}

int cp_settings_add(struct cp_settings *settings)
{
	struct cp_settings next = *settings;
	char *text = slurp(settings->file), *words, *said = NULL;
	size_t len = 0;
	FILE *wrong;

	if (!text) {
		fprintf(stderr, "fi_pmem_target: %s: %s\n", settings->file,
			errno == EINVAL ? "it is no plain file of text" : strerror(errno));
		return -1;
	}
	wrong = open_memstream(&said, &len);
	words = find_options(text);
	if (!wrong)
		fprintf(stderr, "fi_pmem_target: %s: %s\n", settings->file, strerror(errno));
	else if (!words)
		fprintf(wrong,
			"OPTIONS has to be words, with one pair of quotes around all of them");
	else
		parse_words(&next, words, wrong);
	if (!wrong || fclose(wrong))
		len = 1;
	if (said && *said)
		tell(settings, said);
	free(said);
	free(text);
	if (len)
		return -1;
	*settings = next;
	return 0;
}
