/* SPDX-License-Identifier: BSD-2-Clause */
/* dice.h -- random numbers, the same ones in every run of a test: xorshift64* */
#ifndef DICE_H
#define DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* dice_bits -- all 64 of them are random; the state is what the test was seeded with, and not 0 */
static inline uint64_t dice_bits(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* dice -- a number from 0 to sides - 1, which is less than 2^31 */
static inline unsigned int dice(uint64_t *state, size_t sides)
{
	return (unsigned int) ((dice_bits(state) >> 33) % sides);
}

static inline bool one_in(uint64_t *state, size_t sides)
{
	return !dice(state, sides);
}

/*
 * DICE_RUNS -- how many random programs are tried, of so many: under a sanitizer, which is slow,
 * a sixteenth.  What it looks for are faults of the code, and one program after another takes the
 * same code; faults of the rules are found without it.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DICE_RUNS(count) ((count) / 16)
#else
#define DICE_RUNS(count) (count)
#endif

#endif /* DICE_H */
