/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.c -- the target's memory, and patterns to tell what was written there
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../../util/sync_name.h"
#include "memory.h"

static int complain(const char *path, const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", path, what, strerror(err));
	return -1;
}

/* dax_attribute -- one number that the kernel tells of a device DAX */
static size_t dax_attribute(dev_t dev, const char *name, size_t otherwise)
{
	unsigned long long value = otherwise;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/%s", major(dev), minor(dev), name);
	file = fopen(path, "r");
	if (!file)
		return otherwise;
	if (fscanf(file, "%llu", &value) != 1)
		value = otherwise;
	fclose(file);
	return value;
}

/* map_dax -- a device DAX can only be mapped in multiples of its alignment */
static int map_dax(struct memory *mem, const char *path, int fd, const struct stat *st)
{
	size_t align = dax_attribute(st->st_rdev, "align", 2 << 20);
	size_t size = dax_attribute(st->st_rdev, "size", SIZE_MAX);

	mem->mapped = (mem->len + align - 1) / align * align;
	if (mem->mapped > size) {
		fprintf(stderr, "%s: %zu bytes needed, it has %zu\n", path, mem->mapped, size);
		return -1;
	}
	mem->base = mmap(NULL, mem->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return mem->base == MAP_FAILED ? complain(path, "mmap", errno) : 0;
}

/* map_file -- with MAP_SYNC where the file system has it (DAX), else a plain mapping */
static int map_file(struct memory *mem, const char *path, int fd, const struct stat *st)
{
	int err;

	if ((size_t) st->st_size < mem->len) {
		err = posix_fallocate(fd, 0, mem->len);
		if (err)
			return complain(path, "posix_fallocate", err);
	}
	/* What peers commit is of no use if the file is not found after a power failure. */
	err = -sync_name(path, fd);
	if (err)
		return complain(path, "fsync", err);
	mem->is_file = true;
	mem->mapped = mem->len;
	mem->base =
		mmap(NULL, mem->len, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
	if (mem->base == MAP_FAILED)
		mem->base = mmap(NULL, mem->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return mem->base == MAP_FAILED ? complain(path, "mmap", errno) : 0;
}

/* find_directory -- of a path, as it really is; NULL: that has been printed */
static char *find_directory(const char *path)
{
	char *copy = strdup(path), *dir = copy ? realpath(dirname(copy), NULL) : NULL;

	if (!dir)
		complain(path, "its directory", errno);
	free(copy);
	return dir;
}

/* may_create -- is this a place for a file?  What is missing in /dev is a device. */
static bool may_create(const char *path)
{
	char *dir = find_directory(path);
	bool in_dev = dir && (!strcmp(dir, "/dev") || !strncmp(dir, "/dev/", 5));
	bool may = dir && !in_dev && !access(dir, W_OK | X_OK);

	if (in_dev)
		fprintf(stderr,
			"%s: there is no such device, and no file is made below /dev. ndctl list "
			"shows\nthe machine's persistent memory; a file on a disk does as well.\n",
			path);
	else if (dir && !may)
		complain(path, dir, errno);
	free(dir);
	return may;
}

static int open_path(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) {
		if (!may_create(path))
			return -1;
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	}
	return fd < 0 ? complain(path, "open", errno) : fd;
}

#define DIRECT "direct:"

static bool is_direct(const char *name)
{
	return !strncmp(name, DIRECT, strlen(DIRECT));
}

const char *memory_direct_path(const char *name)
{
	return name && is_direct(name) ? name + strlen(DIRECT) : NULL;
}

int memory_check(const char *path)
{
	struct stat st;

	if (is_direct(path))
		path += strlen(DIRECT);
	if (stat(path, &st))
		return errno != ENOENT ? complain(path, "stat", errno) : may_create(path) ? 0 : -1;
	if (!S_ISREG(st.st_mode) &&
	    !(S_ISCHR(st.st_mode) && dax_attribute(st.st_rdev, "align", 0))) {
		fprintf(stderr, "%s: neither a file nor a device DAX\n", path);
		return -1;
	}
	return access(path, R_OK | W_OK) ? complain(path, "access", errno) : 0;
}

static int map_path(struct memory *mem, const char *path)
{
	struct stat st;
	int fd, ret;

	fd = open_path(path);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st))
		ret = complain(path, "fstat", errno);
	else if (S_ISCHR(st.st_mode))
		ret = map_dax(mem, path, fd, &st);
	else
		ret = map_file(mem, path, fd, &st);
	close(fd);
	return ret;
}

static int map_anonymous(struct memory *mem)
{
	mem->mapped = mem->len;
	mem->base =
		mmap(NULL, mem->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mem->base == MAP_FAILED ? complain("anonymous memory", "mmap", errno) : 0;
}

int memory_map(struct memory *mem, const char *path, size_t len)
{
	int ret;

	*mem = (struct memory){.len = len};
	ret = path ? map_path(mem, path) : map_anonymous(mem);
	if (ret)
		mem->base = NULL;
	return ret;
}

void memory_unmap(struct memory *mem)
{
	if (mem->file)
		mem->close(mem);
	else if (mem->mapped)
		munmap(mem->base, mem->mapped);
	mem->base = NULL;
	mem->file = NULL;
}

/* mix -- the finalizer of SplitMix64: every input bit reaches every byte */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static uint64_t pattern_word(uint64_t seed, size_t offset)
{
	return mix(seed * 0x100000001b3ULL + offset / 8);
}

void pattern_fill(void *buf, size_t len, uint64_t seed, size_t offset)
{
	unsigned char *bytes = buf;
	uint64_t word = pattern_word(seed, offset);
	size_t i;

	for (i = 0; i < len; i++, offset++) {
		if (offset % 8 == 0)
			word = pattern_word(seed, offset);
		bytes[i] = word >> (offset % 8 * 8);
	}
}

size_t pattern_check(const void *buf, size_t len, uint64_t seed, size_t offset)
{
	/* volatile: another processor or a NIC may write there meanwhile */
	const volatile unsigned char *bytes = buf;
	uint64_t word = pattern_word(seed, offset);
	size_t i;

	for (i = 0; i < len; i++, offset++) {
		if (offset % 8 == 0)
			word = pattern_word(seed, offset);
		if (bytes[i] != (unsigned char) (word >> (offset % 8 * 8)))
			break;
	}
	return i;
}
