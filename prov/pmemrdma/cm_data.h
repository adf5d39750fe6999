/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_data.h -- an application's data in requests for a connection and the answers
 *
 * A message of the connection manager always has the same length, filled up with zeros.  As
 * libfabric's verbs provider does, a byte in front of the data says how long they are.
 */
#ifndef PMR_CM_DATA_H
#define PMR_CM_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

/* What a request for a connection has room for, of an application's. */
#define PMR_CM_DATA_SIZE 55

struct pmr_cm_data {
	uint8_t size;
	uint8_t data[PMR_CM_DATA_SIZE];
};

/* pmr_cm_data_pack -- returns the length of it all, or -FI_EINVAL: it is too long */
int pmr_cm_data_pack(struct pmr_cm_data *to, const void *param, size_t len);

/*
 * pmr_cm_data_unpack -- what a peer has sent; returns how many bytes were copied.  More than was
 * received, or than fits, is never believed.
 */
size_t pmr_cm_data_unpack(const void *received, size_t len, void *to, size_t room);

/* pmr_cm_data_getopt -- how long they may be: the only option of endpoints, and of passive ones */
int pmr_cm_data_getopt(fid_t fid, int level, int name, void *value, size_t *len);

#endif /* PMR_CM_DATA_H */
