/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_key.c -- makes a key for FI_PMEMVERBS_KEYS: fi_pmem_key(1)
 *
 * A key that is there is never replaced.  What is read of it is read as the provider does.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "../sync_name.h"
#include "auth/keys.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

#define PEERS                                                                                      \
	"# Whom this host knows: PUBLICKEY NAME [ADDRESS[/PREFIX] ...]  fi_pmemverbs_keys(7)\n"

const char *argp_program_version = "fi_pmem_key of pmemverbs " PACKAGE_VERSION;

struct settings {
	const char *directory;
	const char *name;
};

static const struct argp_option options[] = {
	{"name", 'n', "NAME", 0, "how the line that is printed calls this host (default: its name)",
	 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;

	switch (key) {
	case 'n':
		if (!*arg || strlen(arg) >= PMV_KEYS_NAME || arg[strcspn(arg, " \t\r\n#=")])
			argp_error(state,
				   "'%s' is no name of a peer: it has 1 to %d letters, no blanks, "
				   "no # and no =",
				   arg, PMV_KEYS_NAME - 1);
		settings->name = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (settings->directory)
			argp_error(state, "one directory only");
		settings->directory = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which directory?");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"DIRECTORY",
	"Make a key in DIRECTORY (FI_PMEMVERBS_KEYS), unless there is one, and print the line that "
	"the other side's file `peers' needs."
	"\vThe directory is made if there is none.  Nothing that is there is replaced.\n"
	"Exit status: 0, 1 if that fails, 2 if the command line is wrong.",
	NULL,
	NULL,
	NULL};

static int failed(const struct settings *settings, const char *what)
{
	fprintf(stderr, "fi_pmem_key: %s/%s: %s\n", settings->directory, what, strerror(errno));
	return EXIT_FAILURE;
}

/* put -- a new file, durably; 0, or -1 with errno: EEXIST if it is there */
static int put(int dir, const char *name, mode_t mode, const char *text)
{
	const size_t len = strlen(text);
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	int wrong;

	if (fd < 0)
		return -1;
	if (!fchmod(fd, mode) && write(fd, text, len) == (ssize_t) len && !fsync(fd)) {
		close(fd);
		return fsync(dir);
	}
	wrong = errno;
	close(fd);
	unlinkat(dir, name, 0);
	errno = wrong;
	return -1;
}

/*
 * keep -- the key that was there, the files' names, and the directory's own: who has made them may
 * have been killed before they were durable.  A directory that others have made may be in one that
 * can't be read.
 */
static int keep(const struct settings *settings, int dir, bool made)
{
	int fd = openat(dir, "key", O_RDONLY | O_CLOEXEC);
	int ret = fd < 0 || fsync(fd) ? errno : 0;

	if (fd >= 0)
		close(fd);
	if (!ret)
		ret = fsync(dir) ? errno : -sync_name(settings->directory, dir);
	errno = ret;
	return ret && (made || ret != EACCES) ? -1 : 0;
}

/* make_key -- 1: there is one */
static int make_key(int dir)
{
	struct pmv_noise_pair pair;
	char text[PMV_KEYS_TEXT + 1];
	int ret;

	pmv_keys_draw(&pair);
	pmv_keys_text(text, pair.secret);
	strcat(text, "\n");
	ret = put(dir, "key", 0600, text);
	sodium_memzero(&pair, sizeof(pair));
	sodium_memzero(text, sizeof(text));
	return ret && errno == EEXIST ? 1 : ret;
}

static int print_line(const struct settings *settings, bool was_there)
{
	char why[PMV_KEYS_WHY], text[PMV_KEYS_TEXT], host[PMV_KEYS_NAME] = "";
	struct pmv_noise_pair pair;

	if (pmv_keys_read_own(settings->directory, &pair, why)) {
		fprintf(stderr, "fi_pmem_key: %s\n", why);
		return EXIT_FAILURE;
	}
	sodium_memzero(pair.secret, sizeof(pair.secret));
	fprintf(stderr, "fi_pmem_key: %s/key %s.  The other side's file peers needs this line:\n",
		settings->directory, was_there ? "was there, and stays" : "is new");
	pmv_keys_text(text, pair.public);
	gethostname(host, sizeof(host) - 1);
	printf("%s %s\n", text, settings->name ? settings->name : *host ? host : "host");
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct settings settings = {0};
	bool made;
	int dir, ret;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	if (sodium_init() < 0)
		return EXIT_FAILURE;
	made = !mkdir(settings.directory, 0700);
	if (!made && errno != EEXIST) {
		fprintf(stderr, "fi_pmem_key: %s can't be made: %s%s\n", settings.directory,
			strerror(errno),
			errno == ENOENT ? "; make the directory above it first" : "");
		return EXIT_FAILURE;
	}
	dir = open(settings.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return failed(&settings, "");
	ret = make_key(dir);
	if (ret < 0)
		return failed(&settings, "key");
	if (put(dir, "peers", 0644, PEERS) && errno != EEXIST)
		return failed(&settings, "peers");
	/* What this user may not read is told below. */
	if (keep(&settings, dir, made))
		return failed(&settings, "");
	close(dir);
	return print_line(&settings, ret);
}
