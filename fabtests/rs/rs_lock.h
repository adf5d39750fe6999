/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rs_lock.h -- the same protocol with locks, for comparison
 *
 * Without pointers that can be swung, a record is overwritten where it is, by one client at a time.
 * An operation takes four round trips: lock, read, write, unlock; a read that finds equal copies
 * takes three.  This is a reference, and no store to use: whoever dies with a lock keeps it until
 * the target starts again, and a write that is interrupted may leave a torn record, with which the
 * target does not start.  A block must be used in one way only.
 */
#ifndef PMEM_RS_LOCK_H
#define PMEM_RS_LOCK_H

#include "rs_client.h"

/* As rs_get and rs_put. */
int rs_lock_get(struct rs_client *client, uint64_t block);
int rs_lock_put(struct rs_client *client, uint64_t block);

#endif /* PMEM_RS_LOCK_H */
