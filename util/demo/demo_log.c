/* SPDX-License-Identifier: BSD-2-Clause */
/* demo_log.c -- the log of fi_pmem_demo: its memory, and its check */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "demo_log.h"

/* direct_path -- FILE of "direct:FILE"; NULL: it is something else */
static const char *direct_path(const char *path)
{
	static const char direct[] = "direct:";
	size_t len = sizeof(direct) - 1;

	return path && !strncmp(path, direct, len) ? path + len : NULL;
}

/* open_file -- a file is made; what is missing in /dev is a device, and no file replaces it */
static int open_file(const char *path)
{
	int fd = open(path, O_RDWR);
	char *copy, *dir;
	bool in_dev;

	if (fd >= 0 || errno != ENOENT)
		return fd;
	copy = strdup(path);
	dir = copy ? realpath(dirname(copy), NULL) : NULL;
	in_dev = dir && (!strcmp(dir, "/dev") || !strncmp(dir, "/dev/", 5));
	free(copy);
	free(dir);
	if (!in_dev)
		return open(path, O_RDWR | O_CREAT, 0600);
	fprintf(stderr, "No file is made below /dev: name a device that is there, or a file on a "
			"disk.\n");
	errno = ENODEV;
	return -1;
}

/* keep_file -- a power failure leaves the file, all of it, and its name */
static int keep_file(const char *path, int fd)
{
	char *real = realpath(path, NULL);
	int dir = real ? open(dirname(real), O_RDONLY | O_DIRECTORY) : -1;
	struct stat st;
	bool bad = dir < 0 || fstat(fd, &st);

	/* A hole could find the disk full when it is written. */
	if (!bad && S_ISREG(st.st_mode))
		bad = (errno = posix_fallocate(fd, 0, LOG_SIZE)) || fsync(fd) || fsync(dir);
	if (dir >= 0)
		close(dir);
	free(real);
	return bad ? -1 : 0;
}

int log_map(struct log_memory *memory, const char *path)
{
	int fd, kind = path ? 0 : MAP_ANONYMOUS;
	struct log *log = MAP_FAILED;
	bool good;

	if (direct_path(path))
		return 0;
	fd = path ? open_file(path) : -1;
	good = !path || (fd >= 0 && !keep_file(path, fd));
	/* MAP_SYNC where it is to be had: then no msync is needed. */
	if (path && good)
		log = mmap(NULL, LOG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC,
			   fd, 0);
	if (good && log == MAP_FAILED)
		log = mmap(NULL, LOG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | kind, fd, 0);
	if (fd >= 0)
		close(fd);
	if (log == MAP_FAILED)
		return -1;
	memory->log = log;
	return 0;
}

int log_open(struct log_memory *memory, struct fid_domain *domain, const char *path)
{
	const struct fi_pmemverbs_file_attr attr = {
		.path = direct_path(path),
		.len = LOG_SIZE,
		.flags = FI_PMEMVERBS_FILE_CREATE,
		.mode = 0600,
	};
	int ret;

	if (!attr.path)
		return 0;
	ret = fi_open_ops(&domain->fid, FI_PMEMVERBS_FILE_OPS, 0, (void **) &memory->ops, NULL);
	if (!ret)
		ret = memory->ops->open(domain, &attr, &memory->file);
	if (!ret)
		memory->log = memory->file->addr;
	return ret;
}

void log_close(struct log_memory *memory)
{
	if (memory->file)
		memory->ops->close(memory->file);
	else if (memory->log)
		munmap(memory->log, LOG_SIZE);
}

void log_record(char *record, uint64_t number)
{
	memset(record, 0, RECORD_SIZE);
	snprintf(record, RECORD_SIZE, "record %" PRIu64 ", written by the initiator", number);
}

int log_check(const struct log *log)
{
	char expected[RECORD_SIZE];

	if (log->tail > MAX_RECORDS) {
		printf("target: the tail is %" PRIu64 ", more than the log holds\n", log->tail);
		return 1;
	}
	for (uint64_t i = 0; i < log->tail; i++) {
		log_record(expected, i);
		if (memcmp(log->record[i], expected, RECORD_SIZE)) {
			printf("target: record %" PRIu64 " is not what was written\n", i);
			return 1;
		}
	}
	printf("target: the log has %" PRIu64 " records, all of them whole\n", log->tail);
	return 0;
}

int log_check_file(const char *path)
{
	struct log *log = calloc(1, LOG_SIZE);
	FILE *file = fopen(path, "r");
	int ret = 1;

	/* What a shorter file does not have is no record. */
	if (log && file)
		fread(log, 1, LOG_SIZE, file);
	if (log && file && !ferror(file))
		ret = log_check(log);
	else
		perror(path);
	if (file)
		fclose(file);
	free(log);
	return ret;
}
