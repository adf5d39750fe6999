/* SPDX-License-Identifier: BSD-2-Clause */
/* spoil.c -- files of a target's that something happens to while peers write to them */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spoil.h"

#define PAGE 4096

static int map(struct own_file *file, size_t len)
{
	struct memory *memory = &file->memory;

	memory->len = memory->mapped = len;
	memory->base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC,
			    file->fd, 0);
	if (memory->base == MAP_FAILED)
		memory->base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (memory->base != MAP_FAILED)
		return 0;
	memory->base = NULL;
	own_file_close(file);
	return -1;
}

int own_file_open(struct own_file *file, const char *path)
{
	struct stat st;

	snprintf(file->path, sizeof(file->path), "%s", path);
	file->is_made = false;
	file->fd = open(path, O_RDWR | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &st)) {
		perror(path);
		return -1;
	}
	return map(file, st.st_size);
}

int own_file_make(struct own_file *file, const char *beside, unsigned int number, size_t len)
{
	int err;

	snprintf(file->path, sizeof(file->path), "%s.%d.%u", beside, (int) getpid(), number);
	file->is_made = true;
	file->fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file->fd < 0) {
		perror(file->path);
		return -1;
	}
	err = posix_fallocate(file->fd, 0, (off_t) len);
	if (err) {
		fprintf(stderr, "%s: %s\n", file->path, strerror(err));
		unlink(file->path);
		close(file->fd);
		return -1;
	}
	return map(file, len);
}

static void *sync_on(void *arg)
{
	struct own_file *file = arg;

	/* An error is what this is for: it is the agent that has to see it, too. */
	while (!atomic_load(&file->stop))
		(void) fsync(file->fd);
	return NULL;
}

int own_file_spoil(struct own_file *file, enum spoil how)
{
	switch (how) {
	case SPOIL_TRUNCATE:
		return ftruncate(file->fd, PAGE);
	case SPOIL_UNLINK:
		return unlink(file->path);
	case SPOIL_SYNC:
		atomic_store(&file->stop, false);
		if (pthread_create(&file->syncer, NULL, sync_on, file))
			return -1;
		file->has_syncer = true;
		return 0;
	}
	return -1;
}

void own_file_close(struct own_file *file)
{
	if (file->has_syncer) {
		atomic_store(&file->stop, true);
		pthread_join(file->syncer, NULL);
	}
	file->has_syncer = false;
	memory_unmap(&file->memory);
	if (file->is_made)
		unlink(file->path);
	close(file->fd);
}
