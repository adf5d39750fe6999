/* SPDX-License-Identifier: BSD-2-Clause */
/* device.c -- the RDMA devices of this machine; found once */
#include "device.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <rdma/fi_errno.h>
#include <rdma/rdma_cma.h>

#include "flush.h"
#include "provider.h"

static struct pmr_device *devices;

/* librdmacm closes a device whose last reference is gone: these stay, and so do the devices. */
static struct ibv_context **references;

/* try_inline -- can a queue pair send so much from its work requests? */
static bool try_inline(struct pmr_device *device, struct ibv_pd *pd, struct ibv_cq *cq, size_t len)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = (uint32_t) device->max_iov,
			.max_recv_sge = (uint32_t) device->max_iov,
			.max_inline_data = (uint32_t) len},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		return false;
	ibv_destroy_qp(qp);
	return true;
}

/* find_inject_size -- no attribute of a device says it; false: it can't be found out */
static bool find_inject_size(struct pmr_device *device)
{
	struct ibv_pd *pd = ibv_alloc_pd(device->verbs);
	struct ibv_cq *cq = pd ? ibv_create_cq(device->verbs, 1, NULL, NULL, 0) : NULL;
	size_t len = PMR_MOST_INJECT;

	while (cq && len && !try_inline(device, pd, cq, len))
		len /= 2;
	device->inject_size = len;
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
	return cq;
}

static bool has_odp(const struct ibv_device_attr_ex *attr)
{
	const uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;

	return (attr->odp_caps.general_caps & IBV_ODP_SUPPORT) &&
	       (attr->odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

/* find_abilities -- of a device that does not tell, none */
static void find_abilities(struct pmr_device *device)
{
	struct ibv_device_attr_ex attr = {0};

	if (ibv_query_device_ex(device->verbs, NULL, &attr))
		return;
	device->odp = has_odp(&attr);
	device->flush_ways = pmr_flush_ways(&attr);
}

/* find_entry -- of the device in sysfs; 0: there is none.  false: it can't be found out */
static bool find_entry(const struct pmr_device *device, ino_t *entry)
{
	struct stat file;

	*entry = 0;
	if (!stat(device->verbs->device->ibdev_path, &file))
		*entry = file.st_ino;
	return *entry || errno == ENOENT;
}

/* query -- false: the device can't be used */
static bool query(struct pmr_device *device)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	int sges;

	if (device->verbs->device->transport_type != IBV_TRANSPORT_IB ||
	    ibv_query_device(device->verbs, &device->attr) ||
	    ibv_query_port(device->verbs, 1, &port) || ibv_query_gid(device->verbs, 1, 0, &gid))
		return false;
	/* The same in front as no fabric of libfabric's verbs has. */
	snprintf(device->fabric, sizeof(device->fabric), "RDMA-0x%" PRIx64,
		 be64toh(gid.global.subnet_prefix));
	device->max_msg_size = port.max_msg_sz;
	sges = device->attr.max_sge;
	if (device->attr.max_sge_rd && device->attr.max_sge_rd < sges)
		sges = device->attr.max_sge_rd;
	device->max_iov = sges < PMR_DEFAULT_IOV ? (size_t) sges : PMR_DEFAULT_IOV;
	find_abilities(device);
	find_entry(device, &device->entry);
	return find_inject_size(device);
}

static void find_all(void)
{
	struct pmr_device **tail = &devices, *device;

	references = rdma_get_devices(NULL);
	if (!references) {
		PMR_INFO(FABRIC, "there is no RDMA device (%s)\n", strerror(errno));
		return;
	}
	for (size_t i = 0; references[i]; i++) {
		device = calloc(1, sizeof(*device));
		if (!device)
			break;
		device->verbs = references[i];
		if (query(device)) {
			*tail = device;
			tail = &device->next;
			continue;
		}
		PMR_INFO(FABRIC, "%s is not used\n", ibv_get_device_name(references[i]->device));
		free(device);
	}
}

const struct pmr_device *pmr_devices(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_all);
	return devices;
}

const struct pmr_device *pmr_device_of(const struct ibv_context *verbs)
{
	const struct pmr_device *device = pmr_devices();

	while (device && device->verbs != verbs)
		device = device->next;
	return device;
}

const struct pmr_device *pmr_device_named(const char *name)
{
	const struct pmr_device *device = pmr_devices();

	while (device && strcmp(pmr_device_name(device), name) != 0)
		device = device->next;
	return device;
}

int pmr_device_freed(const struct pmr_device *device, int err)
{
	ino_t entry;

	if ((err == EIO || err == ENODEV) && device->entry && find_entry(device, &entry) &&
	    entry != device->entry)
		return 0;
	return -err;
}
