/* SPDX-License-Identifier: BSD-2-Clause */
/* info.h -- what a device offers for an application's hints */
#ifndef PMR_INFO_H
#define PMR_INFO_H

#include <stdbool.h>

#include <rdma/fabric.h>

#include "device.h"

struct sockaddr;

/* pmr_info_may_serve -- can the device do all that the hints ask for?  NULL asks for nothing. */
bool pmr_info_may_serve(const struct pmr_device *device, uint32_t version,
			const struct fi_info *hints);

/* pmr_info_of -- what is offered: all that was asked for; NULL: no memory */
struct fi_info *pmr_info_of(const struct pmr_device *device, uint32_t version,
			    const struct fi_info *hints);

/* pmr_info_set_addresses -- copies; either may be NULL.  false: no memory */
bool pmr_info_set_addresses(struct fi_info *info, const struct sockaddr *src,
			    const struct sockaddr *dest);

/* pmr_info_of_request -- of a request for a connection to a passive endpoint; NULL: no memory */
struct fi_info *pmr_info_of_request(const struct fi_info *passive, const struct pmr_device *device,
				    const struct sockaddr *src, const struct sockaddr *dest);

#endif /* PMR_INFO_H */
