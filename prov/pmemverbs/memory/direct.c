/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.c -- open files with memory in front of them; direct.h has the rules */
#include "memory/direct.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "memory/block_writer.h"
#include "memory/direct_file.h"
#include "memory/file.h"

struct pmv_direct {
	LIST_ENTRY(pmv_direct) next;
	size_t len;
	uint64_t disk;
	int users; /* under `files` */
	pthread_mutex_t lock;
	struct pmv_block_writer writer;
	struct pmv_bad bad;
	atomic_bool is_bad;
	bool gone; /* the file has lost its name or its end */
};

/* All that are open in this process. */
static LIST_HEAD(, pmv_direct) open_files = LIST_HEAD_INITIALIZER(open_files);
static pthread_mutex_t files = PTHREAD_MUTEX_INITIALIZER;

/* A huge page, so that a mapping can consist of such. */
#define HUGE_PAGE ((size_t) 2 << 20)

/* map -- memory that begins where a huge page may; a child process does not get it */
static char *map(size_t len)
{
	char *start = mmap(NULL, len + HUGE_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (start == MAP_FAILED)
		return NULL;
	before = -(uintptr_t) start & (HUGE_PAGE - 1);
	if (before)
		munmap(start, before);
	munmap(start + before + len, HUGE_PAGE - before);
	madvise(start + before, len, MADV_HUGEPAGE);
	/* A copy of its pages made for a child would take them from the NIC. */
	madvise(start + before, len, MADV_DONTFORK);
	return start + before;
}

static int fill(struct pmv_direct *direct, const struct pmv_direct_file *file, const char *path,
		struct pmv_mem *mem)
{
	direct->writer.memory = map(direct->len);
	if (!direct->writer.memory)
		return pmv_mem_refuse(mem, FI_ENOMEM, "no memory for %zu bytes of %.80s: %m",
				      direct->len, path);
	return pmv_direct_file_load(file, direct->writer.memory, path, mem);
}

int pmv_direct_open(const struct pmv_direct_attr *attr, struct pmv_direct **result,
		    struct pmv_mem *mem)
{
	struct pmv_direct *direct = calloc(1, sizeof(*direct));
	struct pmv_direct_file file;
	int ret;

	if (!direct)
		return pmv_mem_refuse(mem, FI_ENOMEM, "no memory for a file");
	ret = pmv_direct_file_open(attr, &file, mem);
	if (ret) {
		free(direct);
		return ret;
	}
	*direct = (struct pmv_direct){
		.len = file.len,
		.disk = file.disk,
		.writer = {.fd = file.fd, .fua = file.fua, .offset = file.offset},
	};
	ret = fill(direct, &file, attr->path, mem);
	if (ret) {
		if (direct->writer.memory)
			munmap(direct->writer.memory, direct->len);
		pmv_direct_file_undo(&file, attr->path);
		free(direct);
		return ret;
	}
	pmv_block_writer_init(&direct->writer);
	pthread_mutex_init(&direct->lock, NULL);
	pthread_mutex_lock(&files);
	LIST_INSERT_HEAD(&open_files, direct, next);
	pthread_mutex_unlock(&files);
	*result = direct;
	return 0;
}

int pmv_direct_close(struct pmv_direct *direct)
{
	bool busy;

	pthread_mutex_lock(&files);
	busy = direct->users;
	if (!busy)
		LIST_REMOVE(direct, next);
	pthread_mutex_unlock(&files);
	if (busy)
		return -FI_EBUSY;
	pmv_block_writer_destroy(&direct->writer);
	munmap(direct->writer.memory, direct->len);
	/* A child has the description, too. */
	pmv_direct_file_unlock(direct->writer.fd);
	close(direct->writer.fd);
	pthread_mutex_destroy(&direct->lock);
	free(direct);
	return 0;
}

struct iovec pmv_direct_memory(const struct pmv_direct *direct)
{
	return (struct iovec){direct->writer.memory, direct->len};
}

/* holds -- how many bytes of a range are in front of a file */
static size_t holds(const struct pmv_direct *direct, const struct iovec *range)
{
	uintptr_t start = (uintptr_t) range->iov_base, end = start + range->iov_len;
	uintptr_t own = (uintptr_t) direct->writer.memory, own_end = own + direct->len;

	start = start > own ? start : own;
	end = end < own_end ? end : own_end;
	return start < end ? end - start : 0;
}

/* find -- the file behind a part of a range, or NULL; holds `files` */
static struct pmv_direct *find(const struct iovec *range)
{
	struct pmv_direct *direct;

	LIST_FOREACH(direct, &open_files, next)
	{
		if (holds(direct, range))
			return direct;
	}
	return NULL;
}

int pmv_direct_hold(const struct iovec *iov, size_t count, struct pmv_direct **result,
		    struct pmv_mem *mem)
{
	struct pmv_direct *direct = NULL;
	bool whole;

	pthread_mutex_lock(&files);
	for (size_t i = 0; i < count && !direct; i++)
		direct = find(&iov[i]);
	whole = direct && count == 1 && holds(direct, iov) == iov->iov_len;
	if (whole)
		direct->users++;
	pthread_mutex_unlock(&files);
	*result = whole ? direct : NULL;
	if (whole || !direct)
		return 0;
	return pmv_mem_refuse(mem, FI_EINVAL,
			      "part of it is memory of a file (FI_PMEMVERBS_FILE_OPS), and part of "
			      "it is not: register them apart, and one range at a time");
}

void pmv_direct_put(struct pmv_direct *direct)
{
	pthread_mutex_lock(&files);
	direct->users--;
	pthread_mutex_unlock(&files);
}

uint64_t pmv_direct_disk(const struct pmv_direct *direct)
{
	return direct->disk;
}

/* check_file -- one that was lost is not trusted any more */
static bool check_file(struct pmv_direct *direct)
{
	const struct pmv_block_writer *writer = &direct->writer;
	uint64_t end = (uint64_t) writer->offset + direct->len;

	if (!direct->gone && pmv_file_state(writer->fd, true, end) != PMV_FILE_HERE) {
		direct->gone = true;
		PMV_WARN(MR, "a file was removed or truncated while its memory was in use: nothing "
			     "in it is durable from here on; close it, and open it again\n");
	}
	return !direct->gone;
}

/* write_runs -- these and all that are bad; holds the lock */
static int write_runs(struct pmv_direct *direct, struct pmv_blocks *runs, size_t count)
{
	bool was_bad = direct->bad.count;
	int ret;

	memcpy(runs + count, direct->bad.runs, direct->bad.count * sizeof(*runs));
	count = pmv_blocks_join(runs, count + direct->bad.count);
	direct->bad.count = 0;
	ret = pmv_block_writer_write(&direct->writer, runs, count, &direct->bad);
	if (ret && !was_bad)
		PMV_WARN(MR,
			 "blocks of a file can't be written (%s): commits to it fail until they "
			 "are; check the disk\n",
			 fi_strerror(-ret));
	if (!check_file(direct))
		ret = -FI_EIO;
	atomic_store(&direct->is_bad, ret);
	return ret ? -FI_EIO : 0;
}

int pmv_direct_write(struct pmv_direct *direct, const struct iovec *ranges, size_t count)
{
	struct pmv_blocks runs[PMV_DIRECT_RANGES + PMV_BAD_RUNS];
	int ret;

	for (size_t i = 0; i < count; i++) {
		const char *start = ranges[i].iov_base;

		runs[i] = pmv_blocks_of((uint64_t) (start - direct->writer.memory),
					ranges[i].iov_len);
	}
	pthread_mutex_lock(&direct->lock);
	ret = write_runs(direct, runs, count);
	pthread_mutex_unlock(&direct->lock);
	return ret;
}

bool pmv_direct_is_bad(const struct pmv_direct *direct)
{
	return atomic_load(&direct->is_bad);
}
