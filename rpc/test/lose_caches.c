/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lose_caches.c -- a power failure, for a server that has run with caches.c
 *
 * What was not flushed is in the memory MEMORY and not on DISK.  A line of the caches that was not
 * flushed may have been written back all the same, at any time: with KEEP, in percent, so many
 * are taken for that, by chance.  The others are lost.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pmem.h"

#define LINE 64U
/* Of devices there is more; what is behind it must not be flushed (caches.c). */
#define MAX_LEN ((size_t) 1 << 20)

static int die(const char *what)
{
	fprintf(stderr, "lose_caches: %s\n", what);
	exit(EXIT_FAILURE);
}

/* map_disk -- make it `len` bytes long, if that is not 0 */
static unsigned char *map_disk(const char *path, size_t *len)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;
	void *disk;

	if (fd < 0 || (*len && ftruncate(fd, (off_t) *len)) || fstat(fd, &st))
		die(path);
	*len = (size_t) st.st_size;
	disk = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (disk == MAP_FAILED)
		die(path);
	close(fd);
	return disk;
}

/* lose -- prints how many lines were lost, and how many were kept that were not flushed */
static void lose(unsigned char *memory, unsigned char *disk, size_t len, int keep)
{
	size_t lost = 0, kept = 0;

	srand((unsigned int) getpid());
	for (size_t at = 0; at < len; at += LINE) {
		if (!memcmp(memory + at, disk + at, LINE))
			continue;
		if (rand() % 100 < keep) {
			memcpy(disk + at, memory + at, LINE);
			kept++;
		} else {
			memcpy(memory + at, disk + at, LINE);
			lost++;
		}
	}
	printf("lose_caches: %zu lines lost, %zu kept\n", lost, kept);
}

int main(int argc, char **argv)
{
	struct rpc_error error;
	struct rpc_pmem pmem;
	unsigned char *disk;
	size_t len = 0;
	bool begin;

	if (argc != 4)
		die("usage: lose_caches MEMORY DISK KEEP; before all: lose_caches MEMORY DISK "
		    "begin");
	if (rpc_pmem_open(&pmem, argv[1], 0, &error))
		die(error.text);
	begin = !strcmp(argv[3], "begin");
	if (begin)
		len = pmem.memory.len < MAX_LEN ? pmem.memory.len : MAX_LEN;
	disk = map_disk(argv[2], &len);
	if (!len || len % LINE || len > pmem.memory.len)
		die("the disk has another length than the memory");
	if (begin)
		memcpy(disk, pmem.memory.base, len);
	else
		lose(pmem.memory.base, disk, len, atoi(argv[3]));
	munmap(disk, len);
	rpc_pmem_close(&pmem);
	return EXIT_SUCCESS;
}
