/* SPDX-License-Identifier: BSD-2-Clause */
/* merge.h -- the texts of several processes as one: the samples of a metric have to stand together
 */
#ifndef MERGE_H
#define MERGE_H

#include <stdio.h>

#include "gather.h"

/* merge -- print one text.  Each metric has its first process' words. */
void merge(const struct texts *texts, FILE *out);

#endif /* MERGE_H */
