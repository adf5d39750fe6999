/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * medium.h -- whether what is written to files of a directory can be made durable there
 *
 * A file that is lent to a client is registered as persistent memory, and the provider refuses it
 * where nothing is durable.  Files that come in packs are written and synced instead, and any file
 * system takes that.  So the provider is asked first, with a file that goes again.
 */
#ifndef CP_MEDIUM_H
#define CP_MEDIUM_H

#include "direct.h"

/* cp_medium_check -- 0, or an errno and the reason; tick: direct.h */
int cp_medium_check(struct node *node, int root, cp_tick *tick, void *arg, char reason[CP_TEXT]);

#endif /* CP_MEDIUM_H */
