/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inline.h -- functions that have to be inlined, since where they are called most of what they do
 * is known not to be needed: tools/count-instructions shows the difference
 */
#ifndef PMV_INLINE_H
#define PMV_INLINE_H

#define PMV_ALWAYS_INLINE __attribute__((always_inline)) static inline

#endif /* PMV_INLINE_H */
