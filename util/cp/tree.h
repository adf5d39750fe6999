/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tree.h -- several files, and directories, are put over one connection
 *
 * Small files go in packs (pack.h), of which two are under way; others one after the other, each
 * as copy.h does it.  What fails is told of, and the rest goes on.
 */
#ifndef CP_TREE_H
#define CP_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "transfer.h"

/*
 * cp_tree_put -- sources to NAME at the target, or into it if it is empty or ends with a slash.
 * copy is connected; its files, bytes, same and failed say what was done.  0 if nothing has failed.
 */
int cp_tree_put(struct cp_copy *copy, char *const *sources, size_t count, const char *name,
		bool recursive);

#endif /* CP_TREE_H */
