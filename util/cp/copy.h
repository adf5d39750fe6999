/* SPDX-License-Identifier: BSD-2-Clause */
/* copy.h -- one copy, put or get, over a connection that is there */
#ifndef CP_COPY_H
#define CP_COPY_H

#include "transfer.h"

/* 0: it is complete and durable, and the checksums agree.  Else an error was told. */
int cp_copy_put(struct cp_copy *copy);
int cp_copy_get(struct cp_copy *copy);

#endif /* CP_COPY_H */
