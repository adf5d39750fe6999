/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * beneath.h -- names that a peer sends lead to nothing but what is below one directory
 *
 * The kernel sees to it (openat2, RESOLVE_BENEATH): without symbolic links, on the same file
 * system.
 */
#ifndef CP_BENEATH_H
#define CP_BENEATH_H

#include <stdint.h>

#include "proto.h"

/* cp_open_beneath -- a descriptor, or -1 and errno */
int cp_open_beneath(int dir, const char *name, uint64_t flags);

/* cp_split_name -- the directory that a name is in, and what it is called there; or why not */
const char *cp_split_name(const char *name, char dir[CP_TEXT], const char **base);

/* cp_refused_open -- what an errno of cp_open_beneath means */
const char *cp_refused_open(int err);

#endif /* CP_BENEATH_H */
