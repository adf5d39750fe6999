/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch.h -- directories are got from a target */
#ifndef CP_FETCH_H
#define CP_FETCH_H

#include "transfer.h"

/*
 * cp_fetch -- what has that name at the target to path here: a file, or a directory with all that
 * is below it.  What fails is told of, counted in copy->failed, and the rest goes on.  0, or -1:
 * the connection is lost.
 */
int cp_fetch(struct cp_copy *copy, const char *name, const char *path);

#endif /* CP_FETCH_H */
