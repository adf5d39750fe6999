/* SPDX-License-Identifier: BSD-2-Clause */
/* verify.h -- is a file here the same as the target's?  Nothing is written, and no data are moved
 */
#ifndef CP_VERIFY_H
#define CP_VERIFY_H

#include "transfer.h"

/* 0: they are the same.  Else an error was told.  The target's name is a put's, or a get's. */
int cp_verify(struct cp_copy *copy, bool putting);

#endif /* CP_VERIFY_H */
