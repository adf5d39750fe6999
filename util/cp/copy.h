/* SPDX-License-Identifier: BSD-2-Clause */
/* copy.h -- one copy, put or get, over a connection that is there */
#ifndef CP_COPY_H
#define CP_COPY_H

#include <xxhash.h>

#include "transfer.h"

/* 0: it is complete and durable, and the checksums agree.  Else an error was told. */
int cp_copy_put(struct cp_copy *copy);
/* The path's last part names it in the directory, which is that of the path with AT_FDCWD. */
int cp_copy_get(struct cp_copy *copy, int into);

/* cp_hash_part -- the beginning of a file, with the link's memory; -1: why was told */
int cp_hash_part(struct cp_copy *copy, int fd, uint64_t len, XXH3_state_t *hash, uint8_t *digest);

#endif /* CP_COPY_H */
