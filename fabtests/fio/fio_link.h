/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fio_link.h -- the two ends of fio's engine libfabric-pmem, without anything of fio
 *
 * The target lends a part of a file, or of device DAX, to all who connect.  It sends no message
 * and gets none: the connection's data say where the memory is, the provider does all the rest.
 *
 * A client reads and writes there, many operations at a time.  Each has a context, the caller's,
 * by which fio_client_poll tells that it is over.
 *
 * Functions return a negative fi_errno after an error, and have printed what it takes to
 * understand it; where it says so, they have not.
 */
#ifndef PMEM_FIO_LINK_H
#define PMEM_FIO_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fio_client;
struct fio_target;

/* Where to; NULL: whatever libfabric finds */
struct fio_place {
	const char *server; /* a target: the address to listen on */
	const char *port;
	const char *domain; /* the device */
};

/* An operation that is over */
struct fio_done {
	void *context;
	int err; /* errno */
};

/* fio_client_open -- connect; waits some seconds for a target that does not listen yet */
int fio_client_open(struct fio_client **client, const struct fio_place *place);

/* fio_client_close -- give up what is under way, disconnect, and free */
void fio_client_close(struct fio_client *client);

/* fio_client_size -- how much the target lends */
uint64_t fio_client_size(const struct fio_client *client);

/* fio_client_limit -- the longest operation */
size_t fio_client_limit(const struct fio_client *client);

/* fio_client_memory -- all operations are from and to this memory */
int fio_client_memory(struct fio_client *client, void *buf, size_t len);

enum fio_kind {
	FIO_KIND_READ,
	FIO_KIND_WRITE,   /* over when the data are visible at the target */
	FIO_KIND_DURABLE, /* a write; over when it and all earlier writes are durable there */
	FIO_KIND_COMMIT,  /* no data; over when all earlier writes are durable there */
};

/*
 * fio_client_post -- start one, of len bytes at that place of the target's memory, which has to
 * lie inside; prints nothing.  -FI_EAGAIN: there is no room, poll first.
 */
ssize_t fio_client_post(struct fio_client *client, enum fio_kind kind, void *context, void *buf,
			size_t len, uint64_t offset);

/*
 * fio_client_poll -- which operations are over, up to max.  None: waits for one, if that is not
 * 0, for so long.
 */
int fio_client_poll(struct fio_client *client, struct fio_done *done, int max, int timeout_ms);

/* fio_target_open -- map so many bytes (path NULL: of no file) and listen */
int fio_target_open(struct fio_target **target, const struct fio_place *place, const char *path,
		    size_t size, unsigned int clients);

/* fio_target_serve -- let in who comes, for so long; 1: so many clients have come and gone */
int fio_target_serve(struct fio_target *target, int timeout_ms);
void fio_target_close(struct fio_target *target);

/* fio_errno -- of a negative fi_errno; libfabric has some that are none of the system's */
int fio_errno(ssize_t ret);

#endif /* PMEM_FIO_LINK_H */
