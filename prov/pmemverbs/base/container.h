/* SPDX-License-Identifier: BSD-2-Clause */
/* container.h -- from a member to the structure that it is in */
#ifndef PMV_CONTAINER_H
#define PMV_CONTAINER_H

#include <stddef.h>

#define pmv_container_of(ptr, type, member) ((type *) ((char *) (ptr) -offsetof(type, member)))

#endif /* PMV_CONTAINER_H */
