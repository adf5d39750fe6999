/* SPDX-License-Identifier: BSD-2-Clause */
/* getinfo.h -- what is offered to whom */
#ifndef PMR_GETINFO_H
#define PMR_GETINFO_H

#include <rdma/fabric.h>

/* As fi_getinfo.  Nothing is offered unless the application, or FI_PROVIDER, names this provider.
 */
int pmr_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info);

#endif /* PMR_GETINFO_H */
