/* SPDX-License-Identifier: BSD-2-Clause */
/* list.h -- what is below a directory of a target, as packs of records without data */
#ifndef CP_LIST_H
#define CP_LIST_H

#include <sys/stat.h>

#include "pack.h"

struct cp_list;

/* cp_list_begin -- of a directory below root, and what it is; NULL and errno: it is none */
struct cp_list *cp_list_begin(int root, const char *name, struct stat *st);

/*
 * cp_list_fill -- the next records, at most CP_OFFERS, into an empty pack: their number; 0 at the
 * end.  Names are relative to the directory.  A directory is followed by what is in it, and by
 * its CP_DIRECTORY_END.
 */
unsigned int cp_list_fill(struct cp_list *list, struct cp_pack *pack);

void cp_list_end(struct cp_list *list);

#endif /* CP_LIST_H */
