/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h -- what processes did since the last look, a line each */
#ifndef TABLE_H
#define TABLE_H

#include "gather.h"

/*
 * table_print -- the rates between two looks, which are so many seconds apart.  before: NULL, or a
 * process that it does not have: since the process began, as numbers and not rates.
 */
void table_print(const struct texts *before, const struct texts *now, double seconds);

#endif /* TABLE_H */
