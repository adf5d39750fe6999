/* SPDX-License-Identifier: BSD-2-Clause */
/* test_file_ops.c -- what an application makes durable by itself */
#include "test/support/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "objects/domain.h"

/* More than is written at once. */
#define LEN ((size_t) 40 << 20)

static struct fi_pmemverbs_file *file;

/* has_all -- is all of the memory in the file? */
static bool has_all(void)
{
	int fd = open(drive_path(), O_RDONLY);
	char *in_file = malloc(LEN);
	bool same = fd >= 0 && in_file && read(fd, in_file, LEN) == (ssize_t) LEN &&
		    !memcmp(in_file, file->addr, LEN);

	free(in_file);
	close(fd);
	return same;
}

static void begin(void)
{
	struct fi_pmemverbs_file_attr attr = {
		.len = LEN, .flags = FI_PMEMVERBS_FILE_CREATE, .mode = 0600};

	drive_close(drive_open(1));
	attr.path = drive_path();
	cr_assert_eq(pmv_file_ops.open(NULL, &attr, &file), 0);
	memset(file->addr, 'x', LEN);
}

static void end(void)
{
	cr_expect_eq(pmv_file_ops.close(file), 0);
	unlink(drive_path());
}

TestSuite(file_ops, .init = begin, .fini = end);

/* A later call writes what has failed, and may say that all is durable only if it is. */
Test(file_ops, persist_gives_up_no_part_because_another_one_has_failed)
{
	drive.errors[0] = EIO;
	cr_expect_eq(pmv_file_ops.persist(file, file->addr, LEN), -FI_EIO);
	drive.errors[0] = 0;
	cr_expect_eq(pmv_file_ops.persist(file, (char *) file->addr + LEN - 1, 1), 0);
	cr_expect(has_all());
}

/* The next part writes again what has failed in the first one. */
Test(file_ops, persist_tells_of_an_error_that_is_over)
{
	drive.errors[0] = EIO;
	drive.once = true;
	cr_expect_eq(pmv_file_ops.persist(file, file->addr, LEN), -FI_EIO);
	cr_expect_eq(drive.writes[0], 2);
	cr_expect_eq(pmv_file_ops.persist(file, file->addr, LEN), 0);
	cr_expect(has_all());
}
