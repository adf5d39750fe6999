/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h -- the RDMA devices of this machine, and what they can do */
#ifndef PMR_DEVICE_H
#define PMR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

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

static inline const char *pmr_device_name(const struct pmr_device *device)
{
	return ibv_get_device_name(device->verbs->device);
}

#endif /* PMR_DEVICE_H */
