/* SPDX-License-Identifier: BSD-2-Clause */
/* test_text_socket.c -- who connects to the socket of a process, and what becomes of old ones */
#include "base/text_socket.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char top[] = "/tmp/pmemverbs.XXXXXX";

/* in_dir -- a path longer than an address of a socket has room for */
static const char *in_dir(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%0150d/%s", top, 0, name);
	return path;
}

static void make_dir(void)
{
	cr_assert(mkdtemp(top));
	cr_assert_eq(mkdir(in_dir(""), 0700), 0);
}

static void remove_all(void)
{
	DIR *dir = opendir(in_dir(""));
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlink(in_dir(entry->d_name));
	closedir(dir);
	rmdir(in_dir(""));
	rmdir(top);
}

TestSuite(text_socket, .init = make_dir, .fini = remove_all);

static const char *own_name(void)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s.%d.sock", program_invocation_short_name, (int) getpid());
	return name;
}

/* at -- a socket that is connected to one of the directory, or bound to it */
static int at(const char *name, int (*call)(int, const struct sockaddr *, socklen_t))
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int dir = open(in_dir(""), O_PATH), fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir, name);
	if (call(fd, (struct sockaddr *) &address, sizeof(address))) {
		close(fd);
		fd = -1;
	}
	close(dir);
	return fd;
}

static bool reads(const char *expected)
{
	char text[64] = "";
	size_t len = 0;
	ssize_t part;
	int fd = at(own_name(), connect);

	cr_assert_geq(fd, 0);
	while ((part = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t) part;
	close(fd);
	return !part && !strcmp(text, expected);
}

static bool is_there(const char *name)
{
	return !access(in_dir(name), F_OK);
}

static int times;

static void write_times(FILE *text)
{
	fprintf(text, "%d times\n", ++times);
}

Test(text_socket, tells_each_reader_what_is_so_then)
{
	struct stat status;

	umask(077);
	cr_assert_eq(pmv_text_socket_open(in_dir(""), write_times), 0);
	cr_assert_eq(stat(in_dir(own_name()), &status), 0);
	cr_expect_eq(status.st_mode, S_IFSOCK | 0660);
	cr_expect(reads("1 times\n"));
	cr_expect(reads("2 times\n"));
	pmv_text_socket_remove();
	cr_expect_not(is_there(own_name()));
}

Test(text_socket, says_why_there_is_none)
{
	cr_expect_eq(pmv_text_socket_open(in_dir("nothing"), write_times), ENOENT);
	close(open(in_dir("file"), O_CREAT, 0600));
	cr_expect_eq(pmv_text_socket_open(in_dir("file"), write_times), ENOTDIR);
	pmv_text_socket_remove();
}

/* Its process may be of another namespace, and have the same number. */
Test(text_socket, leaves_another_live_one_its_name)
{
	int other = at(own_name(), bind);

	cr_assert_eq(listen(other, 1), 0);
	cr_expect_eq(pmv_text_socket_open(in_dir(""), write_times), EEXIST);
	cr_expect(is_there(own_name()));
	pmv_text_socket_remove();
	cr_expect(is_there(own_name()));
	close(other);
	cr_expect_eq(pmv_text_socket_open(in_dir(""), write_times), 0);
	cr_expect(reads("1 times\n"));
}

/* nobody -- a number that no process has: of a child that is gone */
static pid_t nobody(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	return pid;
}

Test(text_socket, removes_what_those_that_were_killed_have_left)
{
	char gone[64], alive[64], heard[64], file[64];
	int dead = (int) nobody(), listener, waits;

	snprintf(gone, sizeof(gone), "one.two.%d.sock", dead);
	snprintf(alive, sizeof(alive), "one.%d.sock", (int) getppid());
	snprintf(heard, sizeof(heard), "one.%d.sock", dead);
	close(at(gone, bind));
	close(at(alive, bind));
	close(at("name.sock", bind));
	close(at("1.sock", bind));
	listener = at(heard, bind);
	cr_assert_eq(listen(listener, 0), 0);
	/* No more than this one can wait there: others are told to try again. */
	waits = at(heard, connect);
	close(open(in_dir("file.1"), O_CREAT, 0600));
	/* Nobody listens there, either. */
	snprintf(file, sizeof(file), "file.%d.sock", dead);
	close(open(in_dir(file), O_CREAT, 0600));
	cr_assert_eq(pmv_text_socket_open(in_dir(""), write_times), 0);
	cr_expect_not(is_there(gone));
	cr_expect(is_there(file));
	cr_expect(is_there(alive));
	cr_expect(is_there(heard));
	cr_expect(is_there("name.sock"));
	cr_expect(is_there("1.sock"));
	cr_expect(is_there("file.1"));
	close(waits);
	close(listener);
}

Test(text_socket, is_not_the_childs_to_remove)
{
	pid_t pid;

	cr_assert_eq(pmv_text_socket_open(in_dir(""), write_times), 0);
	pid = fork();
	if (!pid) {
		pmv_text_socket_remove();
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_expect(reads("1 times\n"));
}

/* A child that lives on listens to nothing: whoever connects learns that the process is gone. */
Test(text_socket, has_no_listener_left_in_a_child)
{
	int ready[2], end[2];
	char name[64], byte;
	pid_t pid;

	cr_assert(!pipe(ready) && !pipe(end));
	pid = fork();
	if (!pid) {
		close(end[1]);
		if (pmv_text_socket_open(in_dir(""), write_times) || fork())
			_exit(0);
		/* It says that it runs, and does until the test ends. */
		if (write(ready[1], "x", 1) == 1 && read(end[0], &byte, 1))
			_exit(1);
		_exit(0);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	snprintf(name, sizeof(name), "%s.%d.sock", program_invocation_short_name, (int) pid);
	cr_assert(is_there(name));
	cr_assert_eq(pmv_text_socket_open(in_dir(""), write_times), 0);
	cr_expect_not(is_there(name));
	close(end[1]);
}

static void write_much(FILE *text)
{
	static char line[1000];

	memset(line, 'x', sizeof(line) - 1);
	for (int i = 0; i < 10000; i++)
		fputs(line, text);
}

Test(text_socket, gives_up_who_reads_nothing)
{
	char byte;
	int silent, next;

	cr_assert_eq(pmv_text_socket_open(in_dir(""), write_much), 0);
	silent = at(own_name(), connect);
	next = at(own_name(), connect);
	/* It comes although the one before it still has not read. */
	cr_expect_eq(read(next, &byte, 1), 1);
	close(next);
	close(silent);
}
