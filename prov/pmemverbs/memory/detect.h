/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * detect.h -- what survives a power failure in a range of addresses
 *
 * Only what can be proven is promised.  Where the sources disagree the weaker
 * domain counts.  Where they say nothing the memory is refused; then
 * FI_PMEMVERBS_DOMAIN can declare what survives.  PMV_WSP is never detected,
 * because no system describes itself well enough to prove it.
 */
#ifndef PMV_DETECT_H
#define PMV_DETECT_H

#include <stdbool.h>
#include <stddef.h>

#include "memory/mapping.h"

/*
 * pmv_detect -- find out what backs [addr, addr + len) and what survives a power
 * failure there; of several mappings the weakest counts.
 *
 * Returns 0 or one of these errors.  Then mem->persist is PMV_NONE, and mem->what says
 * why and what to do:
 *   -FI_EINVAL      never durable: anonymous memory, a private mapping, no length
 *   -FI_EFAULT      part of the range is not mapped
 *   -FI_EOPNOTSUPP  volatile, or not known to be durable
 *   -FI_EIO         the kernel's description of the memory can't be read
 *   -FI_ENOMEM      no memory to look at it
 * Even then mem->backing, numa_node and unnamed say what is known.  Later changes to
 * the mapping (munmap, truncate) are not noticed.
 */
int pmv_detect(const void *addr, size_t len, struct pmv_mem *mem);

/*
 * pmv_detect_may_fault -- could a page of the range turn out to have no memory?  That is
 * possible where a file or a device is mapped, and assumed where nothing is known.
 */
bool pmv_detect_may_fault(const void *addr, size_t len);

#endif /* PMV_DETECT_H */
