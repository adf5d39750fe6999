/* SPDX-License-Identifier: BSD-2-Clause */
/* locked.h -- memory that is registered for a NIC is locked, and of that a process may have little
 */
#ifndef PMV_LOCKED_H
#define PMV_LOCKED_H

#include <stddef.h>

/* pmv_locked_explain -- if that can be why a core has not registered so many bytes, say so; returns
 * err */
int pmv_locked_explain(int err, size_t len);

#endif /* PMV_LOCKED_H */
