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
#define BLANKS " \t"

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

/* parse_in_file -- argp speaks only in here: what it adds to getopt's messages is of no file */
static error_t parse_in_file(int key, char *arg, struct argp_state *state)
{
	struct reading *reading = state->input;
	error_t err;

	state->name = *state->argv;
	state->err_stream = reading->wrong;
	err = parse(key, arg, state);
	state->err_stream = NULL;
	return err;
}

static const struct argp file_argp = {options, parse_in_file, NULL, NULL, NULL, NULL, NULL};

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

/* value_of -- of a line that sets this; NULL: it is another one */
static char *value_of(char *line, const char *name)
{
	line += strspn(line, BLANKS);
	if (strncmp(line, name, strlen(name)))
		return NULL;
	line += strlen(name);
	line += strspn(line, BLANKS);
	return *line == '=' ? line + 1 + strspn(line + 1, BLANKS) : NULL;
}

/* find_options -- the value of the last line OPTIONS=; NULL: why is said there */
static char *find_options(char *text, const char **why)
{
	char *value = NULL, *found, *rest, *end;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		found = value_of(line, "OPTIONS");
		value = found ? found : value;
	}
	*why = "there is no line OPTIONS= (it may have nothing behind it)";
	if (!value)
		return NULL;
	*why = "OPTIONS has to be words, with one pair of quotes around all of them";
	value[strcspn(value, "\r")] = 0;
	if (*value == '"' || *value == '\'') {
		end = strchr(value + 1, *value);
		if (!end || end[1 + strspn(end + 1, BLANKS)])
			return NULL;
		*end = 0;
		value++;
	}
	return strpbrk(value, "\"'\\$") ? NULL : value;
}

static int tell(const struct cp_settings *settings, const char *why)
{
	fprintf(stderr, "fi_pmem_target: %s: %s\n", settings->file, why);
	return -1;
}

/*
 * parse_argv -- whose first one is what messages begin with.  getopt has told of what it does not
 * know, and what else is wrong is the first line that goes to the stream.
 */
static int parse_argv(struct cp_settings *settings, int argc, char **argv, FILE *wrong)
{
	struct reading reading = {.settings = settings, .wrong = wrong};
	int err = argp_parse(&file_argp, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP, NULL, &reading);

	if (err && err != EINVAL)
		fprintf(wrong, "%s: %s", *argv, strerror(err));
	return err;
}

/* parse_words -- options, of the file */
static int parse_words(struct cp_settings *settings, char *words)
{
	char *argv[MOST_WORDS + 2], *rest, *said = NULL;
	int argc = 1, err;
	size_t len = 0;
	FILE *wrong;

	for (char *word = strtok_r(words, BLANKS, &rest); word && argc <= MOST_WORDS;
	     word = strtok_r(NULL, BLANKS, &rest))
		argv[argc++] = word;
	argv[argc] = NULL;
	if (argc > MOST_WORDS)
		return tell(settings, "there are too many options");
	if (asprintf(argv, "fi_pmem_target: %s", settings->file) < 0)
		return tell(settings, strerror(ENOMEM));
	wrong = open_memstream(&said, &len);
	err = wrong ? parse_argv(settings, argc, argv, wrong) : errno;
	if (!wrong || fclose(wrong))
		tell(settings, strerror(err = ENOMEM));
	else if (len)
		fprintf(stderr, "%.*s\n", (int) strcspn(said, "\n"), said);
	free(said);
	free(*argv);
	return err || len ? -1 : 0;
}

int cp_settings_add(struct cp_settings *settings)
{
	struct cp_settings next = *settings;
	char *text = slurp(settings->file), *words;
	const char *why;
	int ret;

	if (!text)
		return tell(settings,
			    errno == EINVAL ? "it is no plain file of text" : strerror(errno));
	words = find_options(text, &why);
	ret = words ? parse_words(&next, words) : tell(settings, why);
	free(text);
	if (!ret)
		*settings = next;
	return ret;
}
