/* SPDX-License-Identifier: BSD-2-Clause */
/* relax.h -- for loops that look without pause */
#ifndef PMV_RELAX_H
#define PMV_RELAX_H

/* pmv_relax -- another processor, or another thread of this one, changes what the loop waits for */
static inline void pmv_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* PMV_RELAX_H */
