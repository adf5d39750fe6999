/* SPDX-License-Identifier: BSD-2-Clause */
/* text_socket.c -- a socket from which others read a text; text_socket.h says how */
#include "base/text_socket.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spawn.h"

#define SUFFIX ".sock"
#define MODE 0660
#define QUEUE 16         /* so many readers may wait while one is answered */
#define READER_SECONDS 1 /* one that takes nothing is given up then */
#define PAUSE_MS 100     /* while no reader can be accepted */

/* What this process has.  A child that it forks has neither the thread nor the socket. */
static struct {
	int dir; /* the directory, also if it is renamed, or another is mounted there */
	int listener;
	char name[64];
	void (*write)(FILE *text);
	atomic_int owner; /* the process; 0: there is none */
} own = {.dir = -1, .listener = -1};

/*
 * address_of -- of a socket in the directory.  By the descriptor: a path of any length fits the 108
 * bytes that there are.
 */
static struct sockaddr_un address_of(int dir, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir, name);
	return address;
}

/* Those of processes that are gone */

/* pid_of -- of the process whose socket has this name; 0: it is no such name */
static pid_t pid_of(const char *name)
{
	size_t len = strlen(name);
	const char *end = name + len - strlen(SUFFIX), *dot;
	long pid;

	if (len <= strlen(SUFFIX) || strcmp(end, SUFFIX))
		return 0;
	for (dot = end; dot > name && isdigit((unsigned char) dot[-1]); dot--)
		;
	if (dot < name + 2 || dot[-1] != '.' || end - dot > 10)
		return 0;
	pid = strtol(dot, NULL, 10);
	return pid > 0 && pid <= INT32_MAX ? (pid_t) pid : 0;
}

/*
 * is_left_behind -- its process may be of another namespace: only the socket itself knows.  (To
 * connect to what is no socket is refused, too.)
 */
static bool is_left_behind(int dir, const char *name)
{
	struct sockaddr_un address = address_of(dir, name);
	struct stat status;
	bool left;
	int fd;

	if (fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(status.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	left = connect(fd, (struct sockaddr *) &address, sizeof(address)) && errno == ECONNREFUSED;
	close(fd);
	return left;
}

/* clean_up -- others' that may not be removed stay */
static void clean_up(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!list) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(list))) {
		pid_t pid = pid_of(entry->d_name);

		if (pid && kill(pid, 0) && errno == ESRCH && is_left_behind(dir, entry->d_name))
			unlinkat(dir, entry->d_name, 0);
	}
	closedir(list);
}

/* This process' */

/* close_all -- in a child that was forked, too: nobody is to wait there for an answer */
static void close_all(void)
{
	if (own.listener >= 0)
		close(own.listener);
	if (own.dir >= 0)
		close(own.dir);
	own.listener = own.dir = -1;
}

/* set_mode -- 0, or an errno.  Whoever may write to the directory may have put a link there. */
static int set_mode(const char *name)
{
	int fd = openat(own.dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), ret = 0;
	char path[32];
	struct stat status;

	if (fd < 0)
		return errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstat(fd, &status) || (S_ISSOCK(status.st_mode) && chmod(path, MODE)))
		ret = errno;
	else if (!S_ISSOCK(status.st_mode))
		ret = EEXIST;
	close(fd);
	return ret;
}

/* take_name -- bind, listen, and only then be found; another process may have the name */
static int take_name(const char *hidden)
{
	struct sockaddr_un address = address_of(own.dir, hidden);
	int ret = 0;

	unlinkat(own.dir, hidden, 0);
	/* Before it has a name nobody can connect; bind takes away what the umask does. */
	if (fchmod(own.listener, MODE) ||
	    bind(own.listener, (struct sockaddr *) &address, sizeof(address)))
		return errno;
	ret = set_mode(hidden);
	if (!ret && listen(own.listener, QUEUE))
		ret = errno;
	if (!ret && is_left_behind(own.dir, own.name))
		unlinkat(own.dir, own.name, 0);
	if (!ret && linkat(own.dir, hidden, own.dir, own.name, 0))
		ret = errno;
	unlinkat(own.dir, hidden, 0);
	return ret;
}

static int open_socket(const char *directory)
{
	char program[32], hidden[sizeof(own.name) + 8];
	int ret = pthread_atfork(NULL, NULL, close_all);

	if (ret)
		return ret;
	own.dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (own.dir < 0)
		return errno;
	snprintf(program, sizeof(program), "%s", program_invocation_short_name);
	for (char *at = program; *at; at++) {
		if (!isalnum((unsigned char) *at) && *at != '-' && *at != '_')
			*at = '_';
	}
	snprintf(own.name, sizeof(own.name), "%s.%d" SUFFIX, program, (int) getpid());
	snprintf(hidden, sizeof(hidden), ".%s", own.name);
	clean_up(own.dir);
	own.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = own.listener < 0 ? errno : take_name(hidden);
	if (ret)
		close_all();
	return ret;
}

/* The thread */

static void answer(int fd)
{
	const struct timeval patience = {.tv_sec = READER_SECONDS};
	char *text = NULL;
	size_t len = 0, at = 0;
	FILE *file = open_memstream(&text, &len);
	ssize_t sent = 1;

	if (!file)
		return;
	own.write(file);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!fclose(file)) {
		while (at < len && sent > 0) {
			sent = send(fd, text + at, len - at, MSG_NOSIGNAL);
			at += sent > 0 ? (size_t) sent : 0;
		}
	}
	free(text);
}

static void *run(void *arg)
{
	(void) arg;
	for (;;) {
		int fd = accept4(own.listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0) {
			answer(fd);
			close(fd);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			/* Of descriptors there may be some again. */
			poll(NULL, 0, PAUSE_MS);
		}
	}
	return NULL;
}

int pmv_text_socket_open(const char *directory, void (*write)(FILE *text))
{
	pthread_t thread;
	int ret = open_socket(directory);

	if (ret)
		return ret;
	own.write = write;
	atomic_store(&own.owner, getpid());
	ret = pmv_spawn(&thread, "pmv-metrics", run, NULL, 0);
	if (!ret) {
		pthread_detach(thread);
		return 0;
	}
	pmv_text_socket_remove();
	close_all();
	return ret;
}

void pmv_text_socket_remove(void)
{
	int pid = getpid();

	if (atomic_compare_exchange_strong(&own.owner, &pid, 0))
		unlinkat(own.dir, own.name, 0);
}
