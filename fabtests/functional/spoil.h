/* SPDX-License-Identifier: BSD-2-Clause */
/* spoil.h -- files of a target's that something happens to while peers write to them */
#ifndef PMEM_SPOIL_H
#define PMEM_SPOIL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../common/memory.h"

enum spoil {
	SPOIL_TRUNCATE, /* to its first page */
	SPOIL_UNLINK,
	SPOIL_SYNC, /* a thread calls fsync on the mapped descriptor, again and again */
};

struct own_file {
	struct memory memory;
	char path[256];
	int fd;
	bool is_made;
	pthread_t syncer;
	bool has_syncer;
	atomic_bool stop;
};

/*
 * own_file_open -- map one that is there, or make one beside another (of all targets
 * this one's, and its number-th); 0 or -1
 */
int own_file_open(struct own_file *file, const char *path);
int own_file_make(struct own_file *file, const char *beside, unsigned int number, size_t len);
int own_file_spoil(struct own_file *file, enum spoil how);
void own_file_close(struct own_file *file);

#endif /* PMEM_SPOIL_H */
