/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_data.c -- a byte of length, and the data; cm_data.h says why */
#include "cm_data.h"

#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

int pmr_cm_data_pack(struct pmr_cm_data *to, const void *param, size_t len)
{
	if (len > sizeof(to->data) || (len && !param))
		return -FI_EINVAL;
	to->size = (uint8_t) len;
	if (len)
		memcpy(to->data, param, len);
	return (int) (len + 1);
}

size_t pmr_cm_data_unpack(const void *received, size_t len, void *to, size_t room)
{
	size_t size;

	if (!received || !len)
		return 0;
	size = *(const uint8_t *) received;
	if (size > len - 1)
		size = len - 1;
	if (size > room)
		size = room;
	memcpy(to, (const uint8_t *) received + 1, size);
	return size;
}

int pmr_cm_data_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	(void) fid;
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE)
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(size_t))
		return -FI_ETOOSMALL;
	*(size_t *) value = PMR_CM_DATA_SIZE;
	*len = sizeof(size_t);
	return 0;
}
