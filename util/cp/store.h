/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h -- what a target serves: the files below one directory, or a device
 *
 * Nothing that a client sends leads out of the directory: names are opened by the kernel with
 * openat2's RESOLVE_BENEATH, without symbolic links, on the same file system; and only
 * plain files are.  A client has one object at a time, and a mapping of its own of it.
 *
 * Of a device, a name is OFFSET or OFFSET+LENGTH in bytes (K, M, G, T may follow); none is
 * the whole device.
 */
#ifndef CP_STORE_H
#define CP_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "part.h"
#include "proto.h"

#define CP_MAX_CLIENTS 256

struct cp_store {
	const char *path;
	int fd;
	bool device;
	bool read_only;
	uint64_t size;      /* of the device */
	uint64_t alignment; /* of mappings of it */
	/* These may change while clients are there. */
	_Atomic uint64_t max_file;
	_Atomic uint64_t max_total; /* of what clients could write to, from the start on */
	pthread_mutex_t lock;
	uint64_t total;
	_Atomic uint64_t max_memory; /* of files that are in memory while they are put: direct.h */
	uint64_t memory;
	struct {
		uint64_t start, end;
	} written[CP_MAX_CLIENTS]; /* parts of the device that a client writes to */
};

struct cp_object {
	struct cp_store *store;
	unsigned int client;
	int root; /* names are relative to it */
	bool writing;
	bool hidden; /* part has the file */
	struct cp_part part;
	struct cp_keep keep;
	int dir;
	int fd; /* of a file that is read */
	struct stat st;
	char *map;
	size_t map_len;
	char *base; /* what the client may use */
	uint64_t len;
	uint64_t size;   /* of its data */
	uint64_t charge; /* what closing it gives back: nobody can have written there */
	char reason[256];
	/* What was open, until the endpoint is closed: cp_object_release. */
	struct {
		char *map;
		size_t len;
	} old[CP_MAX_OPENS];
	unsigned int num_old;
};

/* cp_store_open -- 0, or it has said on standard error why not */
int cp_store_open(struct cp_store *store, const char *path);

/* cp_store_charge -- bytes that a client is about to put.  0, or an errno and a reason. */
int cp_store_charge(struct cp_store *store, uint64_t size, char *reason, size_t len);

/* cp_store_refund -- what was charged, and has not become a file */
void cp_store_refund(struct cp_store *store, uint64_t size);

/*
 * cp_object_put, cp_object_get -- open what a request names, for the client with that number.
 * 0, or an errno and a reason.  The part that is there already: object->part.state.
 */
int cp_object_put(struct cp_object *object, const struct cp_message *request);
int cp_object_get(struct cp_object *object, const struct cp_message *request);

/*
 * cp_object_digest -- of so many bytes of its memory.  tick is called now and then; if it returns
 * anything but 0, that is the end.  0 or an errno and a reason.
 */
int cp_object_digest(struct cp_object *object, uint64_t len, uint8_t *digest,
		     int (*tick)(void *arg, uint64_t done), void *arg);

/* cp_object_is_whole -- is its file as long as it was? */
bool cp_object_is_whole(const struct cp_object *object);

/* cp_object_finish -- the data are complete: make them durable, give the file its name */
int cp_object_finish(struct cp_object *object);

/* cp_object_forget -- the data are wrong: the next copy starts over */
void cp_object_forget(struct cp_object *object);

/*
 * cp_object_close -- its addresses are kept: what the peer has begun may still go to and from them
 * cp_object_release -- no more, now that the endpoint is closed
 */
void cp_object_close(struct cp_object *object);
void cp_object_release(struct cp_object *object);

/* cp_store_guard -- from now on a page that has no memory ends a copy, not the process */
int cp_store_guard(void);

#endif /* CP_STORE_H */
