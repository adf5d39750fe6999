/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lose_caches.c -- a power failure, for a server that has run with caches.c
 *
 * What was not flushed is in the memory MEMORY and not on DISK.  A line of the caches that was not
 * flushed may have been written back all the same, at any time: with KEEP, in percent, so many
 * are taken for that, by chance.  The others are lost.
 */
#include <argp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pmem.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "(unknown version)"
#endif

const char *argp_program_version = "lose_caches of pmemverbs " PACKAGE_VERSION;

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

struct settings {
	const char *memory, *disk;
	bool begin;
	int keep;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct settings *settings = state->input;
	char *end;

	if (key == ARGP_KEY_END && state->arg_num < 3)
		argp_error(state, "it needs MEMORY, DISK, and KEEP or \"begin\"");
	if (key != ARGP_KEY_ARG || state->arg_num > 2)
		return ARGP_ERR_UNKNOWN;
	if (state->arg_num == 0) {
		settings->memory = arg;
	} else if (state->arg_num == 1) {
		settings->disk = arg;
	} else if (strcmp(arg, "begin") == 0) {
		settings->begin = true;
	} else {
		settings->keep = (int) strtol(arg, &end, 10);
		if (end == arg || *end || settings->keep < 0 || settings->keep > 100)
			argp_error(state, "'%s' is no percentage, and not \"begin\"", arg);
	}
	return 0;
}

static const struct argp argp = {
	NULL,
	parse,
	"MEMORY DISK KEEP\nMEMORY DISK begin",
	"Lose what a server has not flushed, which has run with libcaches.so: what is in MEMORY "
	"and "
	"not on DISK.  KEEP percent of the lines are written back all the same, by chance.  With "
	"\"begin\", before all: copy MEMORY to DISK.",
	NULL,
	NULL,
	NULL};

int main(int argc, char **argv)
{
	struct settings settings = {0};
	struct connection_error error;
	struct rpc_pmem pmem;
	unsigned char *disk;
	size_t len = 0;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &settings);
	if (rpc_pmem_open(&pmem, settings.memory, 0, &error))
		die(error.text);
	if (settings.begin)
		len = pmem.memory.len < MAX_LEN ? pmem.memory.len : MAX_LEN;
	disk = map_disk(settings.disk, &len);
	if (!len || len % LINE || len > pmem.memory.len)
		die("the disk has another length than the memory");
	if (settings.begin)
		memcpy(disk, pmem.memory.base, len);
	else
		lose(pmem.memory.base, disk, len, settings.keep);
	munmap(disk, len);
	rpc_pmem_close(&pmem);
	return EXIT_SUCCESS;
}
