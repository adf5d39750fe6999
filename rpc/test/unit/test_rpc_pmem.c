/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rpc_pmem.c -- a store's file is one that a power failure leaves */
#include "pmem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#define LEN 8192

static char dir[32], path[64], name[64];
static unsigned int files, dirs; /* that were synced: the file, and its directory */
static unsigned int fails;       /* S_IFREG or S_IFDIR: its sync fails */

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
	struct stat st, here;

	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(stat(S_ISDIR(st.st_mode) ? dir : path, &here), 0);
	cr_expect_eq(st.st_ino, here.st_ino);
	S_ISDIR(st.st_mode) ? dirs++ : files++;
	errno = EIO;
	return (st.st_mode & S_IFMT) == fails ? -1 : __real_fsync(fd);
}

static void begin(void)
{
	snprintf(dir, sizeof(dir), "store.%d", (int) getpid());
	snprintf(path, sizeof(path), "%s/file", dir);
	snprintf(name, sizeof(name), "store.%d.link", (int) getpid());
	cr_assert_eq(mkdir(dir, 0700), 0);
	cr_assert_eq(symlink(path, name), 0);
}

static void end(void)
{
	unlink(name);
	unlink(path);
	rmdir(dir);
}

TestSuite(pmem, .init = begin, .fini = end);

static int open_store(void)
{
	struct connection_error error;
	struct rpc_pmem pmem;
	/* The name is a link: the file's own directory counts. */
	int ret = rpc_pmem_open(&pmem, name, LEN, &error);

	if (!ret)
		rpc_pmem_close(&pmem);
	return ret;
}

Test(pmem, syncs_file_and_name_whoever_has_made_it)
{
	for (unsigned int i = 1; i <= 3; i++) {
		cr_expect_eq(open_store(), 0);
		cr_expect(files == i && dirs == i, "%u files, %u directories", files, dirs);
	}
}

Test(pmem, is_not_opened_if_it_can_not_be_synced)
{
	fails = S_IFDIR;
	cr_expect_eq(open_store(), -EIO);
	fails = S_IFREG;
	cr_expect_eq(open_store(), -EIO);
	fails = 0;
	cr_expect_eq(open_store(), 0);
	fails = S_IFDIR;
	cr_expect_eq(open_store(), -EIO);
	fails = S_IFREG;
	cr_expect_eq(open_store(), -EIO);
}
