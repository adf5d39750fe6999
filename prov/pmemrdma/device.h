/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h -- the RDMA devices of this machine, and what they can do */
#ifndef PMR_DEVICE_H
#define PMR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

/* A device, which stays open until the process ends. */
struct pmr_device {
	struct pmr_device *next;
	struct ibv_context *verbs;
	struct ibv_device_attr attr;
	char fabric[32]; /* its fabric's name */
	size_t inject_size;
	size_t max_msg_size;
	size_t max_iov;
	unsigned flush_ways; /* RDMA FLUSH: enum pmemrdma_flush */
	bool odp;            /* it takes memory that is not pinned, for all that is done here */
	ino_t entry;         /* of it in sysfs; 0: there is none */
};

/* What an endpoint has if nothing else is asked for. */
#define PMR_DEFAULT_SIZE 384
#define PMR_DEFAULT_IOV 4
#define PMR_MOST_INJECT 256

/* pmr_devices -- the first one of them, or NULL: there is none */
const struct pmr_device *pmr_devices(void);

/* pmr_device_of -- that of this context, or of this name; NULL: there is none */
const struct pmr_device *pmr_device_of(const struct ibv_context *verbs);
const struct pmr_device *pmr_device_named(const char *name);

/*
 * pmr_device_freed -- has an object gone that had to go?  0 or a negative fi_errno, from what the
 * device said, a positive errno.
 *
 * The kernel takes all objects from a process whose device is removed, and from then on answers
 * EIO or ENODEV whatever is asked.  But it answers so some time before it has taken them, and a
 * device that is there may fail with EIO, too.  It is through when the device has no entry in sysfs
 * any more: that goes last.  A device of the same name later has another one.  What libibverbs has
 * of such an object stays with the process.
 */
int pmr_device_freed(const struct pmr_device *device, int err);

static inline const char *pmr_device_name(const struct pmr_device *device)
{
	return ibv_get_device_name(device->verbs->device);
}

#endif /* PMR_DEVICE_H */
