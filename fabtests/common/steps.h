/* SPDX-License-Identifier: BSD-2-Clause */
/* steps.h -- short names for what chains are made of */
#ifndef PMEM_STEPS_H
#define PMEM_STEPS_H

#include <rdma/fi_ext_pmemverbs.h>

#define STEP(what, ...) ((struct fi_pmemverbs_step){.kind = FI_PMEMVERBS_STEP_##what, __VA_ARGS__})

#define CONDITIONAL FI_PMEMVERBS_STEP_CONDITIONAL
#define REDIRECT FI_PMEMVERBS_STEP_REDIRECT
#define AT_WORD FI_PMEMVERBS_STEP_AT_WORD
#define FROM_WORD FI_PMEMVERBS_STEP_FROM_WORD
#define FROM_MEMORY FI_PMEMVERBS_STEP_FROM_MEMORY
#define EXPECT_WORD FI_PMEMVERBS_STEP_EXPECT_WORD

#endif /* PMEM_STEPS_H */
