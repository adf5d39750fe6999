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

static bool sync_failed;

static int failed(const struct settings *settings, const char *what)
{
	fprintf(stderr, "fi_pmem_key: %s/%s: %s%s\n", settings->directory, what,
		sync_failed ? "a sync failed, so a power failure may take it: " : "",
		errno == EINVAL ? "it is no plain file" : strerror(errno));
	return EXIT_FAILURE;
}

/* note_sync -- what a sync, or something like that, has returned */
static int note_sync(int ret)
{
	sync_failed = sync_failed || ret;
	return ret;
}

/* put -- a new file, durably; 0, or -1 with errno: EEXIST if it is there */
static int put(int dir, const char *name, mode_t mode, const char *text)
{
	const size_t len = strlen(text);
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	int wrong;

	if (fd < 0)
		return -1;
	if (!fchmod(fd, mode) && write(fd, text, len) == (ssize_t) len && !note_sync(fsync(fd))) {
		close(fd);
		return note_sync(fsync(dir));
	}
	wrong = errno;
	close(fd);
	unlinkat(dir, name, 0);
	errno = wrong;
	return -1;
}

/*
 * keep_file -- a sync of it that has failed has left its pages clean, and another one would write
 * nothing: so the same bytes are written again.  0 or an errno.
 */
static int keep_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC), err = 0;
	bool writable = fd >= 0;
	struct stat st;
	char bytes[4096];
	ssize_t len;

	/* There a sync still tells whether the file system has given up. */
	if (fd < 0 && errno == EROFS)
		fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (!fstat(fd, &st) && !S_ISREG(st.st_mode)) {
		close(fd);
		return EINVAL;
	}
	for (off_t at = 0; !err && writable; at += len) {
		len = pread(fd, bytes, sizeof(bytes), at);
		if (len <= 0) {
			err = len ? errno : 0;
			break;
		}
		errno = EIO; /* of a short write */
		if (pwrite(fd, bytes, (size_t) len, at) != len)
			err = errno;
	}
	sodium_memzero(bytes, sizeof(bytes));
	if (!err && note_sync(fsync(fd)))
		err = errno;
	close(fd);
	return err;
}

/*
 * keep -- the files, their names, and the directory's own: who has made them may have been killed
 * before they were durable, or a sync may have failed.  What this user may not open, or is in a
 * directory that he may not, is synced with all of its file system.  What failed is in what.
 */
static int keep(const struct settings *settings, int dir, const char **what)
{
	int err = keep_file(dir, *what = "key");

	if (!err)
		err = keep_file(dir, *what = "peers");
	if (!err)
		*what = "";
	if (!err && note_sync(fsync(dir)))
		err = errno;
	if (!err) {
		err = -sync_name(settings->directory, dir);
		note_sync(err && err != EACCES);
	}
	if (err == EACCES)
		err = note_sync(syncfs(dir)) ? errno : 0;
	errno = err;
	return err ? -1 : 0;
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
	const char *what;
	int dir, ret;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	if (sodium_init() < 0)
		return EXIT_FAILURE;
	if (mkdir(settings.directory, 0700) && errno != EEXIST) {
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
	if (keep(&settings, dir, &what))
		return failed(&settings, what);
	close(dir);
	return print_line(&settings, ret);
}
