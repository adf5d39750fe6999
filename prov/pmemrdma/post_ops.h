/* SPDX-License-Identifier: BSD-2-Clause */
/* post_ops.h -- what fi_open_ops gives */
#ifndef PMR_POST_OPS_H
#define PMR_POST_OPS_H

#include "pmemrdma_post.h"

extern const struct pmemrdma_post_ops pmr_post_ops;

#endif /* PMR_POST_OPS_H */
